"""The Responses API over a WebSocket."""

from __future__ import annotations

import json
import time
import zlib
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from openai.types.responses import ResponsesServerEvent
from pydantic import TypeAdapter
from starlette.testclient import WebSocketDenialResponse, WebSocketTestSession
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from gpt_oss_harmony.server import Settings
from support.responses_server import CALL, ENDS, NOW, PATH, TEXT, THOUGHT, answer, serving, types
from support.scripted_engine import GatedEngine, ScriptedEngine
from support.served import PATIENCE, sdk
from support.served import serving as serving_at

EVENT: TypeAdapter[Any] = TypeAdapter(ResponsesServerEvent)
FIN, RSV1, TEXT_FRAME = 0x80, 0x40, 0x01  # bits of a frame; RSV1 says that it is compressed
PROTOCOL_ERROR = 1002


def ask(socket: WebSocketTestSession, **body: Any) -> list[dict[str, Any]]:
    """Send a request, and read the events of its response."""
    socket.send_json({"type": "response.create", **body})
    return read(socket)


def read(socket: WebSocketTestSession) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] not in ENDS:
        events.append(EVENT.validate_python(socket.receive_json()).to_dict())
    return events


def code(events: list[dict[str, Any]]) -> str:
    (event,) = events
    assert (event["type"], event["status"]) == ("error", 400)
    return str(event["error"]["code"])


def test_events_are_those_of_a_stream() -> None:
    body = {"input": "hi", "tools": [NOW], "include": ["reasoning.encrypted_content"]}
    with serving(THOUGHT + CALL, THOUGHT + CALL) as client:
        with client.websocket_connect(PATH) as socket:
            told = ask(socket, **body)
        text = client.post(PATH, json={**body, "stream": True}).text
    streamed = [json.loads(one[6:]) for one in text.split("\n") if one.startswith("data: {")]
    assert types(told) == types(streamed)
    assert [event["sequence_number"] for event in told] == list(range(len(told)))


def test_the_first_event_names_what_is_ignored() -> None:
    item = {"role": "user", "content": "hi", "zz": 1}
    with serving(TEXT, TEXT) as client, client.websocket_connect(PATH) as socket:
        first, *others = ask(socket, input=[item], temprature=0)
        plain = ask(socket, input="hi")
    assert first["headers"] == {"Harmony-Ignored": "temprature, input[].zz"}
    assert not any("headers" in event for event in (*others, *plain))


def test_a_chain_that_is_not_stored_lives_with_its_connection() -> None:
    engine = ScriptedEngine(THOUGHT + CALL, TEXT, TEXT, TEXT)
    with serving(engine=engine) as client:
        with client.websocket_connect(PATH) as socket:
            first = answer(socket, input="hi", tools=[NOW], store=False)
            call = first["output"][1]
            result = {"type": "function_call_output", "call_id": call["call_id"], "output": "noon"}
            second = answer(
                socket,
                input=[result],
                tools=[NOW],
                store=False,
                previous_response_id=first["id"],
            )
            third = answer(socket, input="and?", store=True, previous_response_id=second["id"])
            assert client.get(f"{PATH}/{second['id']}").status_code == 404
        with client.websocket_connect(PATH) as socket:
            lost = ask(socket, input="and?", store=False, previous_response_id=second["id"])
            answer(socket, input="and?", previous_response_id=third["id"])
        kept = client.get(f"{PATH}/{third['id']}").json()
    assert engine.prompts[1].startswith(engine.prompts[0] + THOUGHT + CALL)
    assert code(lost) == "previous_response_not_found"
    assert kept["previous_response_id"] == second["id"]
    assert engine.prompts[3].startswith(engine.prompts[2])


def test_a_failed_continuation_forgets_what_it_went_on_from() -> None:
    with serving(TEXT) as client, client.websocket_connect(PATH) as socket:
        id = answer(socket, input="hi", store=False)["id"]
        result = {"type": "function_call_output", "call_id": "none", "output": ""}
        failed = ask(socket, input=[result], store=False, previous_response_id=id)
        again = ask(socket, input="hi", store=False, previous_response_id=id)
    assert code(failed) == "invalid_value"
    assert code(again) == "previous_response_not_found"


def test_state_is_prepared_without_an_answer() -> None:
    engine = ScriptedEngine(TEXT)
    with serving(engine=engine) as client, client.websocket_connect(PATH) as socket:
        warm = answer(socket, input="Remember 7.", generate=False, store=False)
        answer(socket, input="What?", previous_response_id=warm["id"], store=False)
    assert (warm["status"], warm["output"], warm["usage"]["total_tokens"]) == ("completed", [], 0)
    assert "Remember 7." in engine.prompts[0]
    assert len(engine.prompts) == 1


def test_requests_of_a_lane_wait_for_each_other() -> None:
    with serving(TEXT, TEXT) as client, client.websocket_connect(PATH) as socket:
        for _ in range(2):
            body = {"type": "response.create", "input": "hi", "stream_id": "a"}
            socket.send_json(body)
        told = [*read(socket), *read(socket)]
    assert {event["stream_id"] for event in told} == {"a"}
    assert types(told).count("completed") == 2
    assert types(told).index("completed") < types(told)[1:].index("created") + 1


def test_lanes_do_not_wait_for_each_other() -> None:
    engine = GatedEngine(TEXT, TEXT, before_gate=4)
    with serving(engine=engine) as client, client.websocket_connect(PATH) as socket:
        for lane in ("a", "b"):
            socket.send_json({"type": "response.create", "input": "hi", "stream_id": lane})
        engine.wait_at_gate()
        engine.wait_at_gate()
        engine.open()
        ended = {read(socket)[-1]["stream_id"], read(socket)[-1]["stream_id"]}
    assert ended == {"a", "b"}


MESSAGES: dict[str, tuple[str, str]] = {
    "no JSON": ("{", "invalid_json"),
    "no object": ("[]", "invalid_value"),
    "no type": ("{}", "invalid_value"),
    "unknown type": ('{"type": "session.update"}', "invalid_value"),
    "lane": ('{"type": "response.create", "stream_id": 1}', "invalid_value"),
    "field": ('{"type": "response.create", "temperature": 9}', "invalid_value"),
    "background": ('{"type": "response.create", "background": true}', "unsupported_parameter"),
    "depth": ("[" * 100_000, "invalid_json"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_what_cannot_be_answered_is_told_as_an_event(name: str) -> None:
    text, expected = MESSAGES[name]
    with serving(TEXT) as client, client.websocket_connect(PATH) as socket:
        socket.send_text(text)
        assert code(read(socket)) == expected
        assert types(ask(socket, input="hi"))[-1] == "completed"


def test_an_engine_that_fails_is_told_as_an_event() -> None:
    broken = "<|channel|>final<|message|>Hello!"
    with serving("!", broken) as client, client.websocket_connect(PATH) as socket:
        (error,) = ask(socket, input="hi")
        later = ask(socket, input="hi")
    assert (error["status"], error["error"]["code"]) == (503, "engine_unavailable")
    assert types(later)[-1] == "failed"


def test_steering_is_declined() -> None:
    steer = {"type": "response.steer", "previous_response_id": "resp_0", "input": "Left!"}
    with serving() as client, client.websocket_connect(PATH) as socket:
        socket.send_json(steer)
        event = EVENT.validate_python(socket.receive_json())
    assert event.error.code == "steering_not_supported"
    assert event.steer.input == "Left!"


def test_a_message_may_be_too_large() -> None:
    with serving(max_request_bytes=100) as client, client.websocket_connect(PATH) as socket:
        (error,) = ask(socket, input="word " * 100)
    assert (error["status"], error["error"]["code"]) == (413, "request_too_large")


def test_frames_are_not_compressed() -> None:
    """A few compressed bytes could become a message as large as memory."""
    with serving_at(ScriptedEngine(TEXT, TEXT)) as url:
        place = f"{url.replace('http', 'ws')}/responses"
        with connect(place, compression="deflate") as honest, connect(place) as other:
            assert honest.protocol.extensions == []
            frame = zlib.compress(b"x" * 1000)[:100]
            masked = bytes([0x80 | len(frame)]) + bytes(4) + frame
            honest.socket.sendall(bytes([FIN | RSV1 | TEXT_FRAME]) + masked)
            with pytest.raises(ConnectionClosedError) as closed:
                honest.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == PROTOCOL_ERROR
            other.send(json.dumps({"type": "response.create", "input": "hi"}))
            assert json.loads(other.recv())["type"] == "response.created"


def test_others_are_answered_while_a_large_frame_comes() -> None:
    """Half of a frame of 15 MB has come; then all of it is one request, which is read."""
    body = {"type": "response.create", "input": "word " * 3_000_000}
    data = json.dumps(body).encode()
    assert len(data) > 15_000_000
    head = bytes([FIN | TEXT_FRAME, 0x80 | 127]) + len(data).to_bytes(8, "big") + bytes(4)
    with serving_at(ScriptedEngine(TEXT, TEXT)) as url, sdk(url) as client:
        place = f"{url.replace('http', 'ws')}/responses"
        with connect(place) as slow, connect(place) as other:
            slow.socket.sendall(head + data[: len(data) // 2])
            assert client.responses.create(input="hi", model="script").output_text == "Hello you"
            slow.socket.sendall(data[len(data) // 2 :])
            other.send(json.dumps({"type": "response.create", "input": "hi"}))
            assert json.loads(other.recv())["type"] == "response.created"
            refused = json.loads(slow.recv())
    assert (refused["type"], refused["status"]) == ("error", 400)
    assert refused["error"]["code"] == "context_length_exceeded"


def test_a_connection_needs_a_key() -> None:
    with serving(TEXT, api_keys=("secret",)) as client:
        with pytest.raises(WebSocketDenialResponse) as refused:
            client.websocket_connect(PATH).__enter__()
        headers = {"authorization": "Bearer secret"}
        with client.websocket_connect(PATH, headers=headers) as socket:
            id = answer(socket, input="hi")["id"]
        assert client.get(f"{PATH}/{id}").status_code == 401
        assert client.get(f"{PATH}/{id}", headers=headers).status_code == 200
    assert refused.value.status_code == 401
    assert refused.value.json()["error"]["code"] == "missing_api_key"


def test_a_client_that_goes_away_ends_its_responses() -> None:
    engine = GatedEngine(TEXT, before_gate=4)
    with serving_at(engine) as url:
        with connect(f"{url.replace('http', 'ws')}/responses") as socket:
            socket.send(json.dumps({"type": "response.create", "input": "hi"}))
            id = json.loads(socket.recv())["response"]["id"]
            engine.wait_at_gate()
        engine.wait_for_end()
        end = time.monotonic() + PATIENCE
        with sdk(url) as client:
            # The store hears of it after the engine.
            while (response := client.responses.retrieve(id)).status == "in_progress":
                assert time.monotonic() < end
    assert response.status == "cancelled"
    assert engine.freed == 1


# The SDK opens it as websockets 17 no longer likes.
@pytest.mark.filterwarnings("ignore:connect.. must be used as:DeprecationWarning")
def test_the_sdk_talks_over_one_connection() -> None:
    engine = ScriptedEngine(TEXT, TEXT)
    previous: Any = None
    with serving_at(engine) as url, sdk(url) as client, client.responses.connect() as connection:
        for text in ("hi", "and?"):
            connection.response.create(
                model="script", input=text, store=False, previous_response_id=previous
            )
            for event in connection:
                if event.type == "response.completed":
                    previous = event.response.id
                    break
                assert event.type != "error"
    assert engine.prompts[1].startswith(engine.prompts[0])


def test_a_server_that_ends_says_so() -> None:
    engine = GatedEngine(TEXT, before_gate=4)
    told: list[dict[str, Any]] = []
    with ExitStack() as ended, suppress(ConnectionClosedError):
        with serving_at(engine, Settings(shutdown_seconds=0)) as url:
            socket = ended.enter_context(connect(f"{url.replace('http', 'ws')}/responses"))
            socket.send(json.dumps({"type": "response.create", "input": "hi"}))
            engine.wait_at_gate()
        for message in socket:
            told.append(json.loads(message))
    assert told[-1]["type"] == "response.failed"
    assert told[-1]["response"]["error"]["code"] == "server_shutting_down"
