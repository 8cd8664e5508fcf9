"""One response from its plan to its end: its turns, the calls between them, and how it ends.

The work is one coroutine, `ResponseRun._work`, which reads from top to bottom: sample a turn, run
the call that it ends with, sample the next one. It can be cancelled at any `await`; whatever the
cause, `ResponseRun._run` then writes the end, stores it, and only then logs the last event. What
happens outside (the engine, the tools, the store) is behind `Effects`, so that tests play every
order of events without a server.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from ...apis.items import (
    ItemBegun,
    ItemEnded,
    ItemEvent,
    ItemKind,
    ItemText,
    TurnEnded,
    Usage,
)
from ...apis.requested_tools import choice_without
from ...apis.responses.writer import AnsweredCall, ResponseEnd, ResponseWriter, incomplete_details
from ...apis.turn import TurnRequest
from ...apis.wire_events import Event
from ...conversation.messages import Conversation, Message
from ...engines.engine import ContextLengthError
from ..http.errors import ApiError, api_error_of
from ..http.server_sent_events import EventLog
from ..logs import ANSWER_IDS
from ..preparation import PreparedTurn
from ..store import StoreError
from ..tools.mcp import ApprovedCall

_LOG = logging.getLogger(__name__)

_FIRST_EVENT_SECONDS = 1.0  # after which the first event is sent, even without a token
_MAX_REFUSED = 3  # calls beyond the limit, which only a model without a grammar makes
_NO_MORE_CALLS = "no more calls can be made in this response; answer with what you know"


class Effects(Protocol):
    """What a response does outside its own process of events."""

    async def prepare(self, turn: TurnRequest) -> tuple[TurnRequest, PreparedTurn]:
        """Render a turn, which may be truncated; raise `ContextLengthError` without room for it."""

    def sample(
        self, turn: TurnRequest, prepared: PreparedTurn, *, is_first: bool
    ) -> AsyncGenerator[ItemEvent, None]:
        """Sample a prepared turn; closing the generator frees the engine."""

    async def call(self, call: Message, problem: str | None) -> AnsweredCall:
        """Run a call of a tool, or refuse it with a message for the model."""

    async def store(self, end: ResponseEnd) -> bool:
        """Store the end; return False if another server has cancelled or deleted the response."""

    def keep(self, end: ResponseEnd) -> None:
        """Store the end of a response when the database works again."""

    async def discard(self) -> None:
        """Delete the stored beginning of a response that never began for its client."""

    async def close(self, run: ResponseRun) -> None:
        """Let go of everything that the response held."""


@dataclass(frozen=True)
class ResponseRules:
    """What the request says about the course of its response.

    - `turn`: the first turn. `approved`: calls of MCP servers that run before it.
    - `is_announced`: the client reads events, so that a failure becomes one of them.
    - `is_stored`: the end is stored before its event. `is_generated`: False for a response that
      ends before it is sampled.
    - `tools`: the names of the server's tools. `planned_fields`: the fields of the item of a call
      before it runs.
    - `max_tool_calls`: the most calls.
    """

    turn: TurnRequest
    owner: str = ""
    is_announced: bool = True
    is_stored: bool = True
    is_generated: bool = True
    approved: Sequence[ApprovedCall] = ()
    tools: frozenset[str] = frozenset()
    planned_fields: Callable[[Message], Mapping[str, Any]] = lambda call: {}
    max_tool_calls: int = 100


class _Outcome(NamedTuple):
    """How the work has ended."""

    status: str
    details: Mapping[str, Any] | None = None
    error: ApiError | None = None


_NO_ROOM = _Outcome("incomplete", {"reason": "max_output_tokens"})


class _Turn(NamedTuple):
    """A turn that ended with a call of a server's tool, and the tokens that it took."""

    request: TurnRequest
    messages: Sequence[Message]
    tokens: int


class ResponseRun:
    """A response while it runs; `writer` has its items and writes its events, `log` keeps them.

    - The token limit applies to all turns of a response together.
    - The first call fulfils a choice that requires a call.
    - After the last allowed call, the tools cannot be called any more. If no grammar prevents it,
      the model gets a message instead of a result.
    - A failure before the first event fails the request (`error`), as does any failure of a
      request that reads no events. A later failure is an event.
    """

    def __init__(self, writer: ResponseWriter, rules: ResponseRules, effects: Effects) -> None:
        self.writer = writer
        self.log = EventLog()
        self.id = str(writer.response["id"])
        self.owner = rules.owner
        self.is_stored = rules.is_stored
        self.error: ApiError | None = None
        """The error of the request, once the response has ended without its last event."""
        self._rules = rules
        self._effects = effects
        self._usage: Usage | None = None
        self._stop_error: ApiError | None = None
        # Two tasks: work can be cancelled at any time, even before its first step, and then the
        # other one still stores the end.
        self._working = asyncio.ensure_future(self._work())
        self._task = asyncio.ensure_future(self._run())

    @property
    def response(self) -> dict[str, Any]:
        """The current state of the response."""
        response = self.writer.response
        return {**response, "output": list(response["output"])}

    def announce(self) -> None:
        """Log the first events, even without a token."""
        self._write(self.writer.begin())

    def stop(self, error: ApiError | None = None) -> None:
        """Free the engine; the response ends as cancelled, or with an error as failed.

        Does nothing after everything was sampled.
        """
        self._stop_error = error
        self._working.cancel()

    async def ended(self) -> dict[str, Any]:
        """Wait for the end and return the response. Raises `ApiError` if it never began."""
        await self.finished()
        if self.error is not None:
            raise self.error
        return self.response

    async def finished(self) -> None:
        """Wait until the response has ended and is stored."""
        # Unlike `await`, `wait` does not cancel the task if whoever waits here is cancelled.
        await asyncio.wait({self._task})

    # The work, which can be cancelled

    async def _work(self) -> _Outcome:
        """Sample turns, and run the calls that they end with, until the response has ended."""
        rules, writer = self._rules, self.writer
        ids = {"gen_ai.response.id": self.id}
        if conversation := writer.response.get("conversation"):
            ids["gen_ai.conversation.id"] = conversation["id"]
        ANSWER_IDS.set(ids)
        if not rules.is_generated:
            self._usage = Usage()
            return _Outcome("completed")
        turn, approved, calls_left, is_first = (
            rules.turn,
            deque(rules.approved),
            rules.max_tool_calls,
            True,
        )
        while True:
            if approved:
                pending = approved.popleft()
                self._write(writer.leave_queue())
                self._write(writer.begin_approved_call(pending.call, pending.request_id))
                called = _Turn(turn, [pending.call], 0)
            else:
                sampled = await self._sample(turn, is_first)
                if isinstance(sampled, _Outcome):
                    return sampled
                is_first, called = False, sampled
                if calls_left <= -_MAX_REFUSED:
                    return _Outcome("incomplete", {"reason": "max_tool_calls"})
                self._write(writer.run_call())
            calls_left -= 1
            problem = _NO_MORE_CALLS if calls_left < 0 else None
            answered = await self._effects.call(called.messages[-1], problem)
            self._write(writer.end_call(answered))
            following = self._following(called, answered, may_call=calls_left > 0)
            if following is None:
                return _NO_ROOM
            turn = following

    async def _sample(self, turn: TurnRequest, is_first: bool) -> _Turn | _Outcome:
        """Sample a turn; return it if it ended with a call of a server's tool."""
        try:
            turn, prepared = await self._effects.prepare(turn)
        except ContextLengthError:
            return _NO_ROOM
        writer, log = self.writer, self.log
        messages: list[Message] = []
        kind = last_kind = ItemKind.FINAL_ANSWER  # of the open item, and of the last message
        ended: TurnEnded | None = None
        async with aclosing(self._effects.sample(turn, prepared, is_first=is_first)) as events:
            async for event in events:
                if isinstance(event, ItemText):  # by far the most events
                    written = writer.take_text(event)
                    if written is not None:
                        log.add(written)
                elif isinstance(event, ItemBegun):
                    kind = event.kind
                    self._write(writer.take(event))
                elif isinstance(event, ItemEnded):
                    planned = self._rules.planned_fields(event.message) if kind.is_of_server else {}
                    self._write(writer.take(event, planned=planned))
                    if event.is_complete:
                        messages.append(event.message)
                        last_kind = kind
                else:
                    ended = event
        if ended is None:
            return _NO_ROOM
        outcome = self._end_turn(ended, calls=last_kind is ItemKind.SERVER_CALL)
        return outcome or _Turn(turn, messages, ended.usage.output_tokens)

    def _end_turn(self, ended: TurnEnded, *, calls: bool) -> _Outcome | None:
        """Count a turn; return how the response ends, unless the turn `calls` a server's tool."""
        self._write(self.writer.leave_queue())
        if ended.usage != Usage() or self._usage is not None:
            self._usage = (self._usage or Usage()).plus(ended.usage)
        self.writer.add_violations(ended)
        details = incomplete_details(ended.ending)
        if details is not None:
            return _Outcome("incomplete", details)
        return None if calls else _Outcome("completed")

    def _following(
        self, called: _Turn, answered: AnsweredCall, *, may_call: bool
    ) -> TurnRequest | None:
        """Return the turn after a call, which has its result; None without a token for it."""
        turn = called.request
        limit = turn.sampling.max_tokens
        if limit is not None and limit <= called.tokens:
            return None
        choice = turn.later_tool_choice
        if not may_call:
            choice = choice_without(self._rules.tools, choice, sorted(turn.tools))
        messages = [*turn.conversation.messages, *called.messages, *answered.messages]
        remaining = None if limit is None else limit - called.tokens
        return replace(
            turn,
            conversation=Conversation.from_messages(messages),
            tool_choice=choice,
            sampling=replace(turn.sampling, max_tokens=remaining),
        )

    def _write(self, events: Iterable[Event]) -> None:
        for event in events:
            self.log.add(event)

    # The end, which nothing can stop

    async def _run(self) -> None:
        timer = asyncio.get_running_loop().call_later(_FIRST_EVENT_SECONDS, self.announce)
        try:
            # `wait` raises nothing; `_outcome` reads how the work ended.
            await asyncio.wait({self._working})
            timer.cancel()
            outcome = self._outcome()
            self.error = self._error_of_request(outcome)
            if self.error is None:
                await self._end(outcome)
            elif self.is_stored:
                await self._effects.discard()
        finally:
            timer.cancel()
            # If this task is cancelled itself, the work must end with it.
            self._working.cancel()
            await self._effects.close(self)
            self.log.close(self.error)

    def _outcome(self) -> _Outcome:
        """Return how the work has ended, failed, or was cancelled."""
        if self._working.cancelled():
            error = self._stop_error
            return _Outcome("cancelled" if error is None else "failed", error=error)
        failure = self._working.exception()
        if failure is not None:
            return _Outcome("failed", error=api_error_of(failure, "a response"))
        return self._working.result()

    def _error_of_request(self, outcome: _Outcome) -> ApiError | None:
        """Return the error that the request gets instead of a response."""
        if outcome.status == "cancelled" and not self.writer.has_begun:
            return ApiError(499, "the response was cancelled", code="response_cancelled")
        if outcome.error is not None:
            is_event = self._rules.is_announced and self.writer.has_begun
            return None if is_event else outcome.error
        return None

    async def _end(self, outcome: _Outcome) -> None:
        """Close the open item, and log the end; one that is stored is stored before."""
        writer, usage = self.writer, self._usage
        self._write(writer.begin())
        self._write(writer.break_off())
        error = None if outcome.error is None else _error_json(outcome.error)
        end = writer.end(outcome.status, usage, details=outcome.details, error=error)
        if self.is_stored:
            try:
                if not await self._effects.store(end):
                    end = writer.end("cancelled", usage)
            except Exception as failure:  # noqa: BLE001 - it becomes the last event
                is_known = isinstance(failure, StoreError)  # the store has logged its cause
                problem = "the response %s could not be stored"
                _LOG.error(problem, self.id, exc_info=None if is_known else failure)
                problem_of_store = api_error_of(failure, "a response")
                self.error = None if self._rules.is_announced else problem_of_store
                end = writer.end("failed", usage, error=_error_json(problem_of_store))
                self._effects.keep(end)
        # Only now: nobody may read an end that is not stored, or that another one replaces.
        writer.response = end.response
        self.log.add(end.event)


def _error_json(error: ApiError) -> dict[str, Any]:
    """Write an error with one of the few codes of the Response object."""
    code = "server_error"
    if error.code == "server_shutting_down":
        code = error.code
    elif error.status == 429:
        code = "rate_limit_exceeded"
    elif error.status < 500:
        code = "invalid_prompt"
    return {"code": code, "message": error.text}
