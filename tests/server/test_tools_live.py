"""The server's own tools with real parts: a sandbox, a socket, a WebSocket, the command."""

from __future__ import annotations

import base64
import itertools
import shlex
import sys
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import ToolDescription, ToolNamespaceConfig
from gpt_oss_harmony.apis import ResponsesRequest, response_of, turn_of_response
from gpt_oss_harmony.apis.items import ItemEnded, TurnEnded
from gpt_oss_harmony.apis.reader import TurnReader
from gpt_oss_harmony.apis.responses.output_items import mcp_fields
from gpt_oss_harmony.apis.responses.writer import AnsweredCall, ResponseWriter
from gpt_oss_harmony.engines import Engine, FinishReason, SampledToken
from gpt_oss_harmony.server import Settings
from gpt_oss_harmony.tokens.special_tokens import CALL, RETURN
from gpt_oss_harmony.tools.python.python_tool import PythonTool
from support import hostile_mcp_server
from support.examples import examples
from support.notebooks import SETTINGS, needs_bubblewrap
from support.responses_server import EVENT, PATH, checked_response, create, fields_of
from support.responses_server import answer as answered
from support.scripted_engine import ENCODING, PATIENCE
from support.served import sdk, server_process, serving
from support.server_tools import (
    COMPUTE,
    SEARCH,
    PretendedPython,
    RoomyEngine,
    answer,
    compute,
    serving_tools,
)

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@needs_bubblewrap
def test_code_runs_in_the_sandbox_and_goes_on_in_the_next_turn() -> None:
    plot = f"""
from IPython.display import Image, display
n = 6 * 7
open('/mnt/data/n.txt', 'w').write(str(n))
display(Image(data={PNG!r}))
print(n)
"""
    engine = RoomyEngine(
        compute(plot),
        answer("It is in /mnt/data/n.txt."),
        compute("print(n + 1, open('/mnt/data/n.txt').read())"),
        answer("43, as /mnt/data/n.txt says."),
        compute("print(open('/mnt/data/in.txt').read(), n)"),
        answer("The client's."),
        compute("print(open('/mnt/data/in.txt').read())"),
        answer("The same."),
    )
    with serving_tools(engine, PythonTool(SETTINGS)) as client:
        include = ["code_interpreter_call.outputs"]
        first = create(client, input="6 * 7?", tools=[COMPUTE], include=include)
        second = create(
            client,
            input="And 1?",
            tools=[COMPUTE],
            include=include,
            previous_response_id=first["id"],
        )
        file, plotted = first["output"][-1]["content"][0]["annotations"]
        (again,) = second["output"][-1]["content"][0]["annotations"]
        place = f"/v1/containers/{file['container_id']}/files"
        contents = [
            client.get(f"{place}/{one['file_id']}/content").content for one in (file, plotted)
        ]
        # Files of the client: into a notebook that runs, and into one that begins.
        sent = client.post(place, files={"file": ("in.txt", b"of the client")})
        assert sent.status_code == 200, sent.text
        third = create(
            client,
            input="What is there?",
            tools=[COMPUTE],
            include=include,
            previous_response_id=second["id"],
        )
        uploaded = client.post(
            "/v1/files", files={"file": ("in.txt", b"uploaded")}, data={"purpose": "user_data"}
        ).json()
        made = client.post("/v1/containers", json={"name": "a", "file_ids": [uploaded["id"]]})
        named = [{"type": "code_interpreter", "container": made.json()["id"]}]
        fourth = create(client, input="And there?", tools=named, include=include)
    logs, image = first["output"][0]["outputs"]
    assert "42" in logs["logs"]
    assert image["url"] == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert "43 42" in second["output"][0]["outputs"][0]["logs"]
    assert contents == [b"42", PNG]
    assert "of the client 42" in third["output"][0]["outputs"][0]["logs"]
    assert "uploaded" in fourth["output"][0]["outputs"][0]["logs"]
    assert plotted["start_index"] == len(first["output"][-1]["content"][0]["text"])
    assert again["file_id"] == file["file_id"]


@needs_bubblewrap
def test_a_model_computes_in_the_sandbox(demo: Engine) -> None:
    with serving_tools(demo, PythonTool(SETTINGS)) as client:
        response = create(
            client,
            input="Use Python to compute 12 * 34.",
            temperature=0,
            tools=[COMPUTE],
            include=["code_interpreter_call.outputs"],
        )
    thought, call, again, message = response["output"]
    assert (thought["type"], again["type"]) == ("reasoning", "reasoning")
    assert (call["code"], call["outputs"][0]["logs"]) == ("print(12 * 34)", "408")
    assert message["content"][0]["text"] == "12 * 34 = 408."


def test_sessions_live_with_a_connection_that_stores_nothing() -> None:
    engine = RoomyEngine(compute("one"), answer("1"), answer("-"), compute("two"), answer("2"))
    with serving_tools(engine, PretendedPython()) as client:
        with client.websocket_connect(PATH) as socket:
            first = answered(socket, input="1", tools=[COMPUTE], store=False)
            second = answered(socket, input="-", tools=[COMPUTE], previous_response_id=first["id"])
        create(client, input="2", tools=[COMPUTE], previous_response_id=second["id"])
    assert "after ['one', 'two']" in engine.prompts[-1]


def test_the_sdk_reads_what_is_called_cited_and_written() -> None:
    engine = RoomyEngine(
        *(compute(f"write {name} 1") for name in "abc"),
        compute("write plot.png PNG"),
        answer("See sandbox:/mnt/data/plot.png, and 🏰."),
    )
    with (
        serving(engine, Settings(), [PretendedPython()]) as url,
        sdk(url) as client,
        client.responses.stream(
            model="script",
            input="Plot!",
            tools=[{"type": "code_interpreter", "container": {"type": "auto"}}],
            include=["code_interpreter_call.outputs"],
        ) as stream,
    ):
        told = [event.type for event in stream]
        response = stream.get_final_response()
        *_, call, message = response.output
        assert call.type == "code_interpreter_call"
        assert call.code == "write plot.png PNG"
        assert call.outputs is not None
        assert [one.type for one in call.outputs] == ["logs", "image"]
        assert message.type == "message"
        (part,) = message.content
        assert part.type == "output_text"
        cited, *_ = part.annotations
        assert cited.type == "container_file_citation"
        files = client.containers.files
        content = files.content.retrieve(cited.file_id, container_id=cited.container_id)
        assert content.read() == b"PNG"
        pages = files.list(cited.container_id, limit=2, order="asc")
        assert len(pages.data) == 2
        *others, listed = pages
        assert [one.path for one in others] == ["/mnt/data/a", "/mnt/data/b", "/mnt/data/c"]
        with pytest.raises(openai.NotFoundError, match="cfile_0"):
            files.list(cited.container_id, after="cfile_0")
        about = files.retrieve(cited.file_id, container_id=cited.container_id)
        assert listed.to_dict() == about.to_dict()
        with pytest.raises(openai.NotFoundError):
            files.retrieve("cfile_0", container_id=cited.container_id)
    assert "response.code_interpreter_call.completed" in told
    assert "response.output_text.annotation.added" in told


# The command


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the demo model's folder is made, once for all workers."""
    return tmp_path_factory.getbasetemp().parent


@pytest.mark.slow
def test_the_command_serves_with_a_browser(tmp_path: Path, cache: Path) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "a.md").write_text("# A\n")
    options = ("--port", "0", "--browser", str(documents))
    with (
        serving(RoomyEngine()) as engine,
        server_process(tmp_path, cache, engine.removesuffix("/v1"), *options) as server,
    ):
        counted = []
        for tools in ([], [SEARCH], [COMPUTE]):
            body: dict[str, Any] = {"input": "hi", "tools": tools}
            url = f"{server.url}/responses/input_tokens"
            counted.append(httpx2.post(url, json=body, timeout=PATIENCE).json())
    without, with_browser, refused = counted
    assert without["input_tokens"] < with_browser["input_tokens"] - 300
    assert "--python" in refused["error"]["message"]


@pytest.mark.slow
def test_the_command_serves_with_an_mcp_server(tmp_path: Path, cache: Path) -> None:
    server_there = shlex.join(["host=" + sys.executable, hostile_mcp_server.__file__])
    options = ("--port", "0", "--mcp", server_there)
    with (
        serving(RoomyEngine(answer("2 + 3 = 5."))) as engine,
        server_process(tmp_path, cache, engine.removesuffix("/v1"), *options) as server,
    ):
        body: dict[str, Any] = {"input": "What is 2 + 3?", "tools": [SERVER], "temperature": 0}
        response = httpx2.post(f"{server.url}/responses", json=body, timeout=PATIENCE).json()
        listing, *_, message = response["output"]
    assert (listing["type"], listing["error"]) == ("mcp_list_tools", None)
    assert "get-time" in [tool["name"] for tool in listing["tools"]]
    assert "5" in message["content"][0]["text"]
    assert any("'get-time' is called host.get_time" in line for line in server.log)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--mcp", "/nowhere"), "harmony: error: --mcp: there is no command '/nowhere'"),
        (("--browser", "/nowhere"), "harmony: error: --browser: there is no folder '/nowhere'"),
        (("--browser", "brave"), "harmony: error: --browser brave needs an API key"),
    ],
)
def test_a_tool_that_cannot_be_had_is_one_clear_line(
    options: tuple[str, str], problem: str, tmp_path: Path, cache: Path
) -> None:
    with server_process(tmp_path, cache, "demo", "--port", "0", *options) as server:
        assert server.ended() == (2 if "--browser" in options else 1)
    (line,) = server.log
    assert line.startswith(problem)


# Events, whatever a model says

SERVER = {"type": "mcp", "server_label": "host"}
REQUEST = ResponsesRequest(input="hi", tools=[SEARCH, COMPUTE, SERVER])
HOST = ToolNamespaceConfig(name="host", tools=[ToolDescription.new("get_time", "Tells it.")])
BUILT_IN = {
    one.name: one for one in (ToolNamespaceConfig.browser(), ToolNamespaceConfig.python(), HOST)
}
LISTING: dict[str, Any] = {
    "type": "mcp_list_tools",
    "server_label": "host",
    "tools": [],
    "error": None,
}
TURN = turn_of_response(REQUEST, built_in=BUILT_IN)
PIECES = [
    "<|start|>",
    "<|channel|>",
    "<|message|>",
    "<|end|>",
    "<|call|>",
    "<|start|>assistant<|channel|>analysis to=python code<|message|>",
    "<|start|>assistant<|channel|>analysis to=browser.search code<|message|>",
    "<|start|>assistant<|channel|>final<|message|>",
    "assistant",
    "analysis",
    " to=python",
    " to=browser.open",
    " to=functions.browser.find",
    "<|start|>assistant<|channel|>commentary to=host.get_time json<|message|>",
    " to=host.get_time",
    '{"query": "a"}',
    '{"code": "a"}',
    "```\n1\n```",
    " ",
    "word ",
]
OWN = {"python": {"container_id": "cntr_1"}, "host.get_time": {"name": "get-time"}}
DONE = AnsweredCall((), "completed", {})


def told(
    completion: str, stop: int, limit: int, *, is_answered: bool
) -> tuple[ResponseWriter, list[dict[str, Any]]]:
    """Read a completion, and answer its calls or none, until a client goes away."""
    tokens = [*ENCODING.encode(completion, allowed_special="all"), stop]
    numbers = itertools.count()
    stream = ResponseWriter(
        response_of(REQUEST, id="resp_1", created_at=0, model="script").to_dict(),
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        now=lambda: 1,
        listings=[LISTING],
        call_fields=lambda recipient: {**mcp_fields(recipient), **OWN.get(recipient, {})},
    )
    reader = TurnReader(TURN, 0, new_id=lambda prefix: f"{prefix}_{next(numbers)}")
    events = fields_of([*stream.begin(), *stream.leave_queue()])
    for at, token in enumerate(tokens[:limit]):
        reason = FinishReason.STOP if at == len(tokens) - 1 else None
        for event in reader.take(SampledToken(token, finish_reason=reason)):
            if not isinstance(event, TurnEnded):
                events += fields_of(stream.take(event))
            if is_answered and isinstance(event, ItemEnded) and is_call(event):
                events += fields_of([*stream.run_call(), *stream.end_call(DONE)])
        if reader.is_over:
            break
    events += fields_of(stream.break_off())
    events += fields_of([stream.end("completed" if reader.is_over else "cancelled", None).event])
    return stream, events


def is_call(event: ItemEnded) -> bool:
    return event.is_complete and (event.message.recipient or "").partition(".")[0] in BUILT_IN


@settings(max_examples=examples(200))
@given(
    st.lists(st.sampled_from(PIECES), max_size=20).map("".join),
    st.sampled_from([RETURN, CALL]),
    st.integers(0, 40),
    st.booleans(),
)
def test_events_fit_together_whatever_is_called(
    completion: str, stop: int, limit: int, is_answered: bool
) -> None:
    stream, events = told(completion, stop, limit, is_answered=is_answered)
    opened: list[str] = []
    for number, event in enumerate(events):
        EVENT.validate_python(event)
        assert event["sequence_number"] == number
        if event["type"] == "response.output_item.added":
            assert event["output_index"] == len(opened)
            opened.append(event["item"]["id"])
        elif "item_id" in event:
            assert event["item_id"] == opened[-1]
    output = checked_response(events[-1]["response"])["output"]
    assert output == [known.item for known in stream.items]
    assert [item["id"] for item in output] == opened
