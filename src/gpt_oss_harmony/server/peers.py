"""Requests between the servers of one database about running responses.

A request is addressed to the id of a server, and the answer comes in parts. Both are messages on a
channel: notifications of PostgreSQL, which need no address or port of a server.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, TypeAlias

import psycopg
from sqlalchemy import URL

from .http.requests import cancel_all
from .store import StoreError

_LOG = logging.getLogger(__name__)

ANSWER_SECONDS = 1.0
"""The longest time between two parts of an answer; without data, an empty part is sent."""
_SILENCE = 3 * ANSWER_SECONDS  # after which a server that runs responses may be dead
_PIECE = 7_900  # bytes of a notification, below 8,000
_PIECE_COST = 200  # bytes of a piece that waits, beside its characters
_RECONNECT_SECONDS = 0.5

Answer: TypeAlias = "Callable[[Mapping[str, Any]], AsyncGenerator[Any, None]]"
"""A function from a request to the parts of its answer, all JSON; one part each `ANSWER_SECONDS`.
"""


class PeerError(Exception):
    """Another server does not answer."""


class Peers:
    """This server among others; without a `channel`, it is alone.

    A server that sends nothing for `silence` seconds counts as dead.
    """

    def __init__(
        self,
        server_id: str,
        channel: PostgresChannel | None,
        answer: Answer,
        *,
        silence: float = _SILENCE,
    ) -> None:
        self._id = server_id
        self._channel = channel
        self._answer = answer
        self._silence = silence
        self._numbers = itertools.count()
        self._calls: dict[int, asyncio.Queue[Mapping[str, Any] | None]] = {}
        self._answers: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Start to answer. Raises `StoreError`."""
        if self._channel is not None:
            await self._channel.open(self._receive)

    async def close(self) -> None:
        """End; running answers are cut off."""
        await cancel_all(*self._answers.values(), *self._leaving)
        if self._channel is not None:
            await self._channel.close()

    async def ask(self, server_id: str, request: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        """Yield the parts of another server's answer. Raises `PeerError` if it does not answer.

        Closing the generator ends the work of the other server.
        """
        if self._channel is None or server_id == self._id:
            raise PeerError(f"there is no other server {server_id}")
        call, loop = next(self._numbers), asyncio.get_running_loop()
        parts = self._calls[call] = asyncio.Queue()
        has_ended = False
        try:
            await self._send(server_id, call=call, sender=self._id, request=request)
            while True:
                timer = loop.call_later(self._silence, parts.put_nowait, None)
                try:
                    message = await parts.get()
                finally:
                    timer.cancel()
                if message is None:
                    raise PeerError(f"the server {server_id} does not answer")
                if "part" not in message:
                    has_ended = True
                    return
                yield message["part"]
        finally:
            del self._calls[call]
            if not has_ended:
                # A task of its own, as this generator may be closed by a cancellation, which an
                # `await` would not survive. The set keeps the task: the event loop has only a weak
                # reference to it.
                leaving = asyncio.ensure_future(self._leave(server_id, call))
                self._leaving.add(leaving)
                leaving.add_done_callback(self._leaving.discard)

    async def _leave(self, server_id: str, call: int) -> None:
        with suppress(PeerError):
            await self._send(server_id, left=call, sender=self._id)

    async def _send(self, server_id: str, **message: Any) -> None:
        assert self._channel is not None
        await self._channel.send(server_id, json.dumps(message, separators=(",", ":")))

    def _receive(self, text: str) -> None:
        message = json.loads(text)
        if "request" in message:
            asker = message["sender"], message["call"]
            task = asyncio.ensure_future(self._respond(*asker, message["request"]))
            self._answers[asker] = task
            task.add_done_callback(lambda _: self._answers.pop(asker, None))
        elif "left" in message:
            task_of_asker = self._answers.get((message["sender"], message["left"]))
            if task_of_asker is not None:
                task_of_asker.cancel()
        elif message["call"] in self._calls:
            # Parts that arrive after their reader has left are dropped.
            self._calls[message["call"]].put_nowait(message)

    async def _respond(self, sender: str, call: int, request: Mapping[str, Any]) -> None:
        try:
            async with aclosing(self._answer(request)) as parts:
                async for part in parts:
                    await self._send(sender, call=call, part=part)
            await self._send(sender, call=call)
        except PeerError as error:
            _LOG.warning("an answer to another server was cut off: %s", error)
        except Exception:  # noqa: BLE001 - the other server gets no answer and reads the store
            _LOG.exception("a request of another server failed")


_NO_MESSAGE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


class PostgresChannel:
    """Messages in order, as notifications of PostgreSQL; in pieces, as their length is limited.

    A broken connection is opened again. Messages of that time are lost; their receiver times out
    and sends its request again.
    """

    def __init__(self, url: URL, server_id: str) -> None:
        # Here psycopg reads the URL, not SQLAlchemy: it takes no `+psycopg` in the scheme.
        self._url = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._shown = url.set(query={}).render_as_string(hide_password=True)
        self._id = server_id
        self._listening: asyncio.Task[None] | None = None
        self._sender: psycopg.AsyncConnection[Any] | None = None
        self._turn = asyncio.Lock()
        self._numbers = itertools.count()

    async def open(self, received: Callable[[str], None]) -> None:
        """Listen. Raises `StoreError` if it cannot; later failures are logged and retried."""
        try:
            listener = await self._listener()
        except psycopg.Error as error:
            raise StoreError(f"the database {self._shown} failed: {error}") from error
        self._listening = asyncio.ensure_future(self._listen(listener, received))

    async def send(self, server_id: str, message: str) -> None:
        """Send a message in pieces, all in one transaction. Raises `PeerError`."""
        number, name = next(self._numbers), _channel(server_id)
        # The message is JSON in ASCII, so each of its characters is a byte.
        pieces = [message[start : start + _PIECE] for start in range(0, len(message), _PIECE)]
        rows = [
            (name, f"{self._id} {number} {left} {piece}")
            for left, piece in zip(reversed(range(len(pieces))), pieces, strict=True)
        ]
        async with self._turn:
            try:
                if self._sender is None or self._sender.closed:
                    self._sender = await psycopg.AsyncConnection.connect(self._url)
                async with self._sender.transaction(), self._sender.cursor() as cursor:
                    await cursor.executemany("SELECT pg_notify(%s, %s)", rows)
            except psycopg.Error as error:
                raise PeerError(f"the database {self._shown} failed: {error}") from error

    async def close(self) -> None:
        """Close the connections."""
        if self._listening is not None:
            await cancel_all(self._listening)
        if self._sender is not None:
            await self._sender.close()

    async def _listener(self) -> psycopg.AsyncConnection[Any]:
        # PostgreSQL delivers no notification to a connection that is inside a transaction.
        connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
        await connection.execute(f'LISTEN "{_channel(self._id)}"'.encode())
        return connection

    async def _listen(
        self, connection: psycopg.AsyncConnection[Any] | None, received: Callable[[str], None]
    ) -> None:
        is_away = False
        while True:
            try:
                if connection is None:
                    connection = await self._listener()
                    is_away = False
                    _LOG.warning("messages from other servers arrive again")
                messages = JoinedPieces()
                async with connection:
                    async for notification in connection.notifies():
                        try:
                            whole = messages.add(notification.payload)
                            if whole is not None:
                                received(whole)
                        except _NO_MESSAGE:  # any user of the database can notify
                            _LOG.warning("a notification that no server has sent is ignored")
            except psycopg.Error as error:
                if not is_away:  # said once, however long it lasts
                    _LOG.warning("no messages from other servers for now: %s", error)
                is_away = True
            connection = None
            await asyncio.sleep(_RECONNECT_SECONDS)


class JoinedPieces:
    """Joins the pieces of messages.

    Any user of the database can notify, and may never send the last piece of a message. So beyond
    `most` characters, the oldest unfinished messages are dropped.

    >>> messages = JoinedPieces()
    >>> messages.add("a 1 1 Hel"), messages.add("b 1 0 Ho!"), messages.add("a 1 0 lo")
    (None, 'Ho!', 'Hello')
    """

    def __init__(self, most: int = 64 << 20) -> None:
        self._most = most
        self._unfinished: dict[tuple[str, str], list[str]] = {}
        self.size = 0
        """The characters of the unfinished messages, and some for each of their pieces."""

    def add(self, notification: str) -> str | None:
        """Take a piece; return the message if this is the last. Raises `ValueError`."""
        sender, number, left, piece = notification.split(" ", 3)
        key = sender, number
        self._unfinished.setdefault(key, []).append(piece)
        self.size += len(piece) + _PIECE_COST
        if left == "0":
            return "".join(self._removed(key))
        while self.size > self._most:
            self._removed(next(iter(self._unfinished)))
        return None

    def _removed(self, key: tuple[str, str]) -> list[str]:
        pieces = self._unfinished.pop(key)
        self.size -= sum(len(piece) + _PIECE_COST for piece in pieces)
        return pieces


def _channel(server_id: str) -> str:
    return f"harmony_{server_id}"
