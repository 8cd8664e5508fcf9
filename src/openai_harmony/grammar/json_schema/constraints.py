"""Constraints on one value, and the states that join them.

`Constraints` are the keywords of one schema object. A `State` is a set of constraints that hold
together for one value; its `Shape` says the same with one value for each keyword, and refers to the
states of items and properties.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from ...typescript.json_text import JsonValue
from .patterns import pattern_accepts
from .references import child_pointer

__all__ = [
    "TYPES",
    "Atom",
    "Choice",
    "Constraints",
    "Refusal",
    "Shape",
    "State",
    "canonical",
    "higher",
    "lower",
]

TYPES = ("null", "boolean", "number", "string", "array", "object")


@dataclass(frozen=True)
class Refusal:
    """A keyword that cannot be enforced for values of a type (empty: of any type)."""

    type: str
    keyword: str
    problem: str
    remedy: str


@dataclass(eq=False)
class Constraints:
    """The keywords of one schema object, except those that refer to others; None if missing."""

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
    properties: dict[str, JsonValue] = field(default_factory=dict)
    named_by_pattern: dict[str, JsonValue] = field(default_factory=dict)
    additional: JsonValue = None
    required: list[str] = field(default_factory=list)
    fewest_properties: int = 0
    most_properties: int | None = None
    refusals: list[Refusal] = field(default_factory=list)
    keywords: frozenset[str] = frozenset()

    def pointer_to(self, *steps: str | int) -> str:
        """Return the pointer of something inside of the schema."""
        return child_pointer(self.pointer, *steps)

    def schemas_of(self, name: str) -> list[JsonValue]:
        """Return the schemas for the value of a property."""
        schemas = [self.properties[name]] if name in self.properties else []
        for pattern, schema in self.named_by_pattern.items():
            if pattern_accepts(pattern, name):
                schemas.append(schema)
        if not schemas and self.additional is not None:
            schemas.append(self.additional)
        return schemas

    def allow_text(self, text: str) -> bool:
        """Return whether a text satisfies the keywords for texts."""
        if len(text) < self.shortest or (self.longest is not None and len(text) > self.longest):
            return False
        return all(pattern_accepts(pattern, text) for pattern in self.patterns)

    def allow_number(self, number: int | float) -> bool:
        """Return whether a number satisfies the keywords for numbers."""
        exact = Fraction(number) if isinstance(number, int) else Fraction(repr(number))
        if self.whole and exact.denominator != 1:
            return False
        if self.lowest and (exact, False) < self.lowest:
            return False
        if self.highest and (exact > self.highest[0] or (exact, True) == self.highest):
            return False
        return not self.multiple or (exact / self.multiple).denominator == 1


def canonical(value: JsonValue) -> str:
    """Return a text that equal values share: 1 and 1.0 are equal, the order of names is none.

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
    one: tuple[Fraction, bool] | None, other: tuple[Fraction, bool] | None
) -> tuple[Fraction, bool] | None:
    """Return the stricter of two lower bounds."""
    if one is None or other is None:
        return one or other
    return max(one, other)


def lower(
    one: tuple[Fraction, bool] | None, other: tuple[Fraction, bool] | None
) -> tuple[Fraction, bool] | None:
    """Return the stricter of two upper bounds."""
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda bound: (bound[0], not bound[1]))


@dataclass(eq=False)
class Choice:
    """One of several schemas must hold; with `exclusive`, no two of them."""

    pointer: str
    schemas: list[JsonValue]
    exclusive: bool


Atom: TypeAlias = Constraints | Choice


@dataclass(eq=False)
class Shape:
    """Several constraints in one, with states for items and properties."""

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


@dataclass(eq=False)
class State:
    """Atoms that hold together: once built, a shape or alternatives, or neither if nothing can."""

    atoms: tuple[Atom, ...]
    shape: Shape | None = None
    alternatives: list[State] | None = None
    exclusive: str = ""  # where the oneOf is

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
