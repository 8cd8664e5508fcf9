"""The disjunctions in a schema: `anyOf`, `oneOf`, `not`, `if`, `contains` and others.

A disjunction is a list of terms, one of which must hold. A grammar only looks ahead, never back. So
`contains` becomes a list of the places where its items may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import comb
from typing import Any

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError, Report
from .budget import spend
from .constraints import TYPES, Constraints, Refusal
from .documents import Document, child_pointer
from .keywords import dependents, listed_schemas
from .negations import Negations, Origin
from .terms import Disjunction, Overlap, Term

PLACE_LIMIT = 16
"""`contains` counts items only among the first ones, at most this many."""

PLACEMENT_LIMIT = 64
"""The most sets of places for them."""


_CHOOSING = frozenset(
    {
        "anyOf",
        "contains",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "if",
        "not",
        "oneOf",
    }
)


class Disjunctions:
    """Finds the disjunctions of the schemas of a document."""

    def __init__(
        self,
        document: Document,
        negations: Negations,
        overlaps: Mapping[str, Overlap],
        report: Report,
    ) -> None:
        self._document = document
        self._negations = negations
        self._overlaps = overlaps
        self._report = report
        self.omits_values = False
        """True if the grammar leaves out some values."""

    def of(self, schema: Schema, rule: Constraints) -> list[Disjunction]:
        """Return the disjunctions of a schema; `rule` has its own constraints."""
        if _CHOOSING.isdisjoint(schema):
            return []
        pointer = rule.pointer
        disjunctions = list(self._listed(schema, pointer))
        if "not" in schema:
            terms = self._negations.terms(schema)
            # Without a term, no value violates the schema, so none is left.
            disjunctions.append(Disjunction(child_pointer(pointer, "not"), "not", terms or [False]))
        if "if" in schema and ("then" in schema or "else" in schema):
            holds, fails = self.cases(schema, pointer)
            if schema.get("then", True) is True:
                fails = schema.get("else", True)  # whether the condition holds as well or not
            disjunctions.append(Disjunction(child_pointer(pointer, "if"), "if", [holds, fails]))
        disjunctions += self._dependents(schema, pointer)
        if rule.contains is not None and rule.values is None and "array" in rule.types:
            places = self.places(rule, Origin(pointer, "contains"))
            if places is not None:
                disjunctions.append(
                    Disjunction(child_pointer(pointer, "contains"), "contains", places)
                )
        return disjunctions

    def _listed(self, schema: Schema, pointer: str) -> Iterator[Disjunction]:
        for keyword in ("anyOf", "oneOf"):
            listed = listed_schemas(schema, keyword, pointer, self._report)
            if listed:
                list_pointer = child_pointer(pointer, keyword)
                overlap = self._overlaps.get(list_pointer) if keyword == "oneOf" else None
                terms: list[Term] = [*listed]
                if overlap is not None:
                    terms = self._apart(listed, overlap, Origin(pointer, keyword))
                yield Disjunction(list_pointer, keyword, terms, keyword == "oneOf" and not overlap)

    def cases(self, schema: Schema, pointer: str) -> tuple[JsonValue, JsonValue]:
        """Return schemas for both cases of an `if`: its condition holds, or it does not."""
        origin = Origin(pointer, "if")
        condition, then, other = (schema.get(key, True) for key in ("if", "then", "else"))
        negation = self._negations.negation(condition, origin)
        if then is not True:
            condition = self._negations.joined([condition, then], origin)
        return condition, self._negations.joined([negation, other], origin)

    def _dependents(self, schema: Schema, pointer: str) -> Iterator[Disjunction]:
        for name, keyword, dependent in dependents(schema):
            absent = Constraints(pointer, properties={name: False}, keywords=frozenset({keyword}))
            present: Schema = {"type": "object", "required": [name]}
            if isinstance(dependent, list):
                present["required"] = [*dependent, name]
            else:
                present["allOf"] = [dependent]
            both: list[Term] = [absent, self._document.add(present, pointer)]
            yield Disjunction(child_pointer(pointer, keyword, name), keyword, both)

    def _apart(self, schemas: list[JsonValue], overlap: Overlap, origin: Origin) -> list[Term]:
        """Return schemas that replace those of a `oneOf`; no two of them hold at once."""
        negations = self._negations
        if overlap.tag is not None:
            # With the tag written out, its constants set the schemas apart (`_default_tag`).
            tagged = self._document.add({"required": [overlap.tag]}, origin.pointer)
            return [negations.joined([schema, tagged], origin) for schema in schemas]
        apart: list[Term] = []
        for index, schema in enumerate(schemas):
            joined = [schema]
            for other, excluded in enumerate(schemas):
                shared = overlap.types.get((min(index, other), max(index, other)))
                if index == other or not shared:
                    continue
                types: list[JsonValue] = [name for name in TYPES if name in shared]
                rest: list[JsonValue] = [name for name in TYPES if name not in shared]
                negation = negations.joined(
                    [{"type": types}, negations.negation(excluded, origin)], origin
                )
                spend(20)
                # Values of other types cannot satisfy both schemas, so they need no negation.
                joined.append({"anyOf": [{"type": rest}, negation]} if rest else negation)
            apart.append(negations.joined(joined, origin))
        return apart

    def places(self, rule: Constraints, origin: Origin) -> list[Term] | None:
        """Return terms for the arrays with as many items as `contains` requires.

        None if every array has. Arrays that match only after the places that the grammar counts are
        a term that is omitted.
        """
        fewest, most = rule.fewest_matches, rule.most_matches
        if fewest == 0 and (most is None or rule.contains is False):
            return None
        terms: list[Term] = [Constraints(rule.pointer, frozenset(TYPES) - {"array"})]
        longest = rule.most_items
        ends = [end for end in (most, longest) if end is not None]
        # No array can have so many items that match, so only other values are left.
        if rule.contains is False or fewest > min(ends, default=fewest):
            return terms
        if rule.contains in (True, {}):
            return [*terms, _array(rule, fewest_items=fewest, most_items=most)]
        if fewest > PLACE_LIMIT:
            problem = f"it requires more than {PLACE_LIMIT} items that match"
            refusal = Refusal("array", "minContains", problem, "use a smaller number")
            return [*terms, _array(rule, refusals=[refusal])]
        length = PLACE_LIMIT if longest is None else min(PLACE_LIMIT, longest)
        length, counts = _countable(fewest, most, length)
        wanted, rest = rule.contains, None
        if most is not None:
            rest = self._negations.negation(wanted, Origin(origin.pointer, "maxContains"))
        is_window = most is not None and length <= most  # any of the first items may match
        for count in counts:
            for places in combinations(range(length), count):
                last = places[-1] + 1 if places else 0
                between = True if rest is None or is_window else rest
                prefix = [wanted if place in places else between for place in range(last)]
                prefix += [True] * (length - last if is_window else 0)
                spend(20)
                terms.append(_array(rule, prefix=prefix, items=rest, fewest_items=last))
        if longest is None or length < longest:
            terms.append(_array(rule, fewest_items=length + 1, omitted=True))
            self.omits_values = True
            problem = f"items that match count only among the first {length}"
            remedy = "set maxItems, or use items"
            where = child_pointer(rule.pointer, origin.keyword)
            self._report(GrammarError(problem, remedy=remedy, pointer=where, narrows=True))
        return terms


def _countable(fewest: int, most: int | None, length: int) -> tuple[int, range]:
    """Return how many places can be counted, and the numbers of items to place in them.

    With `most`, each number has its own terms. If `most` is at least the length, only the fewest
    items are placed, and the others may be anywhere.
    """
    while True:
        last = fewest if most is None or most >= length else most
        counts = range(fewest, last + 1)
        if sum(comb(length, count) for count in counts) <= PLACEMENT_LIMIT:
            return length, counts
        length -= 1


def _array(rule: Constraints, **fields: Any) -> Constraints:
    keywords = frozenset({"contains"})
    return Constraints(rule.pointer, frozenset({"array"}), keywords=keywords, **fields)
