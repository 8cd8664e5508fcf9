"""A built-in tool that a test adds in memory goes the whole way: from the prompt to the inspector.

Whoever adds a tool to the library writes as much as this module does before its first test: its row
in the table, the fields of its results, the tool itself. All else reads these.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gpt_oss_harmony import Message, ToolDescription, ToolNamespaceConfig
from gpt_oss_harmony.conversation.built_in_tools import BUILT_IN_TOOLS, BuiltInTool, CallItem
from gpt_oss_harmony.tools.call_items import CALL_FIELDS, CallFields, FinishedCall
from gpt_oss_harmony.tools.tool import Attachment, Tool, ToolMessage, tool_message
from support.inspector_client import client as inspector
from support.server_tools import NEXT, RoomyEngine, answer, serving_tools

IMAGE_GEN = BuiltInTool(
    ToolNamespaceConfig(
        name="image_gen",
        description="Draws.",
        tools=[ToolDescription.new("draw", "Draws a picture.", {"type": "object"})],
    ),
    requested_as=("image_gen_2030",),
    item=CallItem(
        "image_gen_call",
        "ig",
        states=("in_progress", "drawing", "completed"),
        text="arguments",
        fields={"arguments": "", "container_id": "", "size": None, "picture": None},
    ),
    has_files=True,
    has_container=True,
)


def drawn(call: FinishedCall) -> dict[str, Any]:
    return {"picture": "".join(part.to_dict()["text"] for part in call.messages[0].content)}


IMAGE_GEN_FIELDS = CallFields(lambda call, session: {"size": len(call.text)}, drawn)


class Sketches:
    """How many pictures a conversation has."""

    def __init__(self, count: int = 0) -> None:
        self.count = count

    def to_json(self) -> str:
        return json.dumps(self.count)


class ImageGen(Tool[Sketches]):
    @property
    def namespace(self) -> ToolNamespaceConfig:
        return IMAGE_GEN.namespace

    def new_session(self) -> Sketches:
        return Sketches()

    def load_session(self, stored: str) -> Sketches:
        return Sketches(json.loads(stored))

    async def call(self, message: Message, session: Sketches) -> AsyncIterator[ToolMessage]:
        session.count += 1
        picture = Attachment.of_file("cat.png", b"picture")
        yield tool_message(message, f"picture {session.count}", attachments=(picture,))

    async def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILT_IN_TOOLS, "image_gen", IMAGE_GEN)
    monkeypatch.setitem(CALL_FIELDS, "image_gen", IMAGE_GEN_FIELDS)


ASKED = {"type": "image_gen_2030", "container": {"type": "auto"}}
ARGUMENTS = '{"what": "a cat"}'
DRAW = f"<|channel|>analysis to=image_gen.draw code<|message|>{ARGUMENTS}<|call|>"
DAMAGED = DRAW.replace("image_gen.draw", "image_gen.draww")
SAID = [f"<|channel|>analysis<|message|>A cat.{NEXT}{DRAW}", answer("Here.")]
EVENTS = [
    "output_item.added",
    "image_gen_call.in_progress",
    "image_gen_call_arguments.delta",
    "image_gen_call_arguments.done",
    "image_gen_call.drawing",
    "image_gen_call.completed",
    "output_item.done",
]


@pytest.fixture
def engine() -> RoomyEngine:
    return RoomyEngine(*SAID, *SAID)


@pytest.fixture
def client(engine: RoomyEngine) -> Iterator[TestClient]:
    with serving_tools(engine, ImageGen()) as client:
        yield client


def created(client: TestClient, **body: Any) -> dict[str, Any]:
    sent = client.post("/v1/responses", json={"input": "Draw!", "tools": [ASKED], **body})
    assert sent.status_code == 200, sent.text
    response: dict[str, Any] = sent.json()
    return response


def streamed(client: TestClient, **body: Any) -> list[dict[str, Any]]:
    asked = {"input": "Draw!", "tools": [ASKED], "stream": True, **body}
    text = client.post("/v1/responses", json=asked).text
    blocks = [block.partition("data: ")[2] for block in text.split("\n\n")]
    return [json.loads(block) for block in blocks if block.startswith("{")]


def call_of(response: dict[str, Any]) -> dict[str, Any]:
    (call,) = [item for item in response["output"] if item["type"] == "image_gen_call"]
    return dict(call)


def test_a_response_runs_it(client: TestClient, engine: RoomyEngine) -> None:
    response = created(client)
    assert "# Tools\n\n## image_gen" in engine.prompts[0]
    assert f"{DRAW}<|start|>image_gen.draw to=assistant" in engine.prompts[1]
    assert response["status"] == "completed"
    kinds = [item["type"] for item in response["output"]]
    assert kinds == ["reasoning", "image_gen_call", "message"]
    call = call_of(response)
    assert call.pop("id").startswith("ig_")
    assert call.pop("container_id").startswith("cntr_")
    assert call == {
        "type": "image_gen_call",
        "status": "completed",
        "arguments": ARGUMENTS,
        "size": len(ARGUMENTS),
        "picture": "picture 1",
    }
    assert response["tools"] == [ASKED]


def test_its_events(client: TestClient) -> None:
    events = streamed(client)
    response = events[-1]["response"]
    told = [event["type"].removeprefix("response.") for event in events]
    assert told[0] == "created"
    assert told[-1] == "completed"
    first = told.index("image_gen_call.in_progress") - 1
    last = told.index("image_gen_call.completed") + 1
    named = [name for name in told[first : last + 1] if not name.endswith(".delta")]
    assert named == [name for name in EVENTS if not name.endswith(".delta")]
    deltas = [event["delta"] for event in events if event["type"].endswith("_arguments.delta")]
    assert "".join(deltas) == ARGUMENTS
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert call_of({"output": done}) == call_of(response)


def test_its_calls_its_sessions_and_its_files_are_stored(
    client: TestClient, engine: RoomyEngine
) -> None:
    first = created(client)
    assert client.get(f"/v1/responses/{first['id']}").json() == first
    second = created(client, previous_response_id=first["id"])
    assert call_of(second)["picture"] == "picture 2"
    assert call_of(second)["container_id"] == call_of(first)["container_id"]
    assert "picture 1" not in engine.prompts[2]  # after an answer, calls are past reasoning
    place = f"/v1/containers/{call_of(first)['container_id']}"
    assert client.get(place).json()["object"] == "container"
    paths = [file["path"] for file in client.get(f"{place}/files").json()["data"]]
    assert {path.rpartition("/")[2] for path in paths} == {"cat.png"}


def test_its_calls_are_items_of_a_conversation(client: TestClient, engine: RoomyEngine) -> None:
    talk = client.post("/v1/conversations", json={}).json()["id"]
    first = created(client, conversation=talk)
    items = client.get(f"/v1/conversations/{talk}/items").json()["data"]
    assert call_of(first) in items
    assert call_of(created(client, conversation=talk))["picture"] == "picture 2"


def test_a_container_of_a_client(client: TestClient) -> None:
    made = client.post("/v1/containers", json={"name": "pictures"}).json()
    response = created(client, tools=[{**ASKED, "container": made["id"]}])
    assert call_of(response)["container_id"] == made["id"]


def test_items_that_a_client_sends_again(client: TestClient, engine: RoomyEngine) -> None:
    first = created(client)
    question = {"role": "user", "content": "Draw!"}
    created(client, input=[question, *first["output"][:2]])
    assert "picture 1" in engine.prompts[2]


def test_a_call_that_is_cut_is_incomplete(client: TestClient) -> None:
    response = created(client, max_output_tokens=20)
    assert response["status"] == "incomplete"
    assert call_of(response)["status"] == "incomplete"


def test_a_damaged_name_is_read_as_its_own() -> None:
    with serving_tools(RoomyEngine(DAMAGED, answer("Here.")), ImageGen()) as client:
        response = created(client)
    assert response["output"][0]["type"] == "image_gen_call"


def test_chat_completions_gives_its_calls_to_the_client(client: TestClient) -> None:
    """Chat Completions has no tools of the server, so the call is one of a function."""
    body = {"messages": [{"role": "user", "content": "Draw!"}]}
    (choice,) = client.post("/v1/chat/completions", json=body).json()["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "image_gen.draw", "arguments": ARGUMENTS}
    asked = {"role": "user", "content": "Draw!"}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "a cat"}
    again = {"messages": [asked, choice["message"], result]}
    assert client.post("/v1/chat/completions", json=again).status_code == 200


def test_a_choice_of_the_tool(client: TestClient) -> None:
    chosen = created(client, tool_choice={"type": "image_gen_2030"})
    assert chosen["tool_choice"] == {"type": "image_gen_2030"}
    assert call_of(chosen)["status"] == "completed"


def test_the_inspector_declares_it_and_shows_its_calls() -> None:
    script = inspector.get("/inspector/built-in-tools.js").text
    assert '"image_gen"' in script
    assert script.startswith("export const BUILT_IN_TOOLS = {")
    source = {"input": "Draw!", "tools": [ASKED]}
    shown = inspector.post("/inspector/api/render", json={"source": source}).json()
    assert shown["conversation"]["messages"][0]["content"][0]["tools"].keys() == {"image_gen"}
    exported = inspector.post("/inspector/api/export", json={"source": source, "format": "python"})
    assert exported.status_code == 200, exported.text
    assert "image_gen" in exported.text
    read = inspector.post("/inspector/api/parse", json={"input": DRAW}).json()
    assert "image_gen.draw" in [change["recipient"] for change in read["lenient"]["changes"]]


def test_a_tool_without_fields_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then an item has only its text, and the model sees the results."""
    plain = replace(IMAGE_GEN, item=CallItem("image_gen_call", "ig"), has_container=False)
    monkeypatch.setitem(BUILT_IN_TOOLS, "image_gen", plain)
    monkeypatch.delitem(CALL_FIELDS, "image_gen")
    with serving_tools(RoomyEngine(*SAID), ImageGen()) as client:
        call = call_of(created(client))
    assert call.keys() == {"type", "id", "status"}
