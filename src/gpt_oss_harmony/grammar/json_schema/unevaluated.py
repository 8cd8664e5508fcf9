"""`unevaluatedProperties` and `unevaluatedItems`: a schema in, a disjunction of cases out.

Both keywords apply to the properties or items that no other valid schema of the same value
evaluates. Which schemas are valid depends on disjunctions (`anyOf`, `oneOf`, `if`,
`dependentSchemas`). A case decides these and forbids everything that its schemas do not evaluate.
More valid schemas only allow more values, so no case needs to state that a schema is invalid. All
cases together allow exactly what the keyword allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeVar

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError
from .budget import spend
from .constraints import Constraints
from .disjunctions import Disjunctions
from .documents import Document, child_pointer
from .terms import Case, Disjunction, NormalForm, Term

CASE_LIMIT = 64
"""The most cases of one keyword."""

_KEYWORDS = {"object": "unevaluatedProperties", "array": "unevaluatedItems"}
_APPLYING = ("anyOf", "oneOf", "dependentSchemas")  # beside `if`
_MANY = GrammarError("too many combinations of other schemas are possible")


@dataclass(frozen=True)
class _Evaluated:
    """The names and items of a value that schemas evaluate."""

    names: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    first_items: int = 0
    matches: tuple[JsonValue, ...] = ()
    """Items that satisfy one of these."""


_NOTHING = _Evaluated()
_T = TypeVar("_T")


@dataclass(frozen=True)
class _Outcome:
    """Some decisions, and what the schemas then evaluate; None: everything."""

    evaluated: _Evaluated | None = _NOTHING
    decisions: dict[Disjunction, tuple[Term, ...]] = field(default_factory=dict)
    also: tuple[Term, ...] = ()


class Unevaluated:
    """Finds the cases of the schemas of a document."""

    def __init__(
        self,
        document: Document,
        disjunctions: Disjunctions,
        normal_form: Callable[[Schema], NormalForm],
    ) -> None:
        self._document = document
        self._disjunctions = disjunctions
        self._normal_form = normal_form

    def cases(self, form: NormalForm, kind: str) -> Disjunction:
        """Return the cases of a schema for objects or arrays.

        Raises `GrammarError` if there are too many.
        """
        keyword, schema = _KEYWORDS[kind], form.schema
        pointer = self._document.pointer(schema)
        cases: list[Term] = []
        for outcome in self._of_form(form, kind, (id(schema),)):
            closing = None
            if outcome.evaluated is not None:
                closing = self._closing(schema[keyword], outcome.evaluated, pointer, kind)
            cases.append(Case(schema, outcome.decisions, outcome.also, closing))
        return Disjunction(child_pointer(pointer, keyword), keyword, cases)

    def evaluates_all(self, form: NormalForm, kind: str) -> bool:
        """Return whether a schema evaluates all names or items, or may if it could be read."""
        if form.is_partial:
            return True
        if kind == "object":
            return "additionalProperties" in form.schema or form.constraints.unread
        return form.constraints.items is not None

    def _closing(
        self, others: JsonValue, evaluated: _Evaluated, pointer: str, kind: str
    ) -> Constraints:
        """Return constraints that apply the schema `others` to everything unevaluated."""
        keywords = frozenset({_KEYWORDS[kind]})
        if kind == "object":
            return Constraints(
                pointer,
                properties=dict.fromkeys(evaluated.names, True),
                named_by_pattern=dict.fromkeys(evaluated.patterns, True),
                additional=others,
                keywords=keywords,
            )
        if evaluated.matches:
            others = self._document.add({"anyOf": [*evaluated.matches, others]}, pointer)
        prefix: list[JsonValue] = [True] * evaluated.first_items
        return Constraints(pointer, prefix=prefix, items=others, keywords=keywords)

    def _of_form(self, form: NormalForm, kind: str, path: tuple[int, ...]) -> list[_Outcome]:
        """Return the outcomes of a valid schema and of all that it joins."""
        rule = form.constraints
        if kind == "object":
            properties = form.schema.get("properties")
            names = tuple(properties) if isinstance(properties, dict) else ()
            own = _Evaluated(names, form.name_patterns)
        else:
            # Since draft 2020-12, the items that match `contains` are evaluated.
            has_matches = rule.contains is not None and not self._document.is_2019
            matches = (rule.contains,) if has_matches else ()
            own = _Evaluated(first_items=len(rule.prefix), matches=matches)
        outcomes = [_Outcome(own)]
        for term in form.conjuncts:
            outcomes = _both(outcomes, self._of_term(term, kind, path))
        for disjunction in form.disjunctions:
            if disjunction.keyword in _APPLYING:
                outcomes = _both(outcomes, self._of_disjunction(disjunction, kind, path))
        if "if" in form.schema:
            outcomes = _both(outcomes, self._of_condition(form, kind, path))
        return outcomes

    def _of_term(self, term: Term, kind: str, path: tuple[int, ...]) -> list[_Outcome]:
        if not isinstance(term, dict):
            return [_Outcome()]
        if id(term) in path:
            raise GrammarError("the schema refers to itself without end")
        form = self._normal_form(term)
        if _KEYWORDS[kind] in term or self.evaluates_all(form, kind):
            return [_Outcome(None)]
        return self._of_form(form, kind, (*path, id(term)))

    def _of_disjunction(
        self, disjunction: Disjunction, kind: str, path: tuple[int, ...]
    ) -> list[_Outcome]:
        """Return an outcome for each set of terms that may hold and that evaluate something."""
        outcomes_of = [(term, self._of_term(term, kind, path)) for term in disjunction.terms]
        evaluating = [(term, of_term) for term, of_term in outcomes_of if _evaluate(of_term)]
        # The terms that evaluate nothing need no decision.
        found = [_Outcome()] if len(evaluating) < len(outcomes_of) else []
        most = len(evaluating) if disjunction.keyword == "anyOf" else min(1, len(evaluating))
        if 2**most > 2 * CASE_LIMIT:
            raise _MANY
        for count in range(1, most + 1):
            for held in combinations(evaluating, count):
                terms = tuple(term for term, _ in held)
                outcomes = [_Outcome(decisions={disjunction: terms})]
                for _, of_term in held:
                    outcomes = _both(outcomes, of_term)
                found += outcomes
        return found

    def _of_condition(self, form: NormalForm, kind: str, path: tuple[int, ...]) -> list[_Outcome]:
        """Return the outcomes of an `if` that holds, and of one that does not."""
        disjunction = next((found for found in form.disjunctions if found.keyword == "if"), None)
        cases = self._disjunctions.cases(form.schema, form.constraints.pointer)
        outcomes_of = [(term, self._of_term(term, kind, path)) for term in cases]
        evaluating = [(term, of_term) for term, of_term in outcomes_of if _evaluate(of_term)]
        found = [_Outcome()] if len(evaluating) < len(cases) else []
        for term, of_term in evaluating:
            decided = _Outcome(also=(term,))
            if disjunction is not None:
                decided = _Outcome(decisions={disjunction: (term,)})
            found += _both([decided], of_term)
        return found


def _evaluate(outcomes: list[_Outcome]) -> bool:
    return any(outcome.evaluated != _NOTHING for outcome in outcomes)


def _union(left: tuple[_T, ...], right: tuple[_T, ...]) -> tuple[_T, ...]:
    return (*left, *(value for value in right if value not in left))


def _both(left: list[_Outcome], right: list[_Outcome]) -> list[_Outcome]:
    """Return the outcomes that combine one of each; decisions must not contradict each other."""
    both = []
    for one in left:
        for other in right:
            decisions = one.decisions | other.decisions
            # In the two orders, the unions differ where both decide the same disjunction in another
            # way.
            if decisions != other.decisions | one.decisions:
                continue
            evaluated = None
            if one.evaluated is not None and other.evaluated is not None:
                evaluated = _Evaluated(
                    _union(one.evaluated.names, other.evaluated.names),
                    _union(one.evaluated.patterns, other.evaluated.patterns),
                    max(one.evaluated.first_items, other.evaluated.first_items),
                    _union(one.evaluated.matches, other.evaluated.matches),
                )
            both.append(_Outcome(evaluated, decisions, (*one.also, *other.also)))
    spend(10 * len(both))
    if len(both) > CASE_LIMIT:
        raise _MANY
    return both
