"""The command line: what it writes, what it refuses and how, and that its documentation is true."""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpt_oss_harmony
from gpt_oss_harmony.cli import COMMANDS, demo, main
from gpt_oss_harmony.engines.tokenizer_files import RESPONSE_TEMPLATE
from support.examples import examples

ROOT = Path(__file__).parents[2]
CHATS = ROOT / "tests" / "data" / "chat"

FINAL = "<|channel|>final<|message|>2 + 2 = 4.<|return|>"
CALL = "<|channel|>commentary to=get_location<|message|>{}<|call|>"
HARMONY = '{"messages": [{"role": "user", "recipient": "all", "content": "hi"}]}'
CHAT = '[{"role": "user", "content": "hi"}]'
TOOL = '{"name": "now", "description": "Tells the time."}'

UNEXPECTED_EOS = "Unexpected EOS while waiting for message header to complete"
READ_LENIENTLY = "; --lenient repairs it"

# Arguments and standard input, then what is written.
OUTPUTS = [
    ("render", HARMONY, "<|start|>user<|message|>hi<|end|><|start|>assistant"),
    ("render -", HARMONY, "<|start|>user<|message|>hi<|end|><|start|>assistant"),
    ("render --role none", HARMONY, "<|start|>user<|message|>hi<|end|>"),
    ("render --role user", HARMONY, "<|start|>user<|message|>hi<|end|><|start|>user"),
    ("render --from harmony --role none", CHAT, "<|start|>user<|message|>hi<|end|>"),
    ("render --format ids", HARMONY, "200006 1428 200008 3686 200007 200006 173781"),
    (
        "render --training",
        '[{"role": "assistant", "channel": "final", "content": "hi"}]',
        "<|start|>assistant<|channel|>final<|message|>hi<|return|>",
    ),
    (
        "render --role none",
        '[{"role": "assistant", "channel": "analysis", "content": "hm"},'
        ' {"role": "assistant", "channel": "final", "content": "hi"}]',
        "<|start|>assistant<|channel|>final<|message|>hi<|end|>",
    ),
    (
        "render --role none --keep-analysis",
        '[{"role": "assistant", "channel": "analysis", "content": "hm"},'
        ' {"role": "assistant", "channel": "final", "content": "hi"}]',
        "<|start|>assistant<|channel|>analysis<|message|>hm<|end|>"
        "<|start|>assistant<|channel|>final<|message|>hi<|end|>",
    ),
    (
        "render --role none --reasoning-rule by-turn",
        '[{"role": "assistant", "channel": "final", "content": "ho"},'
        ' {"role": "assistant", "channel": "analysis", "content": "hm"},'
        ' {"role": "assistant", "channel": "final", "content": "hi"}]',
        "<|start|>assistant<|channel|>final<|message|>ho<|end|>"
        "<|start|>assistant<|channel|>final<|message|>hi<|end|>",
    ),
    (
        "render --role none --header-style guide",
        '[{"role": "assistant", "channel": "commentary", "recipient": "f", "content": "{}"}]',
        "<|start|>assistant<|channel|>commentary to=f<|message|>{}<|call|>",
    ),
    ("parse", FINAL, "[assistant · final]\n2 + 2 = 4."),
    ("parse", f"<|start|>assistant{FINAL}", "[assistant · final]\n2 + 2 = 4."),
    ("parse --role none", f"<|start|>assistant{FINAL}", "[assistant · final]\n2 + 2 = 4."),
    ("parse --role user", "<|message|>2<|end|>", "[user]\n2"),
    ("parse", "200005 17196 200008 3686 200007", "[assistant · final]\nhi"),
    ("parse", "[200005, 17196,\n 200008, 3686, 200007]", "[assistant · final]\nhi"),
    ("parse --lenient --from text", "2024", "[assistant · final]\n2024\n\n"
     "incomplete: the tokens end inside a message\n\n"
     "recoveries: 1\n  token 1: no-markup '2024'"),
    ("parse --lenient", FINAL, "[assistant · final]\n2 + 2 = 4.\n\nrecoveries: none"),
    ("parse --lenient", "<|end|>", "no messages\n\nrecoveries: 1\n  token 0: extra-stop '<|end|>'"),
    ("parse --lenient --recipients functions.get_location",
     "<|channel|>commentary to=functions.get_locatoin<|message|>{}<|call|>",
     "[assistant · commentary · to functions.get_locatoin]\n{}\n\nrecoveries: none"),
    ("parse --lenient --recipients functions.a --recipients functions.get_location,b", CALL,
     "[assistant · commentary · to functions.get_location]\n{}\n\n"
     "recoveries: 1\n  token 6: tool-name 'get_location'"),
    ("parse --format json", FINAL,
     '{\n  "messages": [\n    {"role": "assistant", "name": null, '
     '"content": [{"type": "text", "text": "2 + 2 = 4."}], "channel": "final"}\n  ],\n'
     '  "incomplete": false\n}'),
    ("encode", "hello<|end|>", "24912 27 91 419 91 29"),
    ("encode --special", "hello<|end|>", "24912 200007"),
    ("encode", "", ""),
    ("decode", "24912 200007", "hello<|end|>"),
    ("decode", "[24912, 200007]\n", "hello<|end|>"),
    ("decode", "24912,200007,", "hello<|end|>"),
    ("decode", "", ""),
    ("schema", TOOL, "// Tells the time.\ntype now = () => any;"),
    ("schema", f'{{"type": "function", "function": {TOOL}}}',
     "// Tells the time.\ntype now = () => any;"),
    ("schema", '{"type": "function", "name": "now"}', "type now = () => any;"),
    ("schema", f'[{TOOL}, {{"name": "cat", "parameters": {{"type": "object"}}}}]',
     "// Tells the time.\ntype now = () => any;\n\ntype cat = (_: {\n}) => any;"),
    ("schema", '{"type": "array", "items": {"type": ["string", "null"]}}', "(string | null)[]"),
    ("schema --schema-dialect reference",
     '{"type": "array", "items": {"type": ["string", "null"]}}',
     "string | null[]"),
    ("schema", "true", "any"),
    ("schema", "{}", "any"),
    ("schema", f'{{"messages": [{{"role": "user", "content": "hi"}}], "tools": [{TOOL}]}}',
     "// Tells the time.\ntype now = () => any;"),
    ("--version", "", f"harmony {gpt_oss_harmony.__version__}"),
]  # fmt: skip

# JSON for `schema`, then its output and its warning.
UNKNOWN_TYPES = [
    ('{"type": "objct"}', "any", '"objct" is not the name of a type; write "object"'),
    ('{"type": "object", "properties": {"type": {"type": ["sting", "null"]}}}',
     "{\ntype?: null,\n}", '"sting" is not the name of a type; write "string"'),
    ('{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "xyz"}}}}',
     "type f = (_: {\na?: any,\n}) => any;",
     '"xyz" is not the name of a type; write one of array, boolean, integer, null, number, '),
    ('{"enum": ["a"], "default": {"type": "objct"}}', '"a"', ""),
    ('{"typ": "object"}', "any", "no keyword of JSON Schema in this object says what is allowed; "
     "did you mean type?"),
    ('{"cat": "dog"}', "any", "no keyword of JSON Schema in this object says what is allowed; "
     "a schema has type"),
    ('{"minimum": 3}', "any", ""),
]  # fmt: skip


# Arguments and standard input, then the exit code and the line on standard error.
ERRORS = [
    ("render nowhere.json", "", 2, "nowhere.json: cannot be read (No such file or directory); "
     "check the path; text itself goes to standard input (echo TEXT | harmony ...)"),
    ("render .", "", 2, ".: cannot be read (Is a directory); "
     "check the path; text itself goes to standard input (echo TEXT | harmony ...)"),
    ("render", " ", 1, "there is no input; expected JSON"),
    ("render", "{", 1, "not valid JSON (line 1, column 2): expected a field name in "
     "double quotes"),
    ("render", "[" * 100_000, 1, "not valid JSON: nested too deeply to be read"),
    ("render", "{“a”: 1}", 1,
     "not valid JSON (line 1, column 2): write \" around names and texts"),
    ("render", "{'a': 1}", 1,
     "not valid JSON (line 1, column 2): write \" around names and texts"),
    ("render", '{"a": True}', 1,
     "not valid JSON (line 1, column 7): write true, false and null in small letters"),
    ("render", '{"a": "b\tc"}', 1,
     "not valid JSON (line 1, column 9): write this character in a text as \\t"),
    ("render", '{"a": "b\nc"}', 1,
     "not valid JSON (line 1, column 9): write a line break in a text as \\n"),
    ("render", '{"a": 1, // why', 1, "not valid JSON (line 1, column 10): JSON has no comments"),
    ("render", "\udcff", 2, "not UTF-8 (at byte 0); save it as UTF-8"),
    ("render", "3", 1, "messages: expected a list, found 3"),
    ("render", "{}", 1, "messages: the field is missing; expected a list"),
    ("render", '{"message": []}', 1, "messages: the field is missing, but there is 'message'"),
    ("render", '[{"role": "cat", "channel": "x", "content": ""}]', 1,
     "messages[0].role: expected 'user', 'assistant', 'system', 'developer' or 'tool', found"),
    ("render", '{"messages": [{"role": "user", "content": "a"}, {"role": "tool", "content": "b", '
     '"channel": "final"}]}', 1, "messages[1].author.name: a message by a tool needs the tool's"),
    ("parse", "\n", 1, "there is no input; expected token ids or marked-up text"),
    ("parse", "Hello", 1,
     f"{UNEXPECTED_EOS} (token 1, state Header){READ_LENIENTLY}"),
    ("parse", f"{FINAL}?", 1,
     "Unexpected token 30 while expecting start token 200006: found '?', expected '<|start|>' "
     f"(token 12, state ExpectStart){READ_LENIENTLY}"),
    ("parse", f"{FINAL}assistant", 1,
     "Unexpected token 173781 while expecting start token 200006: found 'assistant', expected "
     f"'<|start|>' (token 12, state ExpectStart){READ_LENIENTLY}"),
    ("parse", CHAT, 1, "this is a conversation as JSON; 'harmony render' turns it into tokens"),
    ("parse --lenient", HARMONY, 1, "this is a conversation as JSON; 'harmony render' turns it"),
    ("parse", '{"model": "gpt-oss", "messages": [{"role": "user"}]}', 1,
     "this is a conversation as JSON; 'harmony render' turns it into tokens"),
    ("parse --from ids", "12 cat", 1, "expected token ids (integers between spaces or commas, "
     "or a JSON list of them), found 'cat'"),
    ("parse", "201089", 1, f"{UNEXPECTED_EOS} (token 1, state Header){READ_LENIENTLY}"),
    ("parse", str(2**32), 1, f"token id {2**32} is outside the vocabulary (0 to 201088)"),
    ("decode", "1" * 5000, 1, "expected token ids (integers between spaces or commas, "
     f"or a JSON list of them), found '{'1' * 39}"),
    ("decode", "201089", 1,
     "Invalid token for decoding: 201089 is outside the vocabulary (0 to 201088)"),
    ("schema", "[]", 1, "the list of tools is empty"),
    ("schema", '{"messages": []}', 1, "the list of tools is empty"),
    ("schema", "[3]", 1, "[0]: expected an object, found 3"),
    ("schema", '[{"type": "function"}]', 1, "[0].function: the field is missing; expected an "
     "object with a name"),
    ("schema", "3", 1, "expected a tool or a JSON Schema, found 3"),
]  # fmt: skip


# Arguments that are wrong usage, and the line on standard error.
USAGE = [
    ("models --convert", "--convert needs a value"),
    ("rendr", "there is no command 'rendr'; did you mean render?"),
    ("--color never demo", "--color comes after the command, if it has this option; write "
     "'harmony demo --color ...'"),
    ("xyzzy", "there is no command 'xyzzy'; choose from chat, generate, "),
    ("--verbose", "there is no option --verbose"),
    ("--verison", "there is no option --verison; did you mean --version?"),
    ("chat --efort low", "there is no option --efort; did you mean --effort?"),
    ("chat --model openai/gpt-oss-20b", "--model is for servers, and 'demo' is not the URL of one; "
     "write 'harmony chat openai/gpt-oss-20b'"),
    ("chat localhost:1 --threads 2", "--grammar and the options of an engine are for a model in "),
    ("chat localhost:1 --python", "--python is for a model in this process; "),
    ("chat localhost:1 --grammar", "--grammar and the options of an engine are for "),
    ("chat http://", "'http://' names no server; write a URL such as http://localhost:8000"),
    ("chat --temperature hot", "--temperature must be a number, not 'hot'"),
    ("chat --seed 1.5", "--seed must be an integer, not '1.5'"),
    ("chat --effort", "--effort needs a value"),
    ("chat --temperature -1", "--temperature must be from 0 to 100, not -1.0"),
    ("chat --browser nowhere", "--browser: there is no folder 'nowhere'; name a folder "),
    ("generate", "the following arguments are required: MODEL"),
    ("generate chat.json", "MODEL is missing; write a model before the file, such as 'harmony "
     "generate demo chat.json'"),
    ("generate --model demo", "there is no option --model; write MODEL without an option name, as "
     "in 'harmony generate MODEL'"),
    ("generate demo FILE --top-p 3", "--top-p must be from 0 to 1, not 3.0"),
    ("generate demo FILE --max-tokens 0", "--max-tokens must be an integer from 1, not 0"),
    ("generate demo FILE --engine-option x", "--engine-option must be NAME=VALUE, not 'x'"),
    ("generate http://localhost:1 FILE --threads 2", "--threads is for a model in this process"),
    ("serve", "there is no MODEL; write 'harmony serve demo', or set HARMONY_MODEL, or model in "),
    ("serve --model demo", "there is no option --model; write MODEL without an option name, as in "
     "'harmony serve MODEL'"),
    ("serve demo --port 65536", "--port must be a port from 0 to 65535, not 65536"),
    ("serve demo --allowed-origin x", "'x' is "),
    ("keys", "the following arguments are required: ACTION (create, list, revoke, rotate); see "),
    ("data", "the following arguments are required: ACTION (owners, export, delete, backup); see "),
    ("completion", "the following arguments are required: SHELL (bash, zsh, fish); see "),
    ("render --effort high", "there is no option --effort; see "),
    ("keys lst", "there is no action 'lst'; did you mean list?"),
    ("keys create", "the following arguments are required: NAME"),
    ("keys create x --tokens-per-minute 0", "--tokens-per-minute must be an integer "),
    ("doctor --port x", "--port"),
    ("data export", "the following arguments are required: --owner"),
    ("mcp", "name a tool to serve: --browser BACKEND, --python, or both"),
    ("mcp --python --api-key x", "--api-key is for HTTP; add --port"),
    ("inspect --port x", "--port must be a port from 0 to 65535, not x"),
    ("doctor --port x", "--port must be"),
    ("demo --delay soon", "--delay must be seconds from 0 to 10, not soon"),
    ("demo --delay nan", "--delay must be seconds from 0 to 10, not nan"),
    ("render --format jsn", "--format cannot be 'jsn'; did you mean json?"),
    ("render --color=x", "--color cannot be 'x'; choose from auto, always, "),
    ("render --training --role user", "use --role or --training, not both"),
    ("render --date 2025-02-30", "--date: '2025-02-30' is not a date; write it as "),
    ("render --date 20250628", "--date: '20250628' is not a date; write it as "),
    ("render HARMONY --date 2025-06-28", "--date is for Chat Completions requests, and this is a "
     "harmony conversation; write the date into its system content as conversation_start_date"),
    ("render a b", "there is one argument too many: 'b'"),
    ("parse --from text --role cat", "--role cannot be 'cat'; choose from "),
    ("encode --specil", "there is no option --specil; did you mean --special?"),
    ("decode a b", "there is one argument too many: 'b'"),
    ("schema --schema-dialect ts", "--schema-dialect cannot be 'ts'; "),
    ("grammar FILE --tool-choice now", "--tool-choice: 'now' is not declared; declared tools: "),
    ("grammar FILE --reasoning-tokens 0", "--reasoning-tokens must be an integer from 1"),
    ("check FILE", "use --completion or --completion-file"),
    ("prepare rows.jsonl", "use --show or --output"),
    ("prepare rows.jsonl --show 0", "--show must be an integer from 1, not 0"),
    ("prepare rows.jsonl --output out --pack", "--pack needs --context-length, the length of "),
    ("template", "the following arguments are required: KIND (chat, response); see "),
    ("template caht", "there is no kind 'caht'; did you mean chat?"),
    ("completion fsh", "there is no shell 'fsh'; did you mean fish?"),
]  # fmt: skip

# Old spellings and the ones that replaced them.


class Result(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def run(command: str, stdin: str = "") -> Result:
    """Run a command line without the word ``harmony`` in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    raw = io.BytesIO(stdin.encode("utf-8", "surrogateescape"))
    given, sys.stdin = sys.stdin, io.TextIOWrapper(raw, encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(shlex.split(command))
    finally:
        sys.stdin = given
    return Result(code, _written(out), _written(err))


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize(("command", "stdin", "written"), OUTPUTS)
def test_outputs(command: str, stdin: str, written: str) -> None:
    assert run(command, stdin) == Result(0, f"{written}\n", "")


@pytest.mark.parametrize(("stdin", "written", "problem"), UNKNOWN_TYPES)
def test_unknown_types_of_a_schema_are_a_warning(stdin: str, written: str, problem: str) -> None:
    result = run("schema", stdin)
    assert result[:2] == (0, f"{written}\n")
    assert result.err.startswith(f"harmony: warning: {problem}" if problem else "")
    assert result.err.count("\n") == bool(problem)


def test_a_prompt_with_an_unknown_type_has_the_same_warning() -> None:
    function = {"name": "f", "parameters": {"type": "objct"}}
    tool = {"type": "function", "function": function}
    chat = {"messages": [{"role": "user", "content": "hi"}], "tools": [tool]}
    result = run("render", json.dumps(chat))
    assert "type f = (_: any) => any;" in result.out
    problem = '"objct" is not the name of a type; write "object"'
    assert (result.code, result.err) == (0, f"harmony: warning: {problem}\n")


@pytest.mark.parametrize(("command", "stdin", "code", "problem"), ERRORS)
def test_errors_are_one_line(command: str, stdin: str, code: int, problem: str) -> None:
    result = run(command, stdin)
    assert result.code == code
    assert result.out == ""
    assert result.err.startswith(f"harmony: error: {problem}")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(("command", "problem"), USAGE)
def test_wrong_usage_is_one_line_and_exit_code_2(
    command: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text(CHAT)
    Path("HARMONY").write_text(HARMONY)
    for name in ("HARMONY_MODEL", "HARMONY_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    result = run(command)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"harmony: error: {problem}")
    assert re.search(r"; see 'harmony [a-z ]*--help'\n$", result.err)
    assert result.err.count("\n") == 1


def test_wrong_usage_of_every_command_is_tried() -> None:
    assert {command.name for command in COMMANDS} <= {line.partition(" ")[0] for line, _ in USAGE}


def test_harmony_alone_shows_its_help() -> None:
    assert run("") == run("--help") == run("help")


def test_words_that_people_type_for_help_and_version() -> None:
    assert run("help render") == run("render --help")
    assert run("help keys add") == run("keys add --help")
    assert run("version") == run("--version")
    assert run("help rendr").err.startswith("harmony: error: there is no command 'rendr'; did you")


@pytest.mark.parametrize("action", ["export", "delete", "delete --yes"])
def test_data_of_an_unknown_owner_is_an_error(tmp_path: Path, action: str) -> None:
    database = f"sqlite:///{tmp_path / 'data.db'}"
    run(f"keys create laptop --database {database}")
    assert run(f"data {action} --owner nobody --database {database}") == Result(
        1, "", "harmony: error: there is no owner 'nobody'; 'harmony data owners' lists them\n"
    )


def test_owners_are_listed_with_what_they_have(tmp_path: Path) -> None:
    store_module = pytest.importorskip("gpt_oss_harmony.server.store")
    from gpt_oss_harmony.server.store.conversations import Conversation

    database = f"sqlite:///{tmp_path / 'data.db'}"
    with store_module.Store(database) as store:
        for owner in ("", "key_1"):
            store.conversations.create(Conversation(f"conv_{owner}", owner, 0, {}))
    assert run(f"data owners --database {database}").out == (
        "'' (requests without a key)  1 conversation\nkey_1  1 conversation\n"
    )


def test_options_may_stand_between_arguments(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    file.write_text("[]")
    between = run(f"inspect nowhere --no-open {file} --port 0")
    assert "one argument too many" not in between.err


def test_the_help_of_harmony_fits_a_terminal_and_has_every_command() -> None:
    shown = run("--help").out
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert all(f"\n  {command.name} " in shown for command in COMMANDS)


@pytest.mark.parametrize("command", ["", *(command.name for command in COMMANDS)])
def test_help_has_examples(command: str) -> None:
    result = run(f"{command} --help")
    assert result.code == 0
    assert result.out.startswith(f"usage: harmony {command}".rstrip())
    assert "examples" in result.out
    if command in ("chat", "generate", "serve"):
        assert "a GGUF file, a name on the Hugging Face hub" in " ".join(result.out.split())


def test_templates_are_those_of_the_demo_model() -> None:
    packaged = ROOT / "src" / "gpt_oss_harmony" / "data" / "demo_model" / "chat_template.jinja"
    assert run("template chat").out == packaged.read_text(encoding="utf-8")
    assert json.loads(run("template response").out) == RESPONSE_TEMPLATE


def test_templates_are_written_into_the_folder_of_a_model(tmp_path: Path) -> None:
    config = tmp_path / "tokenizer_config.json"
    missing = run(f"template response --output {tmp_path}")
    assert missing.code != 0
    assert str(config) in missing.err
    config.write_text('{"other": "é"}', encoding="utf-8")
    assert run(f"template response --output {tmp_path}").code == 0
    written = json.loads(config.read_text(encoding="utf-8"))
    assert written == {"other": "é", "response_template": RESPONSE_TEMPLATE}
    config.write_text("[]", encoding="utf-8")
    assert "no configuration of a tokenizer" in run(f"template response --output {tmp_path}").err
    assert run(f"template chat --output {tmp_path}").code == 0
    template = (tmp_path / "chat_template.jinja").read_text(encoding="utf-8")
    assert template == run("template chat").out


@pytest.mark.parametrize("directory", sorted(CHATS.iterdir()), ids=lambda path: path.name)
def test_chat_renders_like_the_conversation_it_becomes(directory: Path) -> None:
    chat = run(f"render {directory / 'request.json'} --date 2025-06-28 --format ids")
    harmony = run(f"render {directory / 'conversation.json'} --format ids")
    assert chat[:2] == harmony[:2]
    assert chat.code == 0


@pytest.mark.parametrize(("written", "sign"), [("[1,\n]", "]"), ('{"a": 1, }', "}")])
def test_a_comma_too_many_is_named_by_every_python(written: str, sign: str) -> None:
    assert run("render", written).err.endswith(f": remove the comma before {sign}\n")


def test_a_field_that_stands_twice_is_named() -> None:
    written = '{"messages": [{"role": "user", "content": "a", "role": "user", "content": "b"}]}'
    result = run("render", written)
    assert result.out.endswith("<|message|>b<|end|><|start|>assistant\n")
    problem = "harmony: warning: an object has the field 'role' twice; the last one counts\n"
    assert result.err == problem


def test_fields_of_harmony_that_nothing_reads_are_named() -> None:
    system = {"type": "system_content", "reasoning_efort": "High", "start_date": None}
    tool = {"name": "a", "description": "b", "parameters": {"type": "object", "x": 1}, "strct": 1}
    developer = {
        "type": "developer_content",
        "tools": {"functions": {"name": "functions", "tools": [tool]}},
    }
    messages = [
        {"role": "system", "content": system},
        {"role": "developer", "content": [developer]},
        *[{"role": "user", "content": "hi", "chanel": "final", "recipient": None}] * 2,
        {"role": "assistant", "channel": "final", "content": [{"type": "text", "text": "a"}]},
    ]
    named = (
        "harmony: warning: nothing reads messages[0].content[0].reasoning_efort (did you mean "
        "reasoning_effort?), messages[1].content[0].tools.functions.tools[0].strct, "
        "messages[2].chanel (did you mean channel?, 2 times)\n"
    )
    assert run("render", json.dumps({"messages": messages})).err == named
    assert run("render", json.dumps(messages)).err == named


def test_fields_that_nothing_reads_are_named_once() -> None:
    chat = {
        "messages": [{"role": "user", "content": "hi", "nam": "Anna", "refusal": None}] * 2,
        "efort": "high",
        "temperature": 0.5,
        "reasoning_effort": "low",
    }
    result = run("render", json.dumps(chat))
    assert result.err == "harmony: warning: nothing reads messages[0].nam (2 times), efort\n"
    misspelt = run("render", json.dumps({"messages": chat["messages"], "tool_choise": "none"}))
    assert misspelt.err.endswith(
        "messages[0].nam (2 times), tool_choise (did you mean tool_choice?)\n"
    )
    alone = run("render", json.dumps(chat["messages"]))
    assert alone.err == "harmony: warning: nothing reads messages[0].nam (2 times)\n"
    del chat["efort"], chat["messages"]
    assert (
        run("render", json.dumps({"messages": [{"role": "user", "content": "hi"}], **chat})).err
        == ""
    )


def test_json_holds_the_text_the_tokens_and_their_segments() -> None:
    shown = json.loads(run("render --format json", HARMONY).out)
    segments = shown["segments"]
    assert [(s["kind"], s["message"]) for s in segments] == [
        ("header", 0),
        ("body", 0),
        ("stop", 0),
        ("header", 1),
    ]
    assert "".join(s["text"] for s in segments) == shown["text"]
    assert [token for s in segments for token in s["tokens"]] == shown["tokens"]


def test_lenient_json_holds_the_repairs() -> None:
    shown = json.loads(run("parse --lenient --format json", "Hello").out)
    assert shown["incomplete"] is True
    assert shown["recoveries"] == [{"kind": "no-markup", "position": 0, "text": "Hello"}]


def test_a_conversation_without_messages_is_said() -> None:
    for text in ("[]", '{"messages": []}'):
        result = run("render", text)
        assert (result.code, result.out.endswith("<|start|>assistant\n")) == (0, True)
        assert result.err == "harmony: warning: the conversation has no message but the system's\n"


def test_what_parse_writes_render_reads() -> None:
    completion = f"<|start|>assistant{FINAL}"
    parsed = run("parse --format json", completion).out
    assert run("render --training", parsed).out == f"{completion}\n"


@pytest.mark.parametrize("text", ["a", "a\n", "\n", "a\r\n", "🌞 \t<|end|>"])
def test_text_survives_encode_and_decode(text: str) -> None:
    for option in ("", "--special"):
        ids = run(f"encode {option}", f"{text}\n").out
        assert run("decode", ids).out == f"{text}\n"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", ""])
def test_one_line_break_at_the_end_is_left_out(line_end: str) -> None:
    assert run("encode", f"hello{line_end}").out == "24912\n"


def test_a_byte_order_mark_is_left_out() -> None:
    assert run("render", f"\ufeff{HARMONY}").code == 0


def test_half_characters_are_replaced() -> None:
    result = run("render --role none", HARMONY.replace("hi", r"\ud800"))
    assert result.out == "<|start|>user<|message|>\ufffd<|end|>\n"


# Terminals


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def on_terminal(command: str, stdin: str = "") -> Result:
    """Run a command whose input and output are a terminal."""
    out, err = (_Terminal(io.BytesIO(), encoding="utf-8") for _ in range(2))
    given = sys.stdin
    sys.stdin = _Terminal(io.BytesIO(stdin.encode()), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(shlex.split(command))
    finally:
        sys.stdin = given
    return Result(code, _written(out), _written(err))


COLOURED = "\x1b[1m[assistant · final]\x1b[0m\n\x1b[32m2 + 2 = 4.\x1b[0m\n"
PLAIN = "[assistant · final]\n2 + 2 = 4.\n"


def test_terminals_see_colours_and_a_hint() -> None:
    hint = "harmony: reading standard input; Ctrl-D ends it\n"
    assert on_terminal("parse", FINAL) == Result(0, COLOURED, hint)


@pytest.mark.parametrize(
    ("variable", "value", "written"),
    [
        ("NO_COLOR", "1", PLAIN),
        ("NO_COLOR", "", COLOURED),
        ("TERM", "dumb", PLAIN),
    ],
)
def test_the_environment_decides_on_colours(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, written: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert on_terminal("parse", FINAL).out == written
    assert on_terminal("parse --color always", FINAL).out == COLOURED


def test_color_options_win() -> None:
    assert on_terminal("parse --color never", FINAL).out == PLAIN
    assert run("parse --color always", FINAL).out == COLOURED
    assert run("parse --color auto", FINAL).out == PLAIN


def test_colours_add_nothing_but_colours() -> None:
    chat = shlex.quote(str(CHATS / "weather" / "request.json"))
    coloured = run(f"render {chat} --color always").out
    assert re.sub(r"\x1b\[\d*m", "", coloured) == run(f"render {chat}").out


def test_terminals_obey_no_model() -> None:
    completion = "<|channel|>final<|message|>\x1b[2J\x9b\t<|return|>"
    assert on_terminal("parse --color never", completion).out == (
        "[assistant · final]\n\\x1b[2J\\x9b\t\n"
    )
    assert run("parse", completion).out == "[assistant · final]\n\x1b[2J\x9b\t\n"


# The demo


def test_demo_sends_back_the_tokens_that_were_sampled() -> None:
    result = run("demo")
    assert result.code == 0
    assert result.err == ""
    assert f"… <|start|>assistant{demo._CALL}<|start|>functions.get_current_weather" in result.out
    assert "analysis: The| user| asks|" in result.out
    assert result.out.endswith("no umbrella needed. 🌞\n")


def test_demo_waits_before_each_token(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    run("demo")
    assert set(waits) == {0.0}
    waits.clear()
    run("demo --delay 0.5")
    assert set(waits) == {0.5}
    waits.clear()
    on_terminal("demo")
    assert set(waits) == {0.03}


def test_ctrl_c_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    result = run("demo")
    assert (result.code, result.err) == (130, "")


# Processes of their own


def harmony(*arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process."""
    command = [sys.executable, "-m", "gpt_oss_harmony", *arguments]
    return subprocess.run(command, check=False, capture_output=True, timeout=60, **options)  # type: ignore[call-overload, no-any-return]


def test_module_runs_and_writes_utf8_everywhere() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    result = harmony("decode", input=b"64364 252", env=environment)
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.decode("utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="needs the pipes of POSIX")
def test_a_reader_that_goes_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "gpt_oss_harmony", "demo"]
    result = subprocess.run(command, check=False, stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, b"")


@pytest.mark.skipif(os.name == "nt", reason="needs a shell of POSIX")
@pytest.mark.parametrize("words", ["--version", "--help", "template chat"])
def test_a_closed_output_is_no_error(words: str) -> None:
    """As of a daemon, whose standard output nobody reads."""
    command = f"{sys.executable} -m gpt_oss_harmony {words} >&-"
    ended = subprocess.run(command, shell=True, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error() -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "gpt_oss_harmony", "demo"]
        result = subprocess.run(
            command, check=False, stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert result.returncode == 1
    assert result.stderr == (b"harmony: error: cannot write the output: No space left on device\n")


def test_the_library_imports_nothing_of_the_command_line() -> None:
    code = (
        "import gpt_oss_harmony, sys; "
        "print([m for m in sys.modules if '.cli' in m or 'chat_completions' in m])"
    )
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert result.stdout.strip() == b"[]"


# Whatever comes in


COMMAND_LINES = st.sampled_from(
    ["render", "render --from harmony", "parse", "parse --lenient", "encode", "decode", "schema"]
)
INPUTS = st.one_of(
    st.text(max_size=50),
    st.lists(st.sampled_from(["<|start|>", "<|message|>", "<|call|>", "a", "1 "])).map("".join),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["messages", "role", "content", "type", "name", "function"]), inner
            )
        ),
    ).map(json.dumps),
)


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(COMMAND_LINES, INPUTS)
def test_no_input_is_a_traceback(command: str, stdin: str) -> None:
    result = run(command, stdin.encode("utf-8", "replace").decode())
    assert result.code in (0, 1)
    errors = [line for line in result.err.splitlines() if not line.startswith("harmony: warning: ")]
    assert len(errors) == result.code


# The documentation


def _documented() -> Iterator[tuple[str, str]]:
    """Each command in docs/guides/command.md and what it says that the command writes."""
    page = (ROOT / "docs" / "guides" / "command.md").read_text(encoding="utf-8")
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = example.partition("\n")
            yield command, output


def run_line(line: str) -> str:
    """Run a line of echo, cat and harmony, joined by pipes; return all that it writes."""
    piped, errors = "", ""
    for stage in line.split(" | "):
        program, *arguments = shlex.split(stage)
        if program == "harmony":
            result = run(shlex.join(arguments), piped)
            piped = result.out
            errors += result.err
        elif program == "echo":
            piped = " ".join(arguments) + "\n"
        else:
            assert program == "cat"
            piped = Path(*arguments).read_text(encoding="utf-8")
    return piped + errors


@pytest.mark.parametrize(("command", "output"), list(_documented()))
def test_documented_output_is_real(
    monkeypatch: pytest.MonkeyPatch, command: str, output: str
) -> None:
    monkeypatch.chdir(CHATS)
    written = run_line(command)
    if not doctest.OutputChecker().check_output(output, written, doctest.ELLIPSIS):
        assert written == output


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs" / "guides" / "command.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        example = rf"^(\$ |.*\| )?harmony {command.name}\b"
        assert re.search(example, page, re.MULTILINE), command.name


def test_an_error_never_writes_the_control_codes_of_a_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["render", "/nowhere/\x1b]0;owned\x07\x9b31m.json"])
    shown = capsys.readouterr().err
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)
    assert r"\x1b]0;owned\x07\x9b31m" in shown
