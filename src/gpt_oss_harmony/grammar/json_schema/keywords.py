"""Read the keywords of one schema object: JSON in, constraints for each type of value out.

`normalization` reads references and ``allOf``, `disjunctions` ``anyOf`` and ``oneOf``. This module
checks the values of keywords, and notes keywords that no grammar can enforce as refusals.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ...typescript.json_text import JsonValue, Schema
from ...typescript.references import type_problem
from ..errors import GrammarError, Report, raise_error
from .budget import spend
from .constraints import TYPES, Constraints, Refusal, canonical, exact, higher, lower
from .documents import KEYWORDS, REFERENCES, child_pointer
from .formats import find_format
from .pattern_automata import plain_patterns, select_texts, texts_but
from .pattern_parser import REPEAT_LIMIT
from .patterns import rust_pattern

COUNT_LIMIT = 1_000_000
"""The largest length, number of items or number of properties."""


_PROPERTY_NAMES = Refusal(
    "object",
    "propertyNames",
    "no single list or pattern describes the allowed names",
    "use properties or patternProperties, with additionalProperties false",
)

_JSON_IN_TEXT = Refusal(
    "string",
    "contentMediaType",
    "in draft 7 it requires JSON inside a text, which no regular expression can describe",
    "use the type that the text contains, or name a newer draft in $schema",
)
_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"

_REFERRING = (*REFERENCES, "allOf", "anyOf", "oneOf", "if", "dependentSchemas")


def read_constraints(
    schema: Schema, pointer: str, report: Report = raise_error, *, is_old: bool = False
) -> Constraints:
    """Return the constraints of a schema object's own keywords.

    `report` gets the errors of keywords that cannot be read. With `is_old`, the schema is of
    draft 7 or before, in which the content of a text is checked.

    >>> read_constraints({"type": "integer", "minimum": 0.5}, "#").lowest
    (Fraction(1, 2), False)
    """
    spend(20 + 3 * len(schema))
    read = Constraints(pointer, keywords=frozenset(schema))
    for keyword in [keyword for keyword in schema if keyword in _VALUE_KINDS]:
        kind, expected = _VALUE_KINDS[keyword]
        if not isinstance(schema[keyword], kind):
            report(_invalid(read, keyword, expected))
            schema = {name: value for name, value in schema.items() if name != keyword}
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        wrong = [name for name in names if name != "integer" and name not in TYPES]
        if wrong:
            report(_wrong_type(read, wrong[0]))
        else:
            read.whole = "integer" in names and "number" not in names
            read.types = frozenset("number" if name == "integer" else str(name) for name in names)
    if not _NUMERIC.isdisjoint(schema):
        _read_numbers(read, schema, report)
    _read_texts(read, schema, report)
    _read_values(read, schema)
    _read_items(read, schema, report)
    unread = _read_properties(read, schema, report)
    _read_refusals(read, schema)
    if is_old and schema.get("contentMediaType") == "application/json":
        read.refusals.append(_JSON_IN_TEXT)
    elif is_old and schema.get("contentEncoding") == "base64":
        read.patterns.append(_BASE64)
    read.unread = bool(unread)
    read.widen_additional(unread)
    return read


_VALUE_KINDS: dict[str, tuple[type, str]] = {
    "pattern": (str, "text"),
    "format": (str, "text"),
    "enum": (list, "a list"),
    "prefixItems": (list, "a list of schemas"),
    "properties": (dict, "an object of schemas"),
    "patternProperties": (dict, "an object of schemas"),
    "required": (list, "a list of names"),
    "dependencies": (dict, "an object of schemas or lists of names"),
    "dependentRequired": (dict, "an object of lists of names"),
    "dependentSchemas": (dict, "an object of schemas"),
    "uniqueItems": (bool, "true or false"),
}


_COUNTS = {
    "minLength": "shortest",
    "maxLength": "longest",
    "minItems": "fewest_items",
    "maxItems": "most_items",
    "minProperties": "fewest_properties",
    "maxProperties": "most_properties",
    "minContains": "fewest_matches",
    "maxContains": "most_matches",
}

_NUMERIC = frozenset(
    {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", *_COUNTS}
)
ASSERTING = frozenset(
    {
        *_VALUE_KINDS,
        *_COUNTS,
        "additionalProperties",
        "const",
        "contains",
        "contentEncoding",
        "contentMediaType",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "items",
        "maximum",
        "minimum",
        "multipleOf",
        "propertyNames",
        "type",
        "uniqueItems",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""The keywords that do not refer to other schemas."""

READ = KEYWORDS | ASSERTING
"""All keywords that are read; others allow everything."""


def asserts(schema: Schema) -> bool:
    """Return whether a schema object has keywords that do not refer to other schemas."""
    return not ASSERTING.isdisjoint(schema)


def _invalid(read: Constraints, keyword: str, expected: str) -> GrammarError:
    remedy = "correct it"
    if keyword in ("exclusiveMinimum", "exclusiveMaximum"):
        remedy = "write the bound itself, or name draft 4 in $schema, in which true is allowed"
    problem = f"the keyword takes {expected}"
    return GrammarError(problem, remedy=remedy, pointer=read.pointer_to(keyword))


def _wrong_type(read: Constraints, name: JsonValue) -> GrammarError:
    problem, remedy = type_problem(name)
    return GrammarError(problem, remedy=remedy, pointer=read.pointer_to("type"))


def _read_numbers(read: Constraints, schema: Schema, report: Report) -> None:
    """Read bounds, `multipleOf`, and the counts of characters, items and properties."""
    for keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
        if keyword not in schema:
            continue
        number = _exact(schema[keyword])
        if number is None:
            report(_invalid(read, keyword, "a number"))
            continue
        bound = (number, keyword.startswith("exclusive"))
        if keyword.lower().endswith("minimum"):
            read.lowest = higher(read.lowest, bound)
        else:
            read.highest = lower(read.highest, bound)
    if "multipleOf" in schema:
        read.multiple = _exact(schema["multipleOf"])
        if read.multiple is None or read.multiple <= 0:
            read.multiple = None
            report(_invalid(read, "multipleOf", "a number above 0"))
    for keyword in [keyword for keyword in _COUNTS if keyword in schema]:
        count = _exact(schema[keyword])
        if count is None or count < 0 or count.denominator != 1:
            report(_invalid(read, keyword, "a whole number from 0"))
        elif count > COUNT_LIMIT:
            problem, remedy = f"it is more than {COUNT_LIMIT:,}", "use a smaller number or none"
            report(GrammarError(problem, remedy=remedy, pointer=read.pointer_to(keyword)))
        else:
            setattr(read, _COUNTS[keyword], int(count))


def _exact(value: JsonValue) -> Fraction | None:
    """Return a number exactly; None for other values."""
    # In Python, True is an int; in JSON, true is not a number.
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return exact(value)


def _read_texts(read: Constraints, schema: Schema, report: Report) -> None:
    pattern, format_name = schema.get("pattern"), schema.get("format")
    if isinstance(pattern, str):
        read.patterns += _readable(pattern, read.pointer_to("pattern"), report) or []
    # A format says nothing about other values, so it is refused only where there may be a text.
    if isinstance(format_name, str) and "string" in read.types:
        try:
            text_format = find_format(format_name, read.pointer_to("format"))
        except GrammarError as error:
            report(error)
            text_format = None
        if text_format is not None:
            read.patterns += text_format.patterns


def _readable(pattern: str, pointer: str, report: Report) -> list[str] | None:
    """Return the patterns for one pattern; None if it cannot be read."""
    try:
        patterns = plain_patterns(pattern, pointer)
        for plain in patterns:
            rust_pattern(plain, pointer)
    except GrammarError as error:
        report(error)
        return None
    return patterns


def _read_values(read: Constraints, schema: Schema) -> None:
    listed = schema.get("enum")
    if isinstance(listed, list):
        read.values = listed
    if "const" in schema:
        # JSON Schema compares values, so 1 equals 1.0, but 1 does not equal true as in Python.
        constant = canonical(schema["const"])
        values = [schema["const"]] if read.values is None else read.values
        read.values = [value for value in values if canonical(value) == constant]
    if read.values is not None:
        spend(5 * len(read.values))
        read.value_texts = frozenset(map(canonical, read.values))


def _read_items(read: Constraints, schema: Schema, report: Report) -> None:
    """Read items; in older drafts, `items` is a list, and `additionalItems` follows it."""
    prefix = schema.get("prefixItems", [])
    items = schema.get("items")
    if isinstance(items, list) and "prefixItems" not in schema:
        prefix = items
        items = schema.get("additionalItems")
    if isinstance(items, (dict, bool)):
        read.items = items
    elif items is not None:
        report(_invalid(read, "items", "a schema"))
    if isinstance(prefix, list):
        read.prefix = prefix
    read.unique = schema.get("uniqueItems") is True
    contains = schema.get("contains")
    if isinstance(contains, (dict, bool)):
        read.contains = contains
    elif contains is not None:
        report(_invalid(read, "contains", "a schema"))


def _read_properties(read: Constraints, schema: Schema, report: Report) -> list[JsonValue]:
    """Return the schemas of names whose pattern cannot be read."""
    unread: list[JsonValue] = []
    properties = schema.get("properties")
    if isinstance(properties, dict):
        read.properties = properties
    by_pattern = schema.get("patternProperties")
    if isinstance(by_pattern, dict):
        for pattern, inner in by_pattern.items():
            pointer = read.pointer_to("patternProperties", pattern)
            patterns = _readable(pattern, pointer, report)
            if patterns is not None and len(patterns) > 1:
                patterns = select_texts(tuple(patterns))
                if patterns is None:
                    problem, remedy = "it is too large with its look-ahead", "write it without one"
                    report(GrammarError(problem, remedy=remedy, pointer=pointer))
            if patterns is None:
                unread.append(inner)
            for plain in patterns or ():
                read.named_by_pattern[plain] = inner
    read.additional = schema.get("additionalProperties")
    required = schema.get("required")
    if isinstance(required, list):
        if all(isinstance(name, str) for name in required):
            read.required = list(dict.fromkeys(map(str, required)))
        else:
            report(_invalid(read, "required", "a list of names"))
    return unread


def _read_refusals(read: Constraints, schema: Schema) -> None:
    if schema.get("propertyNames", True) not in (True, {}):
        read.refusals.append(_PROPERTY_NAMES)
    for keyword, kind in (("unevaluatedItems", "array"), ("unevaluatedProperties", "object")):
        if schema.get(keyword, True) is True or schema[keyword] == {}:
            continue
        refers = any(keyword in schema for keyword in _REFERRING)
        if refers or (kind == "array" and read.contains is not None):
            problem = "it depends on too many combinations of other schemas"
            remedy = "repeat the properties beside additionalProperties false"
            read.refusals.append(Refusal(kind, keyword, problem, remedy, depends=True))
        elif kind == "array" and read.items is None:
            read.items = schema[keyword]
        elif kind == "object" and read.additional is None:
            read.additional = schema[keyword]


def listed_schemas(schema: Schema, keyword: str, pointer: str, report: Report) -> list[JsonValue]:
    """Return the schemas that `allOf`, `anyOf` or `oneOf` lists."""
    value = schema.get(keyword, [])
    if isinstance(value, list) and (value or keyword not in schema):
        return value
    problem, pointer = "the keyword takes a list of schemas", child_pointer(pointer, keyword)
    report(GrammarError(problem, remedy="correct it", pointer=pointer))
    return []


def dependents(schema: Schema) -> Iterator[tuple[str, str, JsonValue]]:
    """Yield each name that has dependents, the keyword, and the required names or schema."""
    for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
        named = schema.get(keyword)
        for name, dependent in named.items() if isinstance(named, dict) else ():
            yield name, keyword, dependent


# Names of properties


def apply_property_names(rule: Constraints, names: Constraints) -> bool:
    """Express `propertyNames` in other keywords of the object; return whether that is possible."""
    if names.refusals:
        return False
    others: JsonValue = True if rule.additional is None else rule.additional
    if names.values is not None or "string" not in names.types:
        if rule.named_by_pattern:
            return False
        rule.properties = {
            name: rule.properties.get(name, others)
            for name in names.values or ()
            if isinstance(name, str) and "string" in names.types and names.allow_text(name)
        }
        rule.additional = False
    elif names.patterns or names.shortest > 0 or names.longest is not None:
        patterns = list(names.patterns)
        if names.shortest > 0 or names.longest is not None:
            if max(names.shortest, names.longest or 0) > REPEAT_LIMIT:
                return False
            most = "" if names.longest is None else names.longest
            # In ECMAScript, `[^]` is any character; a dot leaves out line breaks.
            patterns.append(f"^[^]{{{names.shortest},{most}}}$")
        named = _named(rule, patterns, others)
        if named is None:
            return False
        rule.properties = {
            name: schema if names.allow_text(name) else False
            for name, schema in rule.properties.items()
        }
        rule.named_by_pattern = named
        rule.additional = False
    rule.refusals = [refusal for refusal in rule.refusals if refusal.keyword != "propertyNames"]
    return True


def _named(
    rule: Constraints, patterns: list[str], others: JsonValue
) -> dict[str, JsonValue] | None:
    """Return the schemas of an object's properties, by patterns that imply all of these."""
    by_pattern = rule.named_by_pattern
    selections: list[tuple[tuple[str, ...], tuple[str, ...], JsonValue]] = [
        ((*patterns, wanted), (), schema) for wanted, schema in by_pattern.items()
    ]
    if others is not False:
        # The schema of other names does not hold for listed ones.
        listed = () if others is True or not rule.properties else (texts_but((*rule.properties,)),)
        selections.append(((*patterns, *listed), (*by_pattern,), others))
    named: dict[str, JsonValue] = {}
    for wanted, unwanted, schema in selections:
        is_one = len(wanted) == 1 and not unwanted
        selected = list(wanted) if is_one else select_texts(wanted, unwanted)
        if selected is None:
            return None
        for text in selected:
            while text in named:  # two patterns select the same names; both of their schemas hold
                text = f"(?:{text})"
            named[text] = schema
    return named
