"""Plans for the examples of a conversation: the messages of each, and those that it trains on.

Each message is trained on once, after its own prompt. The prompt for a message leaves out the
reasoning of earlier turns. So an example continues while the next prompt begins with the example so
far. If it does not, a new example begins with that prompt, and does not train on it.

Examples that are too long are split into windows of whole messages. Like a server, a window first
leaves out the oldest turns, then the oldest steps of the current turn, but never its question. A
step is one completion of the assistant with the results of its calls, so no call loses its result.
Each window trains on the next steps that fit, and begins with as many of the messages before them
as fit. It never leaves out openings, which are the messages by the system and the developer,
wherever they stand: what is trained on needs the instructions and the functions of its prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from ..conversation.messages import Message, Role, declares_functions, is_answer
from ..rendering.history import is_reasoning, past_reasoning
from .options import TrainingOptions


class Entry(NamedTuple):
    """A message of an example, by its index, and whether the example trains on it."""

    message: int
    is_trainable: bool


Plan: TypeAlias = list[Entry]


def plan_sequences(
    messages: Sequence[Message],
    options: TrainingOptions,
    weights: Mapping[int, float] | None = None,
) -> list[Plan]:
    """Plan the examples of a conversation, each up to the last message that it trains on."""
    trainable = {*_selections(messages, options, weights or {})[-1]}
    plans: list[Plan] = []
    entries: Plan = []
    has_spoken = is_declared = False  # the assistant; whether functions are declared
    is_changed = is_answered = False  # since the assistant last spoke
    may_drop = False  # whether there is reasoning; else a row of many turns would take long
    for index, message in enumerate(messages):
        if message.author.role is Role.ASSISTANT:
            if is_changed or (is_answered and may_drop):
                kept = kept_in_prompt(messages, (entry.message for entry in entries), options)
                if is_changed or len(kept) < len(entries):
                    plans.append(entries)
                    entries = [Entry(earlier, False) for earlier in kept]
                may_drop = any(is_reasoning(messages[earlier]) for earlier in kept)
            has_spoken, is_changed, is_answered = True, False, is_answer(message)
        elif not is_declared and declares_functions(message):
            # The system message mentions functions: the next prompt begins with another one.
            is_declared, is_changed = True, has_spoken
        may_drop = may_drop or is_reasoning(message)
        entries.append(Entry(index, index in trainable))
    plans.append(entries)
    return [cut for plan in plans if (cut := _up_to_last_trainable(plan))]


def kept_in_prompt(
    messages: Sequence[Message], indices: Iterable[int], options: TrainingOptions
) -> list[int]:
    """Choose those of the messages that the next prompt holds, by index."""
    chosen = list(indices)
    if options.keep_past_reasoning:
        return chosen
    dropped = past_reasoning([messages[index] for index in chosen])
    return [index for position, index in enumerate(chosen) if position not in dropped]


def untrainable_reason(
    messages: Sequence[Message],
    options: TrainingOptions,
    weights: Mapping[int, float] | None = None,
) -> str | None:
    """Return why no message is trained on, and what to change; None where at least one is.

    >>> untrainable_reason([], TrainingOptions())
    'the conversation has no assistant message; add the answer that the model should learn'
    """
    spoken, recent, selected, weighted = _selections(messages, options, weights or {})
    if not spoken:
        return (
            "the conversation has no assistant message; add the answer that the model should learn"
        )
    if not recent:
        return (
            "no assistant message follows the last question, and only the last turn is trained on; "
            "add the answer, or train on all turns"
        )
    if not selected:
        channels = sorted({messages[index].channel or "no channel" for index in recent})
        return (
            "no assistant message is on a channel that is trained on; the channels are "
            f"{', '.join(channels)}, the choice is {', '.join(sorted(options.channels or ()))}"
        )
    if not weighted:
        return (
            "the weight of every assistant message is 0; give a message that the model should "
            "learn another weight"
        )
    return None


def _selections(
    messages: Sequence[Message], options: TrainingOptions, weights: Mapping[int, float]
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Narrow the assistant's messages down to the trainable ones, in four steps.

    The steps are: all of them, those of the chosen turns, those on the chosen channels, and those
    with a weight. Each list has indices of `messages`.
    """
    first = 0
    if options.turns == "last":
        for index, message in enumerate(messages):
            if message.author.role not in (Role.ASSISTANT, Role.TOOL):
                first = index + 1
    channels = options.channels
    spoken = [i for i, message in enumerate(messages) if message.author.role is Role.ASSISTANT]
    recent = [i for i in spoken if i >= first]
    selected = [i for i in recent if channels is None or messages[i].channel in channels]
    return spoken, recent, selected, [i for i in selected if weights.get(i, 1.0) != 0]


def _up_to_last_trainable(plan: Plan) -> Plan:
    end = next((end for end in range(len(plan), 0, -1) if plan[end - 1].is_trainable), 0)
    return plan[:end]


# Windows


_OPENINGS = (Role.SYSTEM, Role.DEVELOPER)


@dataclass
class _Unit:
    """The question of a turn, or one step of it, without openings.

    `turn` is the index of the turn's first unit. `length` counts all tokens, `needed` those up to
    the end of the last trainable message, and `openings` those of all openings before it.
    """

    turn: int
    is_step: bool = False
    entries: Plan = field(default_factory=list)
    length: int = 0
    needed: int = 0
    openings: int = 0

    def add(self, entry: Entry, length: int, openings: int) -> None:
        self.entries.append(entry)
        self.length += length
        if entry.is_trainable:
            self.needed, self.openings = self.length, openings


class _Window(NamedTuple):
    """Units from `start` up to, not including, `end`; before them maybe their turn's question."""

    question: int | None
    start: int
    end: int


class _Lengths:
    """Sums of the lengths of consecutive units, without adding them up each time."""

    def __init__(self, units: Sequence[_Unit], room: int) -> None:
        self._units = units
        self._room = room
        self._before = [0, *accumulate(unit.length for unit in units)]

    def length(self, window: _Window) -> int:
        """Count the tokens of a window with its openings, up to the last trainable message."""
        question, start, end = window
        last = self._units[end - 1]
        length = self._before[end - 1] - self._before[start] + last.needed + last.openings
        return length + (0 if question is None else self._units[question].length)

    def fits(self, window: _Window) -> bool:
        """Return whether a window fits."""
        return self.length(window) <= self._room


def fitting_windows(
    plan: Plan, messages: Sequence[Message], lengths: Sequence[int], limit: int
) -> tuple[list[Plan], list[int]]:
    """Cut a plan into plans of at most `limit` tokens each.

    `lengths` are those of all messages, in tokens. Returns the plans, and the trainable messages
    that do not fit even with nothing before them but the messages by the system and the developer,
    and the question of their turn.
    """
    if sum(lengths[entry.message] for entry in plan) <= limit:
        return [plan], []
    openings, units = _units(plan, messages, lengths)
    sums = _Lengths(units, limit)
    windows: list[_Window] = []
    lost: list[int] = []
    for index, unit in enumerate(units):
        if not unit.needed:
            continue
        if windows and sums.fits(longer := windows[-1]._replace(end=index + 1)):
            windows[-1] = longer
            continue
        window = next(filter(sums.fits, _windows_to(units, index)), None)
        if window is None:
            lost += (entry.message for entry in unit.entries if entry.is_trainable)
        else:
            windows.append(window)
    ends = [0, *(window.end for window in windows)]
    pairs = zip(windows, ends, strict=False)
    return [_window_plan(openings, units, window, end) for window, end in pairs], lost


def shortest_window(plan: Plan, messages: Sequence[Message], lengths: Sequence[int]) -> int:
    """Return the least limit with which `fitting_windows` gives an example of a plan."""
    _, units = _units(plan, messages, lengths)
    sums = _Lengths(units, 0)
    shortest = []
    for index, unit in enumerate(units):
        if unit.needed:
            has_question = unit.turn != index and not units[unit.turn].is_step
            window = _Window(unit.turn if has_question else None, index, index + 1)
            shortest.append(sums.length(window))
    return min(shortest)


def _units(
    plan: Plan, messages: Sequence[Message], lengths: Sequence[int]
) -> tuple[Plan, list[_Unit]]:
    """Part a plan into the openings, which every window has, and the units."""
    openings: Plan = []
    units: list[_Unit] = []
    opened = 0  # the tokens of the openings
    previous = None
    for entry in plan:
        role, length = messages[entry.message].author.role, lengths[entry.message]
        if role in _OPENINGS:
            openings.append(entry._replace(is_trainable=False))
            opened += length
        else:
            if not units or role is Role.USER:
                units.append(_Unit(len(units), is_step=role is Role.ASSISTANT))
            elif role is Role.ASSISTANT and previous is not Role.ASSISTANT:
                units.append(_Unit(units[-1].turn, is_step=True))
            units[-1].add(entry, length, opened)
        previous = role
    return openings, units


def _windows_to(units: Sequence[_Unit], last: int) -> Iterator[_Window]:
    """Return the windows that end with a unit, from the longest to the shortest."""
    turn = units[last].turn
    for start in range(turn + 1):
        if units[start].turn == start:
            yield _Window(None, start, last + 1)
    question = None if units[turn].is_step else turn
    for start in range(turn + 1, last + 1):
        yield _Window(question, start, last + 1)


def _window_plan(
    openings: Plan, units: Sequence[_Unit], window: _Window, trainable_from: int
) -> Plan:
    """Plan a window; units before `trainable_from` were trained on in an earlier one."""
    entries = [*openings]
    question = [] if window.question is None else [window.question]
    for index in (*question, *range(window.start, window.end)):
        for entry in units[index].entries:
            is_trainable = entry.is_trainable and index >= trainable_from
            entries.append(Entry(entry.message, is_trainable))
    if openings and openings[-1] > units[0].entries[0]:
        entries.sort()  # by message; openings after the last trainable message are cut off below
    return _up_to_last_trainable(entries)
