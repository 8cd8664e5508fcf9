"""The requirements of the Open Responses suite, as a table of ours, against the demo model.

Under the names of the suite's tests stand requests of the same kind, checked by `open_responses`,
and some of the specification's sentences on streams that the suite does not look at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import httpx2
import pytest
from websockets.sync.client import ClientConnection, connect

from gpt_oss_harmony.engines import Engine
from gpt_oss_harmony.server import Settings
from support.open_responses import (
    COMPACTION,
    TERMINAL,
    WEBSOCKET_ERROR,
    check,
    check_response,
    event_schema,
)
from support.served import PATIENCE, at_once, serving

Json = dict[str, Any]
Names = Literal["openai", "open-responses"]

NOT_FOUND = "previous_response_not_found"

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {
        "type": "object",
        "properties": {
            "location": {
                "type": "string",
                "description": "The city and state, e.g. San Francisco, CA",
            }
        },
        "required": ["location"],
    },
}
DOT = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="  # noqa: E501


def message(role: str, content: Any, **more: Any) -> Json:
    return {"type": "message", "role": role, "content": content, **more}


def user(text: str) -> Json:
    return message("user", text)


@dataclass(frozen=True)
class Server:
    """A server with one setting for the names of events, and how it is asked."""

    event_names: Names
    url: str
    http: httpx2.Client

    def create(self, **request: Any) -> Json:
        """Return a response that is as required."""
        answer = self.http.post("/responses", json={"model": "demo", "temperature": 0, **request})
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/json"
        return check_response(answer.json())

    @contextmanager
    def socket(self) -> Iterator[ClientConnection]:
        """Open a connection."""
        address = f"{self.url.replace('http', 'ws', 1)}/responses"
        with connect(address, open_timeout=PATIENCE) as socket:
            yield cast("ClientConnection", socket)

    def turn(self, socket: ClientConnection, **request: Any) -> Json:
        """Return the response that comes of a request by WebSocket."""
        return check_stream(events_of(socket, **request), self.event_names)


Flow = Callable[[Server], None]
WHOLE: dict[str, Flow] = {}
"""Answers in one piece; nothing in them depends on the names of events."""
STREAMS: dict[str, Flow] = {}


def whole(flow: Flow) -> Flow:
    WHOLE[flow.__name__] = flow
    return flow


def streams(flow: Flow) -> Flow:
    STREAMS[flow.__name__] = flow
    return flow


def text_of(response: Json) -> str:
    texts = [item["content"][0]["text"] for item in response["output"] if item["type"] == "message"]
    return "".join(texts)


# Requests that are not streamed

REQUESTS: dict[str, tuple[Json, str]] = {
    "basic-response": ({"input": [user("What is 27 + 45?")]}, "27 + 45 = 72."),
    "basic-response, a string": ({"input": "What is 27 + 45?"}, "27 + 45 = 72."),
    "assistant-phase": (
        {
            "input": [
                user("Hello! My name is Anna."),
                message("assistant", "I should greet.", phase="commentary"),
                message("assistant", "Hello, Anna! How can I help you?", phase="final_answer"),
                user("What is my name?"),
            ]
        },
        "",
    ),
    "system-prompt": (
        {"input": [message("system", "Be brief."), user("What is 27 + 45?")]},
        "27 + 45 = 72.",
    ),
    "image-input": (
        {
            "input": [
                message(
                    "user",
                    [
                        {"type": "input_text", "text": "What do you see?"},
                        {"type": "input_image", "image_url": DOT},
                    ],
                )
            ]
        },
        "",
    ),
    "file-input": (
        {
            "input": [
                message(
                    "user",
                    [
                        {"type": "input_text", "text": "What is its title?"},
                        {
                            "type": "input_file",
                            "filename": "one.txt",
                            "file_data": "data:text/plain;base64,T25l",
                        },
                    ],
                )
            ]
        },
        "",
    ),
    "multi-turn": (
        {
            "input": [
                user("Hello! My name is Anna."),
                message("assistant", "Hello, Anna! How can I help you?"),
                user("What is my name?"),
            ]
        },
        "Your name is Anna.",
    ),
}


def respond(server: Server, name: str) -> None:
    request, text = REQUESTS[name]
    response = server.create(**request)
    assert response["status"] == "completed"
    assert response["output"]
    assert text in text_of(response)


WHOLE.update({name: partial(respond, name=name) for name in REQUESTS})


@whole
def output_messages_have_a_phase(server: Server) -> None:
    """response-output-phase-schema, whose fixture we need not: our own output has it."""
    output = server.create(input="What is 27 + 45?")["output"]
    assert [item.get("phase") for item in output] == [None, "final_answer"]


@whole
def previous_response_id(server: Server) -> None:
    first = server.create(input="Hello! My name is Anna.")
    second = server.create(input="What is my name?", previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    assert text_of(second) == "Your name is Anna."


@whole
def tool_calling_and_its_round_trip(server: Server) -> None:
    asked = server.create(
        input=[user("What's the weather like in San Francisco?")], tools=[WEATHER]
    )
    call = asked["output"][-1]
    assert call["type"] == "function_call"
    assert json.loads(call["arguments"]) == {"location": "San Francisco"}
    found = {
        "type": "function_call_output",
        "call_id": call["call_id"],
        "output": '{"sunny": true, "temperature": 20}',
    }
    answered = server.create(input=[found], tools=[WEATHER], previous_response_id=asked["id"])
    assert text_of(answered) == "It is sunny in San Francisco, 20 degrees."


@whole
def a_named_tool_is_called(server: Server) -> None:
    choice = {"type": "function", "name": "get_weather"}
    response = server.create(input="What is 27 + 45?", tools=[WEATHER], tool_choice=choice)
    assert response["output"][-1]["name"] == "get_weather"
    assert response["tool_choice"] == choice


@whole
def compact_response(server: Server) -> None:
    request = {
        "model": "demo",
        "prompt_cache_key": "a key",
        "input": [
            user("Hello! My name is Anna."),
            message("assistant", "Hello, Anna! How can I help you?"),
        ],
    }
    answer = server.http.post("/responses/compact", json=request)
    assert answer.status_code == 200, answer.text
    compacted = answer.json()
    check(COMPACTION, compacted)
    assert compacted["output"][-1]["type"] == "compaction"
    more = [*compacted["output"], user("What is my name?")]
    assert text_of(server.create(input=more)) == "Your name is Anna."


@whole
def compact_missing_model(server: Server) -> None:
    answer = server.http.post("/responses/compact", json={"input": [user("Compact this.")]})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "model"


# Streams

STREAMED: dict[str, Json] = {
    "streaming-response": {"input": [user("What is 27 + 45?")]},
    "streaming-response, by sampling": {"input": [user("Count from 1 to 5.")], "temperature": 1},
    "tool-calling-streaming": {"input": "What is the weather in Paris?", "tools": [WEATHER]},
    "incomplete": {"input": "What is 27 + 45?", "max_output_tokens": 30},
    "with logprobs": {
        "input": "What is 27 + 45?",
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 2,
    },
}


def stream(server: Server, name: str) -> None:
    body = {"model": "demo", "temperature": 0, **STREAMED[name], "stream": True}
    with server.http.stream("POST", "/responses", json=body) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        blocks = "".join(answer.iter_text()).split("\n\n")
    assert blocks[-2:] == ["data: [DONE]", ""]
    events = []
    for block in blocks[:-2]:
        event, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert event == f"event: {events[-1]['type']}"
    check_stream(events, server.event_names)
    assert events[-1]["type"] == f"response.{'incomplete' if name == 'incomplete' else 'completed'}"


STREAMS.update({name: partial(stream, name=name) for name in STREAMED})


def check_stream(events: list[Json], event_names: str) -> Json:
    """Check every event and their order; return the response that comes of them."""
    schema = event_schema(event_names)
    for event in events:
        check(schema, event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert [kind for kind in kinds if kind in TERMINAL] == kinds[-1:]
    last = cast("Json", events[-1]["response"])
    for index, item in enumerate(last["output"]):
        of_item = [event for event in events if event.get("output_index") == index]
        check_item(of_item, item)
    return last


def check_item(events: list[Json], item: Json) -> None:
    """Check what a stream told of an item."""
    added, *between, done = events
    assert added["type"] == "response.output_item.added"
    assert added["item"]["id"] == item["id"]
    assert done["type"] == "response.output_item.done"
    assert done["item"] == item
    deltas = "".join(event["delta"] for event in between if event["type"].endswith(".delta"))
    if item["type"] == "function_call":
        assert added["item"]["name"] == item["name"]
        assert between[-1]["type"] == "response.function_call_arguments.done"
        assert deltas == between[-1]["arguments"] == item["arguments"]
        return
    first, *_, written, last = between
    assert first["type"] == "response.content_part.added"
    assert first["part"]["text"] == ""
    assert last["type"] == "response.content_part.done"
    assert last["part"] == item["content"][0]
    assert deltas == written["text"] == last["part"]["text"]
    assert {event["content_index"] for event in between} == {0}


# WebSocket


def events_of(socket: ClientConnection, **request: Any) -> list[Json]:
    """Send a request; return the events up to the last, or to an error."""
    body = {"type": "response.create", "model": "demo", "temperature": 0, **request}
    socket.send(json.dumps(body))
    events: list[Json] = []
    while not events or events[-1]["type"] not in (*TERMINAL, "error"):
        events.append(json.loads(socket.recv(PATIENCE)))
    return events


def error_code(events: list[Json]) -> str:
    (event,) = events
    check(WEBSOCKET_ERROR, event)
    assert event["status"] in range(400, 500)
    return cast("str", event["error"]["code"])


@streams
def websocket_response(server: Server) -> None:
    with server.socket() as socket:
        response = server.turn(socket, input=[user("What is 27 + 45?")])
    assert response["status"] == "completed"
    assert text_of(response) == "27 + 45 = 72."


@streams
def websocket_sequential_responses(server: Server) -> None:
    with server.socket() as socket:
        for numbers in ("27 + 45", "31 + 12"):
            response = server.turn(socket, input=f"What is {numbers}?", store=False)
            assert numbers in text_of(response)


@streams
def websocket_continuation(server: Server) -> None:
    with server.socket() as socket:
        first = server.turn(socket, input="Hello! My name is Anna.", store=False)
        follow: Json = {"store": False, "previous_response_id": first["id"]}
        second = server.turn(socket, input="What is my name?", **follow)
    assert text_of(second) == "Your name is Anna."
    assert second["previous_response_id"] == first["id"]


@streams
def websocket_reconnect_store_false_recovery(server: Server) -> None:
    with server.socket() as socket:
        first = server.turn(socket, input="Hello!", store=False)
    follow: Json = {"store": False, "previous_response_id": first["id"]}
    with server.socket() as socket:
        assert error_code(events_of(socket, input="Hi!", **follow)) == NOT_FOUND
        assert server.turn(socket, input=[user("Hi!")], store=False)["status"] == "completed"


@streams
def websocket_continues_what_is_stored(server: Server) -> None:
    first = server.create(input="Hello! My name is Anna.")
    with server.socket() as socket:
        second = server.turn(socket, input="What is my name?", previous_response_id=first["id"])
    assert text_of(second) == "Your name is Anna."


@streams
def websocket_previous_response_not_found(server: Server) -> None:
    with server.socket() as socket:
        events = events_of(socket, input="Hi!", store=False, previous_response_id="resp_none")
    assert error_code(events) == NOT_FOUND
    assert events[0]["error"]["param"] == "previous_response_id"


@streams
def websocket_failed_continuation_evicts_cache(server: Server) -> None:
    stray = {"type": "function_call_output", "call_id": "call_missing", "output": "nothing"}
    with server.socket() as socket:
        first = server.turn(socket, input="Hello!", store=False)
        follow: Json = {"store": False, "previous_response_id": first["id"]}
        assert error_code(events_of(socket, input=[stray], **follow))
        assert error_code(events_of(socket, input="Hi!", **follow)) == NOT_FOUND


@streams
def websocket_compact_new_chain(server: Server) -> None:
    parts = [{"type": "input_text", "text": "Hello! My name is Anna."}]
    said = [{"type": "output_text", "text": "Hello, Anna! How can I help you?"}]
    request = {"model": "demo", "input": [message("user", parts), message("assistant", said)]}
    compacted = server.http.post("/responses/compact", json=request).json()
    more = [*compacted["output"], user("What is my name?")]
    with server.socket() as socket:
        response = server.turn(socket, input=more, store=False, tools=[])
    assert text_of(response) == "Your name is Anna."


# All of them, at once


ALL: dict[Names, dict[str, Flow]] = {
    "openai": {**WHOLE, **STREAMS},
    "open-responses": STREAMS,
}
"""Flows by the setting for the names of events."""


@pytest.fixture(scope="module")
def outcomes(
    demo: Engine, tmp_path_factory: pytest.TempPathFactory
) -> dict[Names, dict[str, Future[None]]]:
    """How each flow ended."""
    found = {}
    for names, flows in ALL.items():
        database = f"sqlite:///{tmp_path_factory.mktemp('compliance') / 'responses.db'}"
        with (
            serving(
                demo, Settings(event_names=names, database=database, attachments="note")
            ) as url,
            httpx2.Client(base_url=url, timeout=PATIENCE) as http,
        ):
            server = Server(names, url, http)
            found[names] = at_once({name: partial(flow, server) for name, flow in flows.items()})
    return found


@pytest.mark.parametrize(
    ("names", "name"), [(names, name) for names, flows in ALL.items() for name in flows]
)
def test_requirements(
    outcomes: dict[Names, dict[str, Future[None]]], names: Names, name: str
) -> None:
    outcomes[names][name].result()
