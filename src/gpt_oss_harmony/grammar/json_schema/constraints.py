"""Constraints on one value, and the states that join them.

`Constraints` are the keywords of one schema object. A `State` is a set of constraints on the same
value. Its `Shape` combines them, with one value for each keyword, and refers to the states of items
and properties.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor
from typing import TypeAlias, TypeVar

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError
from .documents import child_pointer
from .pattern_automata import share_a_text
from .patterns import lengths, pattern_accepts

__all__ = [
    "TYPES",
    "Atom",
    "Case",
    "Choice",
    "Constraints",
    "Overlap",
    "Parts",
    "Picks",
    "Refusal",
    "Shape",
    "State",
    "Way",
    "canonical",
    "circular_node",
    "higher",
    "lower",
    "type_of",
]

_FEW_VALUES = 8

TYPES = ("null", "boolean", "number", "string", "array", "object")


@dataclass(frozen=True)
class Refusal:
    """A keyword that cannot be enforced for values of a type (empty: any type).

    With `depends`, this depends on the schemas beside it.
    """

    type: str
    keyword: str
    problem: str
    remedy: str
    depends: bool = False

    def error(self, rule: Constraints) -> GrammarError:
        """Return the error for a schema object that has the keyword."""
        return GrammarError(self.problem, remedy=self.remedy, pointer=rule.pointer_to(self.keyword))


@dataclass(eq=False)
class Constraints:
    """The keywords of one schema object, except those that refer to others; None if missing.

    Complements need more than keywords: numbers may have to be `fractional`, and an object may need
    a name that the constraints `beyond` do not cover. `unwritten` constraints describe values that
    the schema allows but the grammar leaves out.
    """

    pointer: str
    types: frozenset[str] = frozenset(TYPES)
    whole: bool = False
    values: list[JsonValue] | None = None
    value_texts: frozenset[str] = frozenset()
    lowest: tuple[Fraction, bool] | None = None
    highest: tuple[Fraction, bool] | None = None
    multiple: Fraction | None = None
    shortest: int = 0
    longest: int | None = None
    patterns: list[str] = field(default_factory=list)
    prefix: list[JsonValue] = field(default_factory=list)
    items: JsonValue = None
    fewest_items: int = 0
    most_items: int | None = None
    contains: JsonValue = None
    fewest_matches: int = 1
    most_matches: int | None = None
    properties: dict[str, JsonValue] = field(default_factory=dict)
    named_by_pattern: dict[str, JsonValue] = field(default_factory=dict)
    additional: JsonValue = None
    required: list[str] = field(default_factory=list)
    fewest_properties: int = 0
    most_properties: int | None = None
    unique: bool = False
    fractional: bool = False
    beyond: Constraints | None = None
    unwritten: bool = False
    unread: bool = False  # a pattern for names
    refusals: list[Refusal] = field(default_factory=list)
    keywords: frozenset[str] = frozenset()

    def pointer_to(self, *steps: str | int) -> str:
        """Return the pointer of a part of the schema."""
        return child_pointer(self.pointer, *steps)

    def widen_additional(self, schemas: list[JsonValue]) -> None:
        """Let names without their own schema also satisfy one of these schemas."""
        if schemas and self.additional not in (None, True):
            is_closed = self.additional is False and len(schemas) == 1
            self.additional = schemas[0] if is_closed else None

    def inside(self, value: JsonValue) -> Iterable[tuple[JsonValue, JsonValue]]:
        """Return the items or properties of a value, each with a schema that it must satisfy."""
        if isinstance(value, list):
            for index, item in enumerate(value):
                schema = self.prefix[index] if index < len(self.prefix) else self.items
                if schema is not None:
                    yield item, schema
        elif isinstance(value, dict):
            for name, item in value.items():
                for schema in self.schemas_of(name):
                    yield item, schema

    def schemas_of(self, name: str) -> list[JsonValue]:
        """Return the schemas for the value of a property."""
        schemas = [self.properties[name]] if name in self.properties else []
        for pattern, schema in self.named_by_pattern.items():
            if pattern_accepts(pattern, name):
                schemas.append(schema)
        if not schemas and self.additional is not None:
            schemas.append(self.additional)
        return schemas

    def leaves_open(self, name: str) -> bool:
        """Return whether a name is neither listed nor matched by a pattern."""
        if name in self.properties:
            return False
        return not any(pattern_accepts(pattern, name) for pattern in self.named_by_pattern)

    def allows_itself(self, value: JsonValue) -> bool:
        """Return whether a value of an allowed type is allowed; ignore its items and properties."""
        if isinstance(value, str):
            return self.allow_text(value)
        if isinstance(value, list):
            fewest, most = self.fewest_items, self.most_items
            if self.unique and len(set(map(canonical, value))) < len(value):
                return False
        elif isinstance(value, dict):
            fewest, most = self.fewest_properties, self.most_properties
            if not value.keys() >= set(self.required):
                return False
            if self.beyond is not None and not any(map(self.beyond.leaves_open, value)):
                return False
        else:
            return value is None or isinstance(value, bool) or self.allow_number(value)
        return fewest <= len(value) and (most is None or len(value) <= most)

    def allow_text(self, text: str) -> bool:
        """Return whether a text satisfies the keywords for texts."""
        if len(text) < self.shortest or (self.longest is not None and len(text) > self.longest):
            return False
        return all(pattern_accepts(pattern, text) for pattern in self.patterns)

    def allow_number(self, number: int | float) -> bool:
        """Return whether a number satisfies the keywords for numbers."""
        exact = Fraction(number) if isinstance(number, int) else Fraction(repr(number))
        if (self.whole or self.fractional) and (exact.denominator == 1) == self.fractional:
            return False
        if self.lowest and (exact, False) < self.lowest:
            return False
        if self.highest and (exact > self.highest[0] or (exact, True) == self.highest):
            return False
        return not self.multiple or (exact / self.multiple).denominator == 1


def type_of(value: JsonValue) -> str:
    """Return the type of a value as JSON Schema names it; a whole number is a number."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "number"


def canonical(value: JsonValue) -> str:
    """Return the same text for equal values: 1 equals 1.0, and the order of names is ignored.

    >>> canonical({"b": 1.0, "a": True})
    '{"a": true, "b": 1}'
    """
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: JsonValue) -> JsonValue:
    if isinstance(value, float):
        return int(value) if value == int(value) else value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def higher(
    left: tuple[Fraction, bool] | None, right: tuple[Fraction, bool] | None
) -> tuple[Fraction, bool] | None:
    """Return the stricter of two lower bounds."""
    if left is None or right is None:
        return left or right
    return max(left, right)


def lower(
    left: tuple[Fraction, bool] | None, right: tuple[Fraction, bool] | None
) -> tuple[Fraction, bool] | None:
    """Return the stricter of two upper bounds."""
    if left is None or right is None:
        return left or right
    return min(left, right, key=lambda bound: (bound[0], not bound[1]))


@dataclass(eq=False)
class Case:
    """A schema with some of its choices made: `picks` has the chosen ways.

    The `further` schemas and the `closing` constraints also apply.
    """

    schema: Schema
    picks: Picks
    further: tuple[Way, ...]
    closing: Constraints | None


Picks: TypeAlias = Mapping["Choice", tuple["Way", ...]]
Way: TypeAlias = JsonValue | Constraints | Case
"""A schema as JSON, the constraints of a schema, or a case of a schema."""


@dataclass(eq=False)
class Choice:
    """Several schemas, one of which must hold; with `exclusive`, exactly one."""

    pointer: str
    keyword: str
    schemas: Sequence[Way]
    exclusive: bool = False


@dataclass
class Overlap:
    """The types of values that two schemas of a ``oneOf`` may share, by their two indices.

    With a `tag`, an optional property of this name distinguishes all schemas.
    """

    types: dict[tuple[int, int], frozenset[str]] = field(default_factory=dict)
    tag: str | None = None

    def join(self, other: Overlap) -> None:
        """Add the types that the same schemas share beside other keywords."""
        self.tag = self.tag if self.tag == other.tag else None
        for pair, types in other.types.items():
            self.types[pair] = self.types.get(pair, frozenset()) | types


Atom: TypeAlias = Constraints | Choice


@dataclass(eq=False)
class Parts:
    """The parts of a schema object."""

    schema: Schema
    constraints: Constraints
    patterns: tuple[str, ...]  # of names, except those of `propertyNames`
    joined: list[Way]
    first: int  # how many of these stand before its own properties
    joins: str  # the pointer of the joined schemas
    choices: list[Choice]
    cases: list[Choice]  # of `unevaluatedProperties` and `unevaluatedItems`
    is_partial: bool  # a schema that it joins cannot be read, and may evaluate anything


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
        return Fraction((self.multiple or Fraction(1)).numerator)

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
        for index, pattern in enumerate(self.patterns):
            least, most = lengths(pattern)
            shortest = max(shortest, least)
            if most is not None:
                longest = most if longest is None else min(longest, most)
            if not all(share_a_text(pattern, earlier) for earlier in self.patterns[:index]):
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
            return self.has_in_bounds(Fraction(repr(value)))
        return True

    def has_in_bounds(self, number: Fraction) -> bool:
        """Return whether a number is within the bounds, and a multiple."""
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

    A built state has a shape or alternatives; it has neither if no value is possible.
    """

    atoms: tuple[Atom, ...]
    shape: Shape | None = None
    alternatives: list[State] | None = None
    exclusive: str = ""  # the pointer of the oneOf
    never: bool = False
    unwritten: bool = False  # the grammar leaves its values out

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
