"""The runner of the conformance kit: cases and an implementation's answers in, verdicts out.

The kit's README describes cases and answers. An implementation is a command, a server or a Python
module, behind an `Adapter`. It may be broken, so each answer has one deadline and one limit of
bytes, and whatever comes in place of an answer is a failed case.
"""

from __future__ import annotations

import contextlib
import difflib
import http.client
import importlib
import importlib.util
import io
import itertools
import json
import operator
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

from . import FOLDER
from .tokens import FIRST_SPECIAL, text_of, with_date

__all__ = [
    "LEVELS",
    "Adapter",
    "AdapterError",
    "Case",
    "CommandAdapter",
    "KitError",
    "ModuleAdapter",
    "Suite",
    "UrlAdapter",
    "Verdict",
    "differing_lines",
    "judge",
    "read_suite",
]

Json: TypeAlias = dict[str, Any]
_Comparison: TypeAlias = Callable[[Any, Any], bool]
_Result = TypeVar("_Result")

_MOST_BYTES = 2**18
"""The longest answer; the longest expected one has 6,000 bytes."""
_MOST_LEVELS = 64
"""The deepest nesting of an answer."""
_MOST_LINES = 500
"""The most lines of an answer that are compared side by side; the time is quadratic."""
_SHOWN = 500
"""The longest problem, in characters."""

LEVELS = ("format", "reference", "recovery", "chat", "training")


class KitError(Exception):
    """The kit cannot run: it has no cases, no such rule, or no implementation to test."""


@dataclass(frozen=True)
class Case:
    """A case of the kit; `level` is the level of its file."""

    id: str
    rule: str
    level: str
    operation: str
    input: Json
    expected: Json

    @property
    def request(self) -> Json:
        """The request for an adapter."""
        return {
            "id": self.id,
            "level": self.level,
            "operation": self.operation,
            "input": self.input,
        }


@dataclass(frozen=True)
class Suite:
    """The rules and cases of one version of the kit."""

    version: str
    rules: tuple[Json, ...]
    cases: tuple[Case, ...]

    def chosen(self, levels: Sequence[str], rules: Sequence[str]) -> list[Case]:
        """Return the cases of these levels and rules; an empty sequence chooses all."""
        known = {rule["id"] for rule in self.rules}
        for rule in rules:
            if rule not in known:
                near = difflib.get_close_matches(rule, known, n=1)
                hint = f"; is it {near[0]!r}?" if near else "; SPECIFICATION.md lists them"
                raise KitError(f"there is no rule {rule!r}{hint}")
        return [
            case
            for case in self.cases
            if (not levels or case.level in levels) and (not rules or case.rule in rules)
        ]


def read_suite(folder: Path = FOLDER) -> Suite:
    """Read the kit from a folder, or from ``packages/conformance`` of a checkout."""
    if (folder / FOLDER.name).is_dir():
        folder = folder / FOLDER.name
    try:
        rules = json.loads((folder / "rules.json").read_text(encoding="utf-8"))
        files = [
            json.loads((folder / "cases" / f"{level}.json").read_text(encoding="utf-8"))
            for level in LEVELS
        ]
    except OSError as error:
        raise KitError(
            f"there is no conformance kit in {folder} ({error.strerror}); name a folder with "
            "rules.json and cases, or leave the folder out"
        ) from error
    cases = (
        Case(case["id"], case["rule"], file["level"], case["operation"], case["input"],
             case["expected"])
        for file in files
        for case in file["cases"]
    )  # fmt: skip
    return Suite(rules["version"], tuple(rules["rules"]), tuple(cases))


# Adapters


class AdapterError(Exception):
    """An adapter did not answer a case: it died, took too long, or wrote something else."""


class Adapter(Protocol):
    """An implementation that answers cases."""

    def answer(self, request: Json) -> Json:
        """Answer one request, or raise `AdapterError`."""

    def close(self) -> None:
        """Stop the implementation."""


class CommandAdapter:
    """A program that reads a line of JSON and writes one.

    After an answer that cannot be used, or too late, the program is ended and started again.
    """

    def __init__(self, command: Sequence[str], timeout: float = 60) -> None:
        self._command = command
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def answer(self, request: Json) -> Json:
        """Write the request and wait for the next line."""
        try:
            return _object(self._line(json.dumps(request).encode() + b"\n"))
        except AdapterError:
            self.close()
            raise

    def close(self) -> None:
        """End the program, and what it has started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):  # it may have ended
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        assert process.stdin is not None
        process.stdin.close()
        process.wait()

    def _line(self, request: bytes) -> bytes:
        process = self._process if self._process is not None else self._start()
        stdin, lines = process.stdin, self._lines

        def exchange() -> bytes:
            assert stdin is not None
            left = memoryview(request)
            while left:
                left = left[stdin.write(left) :]
            return lines.get()

        if lines.empty():
            try:
                line = _in_time(self._timeout, exchange, self.close)
            except (OSError, ValueError) as error:
                raise AdapterError("the adapter has ended") from error
        elif line := lines.get():
            raise AdapterError("the adapter wrote a line before its request")
        if not line:
            raise AdapterError("the adapter ended without an answer")
        return line

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            process = subprocess.Popen(
                self._command,
                bufsize=0,  # a writer that is blocked must not hold a lock
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise AdapterError(f"{self._command[0]} cannot be started: {error.strerror}") from error
        self._process, self._lines = process, queue.SimpleQueue()
        threading.Thread(
            target=_read_lines, args=(process.stdout, self._lines), daemon=True
        ).start()
        return process


def _in_time(seconds: float, work: Callable[[], _Result], stop: Callable[[], None]) -> _Result:
    """Return what `work` returns, or after these seconds stop it.

    A timeout of a pipe or socket would start again with each byte.
    """
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - the caller's thread raises it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    if not wait([future], seconds).done:
        stop()
        raise AdapterError(f"no answer (after {seconds:g} s at most)")
    return future.result()


def _read_lines(stream: io.RawIOBase, lines: queue.SimpleQueue[bytes]) -> None:
    """Pass on each line, and an empty one at the end, or after a line that nobody waits for."""
    with io.BufferedReader(stream) as buffered:
        while line := buffered.readline(_MOST_BYTES + 1):
            is_early = not lines.empty()
            lines.put(line)
            if is_early:
                break
    lines.put(b"")


class ModuleAdapter(CommandAdapter):
    """A Python module or file with a function ``answer(request)``, in a process of its own."""

    def __init__(self, name: str, timeout: float = 60) -> None:
        program = (
            "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
            f"from {__name__} import _serve_module; _serve_module(sys.argv[2])"
        )
        super().__init__([sys.executable, "-c", program, json.dumps(sys.path), name], timeout)
        try:
            self.answer({"operation": "import"})
        except AdapterError as error:
            self.close()
            raise KitError(str(error)) from error

    def answer(self, request: Json) -> Json:
        """Let the function answer a copy of the request."""
        said = super().answer(request)
        if "problem" in said:
            raise AdapterError(str(said["problem"]))
        answer = said.get("answer")
        if not isinstance(answer, dict):
            raise AdapterError(f"not an object: {str(answer)[:200]}")
        return answer


def _serve_module(name: str) -> None:
    """Answer each line of standard input: with the module's answer, or with its problem."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what the module prints is no answer
    answer: Callable[[Json], Json] | None = None
    try:
        answer, problem = _answer_of(name), ""
    except BaseException as error:  # noqa: BLE001 - a module may raise anything, and exit
        reason = f"{name} cannot be imported: {type(error).__name__}: {error}"
        problem = str(error) if isinstance(error, KitError) else reason[:_SHOWN]
    for line in sys.stdin:
        request = json.loads(line)
        said: Json = {"problem": problem}
        try:
            if answer is not None:
                said = {"answer": {} if request["operation"] == "import" else answer(request)}
            written = json.dumps(said)
        except BaseException as error:  # noqa: BLE001
            written = json.dumps({"problem": f"{type(error).__name__}: {error}"[:_SHOWN]})
        print(written, file=answers, flush=True)


def _answer_of(name: str) -> Callable[[Json], Json]:
    path = Path(name)
    if path.suffix == ".py":
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise KitError(f"there is no module {name}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, "")
        module = importlib.import_module(name)
        sys.path.remove("")
    answer: Callable[[Json], Json] | None = getattr(module, "answer", None)
    if not callable(answer):
        raise KitError(f"{name} has no function answer(request)")
    return answer


class UrlAdapter:
    """A server with ``/render`` for chat requests and ``/parse`` for tokens, below a URL.

    Examples are ``/v1/tokens`` of ``harmony serve``, and ``/v1/chat/completions`` of vLLM, which
    only has ``/render``. The date in the server's answer is replaced by the date of the case.
    `api_key` is sent as a bearer token.
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        timeout: float = 60,
        *,
        api_key: str | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._model = model
        self._timeout = timeout
        try:
            parts = urlsplit(self._url)
            is_whole = parts.hostname and not (parts.query or parts.fragment)
            if not is_whole or not re.fullmatch(r"https?://[!-~]+", url):
                raise ValueError(url)
            self._host, self._port, self._path = parts.hostname or "", parts.port, parts.path
        except ValueError as error:
            raise KitError(
                f"{url} is not the URL of a server, such as http://localhost:8000/v1/tokens"
            ) from error
        is_secret = parts.scheme == "https"
        self._kind = http.client.HTTPSConnection if is_secret else http.client.HTTPConnection
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            if not re.fullmatch("[!-~]+", api_key):
                raise KitError("an API key has printable ASCII characters alone, without spaces")
            self._headers["Authorization"] = f"Bearer {api_key}"

    def answer(self, request: Json) -> Json:
        """Send the request to the endpoint for its operation."""
        given = request.get("input", {})
        if request["operation"] == "describe":
            self._exchange("", None)
        if request["operation"] == "chat":
            body = dict(given["request"])
            if self._model is not None:
                body["model"] = self._model
            answer = self._post("render", body)
            for name in ("tokens", "token_ids", "prompt_token_ids"):
                if name in answer:
                    return {"tokens": with_date(_ids(answer[name]), given["date"])}
            return answer
        if request["operation"] == "parse":
            strict = request["level"] != "recovery"
            fields = {key: given[key] for key in ("tokens", "role", "tools") if key in given}
            return self._post("parse", {**fields, "strict": strict})
        return {"unsupported": "the server has no endpoint for this"}

    def close(self) -> None:
        """Do nothing: the server keeps running."""

    def _post(self, name: str, body: Json) -> Json:
        status, data = self._exchange(f"{self._path}/{name}", json.dumps(body).encode())
        if status == 200:
            return _object(data)
        text = data.decode(errors="replace")[:_SHOWN]
        if status in (400, 422):
            return {"error": text}
        if status in (401, 403):
            raise AdapterError(f"{self._url} refuses the API key, or wants one: {status} {text}")
        if status in (404, 405):
            return {"unsupported": f"{self._url}/{name}: {status}"}
        raise AdapterError(f"{self._url}/{name}: {status} {text}")

    def _exchange(self, path: str, data: bytes | None) -> tuple[int, bytes]:
        """Connect to the server, and return its status and answer to data."""
        # After its own timeout the thread ends, whatever happens to the socket.
        connection = self._kind(self._host, self._port, timeout=self._timeout + 1)
        opened: list[socket.socket] = []

        def exchange() -> tuple[int, bytes]:
            with contextlib.closing(connection):
                connection.connect()
                opened.append(connection.sock)
                if data is None:
                    return 0, b""
                connection.request("POST", path, data, self._headers)
                with connection.getresponse() as response:
                    answer = response.read(_MOST_BYTES + 1)
                    if response.length and len(answer) <= _MOST_BYTES:
                        raise http.client.IncompleteRead(answer, response.length)
                    return response.status, answer

        def stop() -> None:
            for one in opened:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

        try:
            return _in_time(self._timeout, exchange, stop)
        except OSError as error:
            raise AdapterError(f"{self._url} cannot be reached: {error}") from error
        except (http.client.HTTPException, ValueError) as error:
            raise AdapterError(f"{self._url} does not speak HTTP: {error!r}"[:_SHOWN]) from error


def _ids(value: Any) -> list[int]:
    """Return token ids as they are; an answer may have anything in their place."""
    if not isinstance(value, list) or any(type(token) is not int for token in value):
        raise AdapterError("tokens, labels and positions are lists of integers")
    return value


def _object(data: bytes) -> Json:
    if len(data) > _MOST_BYTES:
        raise AdapterError(f"the answer is longer than {_MOST_BYTES} bytes")
    start = data[:200].decode(errors="replace").strip()
    try:
        answer = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise AdapterError(f"not JSON: {start}") from error
    if not isinstance(answer, dict):
        raise AdapterError(f"not an object: {start}")
    if not _is_flat(answer, _MOST_LEVELS):
        raise AdapterError(f"the answer is nested in more than {_MOST_LEVELS} levels")
    return answer


def _is_flat(value: Any, levels: int) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels >= 0 and all(_is_flat(part, levels - 1) for part in parts)


# Verdicts


@dataclass(frozen=True)
class Verdict:
    """The result of a case, ``passed``, ``failed`` or ``unsupported``, and the reason.

    `differences` are the keys of `answer` whose values are not as expected.
    """

    case: Case
    outcome: str
    problem: str = ""
    differences: tuple[str, ...] = ()
    answer: Mapping[str, Any] = field(default_factory=dict)


def judge(case: Case, adapter: Adapter) -> Verdict:
    """Let an implementation answer a case, and compare the answer with the expected one."""
    answer: Json = {}
    problem = ""
    differences: tuple[str, ...] = ()
    try:
        answer = adapter.answer(case.request)
        if "unsupported" in answer:
            return Verdict(case, "unsupported", str(answer["unsupported"])[:_SHOWN], (), answer)
        refusal = answer.get("error")
        if (refusal is not None) != ("error" in case.expected):
            problem = "not refused" if refusal is None else f"refused: {refusal}"
        elif refusal is None:
            answer = _with_empty_lists(case, answer)
            differences = _differences(case, answer)
            problem = f"other {' and '.join(differences)}" if differences else ""
        elif not isinstance(refusal, str):
            problem = "error must be a text"
    except AdapterError as error:
        problem = str(error) or "no answer"
    except Exception as error:  # noqa: BLE001 - an adapter may raise and answer anything
        problem = f"no answer of the form that the kit's README describes: {error!r}"
    outcome = "failed" if problem else "passed"
    return Verdict(case, outcome, problem[:_SHOWN], differences, answer)


def _with_empty_lists(case: Case, answer: Json) -> Json:
    """Return an answer with all that is compared; render, chat and parse have alternatives."""
    compared = _COMPARED[case.operation]
    if not compared.keys() & answer.keys():
        raise AdapterError(f"the answer has none of the keys {', '.join(compared)}")
    return {**{key: [] for key in compared}, **answer} if case.operation == "stream" else answer


def _differences(case: Case, answer: Json) -> tuple[str, ...]:
    differences = []
    for key, is_same in _COMPARED[case.operation].items():
        if key not in answer:
            continue
        accepted = list(_accepted(case, key))
        form = type(accepted[0])
        if type(answer[key]) is not form:
            raise AdapterError(f"{key} must be a {form.__name__}")
        if not any(is_same(answer[key], value) for value in accepted):
            differences.append(key)
    return tuple(differences)


def _accepted(case: Case, key: str) -> Iterator[Any]:
    """Yield the expected value, and the other values that are accepted."""
    yield _expected(case, key)
    yield from (also[key] for also in case.expected.get("also", ()))


def _expected(case: Case, key: str) -> Any:
    return _chat_answer(case.expected["messages"]) if key == "chat" else case.expected[key]


def _equal(form: Callable[[Any], Any]) -> _Comparison:
    """Compare an answer with the expected one, both in this form."""
    return lambda answered, expected: bool(form(answered) == form(expected))


def _messages(messages: Sequence[Json]) -> list[Json]:
    """Return messages without their empty fields, and with their contents as one text."""
    return [
        {
            **{key: value for key, value in message.items() if value not in (None, "")},
            "content": _text(message.get("content", "")),
        }
        for message in messages
    ]


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part["text"] for part in content)


def _positions(errors: Sequence[Any]) -> list[int]:
    """Return the positions of errors; their texts differ from program to program."""
    return _ids([error[0] if isinstance(error, list) else error for error in errors])


def _chat_answer(messages: Sequence[Json]) -> Json:
    """Return the answer of the Chat Completions API for messages."""
    texts: dict[bool, str] = {True: "", False: ""}
    calls = []
    for message in messages:
        if "recipient" in message:
            name = message["recipient"].removeprefix("functions.")
            calls.append({"name": name, "arguments": message["content"]})
        else:
            texts[message.get("channel") == "analysis"] += message["content"]
    return {"reasoning": texts[True], "content": texts[False], "tool_calls": calls}


def _without_space(answer: Json) -> Json:
    """Return an answer's fields without white space: programs join messages in different ways."""
    calls = answer.get("tool_calls") or []
    texts = {key: answer.get(key) for key in ("reasoning", "content")}
    return {
        **{key: "" if text is None else "".join(text.split()) for key, text in texts.items()},
        "tool_calls": [[call["name"], "".join(call["arguments"].split())] for call in calls],
    }


def _same_examples(answered: Sequence[Json], expected: Sequence[Json]) -> bool:
    """Compare tokens, and labels if the answer has them."""
    for one in answered:
        tokens, labels = _ids(one["tokens"]), one.get("labels")
        if labels is not None and len(_ids(labels)) != len(tokens):
            raise AdapterError(f"there are {len(tokens)} tokens and {len(labels)} labels")
    return len(answered) == len(expected) and all(
        mine["tokens"] == other["tokens"] and mine.get("labels") in (None, other["labels"])
        for mine, other in zip(answered, expected, strict=True)
    )


_RENDERED: dict[str, _Comparison] = {"tokens": _equal(_ids), "text": operator.eq}
_COMPARED: dict[str, dict[str, _Comparison]] = {
    "render": _RENDERED,
    "chat": _RENDERED,
    "parse": {"messages": _equal(_messages), "chat": _equal(_without_space)},
    "stream": {
        "messages": _equal(_messages),
        "errors": _equal(_positions),
        "deltas": operator.eq,
    },
    "train": {"examples": _same_examples},
}
"""The keys of an answer and how each is compared, by operation."""


# Differences, side by side


def differing_lines(verdict: Verdict) -> Iterator[tuple[str, str, str]]:
    """Yield the expected and the actual answer, line by line; a mark shows differences.

    If several answers are accepted, the most similar one is shown.

    Tokens are shown as text, with a line for each header, body and stop. A part that has the same
    text in both answers and other tokens is shown with its tokens.
    """
    for key in verdict.differences:
        if key == "text" and "tokens" in verdict.differences:
            continue
        yield "", key, key
        answered = verdict.answer[key]
        accepted = [
            (_lines(key, expected, answered), _lines(key, answered, expected)[:_MOST_LINES])
            for expected in _accepted(verdict.case, key)
        ]
        left, right = max(accepted, key=lambda lines: _matcher(*lines).ratio())
        for mark, pairs in _aligned(left, right):
            for mine, other in pairs:
                yield mark, mine, other


def _aligned(left: list[str], right: list[str]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    for kind, start, end, other_start, other_end in _matcher(left, right).get_opcodes():
        rows = itertools.zip_longest(left[start:end], right[other_start:other_end], fillvalue="")
        yield ("" if kind == "equal" else "*"), list(rows)


def _matcher(left: list[str], right: list[str]) -> difflib.SequenceMatcher[str]:
    return difflib.SequenceMatcher(None, left, right, autojunk=False)


def _lines(key: str, value: Any, other: Any) -> list[str]:
    """Return a value as lines, for a comparison with another one."""
    if key == "tokens":
        return list(_token_lines(value, other))
    if key == "text":
        return str(value).splitlines()
    if key == "examples":
        return [line for example in value for line in _label_lines(example)]
    if key == "messages":
        value = _messages(value)
    if isinstance(value, list):
        return [json.dumps(item, ensure_ascii=False, sort_keys=True) for item in value]
    return json.dumps(value, ensure_ascii=False, indent=1).splitlines()


def _token_lines(tokens: Sequence[int], other: Sequence[int]) -> Iterator[str]:
    """Yield a line for each marker with the text after it, and for each line of a body."""
    others = list(_parts(other))
    texts = {text_of(part) for part in others}
    for part in _parts(tokens):
        marker = sum(token >= FIRST_SPECIAL for token in part[:1])
        spelled = text_of(part[:marker])
        for line in text_of(part[marker:]).splitlines(keepends=True) or [""]:
            yield spelled + line.replace("\n", "⏎").replace("<|", "‹|")
            spelled = ""
        if text_of(part) in texts and part not in others:
            yield f"  tokens {part}"


def _parts(tokens: Sequence[int]) -> Iterator[list[int]]:
    """Split tokens before each special one."""
    part: list[int] = []
    for token in tokens:
        if token >= FIRST_SPECIAL and part:
            yield part
            part = []
        part.append(token)
    if part:
        yield part


def _label_lines(example: Json) -> Iterator[str]:
    """Yield a line for each run of tokens with or without labels."""
    labels = example.get("labels") or example["tokens"]
    pairs = zip(example["tokens"], labels, strict=True)
    for kind, run in itertools.groupby(pairs, _label_kind):
        yield f"{kind}: {text_of([token for token, _ in run])!r}"


def _label_kind(pair: tuple[int, int]) -> str:
    token, label = pair
    if label < 0:
        return "no label"
    return "label" if label == token else f"label {text_of([label])}"
