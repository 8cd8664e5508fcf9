"""Server-sent events: few writes, errors before and within, and clients that go away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from gpt_oss_harmony.apis.wire_events import Event, encode_events, event_of
from gpt_oss_harmony.server.http import server_sent_events
from gpt_oss_harmony.server.http.errors import ApiError
from gpt_oss_harmony.server.http.requests import while_connected
from gpt_oss_harmony.server.http.server_sent_events import EventLog, EventStream

ENCODED = {
    "data": (event_of({"a": [1, "é"]}), 'data: {"a":[1,"é"]}\n\n'),
    "named": (event_of({}, "x.y"), "event: x.y\ndata: {}\n\n"),
    "text": (Event(None, "[DONE]"), "data: [DONE]\n\n"),
    "line breaks": (event_of({"a": "b\n\nc\r"}), 'data: {"a":"b\\n\\nc\\r"}\n\n'),
    "half a character": (event_of({"a": "\ud800"}), 'data: {"a":"\\ud800"}\n\n'),
}


def test_events_are_written() -> None:
    for event, text in ENCODED.values():
        assert encode_events([event]) == text.encode()
    events, texts = zip(*ENCODED.values(), strict=True)
    assert encode_events(events) == "".join(texts).encode()


class Client:
    """Notes what it is sent; goes away when told to."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.gone = asyncio.Event()

    async def receive(self) -> Any:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        if b"leave" in message.get("body", b""):
            self.gone.set()

    @property
    def bodies(self) -> list[bytes]:
        return [m["body"] for m in self.sent if m["type"] == "http.response.body"]


class Source:
    """Yields its texts: an error is raised, None waits for ever, a number sleeps."""

    def __init__(self, *events: Any) -> None:
        self.events = events
        self.closed = False

    async def run(self) -> AsyncGenerator[Event, None]:
        try:
            for event in self.events:
                if isinstance(event, Exception):
                    raise event
                if event is None:
                    await asyncio.Event().wait()
                if isinstance(event, float):
                    await asyncio.sleep(event)
                    continue
                yield Event(None, event)
        finally:
            self.closed = True


def sent(source: Source, **options: Any) -> list[bytes]:
    async def go() -> list[bytes]:
        client = Client()
        stream = EventStream(source.run(), **options)
        await asyncio.wait_for(stream({"type": "http"}, client.receive, client.send), 60)
        assert client.sent[0]["type"] == "http.response.start"
        assert client.sent[0]["status"] == 200
        headers = dict(client.sent[0]["headers"])
        assert headers[b"content-type"] == b"text/event-stream; charset=utf-8"
        assert b"content-length" not in headers
        return client.bodies

    found = asyncio.run(go())
    assert source.closed
    return found


PAUSE = 0.05  # ten times what may come between two events of one write


def test_events_after_a_pause_are_sent_at_once_and_those_that_come_together_in_one_write() -> None:
    assert sent(Source("a", PAUSE, "b", "c", "d"), ending="[DONE]") == [
        b"data: a\n\n",
        b"data: b\n\ndata: c\n\ndata: d\n\n",
        b"data: [DONE]\n\n",
    ]


def test_the_end_of_a_stream_does_not_wait_for_the_next_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_sent_events, "_PACE", 3600.0)
    for events in (["a", 0.01, "b"], ["a"], [], ["a", 0.01, ApiError(400, "no")]):
        assert sent(Source(*events), ending="[DONE]")[-1].endswith(b"data: [DONE]\n\n")


def test_a_log_is_sent_from_an_event_on_and_again() -> None:
    log = EventLog(Event(None, text) for text in "abc")
    log.close()
    ended = []

    async def go(after: int) -> bytes:
        client = Client()
        stream = EventStream(log, after=after, on_end=lambda: ended.append(after))
        await stream({"type": "http"}, client.receive, client.send)
        return b"".join(client.bodies)

    assert asyncio.run(go(-1)) == b"data: a\n\ndata: b\n\ndata: c\n\n"
    assert asyncio.run(go(1)) == b"data: c\n\n"
    assert asyncio.run(go(2)) == b""
    assert ended == [-1, 1, 2]


def test_an_error_within_is_an_event() -> None:
    refusal = ApiError(429, "too much", kind="rate_limit_error", code="busy")
    body = {"error": {"message": "too much", "type": "rate_limit_error", "param": None}}
    body["error"]["code"] = "busy"
    last = Event(None, "[DONE]")
    assert sent(Source("a", refusal), ending="[DONE]") == [
        b"data: a\n\n",
        encode_events([event_of(body), last]),
    ]
    own = sent(
        Source("a", refusal), error_event=lambda error: event_of({"code": error.code}, "error")
    )
    assert own[1] == b'event: error\ndata: {"code":"busy"}\n\n'


def test_a_bug_is_told_without_its_details(caplog: pytest.LogCaptureFixture) -> None:
    _, told = sent(Source("a", KeyError("secret")))
    assert b"server_error" in told
    assert b"secret" not in told
    assert "secret" in caplog.text


def test_an_error_before_the_first_event_is_raised() -> None:
    async def go() -> list[Any]:
        client = Client()
        stream = EventStream(Source(ApiError(400, "no")).run())
        with pytest.raises(ApiError, match="no"):
            await stream({"type": "http"}, client.receive, client.send)
        return client.sent

    assert asyncio.run(go()) == []


def test_a_silent_stream_is_kept_alive() -> None:
    async def go() -> list[bytes]:
        client = Client()
        stream = EventStream(Source("a", None).run(), keep_alive=0.001)
        task = asyncio.ensure_future(stream({"type": "http"}, client.receive, client.send))
        while len(client.bodies) < 3:
            await asyncio.sleep(0)
        client.gone.set()
        await task
        return client.bodies

    assert asyncio.run(go())[:3] == [b"data: a\n\n", b": keep-alive\n\n", b": keep-alive\n\n"]


def test_a_client_that_goes_away_ends_the_source() -> None:
    assert sent(Source("a", "leave", None)) == [b"data: a\n\ndata: leave\n\n"]


def test_a_slow_reader_does_not_hold_the_source() -> None:
    async def go() -> None:
        source, client, reads = Source(*"abc"), Client(), asyncio.Event()

        async def send(message: Any) -> None:
            await reads.wait()
            await client.send(message)

        stream = EventStream(source.run())
        task = asyncio.ensure_future(stream({"type": "http"}, client.receive, send))
        while not source.closed:
            await asyncio.sleep(0)
        reads.set()
        await task
        assert b"".join(client.bodies) == b"data: a\n\ndata: b\n\ndata: c\n\n"

    asyncio.run(go())


def test_work_ends_when_the_client_goes_away() -> None:
    ended = []

    async def work(client: Client) -> int:
        try:
            client.gone.set()
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return 1

    async def go() -> None:
        client = Client()
        with pytest.raises(ApiError, match="disconnected"):
            await while_connected(client.receive, work(client))

    asyncio.run(go())
    assert ended == [True]


def test_work_that_ends_is_returned() -> None:
    async def work() -> int:
        return 1

    async def go() -> int:
        return await while_connected(Client().receive, work())

    assert asyncio.run(go()) == 1
