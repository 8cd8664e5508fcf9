"""A server of the Responses API over a scripted engine, and what its answers must look like."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi.testclient import TestClient
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from starlette.testclient import WebSocketTestSession

from gpt_oss_harmony.apis.responses.writer import EVENT_TYPES
from gpt_oss_harmony.apis.wire_events import Event
from gpt_oss_harmony.engines import Engine
from gpt_oss_harmony.server import Settings, create_app
from support.local_client import LocalClient
from support.scripted_engine import ScriptedEngine

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)

NOW = {
    "type": "function",
    "name": "now",
    "description": "Tells the time.",
    "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
}

RUN = {"type": "custom", "name": "run", "description": "Runs code."}

TEXT = "<|channel|>final<|message|>Hello you<|return|>"
THOUGHT = "<|channel|>analysis<|message|>Hm, hm.<|end|><|start|>assistant"
CALL = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>"
RUNNING = (
    '<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"input": "1\\n2"}<|call|>'
)
PREAMBLE = "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"


@contextmanager
def serving(
    *completions: str, engine: Engine | None = None, **settings: Any
) -> Iterator[TestClient]:
    app = create_app(engine or ScriptedEngine(*completions), Settings(**settings))
    with LocalClient(app, raise_server_exceptions=False) as client:
        yield client


def create(client: TestClient, **body: Any) -> dict[str, Any]:
    """Create a response and check it."""
    answer = client.post("/v1/responses", json=body)
    assert answer.status_code == 200, answer.text
    return checked_response(answer.json())


def stream(client: TestClient, **body: Any) -> list[dict[str, Any]]:
    """Create a response as a stream, and check its events."""
    answer = client.post("/v1/responses", json={**body, "stream": True})
    assert answer.status_code == 200, answer.text
    return checked_events(answer.text)


def replay(client: TestClient, id: str, after: int | None = None) -> list[dict[str, Any]]:
    """Read the events of a response again."""
    query = "" if after is None else f"&starting_after={after}"
    answer = client.get(f"/v1/responses/{id}?stream=true{query}")
    assert answer.status_code == 200, answer.text
    return checked_events(answer.text, first=0 if after is None else after + 1)


def checked_events(text: str, first: int = 0) -> list[dict[str, Any]]:
    """Read a stream, each of whose events the SDK must know."""
    *blocks, ending, rest = text.split("\n\n")
    assert (ending, rest) == ("data: [DONE]", "")
    events = []
    for number, block in enumerate(blocks, first):
        head, _, data = block.partition("\ndata: ")
        event = json.loads(data)
        assert head == f"event: {event['type']}"
        assert event["sequence_number"] == number
        EVENT.validate_python(event)
        assert event["type"] in EVENT_TYPES
        events.append(event)
    return events


def checked_response(response: dict[str, Any]) -> dict[str, Any]:
    """Check that the SDK knows all of a response, and that nothing is missing."""
    Response.model_validate(response, strict=True)
    assert isinstance(response["created_at"], int)
    return response


def types(events: list[dict[str, Any]]) -> list[str]:
    """What the events are, without what all of them begin with."""
    return [event["type"].removeprefix("response.") for event in events]


# Over a WebSocket

PATH = "/v1/responses"
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


def answer(socket: WebSocketTestSession, **body: Any) -> dict[str, Any]:
    """Send a request, and return its response."""
    socket.send_json({"type": "response.create", **body})
    while True:
        event = socket.receive_json()
        if event["type"] in ENDS:
            return checked_response(event["response"])


def fields_of(events: Iterable[Event]) -> list[dict[str, Any]]:
    """The data of events, whose names are their types."""
    read = []
    for event in events:
        read.append(event.fields())
        assert read[-1]["type"] == event.name
    return read
