"""``harmony chat URL``: a server of the Chat Completions API, over a real socket."""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpt_oss_harmony import Conversation
from gpt_oss_harmony.cli import main
from gpt_oss_harmony.cli.chat import server_url
from gpt_oss_harmony.installation import requirement
from support.chat_api import Script, ScriptedApi, called, serving
from support.terminals import Terminal, Watched

TOOL = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
BARE = {"name": "later"}
HELLO = {"content": "Hello!"}
ASKED = "type what the function returns; Ctrl-D takes the question back\n"
TAKEN_BACK = " (the question is taken back)\n"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "NO_COLOR", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with serving() as api:
        yield api
        assert not api.scripts, "an answer that nobody asked for"


class Result(NamedTuple):
    code: int
    out: str
    err: str


class Talk:
    """Runs ``harmony chat`` with lines as its input."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str
    ) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self._url = url

    def __call__(
        self, lines: str, *options: str, url: str | None = None, person: bool = False
    ) -> Result:
        self._monkeypatch.setattr("sys.stdin", (Terminal if person else io.StringIO)(lines))
        code = main(["chat", url or self._url, *options])
        return Result(code, *self._capsys.readouterr())


@pytest.fixture
def talk(
    api: ScriptedApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Talk:
    return Talk(monkeypatch, capsys, api.url)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


# What is asked and shown


def test_a_conversation(api: ScriptedApi, talk: Talk) -> None:
    api.says({"reasoning": "H", "reasoning_content": "H"}, {"reasoning": "m."}, {"content": "4"})
    api.says({"content": "No"}, {"content": "on."})
    result = talk("2 + 2?\n\nand now?\n/history\n", "--reasoning")
    assert result == Result(
        0,
        "Hm.\n4\nNoon.\n[user]\n2 + 2?\n[assistant · analysis]\nHm.\n[assistant · final]\n4\n"
        "[user]\nand now?\n[assistant · final]\nNoon.\n",
        "",
    )
    first, second = api.bodies
    assert first == {"model": "script", "messages": [user("2 + 2?")], "stream": True}
    assert second["messages"] == [user("2 + 2?"), assistant("4"), user("and now?")]


def test_an_answer_is_sampled_again_and_the_conversation_saved(
    api: ScriptedApi, talk: Talk, tmp_path: Path
) -> None:
    saved = tmp_path / "chat.json"
    for text in ("One", "Two", "Three", ""):
        api.says({"content": text})
    result = talk(f"a\nb\n/again\n/again\n/save {saved}\n", "--instructions", "Be brief.")
    assert (result.code, result.out) == (1, "One\nTwo\nThree\n")
    assert [body["messages"][-1] for body in api.bodies] == [user(text) for text in "abbb"]
    said = Conversation.from_json(saved.read_text()).messages
    assert [(message.author.role.value, message.text) for message in said[1:]] == [
        *(("developer", ""), ("user", "a"), ("assistant", "One")),
        *(("user", "b"), ("assistant", "Three")),
    ]
    assert main(["render", str(saved)]) == 0


def test_a_saved_file_is_named_as_a_shell_reads_it(
    api: ScriptedApi, talk: Talk, tmp_path: Path
) -> None:
    api.says(HELLO)
    name, other = tmp_path / "my chat.json", tmp_path / "another chat.json"
    said = talk(f'/history\na\n/save {name}\n/save "{other}"\n', person=True).out
    assert said.startswith("nothing has been said yet\n")
    for file in (name, other):
        assert f"saved; harmony render '{file}' shows it as the model reads it" in said
        assert file.exists()
    assert "name a new file, such as /save chat.json" in talk("/save nodir/\n", person=True).out


def test_what_cannot_be_sampled_again_or_saved(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    result = talk(f"/again\n/save\n/save {tmp_path / 'old'}\n")
    for problem in ("no question yet", "name a new file, such as", "File exists; name a new file"):
        assert problem in result.err
    assert (tmp_path / "old").read_text() == "x"


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("/save ~nobodyx/a.json", "~nobodyx/a.json: there is no such home folder; name a"),
        ("/save a\0b", "b: this cannot be the name of a file; name a"),
        (f"/save {'a' * 300}", "; name a new file"),
        ("/save no/such/folder", "; name a new file"),
        ("/effort a\0b", "the effort is one of low, medium, high, not 'a\\x00b'"),
        ("/effort ~nobodyx", "the effort is one of low, medium, high, not '~nobodyx'"),
    ],
)
@pytest.mark.parametrize("person", [False, True])
def test_a_chat_goes_on_after_a_bad_argument(
    api: ScriptedApi, talk: Talk, command: str, problem: str, person: bool
) -> None:
    api.says(HELLO)
    result = talk(f"{command}\nhi\n", person=person)
    assert problem in " ".join((result.out if person else result.err).split())
    assert result.out.strip().endswith("Hello!")


def test_a_saved_file_in_the_home_folder_is_named_in_full(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    said = talk("/save ~/a.json\n", person=True).out
    assert f"harmony render {tmp_path}/a.json" in " ".join(said.split())


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_goes_on_through_calls_under_the_name_that_the_server_uses(
    api: ScriptedApi, talk: Talk, tmp_path: Path, field: str
) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([TOOL, BARE]))
    api.says({field: "One. "}, {"content": "A moment."}, *called(0, "c1", "now", "{", "}"))
    api.says({field: "Two."}, *called(0, "c2", "now"), *called(1, "c3", "later", '{"in": 1}'))
    api.says({field: "Three."}, {"content": "Noon."})
    api.says(HELLO)
    result = talk("time?\n12:00\n12:01\n13:00\nhi\n", "--tools", str(tools), "--reasoning")
    assert result.out == (
        "One. \nA moment.\n[call of functions.now]\n{}\n"
        "Two.\n[call of functions.now]\n\n[call of functions.later]\n"
        '{"in": 1}\nThree.\nNoon.\nHello!\n'
    )
    assert api.bodies[0]["tools"] == [TOOL, {"type": "function", "function": BARE}]
    calls = [
        {"id": name, "type": "function", "function": {"name": function, "arguments": arguments}}
        for name, function, arguments in (
            ("c1", "now", "{}"),
            ("c2", "now", ""),
            ("c3", "later", '{"in": 1}'),
        )
    ]
    turn = [
        user("time?"),
        assistant("A moment.", tool_calls=calls[:1]),
        {"role": "tool", "tool_call_id": "c1", "content": "12:00"},
        assistant("", tool_calls=calls[1:]),
        {"role": "tool", "tool_call_id": "c2", "content": "12:01"},
        {"role": "tool", "tool_call_id": "c3", "content": "13:00"},
    ]
    going_on = [dict(message) for message in turn]
    going_on[1][field], going_on[3][field] = "One. ", "Two."
    assert api.messages[1] == going_on[:3]
    assert api.messages[2] == going_on
    assert api.messages[3] == [*turn, assistant("Noon."), user("hi")]


def test_options_are_sent_where_they_are_given(api: ScriptedApi, talk: Talk) -> None:
    api.says(HELLO)
    api.says(HELLO)
    options = ["--temperature", "0", "--max-tokens", "9", "--top-k", "3", "--instructions", "Be."]
    talk("hi\n/new\n/effort high\nhi\n", *options)
    first, second = api.bodies
    system = {"role": "system", "content": "Be."}
    sent = {"model": "script", "stream": True, "temperature": 0, "max_tokens": 9, "top_k": 3}
    assert first == {**sent, "messages": [system, user("hi")]}
    assert second == {**sent, "messages": [system, user("hi")], "reasoning_effort": "high"}


def test_an_answer_that_is_not_streamed(api: ScriptedApi, talk: Talk) -> None:
    message = assistant("4", reasoning="Hm.", tool_calls=None)
    answer = {"choices": [{"message": message, "finish_reason": "stop"}]}
    api.scripts.append(Script(body=json.dumps(answer).encode()))
    assert talk("2 + 2?\n", "--reasoning").out == "Hm.\n4\n"


@pytest.mark.parametrize(
    ("options", "person", "shown"),
    [
        ([], False, "4\n"),
        (["--reasoning"], False, "Hm.\n4\n"),
        ([], True, "Hm.\n4\n"),
        (["--no-reasoning"], True, "4\n"),
    ],
)
def test_a_pipe_has_answers_alone(
    api: ScriptedApi, talk: Talk, options: list[str], person: bool, shown: str
) -> None:
    api.says({"reasoning": "Hm."}, {"content": "4"})
    assert talk("2 + 2?\n", *options, person=person) == Result(0, shown, "")


def test_commands_confirm_what_they_did(api: ScriptedApi, talk: Talk) -> None:
    lines = "/effort\n/effort high\n/effort\n/clear\nhelp\nquit\n/exit\n"
    assert talk(lines, person=True).out.splitlines() == [
        "effort: what the server chooses",
        "effort: high",
        "effort: high",
        "a new conversation",
        "/help shows the commands",
        "/quit or Ctrl-D ends the chat",
    ]
    assert talk(lines.replace("help\nquit\n", "")) == Result(0, "", "")
    assert not api.bodies


@pytest.mark.parametrize(
    ("finish", "note"),
    [
        ("length", "incomplete: the limit of tokens was reached"),
        ("content_filter", "incomplete: the server filtered the rest"),
    ],
)
def test_answers_that_are_cut_off(api: ScriptedApi, talk: Talk, finish: str, note: str) -> None:
    api.says({"content": "Hel"}, finish=finish)
    api.says({"reasoning": "Hm"}, finish=finish)
    api.says(*called(0, "c1", "now", '{"a'), finish=finish)
    api.says(HELLO)
    result = talk("a\nb\nc\nd\n", person=True)
    assert result.out == (
        f"Hel\n{note}\nHm\n{note}{TAKEN_BACK}"
        f'[call of functions.now]\n{{"a\n{note}{TAKEN_BACK}Hello!\n'
    )
    assert api.messages[-1] == [user("a"), assistant("Hel"), user("d")]


# Servers and their models


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("http://localhost:8000", "http://localhost:8000"),
        ("https://a.example/v1", "https://a.example/v1"),
        ("localhost:8000", "http://localhost:8000"),
        ("localhost", "http://localhost"),
        ("localhost:8000/v1", "http://localhost:8000/v1"),
        ("192.168.0.7:80", "http://192.168.0.7:80"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("gpu.example.org:8000", "http://gpu.example.org:8000"),
        ("demo", None),
        ("openai/gpt-oss-20b", None),
        ("./folder", None),
        ("C:\\models", None),
        ("", None),
    ],
)
def test_urls_are_told_from_models(name: str, url: str | None) -> None:
    assert server_url(name) == url


def test_a_folder_may_be_called_as_a_host_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "localhost").mkdir()
    assert server_url("localhost") is None


@pytest.mark.parametrize("form", ["{url}", "{host}", "{url}/", "{url}/v1", "{host}/v1/"])
def test_urls_may_be_written_in_several_ways(api: ScriptedApi, talk: Talk, form: str) -> None:
    api.says(HELLO)
    url = form.format(url=api.url, host=api.url.removeprefix("http://"))
    assert talk("hi\n", url=url).out == "Hello!\n"


def test_one_of_several_models_has_to_be_chosen(api: ScriptedApi, talk: Talk) -> None:
    api.models = ["a", "b"]
    result = talk("hi\n")
    assert result.code == 1
    assert result.err == f"harmony: error: {api.url} serves a, b; choose one with --model NAME\n"
    api.says(HELLO)
    assert talk("hi\n", "--model", "b").out == "Hello!\n"
    assert api.bodies[0]["model"] == "b"
    api.models = []
    assert "lists no model; name one with --model NAME" in talk("hi\n").err


@pytest.mark.parametrize(
    ("listing", "problem"),
    [
        ((404, b'{"detail":"Not Found"}'), "refused the request (404): Not Found"),
        ((500, b"Internal Server Error"), "refused the request (500): Internal Server Error"),
        ((200, b'{"models": []}'), "has no list of models; is it a server of the Chat Completions"),
    ],
)
def test_a_server_without_a_list_of_models_is_told_the_name(
    api: ScriptedApi, talk: Talk, listing: tuple[int, bytes], problem: str
) -> None:
    api.listing = listing
    assert problem in talk("hi\n").err
    api.says(HELLO)
    assert talk("hi\n", "--model", "a").out == "Hello!\n"


def test_a_wrong_model_is_known_before_the_first_question(api: ScriptedApi, talk: Talk) -> None:
    api.models = ["gpt-oss-20b", "gpt-oss-120b"]
    api.unknown = ["gpt-os-20b", "other"]
    problem = f"harmony: error: {api.url} has no model"
    served = "(no such model); it serves gpt-oss-20b, gpt-oss-120b"
    assert talk("", "--model", "gpt-os-20b").err == (
        f"{problem} 'gpt-os-20b' {served}; did you mean gpt-oss-20b?\n"
    )
    assert talk("", "--model", "other").err == f"{problem} 'other' {served}\n"
    assert talk("", "--model", "gpt-oss-120b").code == 0
    assert talk("", "--model", "loaded-on-demand").code == 0
    assert api.tried == ["gpt-os-20b", "other", "loaded-on-demand"]


def test_servers_need_an_extra(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gpt_oss_harmony.cli.chat_server", None)
    assert f"pip install {requirement('http')}" in talk("hi\n").err


@pytest.mark.parametrize("by", ["option", "environment"])
def test_keys(api: ScriptedApi, talk: Talk, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    api.key = "secret"
    result = talk("hi\n")
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"harmony: error: {api.url}/v1/models refused the request (401): no such key; "
        "pass --api-key KEY, or set OPENAI_API_KEY\n"
    )
    api.says(HELLO)
    options = ["--api-key", "secret"] if by == "option" else []
    monkeypatch.setenv("OPENAI_API_KEY", "secret" if by == "environment" else "other")
    assert talk("hi\n", *options).out == "Hello!\n"
    assert api.keys == ["Bearer secret"]


def test_no_server(talk: Talk) -> None:
    result = talk("hi\n", url="127.0.0.1:1")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("harmony: error: cannot connect to http://127.0.0.1:1/v1/models: ")
    assert result.err.endswith("; start the server there, or correct the URL\n")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--model", "--api-key"])
def test_options_for_servers_are_refused_for_models(talk: Talk, option: str) -> None:
    result = talk("hi\n", option, "x", url="demo")
    assert result.code == 2
    problem = f"harmony: error: {option} is for servers, and 'demo' is not the URL of one;"
    assert result.err.startswith(problem)


# Failures

PAGE = b"<html>\n<head><title>502</title></head>\n<body><h1>Bad\nGateway</h1></body></html>"

FAILURES: list[tuple[str, Script, str]] = [
    (
        "not found",
        Script(status=404, body=b'{"error": {"message": "no model\\nof that name"}}'),
        "{url} refused the request (404): no model of that name",
    ),
    (
        "unauthorized",
        Script(status=401, body=b'{"error": "wrong key"}'),
        "{url} refused the request (401): wrong key; pass --api-key KEY, or set OPENAI_API_KEY",
    ),
    (
        "broken",
        Script(status=500, body=b'{"error": {"message": "the model broke"}}'),
        "{url} refused the request (500): the model broke",
    ),
    (
        "FastAPI",
        Script(status=422, body=b'{"detail": "no such field"}'),
        "{url} refused the request (422): no such field",
    ),
    ("empty", Script(status=500, body=b""), "{url} refused the request (500): it gave no reason"),
    (
        "page",
        Script(status=500, body=PAGE, kind="text/html"),
        "{url} refused the request (500): Bad Gateway",
    ),
    (
        "no JSON",
        Script(body=b"It works!", kind="text/html"),
        "{url} sent an answer that is not JSON: 'It works!'",
    ),
    (
        "garbage",
        Script([b"{not json"]),
        "{url} sent an answer that is not JSON: '{{not json'",
    ),
    (
        "error event",
        Script([{"error": {"message": "out of memory", "code": 503}}]),
        "{url} refused the request (503): out of memory",
    ),
    (
        "another form",
        Script([{"choices": [{"delta": "Hello"}]}]),
        "{base} answered in another form than expected: {{'choices': [{{'delta': 'Hello'}}]}}",
    ),
    ("no end", Script([], ending="end"), "{base} ended its answer too early"),
    ("nothing", Script([]), "{base} ended its answer too early"),
]


@pytest.mark.parametrize(
    ("script", "problem"), [f[1:] for f in FAILURES], ids=[f[0] for f in FAILURES]
)
def test_a_failure_is_a_line_and_the_conversation_goes_on(
    api: ScriptedApi, talk: Talk, script: Script, problem: str
) -> None:
    api.says({"content": "One."})
    api.scripts.append(script)
    api.says(HELLO)
    result = talk("a\nb\nc\n")
    line = problem.format(url=f"{api.url}/v1/chat/completions", base=api.url)
    problems = (
        f"harmony: error: {line}{TAKEN_BACK}harmony: error: 1 line of the input failed; see above\n"
    )
    assert result == Result(1, "One.\nHello!\n", problems)
    assert api.messages[-1] == [user("a"), assistant("One."), user("c")]


def test_a_busy_server_is_asked_again_and_then_given_up(api: ScriptedApi, talk: Talk) -> None:
    busy = Script(status=429, body=b'{"error": {"message": "slow down"}}')
    api.scripts += [busy, busy, busy]
    api.says(HELLO)
    assert talk("a\nb\n", person=True).out == (
        f"{api.url}/v1/chat/completions refused the request (429): slow down{TAKEN_BACK}Hello!\n"
    )


@pytest.mark.parametrize("ending", ["vanish", "end"])
def test_what_was_answered_before_a_stream_broke_is_kept(
    api: ScriptedApi, talk: Talk, ending: str
) -> None:
    api.says({"reasoning": "Hm."}, {"content": "Hel"}, finish=None, ending=ending)
    api.says({"reasoning": "Hm."}, finish=None, ending=ending)
    api.says(*called(0, "c1", "now", "{"), finish=None, ending=ending)
    api.says(HELLO)
    lines = talk("a\nb\nc\nd\n", person=True).out.splitlines()
    problems = ("closed the connection during its answer", "ended its answer too early")
    broken = [line for line in lines if any(problem in line for problem in problems)]
    assert [line.endswith(TAKEN_BACK.strip()) for line in broken] == [False, True, True]
    assert api.messages[-1] == [user("a"), assistant("Hel"), user("d")]


def test_a_call_without_a_result_is_taken_back(api: ScriptedApi, talk: Talk) -> None:
    api.says(*called(0, "c1", "now", "{}"))
    assert talk("a\n", person=True).out == (
        f"[call of functions.now]\n{{}}\n{ASKED}no result of functions.now{TAKEN_BACK}"
    )


def test_a_command_in_the_place_of_a_result_is_run(api: ScriptedApi, talk: Talk) -> None:
    api.says(HELLO)
    api.says(*called(0, "c1", "now", "{}"))
    api.says(HELLO)
    assert talk("a\nb\n/new\nc\n", person=True).out == (
        f"Hello!\n[call of functions.now]\n{{}}\n{ASKED}no result of functions.now{TAKEN_BACK}"
        "a new conversation\nHello!\n"
    )
    assert api.messages[-1] == [user("c")]


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("/effort high", "effort: high"),
        (
            "/history",
            "[user]\na\n[assistant · commentary · to functions.now · <|constrain|>json]\n{}",
        ),
        ("/save", "name a new file, such as /save chat.json"),
        (
            "/new york",
            '/new takes no argument; write /new alone; write it in quotes ("...") to send it',
        ),
        ("/EFFORT", "effort: what the server chooses"),
        (
            "/effrt low",
            "there is no command /effrt; did you mean /effort? "
            'write it in quotes ("...") to send it',
        ),
        (
            "/",
            "there is no command /; /help shows all commands; "
            'write it in quotes ("...") to send it',
        ),
        ("", 'an empty line is not sent; "" is an empty result'),
    ],
)
def test_a_result_is_asked_for_again(api: ScriptedApi, talk: Talk, typed: str, shown: str) -> None:
    api.says(*called(0, "c1", "now", "{}"))
    api.says(HELLO)
    assert talk(f"a\n{typed}\n12:00\n", person=True).out == (
        f"[call of functions.now]\n{{}}\n{ASKED}{shown}\nHello!\n"
    )
    assert api.messages[-1][-1]["content"] == "12:00"


def test_a_question_is_asked_anew_in_the_place_of_a_result(api: ScriptedApi, talk: Talk) -> None:
    api.says(HELLO)
    api.says(*called(0, "c1", "now", "{}"))
    api.says(HELLO)
    api.says(*called(0, "c1", "now", "{}"))
    assert talk("a\nb\n/again\n/again\n", person=True).out == (
        f"Hello!\n[call of functions.now]\n{{}}\n{ASKED}"
        "no result of functions.now (the question is asked anew)\nHello!\n"
        f"[call of functions.now]\n{{}}\n{ASKED}"
        "no result of functions.now (the earlier answer stays)\n"
    )
    asked = [user("a"), assistant("Hello!"), user("b")]
    assert api.messages[1:] == [asked, asked, asked]


def test_broken_json_is_sent_and_said(api: ScriptedApi, talk: Talk) -> None:
    api.says(*called(0, "c1", "now", '{"zone":'))
    api.says(HELLO)
    broken = "not valid JSON (line 1, column 9): expected a value"
    assert talk('a\n{"hour":\n', person=True).out == (
        f'[call of functions.now]\n{{"zone":\nthe arguments are {broken}\n{ASKED}'
        f"sent as it is, though it is {broken}\nHello!\n"
    )
    assert api.messages[-1][-1]["content"] == '{"hour":'


def test_a_program_may_answer_a_call_with_the_text_of_a_command(
    api: ScriptedApi, talk: Talk
) -> None:
    api.says(*called(0, "c1", "now", "{}"))
    api.says(HELLO)
    assert talk("b\n/new\n").err == ""
    assert api.messages[-1][-1]["content"] == "/new"


def test_a_call_of_nothing(api: ScriptedApi, talk: Talk) -> None:
    api.says({"tool_calls": [{"index": 0, "id": "c1", "function": {"arguments": "{}"}}]})
    assert "a call without the name of a function" in talk("a\n").err


def test_lines_that_are_not_utf_8(
    talk: Talk,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    api: ScriptedApi,
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"), encoding="utf-8"))
    assert main(["chat", api.url]) == 2
    assert capsys.readouterr().err == (
        "harmony: error: not UTF-8 (at byte 3); type or pipe UTF-8\n"
    )


# Ctrl-C


def test_ctrl_c_stops_an_answer_and_the_conversation_goes_on(
    api: ScriptedApi, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.says({"reasoning": "Hm."}, finish=None, ending="hang")
    api.says({"content": "Hel"}, finish=None, ending="hang")
    api.says(finish=None, ending="interrupt")
    api.says(HELLO)
    screen = Watched("Hm.", "Hel")
    monkeypatch.setattr("sys.stdout", screen)
    assert talk("a\nb\nc\nd\n", person=True).code == 0
    assert screen.getvalue() == (
        f"Hm.\nstopped{TAKEN_BACK}Hel\nstopped\nstopped{TAKEN_BACK}Hello!\n"
    )
    assert api.gone.wait(30)
    assert api.messages[-1] == [user("b"), assistant("Hel"), user("d")]


def test_ctrl_c_ends_a_chat_that_nobody_types(
    api: ScriptedApi, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.says({"content": "Hel"}, finish=None, ending="hang")
    screen = Watched("Hel")
    monkeypatch.setattr("sys.stdout", screen)
    assert talk("a\nb\n") == Result(130, "", "")
    assert screen.getvalue() == "Hel\n"


class Interrupted(Terminal):
    """A terminal where Ctrl-C comes in the place of some lines."""

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        line = super().readline(-1 if size is None else size)
        if line == "^C\n":
            raise KeyboardInterrupt
        return line


def test_ctrl_c_at_a_prompt(
    api: ScriptedApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api.says(*called(0, "c1", "now", "{}"))
    api.says(HELLO)
    monkeypatch.setattr("sys.stdin", Interrupted("^C\na\n^C\nb\n"))
    assert main(["chat", api.url]) == 0
    assert capsys.readouterr().out == (
        "\nCtrl-D or /quit ends the chat\n[call of functions.now]\n{}\n"
        f"{ASKED}stopped{TAKEN_BACK}Hello!\n"
    )
    assert api.messages[-1] == [user("b")]


# On a terminal

pty = pytest.importorskip("pty", reason="needs the terminals of POSIX")
fcntl, termios = (pytest.importorskip(name) for name in ("fcntl", "termios"))


# Ctrl-C reaches the processes whose terminal it is.
PROGRAM = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from gpt_oss_harmony.cli import main
sys.exit(main())
"""


PROMPT = "\x1b[?2004h"  # pasted text is to be marked as such


class Screen:
    """The command in a process on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._seen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def expect(self, text: str, typed: str = "") -> str:
        """Wait for a text; return what came before it.

        `typed` is typed now, and again as long as nothing comes of it: Python may miss a Ctrl-C
        between the prompt and its wait for input.
        """
        silent = 0
        self.type(typed)
        while text not in self._seen:
            ready, _, _ = select.select([self._ours], [], [], 5)
            silent = 0 if ready else silent + 1
            assert silent < 12, f"no {text!r} in {self._seen!r}"
            if not ready:
                self.type(typed)
                continue
            with contextlib.suppress(OSError):
                self._seen += os.read(self._ours, 1000).decode()
        before, _, self._seen = self._seen.partition(text)
        return before

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def close(self) -> int:
        code = self.process.wait(60)
        os.close(self._ours)
        return code


def test_a_terminal(api: ScriptedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("prompt_toolkit")
    pytest.importorskip("rich")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("PROMPT_TOOLKIT_NO_CPR", "1")  # nobody answers where the cursor is
    api.says({"reasoning": "Hm."}, {"content": "**4**\x1b[2J"})
    api.says({"content": "Once"}, finish=None, ending="hang")
    api.says({"content": "upon"}, finish=None, ending="hang")
    api.says(HELLO)
    screen = Screen("chat", api.url)
    begun = f"script at {api.url}\r\nAsk a question, or type /help.\r\n"
    assert begun in screen.expect(PROMPT)
    screen.type("\x1b[200~2 + 2\r= what?\x1b[201~\r")  # pasted lines, and Enter
    screen.expect("\x1b[2mHm.\x1b[0m\r\n")
    screen.expect("\x1b[1m4\x1b[0m\\x1b[2J")
    screen.expect(PROMPT)
    for begun in ("Once", "upon"):  # it can be done again and again
        screen.type("a story\r")
        screen.expect(begun)
        screen.type("\x03")
        screen.expect("stopped")
        screen.expect(PROMPT)
    screen.type("\x1b[A\x1b[A")  # an earlier question
    screen.expect("what?")
    screen.type("\x1b\ror?\r")  # Alt+Enter
    screen.expect("Hello!")
    screen.expect(PROMPT)
    screen.type("/q")
    screen.expect("/quit")  # the menu of completions
    screen.expect("Ctrl-D or /quit ends", typed="\x03")
    screen.expect(PROMPT)
    screen.type("\x04")
    assert screen.close() == 0
    assert [message["content"] for message in api.messages[-1]] == [
        "2 + 2\n= what?",
        "**4**\x1b[2J",
        "a story",
        "Once",
        "a story",
        "upon",
        "2 + 2\n= what?\nor?",
    ]
