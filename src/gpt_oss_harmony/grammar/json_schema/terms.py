"""The terms of a schema's normal form: what must hold, and the disjunctions that are open.

A schema object is a conjunction: of its own constraints, of the schemas that `allOf` and references
add, and of disjunctions such as `anyOf`. Constraints and disjunctions are the atoms: nothing more
can be said of them before a term of each disjunction is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ...typescript.json_text import JsonValue, Schema
from .constraints import Constraints


@dataclass(eq=False)
class Case:
    """A schema with some of its disjunctions decided, and what applies beside it.

    The terms `also` apply, and so do the `closing` constraints.
    """

    schema: Schema
    decisions: Decisions
    also: tuple[Term, ...]
    closing: Constraints | None


Decisions: TypeAlias = Mapping["Disjunction", tuple["Term", ...]]
"""The terms that hold of some disjunctions."""

Term: TypeAlias = JsonValue | Constraints | Case
"""A schema as JSON, constraints, or a case of a schema."""


@dataclass(eq=False)
class Disjunction:
    """Several terms, one of which must hold; with `exclusive`, exactly one."""

    pointer: str
    keyword: str
    terms: Sequence[Term]
    exclusive: bool = False


Atom: TypeAlias = Constraints | Disjunction


@dataclass(eq=False)
class NormalForm:
    """The parts of a schema object, all of which must hold."""

    schema: Schema
    constraints: Constraints
    name_patterns: tuple[str, ...]
    """The keys of `patternProperties`, without what `propertyNames` adds."""
    conjuncts: list[Term]
    """The targets of references, and the schemas of `allOf`, in the order of the schema."""
    before_own: int
    """How many of these stand before the schema's own properties."""
    conjuncts_pointer: str
    disjunctions: list[Disjunction]
    unevaluated: list[Disjunction]
    """The cases of `unevaluatedProperties` and `unevaluatedItems`."""
    is_partial: bool
    """True if a conjunct cannot be read; it might evaluate anything."""


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
