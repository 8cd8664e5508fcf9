"""HTTP/1.1 connections of uvicorn with time limits, and requests with one length.

A client that sends half a request occupies a connection and a file of the process, but uvicorn only
limits idle connections. A request with both ``Content-Length`` and ``Transfer-Encoding`` is two
requests to a proxy that reads the other header (RFC 9112, section 6.1).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import dataclass
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

_ERRORS_OF_CLIENTS = (
    "ASGI callable returned without completing handshake.",
    "Invalid UTF-8 sequence received from client.",
)
_LATE = b"the request did not end in time\n"


@dataclass(frozen=True)
class RequestTimes:
    """The time limits for the head and the body of a request, in seconds.

    Each `body_rate` received bytes of the body add one second. If a request takes longer, its
    connection is closed, with the status 408 if there was no response yet.
    """

    head: float = 10
    body: float = 30
    body_rate: int = 16 * 1024


class HttpConfig(uvicorn.Config):
    """The configuration of uvicorn for the servers of this library; `options` are uvicorn's."""

    def __init__(self, app: Any, times: RequestTimes | None = None, **options: Any) -> None:
        try:
            from .websockets import PacedWebSocket
        except ImportError:  # only servers with WebSockets need it
            ws: Any = "auto"
        else:
            ws = PacedWebSocket
        super().__init__(
            app, http=_TimedProtocol, ws=ws, log_level="warning", server_header=False, **options
        )
        self.times = times or RequestTimes()
        logging.getLogger("uvicorn.error").addFilter(_is_of_the_server)


def _is_of_the_server(record: logging.LogRecord) -> bool:
    """Return False for what uvicorn calls an error of a WebSocket where its client is at fault."""
    return record.msg not in _ERRORS_OF_CLIENTS


class _Connection(h11.Connection):
    """Reads a request as h11 does, but rejects one with two lengths."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = [name for name, _ in event.headers]
            if b"content-length" in names and b"transfer-encoding" in names:
                raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
        return event


class _TimedProtocol(H11Protocol):
    """Closes a connection if the rest of a request takes too long.

    Its state shows which part of a request is awaited. That of httptools, which uvicorn prefers if
    it is installed, does not.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = _Connection(h11.SERVER)
        self._times = config.times if isinstance(config, HttpConfig) else RequestTimes()
        self._awaited: object = None  # h11.IDLE for a head, h11.SEND_BODY for a body
        self._deadline = 0.0
        self._earned = 0.0  # seconds, for the bytes that came last
        # A timer that fires too early is set again, so one timer serves many requests.
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Send without delay, and await the first head.

        Else the end of a response waits some 40 ms for the client to confirm its beginning. The
        event loop sets the option only on sockets that were made with the protocol's number, and
        not every kernel lets connections inherit it.
        """
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Give a body more time for the bytes that have arrived."""
        self._earned = len(data) / self._times.body_rate
        self._deadline += self._earned if self._awaited is h11.SEND_BODY else 0
        super().data_received(data)

    def handle_events(self) -> None:
        """Await the next part after one has arrived."""
        super().handle_events()
        self._watch()

    def _watch(self) -> None:
        state = self.conn.their_state
        awaited = state if state in (h11.IDLE, h11.SEND_BODY) else None
        if awaited is self._awaited:
            return
        self._awaited = awaited
        if awaited is not None:
            times = self._times
            seconds = times.head if awaited is h11.IDLE else times.body + self._earned
            self._deadline = self.loop.time() + seconds
            if self._timer is None or self._timer.when() > self._deadline:
                self._look_at(self._deadline)

    def _look_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(when, self._look)

    def _look(self) -> None:
        """Close the connection at the deadline."""
        self._timer = None
        is_over = self.transport.is_closing() or self.transport.get_protocol() is not self
        if self._awaited is None or is_over:
            return
        now = self.loop.time()
        if self.flow.read_paused:  # the client waits for this server, so its time does not run
            self._deadline = max(self._deadline, now + self._times.body)
            self._look_at(now + self._times.body / 2)
            return
        if now < self._deadline:
            self._look_at(self._deadline)
            return
        has_begun = self._awaited is h11.SEND_BODY or bool(self.conn.trailing_data[0])
        if not has_begun or self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()  # no request to answer, or perhaps no reader of the response
            return
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(_LATE)).encode()),
            (b"connection", b"close"),
        ]
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # tell the application that the client has gone
            self.cycle.message_event.set()
        for event in (
            h11.Response(status_code=408, headers=headers, reason=b"Request Timeout"),
            h11.Data(data=_LATE),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
