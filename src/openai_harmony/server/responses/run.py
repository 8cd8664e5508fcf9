"""One response under way: it samples, tells its log, is kept, and only then tells its end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Any, NamedTuple

from ...apis.item_kind import ItemKind, what_kind
from ...apis.response import ResponseUsage
from ...conversation.messages import Message
from ...errors import HarmonyError
from ..api_error import ApiError
from ..keys.use import key_use
from ..services import Services
from ..store import StoreError
from ..turns.events import MessageBegun, MessageEnded, TextAdded, TurnEnded, Usage
from .log import EventLog, WireEvent
from .plan import ResponsePlan
from .records import finish_record
from .sealing import OwnedSeal
from .stream import ResponseStream
from .tool_loop import CallAnswered, CallBegun, LoopEnded, LoopEvent, ToolLoop

__all__ = ["ResponseRun", "known_error"]

_LOG = logging.getLogger(__name__)

_PATIENCE = 1.0  # seconds without a token, after which the response tells that it has begun


class _Ending(NamedTuple):
    """How a response ends, before it is kept."""

    status: str
    error: ApiError | None = None
    reason: str | None = None  # why it is incomplete


class ResponseRun:
    """A response from its plan to its end.

    What fails before a client was told of the response fails the request: nothing is kept, and
    whoever waits gets the `ApiError`. What fails later fails the response, and the log says so.
    """

    def __init__(
        self,
        services: Services,
        plan: ResponsePlan,
        stream: ResponseStream,
        on_end: Callable[[ResponseRun], None],
    ) -> None:
        self.plan = plan
        self.stream = stream
        self._services = services
        self._on_end = on_end
        self._log = EventLog()
        self._usage: Usage | None = None
        self._error: ApiError | None = None
        self._stopped_by: ApiError | None = None
        self._is_told = plan.is_background or bool(plan.request.stream)
        if plan.is_background:
            self._open()
        self._sampling = asyncio.ensure_future(self._sample())
        self._task = asyncio.ensure_future(self._go())

    @property
    def response(self) -> dict[str, Any]:
        """The response as it is now."""
        return {**self.stream.response, "output": list(self.stream.response["output"])}

    def stop(self, error: ApiError | None = None) -> None:
        """Free the engine; the response ends as cancelled, or as failed where there is an error.

        Does nothing where all was sampled.
        """
        self._stopped_by = error
        self._sampling.cancel()

    async def ended(self) -> dict[str, Any]:
        """Wait for the end, and return the response. Raises `ApiError` where it never began."""
        await self.finished()
        if self._error is not None:
            raise self._error
        return self.response

    async def finished(self) -> None:
        """Wait until all is done."""
        await asyncio.wait({self._task})

    async def events(self, after: int = -1) -> AsyncGenerator[WireEvent, None]:
        """Yield the events after a number. Raises `ApiError` where it never began."""
        async with aclosing(self._log.read(after)) as events:
            async for event in events:
                yield event
        if self._error is not None:
            raise self._error

    async def _go(self) -> None:
        timer = asyncio.get_running_loop().call_later(_PATIENCE, self._open)
        try:
            await asyncio.wait({self._sampling})
            timer.cancel()
            await self._end(self._ending())
        finally:
            timer.cancel()
            self._sampling.cancel()
            self._log.close()
            self._on_end(self)

    async def _sample(self) -> str | None:
        """Sample, and tell what happens; return why the response is incomplete, if it is."""
        plan = self.plan
        if not plan.is_generated:
            self._usage = Usage()
            return None
        with key_use(self._services, plan.caller) as use:
            async with aclosing(ToolLoop(self._services, plan).events(use)) as events:
                async for event in events:
                    if isinstance(event, LoopEnded):
                        return event.reason
                    await self._take(event)
        return None

    async def _take(self, event: LoopEvent) -> None:
        """Tell of an event."""
        if isinstance(event, TextAdded):  # most of them, by far
            self._add(self.stream.take(event))
            return
        self._open()
        self._add(self.stream.go_on())
        if isinstance(event, TurnEnded):
            self._usage = (self._usage or Usage()).plus(event.usage)
        elif isinstance(event, CallBegun):
            self._add(self.stream.run_call())
        elif isinstance(event, CallAnswered):
            self._add(self.stream.end_call(event.answered))
        elif isinstance(event, MessageEnded):
            self._add(self.stream.take(event, **await self._known_of(event.message)))
        elif isinstance(event, MessageBegun):
            self._add(self.stream.take(event))

    async def _known_of(self, message: Message) -> dict[str, Any]:
        """Find what an item shows besides what its message says."""
        tools = self.plan.tools
        kind = what_kind(message.channel, message.recipient, built_in_tools=tools.names)
        if kind.is_built_in:
            return {"planned": tools.planned_fields(message)}
        if kind is ItemKind.REASONING and self.plan.request.seals_reasoning:
            seal = OwnedSeal(self._services.seal, self.plan.owner)
            return {"encrypted": await asyncio.to_thread(seal.seal_reasoning, message)}
        return {}

    def _open(self) -> None:
        """Tell that the response has begun, unless that was done."""
        if not self._log.events:
            self._add(self.stream.begin())

    def _add(self, events: Iterable[WireEvent]) -> None:
        for event in events:
            self._log.add(event)

    def _ending(self) -> _Ending:
        """Say how the response ends, now that no more is sampled."""
        sampling = self._sampling
        if sampling.cancelled():
            error = self._stopped_by
            return _Ending("cancelled") if error is None else _Ending("failed", error)
        failure = sampling.exception()
        if failure is not None:
            return _Ending("failed", known_error(failure))
        reason = sampling.result()
        return _Ending("completed") if reason is None else _Ending("incomplete", reason=reason)

    async def _end(self, ending: _Ending) -> None:
        if ending.error is not None and not (self._is_told and self._log.events):
            self._error = ending.error
        elif ending.status == "cancelled" and not self._log.events:
            self._error = _CANCELLED
        if self._error is not None:
            if self.plan.is_stored:
                await asyncio.to_thread(self._forget)
            return
        self._open()
        self._add(self.stream.break_off())
        last = self.stream.end(ending.status, **self._fields(ending))
        if self.plan.is_stored:
            last = await self._kept(last)
        self.stream.response = last["response"]
        self._log.add(last)

    async def _kept(self, last: WireEvent) -> WireEvent:
        """Keep the response; return the last event, another one where that failed."""
        try:
            await asyncio.to_thread(self._keep, last)
        except Exception as error:  # noqa: BLE001 - what is not kept has not been completed
            _LOG.exception("the response %s could not be kept", self.plan.id)
            known = known_error(error)
            self._error = None if self._is_told else known
            failed = self.stream.end("failed", **self._fields(_Ending("failed", known)))
            return {**failed, "sequence_number": last["sequence_number"]}
        return last

    def _keep(self, last: WireEvent) -> None:
        finish_record(
            self._services,
            self.plan,
            last["response"],
            self.stream.items,
            [*self._log.events, last],
        )

    def _forget(self) -> None:
        """Delete a response that nobody has heard of."""
        try:
            self._services.store.responses.delete(self.plan.id, self.plan.owner)
        except StoreError:
            _LOG.exception("the response %s, which failed, could not be deleted", self.plan.id)

    def _fields(self, ending: _Ending) -> dict[str, Any]:
        usage = self._usage
        return {
            "completed_at": int(time.time()) if ending.status == "completed" else None,
            "error": None if ending.error is None else _error_json(ending.error),
            "incomplete_details": None if ending.reason is None else {"reason": ending.reason},
            "usage": None if usage is None else ResponseUsage.of(*usage).model_dump(),
        }


def known_error(error: BaseException) -> ApiError:
    """Say what a client is told of any error; what is the server's own fault is logged."""
    if isinstance(error, HarmonyError):
        return ApiError.of(error)
    _LOG.error("a response failed", exc_info=error)
    problem = "the server failed; its log says where"
    return ApiError(500, problem, kind="server_error", code="server_error")


def _error_json(error: ApiError) -> dict[str, Any]:
    """Write an error as a response has it, which knows fewer codes."""
    code = "server_error"
    if error.code == "server_shutting_down":
        code = error.code
    elif error.status == 429:
        code = "rate_limit_exceeded"
    elif error.status < 500:
        code = "invalid_prompt"
    return {"code": code, "message": error.problem}


_CANCELLED = ApiError(499, "the response was cancelled", code="response_cancelled")
