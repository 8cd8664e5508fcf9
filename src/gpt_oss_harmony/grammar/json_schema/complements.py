"""Complements of schemas: a schema in, the ways to violate it out.

A value satisfies a schema object if it satisfies all its keywords, so it violates the object if it
violates one of them. Each way to do so becomes a schema or `Constraints`. A grammar cannot follow
some ways (an array in which *some* item is wrong). These ways become refusals for a type of value,
which matter only if a value of this type is possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError
from .budget import spend
from .constraints import TYPES, Constraints, Refusal, Way, canonical, type_of
from .documents import REFERENCES, Document
from .formats import NARROW_PATTERNS
from .keywords import dependents, read_constraints
from .pattern_automata import select_texts, texts_but

__all__ = ["Complements", "Origin"]

ONE_OF_LIMIT = 8
"""The most schemas of a `oneOf` inside a complement: each pair of them is a way."""

_REMEDIES = {
    "if": "use anyOf of both cases",
    "maxContains": "check it afterwards",
    "not": "describe the allowed values",
    "oneOf": "use anyOf, or give each a required property with its own const",
}


@dataclass(frozen=True)
class Origin:
    """The origin of a complement: a schema and its keyword."""

    pointer: str
    keyword: str


class Complements:
    """Writes the complements of the schemas of a document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._negations: dict[int, Schema] = {}
        self._origins: dict[int, Origin] = {}
        self._present: dict[tuple[int, str], Constraints] = {}

    def joined(self, schemas: Iterable[JsonValue], origin: Origin) -> Schema:
        """Return a schema that requires all of these."""
        return self._document.add({"allOf": list(schemas)}, origin.pointer)

    def negation(self, schema: JsonValue, origin: Origin) -> JsonValue:
        """Return the negation of a schema; `ways` finds its ways on demand."""
        if isinstance(schema, bool):
            return not schema
        if id(schema) not in self._negations:
            negation = self._document.add({"not": schema}, origin.pointer)
            self._origins[id(negation)] = origin
            self._negations[id(schema)] = negation
        return self._negations[id(schema)]

    def present(self, name: str, rule: Constraints) -> Constraints:
        """Return constraints that require a name, as the name that is `beyond` some constraints."""
        key = (id(rule), name)
        if key not in self._present:
            keywords = rule.keywords
            self._present[key] = Constraints(
                rule.pointer, frozenset({"object"}), required=[name], keywords=keywords
            )
        return self._present[key]

    def ways(self, owner: Schema) -> list[Way]:
        """Return the ways to violate the `not` of a schema."""
        schema = owner["not"]
        origin = self._origins.get(id(owner), Origin(self._document.pointer(owner), "not"))
        if isinstance(schema, bool):
            return [] if schema else [True]
        if not isinstance(schema, dict):
            problem = "a schema must be an object or a boolean"
            raise GrammarError(problem, remedy="correct it", pointer=f"{origin.pointer}/not")
        errors: list[GrammarError] = []
        pointer, is_old = self._document.pointer(schema), self._document.is_old
        rule = read_constraints(schema, pointer, errors.append, is_old=is_old)
        if errors:
            return [_refused("", origin)]
        ways = [*self._own_ways(rule, origin), *self._referring_ways(schema, origin)]
        spend(20 * (1 + len(ways)))
        return ways

    def _own_ways(self, rule: Constraints, origin: Origin) -> list[Way]:
        ways: list[Way] = [_refused(refusal.type, origin) for refusal in rule.refusals]
        if rule.values is not None:
            return [*ways, *_other_values(rule, origin)]
        if rule.types != set(TYPES):
            ways.append(Constraints(origin.pointer, frozenset(TYPES) - rule.types))
        others = {
            "number": _other_numbers,
            "string": _other_texts,
            "array": self._other_arrays,
            "object": self._other_objects,
        }
        for name in others:
            if name in rule.types:
                ways += others[name](rule, origin)
        return ways

    def _other_arrays(self, rule: Constraints, origin: Origin) -> list[Way]:
        ways: list[Way] = [_refused("array", origin)] if rule.unique else []
        if rule.fewest_items:
            ways.append(_way("array", origin, most_items=rule.fewest_items - 1))
        if rule.most_items is not None:
            ways.append(_way("array", origin, fewest_items=rule.most_items + 1))
        for index, item in enumerate(rule.prefix):
            negation = self.negation(item, origin)
            if item not in (True, {}):
                prefix = [*[True] * index, negation]
                ways.append(_way("array", origin, fewest_items=index + 1, prefix=prefix))
        if rule.items is False:
            ways.append(_way("array", origin, fewest_items=len(rule.prefix) + 1))
        elif rule.items not in (None, True, {}):
            ways.append(_refused("array", origin))
        return [*ways, *self._other_matches(rule, origin)]

    def _other_matches(self, rule: Constraints, origin: Origin) -> list[Way]:
        counts: list[Schema] = []
        if rule.contains is not None and rule.fewest_matches:
            counts.append({"maxContains": rule.fewest_matches - 1})
        if rule.contains is not None and rule.most_matches is not None:
            counts.append({"minContains": rule.most_matches + 1})
        counted: Schema = {"type": "array", "contains": rule.contains, "minContains": 0}
        return [self._document.add(counted | count, origin.pointer) for count in counts]

    def _other_objects(self, rule: Constraints, origin: Origin) -> list[Way]:
        ways: list[Way] = []
        if rule.fewest_properties:
            ways.append(_way("object", origin, most_properties=rule.fewest_properties - 1))
        if rule.most_properties is not None:
            ways.append(_way("object", origin, fewest_properties=rule.most_properties + 1))
        ways += [_way("object", origin, properties={name: False}) for name in rule.required]
        for name, schema in rule.properties.items():
            if schema not in (True, {}):
                properties = {name: self.negation(schema, origin)}
                ways.append(_way("object", origin, required=[name], properties=properties))
        if any(schema not in (True, {}) for schema in rule.named_by_pattern.values()):
            ways.append(_refused("object", origin))
        if rule.additional is False:
            ways.append(_way("object", origin, beyond=rule, refusals=[_refusal("object", origin)]))
        elif rule.additional not in (None, True, {}):
            ways.append(_refused("object", origin))
        return ways

    def _referring_ways(self, schema: Schema, origin: Origin) -> list[Way]:
        ways: list[Way] = []
        for keyword in REFERENCES:
            if keyword in schema:
                ways.append(self.negation(self._document.referred(schema, keyword), origin))
        if "not" in schema:
            ways.append(schema["not"])
        if "if" in schema:
            condition = schema["if"]
            for holds, keyword in ((condition, "then"), (self.negation(condition, origin), "else")):
                if keyword in schema:
                    violated = self.negation(schema[keyword], origin)
                    ways.append(self.joined([holds, violated], origin))
        ways += self._missing_dependents(schema, origin)
        for keyword in ("allOf", "anyOf", "oneOf"):
            listed = schema.get(keyword)
            if isinstance(listed, list):
                negations = [self.negation(option, origin) for option in listed]
                ways += negations if keyword == "allOf" else [self.joined(negations, origin)]
                if keyword == "oneOf":
                    ways += self._pairs(listed, origin)
        return ways

    def _missing_dependents(self, schema: Schema, origin: Origin) -> list[Way]:
        ways: list[Way] = []
        for name, _, dependent in dependents(schema):
            present = self._document.add({"type": "object", "required": [name]}, origin.pointer)
            if isinstance(dependent, list):
                dependent = self._document.add({"required": dependent}, origin.pointer)
            ways.append(self.joined([present, self.negation(dependent, origin)], origin))
        return ways

    def _pairs(self, schemas: list[JsonValue], origin: Origin) -> list[Way]:
        if len(schemas) > ONE_OF_LIMIT:
            return [_refused("", origin)]
        return [
            self.joined([left, right], origin)
            for index, left in enumerate(schemas)
            for right in schemas[:index]
        ]


def _way(name: str, origin: Origin, **keywords: object) -> Constraints:
    way = Constraints(origin.pointer, frozenset({name}), keywords=frozenset({origin.keyword}))
    for keyword, value in keywords.items():
        setattr(way, keyword, value)
    return way


def _refusal(name: str, origin: Origin) -> Refusal:
    what = f"the {name}s" if name else "the values"
    problem = f"{what} that it excludes cannot be distinguished from the others token by token"
    return Refusal(name, origin.keyword, problem, _REMEDIES.get(origin.keyword, "use anyOf"))


def _refused(name: str, origin: Origin) -> Constraints:
    types = frozenset({name} if name else TYPES)
    refusals = [_refusal(name, origin)]
    return Constraints(
        origin.pointer, types, keywords=frozenset({origin.keyword}), refusals=refusals
    )


def _other_numbers(rule: Constraints, origin: Origin) -> list[Way]:
    ways: list[Way] = []
    if rule.whole:
        ways.append(_way("number", origin, fractional=True, refusals=[_refusal("number", origin)]))
    if rule.lowest is not None:
        number, excluded = rule.lowest
        ways.append(_way("number", origin, highest=(number, not excluded)))
    if rule.highest is not None:
        number, excluded = rule.highest
        ways.append(_way("number", origin, lowest=(number, not excluded)))
    if rule.multiple is not None:
        ways.append(_refused("number", origin))
    return ways


def _other_texts(rule: Constraints, origin: Origin) -> list[Way]:
    ways: list[Way] = []
    if rule.shortest:
        ways.append(_way("string", origin, longest=rule.shortest - 1))
    if rule.longest is not None:
        ways.append(_way("string", origin, shortest=rule.longest + 1))
    for pattern in rule.patterns:
        others = None if pattern in NARROW_PATTERNS else select_texts((), (pattern,))
        if others is None:
            ways.append(_refused("string", origin))
        elif others:
            ways.append(_way("string", origin, patterns=others))
    return ways


def _other_values(rule: Constraints, origin: Origin) -> list[Way]:
    """Return the ways to be none of the listed values."""
    listed = [
        value
        for value in rule.values or ()
        if type_of(value) in rule.types
        and (isinstance(value, (list, dict)) or rule.allows_itself(value))
    ]
    types = frozenset(map(type_of, listed))
    ways: list[Way] = [Constraints(origin.pointer, frozenset(TYPES) - types)]
    ways += [_refused(name, origin) for name in ("array", "object") if name in types]
    if "boolean" in types:
        values: list[JsonValue] = [value for value in (True, False) if value not in listed]
        texts = frozenset(map(canonical, values))
        ways.append(_way("boolean", origin, values=values, value_texts=texts))
    if "number" in types:
        numbers = sorted({_exact(value) for value in listed if type_of(value) == "number"})
        ends = [None, *((number, True) for number in numbers), None]
        ways += [_way("number", origin, lowest=low, highest=high) for low, high in pairwise(ends)]
    texts_listed = [value for value in listed if isinstance(value, str)]
    if texts_listed:
        ways.append(_way("string", origin, patterns=[texts_but(texts_listed)]))
    return ways


def _exact(value: JsonValue) -> Fraction:
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))
