"""States: what must hold together for one value, with states for what is inside of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from ...typescript.json_text import JsonValue
from .keywords import Constraints

__all__ = ["Atom", "Choice", "Shape", "State"]


@dataclass(eq=False)
class Choice:
    """One of several schemas must hold: any, or (exclusive) no two."""

    pointer: str
    schemas: list[JsonValue]
    exclusive: bool


Atom: TypeAlias = Constraints | Choice


@dataclass(eq=False)
class Shape:
    """What several constraints say together, with states for what is inside."""

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
    """Atoms that hold together. Built, it has a shape, or alternatives, or (never) neither."""

    atoms: tuple[Atom, ...]
    shape: Shape | None = None
    alternatives: list[State] | None = None
    exclusive: str = ""  # where the oneOf is

    def inside(self) -> Iterable[State]:
        """The states that this one leads to."""
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
