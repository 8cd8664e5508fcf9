"""Negations of schemas: a schema in, the terms that violate it out.

A value satisfies a schema object if it satisfies all its keywords, so it violates the object if it
violates one of them: the negation of a conjunction is a disjunction of negations. Each becomes a
term. A grammar cannot follow some of them (an array in which *some* item is wrong). These become
refusals for a type of value, which matter only if a value of this type is possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError
from .budget import spend
from .constraints import TYPES, Constraints, Refusal, canonical, exact, type_of
from .documents import REFERENCES, Document
from .formats import NARROW_PATTERNS
from .keywords import dependents, read_constraints
from .pattern_automata import select_texts
from .terms import Term

ONE_OF_LIMIT = 8
"""The most schemas of a `oneOf` inside a negation: each pair of them is a term."""

_REMEDIES = {
    "if": "use anyOf of both cases",
    "maxContains": "check it afterwards",
    "not": "describe the allowed values",
    "oneOf": "use anyOf, or give each a required property with its own const",
}


@dataclass(frozen=True)
class Origin:
    """The origin of a negation: a schema and its keyword."""

    pointer: str
    keyword: str


class Negations:
    """Writes the negations of the schemas of a document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._negations: dict[int, Schema] = {}
        self._origins: dict[int, Origin] = {}
        self._present: dict[tuple[int, str], Constraints] = {}

    def joined(self, schemas: Iterable[JsonValue], origin: Origin) -> Schema:
        """Return a schema that requires all of these."""
        return self._document.add({"allOf": list(schemas)}, origin.pointer)

    def negation(self, schema: JsonValue, origin: Origin) -> JsonValue:
        """Return the negation of a schema; `terms` finds its terms on demand."""
        if isinstance(schema, bool):
            return not schema
        if id(schema) not in self._negations:
            negation = self._document.add({"not": schema}, origin.pointer)
            self._origins[id(negation)] = origin
            self._negations[id(schema)] = negation
        return self._negations[id(schema)]

    def present(self, name: str, rule: Constraints) -> Constraints:
        """Return constraints that require a name: the witness that is outside what `rule` names."""
        key = (id(rule), name)
        if key not in self._present:
            keywords = rule.keywords
            self._present[key] = Constraints(
                rule.pointer, frozenset({"object"}), required=[name], keywords=keywords
            )
        return self._present[key]

    def terms(self, owner: Schema) -> list[Term]:
        """Return the terms of the `not` of a schema, one of which must hold."""
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
        # What cannot be read is left out elsewhere, which allows more. Here it would allow less.
        if errors:
            return [_refused("", origin)]
        terms = [*self._of_constraints(rule, origin), *self._of_others(schema, origin)]
        spend(20 * (1 + len(terms)))
        return terms

    def _of_constraints(self, rule: Constraints, origin: Origin) -> list[Term]:
        """Return the terms that violate the schema's own constraints."""
        terms: list[Term] = [_refused(refusal.type, origin) for refusal in rule.refusals]
        if rule.values is not None:
            return [*terms, *_other_values(rule, origin)]
        if rule.types != set(TYPES):
            terms.append(Constraints(origin.pointer, frozenset(TYPES) - rule.types))
        others = {
            "number": _other_numbers,
            "string": _other_texts,
            "array": self._other_arrays,
            "object": self._other_objects,
        }
        for name in others:
            if name in rule.types:
                terms += others[name](rule, origin)
        return terms

    def _other_arrays(self, rule: Constraints, origin: Origin) -> list[Term]:
        terms: list[Term] = [_refused("array", origin)] if rule.unique else []
        if rule.fewest_items:
            terms.append(_term("array", origin, most_items=rule.fewest_items - 1))
        if rule.most_items is not None:
            terms.append(_term("array", origin, fewest_items=rule.most_items + 1))
        for index, item in enumerate(rule.prefix):
            negation = self.negation(item, origin)
            if item not in (True, {}):
                # An item that is not there violates nothing, so the array must reach up to it.
                prefix = [*[True] * index, negation]
                terms.append(_term("array", origin, fewest_items=index + 1, prefix=prefix))
        if rule.items is False:
            terms.append(_term("array", origin, fewest_items=len(rule.prefix) + 1))
        elif rule.items not in (None, True, {}):
            terms.append(_refused("array", origin))
        # Where `minContains` is missing, `contains` requires one match.
        counted: Schema = {"type": "array", "contains": rule.contains, "minContains": 0}
        counts: list[Schema] = []
        if rule.contains is not None and rule.fewest_matches:
            counts.append({"maxContains": rule.fewest_matches - 1})
        if rule.contains is not None and rule.most_matches is not None:
            counts.append({"minContains": rule.most_matches + 1})
        terms += (self._document.add(counted | count, origin.pointer) for count in counts)
        return terms

    def _other_objects(self, rule: Constraints, origin: Origin) -> list[Term]:
        terms: list[Term] = []
        if rule.fewest_properties:
            terms.append(_term("object", origin, most_properties=rule.fewest_properties - 1))
        if rule.most_properties is not None:
            terms.append(_term("object", origin, fewest_properties=rule.most_properties + 1))
        # A property that allows no value is one that is not there.
        terms += [_term("object", origin, properties={name: False}) for name in rule.required]
        for name, schema in rule.properties.items():
            if schema not in (True, {}):
                # Required, because a property that is not there violates nothing.
                properties = {name: self.negation(schema, origin)}
                terms.append(_term("object", origin, required=[name], properties=properties))
        if any(schema not in (True, {}) for schema in rule.named_by_pattern.values()):
            terms.append(_refused("object", origin))
        if rule.additional is False:
            terms.append(
                _term("object", origin, outside=rule, refusals=[_refusal("object", origin)])
            )
        elif rule.additional not in (None, True, {}):
            terms.append(_refused("object", origin))
        return terms

    def _of_others(self, schema: Schema, origin: Origin) -> list[Term]:
        """Return the terms that violate the schemas that a schema refers to."""
        terms: list[Term] = []
        for keyword in REFERENCES:
            if keyword in schema:
                terms.append(self.negation(self._document.referred(schema, keyword), origin))
        if "not" in schema:
            terms.append(schema["not"])
        if "if" in schema:
            condition = schema["if"]
            for holds, keyword in ((condition, "then"), (self.negation(condition, origin), "else")):
                if keyword in schema:
                    violated = self.negation(schema[keyword], origin)
                    terms.append(self.joined([holds, violated], origin))
        if any(True for _ in dependents(schema)):
            terms.append(_refused("object", origin))
        lists = [(keyword, schema.get(keyword)) for keyword in ("allOf", "anyOf", "oneOf")]
        for keyword, listed in lists:
            if isinstance(listed, list):
                # One violated schema violates an `allOf`. The others are violated only if all of
                # them are; that two schemas of a `oneOf` hold is in `_pairs`.
                negations = [self.negation(option, origin) for option in listed]
                terms += negations if keyword == "allOf" else [self.joined(negations, origin)]
        listed = schema.get("oneOf")
        return [*terms, *(self._pairs(listed, origin) if isinstance(listed, list) else ())]

    def _pairs(self, schemas: list[JsonValue], origin: Origin) -> list[Term]:
        """Return the terms in which two schemas of a `oneOf` hold."""
        if len(schemas) > ONE_OF_LIMIT:
            return [_refused("", origin)]
        return [
            self.joined([left, right], origin)
            for index, left in enumerate(schemas)
            for right in schemas[:index]
        ]


def _term(name: str, origin: Origin, **fields: Any) -> Constraints:
    """Return constraints on values of a type."""
    keywords = frozenset({origin.keyword})
    return Constraints(origin.pointer, frozenset({name}), keywords=keywords, **fields)


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


def _other_numbers(rule: Constraints, origin: Origin) -> list[Term]:
    terms: list[Term] = []
    if rule.whole:
        terms.append(
            _term("number", origin, fractional=True, refusals=[_refusal("number", origin)])
        )
    if rule.lowest is not None:
        number, excluded = rule.lowest
        terms.append(_term("number", origin, highest=(number, not excluded)))
    if rule.highest is not None:
        number, excluded = rule.highest
        terms.append(_term("number", origin, lowest=(number, not excluded)))
    if rule.multiple is not None:
        terms.append(_refused("number", origin))
    return terms


def _other_texts(rule: Constraints, origin: Origin) -> list[Term]:
    terms: list[Term] = []
    if rule.shortest:
        terms.append(_term("string", origin, longest=rule.shortest - 1))
    if rule.longest is not None:
        terms.append(_term("string", origin, shortest=rule.longest + 1))
    for pattern in rule.patterns:
        others = None if pattern in NARROW_PATTERNS else select_texts((), (pattern,))
        if others is None:
            terms.append(_refused("string", origin))
        elif others:
            terms.append(_term("string", origin, patterns=others))
    return terms


def _other_values(rule: Constraints, origin: Origin) -> list[Term]:
    """Return terms for all values that are not listed."""
    listed = [
        value
        for value in rule.values or ()
        if type_of(value) in rule.types
        and (isinstance(value, (list, dict)) or rule.allows_itself(value))
    ]
    types = frozenset(map(type_of, listed))
    terms: list[Term] = [Constraints(origin.pointer, frozenset(TYPES) - types)]
    terms += [_refused(name, origin) for name in ("array", "object") if name in types]
    if "boolean" in types:
        values: list[JsonValue] = [value for value in (True, False) if value not in listed]
        texts = frozenset(map(canonical, values))
        terms.append(_term("boolean", origin, values=values, value_texts=texts))
    if "number" in types:
        found = (value for value in listed if type_of(value) == "number")
        numbers = sorted({exact(value) for value in found if isinstance(value, (int, float))})
        # All other numbers are below the first, between two of them, or above the last.
        ends = [None, *((number, True) for number in numbers), None]
        terms += [_term("number", origin, lowest=low, highest=high) for low, high in pairwise(ends)]
    texts_listed = [value for value in listed if isinstance(value, str)]
    if texts_listed:
        terms.append(_term("string", origin, other_than=frozenset(texts_listed)))
    return terms
