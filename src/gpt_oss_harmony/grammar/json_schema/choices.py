"""The choices in a schema: `anyOf`, `oneOf`, `not`, `if`, `contains` and others.

A choice is a list of ways, one of which must hold. A grammar only looks ahead, never back. So
`contains` becomes a list of the places where its items may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import comb

from ...typescript.json_text import JsonValue, Schema
from ..errors import Report
from .budget import spend
from .complements import Complements, Origin
from .constraints import TYPES, Choice, Constraints, Overlap, Refusal, Way
from .documents import Document, child_pointer
from .keywords import dependents, listed_schemas

__all__ = ["PLACE_LIMIT", "WAY_LIMIT", "Choices"]

PLACE_LIMIT = 16
"""`contains` counts items only among the first ones, at most this many."""

WAY_LIMIT = 64
"""The largest number of ways to place them."""


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


class Choices:
    """Finds the choices of the schemas of a document."""

    def __init__(
        self,
        document: Document,
        complements: Complements,
        overlaps: Mapping[str, Overlap],
        report: Report,
    ) -> None:
        self._document = document
        self._complements = complements
        self._overlaps = overlaps
        self._report = report
        self.leave_out = False
        """True if the grammar leaves out a way."""

    def of(self, schema: Schema, rule: Constraints) -> list[Choice]:
        """Return the choices of a schema; `rule` has its own keywords."""
        if _CHOOSING.isdisjoint(schema):
            return []
        pointer = rule.pointer
        choices = list(self._listed(schema, pointer))
        if "not" in schema:
            ways = self._complements.ways(schema)
            choices.append(Choice(child_pointer(pointer, "not"), "not", ways or [False]))
        if "if" in schema and ("then" in schema or "else" in schema):
            holds, fails = self.cases(schema, pointer)
            if schema.get("then", True) is True:
                fails = schema.get("else", True)  # whether the condition holds as well or not
            choices.append(Choice(child_pointer(pointer, "if"), "if", [holds, fails]))
        choices += self._dependents(schema, pointer)
        if rule.contains is not None and rule.values is None and "array" in rule.types:
            places = self.places(rule, Origin(pointer, "contains"))
            if places is not None:
                choices.append(Choice(child_pointer(pointer, "contains"), "contains", places))
        return choices

    def _listed(self, schema: Schema, pointer: str) -> Iterator[Choice]:
        for keyword in ("anyOf", "oneOf"):
            listed = listed_schemas(schema, keyword, pointer, self._report)
            if listed:
                list_pointer = child_pointer(pointer, keyword)
                overlap = self._overlaps.get(list_pointer) if keyword == "oneOf" else None
                ways: list[Way] = [*listed]
                if overlap is not None:
                    ways = self._apart(listed, overlap, Origin(pointer, keyword))
                yield Choice(list_pointer, keyword, ways, keyword == "oneOf" and not overlap)

    def cases(self, schema: Schema, pointer: str) -> tuple[JsonValue, JsonValue]:
        """Return schemas for both cases of an `if`: its condition holds, or it does not."""
        origin = Origin(pointer, "if")
        condition, then, other = (schema.get(key, True) for key in ("if", "then", "else"))
        negation = self._complements.negation(condition, origin)
        if then is not True:
            condition = self._complements.joined([condition, then], origin)
        return condition, self._complements.joined([negation, other], origin)

    def _dependents(self, schema: Schema, pointer: str) -> Iterator[Choice]:
        for name, keyword, dependent in dependents(schema):
            absent = Constraints(pointer, properties={name: False}, keywords=frozenset({keyword}))
            present: Schema = {"type": "object", "required": [name]}
            if isinstance(dependent, list):
                present["required"] = [*dependent, name]
            else:
                present["allOf"] = [dependent]
            both: list[Way] = [absent, self._document.add(present, pointer)]
            yield Choice(child_pointer(pointer, keyword, name), keyword, both)

    def _apart(self, schemas: list[JsonValue], overlap: Overlap, origin: Origin) -> list[Way]:
        """Return schemas that replace those of a `oneOf`; no two of them hold at once."""
        complements = self._complements
        if overlap.tag is not None:
            tagged = self._document.add({"required": [overlap.tag]}, origin.pointer)
            return [complements.joined([schema, tagged], origin) for schema in schemas]
        apart: list[Way] = []
        for index, schema in enumerate(schemas):
            joined = [schema]
            for other, excluded in enumerate(schemas):
                shared = overlap.types.get((min(index, other), max(index, other)))
                if index == other or not shared:
                    continue
                types: list[JsonValue] = [name for name in TYPES if name in shared]
                rest: list[JsonValue] = [name for name in TYPES if name not in shared]
                negation = complements.joined(
                    [{"type": types}, complements.negation(excluded, origin)], origin
                )
                spend(20)
                joined.append({"anyOf": [{"type": rest}, negation]} if rest else negation)
            apart.append(complements.joined(joined, origin))
        return apart

    def places(self, rule: Constraints, origin: Origin) -> list[Way] | None:
        """Return the ways in which an array has as many items as `contains` requires.

        None if every array has. Arrays that match only after the places that the grammar counts are
        a way that is not written.
        """
        fewest, most = rule.fewest_matches, rule.most_matches
        if fewest == 0 and (most is None or rule.contains is False):
            return None
        ways: list[Way] = [Constraints(rule.pointer, frozenset(TYPES) - {"array"})]
        longest = rule.most_items
        ends = [end for end in (most, longest) if end is not None]
        if rule.contains is False or fewest > min(ends, default=fewest):
            return ways
        if rule.contains in (True, {}):
            return [*ways, _array(rule, fewest_items=fewest, most_items=most)]
        if fewest > PLACE_LIMIT:
            problem = f"it requires more than {PLACE_LIMIT} items that match"
            refusal = Refusal("array", "minContains", problem, "use a smaller number")
            return [*ways, _array(rule, refusals=[refusal])]
        length = PLACE_LIMIT if longest is None else min(PLACE_LIMIT, longest)
        length, counts = _countable(fewest, most, length)
        wanted, rest = rule.contains, None
        if most is not None:
            rest = self._complements.negation(wanted, Origin(origin.pointer, "maxContains"))
        is_window = most is not None and length <= most  # any of the first items may match
        for count in counts:
            for places in combinations(range(length), count):
                last = places[-1] + 1 if places else 0
                between = True if rest is None or is_window else rest
                prefix = [wanted if place in places else between for place in range(last)]
                prefix += [True] * (length - last if is_window else 0)
                spend(20)
                ways.append(_array(rule, prefix=prefix, items=rest, fewest_items=last))
        if longest is None or length < longest:
            ways.append(_array(rule, fewest_items=length + 1, unwritten=True))
            self.leave_out = True
        return ways


def _countable(fewest: int, most: int | None, length: int) -> tuple[int, range]:
    """Return how many places can be counted, and the numbers of items to place in them.

    With `most`, each number has its own ways. If `most` is at least the length, only the fewest
    items are placed, and the others may be anywhere.
    """
    while True:
        last = fewest if most is None or most >= length else most
        counts = range(fewest, last + 1)
        if sum(comb(length, count) for count in counts) <= WAY_LIMIT:
            return length, counts
        length -= 1


def _array(rule: Constraints, **keywords: object) -> Constraints:
    way = Constraints(rule.pointer, frozenset({"array"}), keywords=frozenset({"contains"}))
    for keyword, value in keywords.items():
        setattr(way, keyword, value)
    return way
