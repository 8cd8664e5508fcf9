"""The requirements of the Open Responses suite, as a table of ours, against the demo model.

Under the names of the suite's tests stand requests of the same kind, checked by `open_responses`,
and some of the specification's sentences on streams that the suite does not look at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, cast

import httpx2
import pytest
from websockets.sync.client import ClientConnection, connect

from open_responses import (
    COMPACTION,
    TERMINAL,
    WEBSOCKET_ERROR,
    check,
    check_response,
    event_schema,
)
from openai_harmony.engines import Engine
from openai_harmony.serving import Settings
from served import PATIENCE, serving

Json = dict[str, Any]

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


@pytest.fixture(scope="module", params=["openai", "open-responses"])
def event_names(request: pytest.FixtureRequest) -> str:
    return cast("str", request.param)


@pytest.fixture(scope="module")
def url(event_names: Any, demo: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    database = f"sqlite:///{tmp_path_factory.mktemp('compliance') / 'responses.db'}"
    with serving(demo, Settings(event_names=event_names, database=database)) as url:
        yield url


@pytest.fixture
def http(url: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=url, timeout=PATIENCE) as client:
        yield client


def create(http: httpx2.Client, **request: Any) -> Json:
    answer = http.post("/responses", json={"model": "demo", "temperature": 0, **request})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return check_response(answer.json())


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


@pytest.mark.parametrize("name", REQUESTS)
def test_responses(http: httpx2.Client, name: str) -> None:
    request, text = REQUESTS[name]
    response = create(http, **request)
    assert response["status"] == "completed"
    assert response["output"]
    assert text in text_of(response)


def test_output_messages_have_a_phase(http: httpx2.Client) -> None:
    """response-output-phase-schema, whose fixture we need not: our own output has it."""
    output = create(http, input="What is 27 + 45?")["output"]
    assert [item.get("phase") for item in output] == [None, "final_answer"]


def test_previous_response_id(http: httpx2.Client) -> None:
    first = create(http, input="Hello! My name is Anna.")
    second = create(http, input="What is my name?", previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    assert text_of(second) == "Your name is Anna."


def test_tool_calling_and_its_round_trip(http: httpx2.Client) -> None:
    asked = create(http, input=[user("What's the weather like in San Francisco?")], tools=[WEATHER])
    call = asked["output"][-1]
    assert call["type"] == "function_call"
    assert json.loads(call["arguments"]) == {"location": "San Francisco"}
    found = {
        "type": "function_call_output",
        "call_id": call["call_id"],
        "output": '{"sunny": true, "temperature": 20}',
    }
    answered = create(http, input=[found], tools=[WEATHER], previous_response_id=asked["id"])
    assert text_of(answered) == "It is sunny in San Francisco, 20 degrees."


def test_a_named_tool_is_called(http: httpx2.Client) -> None:
    choice = {"type": "function", "name": "get_weather"}
    response = create(http, input="What is 27 + 45?", tools=[WEATHER], tool_choice=choice)
    assert response["output"][-1]["name"] == "get_weather"
    assert response["tool_choice"] == choice


def test_compact_response(http: httpx2.Client) -> None:
    request = {
        "model": "demo",
        "prompt_cache_key": "a key",
        "input": [
            user("Hello! My name is Anna."),
            message("assistant", "Hello, Anna! How can I help you?"),
        ],
    }
    answer = http.post("/responses/compact", json=request)
    assert answer.status_code == 200, answer.text
    compacted = answer.json()
    check(COMPACTION, compacted)
    assert compacted["output"][-1]["type"] == "compaction"
    more = [*compacted["output"], user("What is my name?")]
    assert text_of(create(http, input=more)) == "Your name is Anna."


def test_compact_missing_model(http: httpx2.Client) -> None:
    answer = http.post("/responses/compact", json={"input": [user("Compact this.")]})
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


@pytest.mark.parametrize("name", STREAMED)
def test_streams(http: httpx2.Client, event_names: str, name: str) -> None:
    body = {"model": "demo", "temperature": 0, **STREAMED[name], "stream": True}
    with http.stream("POST", "/responses", json=body) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        blocks = "".join(answer.iter_text()).split("\n\n")
    assert blocks[-2:] == ["data: [DONE]", ""]
    events = []
    for block in blocks[:-2]:
        event, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert event == f"event: {events[-1]['type']}"
    check_stream(events, event_names)
    assert events[-1]["type"] == f"response.{'incomplete' if name == 'incomplete' else 'completed'}"


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


@pytest.fixture
def open_socket(url: str) -> Iterator[Callable[[], ClientConnection]]:
    """Open a connection; all are closed at the end."""
    opened: list[ClientConnection] = []

    def open_one() -> ClientConnection:
        address = f"{url.replace('http', 'ws', 1)}/responses"
        opened.append(connect(address, open_timeout=PATIENCE))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def turn(socket: ClientConnection, **request: Any) -> list[Json]:
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


Opener = Callable[[], ClientConnection]


def test_websocket_response(open_socket: Opener, event_names: str) -> None:
    response = check_stream(turn(open_socket(), input=[user("What is 27 + 45?")]), event_names)
    assert response["status"] == "completed"
    assert text_of(response) == "27 + 45 = 72."


def test_websocket_sequential_responses(open_socket: Opener, event_names: str) -> None:
    socket = open_socket()
    for numbers in ("27 + 45", "31 + 12"):
        events = turn(socket, input=f"What is {numbers}?", store=False)
        assert numbers in text_of(check_stream(events, event_names))


def test_websocket_continuation(open_socket: Opener, event_names: str) -> None:
    socket = open_socket()
    first = check_stream(turn(socket, input="Hello! My name is Anna.", store=False), event_names)
    events = turn(socket, input="What is my name?", store=False, previous_response_id=first["id"])
    second = check_stream(events, event_names)
    assert text_of(second) == "Your name is Anna."
    assert second["previous_response_id"] == first["id"]


def test_websocket_reconnect_store_false_recovery(open_socket: Opener, event_names: str) -> None:
    first = check_stream(turn(open_socket(), input="Hello!", store=False), event_names)
    again = open_socket()
    lost = turn(again, input="Hello!", store=False, previous_response_id=first["id"])
    assert error_code(lost) == "previous_response_not_found"
    recovered = check_stream(turn(again, input=[user("Hello!")], store=False), event_names)
    assert recovered["status"] == "completed"


def test_websocket_continues_what_is_stored(open_socket: Opener, event_names: str) -> None:
    first = check_stream(turn(open_socket(), input="Hello! My name is Anna."), event_names)
    events = turn(open_socket(), input="What is my name?", previous_response_id=first["id"])
    assert text_of(check_stream(events, event_names)) == "Your name is Anna."


def test_websocket_previous_response_not_found(open_socket: Opener) -> None:
    events = turn(open_socket(), input="Hello!", store=False, previous_response_id="resp_missing")
    assert error_code(events) == "previous_response_not_found"
    assert events[0]["error"]["param"] == "previous_response_id"


def test_websocket_failed_continuation_evicts_cache(open_socket: Opener, event_names: str) -> None:
    socket = open_socket()
    first = check_stream(turn(socket, input="Hello!", store=False), event_names)
    follow: Json = {"store": False, "previous_response_id": first["id"]}
    stray = {"type": "function_call_output", "call_id": "call_missing", "output": "nothing"}
    assert error_code(turn(socket, input=[stray], **follow))
    assert error_code(turn(socket, input="Hello!", **follow)) == "previous_response_not_found"


def test_websocket_compact_new_chain(
    open_socket: Opener, http: httpx2.Client, event_names: str
) -> None:
    parts = [{"type": "input_text", "text": "Hello! My name is Anna."}]
    said = [{"type": "output_text", "text": "Hello, Anna! How can I help you?"}]
    request = {"model": "demo", "input": [message("user", parts), message("assistant", said)]}
    compacted = http.post("/responses/compact", json=request).json()
    more = [*compacted["output"], user("What is my name?")]
    response = check_stream(turn(open_socket(), input=more, store=False, tools=[]), event_names)
    assert text_of(response) == "Your name is Anna."
