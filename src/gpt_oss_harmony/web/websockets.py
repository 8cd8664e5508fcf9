"""WebSocket connections of uvicorn that leave the event loop to others.

uvicorn parses everything that one read of a socket returns: of the smallest frames, such as pings,
that is 40,000, which takes seconds. And it writes a pong for each ping, also for a client that
reads none. Here connections take turns, a piece each; a client that does not read is not read.
Importing this module needs websockets.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Generator
from typing import Any
from weakref import WeakKeyDictionary

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

_PIECE = 512  # bytes, of which at most 85 are frames; what is left of a frame comes as a whole
_TURN_SECONDS = 0.004  # of all connections together, before the event loop does other work
_FULL = 64 * 1024  # bytes that wait: the socket is not read meanwhile
_NO_HANDSHAKE = b"a WebSocket begins with a GET with a valid key, without a body or large headers\n"


class PacedWebSocket(WebSocketsSansIOProtocol):
    """Parses the bytes of its client in pieces, in turn with the other connections."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._waiting = bytearray()
        reader: Any = self.conn.reader
        self._reader, self._awaited = reader, 0
        self._read_exact = reader.read_exact
        reader.read_exact = self._noting

    def _noting(self, count: int) -> Generator[None, None, bytearray]:
        """Read a part of a frame, and note meanwhile how long it is."""
        self._awaited = count
        part: bytearray = yield from self._read_exact(count)
        self._awaited = 0
        return part

    def data_received(self, data: bytes) -> None:
        """Parse the request, or a little data, at once; let more data wait for its turns."""
        if not self.handshake_initiated:
            super().data_received(data)
            if not self.handshake_initiated:
                self._refuse()
            return
        missing = self._awaited - len(self._reader.buffer)
        # The end of something large takes long: it is unmasked, copied and decoded.
        is_little = len(data) < missing or (len(data) <= _PIECE and self._awaited <= _FULL)
        if is_little and not self._waiting:
            super().data_received(data)
            return
        self._waiting += data
        if len(self._waiting) >= _FULL:
            self.transport.pause_reading()
        _turns(self.loop).add(self)

    def handle_connect(self, event: Request) -> None:
        """Begin a handshake, unless its key is no ASCII: an exception in websockets, and a 500."""
        if all(map(str.isascii, event.headers.get_all("Sec-WebSocket-Key"))):
            super().handle_connect(event)

    def _refuse(self) -> None:
        """Answer what is a request and no handshake; websockets would wait for ever.

        The request came as a whole, from uvicorn's HTTP connection, which has no more part in it.
        """
        self.logger.warning("Invalid WebSocket handshake received.")
        head = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
        head += f"connection: close\r\ncontent-length: {len(_NO_HANDSHAKE)}\r\n\r\n"
        self.transport.write(head.encode() + _NO_HANDSHAKE)
        self.transport.close()

    def take_turn(self) -> bool:
        """Parse a piece; return whether the next one can follow."""
        if self.disconnected or self.transport.is_closing():
            self._waiting.clear()
            return False
        if not self.writable.is_set() or not self.queue.empty():
            return False  # until the client, or the application, has read what is there
        size = max(_PIECE, self._awaited - len(self._reader.buffer))
        piece = bytes(self._waiting[:size])
        del self._waiting[:size]
        super().data_received(piece)
        if len(self._waiting) < _FULL and not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()
        return bool(self._waiting)

    def resume_writing(self) -> None:
        """Go on with what waits: the client has read what was written."""
        super().resume_writing()
        if self._waiting:
            _turns(self.loop).add(self)

    async def receive(self) -> Any:
        """Return a message of the client, and go on with what waits."""
        message = await super().receive()
        if self._waiting:
            _turns(self.loop).add(self)
        return message

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what waits."""
        super().connection_lost(exc)
        self._waiting.clear()


class _Turns:
    """The connections of an event loop whose clients have sent more than a piece."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: OrderedDict[PacedWebSocket, None] = OrderedDict()
        self._is_going_on = False

    def add(self, connection: PacedWebSocket) -> None:
        """Give a connection turns until it has parsed everything."""
        self._waiting.setdefault(connection)
        if not self._is_going_on:
            self._is_going_on = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        begun = time.perf_counter()
        used = 0.0
        while self._waiting and used < _TURN_SECONDS:
            connection, _ = self._waiting.popitem(last=False)
            if connection.take_turn():
                self._waiting[connection] = None
            used = time.perf_counter() - begun
        # A large message takes longer; others then have as much time before the next one.
        pause = used if used > 2 * _TURN_SECONDS else 0
        self._is_going_on = bool(self._waiting or pause)
        if self._is_going_on:
            self._loop.call_later(pause, self._go_on)


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()


def _turns(loop: asyncio.AbstractEventLoop) -> _Turns:
    turns = _TURNS.get(loop)
    if turns is None:
        turns = _TURNS[loop] = _Turns(loop)
    return turns
