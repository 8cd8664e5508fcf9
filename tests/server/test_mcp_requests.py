"""The MCP servers of the operator in the Responses API, with a real one that misbehaves."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import support.hostile_mcp_server as hostile
from gpt_oss_harmony.conversation.json_field import JsonField
from gpt_oss_harmony.server.tools.mcp import needs_approval
from gpt_oss_harmony.tools.mcp import McpAddress, McpTool
from gpt_oss_harmony.tools.tool import ServerFunction
from support.responses_server import NOW, create, stream, types
from support.server_tools import NEXT, PretendedPython, RoomyEngine, answer, compute, serving_tools

pytest_plugins = ("support.postgres_server", "support.databases")

HOST = McpAddress(command=(sys.executable, str(Path(hostile.__file__))), name="host")
SERVER: dict[str, Any] = {"type": "mcp", "server_label": "host", "require_approval": "never"}
THOUGHT = f"<|channel|>analysis<|message|>Hm, hm.{NEXT}"


def use(function: str, channel: str = "commentary", **arguments: Any) -> str:
    """A call of a tool of the server as a model samples it."""
    header = f"<|channel|>{channel} to=host.{function} <|constrain|>json<|message|>"
    return f"{header}{json.dumps(arguments)}<|call|>"


@contextmanager
def serving(engine: RoomyEngine, *tools: Any, **settings: Any) -> Iterator[TestClient]:
    """Serve with the hostile server as `host`."""
    with serving_tools(engine, *tools, **settings) as client:
        portal, app = client.portal, client.app
        assert portal is not None
        tool = portal.call(McpTool.connect, HOST)
        try:
            app.state.services.tools[tool.namespace.name] = tool  # type: ignore[attr-defined]
            yield client
        finally:
            portal.call(tool.close)


@pytest.fixture(scope="module")
def engine() -> RoomyEngine:
    return RoomyEngine()


@pytest.fixture(scope="module")
def client(engine: RoomyEngine) -> Iterator[TestClient]:
    """One server, with one process of the tools, for most tests."""
    with serving(engine) as client:
        yield client


@pytest.fixture(scope="module")
def free_engine() -> RoomyEngine:
    return RoomyEngine()


@pytest.fixture(scope="module")
def free_client(free_engine: RoomyEngine) -> Iterator[TestClient]:
    """One whose engine may call what was not declared."""
    with serving(free_engine, grammar=False) as client:
        yield client


def say(engine: RoomyEngine, *completions: str) -> RoomyEngine:
    """Let the engine of several tests say this next, and forget what the others asked it."""
    engine.completions = list(completions)
    engine.prompts.clear()
    engine.samplings.clear()
    return engine


def kinds(response: dict[str, Any]) -> list[str]:
    return [item["type"] for item in response["output"]]


def test_list_call_fail_answer(client: TestClient, engine: RoomyEngine) -> None:
    said = [THOUGHT + use("get_time", text="now"), use("fail", "analysis"), answer("Noon.")]
    say(engine, *said)
    events = stream(client, input="When?", tools=[SERVER])
    response = events[-1]["response"]
    assert client.get(f"/v1/responses/{response['id']}").json() == response
    listing, _, called, failed, _ = response["output"]
    assert kinds(response) == ["mcp_list_tools", "reasoning", "mcp_call", "mcp_call", "message"]
    assert (listing["server_label"], listing["error"]) == ("host", None)
    assert listing["tools"][1] == {
        "name": "get-time",
        "description": "Does get-time.",
        "input_schema": hostile.WORDS,
        "annotations": {"readOnlyHint": True},
    }
    output = called.pop("output")
    assert output.startswith("get-time ")
    assert output.endswith(" now[]")
    assert called == {
        "type": "mcp_call",
        "id": called["id"],
        "status": "completed",
        "server_label": "host",
        "name": "get-time",
        "arguments": '{"text": "now"}',
        "approval_request_id": None,
        "error": None,
    }
    assert (failed["status"], failed["name"], failed["output"]) == ("failed", "fail", None)
    assert failed["error"] == {
        "type": "mcp_tool_execution_error",
        "content": [{"type": "text", "text": "it is broken"}],
    }
    told = [name for name, _ in groupby(types(events))]
    assert told[:6] == [
        "created",
        "in_progress",
        "output_item.added",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "output_item.done",
    ]
    assert told[told.index("mcp_call.in_progress") - 1 :][:12] == [
        *("output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta"),
        *("mcp_call_arguments.done", "mcp_call.completed", "output_item.done"),
        *("output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta"),
        *("mcp_call_arguments.done", "mcp_call.failed", "output_item.done"),
    ]
    # The model reads a namespace, and what its calls came to, token for token.
    assert "## host\n\n// Be careful.\nnamespace host {" in engine.prompts[0]
    assert "type get_time = " in engine.prompts[0]
    for before, completion, prompt in zip(engine.prompts, said, engine.prompts[1:], strict=False):
        assert prompt.startswith(f"{before}{completion}<|start|>host.")
    assert (
        "to=assistant<|channel|>analysis<|message|>Error: it is broken<|end|>"
        in (engine.prompts[2])
    )
    assert "to=host.get_time" in (engine.samplings[0].grammar or "")


def test_a_conversation_is_told_once_what_there_is(client: TestClient, engine: RoomyEngine) -> None:
    say(engine, use("echo"), *[answer("1")] * 4)
    first = create(client, input="1", tools=[SERVER])
    assert kinds(first) == ["mcp_list_tools", "mcp_call", "message"]
    body: dict[str, Any] = {"input": "2", "tools": [SERVER]}
    second = create(client, **body, previous_response_id=first["id"])
    question = {"role": "user", "content": "1"}
    sent = [question, *first["output"], {"role": "user", "content": "2"}]
    third = create(client, input=sent, tools=[SERVER])
    fewer = {**SERVER, "allowed_tools": ["echo"]}
    fourth = create(client, input="3", tools=[fewer], previous_response_id=first["id"])
    assert kinds(second) == kinds(third) == ["message"]
    assert kinds(fourth) == ["mcp_list_tools", "message"]
    assert engine.prompts[2] == engine.prompts[3]


def test_nothing_that_a_request_names_is_connected_to() -> None:
    engine = RoomyEngine(answer("I cannot."), answer("I cannot."))
    with socket.create_server(("127.0.0.1", 0)) as listener, serving(engine) as client:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        other = {"type": "mcp", "server_label": "other", "server_url": url}
        events = stream(client, input="!", tools=[other])
        secrets = {"headers": {"Authorization": "secret"}, "authorization": "secret"}
        other = {**SERVER, "server_url": url}
        response = create(client, input="!", tools=[{**other, **secrets}])
        with pytest.raises(BlockingIOError):
            listener.accept()
    listing, message = events[-1]["response"]["output"]
    assert listing["tools"] == []
    assert listing["error"].startswith("this server has no MCP server 'other'; there are host.")
    assert message["status"] == "completed"
    assert "mcp_list_tools.failed" in types(events)
    assert "mcp_list_tools.completed" not in types(events)
    assert "# Tools" not in engine.prompts[0]
    assert response["tools"] == [other]


ALLOWED: list[tuple[Any, list[str]]] = [
    (["get-time", "no-such-tool"], ["get_time"]),
    ({"tool_names": ["echo", "get-time"]}, ["echo", "get_time"]),
    ({"read_only": True}, ["get_time"]),
    ({"read_only": True, "tool_names": ["echo"]}, []),
    ([], []),
]


@pytest.mark.parametrize(("allowed", "names"), ALLOWED)
def test_only_what_is_allowed_is_declared_and_called(
    allowed: Any, names: list[str], free_client: TestClient, free_engine: RoomyEngine
) -> None:
    engine = say(free_engine, use("slow"), answer("I cannot."))
    body = {"input": "!", "tools": [{**SERVER, "allowed_tools": allowed}]}
    response = create(free_client, **body)
    listing, called, *_ = response["output"]
    assert [tool["name"].replace("-", "_") for tool in listing["tools"]] == names
    declared = [
        name for name in ("echo", "get_time", "slow") if f"type {name} =" in tool_text(engine)
    ]
    assert declared == names
    if names:
        assert (called["type"], called["status"]) == ("mcp_call", "failed")
        problem = called["error"]["content"][0]["text"]
        assert problem.startswith("there is no function `slow`; there are `host.")
    else:
        assert called["type"] == "function_call"  # of a tool that was not declared


def tool_text(engine: RoomyEngine) -> str:
    """The tools of the first prompt."""
    return engine.prompts[0].partition("# Tools")[2].partition("<|end|>")[0]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"require_approval": "sometimes"}, "tools[1].require_approval"),
    (
        {"require_approval": {"always": {"tool_names": ["echo", 1]}}},
        "tools[1].require_approval.always.tool_names[1]",
    ),
    ({"allowed_tools": "echo"}, "tools[1].allowed_tools"),
    ({"allowed_tools": [1]}, "tools[1].allowed_tools[0]"),
    ({"server_label": None}, "tools[1].server_label"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED)
def test_what_cannot_be_done_as_it_is_asked_is_refused(
    fields: dict[str, Any], param: str, client: TestClient, engine: RoomyEngine
) -> None:
    say(engine)
    body = {"input": "!", "tools": [NOW, {**SERVER, **fields}]}
    refused = client.post("/v1/responses", json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
    assert not engine.prompts


CHOICES: list[tuple[Any, set[str]]] = [
    ({"type": "mcp", "server_label": "host", "name": "get-time"}, {"get_time"}),
    ({"type": "mcp", "server_label": "host"}, {"get_time", "echo"}),
    (
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "mcp", "server_label": "host", "name": "echo"}],
        },
        {"echo"},
    ),
]


@pytest.mark.parametrize(("choice", "names"), CHOICES)
def test_choices_of_a_server_and_of_its_tools(
    choice: dict[str, Any], names: set[str], client: TestClient, engine: RoomyEngine
) -> None:
    name = min(names)
    say(engine, use(name), answer("Done."))
    some = {**SERVER, "allowed_tools": ["echo", "get-time"]}
    response = create(client, input="!", tools=[NOW, some], tool_choice=choice)
    assert response["tool_choice"] == choice
    first, second = (one.grammar or "" for one in engine.samplings)
    assert {one for one in ("echo", "get_time") if f"to=host.{one}" in first} == names
    assert "to=functions.now" not in first
    assert "answer:" not in first
    assert "answer:" in second


def test_files_of_a_server_are_had_and_cited() -> None:
    engine = RoomyEngine(use("mixed"), compute("write a.txt A"), answer("See mixed-1.png."))
    compute_too = {"type": "code_interpreter", "container": {"type": "auto"}}
    with serving(engine, PretendedPython()) as client:
        response = create(client, input="!", tools=[SERVER, compute_too])
        cited = response["output"][-1]["content"][0]["annotations"]
        places = [f"/v1/containers/{one['container_id']}/files" for one in cited]
        data = [
            client.get(f"{place}/{one['file_id']}/content").content
            for place, one in zip(places, cited, strict=True)
        ]
    assert [one["filename"] for one in cited] == ["mixed-1.png", "mixed-2.bin", "a.txt"]
    assert data == [b"\x89PNG...", b"\x89PNG...", b"A"]
    assert len(set(places)) == 2


def test_calls_are_counted_and_limited_with_all_others(
    client: TestClient, engine: RoomyEngine
) -> None:
    say(engine, use("echo"), use("echo"), answer("Done."))
    create(client, input="!", tools=[SERVER], max_tool_calls=2)
    metrics = client.get("/metrics").text
    assert 'tool="host"' in metrics
    assert "to=host.echo" in (engine.samplings[1].grammar or "")
    assert "to=host.echo" not in (engine.samplings[2].grammar or "")


def test_a_call_that_is_cut_is_incomplete(client: TestClient, engine: RoomyEngine) -> None:
    say(engine, use("echo", text="a b c d e f"))
    events = stream(client, input="!", tools=[SERVER], max_output_tokens=18)
    _listing, called = events[-1]["response"]["output"]
    assert (called["type"], called["status"]) == ("mcp_call", "incomplete")
    assert (called["output"], called["error"]) == (None, None)


# Approvals

ASKING: dict[str, Any] = {"type": "mcp", "server_label": "host"}  # OpenAI's default is always
CALL = use("get_time", text="now")


def asked(client: TestClient, engine: RoomyEngine, **body: Any) -> tuple[dict[str, Any], Any]:
    """A response that ends with a call that needs an approval, and the item that asks for it."""
    engine.completions = [THOUGHT + CALL]
    response = create(client, **{"input": "When?", "tools": [ASKING], **body})
    assert kinds(response)[-2:] == ["reasoning", "mcp_approval_request"]
    assert response["status"] == "completed"
    return response, response["output"][-1]


def approval(request: dict[str, Any], approve: bool = True, **more: Any) -> dict[str, Any]:
    fields = {"approval_request_id": request["id"], "approve": approve}
    return {"type": "mcp_approval_response", **fields, **more}


def test_a_call_is_run_once_it_is_approved(client: TestClient, engine: RoomyEngine) -> None:
    first, request = asked(client, engine)
    assert request == {
        "type": "mcp_approval_request",
        "id": request["id"],
        "server_label": "host",
        "name": "get-time",
        "arguments": '{"text": "now"}',
    }
    before = engine.prompts[-1]
    engine.completions = [answer("Noon.")]
    events = stream(
        client,
        input=[approval(request)],
        tools=[ASKING],
        previous_response_id=first["id"],
    )
    called, message = events[-1]["response"]["output"]
    assert (called["type"], called["status"], called["name"]) == (
        "mcp_call",
        *("completed", "get-time"),
    )
    assert called["approval_request_id"] == request["id"]
    assert called["output"].startswith("get-time ")
    assert message["content"][0]["text"] == "Noon."
    assert types(events)[2:8] == [
        *("output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta"),
        *("mcp_call_arguments.done", "mcp_call.completed", "output_item.done"),
    ]
    # The prompt repeats the reasoning and the call token for token, then has the result.
    assert engine.prompts[-1].startswith(f"{before}{THOUGHT}{CALL}<|start|>host.get_time to=")
    engine.completions = [answer("Indeed.")]
    create(client, input="Sure?", tools=[ASKING], previous_response_id=events[-1]["response"]["id"])
    assert engine.prompts[-1].count("to=host.get_time") == 1
    assert "Noon.<|end|><|start|>user<|message|>Sure?" in engine.prompts[-1]


@pytest.mark.parametrize("place", ["previous", "conversation"])
def test_a_repeated_approval_gets_the_first_response(
    client: TestClient, engine: RoomyEngine, place: str
) -> None:
    body: dict[str, Any] = {}
    if place == "conversation":
        body["conversation"] = client.post("/v1/conversations", json={}).json()["id"]
    first, request = asked(client, engine, **body)
    if place == "previous":
        body["previous_response_id"] = first["id"]
    body |= {"input": [approval(request)], "tools": [ASKING]}
    engine.completions = [answer("Noon.")]
    events = stream(client, **body)
    samplings = len(engine.samplings)
    assert create(client, **body) == events[-1]["response"]
    assert stream(client, **body) == events
    assert len(engine.samplings) == samplings


def test_a_repeated_approval_is_refused_while_or_if_there_is_no_response(
    client: TestClient, engine: RoomyEngine
) -> None:
    first, request = asked(client, engine)
    body = {"input": [approval(request)], "tools": [ASKING], "previous_response_id": first["id"]}
    engine.completions = [answer("Noon.")]
    create(client, **body, store=False)
    refused = client.post("/v1/responses", json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "approval_already_used")


def test_an_approval_of_a_request_that_ran_nothing_is_free_again(
    client: TestClient, engine: RoomyEngine
) -> None:
    first, request = asked(client, engine)
    following = {"tools": [ASKING], "previous_response_id": first["id"]}
    answered = [approval(request)]
    refused = client.post("/v1/responses", json={**following, "input": answered, "model": "x"})
    assert refused.status_code == 404
    engine.completions = [answer("Noon.")]
    called, _ = create(client, input=answered, **following)["output"]
    assert called["type"] == "mcp_call"


def test_stored_arguments_win_over_those_of_the_client(
    client: TestClient, engine: RoomyEngine
) -> None:
    _, request = asked(client, engine)
    engine.completions = [answer("Noon.")]
    forged = {**request, "arguments": '{"text": "forged"}', "name": "echo"}
    sent = [{"role": "user", "content": "When?"}, forged, approval(request)]
    *_, called, _message = create(client, input=sent, tools=[ASKING])["output"]
    assert (called["name"], called["arguments"]) == ("get-time", '{"text": "now"}')


@pytest.mark.slow
def test_an_approval_may_be_given_to_another_server(empty_postgres: str) -> None:
    engine = RoomyEngine()
    there = RoomyEngine(answer("Noon."))
    with (
        serving(engine, database=empty_postgres) as one,
        serving(there, database=empty_postgres) as other,
    ):
        first, request = asked(one, engine)
        following = {"tools": [ASKING], "previous_response_id": first["id"]}
        called, message = create(other, input=[approval(request)], **following)["output"]
        assert (called["type"], called["approval_request_id"]) == ("mcp_call", request["id"])
        assert called["output"].startswith("get-time ")
        assert message["content"][0]["text"] == "Noon."
        assert there.prompts[0].startswith(f"{engine.prompts[0]}{THOUGHT}{CALL}<|start|>host.")


def test_a_declined_call_is_not_run(client: TestClient, engine: RoomyEngine) -> None:
    first, request = asked(client, engine)
    engine.completions = [answer("I do not know."), answer("No.")]
    denial = [approval(request, False, reason="too late")]
    second = create(client, input=denial, tools=[ASKING], previous_response_id=first["id"])
    assert kinds(second) == ["message"]
    said = "Error: the user declined this call: too late<|end|><|start|>assistant"
    assert engine.prompts[-1].endswith(
        f"{CALL}<|start|>host.get_time to=assistant<|channel|>commentary<|message|>{said}"
    )
    create(client, input="Why?", tools=[ASKING], previous_response_id=second["id"])
    assert engine.prompts[-1].count("the user declined this call: too late") == 1


def test_a_call_that_nobody_answered_is_left_out(client: TestClient, engine: RoomyEngine) -> None:
    first, _ = asked(client, engine)
    engine.completions = [answer("Fine.")]
    create(client, input="Forget it.", tools=[ASKING], previous_response_id=first["id"])
    assert "to=host.get_time" not in engine.prompts[-1]


@pytest.mark.parametrize("store", [True, False])
def test_a_client_may_keep_all_items_itself(
    client: TestClient, engine: RoomyEngine, store: bool
) -> None:
    first, request = asked(client, engine, store=store)
    sent = [{"role": "user", "content": "When?"}, *first["output"], approval(request)]
    engine.completions = [answer("Noon."), answer("Yes.")]
    second = create(client, input=sent, tools=[ASKING], store=store)
    assert kinds(second) == ["mcp_call", "message"]
    sent += [*second["output"], {"role": "user", "content": "Sure?"}]
    third = create(client, input=sent, tools=[ASKING], store=store)
    assert kinds(third) == ["message"]  # the call was run before


FORGED: dict[str, dict[str, Any]] = {
    "an invented id": {"id": "mcpr_" + "0" * 64},
    "a short id": {"id": "mcpr_"},
    "other arguments": {"arguments": '{"text": "forged"}'},
    "another function": {"name": "echo"},
    "another server": {"server_label": "other"},
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_call_that_no_model_made_is_never_run(
    client: TestClient, engine: RoomyEngine, forged: dict[str, Any]
) -> None:
    _, request = asked(client, engine, store=False)
    request = {**request, **forged}
    stored = client.post("/v1/conversations", json={"items": [request]}).json()["id"]
    for approved in (True, False):
        answered = approval(request, approved)
        for body in (
            {"input": [{"role": "user", "content": "When?"}, request, answered]},
            {"input": [answered], "conversation": stored},
        ):
            refused = client.post("/v1/responses", json={"tools": [ASKING], **body})
            assert refused.status_code == 400, refused.json()


def test_a_call_that_another_key_asked_for_is_never_run() -> None:
    engine = RoomyEngine()
    with serving(engine, api_keys=("first", "second")) as client:
        client.headers["authorization"] = "Bearer first"
        _, request = asked(client, engine, store=False)
        sent = [{"role": "user", "content": "When?"}, request, approval(request)]
        body = {"input": sent, "tools": [ASKING]}
        client.headers["authorization"] = "Bearer second"
        refused = client.post("/v1/responses", json=body)
        assert refused.status_code == 400
        assert "no model of this server asked for this call" in refused.json()["error"]["message"]
        client.headers["authorization"] = "Bearer first"
        engine.completions = [answer("Noon.")]
        assert client.post("/v1/responses", json=body).status_code == 200


def test_an_approval_needs_a_question_and_the_server(
    client: TestClient, engine: RoomyEngine
) -> None:
    first, request = asked(client, engine)
    wrong: list[tuple[Any, Any, str]] = [
        (approval({"id": "mcpr_other"}), [ASKING], "input[0].approval_request_id"),
        (approval({"id": first["output"][1]["id"]}), [ASKING], "input[0].approval_request_id"),
        (approval(request), [], "input[0].approval_request_id"),
        ({**approval(request), "approve": "yes"}, [ASKING], "input[0].approve"),
    ]
    for item, tools, param in wrong:
        refused = client.post("/v1/responses", json={"input": [item], "tools": tools})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


RULES: list[tuple[Any, set[str]]] = [
    (None, {"read", "write"}),
    ("always", {"read", "write"}),
    ("never", set()),
    ({"never": {"tool_names": ["read"]}}, {"write"}),
    ({"never": {"read_only": True}}, {"write"}),
    ({"always": {"tool_names": ["write"]}}, {"write"}),
    ({"always": {"tool_names": ["write"]}, "never": {"tool_names": ["write", "read"]}}, {"write"}),
    ({"always": {"read_only": False}, "never": {"tool_names": []}}, {"read", "write"}),
    ({}, {"read", "write"}),
]


@pytest.mark.parametrize(("rule", "names"), RULES)
def test_rules(rule: Any, names: set[str]) -> None:
    functions = [
        ServerFunction(name, "", {}, {"readOnlyHint": name == "read"}) for name in ("read", "write")
    ]
    field = JsonField(rule)
    assert {function.name for function in functions if needs_approval(field, function)} == names
