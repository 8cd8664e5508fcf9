"""The Responses API over a WebSocket: one connection, many responses.

A client sends ``response.create`` with the fields of a request; the events of the response come
back as messages. What is not stored can be gone on from as long as the connection lasts.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict, deque
from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from ...apis.history import HistoryItem
from ...apis.request_body import read_body
from ...apis.responses_request import ResponsesRequest
from ..answers.disconnect import cancel_all
from ..api_error import ApiError
from ..identifiers import new_id
from ..keys.caller import Caller, KnownCaller
from ..readable_json import readable_json
from ..services import Services
from .log import WireEvent
from .past import Past
from .run import ResponseRun, known_error
from .start import start_response

__all__ = ["router"]

router = APIRouter()

_LOG = logging.getLogger(__name__)

_MOST_REMEMBERED = 16  # responses that are not stored
_MOST_LANES = 16
_MOST_WAITING = 16  # requests of a lane

_ENDS = ("response.completed", "response.incomplete")


@router.websocket("/v1/responses")
async def respond(socket: WebSocket, caller: KnownCaller) -> None:
    """Answer ``response.create`` events until the client goes away."""
    await socket.accept()
    connection = _Connection(socket, socket.app.state.services, caller)
    try:
        with suppress(WebSocketDisconnect):
            await connection.read()
    finally:
        await connection.close()


class _Connection:
    """A client: its lanes, and the responses that only its connection remembers."""

    def __init__(self, socket: WebSocket, services: Services, caller: Caller) -> None:
        self._socket = socket
        self._services = services
        self._caller = caller
        self._sending = asyncio.Lock()
        self._remembered: OrderedDict[str, Past] = OrderedDict()
        self._lanes: dict[str | None, deque[Mapping[str, Any]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self) -> None:
        """Take what the client sends, until it goes away."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            lane: str | None = None
            try:
                event = await asyncio.to_thread(self._read_event, message)
                lane = _lane_of(event)
                if event["type"] == "response.steer":
                    await self._send(_no_steering(event))
                else:
                    self._put(lane, event)
            except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
                await self._send(_error_event(error), lane)

    async def close(self) -> None:
        """End what is under way."""
        await cancel_all(*self._tasks)

    def _read_event(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        text = message.get("text") or message.get("bytes") or ""
        most = self._services.settings.max_request_bytes
        if len(text) > most:
            problem = f"the message is larger than {most:,} bytes; send less, or raise the limit"
            raise ApiError(413, problem, code="request_too_large")
        return _read_event(text)

    def _put(self, lane: str | None, event: Mapping[str, Any]) -> None:
        """Let a request wait for those before it in its lane."""
        waiting = self._lanes.get(lane)
        if waiting is None:
            if len(self._lanes) >= _MOST_LANES:
                raise _too_many(f"{_MOST_LANES} lanes in use", "open another connection")
            waiting = self._lanes[lane] = deque()
            task = asyncio.create_task(self._work(lane, waiting))
            self._tasks.add(task)
            self._services.runs.add_teller(task)
            task.add_done_callback(self._note_end)
        if len(waiting) >= _MOST_WAITING:
            raise _too_many(f"{_MOST_WAITING} requests waiting", "wait for the end of one")
        waiting.append(event)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.debug("a lane ended with its client", exc_info=task.exception())

    async def _work(self, lane: str | None, waiting: deque[Mapping[str, Any]]) -> None:
        """Answer the requests of a lane, one after the other."""
        while waiting:
            event = waiting.popleft()
            try:
                is_whole = await self._respond(event, lane)
            except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
                is_whole = False
                await self._send(_error_event(error), lane)
            if not is_whole:  # the client must not go on from what it may have lost track of
                self._remembered.pop(str(event.get("previous_response_id")), None)
        del self._lanes[lane]

    async def _respond(self, event: Mapping[str, Any], lane: str | None) -> bool:
        """Answer a request; return whether it came to its end."""
        request = await asyncio.to_thread(read_body, ResponsesRequest, event)
        if request.background:
            problem = "there are no responses in the background here; send it over HTTP"
            raise ApiError(400, problem, param="background", code="unsupported_parameter")
        run = await start_response(
            self._services,
            self._caller,
            request.model_copy(update={"stream": True}),
            past=self._remembered.get(request.previous_response_id or ""),
            is_generated=event.get("generate") is not False,
        )
        is_whole = False
        try:
            async with aclosing(run.events()) as told:
                async for one in told:
                    if one["type"] in _ENDS:
                        is_whole = True
                        self._remember(run)
                    await self._send(one, lane)
        finally:
            run.stop()
        return is_whole

    def _remember(self, run: ResponseRun) -> None:
        plan = run.plan
        if plan.is_stored:
            return
        items: list[HistoryItem] = [*plan.past.items, *plan.input, *run.stream.items]
        sessions = plan.tools.all_sessions(plan.past.sessions)
        self._remembered[plan.id] = Past(items, plan.past.date, is_stored=False, sessions=sessions)
        while len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)

    async def _send(self, event: WireEvent, lane: str | None = None) -> None:
        told = event if lane is None else {**event, "stream_id": lane}
        async with self._sending:
            await self._socket.send_text(readable_json(told))


def _read_event(text: str | bytes) -> Mapping[str, Any]:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the message is no JSON: {error}", code="invalid_json") from None
    kind = event.get("type") if isinstance(event, dict) else None
    if kind not in ("response.create", "response.steer"):
        raise ApiError(
            400,
            f"expected an event of the type response.create, found {kind!r:.80}",
            param="type",
            code="invalid_value",
        )
    return dict(event)


def _lane_of(event: Mapping[str, Any]) -> str | None:
    lane = event.get("stream_id")
    if lane is not None and not isinstance(lane, str):
        raise ApiError(400, "expected text", param="stream_id", code="invalid_value")
    return lane


def _too_many(what: str, remedy: str) -> ApiError:
    return ApiError(
        429,
        f"a connection has at most {what}; {remedy}",
        kind="rate_limit_error",
        code="too_many_requests",
    )


def _error_event(error: Exception) -> WireEvent:
    known = known_error(error)
    return {"type": "error", "status": known.status, "error": known.error_object()}


def _no_steering(event: Mapping[str, Any]) -> WireEvent:
    """Give the input of a client who wants to steer back."""
    return {
        "type": "response.steer.failed",
        "sequence_number": 0,
        "error": {
            "type": "invalid_request_error",
            "code": "steering_not_supported",
            "message": "this model cannot be steered; cancel the response and create another",
        },
        "steer": {
            "id": new_id("steer"),
            "previous_response_id": event.get("previous_response_id"),
            "input": event.get("input"),
        },
    }
