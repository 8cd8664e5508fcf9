"""The conformance kit: its files, its runner, and what this library fails in it."""

from __future__ import annotations

import contextlib
import http.server
import itertools
import json
import re
import runpy
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony_conformance import tokens as token_table
from gpt_oss_harmony_conformance.__main__ import main
from gpt_oss_harmony_conformance.runner import (
    LEVELS,
    AdapterError,
    Case,
    CommandAdapter,
    KitError,
    ModuleAdapter,
    Suite,
    UrlAdapter,
    differing_lines,
    judge,
    read_suite,
)

ROOT = Path(__file__).parents[1]
KIT = ROOT / "packages" / "conformance"
DATA = KIT / "gpt_oss_harmony_conformance"
OURS = str(KIT / "adapters" / "ours.py")
DIVERGENCES = (ROOT / "docs" / "reference" / "divergences.md").read_text(encoding="utf-8")
ENCODING = load_harmony_encoding("HarmonyGptOss")
SUITE: Suite = read_suite(KIT)
BY_ID = {case.id: case for case in SUITE.cases}


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


# The files


@pytest.mark.parametrize("level", LEVELS)
def test_files_follow_their_schema(level: str) -> None:
    schema = read(DATA / "schema.json")
    file = read(DATA / "cases" / f"{level}.json")
    jsonschema.validate(file, schema, jsonschema.Draft202012Validator)
    assert file["level"] == level
    assert all(case["id"].startswith(f"{level}/") for case in file["cases"])


def test_rules_and_cases_cover_each_other() -> None:
    rules = {(rule["level"], rule["id"]) for rule in SUITE.rules}
    assert rules == {(case.level, case.rule) for case in SUITE.cases}
    assert len({rule["id"] for rule in SUITE.rules}) == len(SUITE.rules)
    assert len(BY_ID) == len(SUITE.cases)


def test_rules_are_sentences() -> None:
    for rule in SUITE.rules:
        for field in ("text", "effect", "choice"):
            assert rule.get(field, "A sentence.").endswith("."), rule["id"]


def test_marked_up_text_and_tokens_say_the_same() -> None:
    for case in SUITE.cases:
        given = case.input
        if case.operation in ("parse", "stream") and "text" in given:
            assert ENCODING.encode(given["text"], allowed_special="all") == given["tokens"]
        for said in (case.expected, *case.expected.get("also", ())):
            if "tokens" in said:
                assert ENCODING.decode_utf8(said["tokens"]) == said["text"], case.id


def test_notes_say_what_users_see_where_a_rule_fails() -> None:
    """Of recoveries and of the reference's faults, the rule says enough."""
    notes = read(KIT / "notes.json")
    for result in read(KIT / "results.json")["implementations"]:
        if not result["name"].startswith("gpt-oss-harmony"):
            failed = [BY_ID[id] for id in result["failed"]]
            rules = {case.rule for case in failed if case.level not in ("reference", "recovery")}
            assert set(notes.pop(result["name"])) == rules, result["name"]
    assert not notes


README_ROWS = {
    "Cases of the format": "format",
    "Cases of openai-harmony": "reference",
    "Damaged output": "recovery",
    "Chat requests": "chat",
    "Training examples": "training",
}
README_COLUMNS = ("gpt-oss-harmony", "openai-harmony", "oss-harmony", "chat template", "vLLM")


def test_the_readme_has_the_numbers_of_the_page() -> None:
    def table(page: str) -> dict[str, list[str]]:
        lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
        split = (line.strip("|").split("|") for line in lines if line.startswith("|"))
        return {cells[0].strip(): [cell.strip(" *") for cell in cells[1:]] for cells in split}

    measured, shown = table("docs/understand/conformance.md"), table("README.md")
    for words, level in README_ROWS.items():
        row = next(cells for name, cells in shown.items() if name.startswith(words))
        column = 2 + LEVELS.index(level)
        assert row == [measured[name][column] for name in README_COLUMNS], words


def test_pages_are_made_of_the_files() -> None:
    script = str(ROOT / "scripts" / "conformance" / "pages.py")
    pages = runpy.run_path(script)
    written = pages["SPECIFICATION"].read_text(encoding="utf-8")
    assert written == pages["specification"](), f"run {script}"
    for path, text in pages["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, f"run {script}"


def test_expected_values_are_those_of_the_reference() -> None:
    """In a process of its own: here, `openai_harmony` may be the drop-in."""
    script = ROOT / "scripts" / "conformance" / "record_cases.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    if "cannot be installed" in done.stderr:
        pytest.skip(done.stderr)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# The table of tokens


def tokens_of_cases() -> Iterator[list[int]]:
    """The tokens of every case: those that it gives, and those that it expects."""
    for case in SUITE.cases:
        for said in (case.input, case.expected, *case.expected.get("also", ())):
            yield from (said["tokens"],) if "tokens" in said else ()
            yield from (example["tokens"] for example in said.get("examples", ()))


def test_tokens_are_shown_as_the_vocabulary_spells_them() -> None:
    for tokens in tokens_of_cases():
        if max(tokens, default=0) <= 201087:  # the reference reads one id more
            assert token_table.text_of(tokens) == ENCODING.decode(tokens)
    for name in ("start", "end", "message", "channel", "constrain", "return", "call"):
        (token,) = ENCODING.encode(f"<|{name}|>", allowed_special="all")
        assert token_table.text_of([token]) == f"<|{name}|>"


def test_a_token_outside_the_table_is_shown_as_its_id() -> None:
    (token,) = ENCODING.encode(" harmony")
    assert token_table.text_of([token, -1, 300000]) == f"<{token}><-1><300000>"


@pytest.mark.parametrize("date", ["2025-06-28", "2031-01-02", "1999-12-31", "0007-10-10"])
def test_dates_are_spelled_as_the_tokenizer_spells_them(date: str) -> None:
    def prompt(day: str) -> list[int]:
        text = f"<|start|>system<|message|>A harmonica.\nCurrent date: {day}\n\nReasoning: high"
        return ENCODING.encode(text, allowed_special="all")

    assert token_table.with_date(prompt("2024-11-05"), date) == prompt(date)


@pytest.mark.parametrize(
    "tokens",
    [
        [],
        ENCODING.encode("Current date: 2024-11-05\n"),
        ENCODING.encode("\nCurrent date: today\n"),
        [*ENCODING.encode("\nCurrent date:"), *ENCODING.encode(" 2024-11-05")],
    ],
)
def test_a_prompt_without_a_date_is_kept(tokens: list[int]) -> None:
    assert token_table.with_date(tokens, "2025-06-28") == tokens


# This library


@pytest.fixture(scope="module")
def failed() -> dict[str, Case]:
    adapter = ModuleAdapter(OURS)
    verdicts = [judge(case, adapter) for case in SUITE.cases]
    adapter.close()
    assert {verdict.outcome for verdict in verdicts} == {"passed", "failed"}
    return {verdict.case.id: verdict.case for verdict in verdicts if verdict.outcome == "failed"}


def documented(heading: str) -> dict[str, str]:
    """The rows of the table behind a heading: the first two cells."""
    table = DIVERGENCES.partition(f"| {heading} |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", table, re.MULTILINE)
    return {name: text.strip("`") for name, text in rows}


def test_this_library_fails_what_its_divergences_name(failed: dict[str, Case]) -> None:
    rules = {case.rule for case in failed.values() if case.level != "recovery"}
    named = documented("Rule")
    assert rules == set(named)
    every_divergence = set(re.findall(r"^### ([a-z0-9-]+)$", DIVERGENCES, re.MULTILINE))
    assert set(named.values()) <= every_divergence
    for case in SUITE.cases:
        assert case.rule not in named or case.id in failed


def test_this_library_misses_the_recoveries_that_it_names(failed: dict[str, Case]) -> None:
    missed = {id for id, case in failed.items() if case.level == "recovery"}
    assert missed == set(documented("Case"))


# The runner


def case(id: str) -> Case:
    return BY_ID[id]


def echo(answer: str) -> CommandAdapter:
    """A program that gives this answer to every line."""
    program = f"import sys\nfor line in sys.stdin: print({answer!r}, flush=True)"
    return CommandAdapter([sys.executable, "-c", program])


class Fixed:
    """An adapter with one answer."""

    def __init__(self, **answer: Any) -> None:
        self._answer = answer

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._answer

    def close(self) -> None: ...


def without(answer: dict[str, Any], missing: str) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key != missing}


CALL = "format/read-call"
PROMPT = "format/chat"
TEXT = case(PROMPT).expected["text"]
TOKENS = case(PROMPT).expected["tokens"]
MESSAGES = case(CALL).expected["messages"]
CHAT = {
    "reasoning": "Need to use function\nget_current_weather.",
    "content": None,
    "tool_calls": [{"name": "get_current_weather", "arguments": '{"location": "San Francisco"}'}],
}
WITH_NULLS = [{**m, "name": None, "content": [{"type": "text", "text": m["content"]}]}
              for m in MESSAGES]  # fmt: skip
REFUSED = "reference/unknown-role-is-refused-1"
STREAM = "reference/only-start-follows-a-message-1"
STREAMED = {
    **{key: case(STREAM).expected[key] for key in ("messages", "deltas")},
    "errors": [at for at, _ in case(STREAM).expected["errors"]],
}
NO_MESSAGES = "reference/surplus-header-words-are-refused-1"
NO_ERRORS = "reference/last-words-are-recipient-and-type-1"
TRAINING = "training/uf"
EXAMPLES = case(TRAINING).expected["examples"]
SPELLING = "chat/reasoning-kept-after-a-call"

VERDICTS: list[tuple[str, dict[str, Any], str]] = [
    (PROMPT, {"tokens": TOKENS}, "passed"),
    (PROMPT, {"text": TEXT}, "passed"),
    (PROMPT, {"tokens": TOKENS[:-1], "text": TEXT}, "failed"),
    (PROMPT, {"tokens": TOKENS, "text": TEXT + " "}, "failed"),
    (PROMPT, {"error": "no"}, "failed"),
    (PROMPT, {"unsupported": "no"}, "unsupported"),
    (PROMPT, {"messages": []}, "failed"),
    (PROMPT, {}, "failed"),
    (PROMPT, {"tokens": "none"}, "failed"),
    (PROMPT, {"tokens": None, "text": TEXT}, "failed"),
    (CALL, {"messages": MESSAGES}, "passed"),
    (CALL, {"messages": WITH_NULLS}, "passed"),
    (CALL, {"messages": MESSAGES[:1]}, "failed"),
    (CALL, {"messages": [{"role": 3}, None]}, "failed"),
    (CALL, {"chat": CHAT}, "passed"),
    (CALL, {"chat": {**CHAT, "tool_calls": []}}, "failed"),
    (CALL, {"chat": {**CHAT, "tool_calls": [3]}}, "failed"),
    (CALL, {"messages": [{**m, "content": [{"type": "image"}]} for m in MESSAGES]}, "failed"),
    (CALL, {"chat": {**CHAT, "content": []}}, "failed"),
    (CALL, {"messages": {}}, "failed"),
    (NO_MESSAGES, case(NO_MESSAGES).expected, "passed"),
    (NO_MESSAGES, {**case(NO_MESSAGES).expected, "messages": {}}, "failed"),
    (STREAM, STREAMED, "passed"),
    (STREAM, {**STREAMED, "errors": case(STREAM).expected["errors"]}, "passed"),
    (STREAM, {**STREAMED, "errors": []}, "failed"),
    (STREAM, {**STREAMED, "errors": [float(at) for at in STREAMED["errors"]]}, "failed"),
    (STREAM, {**STREAMED, "errors": None}, "failed"),
    *((STREAM, without(STREAMED, key), "failed") for key in STREAMED),
    (NO_ERRORS, without(case(NO_ERRORS).expected, "errors"), "passed"),
    (TRAINING, {"examples": [{"tokens": EXAMPLES[0]["tokens"]}]}, "passed"),
    (TRAINING, {"examples": [{**EXAMPLES[0], "labels": EXAMPLES[0]["tokens"]}]}, "failed"),
    (TRAINING, {"examples": []}, "failed"),
    (TRAINING, {"examples": [{"tokens": EXAMPLES[0]["tokens"], "labels": [1]}]}, "failed"),
    (TRAINING, {"examples": [{"tokens": ["a"]}]}, "failed"),
    (SPELLING, {"tokens": case(SPELLING).expected["also"][0]["tokens"]}, "passed"),
    ("reference/prompt-with-its-open-end", {"error": "other words"}, "passed"),
    ("reference/prompt-with-its-open-end", {"messages": []}, "failed"),
    ("reference/prompt-with-its-open-end", {"error": None, "messages": []}, "failed"),
    ("reference/prompt-with-its-open-end", {"error": True}, "failed"),
    (PROMPT, {"tokens": TOKENS, "error": None}, "passed"),
]


@pytest.mark.parametrize(("id", "answer", "outcome"), VERDICTS)
def test_verdicts(id: str, answer: dict[str, Any], outcome: str) -> None:
    verdict = judge(case(id), Fixed(**answer))
    assert verdict.outcome == outcome
    assert bool(verdict.problem) == (outcome != "passed")
    list(differing_lines(verdict))


def test_a_bool_is_not_a_token() -> None:
    one = Case("one", "one", "format", "render", {}, {"tokens": [1], "text": '"'})
    assert judge(one, Fixed(tokens=[1])).outcome == "passed"
    assert judge(one, Fixed(tokens=[True])).outcome == "failed"


def test_an_adapter_that_raises_fails_the_case() -> None:
    class Raising(Fixed):
        def answer(self, request: dict[str, Any]) -> dict[str, Any]:
            raise ZeroDivisionError("division by zero")

    assert "division by zero" in judge(case(PROMPT), Raising()).problem


def test_differences_of_long_answers_are_shown_in_time() -> None:
    verdict = judge(case(PROMPT), Fixed(text="\n" * 200_000))
    begin = time.monotonic()
    assert len(list(differing_lines(verdict))) < 2_000
    assert time.monotonic() - begin < 5


def test_differences_stand_side_by_side() -> None:
    spelled = case("chat/call-and-result")
    verdict = judge(spelled, Fixed(tokens=case("chat/parallel-calls").expected["tokens"]))
    rows = list(differing_lines(verdict))
    assert ("", "<|message|>Is it sunny in Rome?", "<|message|>Is it sunny in Rome?") in rows
    assert ("*", "", "<|start|>functions.now to=assistant") in rows


@pytest.mark.parametrize(
    ("pieces", "difference"),
    [
        (["What is 2", " ", "+", " 2?"], "  tokens {}"),
        (["W", "hat", " is 2 + 2?"], "<|message|><54><13274> is 2 + 2?"),
    ],
)
def test_the_same_text_in_other_tokens_differs(pieces: list[str], difference: str) -> None:
    other = [TOKENS[2], *(token for piece in pieces for token in ENCODING.encode(piece))]
    assert ENCODING.decode(other) == ENCODING.decode(TOKENS[2:-3])
    verdict = judge(case(PROMPT), Fixed(tokens=[*TOKENS[:2], *other, *TOKENS[-3:]]))
    (row,) = (row for row in differing_lines(verdict) if row[0])
    assert row[2] == difference.format(other)


def test_a_program_answers_line_by_line() -> None:
    adapter = echo(json.dumps({"text": TEXT}))
    assert [judge(case(PROMPT), adapter).outcome for _ in range(3)] == ["passed"] * 3
    adapter.close()


@pytest.mark.parametrize("written", ["hello", "[]"])
def test_a_program_that_writes_something_else(written: str) -> None:
    adapter = echo(written)
    with pytest.raises(AdapterError, match="not"):
        adapter.answer(case(PROMPT).request)
    adapter.close()


def test_a_program_that_dies_is_started_anew() -> None:
    once = "import sys; sys.stdin.readline(); print('{}', flush=True)"
    adapter = CommandAdapter([sys.executable, "-c", once])
    for _ in range(3):
        assert adapter.answer({}) == {}
        with pytest.raises(AdapterError, match="ended"):
            adapter.answer({})
    adapter.close()


def test_a_program_that_does_not_answer() -> None:
    adapter = CommandAdapter([sys.executable, "-c", "import sys; sys.stdin.read()"], 0.2)
    with pytest.raises(AdapterError, match="no answer"):
        adapter.answer({})


def test_a_program_that_does_not_read() -> None:
    adapter = CommandAdapter([sys.executable, "-c", "import time; time.sleep(60)"], 0.2)
    with pytest.raises(AdapterError, match="no answer"):
        adapter.answer({"operation": "x" * 1_000_000})  # more than a pipe holds


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(AdapterError, match="nowhere cannot be started"):
        CommandAdapter(["nowhere"]).answer({})


class Served(http.server.BaseHTTPRequestHandler):
    """A server with a clock of its own."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer = 200, {"messages": MESSAGES}
        if self.path == "/render":
            text = case("chat/user-only").expected["text"].replace("2025-06-28", "2031-01-02")
            answer = {"token_ids": ENCODING.encode(text, allowed_special="all")}
            status = 200 if body.get("model") == "m" else 400
        if self.path == "/with-key/parse" and self.headers["Authorization"] != "Bearer sk-1":
            status, answer = 401, {"error": "no key"}
        data = json.dumps(answer).encode()
        self.send_response(404 if self.path == "/old/parse" else status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None: ...


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Served) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_server_answers_with_its_own_date(url: str) -> None:
    chat = case("chat/user-only")
    assert judge(chat, UrlAdapter(url + "/", "m")).outcome == "passed"
    assert judge(chat, UrlAdapter(url)).problem.startswith("refused")
    assert judge(case(CALL), UrlAdapter(url)).outcome == "passed"
    assert judge(case(CALL), UrlAdapter(url + "/old")).outcome == "unsupported"
    assert judge(case(PROMPT), UrlAdapter(url)).outcome == "unsupported"


def test_a_server_with_an_api_key(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url += "/with-key"
    assert judge(case(CALL), UrlAdapter(url, api_key="sk-1")).outcome == "passed"
    for key in (None, "sk-2"):
        problem = judge(case(CALL), UrlAdapter(url, api_key=key)).problem
        assert "refuses the API key, or wants one: 401" in problem
    for key in ("sk-\n", "sk-é", "sk- 1"):
        with pytest.raises(KitError, match="printable ASCII"):
            UrlAdapter(url, api_key=key)
    words = ["run", "--url", url, "--rule", case(CALL).rule]
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main(words) == 1
    assert "cases failed, each with: " in (error := capsys.readouterr().err)
    assert "wants one: 401" in error
    main([*words, "--api-key", "sk-1"])
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    main(words)
    assert "401" not in capsys.readouterr().err


def test_a_server_that_is_not_there() -> None:
    adapter = UrlAdapter("http://127.0.0.1:1")
    with pytest.raises(AdapterError, match="cannot be reached"):
        adapter.answer({"operation": "describe"})
    assert "cannot be reached" in judge(case(CALL), adapter).problem


def test_modules_that_are_none(tmp_path: Path) -> None:
    for name in (str(tmp_path / "nowhere.py"), "no_such_module_here", "json"):
        with pytest.raises(KitError):
            ModuleAdapter(name)


def test_a_folder_without_the_kit(tmp_path: Path) -> None:
    with pytest.raises(KitError, match="name a folder with"):
        read_suite(tmp_path)


# The command


def run(*arguments: str) -> int:
    return main(["run", *arguments])


def test_the_command_writes_a_table_and_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    assert run("--module", OURS, "--level", "training", "--output", str(report)) == 0
    written = capsys.readouterr().out
    count = sum(case.level == "training" for case in SUITE.cases)
    assert re.search(rf"^training +{count} *$", written, re.MULTILINE)
    outcomes = Counter(result["outcome"] for result in read(report)["results"])
    assert outcomes == {"passed": count}
    assert read(report)["implementation"]["name"] == "gpt-oss-harmony"


def test_the_command_shows_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--module", OURS, "--rule", "single-word-is-the-recipient", "--diff") == 1
    shown = capsys.readouterr()
    assert "expected" in shown.out
    assert '"recipient": "json"' in shown.out
    assert shown.err == "harmony-conformance: error: 6 of 6 cases failed\n"


NO_URLS = ("foo", "http://", "http:///x", "http://h:x/", "http://[::1/", "ftp://h", "http://h/a b",
           "http://h?a")  # fmt: skip
NOWHERE = "no-such-folder/report.json"


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["--module", OURS, "--rule", "chat-cal"], 1, "is it 'chat-call'?"),
        (["--module", OURS, "--rule", "chat-call", "--level", "format"], 2, "no case is in the"),
        (["--module", OURS, "--level", "chats"], 2, "invalid choice: 'chats'"),
        (["--module", OURS, "--timeout", "0"], 2, "must be an integer from 1, not 0"),
        (["--module", OURS, "--rules", "chat-call"], 2, "--rules"),
        (["--module", OURS, "--url", "http://127.0.0.1:1"], 2, "not allowed with"),
        (["--module", OURS, "--suite", "nowhere"], 1, "there is no conformance kit in nowhere"),
        (["--module", OURS, "--rule", "chat-call", "--output", NOWHERE], 1, f"{NOWHERE} cannot be"),
        (["--module", "json"], 1, "json has no function answer(request)"),
        (["--command", "nowhere"], 1, "nowhere cannot be started"),
        (["--command", "true"], 1, "the adapter did not describe itself"),
        (["--url", "http://127.0.0.1:1"], 1, "cannot be reached"),
        *((["--url", url], 1, f"{url} is not the URL of a server") for url in NO_URLS),
        (["--command", ""], 2, "there is no program"),
        (["--command", "'"], 2, "No closing quotation"),
        ([], 2, "--command --url --module is required"),
    ],
)
def test_wrong_arguments_are_one_line(
    arguments: list[str], code: int, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == code
    written = capsys.readouterr().err
    assert written.startswith("harmony-conformance: error: ")
    assert problem in written
    assert written.count("\n") == 1


def test_the_command_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "harmony-conformance run --command './adapter'" in capsys.readouterr().out


def test_control_codes_of_an_answer_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter = tmp_path / "adapter.py"
    adapter.write_text("def answer(request): return {'text': 'red: \\x1b[31m \\ud800'}")
    assert run("--module", str(adapter), "--rule", "chat-call", "--diff") == 1
    shown = capsys.readouterr().out
    assert "red: \\x1b[31m" in shown
    assert "\x1b" not in shown


def test_the_reader_may_close_the_output() -> None:
    command = [sys.executable, "-m", "gpt_oss_harmony_conformance", "run", "--module", OURS]
    with subprocess.Popen(
        [*command, "--rule", "chat-call"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.close()
        assert program.stderr.read() == b""
    assert program.returncode == 141


def test_the_kit_needs_nothing_but_python(tmp_path: Path) -> None:
    """Its folder is copied to where neither this library nor any other package can be imported."""
    shutil.copytree(DATA, tmp_path / DATA.name)
    (tmp_path / "adapter.py").write_text(
        "import json, sys\n"
        f"for line in sys.stdin: print(json.dumps({{'tokens': {TOKENS}}}), flush=True)\n"
    )
    python = [sys.executable, "-I", "-S"]  # without the folder of installed packages
    adapter = " ".join([*python, str(tmp_path / "adapter.py")])
    program = f"import runpy, sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    program += f"sys.argv[1:] = {['run', '--command', adapter, '--level', 'chat', '--diff']}\n"
    program += "runpy.run_module('gpt_oss_harmony_conformance', run_name='__main__')"
    done = subprocess.run(
        [*python, "-c", program], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )
    chats = sum(case.level == "chat" for case in SUITE.cases)
    assert done.stderr == f"harmony-conformance: error: {chats} of {chats} cases failed\n"
    assert "<|start|>assistant" in done.stdout
    assert done.returncode == 1
    blocked = subprocess.run(
        [*python, "-c", "import gpt_oss_harmony"], cwd=tmp_path, capture_output=True, check=False
    )
    assert b"No module named 'gpt_oss_harmony'" in blocked.stderr


# Hostile subjects: each is a failed case with a reason, in time, in a report

DESCRIBED = """\
import json, os, subprocess, sys, time
sys.stdin.readline()
print('{"name": "x"}', flush=True)
sys.stdin.readline()
"""
LINE = "print({}, flush=True); time.sleep(60)"
ANSWER = """\
import os, sys, time
def answer(request):
    if request["operation"] == "describe":
        return {"name": "x"}
    """
RULE = "chat-result-header"  # it has one case

PROGRAMS = {
    "writes a byte at a time": ("while True: os.write(1, b' '); time.sleep(0.05)", "no answer"),
    "writes a line without end": ("while True: os.write(1, b'x' * 65536)", "longer than"),
    "writes no UTF-8": ("os.write(1, bytes([34, 255, 34, 10]))", "not JSON"),
    "nests without end": (LINE.format("'[' * 200_000"), "not JSON"),
    "nests": (LINE.format("""'{"tokens":' + '[' * 500 + ']' * 500 + '}'"""), "nested"),
    "writes huge numbers": (LINE.format("""'{"tokens":[' + '9' * 5000 + ']}'"""), "not JSON|other"),
    "writes other tokens": (LINE.format("""'{"tokens":[-5, 1000000000000000]}'"""), "other"),
    "writes null": (LINE.format("'null'"), "not an object"),
    "ends": ("", "ended without an answer"),
    "is killed": ("os.kill(os.getpid(), 9)", "ended without an answer"),
    "closes its output": ("os.close(1); time.sleep(60)", "ended without an answer"),
    "closes its input": ("os.close(0); time.sleep(60)", "no answer"),
    "leaves a child behind": (
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])",
        "no answer",
    ),
}  # fmt: skip
MODULES = {
    "exits": ("sys.exit(0)", "SystemExit"),
    "ends the process": ("os._exit(0)", "ended"),
    "raises": ("raise ValueError('boom')", "ValueError: boom"),
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "recurses": ("return answer(request)", "RecursionError"),
    "sleeps": ("time.sleep(60)", "no answer"),
    "holds the interpreter": ("return sum(range(10 ** 15))", "no answer"),
    "answers nothing": ("return None", "not an object"),
    "answers a set": ("return {'tokens': {1}}", "TypeError"),
    "answers a circle": ("a = {}; a['tokens'] = a; return a", "ValueError"),
    "answers too much": ("return {'text': 'x' * 10_000_000}", "longer than"),
}
SERVERS: dict[str, tuple[Iterable[bytes], str]] = {
    "cuts its answer short": ([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}"], "Incomplete"),
    "cuts a refusal short": ([b"HTTP/1.1 400 B\r\nContent-Length: 99\r\n\r\n{}"], "Incomplete"),
    "sends a bad chunk": (
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n{}"], "Incomplete",
    ),
    "does not speak HTTP": ([b"hello\r\n\r\n"], "BadStatusLine"),
    "sends no UTF-8": ([b'HTTP/1.1 200 OK\r\n\r\n{"\xff": 1}'], "not JSON"),
    "sends a list": ([b"HTTP/1.1 200 OK\r\n\r\n[]"], "not an object"),
    "sends a page": ([b"HTTP/1.1 200 OK\r\n\r\n<html>"], "not JSON"),
    "sends nothing": ([b"HTTP/1.1 204 No\r\n\r\n"], "204"),
    "nests": ([b"HTTP/1.1 200 OK\r\n\r\n" + b'{"a":' * 100_000], "not JSON|longer"),
    "sends without end": (
        itertools.chain([b"HTTP/1.1 200 OK\r\n\r\n"], itertools.repeat(b" " * 65536)),
        "longer than",
    ),
    "sends a byte at a time": (
        itertools.chain([b"HTTP/1.1 200 OK\r\n\r\n"], itertools.repeat(b" ")), "no answer",
    ),
    "sends its header a byte at a time": (
        itertools.chain([b"HTTP/1.1 200 OK\r\nA: "], itertools.repeat(b"a")), "no answer",
    ),
    "lets wait": (itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n"), "no answer"),
    "hangs up": ([], "cannot be reached"),
    **{
        f"answers {status}": (
            [b"HTTP/1.1 %d No\r\nLocation: /x\r\nContent-Length: 2\r\n\r\n{}" % status],
            str(status),
        )
        for status in (201, 301, 302, 303, 307, 308, 401, 403, 408, 413, 429, 500, 503)
    },
}  # fmt: skip


def verdicts_of(tmp_path: Path, rule: str, *subject: str) -> dict[str, Any]:
    """Run the command with a hostile subject, and return its report."""
    report = tmp_path / "report.json"
    begin = time.monotonic()
    code = run(*subject, "--rule", rule, "--timeout", "4", "--diff", "--output", str(report))
    assert code == 1
    assert time.monotonic() - begin < 60
    written: dict[str, Any] = read(report)
    return written


def assert_fails(tmp_path: Path, problem: str, *subject: str) -> None:
    report = verdicts_of(tmp_path, RULE, *subject)
    assert report["counts"] == {"failed": 1}
    assert re.search(problem, report["results"][0]["problem"])


@pytest.mark.parametrize(("program", "problem"), PROGRAMS.values(), ids=PROGRAMS)
def test_hostile_programs(program: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(DESCRIBED + program)
    assert_fails(tmp_path, problem, "--command", f"'{sys.executable}' '{file}'")


def test_a_program_that_answers_what_nobody_asked(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    said = {"name": "twice", "version": "1", "unsupported": "x"}
    twice = f"{json.dumps(said)}\n" * 2  # so that a line waits when the next request comes
    file.write_text(f"import sys\nfor _ in sys.stdin: print({twice!r}, end='', flush=True)\n")
    report = verdicts_of(tmp_path, "no-markup", "--command", f"'{sys.executable}' '{file}'")
    assert any("before its request" in result["problem"] for result in report["results"])
    assert "passed" not in report["counts"]


@pytest.mark.parametrize(("body", "problem"), MODULES.values(), ids=MODULES)
def test_hostile_modules(body: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(ANSWER + body)
    assert_fails(tmp_path, problem, "--module", str(file))


@pytest.mark.parametrize("line", ["raise ValueError('boom')", "import sys; sys.exit(0)", "1 +"])
def test_modules_that_cannot_be_imported(line: str, tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(line)
    with pytest.raises(KitError, match="cannot be imported"):
        ModuleAdapter(str(file))


def test_a_module_may_print(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(f"{ANSWER}print('Hello!'); return {{'text': {TEXT!r}}}")
    adapter = ModuleAdapter(str(file))
    assert judge(case(PROMPT), adapter).outcome == "passed"
    adapter.close()


def send(connection: socket.socket, parts: Iterable[bytes]) -> None:
    """Read a request, and send these parts; after a short one comes a pause."""
    with connection, contextlib.suppress(OSError):
        head, _, body = connection.recv(65536).partition(b"\r\n\r\n")
        if not head:
            return  # the kit only looks whether there is a server
        length = int(re.findall(rb"Content-Length: (\d+)", head)[0])
        while len(body) < length:
            body += connection.recv(65536)
        for part in parts:
            connection.sendall(part)
            time.sleep(0.02 if len(part) < 65536 else 0)


@pytest.mark.parametrize(("parts", "problem"), SERVERS.values(), ids=SERVERS)
def test_hostile_servers(parts: Iterable[bytes], problem: str, tmp_path: Path) -> None:
    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                send(server.accept()[0], parts)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        port = server.getsockname()[1]
        assert_fails(tmp_path, problem, "--url", f"http://127.0.0.1:{port}")
        server.shutdown(socket.SHUT_RDWR)
