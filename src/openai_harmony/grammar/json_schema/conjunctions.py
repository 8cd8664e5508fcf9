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
from ..errors import GrammarError, Report, raise_error
from .constraints import TYPES, Atom, Choice, Constraints, Shape, State, canonical, higher, lower
from .documents import Document, child_pointer
from .instances import Instances
from .keywords import apply_property_names, asserts, read_constraints
from .patterns import never_both

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

    def __init__(self, document: Document, root: Schema, report: Report = raise_error) -> None:
        self._document = document
        self._report = report
        self._parts: dict[int, _Parts] = {}
        self._states: dict[frozenset[Atom], State] = {}
        self._waiting: deque[State] = deque()
        self._instances = Instances(document, report)
        self._properties = 0
        self.never = State((), never=True)
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
            self._report(GrammarError(problem, remedy="correct it", pointer=pointer))
            return True
        if met.get(id(schema)):
            self._report(_endless(pointer))
            return True
        if len(met) > IN_PLACE_LIMIT:
            problem = f"more than {IN_PLACE_LIMIT} schemas hold together"
            remedy = "use fewer allOf and $ref"
            self._report(GrammarError(problem, remedy=remedy, pointer=pointer))
            return True
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
                try:
                    joined.append(self._document.referred(schema))
                except GrammarError as error:
                    self._report(error)
            joined += self._listed(schema, "allOf", pointer)
            choices: list[Choice] = []
            for keyword in ("anyOf", "oneOf"):
                listed = self._listed(schema, keyword, pointer)
                if listed:
                    list_pointer = child_pointer(pointer, keyword)
                    choices.append(Choice(list_pointer, listed, keyword == "oneOf"))
            joins = child_pointer(pointer, "$ref" if "$ref" in schema else "allOf")
            constraints = read_constraints(schema, pointer, self._report)
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
        return read_constraints(names, self._document.pointer(names), self._report)

    def _check_ends(self) -> None:
        """Nothing may refer to itself with no value between, not even as one of several."""
        is_done: dict[int, bool] = {}
        for start in self._parts:
            path = [(start, iter(self._in_place(start)))] if start not in is_done else []
            is_done.setdefault(start, False)
            while path:
                schema_id, others = path[-1]
                following = next(others, None)
                if following is None:
                    is_done[schema_id] = True
                    path.pop()
                elif following not in is_done:
                    is_done[following] = False
                    path.append((following, iter(self._in_place(following))))
                elif not is_done[following]:
                    parts = self._parts[schema_id]
                    raise _endless(parts.choices[0].pointer if parts.choices else parts.joins)

    def _in_place(self, schema_id: int) -> list[int]:
        parts = self._parts[schema_id]
        options = [option for choice in parts.choices for option in choice.schemas]
        return [id(schema) for schema in [*parts.joined, *options] if id(schema) in self._parts]

    def _build(self, state: State) -> None:
        constraints = [atom for atom in state.atoms if isinstance(atom, Constraints)]
        self._refuse(constraints, "")
        types = frozenset(TYPES).intersection(*(atom.types for atom in constraints))
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
                    self._refuse(constraints, name)
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
        for rule in constraints:
            shape.whole |= rule.whole
            shape.lowest = higher(shape.lowest, rule.lowest)
            shape.highest = lower(shape.highest, rule.highest)
            if shape.multiple is None or rule.multiple is None:
                shape.multiple = shape.multiple or rule.multiple
            else:
                shape.multiple = Fraction(
                    lcm(shape.multiple.numerator, rule.multiple.numerator),
                    gcd(shape.multiple.denominator, rule.multiple.denominator),
                )
            shape.shortest = max(shape.shortest, rule.shortest)
            shape.longest = _smaller(shape.longest, rule.longest)
            shape.patterns += [text for text in rule.patterns if text not in shape.patterns]
            shape.fewest_items = max(shape.fewest_items, rule.fewest_items)
            shape.most_items = _smaller(shape.most_items, rule.most_items)
            shape.fewest_properties = max(shape.fewest_properties, rule.fewest_properties)
            shape.most_properties = _smaller(shape.most_properties, rule.most_properties)
        return shape

    def _merge_items(self, shape: Shape, constraints: list[Constraints]) -> None:
        if "array" not in shape.types:
            return
        ruling = [rule for rule in constraints if rule.prefix or rule.items is not None]
        for index in range(max((len(rule.prefix) for rule in ruling), default=0)):
            shape.prefix.append(
                self._joined(
                    [
                        rule.prefix[index] if index < len(rule.prefix) else rule.items
                        for rule in ruling
                        if index < len(rule.prefix) or rule.items is not None
                    ],
                    pointer=shape.pointer,
                )
            )
        items = [rule.items for rule in ruling if rule.items is not None]
        shape.items = self._joined(items, pointer=shape.pointer) if items else None

    def _merge_properties(self, shape: Shape, constraints: list[Constraints]) -> None:
        if "object" not in shape.types:
            return
        ruling = [
            rule
            for rule in constraints
            if rule.properties or rule.named_by_pattern or rule.additional is not None
        ]
        shape.required = list(dict.fromkeys(name for rule in constraints for name in rule.required))
        names = dict.fromkeys(name for rule in ruling for name in rule.properties)
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
        patterns = list(dict.fromkeys(text for rule in ruling for text in rule.named_by_pattern))
        if len(patterns) > NAME_PATTERN_LIMIT:
            raise GrammarError(
                f"an object has more than {NAME_PATTERN_LIMIT} patterns for names",
                remedy="use fewer",
                pointer=shape.pointer,
            )
        patterns = self._drop_overlapping(patterns, ruling)
        for name in names:
            shape.properties[name] = self._joined(
                [schema for rule in ruling for schema in rule.schemas_of(name)],
                pointer=shape.pointer,
            )
        for pattern in patterns:
            schemas = [rule.named_by_pattern.get(pattern, rule.additional) for rule in ruling]
            shape.named_by_pattern[pattern] = self._joined(
                [schema for schema in schemas if schema is not None], pointer=shape.pointer
            )
        others = [rule.additional for rule in ruling if rule.additional is not None]
        shape.additional = self._joined(others, pointer=shape.pointer) if others else None

    def _drop_overlapping(self, patterns: list[str], ruling: list[Constraints]) -> list[str]:
        """Return the patterns of names that exclude each other, and report the others."""
        kept: list[str] = []
        for pattern in patterns:
            overlapping = next((other for other in kept if not never_both(pattern, other)), None)
            if overlapping is None:
                kept.append(pattern)
                continue
            owners = [rule for rule in ruling if pattern in rule.named_by_pattern]
            self._report(
                GrammarError(
                    f"a name may match {overlapping!r} as well",
                    remedy="start the patterns with ^ and different letters",
                    pointer=owners[0].pointer_to("patternProperties", pattern),
                )
            )
            for rule in owners:
                rule.widen_additional([rule.named_by_pattern.pop(pattern)])
        return kept

    def _refuse(self, constraints: list[Constraints], name: str) -> None:
        """Report keywords that cannot be enforced for values of a type."""
        limits = (rule.most_items for rule in constraints if rule.most_items is not None)
        most_items = min(limits, default=2)
        for rule in constraints:
            for refusal in rule.refusals:
                if refusal.keyword == "uniqueItems" and most_items < 2:
                    continue  # no two items can be equal
                if refusal.type == name:
                    self._report(refusal.error(rule))

    def _listed(self, schema: Schema, keyword: str, pointer: str) -> list[JsonValue]:
        value = schema.get(keyword, [])
        if isinstance(value, list) and (value or keyword not in schema):
            return value
        problem, pointer = "the keyword takes a list of schemas", child_pointer(pointer, keyword)
        self._report(GrammarError(problem, remedy="correct it", pointer=pointer))
        return []


def _endless(pointer: str) -> GrammarError:
    return GrammarError(
        "the schema refers to itself without end",
        remedy="refer to it from inside an object or an array",
        pointer=pointer,
    )


def _pointer(atoms: tuple[Atom, ...]) -> str:
    return atoms[-1].pointer if atoms else "#"


def _smaller(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)
