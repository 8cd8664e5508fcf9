"""Cases of `unevaluatedProperties` and `unevaluatedItems`: a schema in, a choice of cases out.

Both keywords apply to the properties or items that no other valid schema of the same value
evaluates. Which schemas are valid depends on choices (`anyOf`, `oneOf`, `if`, `dependentSchemas`).
A case makes these choices and forbids everything that its schemas do not evaluate. More valid
schemas only allow more values, so no case needs to state that a schema is invalid. All cases
together allow exactly what the keyword allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError
from .budget import spend
from .choices import Choices
from .constraints import Case, Choice, Constraints, Parts, Way
from .documents import Document, child_pointer

__all__ = ["CASE_LIMIT", "Evaluations"]

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

    def joined(self, other: _Evaluated) -> _Evaluated:
        """Return the names and items that either evaluates."""
        return _Evaluated(
            tuple(dict.fromkeys((*self.names, *other.names))),
            tuple(dict.fromkeys((*self.patterns, *other.patterns))),
            max(self.first_items, other.first_items),
            (*self.matches, *(match for match in other.matches if match not in self.matches)),
        )


_NOTHING = _Evaluated()


@dataclass(frozen=True)
class _Outcome:
    """Some choices, and what the schemas then evaluate; None: everything."""

    evaluated: _Evaluated | None = _NOTHING
    picks: dict[Choice, tuple[Way, ...]] = field(default_factory=dict)
    further: tuple[Way, ...] = ()

    def joined(self, other: _Outcome) -> _Outcome | None:
        """Return the outcome of both; None if they make a choice in different ways."""
        if any(other.picks.get(choice, ways) != ways for choice, ways in self.picks.items()):
            return None
        both = None
        if self.evaluated is not None and other.evaluated is not None:
            both = self.evaluated.joined(other.evaluated)
        return _Outcome(both, self.picks | other.picks, (*self.further, *other.further))


_Outcomes = list[_Outcome]


class Evaluations:
    """Finds the cases of the schemas of a document; `parts_of` returns a schema's parts."""

    def __init__(
        self, document: Document, choices: Choices, parts_of: Callable[[Schema], Parts]
    ) -> None:
        self._document = document
        self._choices = choices
        self._parts_of = parts_of

    def cases(self, parts: Parts, kind: str) -> Choice:
        """Return the cases of a schema for objects or arrays.

        Raises `GrammarError` if there are too many.
        """
        keyword, schema = _KEYWORDS[kind], parts.schema
        pointer = self._document.pointer(schema)
        cases: list[Way] = []
        for outcome in self._inside(parts, kind, (id(schema),)):
            closing = None
            if outcome.evaluated is not None:
                closing = self._closing(schema[keyword], outcome.evaluated, pointer, kind)
            cases.append(Case(schema, outcome.picks, outcome.further, closing))
        return Choice(child_pointer(pointer, keyword), keyword, cases)

    def evaluates_all(self, parts: Parts, kind: str) -> bool:
        """Return whether a schema evaluates all names or items, or may if it could be read."""
        if parts.is_partial:
            return True
        if kind == "object":
            return "additionalProperties" in parts.schema or parts.constraints.unread
        return parts.constraints.items is not None

    def _own(self, parts: Parts, kind: str) -> _Evaluated:
        rule = parts.constraints
        if kind == "object":
            properties = parts.schema.get("properties")
            names = tuple(properties) if isinstance(properties, dict) else ()
            return _Evaluated(names, parts.patterns)
        # Since draft 2020-12, the items that match `contains` are evaluated.
        matches = () if rule.contains is None or self._document.is_2019 else (rule.contains,)
        return _Evaluated(first_items=len(rule.prefix), matches=matches)

    def _closing(
        self, others: JsonValue, evaluated: _Evaluated, pointer: str, kind: str
    ) -> Constraints:
        keywords = frozenset({_KEYWORDS[kind]})
        if kind == "object":
            names: dict[str, JsonValue] = dict.fromkeys(evaluated.names, True)
            patterns: dict[str, JsonValue] = dict.fromkeys(evaluated.patterns, True)
            return Constraints(
                pointer,
                properties=names,
                named_by_pattern=patterns,
                additional=others,
                keywords=keywords,
            )
        if evaluated.matches:
            others = self._document.add({"anyOf": [*evaluated.matches, others]}, pointer)
        prefix: list[JsonValue] = [True] * evaluated.first_items
        return Constraints(pointer, prefix=prefix, items=others, keywords=keywords)

    def _of_way(self, way: Way, kind: str, path: tuple[int, ...]) -> _Outcomes:
        """Return the outcomes of a valid schema."""
        if not isinstance(way, dict):
            return [_Outcome()]
        if id(way) in path:
            raise GrammarError("the schema refers to itself without end")
        parts = self._parts_of(way)
        if _KEYWORDS[kind] in way or self.evaluates_all(parts, kind):
            return [_Outcome(None)]
        return self._inside(parts, kind, (*path, id(way)))

    def _inside(self, parts: Parts, kind: str, path: tuple[int, ...]) -> _Outcomes:
        outcomes = [_Outcome(self._own(parts, kind))]
        for joined in parts.joined:
            outcomes = _both(outcomes, self._of_way(joined, kind, path))
        for choice in parts.choices:
            if choice.keyword in _APPLYING:
                outcomes = _both(outcomes, self._of_choice(choice, kind, path))
        if "if" in parts.schema:
            outcomes = _both(outcomes, self._of_condition(parts, kind, path))
        return outcomes

    def _of_choice(self, choice: Choice, kind: str, path: tuple[int, ...]) -> _Outcomes:
        by_way = [(way, self._of_way(way, kind, path)) for way in choice.schemas]
        telling = [(way, outcomes) for way, outcomes in by_way if any(map(_tells, outcomes))]
        # If the schemas of a choice evaluate nothing, the choice stays open.
        made = [_Outcome()] if len(telling) < len(by_way) else []
        most = len(telling) if choice.keyword == "anyOf" else min(1, len(telling))
        if 2**most > 2 * CASE_LIMIT:
            raise _MANY
        for count in range(1, most + 1):
            for held in combinations(telling, count):
                outcomes = [_Outcome(picks={choice: tuple(way for way, _ in held)})]
                for _, of_way in held:
                    outcomes = _both(outcomes, of_way)
                made += outcomes
        return made

    def _of_condition(self, parts: Parts, kind: str, path: tuple[int, ...]) -> _Outcomes:
        schema = parts.schema
        choice = next((choice for choice in parts.choices if choice.keyword == "if"), None)
        holds, fails = self._choices.cases(schema, parts.constraints.pointer)
        made: _Outcomes = []
        is_silent = False
        for way in (holds, fails):
            outcomes = self._of_way(way, kind, path)
            if not any(map(_tells, outcomes)):
                is_silent = True
                continue
            pick = _Outcome(further=(way,)) if choice is None else _Outcome(picks={choice: (way,)})
            made += _both([pick], outcomes)
        return [_Outcome(), *made] if is_silent else made


def _tells(outcome: _Outcome) -> bool:
    return outcome.evaluated != _NOTHING


def _both(left: Iterable[_Outcome], right: _Outcomes) -> _Outcomes:
    pairs = (one.joined(other) for one in left for other in right)
    both = [outcome for outcome in pairs if outcome is not None]
    spend(10 * len(both))
    if len(both) > CASE_LIMIT:
        raise _MANY
    return both
