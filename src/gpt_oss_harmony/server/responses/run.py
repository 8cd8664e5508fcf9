"""A running response.

A run samples the response, logs its events, stores it, then emits the final event.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, aclosing
from functools import partial
from typing import Any, NamedTuple

from ...apis.items import ItemKind, item_kind, message_text
from ...apis.requests import ReasoningSettings, ResponsesRequest
from ...apis.response_resource import ResponseUsage
from ...apis.turn_request import turn_of_response
from ...conversation.messages import Message
from ...engines.completion import complete
from ...engines.engine import EngineError
from ..generation.events import MessageBegun, MessageEnded, TextAdded, TurnEnded, Usage
from ..http.errors import ApiError, api_error_of
from ..http.event_log import EventLog
from ..http.identifiers import new_id
from ..http.json import json_text
from ..http.server_sent_events import event_of
from ..services import Services
from ..store import NewResponse, StoreError
from .encryption import OwnerCipher
from .history import CURRENT_DATE, new_items
from .live_responses import WireEvent
from .plan import ResponsePlan
from .stream import ResponseStream
from .tool_loop import ApprovedCallBegun, CallAnswered, CallBegun, LoopEnded, LoopEvent, ToolLoop

__all__ = ["ResponseRun", "store_beginning"]

_LOG = logging.getLogger(__name__)

_FIRST_EVENT_SECONDS = 1.0  # after which the first event is sent, even without a token

_SUMMARY_REQUEST = (
    "Summarize the following thoughts in {length}, in the first person. Write the summary alone."
    "\n\n{reasoning}"
)
_SUMMARY_LENGTHS = {
    "concise": "one sentence",
    "auto": "two or three sentences",
    "detailed": "one sentence for each step",
}
_SUMMARISED = 20_000  # characters of reasoning
_SUMMARY_TOKENS = 400

_CANCELLED = ApiError(499, "the response was cancelled", code="response_cancelled")


def store_beginning(services: Services, plan: ResponsePlan) -> None:
    """Store the beginning of a response; this blocks.

    Earlier items that are not stored become part of its input.
    """
    history, response = plan.history, plan.response
    created_at = response["created_at"]
    services.store.responses.begin(
        NewResponse(
            id=plan.id,
            owner=plan.owner,
            created_at=created_at,
            body=_stored_body(plan, response),
            input=new_items(plan.input if history.is_stored else [*history.items, *plan.input]),
            status=response["status"],
            background=plan.is_background,
            expires_at=services.settings.expires_at(created_at),
            previous_response_id=response["previous_response_id"] if history.is_stored else None,
            conversation_id=plan.request.conversation,
        )
    )


def _stored_body(plan: ResponsePlan, response: Mapping[str, Any]) -> dict[str, Any]:
    body = {name: value for name, value in response.items() if name != "output"}
    return {**body, CURRENT_DATE: plan.history.date}


class _Outcome(NamedTuple):
    """The end of a response, before it is stored."""

    status: str
    error: ApiError | None = None
    incomplete_reason: str | None = None


class ResponseRun:
    """A response from its plan to its end.

    A failure before the first event fails the request: nothing is stored, and the caller gets the
    `ApiError`. A later failure ends the response as failed, with an event in its log.
    """

    def __init__(self, services: Services, plan: ResponsePlan) -> None:
        self.plan = plan
        self.stream = ResponseStream(
            plan.response,
            new_id=new_id,
            custom_tools=plan.turn.custom_tools,
            text_tools=plan.turn.tool_texts,
            namespaces={tool.partition(".")[0] for tool in plan.turn.tools},
            built_in_tools=plan.tools.names,
            container_id=plan.tools.container_id,
            opening=plan.compaction,
            listings=plan.listings,
            mcp_names=plan.tools.mcp_names,
            approvals=plan.tools.approvals,
            cited_answer=partial(
                plan.tools.cited_answer, keeps_marks=plan.turn.response_format is not None
            ),
            event_names=services.settings.event_names,
        )
        self._services = services
        self.log = EventLog()
        self._usage: Usage | None = None
        self._error: ApiError | None = None
        self._stop_error: ApiError | None = None
        self._is_announced = plan.is_background or bool(plan.request.stream)
        self._held = ExitStack()
        self._held.enter_context(plan.caller.usage.held())
        if plan.is_background:
            self._begin()
        self._sampling = asyncio.ensure_future(self._sample())
        self._task = asyncio.ensure_future(self._run())

    @property
    def id(self) -> str:
        """The id of the response."""
        return self.plan.id

    @property
    def owner(self) -> str:
        """The owner of the response."""
        return self.plan.owner

    @property
    def is_stored(self) -> bool:
        """True for a response that is stored."""
        return self.plan.is_stored

    @property
    def response(self) -> dict[str, Any]:
        """The current state of the response."""
        return {**self.stream.response, "output": list(self.stream.response["output"])}

    def stop(self, error: ApiError | None = None) -> None:
        """Free the engine; the response ends as cancelled, or with an error as failed.

        Does nothing after everything was sampled.
        """
        self._stop_error = error
        self._sampling.cancel()

    async def ended(self) -> dict[str, Any]:
        """Wait for the end and return the response. Raises `ApiError` if it never began."""
        await self.finished()
        if self._error is not None:
            raise self._error
        return self.response

    async def finished(self) -> None:
        """Wait until the response has ended and is stored."""
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        timer = asyncio.get_running_loop().call_later(_FIRST_EVENT_SECONDS, self._begin)
        try:
            await asyncio.wait({self._sampling})
            timer.cancel()
            await self._end(self._outcome())
        finally:
            timer.cancel()
            self._sampling.cancel()
            self.log.close(self._error)
            self._held.close()
            self._services.live_responses.discard(self)

    async def _sample(self) -> str | None:
        """Sample and log the events; return the reason if the response is incomplete."""
        plan = self.plan
        if not plan.is_generated:
            self._usage = Usage()
            return None
        async with aclosing(ToolLoop(self._services, plan).events()) as events:
            async for event in events:
                if isinstance(event, TextAdded):  # by far the most events
                    written = self.stream.take_text(event)
                    if written is not None:
                        self.log.add(written)
                elif isinstance(event, LoopEnded):
                    return event.incomplete_reason
                else:
                    await self._take(event)
        return None

    async def _take(self, event: LoopEvent) -> None:
        """Log an event of the loop that is not only text."""
        self._begin()
        self._add(self.stream.leave_queue())
        if isinstance(event, TurnEnded):
            self._usage = (self._usage or Usage()).plus(event.usage)
            if event.violations:
                violations = self.stream.response.setdefault("schema_violations", [])
                violations += [violation._asdict() for violation in event.violations]
        elif isinstance(event, CallBegun):
            self._add(self.stream.run_call())
        elif isinstance(event, ApprovedCallBegun):
            self._add(self.stream.begin_approved_call(event.call, event.request_id))
        elif isinstance(event, CallAnswered):
            self._add(self.stream.end_call(event.answered))
        elif isinstance(event, MessageEnded):
            self._add(self.stream.take(event, **await self._item_extras(event.message)))
        elif isinstance(event, MessageBegun):
            self._add(self.stream.take(event))

    async def _item_extras(self, message: Message) -> dict[str, Any]:
        """Return the fields of an item that do not come from its message."""
        tools = self.plan.tools
        kind = item_kind(message.channel, message.recipient, built_in_tools=tools.names)
        if kind.is_built_in:
            return {"planned": tools.planned_fields(message)}
        added: dict[str, Any] = {}
        if kind is ItemKind.REASONING:
            summary = await self._model_summary(message_text(message).strip())
            if summary:
                added["summary"] = [{"type": "summary_text", "text": summary}]
            if self.plan.request.encrypts_reasoning:
                cipher = OwnerCipher(self._services.cipher, self.plan.owner)
                encrypt = self._services.pools.encoding.run
                added["encrypted_content"] = await encrypt(
                    self.owner, cipher.encrypt_reasoning, message
                )
        return {"added": added}

    async def _model_summary(self, reasoning: str) -> str:
        """Let the model summarise its reasoning, in the slot of its turn; empty if it does not.

        In that case, the summary consists of sentences of the reasoning.
        """
        kind = self.plan.request.reasoning_summary
        services = self._services
        if not reasoning or kind is None or services.settings.reasoning_summaries != "model":
            return ""
        question = _SUMMARY_REQUEST.format(
            length=_SUMMARY_LENGTHS[kind], reasoning=reasoning[:_SUMMARISED]
        )
        turn = turn_of_response(
            ResponsesRequest(
                input=question,
                reasoning=ReasoningSettings(effort="low"),
                max_output_tokens=_SUMMARY_TOKENS,
            )
        )
        try:
            completion = await complete(services.engine, turn.conversation, turn.sampling)
        except EngineError:
            _LOG.warning("the reasoning of the response %s has no summary by the model", self.id)
            return ""
        prompt, output = len(completion.prompt), len(completion.tokens)
        self.plan.caller.usage.tokens += prompt + output
        self._usage = (self._usage or Usage()).plus(
            Usage(input_tokens=prompt, output_tokens=output, reasoning_tokens=output)
        )
        answers = [m for m in completion.messages if m.channel == "final" and m.recipient is None]
        return " ".join(message_text(answer).strip() for answer in answers)

    def _begin(self) -> None:
        """Log that the response has begun, unless this was logged."""
        if not self.log.events:
            self._add(self.stream.begin())

    def _add(self, events: Iterable[WireEvent]) -> None:
        for event in events:
            self.log.add(event_of(event, event["type"]))

    def _outcome(self) -> _Outcome:
        """Return the outcome of the response after sampling."""
        sampling = self._sampling
        if sampling.cancelled():
            error = self._stop_error
            return _Outcome("cancelled") if error is None else _Outcome("failed", error)
        failure = sampling.exception()
        if failure is not None:
            return _Outcome("failed", api_error_of(failure, "a response"))
        reason = sampling.result()
        if reason is not None:
            return _Outcome("incomplete", incomplete_reason=reason)
        return _Outcome("completed")

    async def _end(self, outcome: _Outcome) -> None:
        if outcome.error is not None and not (self._is_announced and self.log.events):
            self._error = outcome.error
        elif outcome.status == "cancelled" and not self.log.events:
            self._error = _CANCELLED
        if self._error is not None:
            if self.plan.is_stored:  # no event of it was sent
                delete = self._services.store.responses.delete
                try:
                    pool = self._services.pools.store
                    await pool.run(self.owner, delete, self.plan.id, self.plan.owner)
                except StoreError:
                    problem = "the response %s, which failed, could not be deleted"
                    _LOG.exception(problem, self.plan.id)
            return
        self._begin()
        self._add(self.stream.break_off())
        last = self.stream.end(outcome.status, **self._last_fields(outcome))
        if self.plan.is_stored:
            last = await self._store(last)
        self.stream.response = last["response"]
        self._add([last])

    async def _store(self, last: WireEvent) -> WireEvent:
        """Store the response; return the last event, or an error event if storing failed."""
        plan, response = self.plan, last["response"]
        history = plan.history

        def finish() -> bool:
            return self._services.store.responses.finish(
                plan.id,
                status=response["status"],
                body=_stored_body(plan, response),
                output=new_items(self.stream.items),
                events=[*(event.data for event in self.log.events), json_text(last)],
                completed_at=response["completed_at"],
                sessions=(
                    plan.tools.sessions()
                    if history.is_stored
                    else plan.tools.all_sessions(history.sessions)
                ),
            )

        try:
            if not await self._services.pools.store.run(self.owner, finish):
                # Another server cancelled or deleted it, because this one did not answer.
                outcome = _Outcome("cancelled")
                ended = self.stream.end(outcome.status, **self._last_fields(outcome))
                return {**ended, "sequence_number": last["sequence_number"]}
        except Exception as error:  # noqa: BLE001 - a response that is not stored has failed
            _LOG.exception("the response %s could not be stored", plan.id)
            api_error = api_error_of(error, "a response")
            self._error = None if self._is_announced else api_error
            outcome = _Outcome("failed", api_error)
            failed = self.stream.end(outcome.status, **self._last_fields(outcome))
            return {**failed, "sequence_number": last["sequence_number"]}
        return last

    def _last_fields(self, outcome: _Outcome) -> dict[str, Any]:
        reason, usage = outcome.incomplete_reason, self._usage
        return {
            "completed_at": int(time.time()) if outcome.status == "completed" else None,
            "error": None if outcome.error is None else _error_json(outcome.error),
            "incomplete_details": None if reason is None else {"reason": reason},
            "usage": None if usage is None else ResponseUsage.of(*usage).model_dump(),
        }


def _error_json(error: ApiError) -> dict[str, Any]:
    """Write an error with one of the few codes of the Response object."""
    code = "server_error"
    if error.code == "server_shutting_down":
        code = error.code
    elif error.status == 429:
        code = "rate_limit_exceeded"
    elif error.status < 500:
        code = "invalid_prompt"
    return {"code": code, "message": error.problem}
