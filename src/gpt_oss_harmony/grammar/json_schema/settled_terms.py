"""Terms that the constraints beside them settle: they hold anyway, or cannot hold.

Where schemas of a `oneOf` are set apart, terms say "there is a `country`, and it is not CAN".
Beside a `country` that is MEX, this says only that there is one; beside one that is CAN, it cannot
hold. So schemas with several properties combine in a few ways instead of hundreds.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...typescript.json_text import JsonValue
from ..errors import GrammarError
from .budget import spend
from .constraints import Constraints
from .documents import Document
from .keywords import READ
from .listed_values import ListedValues
from .states import State
from .terms import Disjunction, Term


class SettledTerms:
    """Compares the terms of negations with other constraints of a document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._errors: list[GrammarError] = []  # about schemas that values cannot be tested against
        self._listed_values = ListedValues(document, self._errors.append)
        self._terms: dict[tuple[str, str, bool, str], Constraints] = {}
        self._known: dict[tuple[int, int], bool | None] = {}
        self._texts: dict[int, str] = {}

    def of(
        self, disjunction: Disjunction, constraints: list[Constraints]
    ) -> list[tuple[Term, ...]] | None:
        """Return conjunctions, one of which must hold, for a disjunction; None if it holds anyway.

        Where one says that a property is none of some constants, those about other properties say
        that it is one of them. So they hold of other values, and the constants settle more.
        """
        if disjunction.keyword != "not":
            return [(term,) for term in disjunction.terms]
        terms = [self._settled(term, constraints) for term in disjunction.terms]
        if any(term is True for term in terms):
            return None
        rules = [term for term in terms if isinstance(term, Constraints)]
        present = {name for rule in constraints for name in rule.required}
        present |= {name for rule in rules if not rule.required for name in rule.properties}
        for rule in rules:
            for name in present.intersection(rule.required):
                constants = _negated(rule.properties.get(name))
                if _listed(constants) is not None:
                    one = Constraints(
                        rule.pointer,
                        rule.types,
                        required=[name],
                        properties={name: constants},
                        keywords=rule.keywords,
                    )
                    one = self._alike(one, name, constants)
                    return [
                        (term, one) if _is_about_others(term, name) else (term,) for term in terms
                    ]
        return [(term,) for term in terms]

    def _settled(self, term: Term, constraints: list[Constraints]) -> Term:
        """Return a term about a property, or a simpler one that means the same beside constraints.

        It is True if the term holds anyway, and False if it cannot hold.
        """
        if not isinstance(term, Constraints) or len(term.properties) != 1:
            return term
        [(name, schema)] = term.properties.items()
        is_required = any(name in rule.required for rule in constraints)
        if not term.required and is_required:
            return False
        others = {id(one): one for rule in constraints for one in rule.schemas_of(name)}
        spend(5 + 5 * len(others))
        implied = {self._implied(schema, other) for other in others.values()}
        if self._errors:
            return term
        if False in implied and term.required:
            return False
        if True not in implied:
            return self._alike(term, name, schema)
        is_object = frozenset[str].intersection(*(rule.types for rule in constraints)) == {"object"}
        if is_object and (is_required or not term.required):
            return True
        if not term.required:
            return self._alike(term, name, schema)
        present = Constraints(term.pointer, term.types, required=[name], keywords=term.keywords)
        return self._alike(present, name, True)

    def _alike(self, term: Constraints, name: str, schema: JsonValue) -> Constraints:
        """Return the first term that says the same of a property, so that equal states are one."""
        text = self._text(schema)
        pointer = self._document.pointer(schema) if isinstance(schema, dict) else term.pointer
        key = pointer, name, bool(term.required), text
        # The same `$ref` may lead to another schema elsewhere.
        return term if "$" in text else self._terms.setdefault(key, term)

    def _implied(self, schema: JsonValue, other: JsonValue) -> bool | None:
        """Return whether another schema implies this one; False if it excludes this one."""
        key = id(schema), id(other)  # ids stay valid: both are parts of the document
        if key not in self._known:
            self._known[key] = self._compare(schema, other)
        return self._known[key]

    def _compare(self, schema: JsonValue, other: JsonValue) -> bool | None:
        if other is False:
            return schema is False
        negated = _negated(schema)
        if self._are_same(schema, other):
            return True
        if negated is not None and self._are_same(negated, other):
            return False
        values = _listed(other)
        if values is not None:
            possible = [value for value in values if self._is_valid(value, other)]
            allowed = [value for value in possible if self._is_valid(value, schema)]
            return None if 0 < len(allowed) < len(possible) else bool(allowed)
        excluded = _listed(negated)
        if excluded is not None and not any(
            self._is_valid(value, negated) and self._is_valid(value, other) for value in excluded
        ):
            return True
        return None

    def _is_valid(self, value: JsonValue, schema: JsonValue) -> bool:
        return self._listed_values.valid(value, schema, "")

    def _are_same(self, left: JsonValue, right: JsonValue) -> bool:
        """Return whether two schemas without references say the same."""
        text = self._text(left)
        return left is right or ("$" not in text and text == self._text(right))

    def _text(self, schema: JsonValue) -> str:
        """Return the keywords of a schema that are read."""
        text = self._texts.get(id(schema))
        if text is None:
            read: JsonValue = schema
            if isinstance(schema, dict):
                read = {
                    keyword: self._text(value) if keyword == "not" else value
                    for keyword, value in schema.items()
                    if keyword in READ
                }
            text = repr(read)
            spend(len(text) // 8)
            self._texts[id(schema)] = text
        return text


def absorb(states: Iterable[State]) -> None:
    """Leave out alternatives that require all that another requires, and more."""
    for state in states:
        if state.alternatives is None or state.exclusive:
            continue
        single = _single_alternatives(state)
        if len(single) > _MOST_COMPARED:
            continue
        spend(len(single) ** 2 // 4)
        atoms = [frozenset(one.atoms) for one in single]
        kept = [
            one
            for one, of_one in zip(single, atoms, strict=True)
            if not any(other < of_one for other in atoms)
        ]
        if len(kept) < len(single):
            state.alternatives = kept


_MOST_COMPARED = 200


def _single_alternatives(state: State) -> list[State]:
    """Return the alternatives of a state and of those that have some themselves."""
    found: dict[State, None] = {}
    waiting, met = [state], {state}
    while waiting:
        inner = waiting.pop()
        if inner.alternatives is None or inner.exclusive:
            found[inner] = None
            continue
        fresh = [one for one in reversed(inner.alternatives) if one not in met]
        met.update(fresh)
        waiting += fresh
    return [*found]


def _is_about_others(term: Term, name: str) -> bool:
    """Return whether a term says something of other properties than this one, and is possible."""
    return isinstance(term, Constraints) and bool(term.properties) and name not in term.properties


def _negated(schema: JsonValue) -> JsonValue:
    """Return the schema of which another is the negation; None for others."""
    return schema["not"] if isinstance(schema, dict) and [*schema] == ["not"] else None


def _listed(schema: JsonValue) -> list[JsonValue] | None:
    values = schema.get("enum") if isinstance(schema, dict) else None
    return values if isinstance(values, list) else None
