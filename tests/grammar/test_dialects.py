"""Old drafts: a keyword of a newer draft asserts nothing, as another validator has it."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import jsonschema
import pytest

from gpt_oss_harmony.grammar import GrammarError, enforceable_schema
from support.json_matcher import accepts_value, json_matcher
from support.random_schemas import VALUES, SchemaMaker, orders

DRAFTS: dict[str, Any] = {
    "http://json-schema.org/draft-04/schema#": jsonschema.Draft4Validator,
    "http://json-schema.org/draft-06/schema#": jsonschema.Draft6Validator,
    "http://json-schema.org/draft-07/schema#": jsonschema.Draft7Validator,
}

CASES: list[dict[str, Any]] = [
    {"if": {"type": "string"}, "then": {"minLength": 3}, "type": ["string", "integer"]},
    {"if": {"required": ["a"]}, "else": {"required": ["b"]}, "type": "object"},
    {"const": 3, "type": "integer"},
    {"properties": {"a": {"const": "x"}}, "type": "object"},
    {"contains": {"type": "integer"}, "type": "array", "items": {"type": ["string", "integer"]}},
    {"propertyNames": {"pattern": "^b"}, "type": "object"},
    {"prefixItems": [{"type": "string"}], "type": "array"},
    {"dependentRequired": {"a": ["b"]}, "type": "object"},
    {"dependentSchemas": {"a": {"required": ["b"]}}, "type": "object"},
    {"dependencies": {"a": ["b"]}, "type": "object"},
    {"not": {"const": 1, "type": "string"}, "type": ["integer", "string"]},
    {"anyOf": [{"const": 1}, {"type": "string"}]},
]


@pytest.mark.parametrize(("draft", "case"), [*product(DRAFTS, range(len(CASES)))])
def test_keywords_of_newer_drafts_assert_nothing(draft: str, case: int) -> None:
    schema = {"$schema": draft, **CASES[case]}
    matcher, validator = json_matcher(enforceable_schema(schema)), DRAFTS[draft](schema)
    for value in VALUES:
        accepted = any(accepts_value(matcher, ordered) for ordered in orders(value))
        assert accepted == validator.is_valid(value), (schema, value)


@pytest.mark.parametrize("draft", DRAFTS)
def test_random_schemas_of_old_drafts(draft: str) -> None:
    """Without what old drafts do not have: boolean schemas, and numbers in `exclusive…`."""
    compared = 0
    for seed in range(400):
        maker = SchemaMaker(seed)
        maker.random = random.Random(seed)
        schema = {"$schema": draft, "not": True, **_plain(maker.schema(1))}
        if schema["not"] is True:
            del schema["not"]
        if any(word in repr(schema) for word in ("$ref", "exclusive", "True", "False", "uniqueI")):
            continue
        try:
            matcher = json_matcher(enforceable_schema(schema))
        except GrammarError:
            continue
        validator = DRAFTS[draft](schema)
        compared += 1
        for value in VALUES:
            accepted = any(accepts_value(matcher, ordered) for ordered in orders(value))
            assert accepted == validator.is_valid(value), (schema, value)
    assert compared > 60


def _plain(schema: Any) -> dict[str, Any]:
    return schema if isinstance(schema, dict) else {}


def test_the_draft_is_not_guessed() -> None:
    with pytest.raises(GrammarError, match="draft 4"):
        enforceable_schema({"type": "integer", "minimum": 1, "exclusiveMinimum": True})
