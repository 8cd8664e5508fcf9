"""Constraints on one value: the keywords of one schema object that refer to no other schema.

Values are compared as JSON Schema compares them: 1 equals 1.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from ...typescript.json_text import JsonValue
from ..errors import GrammarError
from .documents import child_pointer
from .patterns import pattern_accepts

TYPES = ("null", "boolean", "number", "string", "array", "object")


def exact(number: int | float) -> Fraction:
    """Return the exact number of a float's shortest digits: 0.1 is a tenth, as it was written.

    >>> exact(0.1)
    Fraction(1, 10)
    """
    # Not the digits of an integer: Python refuses to write more than 4,300 of them.
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


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


# Compared by identity: constraints are atoms, and states are known by their sets of atoms.
@dataclass(eq=False)
class Constraints:
    """The keywords of one schema object, except those that refer to others; None if missing.

    Negations need more than keywords: a text may have to be `other_than` some, numbers may have to
    be `fractional`, and an object may need a name `outside` other constraints, which neither list
    it nor have a pattern for it. `omitted` constraints describe values that the schema allows but
    the grammar leaves out.
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
    other_than: frozenset[str] = frozenset()
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
    outside: Constraints | None = None
    omitted: bool = False
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
            if self.outside is not None and not any(map(self.outside.leaves_open, value)):
                return False
        else:
            return value is None or isinstance(value, bool) or self.allow_number(value)
        return fewest <= len(value) and (most is None or len(value) <= most)

    def allow_text(self, text: str) -> bool:
        """Return whether a text satisfies the keywords for texts."""
        if len(text) < self.shortest or (self.longest is not None and len(text) > self.longest):
            return False
        if text in self.other_than:
            return False
        return all(pattern_accepts(pattern, text) for pattern in self.patterns)

    def allow_number(self, number: int | float) -> bool:
        """Return whether a number satisfies the keywords for numbers."""
        found = exact(number)
        if (self.whole or self.fractional) and (found.denominator == 1) == self.fractional:
            return False
        if self.lowest and (found, False) < self.lowest:
            return False
        if self.highest and (found > self.highest[0] or (found, True) == self.highest):
            return False
        return not self.multiple or (found / self.multiple).denominator == 1


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
    # Of two equal numbers, the excluded one is greater as a pair, and stricter.
    return max(left, right)


def lower(
    left: tuple[Fraction, bool] | None, right: tuple[Fraction, bool] | None
) -> tuple[Fraction, bool] | None:
    """Return the stricter of two upper bounds."""
    if left is None or right is None:
        return left or right
    return min(left, right, key=lambda bound: (bound[0], not bound[1]))
