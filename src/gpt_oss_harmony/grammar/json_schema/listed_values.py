"""Values that `enum` and `const` list: tested one by one against the other constraints."""

from __future__ import annotations

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError, Report, raise_error
from .budget import spend
from .constraints import Constraints, canonical, type_of
from .documents import REFERENCES, Document, child_pointer
from .keywords import dependents, read_constraints

TEST_LIMIT = 200_000
"""The most tests of listed values against schemas."""

_DEPTH_LIMIT = 200


class ListedValues:
    """Tests values against the schemas of a document."""

    def __init__(self, document: Document, report: Report = raise_error) -> None:
        self._document = document
        self._report = report
        self._is_loosened = False
        self._read: dict[int, Constraints] = {}
        self._tested: dict[tuple[int, int], bool] = {}
        self._depth = 0
        self._tests_left = TEST_LIMIT

    def common(self, constraints: list[Constraints]) -> list[JsonValue] | None:
        """Return the listed values that satisfy all constraints; None if no values are listed."""
        listed = [rule for rule in constraints if rule.values is not None]
        if not listed:
            return None
        shortest = min(listed, key=lambda rule: len(rule.values or ()))
        kept: dict[str, JsonValue] = {}
        for value in shortest.values or ():
            if all(self._satisfies(value, rule) for rule in constraints):
                kept.setdefault(canonical(value), value)
        return list(kept.values())

    def _satisfies(self, value: JsonValue, rule: Constraints) -> bool:
        """Return whether a value satisfies the keywords of one schema object."""
        spend(10)
        self._tests_left -= 1
        if self._tests_left < 0:
            problem = f"listed values need more than {TEST_LIMIT:,} tests"
            remedy = "list fewer values, or use fewer keywords beside them"
            return self._loosened(GrammarError(problem, remedy=remedy, pointer=rule.pointer))
        for refusal in rule.refusals:
            if refusal.type in ("", type_of(value)):
                self._loosened(refusal.error(rule))
        if type_of(value) not in rule.types:
            return False
        if rule.values is not None and canonical(value) not in rule.value_texts:
            return False
        if not rule.allows_itself(value) or not all(
            self.valid(inner, schema, rule.pointer) for inner, schema in rule.inside(value)
        ):
            return False
        if rule.contains is None or not isinstance(value, list):
            return True
        matches = sum(self.valid(item, rule.contains, rule.pointer) for item in value)
        is_enough = matches >= rule.fewest_matches
        return is_enough and (
            self._is_loosened or rule.most_matches is None or matches <= rule.most_matches
        )

    def _loosened(self, error: GrammarError) -> bool:
        """Report a schema that cannot be tested; every value passes it."""
        self._report(error)
        self._is_loosened = True
        return True

    def valid(self, value: JsonValue, schema: JsonValue, pointer: str) -> bool:
        """Return whether a value satisfies a schema and everything that the schema refers to."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict) or self._depth > _DEPTH_LIMIT:
            problem = "a listed value cannot be tested against it"
            return self._loosened(GrammarError(problem, remedy="correct it", pointer=pointer))
        pair = (id(value), id(schema))  # ids stay valid: both objects are parts of the document
        spend(2)
        if pair not in self._tested:
            self._depth += 1
            self._tested[pair] = self._valid_object(value, schema)
            self._depth -= 1
        return self._tested[pair]

    def _valid_object(self, value: JsonValue, schema: Schema) -> bool:
        pointer = self._document.pointer(schema)
        for keyword in [keyword for keyword in REFERENCES if keyword in schema]:
            try:
                target = self._document.referred(schema, keyword)
            except GrammarError as error:
                target = self._loosened(error)
            if not self.valid(value, target, pointer):
                return False
        if not self._cases_hold(value, schema, pointer):
            return False
        for keyword in ("allOf", "anyOf", "oneOf"):
            listed = schema.get(keyword)
            if isinstance(listed, list):
                list_pointer = child_pointer(pointer, keyword)
                valid = sum(self.valid(value, option, list_pointer) for option in listed)
                most = 1 if keyword == "oneOf" and not self._is_loosened else len(listed)
                if not (len(listed) if keyword == "allOf" else 1) <= valid <= most:
                    return False
        if id(schema) not in self._read:
            self._read[id(schema)] = read_constraints(
                schema, pointer, self._loosened, is_old=self._document.is_old
            )
        return self._satisfies(value, self._read[id(schema)])

    def _cases_hold(self, value: JsonValue, schema: Schema, pointer: str) -> bool:
        """Return whether a value satisfies `not`, `if` and dependencies."""
        # Once a test is loosened, `valid` may be true of too many values. What depends on that from
        # here on may allow too much, but never reject a value that is allowed.
        if "not" in schema and self.valid(value, schema["not"], pointer):
            return self._is_loosened
        if "if" in schema and not self._is_loosened:
            keyword = "then" if self.valid(value, schema["if"], pointer) else "else"
            if not self._is_loosened and not self.valid(value, schema.get(keyword, True), pointer):
                return False
        for name, _, dependent in dependents(schema):
            if isinstance(value, dict) and name in value:
                if isinstance(dependent, list):
                    if not value.keys() >= set(map(str, dependent)):
                        return False
                elif not self.valid(value, dependent, pointer):
                    return False
        return True
