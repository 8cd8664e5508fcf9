"""Schemas that apply to the same value: a document in, a graph of states out.

A state is a set of constraints on one value. References and ``allOf`` join constraints; ``anyOf``,
``oneOf``, items and properties lead to further states. Equal sets are one state, so a recursive
schema has a finite number of states.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import gcd, lcm

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError, Report, raise_error
from .budget import spend
from .choices import Choices
from .complements import Complements
from .constraints import (
    TYPES,
    Atom,
    Case,
    Choice,
    Constraints,
    Overlap,
    Parts,
    Picks,
    Shape,
    State,
    Way,
    canonical,
    circular_node,
    higher,
    lower,
)
from .documents import REFERENCES, Document, child_pointer
from .evaluations import Evaluations
from .instances import Instances
from .keywords import (
    apply_property_names,
    asserts,
    listed_schemas,
    read_constraints,
)
from .pattern_automata import select_texts, share_a_text, texts_but
from .patterns import pattern_accepts

__all__ = ["Conjunctions"]

STATE_LIMIT = 5_000
"""The most states of a schema."""

IN_PLACE_LIMIT = 200
"""The most schemas that references and ``allOf`` may join for one value."""

PROPERTY_LIMIT = 1_000
"""The most names of an object: the engine's time grows with the square of their number."""

NAME_PATTERN_LIMIT = 50
"""The most patterns for the names of an object."""

_NO_PICKS: Picks = {}
_JOINING = frozenset({*REFERENCES, "allOf"})
_ALL_PROPERTIES_LIMIT = 20_000
_REFERRING = frozenset(
    {
        *REFERENCES,
        "allOf",
        "anyOf",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "if",
        "not",
        "oneOf",
    }
)


class Conjunctions:
    """Builds all states of a document."""

    def __init__(
        self,
        document: Document,
        report: Report = raise_error,
        overlaps: Mapping[str, Overlap] | None = None,
    ) -> None:
        self._document = document
        self._complements = Complements(document)
        self._choices = Choices(document, self._complements, overlaps or {}, report)
        self._evaluations = Evaluations(document, self._choices, self._taken_apart)
        self._report = report
        self._parts: dict[int, Parts] = {}
        self._states: dict[frozenset[Atom], State] = {}
        self._waiting: deque[State] = deque()
        self._instances = Instances(document, report)
        self._properties = 0
        self._own_atoms: set[Atom] = set()
        self.contexts: dict[str, set[frozenset[str]]] = {}
        """The pointers of the schemas beside each `oneOf` in each state, by its pointer."""
        self.never = State((), never=True)
        self.root = self._joined([document.root])
        while self._waiting:
            self._build(self._waiting.popleft())
        self._check_ends()
        self.states = list(self._states.values())
        self.leave_out = self._choices.leave_out
        """True if the grammar leaves out some values of a state."""

    def _joined(self, schemas: Iterable[JsonValue], *, pointer: str = "#") -> State:
        """Return the state that requires all of these schemas."""
        atoms: dict[Atom, None] = {}
        for schema in schemas:
            if not self._gather(schema, atoms, {}, pointer):
                return self.never
        return self._state(atoms)

    def _state(self, atoms: dict[Atom, None]) -> State:
        spend(5 + len(atoms) // 8)
        key = frozenset(atoms)
        state = self._states.get(key)
        if state is None:
            state = State(tuple(atoms))
            if self._choices.leave_out:
                rules = (atom for atom in atoms if isinstance(atom, Constraints))
                state.unwritten = any(rule.unwritten for rule in rules)
            self._states[key] = state
            self._waiting.append(state)
            if len(self._states) > STATE_LIMIT:
                raise GrammarError(
                    f"its schemas combine in more than {STATE_LIMIT:,} ways",
                    remedy="use fewer anyOf side by side, or a smaller schema",
                    pointer=_pointer(state.atoms),
                )
        return state

    def _gather(
        self,
        schema: Way,
        atoms: dict[Atom, None],
        met: dict[int, bool],
        pointer: str,
        picks: Picks = _NO_PICKS,
    ) -> bool:
        """Collect the constraints on the value itself; return False if they allow nothing.

        `met` has the schemas on the current path (True) and those that are done. `picks` has the
        ways that were already chosen.
        """
        if isinstance(schema, bool):
            return schema
        if isinstance(schema, Constraints):
            atoms[schema] = None
            return True
        if isinstance(schema, Case):
            return self._gather_case(schema, atoms, pointer)
        error = _ungatherable(schema, met, pointer)
        if error is not None or not isinstance(schema, dict):
            self._report(error or _endless(pointer))
            return True
        parts = self._taken_apart(schema)
        if id(schema) in met or (not picks and parts.constraints in atoms):
            return True
        if parts.cases:
            atoms.update(dict.fromkeys(parts.cases))
            return True
        return self._gather_parts(parts, atoms, met, picks)

    def _gather_parts(
        self, parts: Parts, atoms: dict[Atom, None], met: dict[int, bool], picks: Picks
    ) -> bool:
        """Collect the schema's own keywords and the schemas that it joins, in its order."""
        spend(5)
        met[id(parts.schema)] = True
        own: list[Way] = [parts.constraints] if asserts(parts.schema) else []
        for way in (*parts.joined[: parts.first], *own, *parts.joined[parts.first :]):
            if not self._gather(way, atoms, met, parts.joins, picks):
                return False
        met[id(parts.schema)] = False
        for choice in parts.choices:
            if choice not in picks or choice.exclusive:
                atoms[choice] = None
            for way in picks.get(choice, ()):
                if not self._gather(way, atoms, met, choice.pointer, picks):
                    return False
        return True

    def _gather_case(self, case: Case, atoms: dict[Atom, None], pointer: str) -> bool:
        met: dict[int, bool] = {}
        if not self._gather_parts(self._taken_apart(case.schema), atoms, met, case.picks):
            return False
        if case.closing is not None:
            atoms[case.closing] = None
        return all(self._gather(way, atoms, met, pointer, case.picks) for way in case.further)

    def _taken_apart(self, schema: Schema) -> Parts:
        parts = self._parts.get(id(schema))
        if parts is None:
            spend(50)
            pointer = self._document.pointer(schema)
            joined, first, is_partial = self._joined_ways(schema, pointer)
            references = [keyword for keyword in REFERENCES if keyword in schema]
            joins = child_pointer(pointer, *references[:1] or ["allOf"])
            is_old = self._document.is_old
            rule = read_constraints(schema, pointer, self._report, is_old=is_old)
            patterns = tuple(rule.named_by_pattern)
            names = self._names(schema)
            if names is not None:
                apply_property_names(rule, names)
            choices = self._choices.of(schema, rule)
            parts = Parts(schema, rule, patterns, joined, first, joins, choices, [], is_partial)
            self._parts[id(schema)] = parts
            if rule.refusals:
                self._find_cases(parts)
            if self._document.has(schema):
                self._own_atoms.update((rule, *choices, *parts.cases))
        return parts

    def _find_cases(self, parts: Parts) -> None:
        """Replace the refusals of `unevaluatedProperties` and `unevaluatedItems` by cases."""
        rule = parts.constraints
        for refusal in [refusal for refusal in rule.refusals if refusal.depends]:
            evaluates_all = self._evaluations.evaluates_all(parts, refusal.type)
            if refusal.type in rule.types and not evaluates_all:
                try:
                    parts.cases.append(self._evaluations.cases(parts, refusal.type))
                except GrammarError:
                    continue
            rule.refusals.remove(refusal)

    def _joined_ways(self, schema: Schema, pointer: str) -> tuple[list[Way], int, bool]:
        """Return the joined schemas in order, how many come before the properties, and whether one
        of them is left out."""
        joined: list[Way] = []
        first, is_partial = None, False
        if _JOINING.isdisjoint(schema):
            return joined, 0, False
        for keyword in schema:
            if keyword in REFERENCES:
                try:
                    joined.append(self._document.referred(schema, keyword))
                except GrammarError as error:
                    self._report(error)
                    is_partial = True
            elif keyword == "allOf":
                joined += listed_schemas(schema, "allOf", pointer, self._report)
            elif keyword in ("properties", "required") and first is None:
                first = len(joined)
        return joined, len(joined) if first is None else first, is_partial

    def _names(self, schema: Schema) -> Constraints | None:
        """Return the constraints on the names of an object, if one schema has all of them."""
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
        """Raise if a schema refers to itself without a value in between, even as one of several."""
        schema_id = circular_node(self._parts, self._in_place)
        if schema_id is not None:
            parts = self._parts[schema_id]
            raise _endless(parts.choices[0].pointer if parts.choices else parts.joins)

    def _in_place(self, schema_id: int) -> list[int]:
        parts = self._parts[schema_id]
        options = [option for choice in parts.choices for option in choice.schemas]
        return [id(schema) for schema in [*parts.joined, *options] if id(schema) in self._parts]

    def _build(self, state: State) -> None:
        spend(10 + len(state.atoms) // 2)
        constraints = [atom for atom in state.atoms if isinstance(atom, Constraints)]
        types = frozenset(TYPES).intersection(*(atom.types for atom in constraints))
        if any(rule.fractional for rule in constraints) and any(rule.whole for rule in constraints):
            types -= {"number"}
        if not types:
            return
        self._refuse(constraints, "")
        choice = next((atom for atom in state.atoms if isinstance(atom, Choice)), None)
        if choice is not None:
            self._choose(state, choice)
            return
        spend(10 + 5 * len(constraints))
        values = self._common_values(constraints)
        if values is None and self._name_beyond(state, constraints):
            return
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
        beside = (atom.pointer for atom in state.atoms if atom in self._own_atoms)
        self.contexts.setdefault(choice.pointer, set()).add(frozenset(beside))
        state.alternatives = []
        state.exclusive = choice.pointer if choice.exclusive else ""
        for index, schema in enumerate(choice.schemas):
            spend(10 + len(state.atoms) // 8)
            atoms: dict[Atom, None] = dict.fromkeys(state.atoms)
            del atoms[choice]
            # In the order of the schema: first the keywords beside a choice, then its alternative.
            if self._gather(schema, atoms, {}, child_pointer(choice.pointer, index)):
                alternative = self._state(atoms)
                if choice.exclusive or alternative not in state.alternatives:
                    state.alternatives.append(alternative)
            elif choice.exclusive:
                state.alternatives.append(self.never)  # so that the others keep their indices

    def _name_beyond(self, state: State, constraints: list[Constraints]) -> bool:
        """Choose the name that must be `beyond` some constraints, if the names are listed."""
        rule = next((rule for rule in constraints if rule.beyond is not None), None)
        closed = [
            other
            for other in constraints
            if other.additional is False and not other.named_by_pattern
        ]
        if rule is None or rule.beyond is None or not closed:
            return False
        atoms: dict[Atom, None] = dict.fromkeys(atom for atom in state.atoms if atom is not rule)
        state.alternatives = [
            self._state({**atoms, self._complements.present(name, rule): None})
            for name in closed[0].properties
            if rule.beyond.leaves_open(name)
        ]
        return True

    def _common_values(self, constraints: list[Constraints]) -> list[JsonValue] | None:
        """Return the listed values that satisfy all constraints; None if no values are listed."""
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
            shape.unique |= rule.unique
        return shape

    def _merge_items(self, shape: Shape, constraints: list[Constraints]) -> None:
        if "array" not in shape.types:
            return
        ruling = [rule for rule in constraints if rule.prefix or rule.items is not None]
        for index in range(max((len(rule.prefix) for rule in ruling), default=0)):
            spend(2 + len(ruling))
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
                f"its schemas combine into more than {_ALL_PROPERTIES_LIMIT:,} properties",
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
        regions = self._regions(patterns, ruling)
        spend(len(names) * (2 + len(ruling)))
        for name in names:
            shape.properties[name] = self._joined(
                [schema for rule in ruling for schema in rule.schemas_of(name)],
                pointer=shape.pointer,
            )
        for region, members in regions.items():
            schemas: list[JsonValue] = []
            for rule in ruling:
                named = [
                    rule.named_by_pattern[text] for text in members if text in rule.named_by_pattern
                ]
                schemas += named or ([] if rule.additional is None else [rule.additional])
            for text in _unlisted(region, members, names, ruling):
                shape.named_by_pattern[text] = self._joined(schemas, pointer=shape.pointer)
        others = [rule.additional for rule in ruling if rule.additional is not None]
        shape.additional = self._joined(others, pointer=shape.pointer) if others else None

    def _regions(
        self, patterns: list[str], ruling: list[Constraints]
    ) -> dict[str, tuple[str, ...]]:
        """Return patterns of names that exclude each other, with the patterns that each implies."""
        regions: dict[str, tuple[str, ...]] = {}
        for pattern in patterns:
            divided = _divided(regions, pattern)
            if divided is not None:
                regions = divided
                continue
            owners = [rule for rule in ruling if pattern in rule.named_by_pattern]
            overlapping = next(
                text
                for members in regions.values()
                for text in members
                if share_a_text(text, pattern)
            )
            self._report(
                GrammarError(
                    f"a name may match {overlapping!r} as well",
                    remedy="start the patterns with ^ and different letters",
                    pointer=owners[0].pointer_to("patternProperties", pattern),
                )
            )
            for rule in owners:
                rule.widen_additional([rule.named_by_pattern.pop(pattern)])
        return regions

    def _refuse(self, constraints: list[Constraints], name: str) -> None:
        """Report keywords that cannot be enforced for values of a type."""
        for rule in constraints:
            for refusal in rule.refusals:
                if refusal.type == name:
                    self._report(refusal.error(rule))


def _unlisted(
    region: str, members: tuple[str, ...], names: Iterable[str], ruling: list[Constraints]
) -> list[str]:
    """Return the region without the names listed by a schema that is closed for other names."""
    closing = [
        rule
        for rule in ruling
        if rule.additional is not None and rule.named_by_pattern.keys().isdisjoint(members)
    ]
    listed = [
        name
        for name in names
        if any(name in rule.properties for rule in closing) and pattern_accepts(region, name)
    ]
    unlisted = select_texts((region, texts_but(listed))) if listed else None
    return [region] if unlisted is None else unlisted


def _divided(
    regions: dict[str, tuple[str, ...]], pattern: str
) -> dict[str, tuple[str, ...]] | None:
    """Return the regions divided by one more pattern; None if a region would be too large."""
    divided: dict[str, tuple[str, ...]] = {}
    rest = [pattern]
    for region, members in regions.items():
        if not rest or not share_a_text(region, rest[0]):
            divided[region] = members
            continue
        shared = select_texts((region, rest[0]))
        others = select_texts((region,), (rest[0],))
        left = select_texts((rest[0],), (region,))
        if shared is None or others is None or left is None:
            return None
        divided |= dict.fromkeys(shared, (*members, pattern))
        divided |= dict.fromkeys(others, members)
        rest = left
    return divided | dict.fromkeys(rest, (pattern,))


def _ungatherable(schema: JsonValue, met: dict[int, bool], pointer: str) -> GrammarError | None:
    """Return the error of a schema that cannot be joined with the schemas before it."""
    if not isinstance(schema, dict):
        problem, remedy = "a schema must be an object or a boolean", "correct it"
    elif met.get(id(schema)):
        return _endless(pointer)
    elif len(met) > IN_PLACE_LIMIT:
        problem = f"more than {IN_PLACE_LIMIT} schemas apply to one value"
        remedy = "use fewer allOf and $ref"
    else:
        return None
    return GrammarError(problem, remedy=remedy, pointer=pointer)


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
