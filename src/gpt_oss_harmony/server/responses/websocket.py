"""The Responses API over a WebSocket: one connection, many responses.

A client sends ``response.create`` with the fields of a request, and gets the events of the response
as messages. An unstored response can be continued while the connection is open.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from starlette.websockets import WebSocketState

from ...apis.items import HistoryItem
from ...apis.request_body import read_body
from ...apis.responses.request import ResponsesRequest
from ...apis.wire_events import json_text
from ...conversation.json_field import json_problem
from ..auth.api_keys import AuthenticatedCaller, Caller, current_caller
from ..http.errors import ApiError, api_error_of
from ..http.json import read_json
from ..http.requests import cancel_all, request_too_large
from ..preparation import told_headers
from ..services import Services
from ..store import new_id
from .history import History
from .lifecycle import StartedResponse, start_response

router = APIRouter()

_LOG = logging.getLogger(__name__)

_MAX_REMEMBERED = 16  # responses that are not stored
_MAX_LANES = 16
_MAX_WAITING = 16  # requests of a lane
_MESSAGE_SECONDS = 0.001  # between messages of a key, over all its connections
_SMALL_MESSAGE = 64 * 1024  # read directly: starting a thread would take longer
_OWN_FIELDS = {"type", "stream_id", "generate"}  # of the event; the others are the request's
_Result = TypeVar("_Result")
_ENDS = ("response.completed", "response.incomplete")


@router.websocket("/v1/responses")
async def respond(socket: WebSocket, caller: AuthenticatedCaller) -> None:
    """Answer ``response.create`` events until the client disconnects."""
    services: Services = socket.app.state.services
    with (
        services.sockets.held_by(caller.owner) as take_sockets,
        services.request_bytes.held_by(caller.owner) as take_bytes,
    ):
        take_sockets(1)
        await socket.accept()
        connection = _Connection(socket, services, caller, take_bytes)
        try:
            with suppress(WebSocketDisconnect):
                await connection.read()
        finally:
            await connection.close()


class _Request(NamedTuple):
    """A request that waits in a lane, and the length of its text."""

    event: Mapping[str, Any]
    size: int


class _Connection:
    """A client: its lanes, and its responses that are not stored."""

    def __init__(
        self,
        socket: WebSocket,
        services: Services,
        caller: Caller,
        take_bytes: Callable[[int], None],
    ) -> None:
        self._socket = socket
        self._services = services
        self._caller = caller
        self._take_bytes = take_bytes
        self._pool = services.pools.encoding
        self._sending = asyncio.Lock()
        self._remembered: OrderedDict[str, History] = OrderedDict()
        self._lanes: dict[str | None, deque[_Request]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self) -> None:
        """Read the events of the client, until it disconnects."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            lane: str | None = None
            size = len(message.get("text") or message.get("bytes") or "")
            taken = 0
            try:
                self._take_bytes(size)
                taken = size
                event = await self._in_turn(size, self._read_event, message)
                lane = event.get("stream_id")
                if lane is not None and not isinstance(lane, str):
                    lane = None
                    raise ApiError(400, "expected text", param="stream_id", code="invalid_value")
                if event["type"] == "response.steer":
                    await self._send(_no_steering(event))
                else:
                    self._enqueue(lane, _Request(event, size))
                    taken = 0  # the lane gives them back
            except Exception as error:  # noqa: BLE001 - it is sent to the client
                await self._send(_error_event(error), lane)
            finally:
                self._take_bytes(-taken)
            sockets = self._services.sockets.held(self._caller.owner)
            # The more connections a key has, the slower is each, so that all together are as fast
            # as one.
            await asyncio.sleep(_MESSAGE_SECONDS * sockets)

    async def _in_turn(
        self, size: int, work: Callable[[Mapping[str, Any]], _Result], message: Mapping[str, Any]
    ) -> _Result:
        """Do work with a message: for a large one in a thread, one at a time of each owner."""
        if size <= _SMALL_MESSAGE:
            return work(message)
        owner, turns = self._caller.owner, self._services.large_messages
        await turns.take(owner)
        try:
            return await self._pool.run(owner, work, message)
        finally:
            turns.give_back(owner)

    async def close(self) -> None:
        """End the lanes."""
        await cancel_all(*self._tasks)

    def _read_event(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        text = message.get("text") or message.get("bytes") or ""
        limit = self._services.settings.max_request_bytes
        if len(text) > limit:
            raise request_too_large("message", limit)
        try:
            event = read_json(text)
        except (ValueError, RecursionError) as error:
            problem = f"the message is {json_problem(error)}"
            raise ApiError(400, problem, code="invalid_json") from None
        kind = event.get("type") if isinstance(event, dict) else None
        if kind not in ("response.create", "response.steer"):
            raise ApiError(
                400,
                f"expected an event of the type response.create, found {kind!r:.80}",
                param="type",
                code="invalid_value",
            )
        return dict(event)

    def _enqueue(self, lane: str | None, request: _Request) -> None:
        """Queue a request at the end of its lane."""
        waiting = self._lanes.get(lane)
        if waiting is None:
            if len(self._lanes) >= _MAX_LANES:
                raise _too_many(f"{_MAX_LANES} lanes in use", "open another connection")
            waiting = self._lanes[lane] = deque()
            task = asyncio.create_task(self._work(lane, waiting))
            self._tasks.add(task)
            self._services.live_responses.add_connection(task)
            task.add_done_callback(self._note_end)
        if len(waiting) >= _MAX_WAITING:
            raise _too_many(f"{_MAX_WAITING} requests waiting", "wait for the end of one")
        waiting.append(request)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.debug("a lane ended with its client", exc_info=task.exception())

    async def _work(self, lane: str | None, waiting: deque[_Request]) -> None:
        """Answer the requests of a lane, one after the other."""
        while waiting:
            event, size = waiting.popleft()
            try:
                known = await current_caller(self._socket)  # the key may have been revoked
                async with self._services.limiter.request(known.owner, known.limits) as usage:
                    caller = replace(known, usage=usage)
                    has_ended = await self._respond(caller, event, size, lane)
            except Exception as error:  # noqa: BLE001 - it is sent to the client
                has_ended = False
                await self._send(_error_event(error), lane)
            self._take_bytes(-size)
            if not has_ended:  # the client may have missed the end, so it must not continue it
                self._remembered.pop(str(event.get("previous_response_id")), None)
        del self._lanes[lane]

    async def _respond(
        self, caller: Caller, event: Mapping[str, Any], size: int, lane: str | None
    ) -> bool:
        """Respond to a request; return whether the response ended normally."""
        sent = {name: value for name, value in event.items() if name not in _OWN_FIELDS}
        ignored = self._services.unknown_fields.check(ResponsesRequest, sent, caller.owner)
        request = await self._in_turn(size, partial(read_body, ResponsesRequest), event)
        if request.background:
            problem = "a WebSocket has no background responses; send the request over HTTP"
            raise ApiError(400, problem, param="background", code="unsupported_parameter")
        started = await start_response(
            self._services,
            caller,
            request.model_copy(update={"stream": True}),
            history=self._remembered.get(request.previous_response_id or ""),
            is_generated=event.get("generate") is not False,
        )
        has_ended = False
        # What HTTP says in headers, the first event says.
        told = told_headers(started.plan.prepared, ignored)
        try:
            async with aclosing(started.run.log.batches()) as batches:
                async for name, text in (event async for batch in batches for event in batch):
                    if told:
                        text, told = f'{text[:-1]},"headers":{json_text(told)}}}', {}
                    if name in _ENDS:
                        has_ended = True
                        # Before the event is sent: the client may continue the response as soon as
                        # it reads it.
                        self._remember(started)
                    await self._send_text(text, lane)
        finally:
            started.run.stop()
        return has_ended

    def _remember(self, started: StartedResponse) -> None:
        plan, run = started
        if plan.request.is_stored:
            return
        items: list[HistoryItem] = [*plan.history.items, *plan.input, *run.writer.items]
        sessions = plan.tools.all_sessions(plan.history.sessions)
        history = History(items, plan.history.date, is_stored=False, sessions=sessions)
        self._remembered[plan.id] = history
        while len(self._remembered) > _MAX_REMEMBERED:
            self._remembered.popitem(last=False)

    async def _send(self, event: dict[str, Any], lane: str | None = None) -> None:
        await self._send_text(json_text(event), lane)

    async def _send_text(self, text: str, lane: str | None) -> None:
        """Send the JSON of an event, with its lane."""
        if lane is not None:
            text = f'{text[:-1]},"stream_id":{json_text(lane)}}}'
        async with self._sending:
            if self._socket.application_state is not WebSocketState.CONNECTED:
                raise WebSocketDisconnect(1006)
            await self._socket.send_text(text)


def _too_many(items: str, remedy: str) -> ApiError:
    return ApiError(
        429,
        f"a connection has at most {items}; {remedy}",
        kind="rate_limit_error",
        code="too_many_requests",
    )


def _error_event(error: Exception) -> dict[str, Any]:
    api_error = api_error_of(error, "a response")
    return {"type": "error", "status": api_error.status, "error": api_error.error_object()}


def _no_steering(event: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse to steer a response, and return the client's input."""
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
