"""States: the conjunctions of atoms on one value, with what each of them allows.

The `Shape` of a state has one value for each keyword, and refers to the states of items and
properties.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor
from typing import TypeVar

from ...typescript.json_text import JsonValue
from .constraints import exact, type_of
from .formats import JOINT_PATTERNS
from .pattern_automata import share_a_text
from .patterns import lengths, pattern_accepts
from .terms import Atom

_FEW_VALUES = 8


@dataclass(eq=False)
class Shape:
    """Several constraints combined into one, with states for items and properties."""

    pointer: str
    types: frozenset[str]
    whole: bool = False
    values: list[JsonValue] | None = None
    lowest: tuple[Fraction, bool] | None = None
    highest: tuple[Fraction, bool] | None = None
    multiple: Fraction | None = None
    shortest: int = 0
    longest: int | None = None
    patterns: list[str] = field(default_factory=list)
    prefix: list[State] = field(default_factory=list)
    items: State | None = None
    fewest_items: int = 0
    most_items: int | None = None
    properties: dict[str, State] = field(default_factory=dict)
    named_by_pattern: dict[str, State] = field(default_factory=dict)
    additional: State | None = None
    required: list[str] = field(default_factory=list)
    fewest_properties: int = 0
    most_properties: int | None = None
    unique: bool = False

    @property
    def step(self) -> Fraction | None:
        """The number of which all numbers are multiples."""
        if not self.whole:
            return self.multiple
        # A whole number is a multiple of p/q, in lowest terms, exactly if it is one of p.
        return Fraction((self.multiple or Fraction(1)).numerator)

    def item(self, index: int) -> State | None:
        """Return the state of an item; None if it is unrestricted."""
        return self.prefix[index] if index < len(self.prefix) else self.items

    def drop_patterns(self) -> None:
        """Allow names that match a pattern at least everything that other names are allowed."""
        if self.additional is not None:
            states = list(self.named_by_pattern.values())
            is_closed = len(states) == 1 and self.additional.never
            self.additional = states[0] if is_closed else None
        self.named_by_pattern = {}

    def has_text(self) -> bool:
        """Return False if the constraints exclude all texts; compare patterns by their starts."""
        shortest, longest = self.shortest, self.longest
        if len(self.patterns) == 1 and not shortest and longest is None:
            return True
        for index, pattern in enumerate(self.patterns):
            least, most = lengths(pattern)
            shortest = max(shortest, least)
            if most is not None:
                longest = most if longest is None else min(longest, most)
            if not all(
                {pattern, earlier} in JOINT_PATTERNS or share_a_text(pattern, earlier)
                for earlier in self.patterns[:index]
            ):
                return False
        return longest is None or shortest <= longest

    def may_have(self, value: JsonValue) -> bool:
        """Return False if a value is excluded; ignore its items and properties."""
        if type_of(value) not in self.types:
            return False
        if isinstance(value, str):
            if len(value) < self.shortest:
                return False
            if self.longest is not None and len(value) > self.longest:
                return False
            return all(pattern_accepts(pattern, value) for pattern in self.patterns)
        if isinstance(value, dict):
            return value.keys() >= set(self.required)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self.has_in_bounds(exact(value))
        return True

    def has_in_bounds(self, number: Fraction) -> bool:
        """Return whether a number is within the bounds, and a multiple."""
        # An excluded bound is the pair (bound, True), which is above (bound, False).
        if self.lowest is not None and (number, False) < self.lowest:
            return False
        if self.highest is not None and (-number, False) < (-self.highest[0], self.highest[1]):
            return False
        if self.whole and number.denominator != 1:
            return False
        return self.step is None or (number / self.step).denominator == 1

    def has_number(self) -> bool:
        """Return whether the bounds allow any number."""
        if self.lowest is None or self.highest is None:
            return True
        lowest, highest = self.lowest[0], self.highest[0]
        is_open = self.lowest[1] or self.highest[1]
        if self.step is None:
            return lowest < highest or (lowest == highest and not is_open)
        first, last = ceil(lowest / self.step), floor(highest / self.step)
        if self.lowest[1] and first * self.step == lowest:
            first += 1
        if self.highest[1] and last * self.step == highest:
            last -= 1
        return first <= last


_Node = TypeVar("_Node", bound=Hashable)


def circular_node(
    starts: Iterable[_Node], following: Callable[[_Node], Iterable[_Node]]
) -> _Node | None:
    """Return a node with an edge back to a node on its path; None if there is no circle.

    >>> edges = {1: [2, 3], 2: [3], 3: [], 4: [5], 5: [4]}
    >>> circular_node([1], edges.__getitem__), circular_node(edges, edges.__getitem__)
    (None, 5)
    """
    # Without recursion, because a chain of references may be longer than Python's stack.
    is_done: dict[_Node, bool] = {}
    for start in starts:
        path = [(start, iter(list(following(start))))] if start not in is_done else []
        is_done.setdefault(start, False)
        while path:
            node, others = path[-1]
            try:
                target = next(others)
            except StopIteration:
                is_done[node] = True
                path.pop()
                continue
            if target not in is_done:
                is_done[target] = False
                path.append((target, iter(list(following(target)))))
            elif not is_done[target]:
                return node
    return None


@dataclass(eq=False)
class State:
    """Atoms that apply to the same value.

    An expanded state has a shape or alternatives; it has neither if no value is possible.
    """

    atoms: tuple[Atom, ...]
    shape: Shape | None = None
    alternatives: list[State] | None = None
    exclusive: str = ""  # the pointer of the oneOf
    never: bool = False
    omitted: bool = False  # the grammar leaves its values out

    @property
    def pointer(self) -> str:
        """The pointer of the last of the schemas."""
        return self.atoms[-1].pointer if self.atoms else "#"

    @property
    def is_small(self) -> bool:
        """True if the schema of the state is no longer than a reference to it."""
        if self.shape is None:
            return False
        if self.shape.values is not None:
            return len(self.shape.values) <= _FEW_VALUES
        return not (self.shape.types & {"array", "object"} or self.shape.patterns)

    @property
    def is_recursive(self) -> bool:
        """True if states inside this one lead back to themselves."""
        return circular_node([self], State.inside) is not None

    def inside(self) -> Iterable[State]:
        """Return the states that this one leads to."""
        if self.alternatives is not None:
            yield from self.alternatives
        if self.shape is not None and self.shape.values is None:
            shape = self.shape
            if "array" in shape.types:
                yield from shape.prefix
                if shape.items is not None:
                    yield shape.items
            if "object" in shape.types:
                yield from shape.properties.values()
                yield from shape.named_by_pattern.values()
                if shape.additional is not None:
                    yield shape.additional
