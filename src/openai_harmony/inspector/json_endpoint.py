"""Functions from JSON to JSON as endpoints: what comes in is checked, what fails is told."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn, TypeAlias, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from ..apis.request_body import RequestBody, read_body
from ..errors import HarmonyError
from .errors import InspectorError

__all__ = ["Endpoint", "Guard", "json_answer", "json_endpoint"]

MAX_BYTES = 16 * 1024 * 1024

_Body = TypeVar("_Body", bound=RequestBody)

Guard: TypeAlias = "Callable[[Request], Awaitable[object]]"
"""Raises where a request may not be answered; the server that has it answers the error."""

Endpoint: TypeAlias = "Callable[[Request], Awaitable[Response]]"


def json_endpoint(
    body: type[_Body], work: Callable[[_Body], Mapping[str, Any]], guard: Guard | None
) -> Endpoint:
    """Make an endpoint of a function, which runs in a thread and raises `HarmonyError`."""

    def answer(raw: bytes) -> Response:
        return json_answer(work(read_body(body, _parsed(raw))))

    async def endpoint(request: Request) -> Response:
        if guard is not None:
            await guard(request)
        try:
            return await asyncio.to_thread(answer, await _body_of(request))
        except HarmonyError as error:
            problem = InspectorError.of(error)
            return json_answer(problem.body(), problem.status)

    return endpoint


def json_answer(content: Mapping[str, Any], status: int = 200) -> Response:
    r"""Write an answer: in ASCII, since texts may hold halves of characters.

    >>> json_answer({"text": chr(0xD83D)}).body
    b'{"text":"\\ud83d"}'
    """
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return Response(text, status, media_type="application/json")


async def _body_of(request: Request) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # Pages of other sites can send everything else without being asked for permission.
        raise InspectorError(415, "send JSON, with the header Content-Type: application/json")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            raise InspectorError(413, f"the request is larger than {MAX_BYTES:,} bytes; send less")
    return bytes(body)


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw.decode(), parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise InspectorError(400, "the JSON is nested too deeply to be read; flatten it") from None
    except ValueError as error:  # no UTF-8, no JSON, or a number of too many digits
        raise InspectorError(400, f"the body is no JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"there is no {name} in JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits:.20} is too large")
    return number
