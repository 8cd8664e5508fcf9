"""A small server over real sockets, so that connections really break; it can fail in many ways."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from support.noise_sampler import Noise, Settings, Step


@dataclass
class Faults:
    """What goes wrong; numbers count events of an answer."""

    vanish_after: int | None = None
    hang_after: int | None = None
    garbage_after: int | None = None
    error_after: int | None = None
    stop_after: int | None = None
    busy: int = 0  # requests that are turned away first
    refuse: tuple[int, Any] | None = None
    page: bytes | None = None  # an answer that is no JSON
    script: list[int] | None = None  # tokens to send, whatever is asked for
    ignore_grammar: bool = False
    vanish_at_the_end: bool = False  # after the last token


@dataclass
class Counts:
    requests: int = 0
    running: int = 0
    aborted: int = 0
    steps: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


class StandIn(ABC):
    """One server; `url` is where it listens, `counts` what it has been busy with."""

    path: str

    def __init__(self, *, pace: float = 0.0005, api_key: str | None = None) -> None:
        self.faults = Faults()
        self.counts = Counts()
        self.url = ""
        self.cached: int | None = None  # tokens of each prompt that it says to have had; or nothing
        self._pace = pace
        self._api_key = api_key
        self._server: asyncio.Server | None = None
        self._answering: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[StandIn]:
        """Listen on a free port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in self._answering:
                task.cancel()
            await asyncio.gather(*self._answering, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._converse(reader, writer)
        finally:
            self._answering.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, path, _ = head.split("\r\n")[0].split(" ")
            headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            if self._api_key and path != "/health":
                key = f"bearer {self._api_key}".lower()
                if headers.get("authorization", "").lower() != key:
                    await send(writer, 401, {"error": "Unauthorized"})
                    continue
            if method == "POST" and path == self.path:
                self.counts.headers.append(headers)
                if not await self._complete(json.loads(body), reader, writer):
                    return
            else:
                await send(writer, *self.about(path))

    async def _complete(
        self, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer a request for a completion; False where the connection is lost."""
        if not body:
            await send(writer, 400, refusal(400, "field required: token_ids"))
            return True
        self.counts.requests += 1
        self.counts.bodies.append(body)
        if self.counts.requests <= self.faults.busy:
            await send(writer, 503, refusal(503, "busy"))
            return True
        refused = self.faults.refuse or self.refuses(body)
        if refused is not None:
            await send(writer, *refused)
            return True
        if self.faults.page is not None:
            await send(writer, 200, self.faults.page, kind="text/html")
            return True
        self.counts.running += 1
        gone = asyncio.ensure_future(reader.read(1))
        try:
            return await self._stream(body, writer, gone)
        except ConnectionError:  # the client was gone before a read noticed it
            self.counts.aborted += 1
            return False
        finally:
            gone.cancel()
            self.counts.running -= 1

    async def _stream(
        self, body: dict[str, Any], writer: asyncio.StreamWriter, gone: asyncio.Future[bytes]
    ) -> bool:
        steps = self._steps(body)
        if not body["stream"]:
            found = [step async for step in steps if not gone.done()]
            if gone.done():
                self.counts.aborted += 1
                return False
            await send(writer, 200, self.whole(body, found), close=True)
            return False
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        sent = 0
        async for step in steps:
            if gone.done():
                self.counts.aborted += 1
                return False
            for event in self.events(body, step):
                if not await self._fail(sent, writer, gone):
                    return False
                await send_chunk(writer, f"data: {event}\n\n".encode())
                sent += 1
        if not await self._fail(sent, writer, gone):
            return False
        if self.faults.vanish_at_the_end:
            writer.transport.abort()
            return False
        for event in self.ending(body):
            await send_chunk(writer, f"data: {event}\n\n".encode())
        await send_chunk(writer, b"")
        return False

    async def _steps(self, body: dict[str, Any]) -> AsyncIterator[Step]:
        settings = self.settings(body)
        if self.faults.ignore_grammar:
            settings.grammar = None
        if self.faults.script is not None:
            last = len(self.faults.script) - 1
            for at, token in enumerate(self.faults.script):
                yield Step(token, -1.0, [(token, -1.0)], "stop" if at == last else None)
            return
        for step in Noise(settings):
            self.counts.steps += 1
            await asyncio.sleep(self._pace)
            yield step

    async def _fail(
        self, sent: int, writer: asyncio.StreamWriter, gone: asyncio.Future[bytes]
    ) -> bool:
        """Do what `faults` say for this place of the answer; False where it ends the connection."""
        faults = self.faults
        if sent == faults.vanish_after:
            writer.transport.abort()
            return False
        if sent == faults.hang_after:
            await gone
            self.counts.aborted += 1
            return False
        if sent == faults.garbage_after:
            await send_chunk(writer, b"data: {not json\n\n")
        if sent == faults.error_after:
            event = json.dumps(refusal(500, "the model broke"))
            await send_chunk(writer, f"data: {event}\n\n".encode())
        if sent == faults.stop_after:
            await send_chunk(writer, b"")
            return False
        return True

    @abstractmethod
    def about(self, path: str) -> tuple[int, Any]:
        """Answer a request for anything but a completion."""

    @abstractmethod
    def refuses(self, body: dict[str, Any]) -> tuple[int, Any] | None:
        """Return the error for a request that is wrong."""

    @abstractmethod
    def settings(self, body: dict[str, Any]) -> Settings:
        """Read a request."""

    @abstractmethod
    def events(self, body: dict[str, Any], step: Step) -> Iterator[str]:
        """Return the events for a token."""

    def ending(self, body: dict[str, Any]) -> Iterator[str]:
        """Return the events after the last token."""
        yield "[DONE]"

    def whole(self, body: dict[str, Any], steps: list[Step]) -> Any:
        """Return an answer that is not streamed."""
        raise NotImplementedError


def refusal(code: int, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "type": "some_error"}}


async def send(
    writer: asyncio.StreamWriter,
    status: int,
    body: Any,
    *,
    kind: str = "application/json",
    close: bool = False,
) -> None:
    """Send a whole answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(data)}"]
    if close:
        lines.append("Connection: close")
    writer.write("\r\n".join([*lines, "\r\n"]).encode() + data)
    await writer.drain()


async def send_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()
