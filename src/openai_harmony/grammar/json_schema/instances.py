"""Whether a JSON value satisfies a schema: for the few values that `enum` and `const` list."""

from __future__ import annotations

from fractions import Fraction

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError
from .json_values import canonical
from .keywords import Constraints, read_constraints
from .patterns import pattern_accepts
from .references import Document, child_pointer

__all__ = ["Instances"]

TEST_LIMIT = 200_000
"""How many times a listed value may be tested against a schema."""

_DEPTH_LIMIT = 200


class Instances:
    """Tests values against the schemas of a document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._read: dict[int, Constraints] = {}
        self._tested: dict[tuple[int, int], bool] = {}
        self._depth = 0
        self._room = TEST_LIMIT

    def satisfies(self, value: JsonValue, rule: Constraints) -> bool:
        """Whether a value satisfies what one schema object says itself."""
        self._room -= 1
        if self._room < 0:
            raise GrammarError(
                f"listed values need more than {TEST_LIMIT:,} tests",
                remedy="list fewer values, beside fewer other keywords",
                pointer=rule.pointer,
            )
        for refusal in rule.refusals:
            if refusal.type in ("", type_of(value)):
                raise GrammarError(
                    refusal.problem, remedy=refusal.remedy, pointer=rule.place(refusal.keyword)
                )
        if type_of(value) not in rule.types:
            return False
        if rule.values is not None and canonical(value) not in rule.value_texts:
            return False
        if isinstance(value, str):
            return satisfies_text(value, rule)
        if isinstance(value, list):
            return self._satisfies_items(value, rule)
        if isinstance(value, dict):
            return self._satisfies_properties(value, rule)
        if isinstance(value, bool) or value is None:
            return True
        return satisfies_number(value, rule)

    def _valid(self, value: JsonValue, schema: JsonValue, pointer: str) -> bool:
        """Whether a value satisfies a schema with all that it refers to."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict) or self._depth > _DEPTH_LIMIT:
            problem = "a listed value cannot be tested against it"
            raise GrammarError(problem, remedy="correct it", pointer=pointer)
        pair = (id(value), id(schema))  # both stay: they are parts of the document
        if pair not in self._tested:
            self._depth += 1
            self._tested[pair] = self._valid_object(value, schema)
            self._depth -= 1
        return self._tested[pair]

    def _valid_object(self, value: JsonValue, schema: Schema) -> bool:
        pointer = self._document.pointer(schema)
        if "$ref" in schema and not self._valid(value, self._document.referred(schema), pointer):
            return False
        for keyword in ("allOf", "anyOf", "oneOf"):
            listed = schema.get(keyword)
            if isinstance(listed, list):
                place = child_pointer(pointer, keyword)
                valid = sum(self._valid(value, one, place) for one in listed)
                if not {"allOf": valid == len(listed), "anyOf": valid > 0}.get(keyword, valid == 1):
                    return False
        if id(schema) not in self._read:
            self._read[id(schema)] = read_constraints(schema, pointer)
        return self.satisfies(value, self._read[id(schema)])

    def _satisfies_items(self, items: list[JsonValue], rule: Constraints) -> bool:
        if not rule.fewest_items <= len(items) <= _most(rule.most_items, items):
            return False
        for index, item in enumerate(items):
            schema = rule.prefix[index] if index < len(rule.prefix) else rule.items
            if schema is not None and not self._valid(item, schema, rule.pointer):
                return False
        return True

    def _satisfies_properties(self, value: dict[str, JsonValue], rule: Constraints) -> bool:
        if not rule.fewest_properties <= len(value) <= _most(rule.most_properties, value):
            return False
        if not value.keys() >= set(rule.required):
            return False
        for name, item in value.items():
            schemas = [rule.properties[name]] if name in rule.properties else []
            for pattern, schema in rule.named_by_pattern.items():
                if pattern_accepts(pattern, name):
                    schemas.append(schema)
            if not schemas and rule.additional is not None:
                schemas.append(rule.additional)
            if not all(self._valid(item, schema, rule.pointer) for schema in schemas):
                return False
        return True


def type_of(value: JsonValue) -> str:
    """Return the type of a value as JSON Schema names it; a whole number is a number."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "number"


def satisfies_text(text: str, rule: Constraints) -> bool:
    """Whether a text satisfies the keywords for texts."""
    if not rule.shortest <= len(text) <= _most(rule.longest, text):
        return False
    return all(pattern_accepts(pattern, text) for pattern in rule.patterns)


def satisfies_number(number: int | float, rule: Constraints) -> bool:
    """Whether a number satisfies the keywords for numbers."""
    exact = Fraction(number) if isinstance(number, int) else Fraction(repr(number))
    if rule.whole and exact.denominator != 1:
        return False
    if rule.lowest and (exact, False) < rule.lowest:
        return False
    if rule.highest and (exact > rule.highest[0] or (exact, True) == rule.highest):
        return False
    return not rule.multiple or (exact / rule.multiple).denominator == 1


def _most(most: int | None, value: str | list[JsonValue] | dict[str, JsonValue]) -> int:
    return len(value) if most is None else most
