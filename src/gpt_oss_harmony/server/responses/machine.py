"""One response as a state machine: what happens goes in, events and commands come out.

`ResponseMachine.take` is the only way in, and `TRANSITIONS` is the whole table: the states, what
may happen in each, the states that may follow, and the commands that the machine may give. The
machine does no I/O and reads no clock; `driver` carries out its commands and reports the results.
At most one command is under way, except that a summary or an encryption is made while the model's
turn is still open.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from ...apis.items import ItemKind, item_kind, message_text
from ...apis.requested_tools import choice_without
from ...apis.response_resource import ResponseUsage
from ...apis.turn_request import TurnRequest
from ...conversation.messages import Conversation, Message
from ..generation.events import (
    MessageBegun,
    MessageEnded,
    RepetitionDetail,
    TextAdded,
    TurnEnded,
    Usage,
    repetition_detail,
)
from ..http.errors import ApiError
from ..http.server_sent_events import Event, event_of
from ..tools.conversation_tools import AnsweredCall
from ..tools.mcp import ApprovedCall
from .stream import ResponseStream, WireEvent

__all__ = [
    "TRANSITIONS",
    "Announced",
    "CallAnswered",
    "Cancelled",
    "Command",
    "Discard",
    "Encrypt",
    "Encrypted",
    "Failed",
    "Input",
    "NoRoom",
    "ResponseMachine",
    "ResponseRules",
    "RunCall",
    "Sample",
    "Started",
    "State",
    "Step",
    "Store",
    "Stored",
    "StoringFailed",
    "Summarise",
    "Summarised",
    "Transition",
    "TurnPrepared",
]

_MAX_REFUSED = 3  # calls beyond the limit, which only a model without a grammar makes


class State(Enum):
    """What a response waits for."""

    PLANNED = "the start"
    SAMPLING = "the model"
    COMPLETING = "the summary or the encrypted text of reasoning"
    CALLING = "a tool of the server"
    STORING = "the store"
    ENDED = "nothing"


# Inputs, beside the events of a turn


class Started(NamedTuple):
    """The response may begin to run."""


class Announced(NamedTuple):
    """The client waits for the first event, even without a token."""


class TurnPrepared(NamedTuple):
    """The turn of the last `Sample` has a prompt, for which `turn` may have been truncated."""

    turn: TurnRequest


class NoRoom(NamedTuple):
    """The turn of the last `Sample` has no room for a token."""


class Summarised(NamedTuple):
    """The model's summary of its reasoning, empty if it made none, and its tokens."""

    summary: str
    usage: Usage = Usage()


class Encrypted(NamedTuple):
    """The reasoning as text that only this server can read."""

    text: str


class CallAnswered(NamedTuple):
    """The result of the call of the last `RunCall`."""

    answered: AnsweredCall


class Stored(NamedTuple):
    """The end was stored; not `is_kept` if another server cancelled or deleted the response."""

    is_kept: bool = True


class StoringFailed(NamedTuple):
    """The end could not be stored."""

    error: ApiError


class Cancelled(NamedTuple):
    """The client cancelled the response, or has gone."""


class Failed(NamedTuple):
    """The engine, a bug or the end of the server ends the response."""

    error: ApiError


Input: TypeAlias = (
    "Started | Announced | TurnPrepared | NoRoom | MessageBegun | TextAdded | MessageEnded | "
    "TurnEnded | Summarised | Encrypted | CallAnswered | Stored | StoringFailed | Cancelled | "
    "Failed"
)


# Commands


class Sample(NamedTuple):
    """Prepare the turn and sample it; report `TurnPrepared` and its events, or `NoRoom`."""

    turn: TurnRequest
    is_first: bool


class Summarise(NamedTuple):
    """Let the model summarise its reasoning; report `Summarised`."""

    reasoning: str
    kind: str


class Encrypt(NamedTuple):
    """Encrypt a message of reasoning; report `Encrypted`."""

    message: Message


class RunCall(NamedTuple):
    """Run a call, or refuse it with a message for the model; report `CallAnswered`."""

    call: Message
    problem: str | None = None


class Store(NamedTuple):
    """Store the response as it ended, with its last event; report `Stored` or `StoringFailed`."""

    response: Mapping[str, Any]
    last: Event


class Discard(NamedTuple):
    """Delete the stored beginning: no event was sent, and the request fails."""


Command: TypeAlias = "Sample | Summarise | Encrypt | RunCall | Store | Discard"


class Step(NamedTuple):
    """The events that an input causes, and the command to carry out next, if there is one."""

    events: list[Event]
    command: Command | None = None


# The table


class Transition(NamedTuple):
    """The method that takes the input; the states and the commands that may follow."""

    method: str
    states: tuple[State, ...]
    commands: tuple[type[Command], ...] = ()


_P, _S, _X, _C, _W, _E = State
_FINISHES = (_W, _E)
_RUNNING = (_P, _S, _X, _C)
_ANNOUNCED: dict[tuple[State, type[Input]], Transition] = {
    (state, Announced): Transition("_announce", (state,)) for state in _RUNNING
}
_BROKEN_OFF: dict[tuple[State, type[Input]], Transition] = {
    (state, kind): Transition(method, _FINISHES, (Store, Discard))
    for state in _RUNNING
    for kind, method in ((Cancelled, "_cancel"), (Failed, "_fail"))
}
_TOO_LATE: dict[tuple[State, type[Input]], Transition] = {
    (state, kind): Transition("_ignore", (state,))
    for state in _FINISHES
    for kind in (Announced, Cancelled, Failed)
}
TRANSITIONS: Mapping[tuple[State, type[Input]], Transition] = {
    (_P, Started): Transition("_start", (_S, _C, *_FINISHES), (Sample, RunCall, Store)),
    (_S, TurnPrepared): Transition("_prepare", (_S,)),
    (_S, NoRoom): Transition("_run_out", _FINISHES, (Store,)),
    (_S, MessageBegun): Transition("_begin_message", (_S,)),
    (_S, TextAdded): Transition("_add_text", (_S,)),
    (_S, MessageEnded): Transition("_end_message", (_S, _X), (Summarise, Encrypt)),
    (_S, TurnEnded): Transition("_end_turn", (_C, *_FINISHES), (RunCall, Store)),
    (_X, Summarised): Transition("_summarise", (_S, _X), (Encrypt,)),
    (_X, Encrypted): Transition("_encrypt", (_S,)),
    (_C, CallAnswered): Transition("_end_call", (_S, _C, *_FINISHES), (Sample, RunCall, Store)),
    (_W, Stored): Transition("_note_stored", (_E,)),
    (_W, StoringFailed): Transition("_fail_storing", (_E,)),
    **_ANNOUNCED,
    **_BROKEN_OFF,
    **_TOO_LATE,
}
"""What each input does in each state; every other pair is a bug of the caller."""


def _no_fields(call: Message) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class ResponseRules:
    """The decisions of a request that the machine needs.

    - `turn`: the first turn. `approved`: calls of MCP servers that run before it.
    - `is_announced`: the client reads events, so that a failure becomes one of them.
    - `is_stored`: the end is stored before its event. `is_generated`: False for a response that
      ends before it is sampled.
    - `tools`: the names of the server's tools. `approvals`: the recipients whose calls need one.
      `planned_fields`: the fields of the item of a call before it runs.
    - `max_tool_calls`: the most calls. `summary`: how long the model's summaries of its reasoning
      are, None for none. `encrypts`: reasoning gets its encrypted text.
    - `now`: the time, in seconds since 1970.
    """

    turn: TurnRequest
    now: Callable[[], int]
    is_announced: bool = True
    is_stored: bool = True
    is_generated: bool = True
    approved: Sequence[ApprovedCall] = ()
    tools: frozenset[str] = frozenset()
    approvals: Collection[str] = ()
    planned_fields: Callable[[Message], Mapping[str, Any]] = _no_fields
    max_tool_calls: int = 100
    summary: str | None = None
    encrypts: bool = False


@dataclass
class _Reasoning:
    """A message of reasoning that has ended, and the fields that its item waits for."""

    ended: MessageEnded
    added: dict[str, Any] = field(default_factory=dict)


class ResponseMachine:
    """One response, from its plan to its end; `stream` writes its events and items.

    - The token limit applies to all turns of a response together.
    - The first call fulfils a choice that requires a call.
    - After the last allowed call, the tools cannot be called any more. If no grammar prevents it,
      the model gets a message instead of a result.
    - A failure before the first event fails the request (`error`), as does any failure of a
      request that reads no events. A later failure is an event.
    """

    def __init__(self, stream: ResponseStream, rules: ResponseRules) -> None:
        self.state = State.PLANNED
        self.error: ApiError | None = None
        """The error of the request, once the response has ended without its last event."""
        self.stream = stream
        self._rules = rules
        self._turn = rules.turn
        self._approved = list(rules.approved)
        self._calls_left = rules.max_tool_calls
        self._messages: list[Message] = []  # of the turn so far
        self._tokens = 0  # that the last turn has sampled
        self._reasoning: _Reasoning | None = None
        self._usage: Usage | None = None
        self._has_begun = False
        self._is_first = True
        self._detail: RepetitionDetail = {}
        self._last: WireEvent = {}

    def take(self, happened: Input) -> Step:
        """Take an input; raise `ValueError` for one that cannot happen in this state."""
        transition = TRANSITIONS.get((self.state, type(happened)))
        if transition is None:
            raise ValueError(f"{type(happened).__name__} cannot happen in {self.state}")
        step: Step = getattr(self, transition.method)(happened)
        return step

    def take_text(self, added: TextAdded) -> Event | None:
        """Do what `take` does for a text; most inputs are texts, so this is short."""
        return self.stream.take_text(added)

    # Before the end

    def _announce(self, _: Announced) -> Step:
        return Step(self._begun())

    def _start(self, _: Started) -> Step:
        if not self._rules.is_generated:
            self._usage = Usage()
            return self._finish("completed")
        if self._approved:
            return self._run_approved(self._running())
        return self._sample([])

    def _sample(self, events: list[Event]) -> Step:
        self.state = State.SAMPLING
        self._messages = []
        is_first, self._is_first = self._is_first, False
        return Step(events, Sample(self._turn, is_first))

    def _prepare(self, prepared: TurnPrepared) -> Step:
        self._turn = prepared.turn
        return Step([])

    def _run_out(self, _: NoRoom) -> Step:
        return self._finish("incomplete", reason="max_output_tokens")

    def _begin_message(self, begun: MessageBegun) -> Step:
        return Step(self._running() + _written(self.stream.take(begun)))

    def _add_text(self, added: TextAdded) -> Step:
        written = self.take_text(added)
        return Step([] if written is None else [written])

    def _end_message(self, ended: MessageEnded) -> Step:
        message, rules = ended.message, self._rules
        if ended.is_complete:
            self._messages.append(message)
        kind = self._kind(message)
        if kind is ItemKind.REASONING and (rules.summary or rules.encrypts):
            self._reasoning = _Reasoning(ended)
            self.state = State.COMPLETING
            reasoning = message_text(message).strip()
            if rules.summary and reasoning:
                return Step([], Summarise(reasoning, rules.summary))
            return self._completed_reasoning()
        planned = rules.planned_fields(message) if kind.is_of_server else None
        return Step(_written(self.stream.take(ended, planned=planned)))

    def _summarise(self, made: Summarised) -> Step:
        reasoning = self._open_reasoning()
        self._count(made.usage)
        if made.summary:
            reasoning.added["summary"] = [{"type": "summary_text", "text": made.summary}]
        return self._completed_reasoning()

    def _completed_reasoning(self) -> Step:
        """Encrypt the reasoning if its item waits for that, or end its item."""
        reasoning = self._open_reasoning()
        if self._rules.encrypts and "encrypted_content" not in reasoning.added:
            return Step([], Encrypt(reasoning.ended.message))
        self._reasoning = None
        self.state = State.SAMPLING
        return Step(_written(self.stream.take(reasoning.ended, added=reasoning.added)))

    def _encrypt(self, encrypted: Encrypted) -> Step:
        self._open_reasoning().added["encrypted_content"] = encrypted.text
        return self._completed_reasoning()

    def _open_reasoning(self) -> _Reasoning:
        if self._reasoning is None:
            raise ValueError("no reasoning waits for its summary or its encrypted text")
        return self._reasoning

    def _end_turn(self, ended: TurnEnded) -> Step:
        events = self._running()
        self._count(ended.usage)
        self._tokens = ended.usage.output_tokens
        if ended.violations:
            violations = self.stream.response.setdefault("schema_violations", [])
            violations += [violation._asdict() for violation in ended.violations]
        if ended.ending.is_early:
            self._detail = repetition_detail(ended.ending)
            return self._finish("incomplete", reason="max_output_tokens", events=events)
        call = self._messages[-1] if self._messages else None
        if call is None or not self._kind(call).is_of_server:
            return self._finish("completed", events=events)
        if call.recipient in self._rules.approvals:
            return self._finish("completed", events=events)
        if self._calls_left <= -_MAX_REFUSED:
            return self._finish("incomplete", reason="max_tool_calls", events=events)
        return self._call(call, events + _written(self.stream.run_call()))

    def _run_approved(self, events: list[Event]) -> Step:
        approved = self._approved.pop(0)
        begun = self.stream.begin_approved_call(approved.call, approved.request_id)
        self._messages = [approved.call]
        self._tokens = 0
        return self._call(approved.call, events + _written(begun))

    def _call(self, call: Message, events: list[Event]) -> Step:
        self.state = State.CALLING
        self._calls_left -= 1
        problem = "no more calls can be made in this response; answer with what you know"
        return Step(events, RunCall(call, problem if self._calls_left < 0 else None))

    def _end_call(self, happened: CallAnswered) -> Step:
        """Continue after a call: with the next approved one, or with a turn that has its result."""
        answered = happened.answered
        events = _written(self.stream.end_call(answered))
        turn = self._turn
        choice = turn.later_tool_choice
        if self._calls_left <= 0:
            choice = choice_without(self._rules.tools, choice, sorted(turn.tools))
        limit = turn.sampling.max_tokens
        if limit is not None and limit <= self._tokens:
            return self._finish("incomplete", reason="max_output_tokens", events=events)
        remaining = None if limit is None else limit - self._tokens
        messages = [*turn.conversation.messages, *self._messages, *answered.messages]
        self._turn = replace(
            turn,
            conversation=Conversation.from_messages(messages),
            tool_choice=choice,
            sampling=replace(turn.sampling, max_tokens=remaining),
        )
        return self._run_approved(events) if self._approved else self._sample(events)

    # The end

    def _cancel(self, _: Cancelled) -> Step:
        if not self._has_begun:
            problem = "the response was cancelled"
            return self._discard(ApiError(499, problem, code="response_cancelled"))
        return self._finish("cancelled")

    def _fail(self, failed: Failed) -> Step:
        if not (self._rules.is_announced and self._has_begun):
            return self._discard(failed.error)
        return self._finish("failed", error=failed.error)

    def _discard(self, error: ApiError) -> Step:
        self.error = error
        self.state = State.ENDED
        return Step([], Discard() if self._rules.is_stored else None)

    def _finish(
        self,
        status: str,
        *,
        error: ApiError | None = None,
        reason: str | None = None,
        events: Iterable[Event] = (),
    ) -> Step:
        """End the open item and the response; store it before its last event."""
        events = [*events, *self._begun(), *_written(self.stream.break_off())]
        self._last = self.stream.end(status, **self._last_fields(status, error, reason))
        if not self._rules.is_stored:
            return self._end(events)
        self.state = State.STORING
        return Step(events, Store(self._last["response"], _event(self._last)))

    def _note_stored(self, stored: Stored) -> Step:
        if not stored.is_kept:
            self._replace_last("cancelled", None)
        return self._end([])

    def _fail_storing(self, failed: StoringFailed) -> Step:
        self.error = None if self._rules.is_announced else failed.error
        self._replace_last("failed", failed.error)
        return self._end([])

    def _replace_last(self, status: str, error: ApiError | None) -> None:
        number = self._last["sequence_number"]
        ended = self.stream.end(status, **self._last_fields(status, error, None))
        self._last = {**ended, "sequence_number": number}

    def _end(self, events: list[Event]) -> Step:
        self.state = State.ENDED
        self.stream.response = self._last["response"]
        return Step([*events, _event(self._last)])

    def _ignore(self, _: Input) -> Step:
        return Step([])

    def _last_fields(
        self, status: str, error: ApiError | None, reason: str | None
    ) -> dict[str, Any]:
        usage = self._usage
        details = None if reason is None else {"reason": reason, **self._detail}
        return {
            "completed_at": self._rules.now() if status == "completed" else None,
            "error": None if error is None else _error_json(error),
            "incomplete_details": details,
            "usage": None if usage is None else ResponseUsage.of(*usage).model_dump(),
        }

    # What several of them need

    def _begun(self) -> list[Event]:
        """Write the first events, unless they were written."""
        if self._has_begun:
            return []
        self._has_begun = True
        return _written(self.stream.begin())

    def _running(self) -> list[Event]:
        """Write the first events and that the response is in progress, unless they were written."""
        return self._begun() + _written(self.stream.leave_queue())

    def _kind(self, message: Message) -> ItemKind:
        return item_kind(
            message.channel,
            message.recipient,
            custom_tools=self._turn.custom_tools,
            built_in_tools=self._rules.tools,
        )

    def _count(self, usage: Usage) -> None:
        if usage != Usage() or self._usage is not None:
            self._usage = (self._usage or Usage()).plus(usage)


def _event(event: WireEvent) -> Event:
    return event_of(event, event["type"])


def _written(events: Iterable[WireEvent]) -> list[Event]:
    return [_event(event) for event in events]


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
