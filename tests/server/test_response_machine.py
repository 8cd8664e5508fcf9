"""The course of a response without an event loop: every kind of item, ended in every way.

`tests/data/response-events.txt` has the exact events of each case. To see what a change does to
them, run this module as a program: it prints the new file.
"""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gpt_oss_harmony import Message, Role
from gpt_oss_harmony.apis import ResponsesRequest, response_of, turn_of_response
from gpt_oss_harmony.conversation.built_in_tools import BUILT_IN_TOOLS, call_item
from gpt_oss_harmony.server.generation.events import (
    Ending,
    MessageBegun,
    MessageEnded,
    TextAdded,
    TurnEnded,
    Usage,
)
from gpt_oss_harmony.server.http.errors import ApiError
from gpt_oss_harmony.server.responses import machine as machines
from gpt_oss_harmony.server.responses.machine import (
    TRANSITIONS,
    Announced,
    CallAnswered,
    Cancelled,
    Command,
    Discard,
    Encrypt,
    Encrypted,
    Failed,
    Input,
    NoRoom,
    ResponseMachine,
    ResponseRules,
    RunCall,
    Sample,
    Started,
    State,
    Store,
    Stored,
    StoringFailed,
    Summarise,
    Summarised,
    TurnPrepared,
)
from gpt_oss_harmony.server.responses.stream import ResponseStream
from gpt_oss_harmony.server.tools.conversation_tools import AnsweredCall
from gpt_oss_harmony.server.tools.mcp import ApprovedCall
from support.responses_server import EVENT, NOW, RUN, checked_response

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
    rules: dict[str, Any] = field(default_factory=dict)

    @property
    def message(self) -> Message:
        said = Message.from_role_and_content(Role.ASSISTANT, self.text).with_channel(self.channel)
        said.recipient = self.recipient
        return said


KINDS = {
    "reasoning": Kind("analysis", None, "Hm. Hm."),
    "reasoning, summarised": Kind("analysis", None, "Hm. Hm.", {"summary": "auto"}),
    "reasoning, encrypted": Kind("analysis", None, "Hm. Hm.", {"encrypts": True}),
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


class Play:
    """A machine, whatever happened to it, and what it said; every step must be in the table."""

    taken: ClassVar[set[tuple[State, type[Input]]]] = set()

    def __init__(self, rules: dict[str, Any] | None = None, **stream: Any) -> None:
        numbers = itertools.count()
        body = response_of(REQUEST, id="resp_1", created_at=0, model="script").to_dict()
        if stream.pop("is_queued", False):
            body["status"] = "queued"
        self.machine = ResponseMachine(
            ResponseStream(
                body,
                new_id=lambda prefix: f"{prefix}_{next(numbers)}",
                custom_tools=["functions.run"],
                namespaces=["functions"],
                built_in_tools=TOOLS,
                approvals={"host.ask"},
                **stream,
            ),
            replace(
                ResponseRules(TURN, now=lambda: 1, tools=TOOLS, approvals={"host.ask"}),
                **(rules or {}),
            ),
        )
        self.events: list[dict[str, Any]] = []
        self.commands: list[Command] = []

    def take(self, *happened: Input) -> Play:
        for one in happened:
            before = self.machine.state
            step = self.machine.take(one)
            transition = TRANSITIONS[before, type(one)]
            assert self.machine.state in transition.states
            assert step.command is None or type(step.command) in transition.commands
            self.taken.add((before, type(one)))
            self.events += [json.loads(event.data) for event in step.events]
            if step.command is not None:
                self.commands.append(step.command)
        return self

    @property
    def state(self) -> State:
        return self.machine.state

    @property
    def line(self) -> str:
        return ", ".join(event["type"].removeprefix("response.") for event in self.events)

    def answer(self, kind: Kind, *, is_complete: bool = True) -> None:
        """Let the model say it, and do everything that its item needs."""
        self.take(
            MessageBegun(0, kind.channel, kind.recipient),
            *([TextAdded(0, kind.text, ())] if kind.text else []),
            MessageEnded(0, kind.message, is_complete),
        )
        while self.machine.state is State.COMPLETING:
            asked = self.commands[-1]
            if isinstance(asked, Summarise):
                self.take(Summarised("In short.", USAGE))
            else:
                assert isinstance(asked, Encrypt)
                self.take(Encrypted("secret"))


STOPPED = TurnEnded(Ending.ANSWER, USAGE, [], [])
CUT = TurnEnded(Ending.LIMIT, USAGE, [], [])
DONE = CallAnswered(AnsweredCall((), "completed", {}))
TOOL_FAILED = CallAnswered(AnsweredCall((), "failed", {}))
REFUSED = CallAnswered(AnsweredCall((), "incomplete", {}))


def finished(kind: Kind, *, answered: CallAnswered = DONE, **rules: Any) -> Play:
    play = Play({**kind.rules, **rules}).take(Started())
    play.answer(kind)
    play.take(STOPPED)
    if play.machine.state is State.CALLING:
        play.take(answered, TurnPrepared(TURN), STOPPED)
    return play.take(Stored())


def broken(kind: Kind, end: Input) -> Play:
    play = Play(kind.rules).take(Started(), MessageBegun(0, kind.channel, kind.recipient))
    if kind.text:
        play.take(TextAdded(0, kind.text, ()))
    return play.take(end, Stored())


def broken_while_running(kind: Kind, end: Input) -> Play:
    play = Play(kind.rules).take(Started())
    play.answer(kind)
    return play.take(STOPPED, end, Stored())


def cases() -> Iterator[tuple[str, Play]]:
    for name, kind in KINDS.items():
        yield f"{name}: whole", finished(kind)
        play = Play(kind.rules).take(Started())
        play.answer(kind, is_complete=False)
        yield f"{name}: cut", play.take(CUT, Stored())
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
        if play.machine.state is State.SAMPLING:
            play.take(TurnPrepared(TURN))
            play.answer(KINDS["final answer"])
            play.take(STOPPED)
        yield f"mcp call: {name}", play.take(Stored())
    play = Play(listings=[LISTING]).take(Started())
    play.answer(KINDS["final answer"])
    yield "mcp listing: whole", play.take(STOPPED, Stored())
    for name, ends in (
        ("cancelled at another server", [STOPPED, Stored(is_kept=False)]),
        ("not stored", [STOPPED, StoringFailed(BUG)]),
        ("cancelled too late", [STOPPED, Cancelled(), Stored(), Cancelled(), Failed(BUG)]),
        ("failed too late", [STOPPED, Failed(BUG), Announced(), Stored(), Announced()]),
        ("no room for the turn", [NoRoom(), Stored()]),
    ):
        play = Play().take(Announced(), Started(), Announced())
        play.answer(KINDS["final answer"])
        yield f"response: {name}", play.take(*ends)
    play = Play(is_queued=True).take(Announced(), Started())
    play.answer(KINDS["final answer"])
    yield "response: queued", play.take(STOPPED, Stored())
    for name, end in (("cancelled", Cancelled()), ("failed", Failed(BUG))):
        yield f"response: {name} before it starts", Play().take(Announced(), end, Stored())
        play = Play({"encrypts": True}).take(Started())
        said = KINDS["reasoning"]
        play.take(MessageBegun(0, "analysis", None), TextAdded(0, said.text, ()))
        play.take(MessageEnded(0, said.message, True), Announced(), end, Stored())
        yield f"response: {name} while its reasoning is encrypted", play
    play = Play().take(Started())
    play.answer(KINDS["code interpreter call"])
    yield (
        "response: no room after a call",
        play.take(STOPPED, Announced(), DONE, NoRoom(), Stored()),
    )
    yield "response: not generated", Play({"is_generated": False}).take(Started(), Stored())


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
    for number, event in enumerate(play.events):
        assert event["sequence_number"] == number
        EVENT.validate_python(event)
    response = checked_response(play.events[-1]["response"])
    assert response["output"] == [item.item for item in play.machine.stream.items]
    assert play.machine.state is State.ENDED


def test_the_cases_walk_through_the_whole_table() -> None:
    assert set(TRANSITIONS) == Play.taken


def test_what_cannot_happen_is_a_bug_of_the_caller() -> None:
    with pytest.raises(ValueError, match=r"Stored cannot happen in State\.PLANNED"):
        Play().machine.take(Stored())


@pytest.mark.parametrize("end", [Cancelled(), Failed(BUG)])
@pytest.mark.parametrize("is_stored", [True, False])
def test_an_end_before_the_first_event_fails_the_request(end: Input, is_stored: bool) -> None:
    play = Play({"is_stored": is_stored}).take(Started(), end)
    assert play.events == []
    assert play.machine.error is not None
    assert [Discard() in play.commands, play.machine.state] == [is_stored, State.ENDED]


@pytest.mark.parametrize("end", [Failed(BUG), StoringFailed(BUG)])
def test_a_request_that_reads_no_events_gets_the_error_itself(end: Input) -> None:
    play = Play({"is_announced": False}).take(Started())
    play.answer(KINDS["final answer"])
    play.take(*([STOPPED] if isinstance(end, StoringFailed) else []), end)
    assert play.machine.error is BUG


def test_what_is_not_stored_ends_at_once() -> None:
    play = Play({"is_stored": False}).take(Started())
    play.answer(KINDS["final answer"])
    play.take(STOPPED)
    assert not any(isinstance(command, Store | Discard) for command in play.commands)
    assert play.machine.stream.response["status"] == "completed"


def test_the_limit_of_tokens_is_for_all_turns_together() -> None:
    turn = replace(TURN, sampling=replace(TURN.sampling, max_tokens=8))
    kind = KINDS["code interpreter call"]
    play = Play({"turn": turn}).take(Started())
    play.answer(kind)
    play.take(STOPPED, DONE)
    sample = play.commands[-1]
    assert isinstance(sample, Sample)
    assert (sample.turn.sampling.max_tokens, sample.is_first) == (3, False)
    play.answer(kind)
    play.take(STOPPED, DONE)
    assert play.machine.state is State.STORING
    assert play.events[-1]["type"] == "response.output_item.done"


def test_a_model_that_never_stops_calling_is_ended() -> None:
    play = Play({"max_tool_calls": 1}).take(Started())
    problems: list[bool] = []
    while play.state is State.SAMPLING:
        play.answer(KINDS["mcp call"])
        play.take(STOPPED)
        called = play.commands[-1]
        if isinstance(called, RunCall):
            problems.append(called.problem is not None)
            play.take(DONE)
    play.take(Stored())
    assert problems == [False, True, True, True]
    assert play.events[-1]["response"]["incomplete_details"] == {"reason": "max_tool_calls"}


def test_summaries_count_as_usage() -> None:
    play = finished(KINDS["reasoning, summarised"])
    assert play.events[-1]["response"]["usage"]["output_tokens"] == 2 * USAGE.output_tokens
    assert play.machine.stream.items[0].item["summary"][0]["text"] == "In short."


@pytest.mark.parametrize("module", ["machine", "stream", "output_item"])
def test_the_machine_has_no_loop_clock_or_randomness(module: str) -> None:
    path = Path(machines.__file__).with_name(f"{module}.py")
    imported = {
        name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
    }
    assert not imported & {"asyncio", "time", "datetime", "random", "secrets", "uuid", "new_id"}


if __name__ == "__main__":
    print(table(), end="")
