"""Sequences cut to a length in tokens, by whole messages.

What goes first is what a server would leave out first: the oldest turns after the system's and the
developer's messages, then the oldest steps of the turn itself, never its question. A step is what
the assistant said in one go, with the results of its calls, so that no call loses its result.
What went is learned in a window of its own: each window learns the steps that fit after those
before it, and begins anew, with as much of what came before as fits, for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from ..conversation.messages import Message, Role
from .turn_plan import Entry, Plan

__all__ = ["fitting_windows"]


@dataclass
class _Unit:
    """The question of a turn, or one step; `length` is that of all, `needed` up to what is learned.

    `turn` is the place of the turn's first unit among all units.
    """

    turn: int
    is_step: bool = False
    entries: Plan = field(default_factory=list)
    length: int = 0
    needed: int = 0

    def add(self, entry: Entry, length: int) -> None:
        self.entries.append(entry)
        self.length += length
        if entry.learned:
            self.needed = self.length


class _Window(NamedTuple):
    """Units from `start` up to, not including, `end`; before them maybe their turn's question."""

    question: int | None
    start: int
    end: int

    def places(self) -> list[int]:
        """The places of all its units."""
        return [*([] if self.question is None else [self.question]), *range(self.start, self.end)]


class _Lengths:
    """Sums of the lengths of units, whichever they are, at once."""

    def __init__(self, units: Sequence[_Unit], room: int) -> None:
        self._units = units
        self._room = room
        self._before = [0, *accumulate(unit.length for unit in units)]

    def fits(self, window: _Window) -> bool:
        """Whether the window fits; its last unit needs to be there up to what is learned of it."""
        question, start, end = window
        length = self._before[end - 1] - self._before[start] + self._units[end - 1].needed
        return length + (0 if question is None else self._units[question].length) <= self._room


def fitting_windows(
    plan: Plan, messages: Sequence[Message], lengths: Sequence[int], limit: int
) -> tuple[list[Plan], list[int]]:
    """Cut a plan so that no part has more than `limit` tokens.

    `lengths` are those of all messages, in tokens. Returns the parts, and the learned messages that
    do not fit even with nothing before them but the system's, the developer's and their turn's
    question.
    """
    if sum(lengths[entry.message] for entry in plan) <= limit:
        return [plan], []
    head, units = _units(plan, messages, lengths)
    sums = _Lengths(units, limit - sum(lengths[entry.message] for entry in head))
    windows: list[_Window] = []
    lost: list[int] = []
    for at, unit in enumerate(units):
        if not unit.needed:
            continue
        if windows and sums.fits(longer := windows[-1]._replace(end=at + 1)):
            windows[-1] = longer
            continue
        begun = next(filter(sums.fits, _windows_to(units, at)), None)
        if begun is None:
            lost += (entry.message for entry in unit.entries if entry.learned)
        else:
            windows.append(begun)
    done = [0, *(window.end for window in windows)]
    pairs = zip(windows, done, strict=False)
    return [_plan(head, units, window, before) for window, before in pairs], lost


def _units(
    plan: Plan, messages: Sequence[Message], lengths: Sequence[int]
) -> tuple[Plan, list[_Unit]]:
    roles = [messages[entry.message].author.role for entry in plan]
    openings = (Role.SYSTEM, Role.DEVELOPER)
    first = next((at for at, role in enumerate(roles) if role not in openings), len(roles))
    units: list[_Unit] = []
    before = None  # the role before
    for entry, role in zip(plan[first:], roles[first:], strict=True):
        if not units or role is Role.USER:
            units.append(_Unit(len(units), is_step=role is Role.ASSISTANT))
        elif role is Role.ASSISTANT and before is not Role.ASSISTANT:
            units.append(_Unit(units[-1].turn, is_step=True))
        units[-1].add(entry, lengths[entry.message])
        before = role
    return plan[:first], units


def _windows_to(units: Sequence[_Unit], at: int) -> Iterator[_Window]:
    """The windows that end with a unit: that with all before it first, then ever smaller ones."""
    turn = units[at].turn
    for start in range(turn + 1):
        if units[start].turn == start:
            yield _Window(None, start, at + 1)
    question = None if units[turn].is_step else turn
    for start in range(turn + 1, at + 1):
        yield _Window(question, start, at + 1)


def _plan(head: Plan, units: Sequence[_Unit], window: _Window, learned_from: int) -> Plan:
    """Put a window together; what was learned before is not learned again."""
    entries = [Entry(entry.message, False) for entry in head]
    for place in window.places():
        for entry in units[place].entries:
            entries.append(entry if place >= learned_from else Entry(entry.message, False))
    end = max(at for at, entry in enumerate(entries, 1) if entry.learned)
    return entries[:end]
