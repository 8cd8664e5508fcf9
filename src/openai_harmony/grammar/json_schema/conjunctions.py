"""Schemas that must hold together: a document in, a graph of states out.

A state is a set of constraints on one value. References and ``allOf`` join constraints, ``anyOf``
and ``oneOf`` lead to further states, and so do items and properties. Equal sets are one state, so
that a recursive schema has finitely many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError
from .constraints import TYPES, Atom, Choice, Constraints, Shape, State, canonical, higher, lower
from .instances import Instances
from .keywords import apply_property_names, asserts, read_constraints
from .patterns import never_both
from .references import Document, child_pointer

__all__ = ["Conjunctions"]

STATE_LIMIT = 5_000
"""The most states of a schema."""

IN_PLACE_LIMIT = 200
"""The most schemas that references and ``allOf`` may join for one value."""

PROPERTY_LIMIT = 1_000
"""The most names of an object: the engine's time grows with their square."""

NAME_PATTERN_LIMIT = 50
"""The most patterns for the names of an object."""

_ALL_PROPERTIES_LIMIT = 20_000
_REFERRING = frozenset({"$ref", "allOf", "anyOf", "oneOf"})


@dataclass(eq=False)
class _Parts:
    """A schema object taken apart."""

    constraints: Constraints
    joined: list[JsonValue]
    joins: str  # where what is joined is
    choices: list[Choice]


class Conjunctions:
    """Builds all states of a document."""

    def __init__(self, document: Document, root: Schema) -> None:
        self._document = document
        self._parts: dict[int, _Parts] = {}
        self._states: dict[frozenset[Atom], State] = {}
        self._waiting: deque[State] = deque()
        self._instances = Instances(document)
        self._properties = 0
        self.never = State(())
        self.root = self._joined([root])
        while self._waiting:
            self._build(self._waiting.popleft())
        self._check_ends()
        self.states = list(self._states.values())

    def _joined(self, schemas: Iterable[JsonValue], *, pointer: str = "#") -> State:
        """Return the state in which all of these schemas hold."""
        atoms: dict[Atom, None] = {}
        for schema in schemas:
            if not self._gather(schema, atoms, {}, pointer):
                return self.never
        return self._state(atoms)

    def _state(self, atoms: dict[Atom, None]) -> State:
        key = frozenset(atoms)
        state = self._states.get(key)
        if state is None:
            state = State(tuple(atoms))
            self._states[key] = state
            self._waiting.append(state)
            if len(self._states) > STATE_LIMIT:
                raise GrammarError(
                    f"its schemas combine in more than {STATE_LIMIT:,} ways",
                    remedy="use fewer anyOf beside each other, or a smaller schema",
                    pointer=_pointer(state.atoms),
                )
        return state

    def _gather(
        self, schema: JsonValue, atoms: dict[Atom, None], met: dict[int, bool], pointer: str
    ) -> bool:
        """Collect the constraints on the value itself; return False if they allow nothing.

        `met` has the schemas on the way here (True) and those done.
        """
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            problem = "a schema is an object or a boolean"
            raise GrammarError(problem, remedy="correct it", pointer=pointer)
        if met.get(id(schema)):
            raise _endless(pointer)
        if len(met) > IN_PLACE_LIMIT:
            raise GrammarError(
                f"more than {IN_PLACE_LIMIT} schemas hold together",
                remedy="use fewer allOf and $ref",
                pointer=pointer,
            )
        parts = self._taken_apart(schema)
        if id(schema) in met or parts.constraints in atoms:
            return True
        met[id(schema)] = True
        for joined in parts.joined:
            if not self._gather(joined, atoms, met, parts.joins):
                return False
        met[id(schema)] = False
        if asserts(schema):
            atoms[parts.constraints] = None
        for choice in parts.choices:
            atoms[choice] = None
        return True

    def _taken_apart(self, schema: Schema) -> _Parts:
        parts = self._parts.get(id(schema))
        if parts is None:
            pointer = self._document.pointer(schema)
            joined: list[JsonValue] = []
            if "$ref" in schema:
                joined.append(self._document.referred(schema))
            joined += _listed(schema, "allOf", pointer)
            choices: list[Choice] = []
            for keyword in ("anyOf", "oneOf"):
                if keyword in schema:
                    place = child_pointer(pointer, keyword)
                    listed = _listed(schema, keyword, pointer)
                    choices.append(Choice(place, listed, keyword == "oneOf"))
            joins = child_pointer(pointer, "$ref" if "$ref" in schema else "allOf")
            constraints = read_constraints(schema, pointer)
            names = self._names(schema)
            if names is not None:
                apply_property_names(constraints, names)
            parts = _Parts(constraints, joined, joins, choices)
            self._parts[id(schema)] = parts
        return parts

    def _names(self, schema: Schema) -> Constraints | None:
        """Return what the names of an object must satisfy, if one schema says all of it."""
        names = schema.get("propertyNames")
        if names is False:
            return Constraints("", values=[])
        for _ in range(IN_PLACE_LIMIT):
            if not isinstance(names, dict) or asserts(names) or "$ref" not in names:
                break
            names = self._document.referred(names)
        if not isinstance(names, dict) or not _REFERRING.isdisjoint(names):
            return None
        return read_constraints(names, self._document.pointer(names))

    def _check_ends(self) -> None:
        """Nothing may refer to itself with no value between, not even as one of several."""
        done: dict[int, bool] = {}
        for start in self._parts:
            way = [(start, iter(self._in_place(start)))] if start not in done else []
            done.setdefault(start, False)
            while way:
                place, others = way[-1]
                following = next(others, None)
                if following is None:
                    done[place] = True
                    way.pop()
                elif following not in done:
                    done[following] = False
                    way.append((following, iter(self._in_place(following))))
                elif not done[following]:
                    parts = self._parts[place]
                    raise _endless(parts.choices[0].pointer if parts.choices else parts.joins)

    def _in_place(self, place: int) -> list[int]:
        parts = self._parts[place]
        schemas = [*parts.joined, *(one for choice in parts.choices for one in choice.schemas)]
        return [id(schema) for schema in schemas if id(schema) in self._parts]

    def _build(self, state: State) -> None:
        constraints = [atom for atom in state.atoms if isinstance(atom, Constraints)]
        _refuse(constraints, "")
        types = frozenset(TYPES).intersection(*(one.types for one in constraints))
        choice = next((atom for atom in state.atoms if isinstance(atom, Choice)), None)
        if not types:
            return
        if choice is not None:
            self._choose(state, choice)
            return
        values = self._common_values(constraints)
        if values is None:
            for name in TYPES:
                if name in types:
                    _refuse(constraints, name)
        state.shape = self._merged(constraints, types)
        state.shape.values = values
        if values is None:
            self._merge_items(state.shape, constraints)
            self._merge_properties(state.shape, constraints)

    def _choose(self, state: State, choice: Choice) -> None:
        """Distribute the other atoms over the alternatives."""
        state.alternatives = []
        state.exclusive = choice.pointer if choice.exclusive else ""
        for index, schema in enumerate(choice.schemas):
            atoms: dict[Atom, None] = dict.fromkeys(state.atoms)
            del atoms[choice]
            # In the order of the schema: what stands beside a choice, then its alternative.
            if self._gather(schema, atoms, {}, child_pointer(choice.pointer, index)):
                alternative = self._state(atoms)
                if choice.exclusive or alternative not in state.alternatives:
                    state.alternatives.append(alternative)

    def _common_values(self, constraints: list[Constraints]) -> list[JsonValue] | None:
        """Return the listed values that satisfy everything; None when nothing is listed."""
        listed = [constraint for constraint in constraints if constraint.values is not None]
        if not listed:
            return None
        shortest = min(listed, key=lambda constraint: len(constraint.values or ()))
        kept: dict[str, JsonValue] = {}
        for value in shortest.values or ():
            if all(self._instances.satisfies(value, other) for other in constraints):
                kept.setdefault(canonical(value), value)
        return list(kept.values())

    def _merged(self, constraints: list[Constraints], types: frozenset[str]) -> Shape:
        shape = Shape(_pointer(tuple(constraints)), types)
        for one in constraints:
            shape.whole |= one.whole
            shape.lowest = higher(shape.lowest, one.lowest)
            shape.highest = lower(shape.highest, one.highest)
            shape.multiple = _common_multiple(shape.multiple, one.multiple)
            shape.shortest = max(shape.shortest, one.shortest)
            shape.longest = _smaller(shape.longest, one.longest)
            shape.patterns += [text for text in one.patterns if text not in shape.patterns]
            shape.fewest_items = max(shape.fewest_items, one.fewest_items)
            shape.most_items = _smaller(shape.most_items, one.most_items)
            shape.fewest_properties = max(shape.fewest_properties, one.fewest_properties)
            shape.most_properties = _smaller(shape.most_properties, one.most_properties)
        return shape

    def _merge_items(self, shape: Shape, constraints: list[Constraints]) -> None:
        if "array" not in shape.types:
            return
        ruling = [one for one in constraints if one.prefix or one.items is not None]
        for index in range(max((len(one.prefix) for one in ruling), default=0)):
            shape.prefix.append(
                self._joined(
                    [
                        one.prefix[index] if index < len(one.prefix) else one.items
                        for one in ruling
                        if index < len(one.prefix) or one.items is not None
                    ],
                    pointer=shape.pointer,
                )
            )
        items = [one.items for one in ruling if one.items is not None]
        shape.items = self._joined(items, pointer=shape.pointer) if items else None

    def _merge_properties(self, shape: Shape, constraints: list[Constraints]) -> None:
        if "object" not in shape.types:
            return
        ruling = [
            one
            for one in constraints
            if one.properties or one.named_by_pattern or one.additional is not None
        ]
        shape.required = list(dict.fromkeys(name for one in constraints for name in one.required))
        names = dict.fromkeys(name for one in ruling for name in one.properties)
        names.update(dict.fromkeys(shape.required))
        if len(names) > PROPERTY_LIMIT:
            raise GrammarError(
                f"an object has more than {PROPERTY_LIMIT:,} names",
                remedy="split it into several objects",
                pointer=shape.pointer,
            )
        self._properties += len(names)
        if self._properties > _ALL_PROPERTIES_LIMIT:
            raise GrammarError(
                f"its schemas combine to more than {_ALL_PROPERTIES_LIMIT:,} properties",
                remedy="use fewer anyOf beside properties",
                pointer=shape.pointer,
            )
        patterns = dict.fromkeys(text for one in ruling for text in one.named_by_pattern)
        if len(patterns) > NAME_PATTERN_LIMIT:
            raise GrammarError(
                f"an object has more than {NAME_PATTERN_LIMIT} patterns for names",
                remedy="use fewer",
                pointer=shape.pointer,
            )
        _check_disjoint(list(patterns), ruling)
        for name in names:
            shape.properties[name] = self._joined(
                [schema for one in ruling for schema in one.schemas_of(name)],
                pointer=shape.pointer,
            )
        for pattern in patterns:
            schemas = [one.named_by_pattern.get(pattern, one.additional) for one in ruling]
            shape.named_by_pattern[pattern] = self._joined(
                [schema for schema in schemas if schema is not None], pointer=shape.pointer
            )
        others = [one.additional for one in ruling if one.additional is not None]
        shape.additional = self._joined(others, pointer=shape.pointer) if others else None


def _check_disjoint(patterns: list[str], ruling: list[Constraints]) -> None:
    for index, pattern in enumerate(patterns):
        for other in patterns[:index]:
            if not never_both(pattern, other):
                owner = next(one for one in ruling if pattern in one.named_by_pattern)
                raise GrammarError(
                    f"a name may match {other!r} as well",
                    remedy="start the patterns with ^ and different letters",
                    pointer=owner.pointer_to("patternProperties", pattern),
                )


def _endless(pointer: str) -> GrammarError:
    return GrammarError(
        "the schema refers to itself without end",
        remedy="refer to it from inside an object or an array",
        pointer=pointer,
    )


def _refuse(constraints: list[Constraints], name: str) -> None:
    """Raise for keywords that cannot be enforced for values of a type."""
    limits = (one.most_items for one in constraints if one.most_items is not None)
    most_items = min(limits, default=2)
    for one in constraints:
        for refusal in one.refusals:
            if refusal.keyword == "uniqueItems" and most_items < 2:
                continue  # no two items can be equal
            if refusal.type == name:
                raise GrammarError(
                    refusal.problem, remedy=refusal.remedy, pointer=one.pointer_to(refusal.keyword)
                )


def _listed(schema: Schema, keyword: str, pointer: str) -> list[JsonValue]:
    value = schema.get(keyword, [])
    if not isinstance(value, list) or (keyword in schema and not value):
        raise GrammarError(
            "the keyword takes a list of schemas",
            remedy="correct it",
            pointer=child_pointer(pointer, keyword),
        )
    return value


def _pointer(atoms: tuple[Atom, ...]) -> str:
    return atoms[-1].pointer if atoms else "#"


def _smaller(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _common_multiple(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    if one is None or other is None:
        return one or other
    return Fraction(lcm(one.numerator, other.numerator), gcd(one.denominator, other.denominator))
