"""Read the keywords of one schema object: JSON in, what each type of value must satisfy out.

References, ``allOf``, ``anyOf`` and ``oneOf`` are left to `conjunctions`. The values of keywords
are checked, and keywords that no grammar can count or remember are noted as refusals.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError
from .constraints import TYPES, Constraints, Refusal, canonical, higher, lower
from .formats import text_format
from .pattern_parser import REPEAT_LIMIT
from .patterns import rust_pattern

__all__ = ["COUNT_LIMIT", "apply_property_names", "asserts", "read_constraints"]

COUNT_LIMIT = 1_000_000
"""The largest length, number of items or of properties."""


_CHECK = "check it afterwards"
_REFUSED = (
    Refusal("", "not", "a grammar says what may come, not what may not", "say what may come"),
    Refusal("", "$dynamicRef", "what it means depends on where it is used", "use $ref"),
    Refusal("", "$recursiveRef", "what it means depends on where it is used", "use $ref"),
    Refusal("array", "contains", "it needs a memory of the items before", _CHECK),
    Refusal("array", "uniqueItems", "it needs a memory of the items before", _CHECK),
    Refusal("object", "dependencies", "it is no keyword since 2019", "use anyOf of objects"),
    Refusal("object", "dependentRequired", "it needs a memory of the names", "use anyOf"),
    Refusal("object", "dependentSchemas", "it needs a memory of the names", "use anyOf"),
    Refusal(
        "object",
        "propertyNames",
        "no one list or pattern says which names may come",
        "use properties or patternProperties, with additionalProperties false",
    ),
)
_REFERRING = ("$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "$dynamicRef")


def read_constraints(schema: Schema, pointer: str) -> Constraints:
    """Return what a schema object says itself.

    >>> read_constraints({"type": "integer", "minimum": 0.5}, "#").lowest
    (Fraction(1, 2), False)
    """
    read = Constraints(pointer, keywords=frozenset(schema))
    for keyword, reader in _READERS.items():
        if keyword in schema:
            reader(read, keyword, schema[keyword])
    _read_values(read, schema)
    _read_bounds(read, schema)
    _read_items(read, schema)
    _read_refusals(read, schema)
    return read


def asserts(schema: Schema) -> bool:
    """Return whether a schema object says anything itself, beside referring to others."""
    return not _ASSERTING.isdisjoint(schema)


def _invalid(read: Constraints, keyword: str, expected: str) -> GrammarError:
    return GrammarError(
        f"the keyword takes {expected}", remedy="correct it", pointer=read.pointer_to(keyword)
    )


def _read_type(read: Constraints, keyword: str, value: JsonValue) -> None:
    names = value if isinstance(value, list) else [value]
    for name in names:
        if name != "integer" and name not in TYPES:
            raise _invalid(read, keyword, "names of types")
    read.whole = "integer" in names and "number" not in names
    read.types = frozenset("number" if name == "integer" else str(name) for name in names)


def _read_values(read: Constraints, schema: Schema) -> None:
    if "enum" in schema:
        listed = schema["enum"]
        if not isinstance(listed, list):
            raise _invalid(read, "enum", "a list")
        read.values = listed
    if "const" in schema:
        constant = canonical(schema["const"])
        listed = [schema["const"]] if read.values is None else read.values
        read.values = [value for value in listed if canonical(value) == constant]
    if read.values is not None:
        read.value_texts = frozenset(map(canonical, read.values))


def _exact(value: JsonValue) -> Fraction | None:
    """Return the number that the shortest digits of a float name."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def _read_bounds(read: Constraints, schema: Schema) -> None:
    for keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
        if keyword not in schema:
            continue
        number = _exact(schema[keyword])
        if number is None:
            raise _invalid(read, keyword, "a number")
        bound = (number, keyword.startswith("exclusive"))
        if keyword.lower().endswith("minimum"):
            read.lowest = higher(read.lowest, bound)
        else:
            read.highest = lower(read.highest, bound)


def _read_multiple(read: Constraints, keyword: str, value: JsonValue) -> None:
    number = _exact(value)
    if number is None or number <= 0:
        raise _invalid(read, keyword, "a number above 0")
    read.multiple = number


def _read_count(read: Constraints, keyword: str, value: JsonValue) -> None:
    number = _exact(value)
    if number is None or number < 0 or number.denominator != 1:
        raise _invalid(read, keyword, "a whole number from 0")
    if number > COUNT_LIMIT:
        raise GrammarError(
            f"it is more than {COUNT_LIMIT:,}",
            remedy="use a smaller number, or none",
            pointer=read.pointer_to(keyword),
        )
    setattr(read, _COUNTS[keyword], int(number))


_COUNTS = {
    "minLength": "shortest",
    "maxLength": "longest",
    "minItems": "fewest_items",
    "maxItems": "most_items",
    "minProperties": "fewest_properties",
    "maxProperties": "most_properties",
}


def _read_pattern(read: Constraints, keyword: str, value: JsonValue) -> None:
    if not isinstance(value, str):
        raise _invalid(read, keyword, "text")
    rust_pattern(value, read.pointer_to(keyword))
    read.patterns.append(value)


def _read_format(read: Constraints, keyword: str, value: JsonValue) -> None:
    if not isinstance(value, str):
        raise _invalid(read, keyword, "text")
    if "string" not in read.types:
        return
    known = text_format(value, read.pointer_to(keyword))
    if known is None:
        return
    read.patterns += known.patterns
    if known.most is not None:
        read.longest = known.most if read.longest is None else min(read.longest, known.most)


def _read_items(read: Constraints, schema: Schema) -> None:
    """`items` is a list in older drafts, and `additionalItems` what follows it."""
    prefix = schema.get("prefixItems", [])
    items = schema.get("items")
    if isinstance(items, list) and "prefixItems" not in schema:
        prefix = items
        items = schema.get("additionalItems")
    if not isinstance(prefix, list):
        raise _invalid(read, "prefixItems", "a list of schemas")
    read.prefix = prefix
    if not (items is None or isinstance(items, (dict, bool))):
        raise _invalid(read, "items", "a schema")
    read.items = items


def _named_schemas(read: Constraints, keyword: str, value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise _invalid(read, keyword, "an object of schemas")
    return value


def _read_properties(read: Constraints, keyword: str, value: JsonValue) -> None:
    read.properties = _named_schemas(read, keyword, value)


def _read_pattern_properties(read: Constraints, keyword: str, value: JsonValue) -> None:
    read.named_by_pattern = _named_schemas(read, keyword, value)
    for pattern in read.named_by_pattern:
        rust_pattern(pattern, read.pointer_to(keyword, pattern))


def _read_additional(read: Constraints, keyword: str, value: JsonValue) -> None:
    read.additional = value


def _read_required(read: Constraints, keyword: str, value: JsonValue) -> None:
    if not isinstance(value, list):
        raise _invalid(read, keyword, "a list of names")
    names: list[str] = []
    for name in value:
        if not isinstance(name, str):
            raise _invalid(read, keyword, "a list of names")
        names.append(name)
    read.required = list(dict.fromkeys(names))


def _read_refusals(read: Constraints, schema: Schema) -> None:
    for refusal in _REFUSED:
        if refusal.keyword in schema and not _harmless(refusal.keyword, schema):
            read.refusals.append(refusal)
    if "if" in schema and ("then" in schema or "else" in schema):
        problem = "what follows depends on what came before"
        read.refusals.append(Refusal("", "if", problem, "use anyOf of both cases"))
    refers = any(keyword in schema for keyword in _REFERRING)
    for keyword, kind in (("unevaluatedItems", "array"), ("unevaluatedProperties", "object")):
        if schema.get(keyword, True) is True or schema[keyword] == {}:
            continue
        if refers or "contains" in schema:
            problem = "it depends on which other schemas hold"
            remedy = "repeat the properties beside additionalProperties false"
            read.refusals.append(Refusal(kind, keyword, problem, remedy))
        elif kind == "array" and read.items is None:
            read.items = schema[keyword]
        elif kind == "object" and read.additional is None:
            read.additional = schema[keyword]


def _harmless(keyword: str, schema: Schema) -> bool:
    """Return whether the keyword allows everything."""
    value = schema[keyword]
    if keyword == "contains":
        return schema.get("minContains") == 0 and "maxContains" not in schema
    if keyword in ("not", "uniqueItems"):
        return value is False
    if keyword == "propertyNames":
        return value is True or value == {}
    return keyword.startswith("dependen") and value == {}


_READERS: dict[str, Callable[[Constraints, str, JsonValue], None]] = {
    "type": _read_type,
    "multipleOf": _read_multiple,
    "pattern": _read_pattern,
    **dict.fromkeys(_COUNTS, _read_count),
    "format": _read_format,
    "properties": _read_properties,
    "patternProperties": _read_pattern_properties,
    "additionalProperties": _read_additional,
    "required": _read_required,
}
_ASSERTING = frozenset(
    {
        *_READERS,
        *(refusal.keyword for refusal in _REFUSED),
        "const",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "if",
        "items",
        "maximum",
        "minimum",
        "prefixItems",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)


# Names of properties


def apply_property_names(rule: Constraints, names: Constraints) -> bool:
    """Say in other keywords of an object what its names must satisfy; whether that is possible."""
    if rule.named_by_pattern or names.refusals or "string" not in names.types:
        return False
    if names.values is not None:
        _list_names(rule, names)
    elif rule.properties and rule.additional not in (None, True, False):
        return False  # the schema for other names would hold for the listed ones as well
    else:
        pattern = _only_pattern(names)
        if pattern is None:
            return False
        allowed: JsonValue = True if rule.additional is None else rule.additional
        rule.properties = {
            name: schema if names.allow_text(name) else False
            for name, schema in rule.properties.items()
        }
        rule.named_by_pattern = {pattern: allowed}
    rule.additional = False
    rule.refusals = [one for one in rule.refusals if one.keyword != "propertyNames"]
    return True


def _list_names(rule: Constraints, names: Constraints) -> None:
    others: JsonValue = True if rule.additional is None else rule.additional
    rule.properties = {
        name: rule.properties.get(name, others)
        for name in names.values or ()
        if isinstance(name, str) and names.allow_text(name)
    }


def _only_pattern(names: Constraints) -> str | None:
    """Return the pattern of names, or one for their length; None if there are both, or neither."""
    has_length = names.shortest > 0 or names.longest is not None
    if len(names.patterns) == 1 and not has_length:
        return names.patterns[0]
    if names.patterns or not has_length or max(names.shortest, names.longest or 0) > REPEAT_LIMIT:
        return None
    return f"^[^]{{{names.shortest},{'' if names.longest is None else names.longest}}}$"
