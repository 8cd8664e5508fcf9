"""Both TypeScript dialects, checked against recorded output of the reference and by properties."""

from __future__ import annotations

import enum
import json
import math
import re
import runpy
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony.errors import HarmonyError, SchemaError
from gpt_oss_harmony.typescript import references
from gpt_oss_harmony.typescript.json_text import (
    NESTING_LIMIT,
    JsonValue,
    compact_json,
    json_value,
    quoted,
)
from gpt_oss_harmony.typescript.reference_dialect import reference_schema_to_typescript
from gpt_oss_harmony.typescript.references import REFERENCE_COPY_LIMIT
from gpt_oss_harmony.typescript.writer import schema_to_typescript
from support.examples import examples

ROOT = Path(__file__).parents[2]
CASES = json.loads((ROOT / "tests/data/typescript/cases.json").read_text(encoding="utf-8"))
GUIDE = (ROOT / "docs/reference/typescript.md").read_text(encoding="utf-8")
LINE_END = re.compile("\r\n|[\n\r\u2028\u2029]")


class Case(NamedTuple):
    name: str
    schema: JsonValue
    ours: str
    reference: str
    difference: str | None


NAMED = [Case(**case) for case in CASES["named"]]


@pytest.mark.parametrize("case", NAMED, ids=lambda case: case.name)
def test_named_cases_in_both_dialects(case: Case) -> None:
    assert schema_to_typescript(case.schema) == case.ours
    assert reference_schema_to_typescript(case.schema) == case.reference


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"anyOf": [{"type": "number"}, {}]}, "q?: number | any,\n"),
        ({"anyOf": [{"description": "a"}]}, "q?:\n | any // a\n,\n"),
        ({"oneOf": [{"description": "a"}, {"type": "string"}]}, "q?:\n | any // a\n | string\n,\n"),
        ({"type": "string", "anyOf": [{"type": "number"}]}, "q?: number,\n"),
        ({"type": "string", "anyOf": [{"type": "number"}, {}]}, "q?: string,\n"),
        ({"type": "string", "anyOf": [{"type": "number"}, True]}, "q?: string,\n"),
        ({"type": "string", "anyOf": [{"type": "number"}, False]}, "q?: number,\n"),
        ({"type": "string", "anyOf": [{"type": "number"}, None]}, "q?: string,\n"),
        ({"type": "string", "anyOf": [{"type": "number"}, "no schema"]}, "q?: string,\n"),
        (
            {"items": {"oneOf": [{"enum": ["a"], "default": "a"}, {"type": "number"}]}},
            'q?: (\n     | "a" // default: "a"\n     | number\n    )[],\n',
        ),
        (
            {"oneOf": [{"enum": ["a"], "default": "a"}, {"type": "number"}]},
            'q?:\n | "a" // default: a\n | number\n,\n',
        ),
        ({"type": "string", "allOf": [{"anyOf": [True, False]}]}, "q?: string,\n"),
        ({"type": ["string", "null", "string"]}, "q?: string | null,\n"),
        ({"properties": {}}, "q?: any,\n"),
        ({"properties": {}, "anyOf": [{"type": "string"}]}, "q?: string,\n"),
        (
            {
                "anyOf": [{"description": "a", "type": "string"}, {"type": "null"}],
                "oneOf": [{"type": "string"}, {"type": "number"}],
            },
            "q?: (\n     | string // a\n     | null\n    ) & (string | number),\n",
        ),
    ],
)
def test_types_of_alternatives(schema: Schema, written: str) -> None:
    assert schema_to_typescript({"properties": {"q": schema}}) == f"{{\n{written}}}"


def test_a_case_names_its_difference_and_only_then_differs() -> None:
    for case in NAMED:
        assert (case.ours != case.reference) == (case.difference is not None), case.name


def test_reference_dialect_on_recorded_schemas() -> None:
    for case in CASES["recorded"]:
        assert reference_schema_to_typescript(case["schema"]) == case["reference"]


@pytest.mark.parametrize(
    ("enum", "written"),
    [
        (["a", "b"], 'q?: "a" | "b", // default: a\n'),
        ([1], "q?: string, // default: a\n"),
        ([], 'q?: string, // default: "a"\n'),
        ("x", 'q?: string, // default: "a"\n'),
        ({}, 'q?: string, // default: "a"\n'),
    ],
)
def test_the_reference_quotes_a_default_without_an_enum(enum: JsonValue, written: str) -> None:
    """Recorded from openai-harmony 0.0.8."""
    schema: Schema = {"type": "string", "default": "a", "enum": enum}
    text = reference_schema_to_typescript({"type": "object", "properties": {"q": schema}})
    assert text == f"{{\n{written}}}"


# The guide


def _rows(columns: int) -> list[list[str]]:
    """Return the code cells of the guide's tables that have this many columns."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in GUIDE.splitlines() if "`" in line]
    return [[_cell(cell) for cell in row] for row in rows if len(row) == columns]


def _cell(text: str) -> str:
    return text.strip().strip("`").replace("\\|", "|").replace("↵", "\n")


def test_the_guide_shows_what_both_dialects_write() -> None:
    rows = _rows(2)
    assert len(rows) > 5
    for schema, written in rows:
        assert schema_to_typescript(json.loads(schema)) == written
        assert reference_schema_to_typescript(json.loads(schema)) == written


def test_the_guide_shows_every_difference() -> None:
    rows = _rows(4)
    for _name, schema, theirs, ours in rows:
        assert reference_schema_to_typescript(json.loads(schema)) == theirs
        assert schema_to_typescript(json.loads(schema)) == ours
    assert {row[0] for row in rows} == {case.difference for case in NAMED if case.difference}


# Properties


JSON_NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON_SCALARS = st.none() | st.booleans() | JSON_NUMBERS | st.text(max_size=8)
KEYWORDS = (
    "$defs", "$ref", "additionalProperties", "allOf", "anyOf", "const", "default", "definitions",
    "description", "enum", "examples", "items", "nullable", "oneOf", "patternProperties",
    "prefixItems", "properties", "required", "title", "type",
)  # fmt: skip
WORDS = (
    "array", "boolean", "integer", "null", "number", "object", "string",
    "#", "#/$defs/a", "#/definitions/a", "#/properties/a", "#/anyOf/0", "a",
)  # fmt: skip
ANY_JSON = st.recursive(
    st.sampled_from(WORDS) | JSON_SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYWORDS) | st.text(max_size=3), inner, max_size=6)
    ),
    max_leaves=30,
)


@given(ANY_JSON)
@settings(max_examples=examples(200))
def test_any_json_value_is_written_or_refused_as_a_harmony_error(schema: JsonValue) -> None:
    for write in (schema_to_typescript, reference_schema_to_typescript):
        try:
            assert isinstance(write(schema), str)
        except HarmonyError:
            continue


WORD = st.text("abcxyz éß日", min_size=1, max_size=6).filter(lambda text: text == text.strip())
NAME = st.from_regex(r"[a-z_][a-zA-Z0-9_]{0,5}", fullmatch=True).filter(lambda n: "null" not in n)
NOTES = st.fixed_dictionaries(
    {},
    optional={
        "title": WORD,
        "description": WORD,
        "examples": st.lists(WORD, min_size=1, max_size=2),
        "default": WORD | JSON_NUMBERS | st.none() | st.lists(st.booleans(), max_size=2),
    },
)
PLAIN_TYPES = ("array", "boolean", "integer", "number", "string", "object")
PLAIN = st.sampled_from([{}, *({"type": name} for name in PLAIN_TYPES)])
TEXT_ENUM = st.builds(
    lambda values: {"type": "string", "enum": values}, st.lists(WORD, min_size=1, max_size=3)
)
TYPE_LIST = st.builds(
    lambda names: {"type": names},
    st.lists(
        st.sampled_from(["boolean", "integer", "null", "number", "object", "string"]),
        min_size=1,
        unique=True,
    ),
)
Schema = dict[str, Any]


def _objects(values: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    noted = st.builds(lambda schema, notes: {**notes, **schema}, values, NOTES)
    nullable = st.builds(lambda schema: {**schema, "nullable": True}, PLAIN | TEXT_ENUM)
    variants = st.lists(noted, min_size=1, max_size=3)
    choice = st.builds(lambda listed, notes: {**notes, "oneOf": listed}, variants, NOTES)
    return st.builds(
        lambda properties, required, notes: {
            "type": "object", "properties": properties, "required": required, **notes,
        },
        st.dictionaries(NAME, noted | nullable | choice, max_size=3),
        st.lists(NAME, max_size=2),
        NOTES,
    )  # fmt: skip


MEANINGFUL = st.recursive(
    PLAIN | TEXT_ENUM | TYPE_LIST,
    lambda inner: (
        _objects(inner) | st.builds(lambda items: {"type": "array", "items": items}, PLAIN)
    ),
    max_leaves=8,
)


@given(MEANINGFUL | _objects(MEANINGFUL))
@settings(max_examples=examples(200))
def test_both_dialects_agree_where_the_reference_keeps_the_schema(schema: Schema) -> None:
    assert schema_to_typescript(schema) == reference_schema_to_typescript(schema)


MARK = "¶"
BREAKING_TEXT = st.lists(
    st.sampled_from([MARK, "\n", "\r", "\r\n", "\u2028", "\u2029", "} // namespace x", "*/"]),
    max_size=6,
).map("".join)


@given(BREAKING_TEXT, BREAKING_TEXT, st.sampled_from(["oneOf", "anyOf", "items"]))
@settings(max_examples=examples(200))
def test_no_note_leaves_its_comment(text: str, other: str, keyword: str) -> None:
    noted: Schema = {"type": "string", "title": text, "description": text, "default": other}
    noted["examples"] = [other, {"": text}]
    inner: Schema = {"type": "object", "description": text, "properties": {"b": noted}}
    outer: Schema = {**noted, keyword: inner if keyword == "items" else [inner, noted]}
    written = schema_to_typescript({"type": "object", "properties": {"a": outer, "c": inner}})
    for line in LINE_END.split(written):
        assert MARK not in line.partition("//")[0]
        if not re.match(r" *(a\?|b\?|c\?|\}|\{|,|\| )", line):
            assert not line or line.lstrip().startswith("//")


def test_generated_schemas_repeat_and_are_all_written() -> None:
    generate = runpy.run_path(str(ROOT / "scripts/parity/schema_cases.py"))["schemas"]
    generated = list(generate(5, 300))
    assert generated == list(generate(5, 300))
    for schema in generated:
        schema_to_typescript(schema)
        reference_schema_to_typescript(schema)


# Limits


def _nested(keyword: str, levels: int) -> JsonValue:
    schema: JsonValue = {}
    for _ in range(levels):
        schema = {keyword: [schema]} if keyword.endswith("Of") else {keyword: schema}
    return schema


@pytest.mark.parametrize("keyword", ["items", "additionalProperties", "oneOf", "anyOf", "allOf"])
def test_nesting_up_to_the_limit_is_written(keyword: str) -> None:
    levels = (NESTING_LIMIT - 1) // 2 if keyword.endswith("Of") else NESTING_LIMIT - 1
    for write in (schema_to_typescript, reference_schema_to_typescript):
        write(_nested(keyword, levels))
        with pytest.raises(SchemaError, match="nested deeper than 120"):
            write(_nested(keyword, levels + 1))


def test_a_value_within_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["items"] = endless
    with pytest.raises(SchemaError, match="nested deeper"):
        schema_to_typescript(endless)


class Mirror:
    """Says that it is a model, and that it is made of itself."""

    def model_dump(self, **_: object) -> object:
        return self


def test_a_model_of_itself_is_refused() -> None:
    with pytest.raises(SchemaError, match="nested deeper"):
        schema_to_typescript({"default": Mirror()})  # type: ignore[dict-item]


def test_definitions_that_double_do_not_grow_without_end() -> None:
    definitions: Schema = {
        f"D{n}": {"properties": {side: {"$ref": f"#/$defs/D{n + 1}"} for side in "lr"}}
        for n in range(60)
    }
    written = schema_to_typescript({"$ref": "#/$defs/D0", "$defs": definitions})
    assert 0.3 < written.count("{") / REFERENCE_COPY_LIMIT < 0.4  # each has two references


@pytest.mark.parametrize(
    ("name", "limit", "copies"),
    [
        ("REFERENCE_COPY_LIMIT", 2, 2),
        ("REFERENCE_COPY_LIMIT", 3, 3),
        ("REFERENCE_TEXT_LIMIT", 36, 2),  # the definition has 18 characters
        ("REFERENCE_TEXT_LIMIT", 37, 3),
    ],
)
def test_references_beyond_a_limit_are_names(
    name: str, limit: int, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, name, limit)
    several: Schema = {str(n): {"$ref": "#/$defs/text"} for n in range(5)}
    written = schema_to_typescript({"properties": several, "$defs": {"text": {"type": "string"}}})
    assert re.findall(r"string|Text", written) == ["string"] * copies + ["Text"] * (5 - copies)


@pytest.mark.parametrize(("levels", "written"), [(0, "string"), (1, "string[]"), (2, "Text[][]")])
def test_references_in_many_schemas_are_names(
    levels: int, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "REFERENCE_NESTING_LIMIT", 3)
    schema: Schema = {"$ref": "#/$defs/text"}
    for _ in range(levels):
        schema = {"items": schema}
    schema["$defs"] = {"text": {"type": "string"}}
    assert schema_to_typescript(schema) == written


# JSON as the reference reads and prints it


class Colour(str, enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ((1, [2]), [1, [2]]),
        ({None: 0, True: 0, 2.5: 0}, {"null": 0, "true": 0, "2.5": 0}),
        ({"1": "first", 1: "last"}, {"1": "last"}),
        ([Colour.RED, Level.ONE], ["red", 1]),
        ({"a": None}, {"a": None}),
        ("\ud83d\ude00", "😀"),
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
        (2**64, 1.8446744073709552e19),
        (-(2**63) - 1, -9.223372036854776e18),
        # Read by scaling with a power of ten, which here misses the nearest float.
        (8.832361399893225e-116, 8.832361399893226e-116),
    ],
)
def test_python_values_become_json(value: object, read: JsonValue) -> None:
    assert json_value(value) == read


def test_a_model_is_read_without_its_empty_fields() -> None:
    from pydantic import BaseModel

    class Point(BaseModel):
        x: int = 1
        y: int | None = None

    assert json_value({"default": Point()}) == {"default": {"x": 1}}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({1, 2}, "set is not a JSON type"),
        (b"x", "bytes is not a JSON type"),
        ({(1, 2): 3}, "must be text, not tuple"),
        (math.nan, "nan is not a JSON number"),
        (-math.inf, "-inf is not a JSON number"),
        (10**400, "too large"),
        ({10**5000: 1}, "too large"),
        (2 * 10**308, "too large"),
        ("\ud800", "lone surrogate"),
        ({"\udfff": 1}, "lone surrogate"),
    ],
)
def test_what_json_cannot_hold_is_refused(value: object, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        json_value(value)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (-2.5, "-2.5"), (1e15, "1000000000000000.0"),
        (1e16, "1e16"), (1.2345678901234568e17, "1.2345678901234568e17"), (1e20, "1e20"),
        (1e-5, "0.00001"), (1e-6, "1e-6"), (1.5e300, "1.5e300"), (5e-324, "5e-324"),
        (123456.789, "123456.789"), (2**64 - 1, "18446744073709551615"),
    ],
)  # fmt: skip
def test_numbers_are_printed_as_serde_json_does(number: float, text: str) -> None:
    assert compact_json(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_printed_numbers_read_back(number: float) -> None:
    assert float(compact_json(number)) == number


def test_compact_json_keeps_order_and_text() -> None:
    value: JsonValue = {"b": [], "a": {}, "c": ["\x00\x1f\x7f\u2028é", True, None, {"x": [1, 2]}]}
    expected = '{"b":[],"a":{},"c":["\\u0000\\u001f\x7f\u2028é",true,null,{"x":[1,2]}]}'
    assert compact_json(value) == expected


@given(st.text())
def test_quoted_text_stays_on_one_line_and_reads_back(text: str) -> None:
    assert not LINE_END.search(quoted(text))
    assert json.loads(quoted(text)) == text
