"""Chat Completions over a real socket: OpenAI's SDK, and clients that go away."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import urllib.request
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit

import pytest
from openai import APIError, NotFoundError, OpenAI, RateLimitError
from pydantic import BaseModel

from gpt_oss_harmony.engines import EngineError, SampledToken, Sampling
from gpt_oss_harmony.server import Settings
from support.chat_server import CALL, FINAL, HI, NOW, THINK
from support.scripted_engine import ScriptedEngine
from support.served import PATIENCE, sdk, serving

ENDLESS = "<|channel|>final<|message|>Hello and..."


class WatchedEngine(ScriptedEngine):
    """Lets a test wait until completions have begun, and until their slots are free."""

    def __init__(self, *completions: str) -> None:
        super().__init__(*completions)
        self.begun = threading.Semaphore(0)
        self.left = threading.Semaphore(0)

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        self.begun.release()
        try:
            async for sampled in super()._generate(prompt, sampling, max_tokens):
                yield sampled
        finally:
            self.left.release()


def send(url: str, **body: Any) -> socket.socket:
    """Send a request and leave its answer to be read."""
    data = json.dumps({"messages": HI, **body}).encode()
    address = urlsplit(url)
    head = f"POST {address.path}/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    client = socket.create_connection((address.hostname, address.port or 80), timeout=PATIENCE)
    client.sendall(head.encode() + data)
    return client


def wait_until(url: str, *numbers: str) -> None:
    """Ask for the metrics until they hold these lines."""
    address = urlsplit(url)
    for _ in range(10_000):
        with urllib.request.urlopen(f"http://{address.netloc}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        if set(numbers) <= set(lines):
            return
    raise AssertionError(f"the numbers stay others than {numbers}")


def ask(client: OpenAI) -> str | None:
    answer = client.chat.completions.create(
        model="script", messages=[{"role": "user", "content": "hi"}]
    )
    return answer.choices[0].message.content


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 2])
def test_a_client_that_goes_away_frees_its_slot(stream: bool, n: int) -> None:
    engine = WatchedEngine(*[ENDLESS] * n, FINAL)
    settings = Settings(max_running=n, max_waiting=0)
    with serving(engine, settings) as url, sdk(url) as client:
        with send(url, stream=stream, n=n):
            assert all(engine.begun.acquire(timeout=PATIENCE) for _ in range(n))
            with pytest.raises(RateLimitError) as refused:
                ask(client)
            assert int(refused.value.response.headers["retry-after"]) >= 1
        assert all(engine.left.acquire(timeout=PATIENCE) for _ in range(n))
        wait_until(url, "harmony_running 0.0")
        assert ask(client) == "Hello 🏰 there."
        wait_until(url, f'harmony_completions_total{{reason="cancelled"}} {n}.0')
    assert engine.freed == n + 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_the_queue_is_not_sampled(stream: bool) -> None:
    engine = WatchedEngine(ENDLESS, FINAL)
    with serving(engine, Settings(max_running=1, max_waiting=1)) as url, sdk(url) as client:
        with send(url, stream=True):
            assert engine.begun.acquire(timeout=PATIENCE)
            with send(url, stream=stream):
                wait_until(url, "harmony_running 1.0", "harmony_waiting 1.0")
            wait_until(url, "harmony_running 1.0", "harmony_waiting 0.0")
        wait_until(url, "harmony_running 0.0")
        assert ask(client) == "Hello 🏰 there."
    assert len(engine.prompts) == 2


def test_those_who_wait_are_served_when_a_place_is_free() -> None:
    engine = WatchedEngine(ENDLESS, FINAL)
    with serving(engine, Settings(max_running=1, max_waiting=1)) as url:
        first = send(url, stream=True)
        assert engine.begun.acquire(timeout=PATIENCE)
        with send(url) as second:
            wait_until(url, "harmony_waiting 1.0")
            first.close()
            assert second.recv(15) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_ends_says_so(stream: bool) -> None:
    class Closing(WatchedEngine):
        """Ends its completions when it is closed, as engines must."""

        async def _generate(
            self, prompt: list[int], sampling: Sampling, max_tokens: int
        ) -> AsyncGenerator[SampledToken, None]:
            self.closing = asyncio.Event()
            async for sampled in super()._generate(prompt, sampling, max_tokens):
                yield sampled
            await self.closing.wait()
            raise EngineError("the engine was closed")

        async def close(self) -> None:
            self.closing.set()

    engine = Closing(ENDLESS.removesuffix("..."))
    with serving(engine, Settings(shutdown_seconds=0)) as url:
        client = send(url, stream=stream)
        assert engine.left.acquire(timeout=PATIENCE)
    answer = b""
    with client:
        while piece := client.recv(10_000):
            answer += piece
    assert b'"code":"server_shutting_down"' in answer
    assert (b"data: [DONE]" in answer) == stream
    assert answer.startswith(b"HTTP/1.1 200" if stream else b"HTTP/1.1 503")


def test_the_sdk_streams_and_accumulates() -> None:
    tool: Any = NOW
    with (
        serving(ScriptedEngine(THINK + CALL)) as url,
        sdk(url) as client,
        client.chat.completions.stream(
            model="script", messages=[{"role": "user", "content": "hi"}], tools=[tool]
        ) as stream,
    ):
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert final.choices[0].message.tool_calls is not None
    (call,) = final.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("now", '{"a": 1}')
    assert final.choices[0].finish_reason == "tool_calls"
    assert "tool_calls.function.arguments.done" in kinds
    assert final.choices[0].message.model_extra is not None
    assert final.choices[0].message.model_extra["reasoning_content"] == "Hm, hm."


def test_the_sdk_parses_what_the_schema_asks_for() -> None:
    class Sum(BaseModel):
        result: int

    answer = FINAL.replace("Hello 🏰 there.", '{"result": 4}')
    with serving(ScriptedEngine(answer)) as url, sdk(url) as client:
        parsed = client.chat.completions.parse(
            model="script", messages=[{"role": "user", "content": "2 + 2?"}], response_format=Sum
        )
    assert parsed.choices[0].message.parsed == Sum(result=4)


def test_the_sdk_raises_what_it_is_told() -> None:
    with serving(ScriptedEngine(FINAL.replace("<|return|>", "!"))) as url, sdk(url) as client:
        with pytest.raises(NotFoundError, match="is not served here; use script"):
            client.chat.completions.create(
                model="gpt", messages=[{"role": "user", "content": "hi"}]
            )
        with pytest.raises(APIError, match="breaks off"):
            for _ in client.chat.completions.create(
                model="script", messages=[{"role": "user", "content": "hi"}], stream=True
            ):
                pass
