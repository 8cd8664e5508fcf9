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
from itertools import chain

from ..messages import Message, Role
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
    room = limit - sum(lengths[entry.message] for entry in head)
    windows: list[list[int]] = []  # of units, by their places
    lost: list[int] = []
    for at, unit in enumerate(units):
        if not unit.needed:
            continue
        last = windows[-1] if windows else []
        if last and _fits(units, longer := [*last, *range(last[-1] + 1, at)], unit, room):
            windows[-1] = [*longer, at]
            continue
        begun = next((c for c in _contexts(units, at) if _fits(units, c, unit, room)), None)
        if begun is None:
            lost += (entry.message for entry in unit.entries if entry.learned)
        else:
            windows.append([*begun, at])
    return [_plan(head, units, places, before) for places, before in _with_done(windows)], lost


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


def _contexts(units: Sequence[_Unit], at: int) -> Iterator[list[int]]:
    """What may stand before a unit: all of it first, then ever less."""
    turn = units[at].turn
    for start in sorted({unit.turn for unit in units[: at + 1]}):
        yield list(range(start, at))
    question = [] if units[turn].is_step else [turn]
    for start in range(turn + 1, at + 1):
        yield [*question, *range(start, at)]


def _fits(units: Sequence[_Unit], context: Sequence[int], unit: _Unit, room: int) -> bool:
    return sum(units[place].length for place in context) + unit.needed <= room


def _with_done(windows: Sequence[list[int]]) -> Iterator[tuple[list[int], int]]:
    """Give each window the place of the first unit that none before it learned."""
    done = 0
    for places in windows:
        yield places, done
        done = places[-1] + 1


def _plan(head: Plan, units: Sequence[_Unit], places: Sequence[int], learned_from: int) -> Plan:
    context = chain(head, *(units[place].entries for place in places if place < learned_from))
    new = chain.from_iterable(units[place].entries for place in places if place >= learned_from)
    entries = [*(Entry(entry.message, False) for entry in context), *new]
    end = max(at for at, entry in enumerate(entries, 1) if entry.learned)
    return entries[:end]
