"""The course of a response with a played model, tools and store: every item, ended in every way.

`tests/data/response-events.txt` has the exact events of each case. To see what a change does to
them, run this module as a program: it prints the new file.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import Message, Role
from gpt_oss_harmony.apis import ResponsesRequest, response_of, turn_of_response
from gpt_oss_harmony.apis.items import (
    Ending,
    ItemEnded,
    ItemEvent,
    ItemRules,
    TurnEnded,
    Usage,
)
from gpt_oss_harmony.apis.reader import item_events
from gpt_oss_harmony.apis.responses.writer import AnsweredCall, ResponseEnd, ResponseWriter
from gpt_oss_harmony.apis.turn import TurnRequest
from gpt_oss_harmony.conversation.built_in_tools import BUILT_IN_TOOLS, call_item
from gpt_oss_harmony.engines import ContextLengthError, Sampling
from gpt_oss_harmony.server.http.errors import ApiError
from gpt_oss_harmony.server.preparation import PreparedTurn
from gpt_oss_harmony.server.responses.run import ResponseRules, ResponseRun
from gpt_oss_harmony.server.tools.mcp import ApprovedCall
from support.examples import examples
from support.responses_server import EVENT, NOW, RUN, checked_response, fields_of

EVENTS = Path(__file__).parent.parent / "data" / "response-events.txt"

REQUEST = ResponsesRequest(input="hi", tools=[NOW, RUN])
TURN = turn_of_response(REQUEST)
TOOLS = frozenset(["browser", "python", "host"])
USAGE = Usage(10, 0, 5, 1)
LISTING: dict[str, Any] = {
    "type": "mcp_list_tools",
    "server_label": "host",
    "tools": [],
    "error": None,
}
BUG = ApiError(500, "the server failed; see its log", code="server_error")


@dataclass(frozen=True)
class Kind:
    """A message of the model, and what its item needs."""

    channel: str
    recipient: str | None
    text: str
    writer: dict[str, Any] = field(default_factory=dict)

    @property
    def message(self) -> Message:
        said = Message.from_role_and_content(Role.ASSISTANT, self.text).with_channel(self.channel)
        said.recipient = self.recipient
        return said


KINDS = {
    "reasoning": Kind("analysis", None, "Hm. Hm."),
    "reasoning, encrypted": Kind("analysis", None, "Hm. Hm.", {"seal": lambda _: "secret"}),
    "commentary": Kind("commentary", None, "I look."),
    "final answer": Kind("final", None, "Hello."),
    "function call": Kind("commentary", "functions.now", "{}"),
    "function call without text": Kind("commentary", "functions.now", ""),
    "custom tool call": Kind("commentary", "functions.run", '{"input": "a"}'),
    "web search call": Kind("analysis", "browser.search", '{"query": "a"}'),
    "code interpreter call": Kind("analysis", "python", "1 + 1"),
    "mcp call": Kind("commentary", "host.get_time", "{}"),
    "mcp call that needs an approval": Kind("commentary", "host.ask", "{}"),
}


def test_each_built_in_tool_is_called() -> None:
    called = {call_item(kind.recipient).type for kind in KINDS.values() if kind.recipient}
    assert {tool.item.type for tool in BUILT_IN_TOOLS.values()} <= called, "add its call to KINDS"


SERVER_TOOLS = ("web search call", "code interpreter call", "mcp call")


class Started(NamedTuple):
    """The response runs."""


class Announced(NamedTuple):
    """The client waits for the first event."""


class NoRoom(NamedTuple):
    """The engine ends the turn without a reason."""


class Cancelled(NamedTuple):
    """The client has gone, or cancels."""


class Failed(NamedTuple):
    """The server ends the response."""

    error: ApiError


class Broken(NamedTuple):
    """The engine fails."""


class Stored(NamedTuple):
    """The store has the end, unless another server has cancelled the response."""

    is_kept: bool = True


class StoringFailed(NamedTuple):
    """The store fails."""


class Call(NamedTuple):
    """A call that was run or refused."""

    call: Message
    problem: str | None


class Play:
    """A response, and whatever happens to it; it is the `Effects` of its run."""

    def __init__(self, rules: dict[str, Any] | None = None, **writer: Any) -> None:
        numbers = itertools.count()
        body = response_of(REQUEST, id="resp_1", created_at=0, model="script").to_dict()
        if writer.pop("is_queued", False):
            body["status"] = "queued"
        self.turns: list[tuple[TurnRequest, bool]] = []
        self.calls: list[Call] = []
        self.stored: list[ResponseEnd] = []
        self.kept: list[ResponseEnd] = []
        self.is_discarded = self.is_closed = False
        self.has_room = True
        self._loop = asyncio.new_event_loop()
        self._model: asyncio.Queue[Any] = asyncio.Queue()
        self._results: asyncio.Queue[AnsweredCall] = asyncio.Queue()
        self._stores: asyncio.Queue[Stored | StoringFailed] = asyncio.Queue()

        async def run() -> ResponseRun:
            made = ResponseWriter(
                body, new_id=lambda prefix: f"{prefix}_{next(numbers)}", now=lambda: 1, **writer
            )
            known = replace(ResponseRules(TURN, tools=TOOLS), **(rules or {}))
            return ResponseRun(made, known, self)

        self.run = self._loop.run_until_complete(run())

    # What the run does

    async def prepare(self, turn: TurnRequest) -> tuple[TurnRequest, PreparedTurn]:
        if not self.has_room:
            raise ContextLengthError(1, 1)
        return turn, PreparedTurn([], Sampling())

    async def sample(
        self, turn: TurnRequest, prepared: PreparedTurn, *, is_first: bool
    ) -> AsyncGenerator[ItemEvent, None]:
        self.turns.append((turn, is_first))
        while not isinstance(event := await self._model.get(), NoRoom):
            if isinstance(event, Broken):
                raise BUG
            yield event
            if isinstance(event, TurnEnded):
                return

    async def call(self, call: Message, problem: str | None) -> AnsweredCall:
        self.calls.append(Call(call, problem))
        return await self._results.get()

    async def store(self, end: ResponseEnd) -> bool:
        self.stored.append(end)
        outcome = await self._stores.get()
        if isinstance(outcome, StoringFailed):
            raise BUG
        return outcome.is_kept

    def keep(self, end: ResponseEnd) -> None:
        self.kept.append(end)

    async def discard(self) -> None:
        self.is_discarded = True

    async def close(self, run: ResponseRun) -> None:
        self.is_closed = True

    # What happens

    def take(self, *happened: Any) -> Play:
        for one in happened:
            if isinstance(one, Announced):
                self.run.announce()
                continue
            if isinstance(one, (Cancelled, Failed)):
                self.run.stop(one.error if isinstance(one, Failed) else None)
            elif isinstance(one, (Stored, StoringFailed)):
                self._stores.put_nowait(one)
            elif isinstance(one, AnsweredCall):
                self._results.put_nowait(one)
            elif not isinstance(one, Started):
                self._model.put_nowait(one)
            self._settle()
        return self

    def _settle(self) -> None:
        async def settle() -> None:
            for _ in range(12):
                await asyncio.sleep(0)

        self._loop.run_until_complete(settle())

    def answer(self, kind: Kind, *, is_complete: bool = True) -> None:
        """Let the model say it."""
        self.take(*item_events([kind.message], RULES, str, is_cut=not is_complete))

    def finish(self) -> Play:
        """End the response, however often that takes."""
        self.take(Stored())
        self._loop.run_until_complete(asyncio.wait_for(self.run.finished(), 10))
        self._loop.close()
        assert self.is_closed
        return self

    @property
    def events(self) -> list[dict[str, Any]]:
        return fields_of(self.run.log.events)

    @property
    def line(self) -> str:
        return ", ".join(event["type"].removeprefix("response.") for event in self.events)


RULES = ItemRules(custom_tools={"functions.run"}, server_tools=TOOLS, approvals={"host.ask"})
STOPPED = TurnEnded(Ending.ANSWER, USAGE)
CUT = TurnEnded(Ending.LIMIT, USAGE)
DONE = AnsweredCall((), "completed", {})
TOOL_FAILED = AnsweredCall((), "failed", {})
REFUSED = AnsweredCall((), "incomplete", {})


def finished(kind: Kind, *, answered: AnsweredCall = DONE, **rules: Any) -> Play:
    play = Play(rules, **kind.writer).take(Started())
    play.answer(kind)
    play.take(STOPPED)
    if play.calls:
        play.take(answered, STOPPED)
    return play.finish()


def broken(kind: Kind, end: Any) -> Play:
    play = Play(**kind.writer).take(Started())
    for event in item_events([kind.message], RULES, str, is_cut=True):
        if not isinstance(event, ItemEnded):
            play.take(event)
    return play.take(end).finish()


def broken_while_running(kind: Kind, end: Any) -> Play:
    play = Play(**kind.writer).take(Started())
    play.answer(kind)
    return play.take(STOPPED, end).finish()


def cases() -> Iterator[tuple[str, Play]]:
    for name, kind in KINDS.items():
        yield f"{name}: whole", finished(kind)
        play = Play(**kind.writer).take(Started())
        play.answer(kind, is_complete=False)
        yield f"{name}: cut", play.take(CUT).finish()
        yield f"{name}: cancelled", broken(kind, Cancelled())
        yield f"{name}: failed", broken(kind, Failed(BUG))
    for name in SERVER_TOOLS:
        kind = KINDS[name]
        yield f"{name}: tool error", finished(kind, answered=TOOL_FAILED)
        yield f"{name}: beyond the limit", finished(kind, answered=REFUSED, max_tool_calls=0)
        yield f"{name}: cancelled while it runs", broken_while_running(kind, Cancelled())
        yield f"{name}: failed while it runs", broken_while_running(kind, Failed(BUG))
    approved = {"approved": [ApprovedCall(KINDS["mcp call"].message, "mcpr_1")]}
    for name, end in (
        ("approved", DONE),
        ("approved, tool error", TOOL_FAILED),
        ("approved, cancelled while it runs", Cancelled()),
        ("approved, failed while it runs", Failed(BUG)),
    ):
        play = Play(approved).take(Started(), end)
        if play.turns:
            play.answer(KINDS["final answer"])
            play.take(STOPPED)
        yield f"mcp call: {name}", play.finish()
    play = Play(listings=[LISTING]).take(Started())
    play.answer(KINDS["final answer"])
    yield "mcp listing: whole", play.take(STOPPED).finish()
    for name, ends in (
        ("cancelled at another server", [STOPPED, Stored(is_kept=False)]),
        ("not stored", [STOPPED, StoringFailed()]),
        ("cancelled too late", [STOPPED, Cancelled(), Stored(), Cancelled(), Failed(BUG)]),
        ("failed too late", [STOPPED, Failed(BUG), Announced(), Stored(), Announced()]),
        ("no room for the turn", [NoRoom()]),
    ):
        play = Play().take(Announced(), Started(), Announced())
        play.answer(KINDS["final answer"])
        yield f"response: {name}", play.take(*ends).finish()
    play = Play(is_queued=True).take(Announced(), Started())
    play.answer(KINDS["final answer"])
    yield "response: queued", play.take(STOPPED).finish()
    for name, end in (("cancelled", Cancelled()), ("failed", Failed(BUG))):
        yield f"response: {name} before it starts", Play().take(Announced(), end).finish()
    play = Play().take(Started())
    play.answer(KINDS["code interpreter call"])
    play.take(STOPPED, Announced())
    play.has_room = False
    yield "response: no room after a call", play.take(DONE).finish()
    yield "response: not generated", Play({"is_generated": False}).take(Started()).finish()


CASES = dict(cases())


def table() -> str:
    return "".join(f"{name}\n    {play.line}\n" for name, play in CASES.items())


@pytest.mark.parametrize("name", CASES)
def test_the_events_of_every_item_and_every_end(name: str) -> None:
    lines = EVENTS.read_text(encoding="utf-8").splitlines()
    written = dict(zip(lines[::2], lines[1::2], strict=True))
    play = CASES[name]
    assert play.line == written[name].strip()
    assert len(written) == len(CASES)
    check(play)


def check(play: Play) -> None:
    """Check what holds for every response that has begun."""
    for number, event in enumerate(play.events):
        assert event["sequence_number"] == number
        EVENT.validate_python(event)
    response = checked_response(play.events[-1]["response"])
    assert response == play.run.response
    assert response["output"] == [item.item for item in play.run.writer.items]
    assert play.run.log.is_closed


@pytest.mark.parametrize("end", [Cancelled(), Failed(BUG), Broken()])
@pytest.mark.parametrize("is_stored", [True, False])
def test_an_end_before_the_first_event_fails_the_request(end: Any, is_stored: bool) -> None:
    play = Play({"is_stored": is_stored}).take(Started(), end).finish()
    assert play.events == []
    assert play.run.error is not None
    assert play.is_discarded is is_stored
    assert not play.stored


@pytest.mark.parametrize("end", [Failed(BUG), Broken(), StoringFailed()])
def test_a_request_that_reads_no_events_gets_the_error_itself(end: Any) -> None:
    play = Play({"is_announced": False}).take(Started())
    play.answer(KINDS["final answer"])
    play.take(*([STOPPED] if isinstance(end, StoringFailed) else []), end).finish()
    assert play.run.error is not None
    assert play.run.error.status == BUG.status


def test_what_is_not_stored_ends_at_once() -> None:
    play = Play({"is_stored": False}).take(Started())
    play.answer(KINDS["final answer"])
    play.take(STOPPED).finish()
    assert not play.stored
    assert not play.is_discarded
    assert play.run.response["status"] == "completed"


def test_the_end_is_stored_before_its_event() -> None:
    play = Play().take(Started())
    play.answer(KINDS["final answer"])
    play.take(STOPPED)
    (end,) = play.stored
    assert end.response["status"] == "completed"
    assert play.run.response["status"] == "in_progress"
    assert play.events[-1]["type"] == "response.output_item.done"
    assert play.finish().events[-1]["type"] == "response.completed"


def test_the_limit_of_tokens_is_for_all_turns_together() -> None:
    turn = replace(TURN, sampling=replace(TURN.sampling, max_tokens=8))
    kind = KINDS["code interpreter call"]
    play = Play({"turn": turn}).take(Started())
    play.answer(kind)
    play.take(STOPPED, DONE)
    sampled, is_first = play.turns[-1]
    assert (sampled.sampling.max_tokens, is_first) == (3, False)
    play.answer(kind)
    play.take(STOPPED, DONE)
    assert play.events[-1]["type"] == "response.output_item.done"
    (end,) = play.stored
    assert end.response["incomplete_details"] == {"reason": "max_output_tokens"}
    play.finish()


def test_a_model_that_never_stops_calling_is_ended() -> None:
    play = Play({"max_tool_calls": 1}).take(Started())
    while not play.stored:
        play.answer(KINDS["mcp call"])
        play.take(STOPPED)
        if not play.stored:
            play.take(DONE)
    play.finish()
    assert [call.problem is not None for call in play.calls] == [False, True, True, True]
    assert play.events[-1]["response"]["incomplete_details"] == {"reason": "max_tool_calls"}


# The law: whatever happens, and whenever, a response ends once, and its events fit together

SPEECH = st.sampled_from([*KINDS])
ENDS = st.sampled_from([Cancelled(), Failed(BUG), Broken(), NoRoom()])
STORES = st.sampled_from([Stored(), Stored(is_kept=False), StoringFailed()])


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(SPEECH, max_size=4), st.integers(0, 14), ENDS, STORES, st.booleans())
def test_a_response_ends_once_whenever_it_is_ended(
    kinds: list[str], steps: int, end: Any, stored: Any, is_stored: bool
) -> None:
    said: list[Any] = [Started()]
    for name in kinds:
        said += item_events([KINDS[name].message], RULES, str)
        if name in SERVER_TOOLS:
            said += [STOPPED, DONE]
    said.append(STOPPED)
    play = Play({"is_stored": is_stored}).take(*said[:steps], end)
    if not play.stored:  # the engine was not asked when it was to fail
        play.take(Cancelled())
    play.take(stored).finish()
    assert len(play.stored) <= 1
    assert [end.response["status"] for end in play.kept] in ([], ["failed"])
    ends = {f"response.{end}" for end in ("completed", "incomplete", "failed")}
    assert sum(event["type"] in ends for event in play.events) == (1 if play.events else 0)
    assert (play.run.error is None) == bool(play.events)
    if play.events:
        check(play)
        assert play.events[-1]["type"] in ends


if __name__ == "__main__":
    print(table(), end="")
