"""Tools of the Responses API that clients run: their calls and results in both directions."""

from __future__ import annotations

import json
from typing import Any, cast, get_args

import pytest
from anthropic.types.beta import BetaMemoryTool20250818Command
from openai.types.responses import Response, response_input_item_param
from pydantic import TypeAdapter

from gpt_oss_harmony import ConversationError
from gpt_oss_harmony.apis import ResponsesRequest, answer_request, turn_of_response
from gpt_oss_harmony.apis.client_tools import CLIENT_TOOLS, MESSAGES_TOOLS, call_field
from gpt_oss_harmony.apis.requested_tools import RequestedTools
from gpt_oss_harmony.conversation.json_field import JsonField
from support.responses_server import create, serving
from support.scripted_engine import ENCODING

FINAL = "<|channel|>final<|message|>Done.<|return|>"

CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "shell": (
        '{"commands":["ls"],"timeout_ms":9}',
        {"commands": ["ls"], "timeout_ms": 9, "max_output_length": None},
        {
            "output": [
                {"stdout": "a\n", "stderr": "b", "outcome": {"type": "exit", "exit_code": 1}},
                {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
            ]
        },
        "exit code 1\na\nb\ntimed out\n",
    ),
    "local_shell": (
        '{"command":["ls","-l"]}',
        {
            "type": "exec",
            "command": ["ls", "-l"],
            "env": {},
            "timeout_ms": None,
            "working_directory": None,
        },
        {"output": '{"output":"a"}'},
        '{"output":"a"}',
    ),
    "tool_search": (
        '{"query":"time"}',
        {"query": "time"},
        {"execution": "client", "tools": [{"type": "function", "name": "clock"}]},
        "These tools can be called now: clock",
    ),
    "apply_patch": (
        '{"type":"update_file","path":"a.md","diff":"@@\\n-a\\n+b\\n"}',
        {"type": "update_file", "path": "a.md", "diff": "@@\n-a\n+b\n"},
        {"status": "failed", "output": "no such file"},
        "failed: no such file",
    ),
}
"""By tool: arguments, the field of the call's item, the fields of a result, and its text."""


def tool_of(name: str) -> dict[str, Any]:
    return SEARCH if name == "tool_search" else {"type": name}


def sampled(name: str, arguments: str) -> str:
    header = f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>"
    return f"{header}{arguments}<|call|>"


def result_of(name: str, call: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    field = "id" if name == "local_shell" else "call_id"
    return {"type": CLIENT_TOOLS[name].result_item, field: call["call_id"], **fields}


@pytest.mark.parametrize("name", CASES)
def test_calls_and_results(name: str) -> None:
    arguments, field, output, text = CASES[name]
    tools = [tool_of(name)]
    with serving(sampled(name, arguments), FINAL) as client:
        called = create(client, input="hi", tools=tools, store=False)
        (call,) = Response.model_validate(called).output
        assert call.type == f"{name}_call"
        item = called["output"][0]
        assert item[CLIENT_TOOLS[name].field] == field
        result = result_of(name, item, output)
        TypeAdapter(response_input_item_param.ResponseInputItemParam).validate_python(item)
        answer = client.post(
            "/v1/responses",
            json={"input": [{"role": "user", "content": "hi"}, item, result], "tools": tools},
        )
        assert answer.status_code == 200, answer.text
        assert "harmony-ignored" not in answer.headers
        prompt = client.app.state.services.engine.prompts[-1]  # type: ignore[attr-defined]
    assert f"<|message|>{arguments}<|call|>" in prompt
    assert f"<|start|>functions.{name} to=assistant<|channel|>commentary<|message|>{text}" in prompt


@pytest.mark.parametrize("name", CASES)
def test_streamed_calls_begin_and_end_at_once(name: str) -> None:
    with serving(sampled(name, CASES[name][0])) as client:
        body = {"input": "hi", "tools": [tool_of(name)], "stream": True}
        lines = client.post("/v1/responses", json=body).text.splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    items = [event for event in events if "output_item" in event["type"]]
    assert [event["item"]["status"] for event in items] == ["in_progress", "completed"]
    assert {event["item"]["type"] for event in items} == {CLIENT_TOOLS[name].item}


def test_found_tools_can_be_called() -> None:
    _, arguments, output, _ = CASES["tool_search"]
    call = {"type": "tool_search_call", "call_id": "call_1", "arguments": arguments}
    found = {"type": "tool_search_output", "call_id": "call_1", **output}
    request = ResponsesRequest(
        input=[{"role": "user", "content": "hi"}, {**call, "execution": "client"}, found],
        tools=[SEARCH],
    )
    assert turn_of_response(request).tools == {"functions.tool_search", "functions.clock"}
    others = [{**call, "execution": "server"}, {**found, "execution": "server"}]
    request = ResponsesRequest(input=[*others, {"role": "user", "content": "hi"}])
    assert len(turn_of_response(request).conversation.messages) == len(
        ["system", "developer", "user"]
    )


SEARCH = {"type": "tool_search", "execution": "client"}
UNFIT = [
    "no JSON",
    "[]",
    "{}",
    '{"commands":"ls"}',
    '{"commands":[1]}',
    '{"commands":["ls"],"x":1}',
    '{"commands":["ls"],"timeout_ms":true}',
]


@pytest.mark.parametrize("arguments", UNFIT)
def test_calls_that_do_not_fit_are_function_calls(arguments: str) -> None:
    assert call_field(CLIENT_TOOLS["shell"], arguments) is None
    with serving(sampled("shell", arguments), grammar=False) as client:
        (call,) = create(client, input="hi", tools=[{"type": "shell"}])["output"]
    assert (call["type"], call["name"], call["arguments"]) == ("function_call", "shell", arguments)


def test_a_choice_names_the_tool() -> None:
    request = ResponsesRequest(input="hi", tools=[{"type": "shell"}], tool_choice={"type": "shell"})
    assert turn_of_response(request).tool_choice.names == ("functions.shell",)
    prompt = ENCODING.decode(turn_of_response(request).prompt())
    assert "type shell = (_: {\ncommands: string[]," in prompt


def test_containers_are_refused() -> None:
    tool = {"type": "shell", "environment": {"type": "container_auto"}}
    with pytest.raises(ConversationError, match=r"tools\[0\].environment.type: .* send local"):
        turn_of_response(ResponsesRequest(input="hi", tools=[tool]))


def test_the_names_are_those_of_the_sdk() -> None:
    known = get_args(response_input_item_param.ResponseInputItemParam)
    texts = [str(one.__annotations__.get("type")) for one in known]
    for tool in CLIENT_TOOLS.values():
        for item in (tool.item, tool.result_item):
            assert any(f"'{item}'" in text or f'"{item}"' in text for text in texts), item


HOSTED = {
    "web_search": "--browser",
    "web_search_preview": "--browser",
    "code_interpreter": "--python",
    "file_search": "input_file",
    "image_generation": "a function",
    "computer": "functions",
    "tool_search": "execution",
}


@pytest.mark.parametrize("kind", HOSTED)
@pytest.mark.parametrize("api", ["responses", "chat/completions"])
def test_tools_that_nobody_runs_are_refused(kind: str, api: str) -> None:
    body: dict[str, Any] = {"tools": [{"type": kind}], "input": "hi"}
    if api != "responses":
        body = {**body, "messages": [{"role": "user", "content": "hi"}], "input": None}
    with serving(FINAL) as client:
        answer = client.post(f"/v1/{api}", json=body)
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["param"] == "tools[0].type"
        assert HOSTED[kind] in error["message"]


def test_they_can_be_ignored() -> None:
    with serving(FINAL, missing_tools="ignore") as client:
        body = {"input": "hi", "tools": [{"type": "web_search"}]}
        answer = client.post("/v1/responses", json=body)
    assert answer.headers["harmony-ignored"] == "tools[].web_search"


def test_the_memory_tool_has_the_fields_of_the_sdk() -> None:
    schema = MESSAGES_TOOLS["memory_20250818"].parameters or {}
    commands = get_args(get_args(BetaMemoryTool20250818Command)[0])
    fields = {name for command in commands for name in command.model_fields}
    assert set(schema["properties"]) == fields
    names = {get_args(command.model_fields["command"].annotation)[0] for command in commands}
    assert set(schema["properties"]["command"]["enum"]) == names


def test_each_editor_inserts_the_field_of_its_version() -> None:
    old, new = (MESSAGES_TOOLS[f"text_editor_{day}"] for day in ("20250124", "20250728"))
    assert "insert puts new_str after" in old.description
    assert "insert_text" not in (old.parameters or {})["properties"]
    assert "insert puts insert_text after" in new.description
    assert "insert_text" in (new.parameters or {})["properties"]


def test_tools_that_items_repeat_are_found_without_reading_the_others() -> None:
    """A conversation may have 100,000 items, each of which declares its tools."""
    read = 0

    class Counted:
        def __init__(self, name: str) -> None:
            self._name = name

        @property
        def name(self) -> str:
            nonlocal read
            read += 1
            return self._name

    requested = RequestedTools()
    for number in range(300):
        counted = cast("Any", Counted(f"a.{number % 100}"))
        requested.add("functions", None, counted, JsonField({}, f"input[{number}].tools[0]"))
    assert read <= 600
    assert requested.recipient("a.9") == "functions.a.9"
    assert read <= 600
    assert len(requested.recipients) == 100


def _declaring(api: str, *tools: dict[str, Any]) -> dict[str, Any]:
    """Return a request that declares functions with the fields of its API."""
    if api == "responses":
        return {"input": "Hi", "tools": [{"type": "function", **tool} for tool in tools]}
    messages = [{"role": "user", "content": "Hi"}]
    if api == "chat":
        functions = [{"type": "function", "function": tool} for tool in tools]
        return {"messages": messages, "tools": functions}
    named = [{"name": tool["name"], "input_schema": tool["parameters"]} for tool in tools]
    return {"messages": messages, "tools": named, "max_tokens": 9}


@pytest.mark.parametrize("api", ["responses", "chat", "messages"])
def test_of_two_tools_with_one_name_none_is_lost_in_silence(api: Any) -> None:
    now = {"name": "now", "parameters": {"type": "object"}}
    assert answer_request(api, _declaring(api, now, now), model="m").prompt
    other = {"name": "now", "parameters": {"type": "object", "required": ["zone"]}}
    with pytest.raises(ConversationError, match="'now' is declared twice, and not alike") as caught:
        answer_request(api, _declaring(api, now, other), model="m")
    assert caught.value.field == "tools[1]"
