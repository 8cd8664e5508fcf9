"""The runner of the conformance kit: cases and an implementation's answers in, verdicts out.

The kit's README describes cases and answers. An implementation is a command, a server or a Python
module, behind an `Adapter`.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import itertools
import json
import operator
import queue
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

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
    """A program that reads a line of JSON and writes one; if it dies, it is started again."""

    def __init__(self, command: Sequence[str], timeout: float = 60) -> None:
        self._command = command
        self._timeout = timeout
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def answer(self, request: Json) -> Json:
        """Write the request and wait for the next line."""
        process = self._process if self._process is not None else self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=self._timeout)
        except (OSError, queue.Empty) as error:
            self.close()
            problem = "no answer" if isinstance(error, queue.Empty) else "the adapter has ended"
            raise AdapterError(f"{problem} (after {self._timeout:g} s at most)") from error
        if not line:
            self.close()
            raise AdapterError("the adapter ended without an answer")
        return _object(line)

    def close(self) -> None:
        """End the program."""
        if self._process is not None and self._process.stdin is not None:
            self._process.kill()
            with contextlib.suppress(OSError):  # the program may not have read the last request
                self._process.stdin.close()
            self._process.wait()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
            )
        except OSError as error:
            raise KitError(f"{self._command[0]} cannot be started: {error.strerror}") from error
        self._process, self._lines = process, queue.SimpleQueue()
        threading.Thread(
            target=_read_lines, args=(process.stdout, self._lines), daemon=True
        ).start()
        return process


def _read_lines(stream: Any, lines: queue.SimpleQueue[str]) -> None:
    """Pass on each line, and an empty one at the end."""
    with stream:
        for line in stream:
            lines.put(line)
    lines.put("")


class ModuleAdapter:
    """A Python module or file with a function ``answer(request)``."""

    def __init__(self, name: str) -> None:
        path = Path(name)
        if path.suffix == ".py":
            spec = importlib.util.spec_from_file_location(path.stem, path)
            if spec is None or spec.loader is None or not path.is_file():
                raise KitError(f"there is no module {name}")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, "")
            try:
                module = importlib.import_module(name)
            except ImportError as error:
                raise KitError(f"{name} cannot be imported: {error}") from error
            finally:
                sys.path.remove("")
        if not callable(getattr(module, "answer", None)):
            raise KitError(f"{name} has no function answer(request)")
        self._answer: Callable[[Json], Json] = module.answer

    def answer(self, request: Json) -> Json:
        """Call the function with a copy of the request."""
        return _object(json.dumps(self._answer(json.loads(json.dumps(request)))))

    def close(self) -> None:
        """Do nothing: a module has no process to stop."""


class UrlAdapter:
    """A server with ``/render`` for chat requests and ``/parse`` for tokens, below a URL.

    Examples are ``/v1/tokens`` of ``harmony serve``, and ``/v1/chat/completions`` of vLLM, which
    only has ``/render``. The date in the server's answer is replaced by the date of the case.
    """

    def __init__(self, url: str, model: str | None = None, timeout: float = 60) -> None:
        self._url = url.rstrip("/")
        self._model = model
        self._timeout = timeout

    def answer(self, request: Json) -> Json:
        """Send the request to the endpoint for its operation."""
        given = request.get("input", {})
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
        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._url}/{name}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:
                return _object(response.read().decode())
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")[:500]
            if error.code in (404, 405):
                return {"unsupported": f"{self._url}/{name}: {error.code}"}
            if error.code < 500:
                return {"error": text}
            raise AdapterError(f"{self._url}/{name}: {error.code} {text}") from error
        except TimeoutError as error:
            raise AdapterError(f"no answer (after {self._timeout:g} s at most)") from error
        except OSError as error:
            raise KitError(f"{self._url} cannot be reached: {error}") from error


def _ids(value: Any) -> list[int]:
    """Return token ids as they are; an answer may have anything in their place."""
    if not isinstance(value, list) or not all(isinstance(token, int) for token in value):
        raise AdapterError("tokens and labels are lists of integers")
    return value


def _object(text: str) -> Json:
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise AdapterError(f"not JSON: {text.strip()[:200]}") from error
    if not isinstance(answer, dict):
        raise AdapterError(f"not an object: {text.strip()[:200]}")
    return answer


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
    try:
        answer = adapter.answer(case.request)
    except AdapterError as error:
        return Verdict(case, "failed", str(error))
    if "unsupported" in answer:
        return Verdict(case, "unsupported", str(answer["unsupported"]), (), answer)
    if ("error" in answer) != ("error" in case.expected):
        problem = f"refused: {answer['error']}" if "error" in answer else "not refused"
        return Verdict(case, "failed", problem, (), answer)
    if "error" in answer:
        return Verdict(case, "passed", "", (), answer)
    compared = _COMPARED[case.operation]
    keys = [key for key in compared if key in answer]
    if not keys:
        problem = f"the answer has none of the keys {', '.join(compared)}"
        return Verdict(case, "failed", problem, (), answer)
    try:
        differences = tuple(
            key
            for key in keys
            if not any(compared[key](answer[key], value) for value in _accepted(case, key))
        )
    except AdapterError as error:
        return Verdict(case, "failed", str(error), (), answer)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        problem = f"the answer does not have the form that the kit's README describes: {error!r}"
        return Verdict(case, "failed", problem, (), answer)
    if differences:
        problem = f"other {' and '.join(differences)}"
        return Verdict(case, "failed", problem, differences, answer)
    return Verdict(case, "passed", "", (), answer)


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
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return str(content)


def _positions(errors: Sequence[Any]) -> list[int]:
    """Return the positions of errors; their texts differ from program to program."""
    return [error if isinstance(error, int) else error[0] for error in errors]


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
    return {
        **{key: "".join((answer.get(key) or "").split()) for key in ("reasoning", "content")},
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
            (_lines(key, expected, answered), _lines(key, answered, expected))
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
