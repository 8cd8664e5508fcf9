"""The size and encoding of request bodies, and work that ends when its client disconnects."""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import Callable, Coroutine
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import ApiError, error_response

_Result = TypeVar("_Result")


class RequestSizeLimit:
    """Middleware that refuses bodies of more than `limit` bytes with 413, also streamed ones."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit
        self._refusal = request_too_large("request", limit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count the bytes that are read from it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self._limit:
            await error_response(self._refusal, scope)(scope, receive, send)
            return
        remaining = self._limit

        async def limited_receive() -> Message:
            """End a body that becomes too large."""
            nonlocal remaining
            message = await receive()
            remaining -= len(message.get("body", b""))
            # Whatever reads the body stops at this message, and needs no error of its own.
            return message if remaining >= 0 else {"type": "http.disconnect"}

        async def limited_send(message: Message) -> None:
            """Drop the response to a body that was cut."""
            if remaining >= 0:
                await send(message)

        await self._app(scope, limited_receive, limited_send)
        if remaining < 0:
            await error_response(self._refusal, scope)(scope, receive, send)


DECODED = "harmony.decoded"
"""The name of an entry in a scope whose body was decoded; a key has a quota for such bodies."""

_PIECE = 256 * 1024  # decoded bytes, between which others run and the quotas are checked


class DecodedBodies:
    """Middleware that decodes bodies in gzip and zstd; `limit` is for the decoded bytes.

    It passes on a piece at a time, when the piece is asked for: a few bytes may become very many.
    Bodies take turns, because the event loop waits for a piece of each that it comes to.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit
        self._turn = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with the decoded body."""
        headers = dict(scope.get("headers", ()))
        encoding = headers.get(b"content-encoding", b"identity").decode("latin-1").strip().lower()
        if scope["type"] != "http" or encoding == "identity":
            await self._app(scope, receive, send)
            return
        if encoding not in _DECODERS:
            await error_response(_unknown_encoding(encoding), scope)(scope, receive, send)
            return
        decoder = _BodyDecoder(encoding, self._limit)

        is_last = False

        async def decoded_receive() -> Message:
            nonlocal is_last
            if decoder.has_more:
                message: Message = {"type": "http.request", "body": b""}
            else:
                message = await receive()
                if message["type"] != "http.request":
                    return message
                is_last = not message.get("more_body", False)
            async with self._turn:
                body = decoder.decode(message.get("body", b""), is_last=is_last)
                # Within the turn: other tasks run between the pieces of two bodies as well.
                await asyncio.sleep(0)
            return {**message, "body": body, "more_body": decoder.has_more or not is_last}

        replaced = (b"content-encoding", b"content-length")
        kept = [(name, value) for name, value in scope["headers"] if name not in replaced]
        kept.append((b"transfer-encoding", b"chunked"))  # the new length is not known yet
        await self._app({**scope, "headers": kept, DECODED: True}, decoded_receive, send)


class _Gzip:
    """A decoder of gzip with the attributes of other decoders: it keeps the input it has not read.

    That of `zlib` returns this input.
    """

    def __init__(self) -> None:
        # 16 is zlib's sign for the format gzip.
        self._gzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._gzip.eof

    @property
    def unused_data(self) -> bytes:
        return self._gzip.unused_data

    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes:
        decoded = self._gzip.decompress(self._gzip.unconsumed_tail + data, max_length)
        # Its buffer may have more, even if it has read everything.
        is_full = len(decoded) == max_length
        self.needs_input = not (is_full or self._gzip.unconsumed_tail) and not self._gzip.eof
        return decoded


_DECODERS: dict[str, Callable[[], _Gzip]] = {"gzip": _Gzip}  # or others with its attributes
_DECODING_ERRORS: tuple[type[Exception], ...] = (zlib.error,)
with suppress(ImportError):  # an environment may be older than this dependency
    zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    _DECODERS["zstd"] = zstd.ZstdDecompressor
    _DECODING_ERRORS += (zstd.ZstdError,)


class _BodyDecoder:
    """Decodes a body piece by piece, up to a limit; raises `ApiError`.

    While `has_more` is true, `decode` returns the next piece of what it has got.
    """

    def __init__(self, encoding: str, limit: int) -> None:
        self._decoder = _DECODERS[encoding]()
        self._encoding = encoding
        self._limit = self._room = limit
        self.has_more = False

    def decode(self, data: bytes, *, is_last: bool) -> bytes:
        decoded = b""
        try:
            if (data or self.has_more) and not self._decoder.eof:
                # One byte more than there is room for: if it comes, the body is too large.
                decoded = self._decoder.decompress(data, min(self._room + 1, _PIECE))
                data = b""
        except _DECODING_ERRORS:
            raise self._error("it is damaged") from None
        if len(decoded) > self._room:
            raise request_too_large("decoded request", self._limit)
        self._room -= len(decoded)
        self.has_more = bool(decoded) and not (self._decoder.eof or self._decoder.needs_input)
        if data or self._decoder.unused_data:
            raise self._error("there is more data after its end")
        if is_last and not self.has_more and not self._decoder.eof:
            raise self._error("its end is missing")
        return decoded

    def _error(self, problem: str) -> ApiError:
        problem = f"the body cannot be decoded as {self._encoding}: {problem}"
        return ApiError(400, problem, code="invalid_encoding")


def _unknown_encoding(encoding: str) -> ApiError:
    return ApiError(
        415,
        f"the content encoding {encoding!r:.40} is not supported; send the body unencoded, or in "
        f"{' or '.join(_DECODERS)}",
        code="unsupported_encoding",
    )


def request_too_large(what: str, limit: int) -> ApiError:
    """Make the error of a request, or a message, with too many bytes."""
    problem = f"the {what} is larger than {limit:,} bytes; send less, or raise the limit"
    return ApiError(413, problem, code="request_too_large")


async def until_disconnected(receive: Receive) -> None:
    """Wait until the client disconnects; its request body must have been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(receive: Receive, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Return the result of `work`; if the client disconnects, cancel it and raise `ApiError`."""
    working = asyncio.ensure_future(work)
    tasks: list[asyncio.Future[Any]] = [working]
    try:
        await asyncio.sleep(0)
        if not working.done():  # it has to wait for something
            tasks.append(asyncio.ensure_future(until_disconnected(receive)))
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        # nginx's number for this; only the log and the metrics show it.
        raise ApiError(499, "the client disconnected", code="client_closed_request")
    finally:
        await cancel_all(*tasks)


async def cancel_all(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until all have ended; their errors count as seen."""
    for task in tasks:
        task.cancel()
    if not all(task.done() for task in tasks):
        await asyncio.wait(tasks)
    for task in tasks:
        # Otherwise asyncio logs each error that nobody has asked for.
        task.cancelled() or task.exception()
