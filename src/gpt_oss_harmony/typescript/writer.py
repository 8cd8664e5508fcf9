"""JSON Schemas as the TypeScript types that a harmony prompt shows the model.

If the reference writes a meaningful type, this module writes the same bytes; if the reference loses
part of the schema, it writes correct TypeScript. `docs/reference/typescript.md` lists every
difference. The module replaces references by their definitions first and then writes the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .comments import (
    comment_lines,
    default_text,
    description_lines,
    escaped_json,
    example_lines,
    indented,
    text_of,
    title_lines,
)
from .json_text import JsonValue, Schema, json_value, quoted
from .references import NAMED_SCHEMAS, inline_references, variants_of


def schema_to_typescript(schema: JsonValue, indent: str = "") -> str:
    """Write a JSON Schema as a TypeScript type.

    The lines after the first begin with `indent`. Raises `SchemaError`.

    >>> schema_to_typescript({"type": "array", "items": {"enum": ["a", 1, None]}})
    '("a" | 1 | null)[]'
    """
    root = inline_references(json_value(schema))
    if isinstance(root, dict) and (variants := _listed_variants(root)):
        lines = list(_variant_lines(root, variants, indent, in_property=False))
        listed = "".join(f"\n{indent} | {line}" for line in lines)
        # The text after the type must not become part of a comment.
        ends_in_comment = lines[-1] != "null" and _has_comment(variants[-1])
        return f"{listed}\n{indent}" if ends_in_comment else listed
    return _type_of(root, indent).text


# Types


@dataclass(frozen=True)
class _Type:
    """The parts of a type's text; several parts form a union or an intersection."""

    parts: tuple[str, ...]
    glue: str = " | "

    @property
    def text(self) -> str:
        return self.glue.join(self.parts)

    def within(self, glue: str) -> tuple[str, ...]:
        """Return the parts that this type adds to a larger union or intersection."""
        if len(self.parts) == 1 or self.glue == glue:
            return self.parts
        # In TypeScript, `&` binds more tightly than `|`.
        return (self.text,) if self.glue == " & " else (f"({self.text})",)


_ANY = _Type(("any",))
_NEVER = _Type(("never",))
_PLAIN_TYPES = {
    "boolean": _Type(("boolean",)),
    "integer": _Type(("number",)),
    "null": _Type(("null",)),
    "number": _Type(("number",)),
    "string": _Type(("string",)),
}


def _union(types: Iterable[_Type]) -> _Type:
    """Join types; write identical members once, and `never` only if there is no other."""
    parts = [part for member in types for part in member.within(" | ")]
    distinct = tuple(part for part in dict.fromkeys(parts) if part != "never")
    return _Type(distinct) if distinct else _NEVER


def _intersection(types: Iterable[_Type]) -> _Type:
    """Join types, without those that are `any`."""
    # In TypeScript, `any & string` is `any`: it would take back what the others say.
    members = [member for member in types if member != _ANY]
    if len(members) == 1:
        return members[0]
    parts = [part for member in members for part in member.within(" & ")]
    return _Type(tuple(dict.fromkeys(parts)), " & ") if parts else _ANY


def _array_of(item: _Type) -> _Type:
    return _Type((f"{item.text}[]" if len(item.parts) == 1 else f"({item.text})[]",))


def _with_null(written: _Type, schema: Schema) -> _Type:
    if schema.get("nullable") is not True or "null" in written.parts:
        return written
    return _Type((*written.within(" | "), "null"))


def _type_of(schema: JsonValue, indent: str) -> _Type:
    """Write a schema as one type: the intersection of all its parts."""
    if not isinstance(schema, dict):
        return _NEVER if schema is False else _ANY
    if not _is_combined(schema):
        return _with_null(_own_type(schema, indent), schema)
    types = [_own_type(schema, indent)] if _own_type_counts(schema) else []
    if isinstance(name := schema.get("$ref"), str):
        types.append(_Type((name,)))
    parts = variants_of(schema, "allOf")
    for part in parts:
        # A part that only names a type adds nothing.
        has_content = isinstance(part, dict) and (_has_shape(part) or _is_combined(part))
        if has_content or part is False:
            types.append(_type_of(part, indent))
    for variants in _unions(schema):
        if not (types and any(map(_is_any, variants))):
            types.append(_alternatives(variants, indent))
    return _with_null(_intersection(types or (_type_of(part, indent) for part in parts)), schema)


def _alternatives(variants: list[JsonValue], indent: str) -> _Type:
    """Write a union in one line, or one variant per line if a variant has a comment."""
    if not any(map(_has_comment, variants)):
        types: list[_Type] = []
        for variant in variants:
            types.append(_type_of(variant, indent))
        return _union(types)
    lines = _variant_lines({}, variants, indent, in_property=False)
    listed = "".join(f"{indent} | {line}\n" for line in lines)
    return _Type((f"(\n{listed}{indent})",))


_COMBINING = frozenset({"$ref", "allOf", "anyOf", "oneOf"})


def _is_combined(schema: Schema) -> bool:
    if _COMBINING.isdisjoint(schema):
        return False
    return _is_named(schema) or bool(variants_of(schema, "allOf")) or bool(_unions(schema))


def _is_named(schema: Schema) -> bool:
    """Return whether a reference was replaced by a name."""
    return isinstance(schema.get("$ref"), str)


def _own_type_counts(schema: Schema) -> bool:
    """Return whether `type` and related keywords add anything; `type` alone rarely does."""
    if _has_shape(schema):
        return True
    if not _kinds(schema) or _is_named(schema):
        return False
    if not all(map(_is_any, variants_of(schema, "allOf") + variants_of(schema, "oneOf"))):
        return False
    options = variants_of(schema, "anyOf")
    return not options or any(map(_is_any, options))


def _is_any(schema: JsonValue) -> bool:
    """Return whether a schema would be written as `any`, without writing it."""
    if not isinstance(schema, dict):
        return schema is not False
    if _has_shape(schema) or _kinds(schema) or _is_named(schema):
        return False
    if not all(map(_is_any, variants_of(schema, "allOf"))):
        return False
    return all(any(map(_is_any, variants)) for variants in _unions(schema))


def _unions(schema: Schema) -> list[list[JsonValue]]:
    """Return the lists of alternatives in a schema; empty lists are ignored."""
    if _COMBINING.isdisjoint(schema):
        return []
    unions = (variants_of(schema, keyword) for keyword in ("anyOf", "oneOf"))
    return [variants for variants in unions if variants]


# A schema's own type: type, enum, const, properties, items


def _own_type(schema: Schema, indent: str) -> _Type:
    kind = schema.get("type")
    if isinstance(kind, str) and kind in _PLAIN_TYPES and _values(schema) is None:
        return _PLAIN_TYPES[kind]
    kinds = _kinds(schema)
    values = _values(schema)
    if values is not None:
        return _literals(values, kinds)
    if not kinds and _has_object_shape(schema):
        kinds = ["object"]
    elif not kinds and _has_array_shape(schema):
        kinds = ["array"]
    is_listed = isinstance(schema.get("type"), list)
    written: dict[str, str] = {}
    for kind in kinds:
        if kind in written:
            continue
        if kind == "array":
            written[kind] = _array_type(schema, indent).text
        elif kind != "object":
            written[kind] = _PLAIN_TYPES[kind].text
        elif is_listed and not _has_object_shape(schema):
            written[kind] = "object"
        else:
            written[kind] = _object_type(schema, indent).text
    return _Type(tuple(written.values())) if written else _ANY


def _kinds(schema: Schema) -> list[str]:
    """Return the names under `type` that JSON Schema defines."""
    names = schema.get("type")
    listed = names if isinstance(names, list) else [names]
    defined = (*_PLAIN_TYPES, "array", "object")
    return [name for name in listed if isinstance(name, str) and name in defined]


def _values(schema: Schema) -> list[JsonValue] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _literals(values: list[JsonValue], kinds: list[str]) -> _Type:
    """Write the values that `kinds` allows, and null if `kinds` lists it and the enum does not."""
    fitting = [value for value in values if not kinds or _kind_names(value).intersection(kinds)]
    if "null" in kinds and None not in fitting:
        fitting.append(None)
    literals = (quoted(v) if isinstance(v, str) else escaped_json(v) for v in fitting)
    return _Type(tuple(literals)) if fitting else _NEVER


_KINDS_OF_VALUES = {
    type(None): {"null"},
    bool: {"boolean"},
    int: {"integer", "number"},
    str: {"string"},
    list: {"array"},
    dict: {"object"},
}


def _kind_names(value: JsonValue) -> set[str]:
    if isinstance(value, float):
        return {"number", "integer"} if value.is_integer() else {"number"}
    return _KINDS_OF_VALUES[type(value)]


def _has_shape(schema: Schema) -> bool:
    return _values(schema) is not None or _has_object_shape(schema) or _has_array_shape(schema)


def _has_object_shape(schema: Schema) -> bool:
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict) or (additional is True and "object" in _kinds(schema)):
        return True
    values = (schema.get(keyword) for keyword in NAMED_SCHEMAS)
    return any(isinstance(value, dict) and value for value in values)


def _has_array_shape(schema: Schema) -> bool:
    has_items = isinstance(schema.get("items"), (dict, list))
    return has_items or isinstance(schema.get("prefixItems"), list)


def _array_type(schema: Schema, indent: str) -> _Type:
    items = schema.get("items")
    listed = schema.get("prefixItems")
    rest = items
    if isinstance(items, list):
        listed, rest = items, schema.get("additionalItems")
    if not isinstance(listed, list) or not listed:
        return _array_of(_type_of(items, indent)) if "items" in schema else _Type(("Array<any>",))
    members: list[str] = []
    for member in listed:
        members.append(_type_of(member, indent).text)
    if isinstance(rest, dict) or rest is True:
        members.append(f"...{_array_of(_type_of(rest, indent)).text}")
    return _Type((f"[{', '.join(members)}]",))


def _object_type(schema: Schema, indent: str) -> _Type:
    lines: list[str] = []
    properties = schema.get("properties")
    required = schema.get("required")
    listed = required if isinstance(required, list) else []
    required_names = {name for name in listed if isinstance(name, str)}
    if isinstance(properties, dict):
        for name, value in properties.items():
            # An identifier of TypeScript may contain a dollar sign, unlike one of Python.
            key = name if name.replace("$", "_").isidentifier() else quoted(name)
            mark = "" if name in required_names else "?"
            lines.append(_property_text(f"{key}{mark}:", value, indent))
    others: list[_Type] = []
    patterns = schema.get("patternProperties")
    if isinstance(patterns, dict):
        for value in patterns.values():
            others.append(_type_of(value, indent))
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict) or additional is True:
        others.append(_type_of(additional, indent))
    if others and not lines:
        return _Type((f"Record<string, {_union(others).text}>",))
    if others:
        lines.append(f"{indent}[key: string]: {_union(others).text},\n")
    comment = indented(description_lines(schema), indent)
    return _Type((f"{comment}{{\n{''.join(lines)}{indent}}}",))


def _property_text(label: str, schema: JsonValue, indent: str) -> str:
    if not isinstance(schema, dict):
        return f"{indent}{label} {_type_of(schema, indent).text},\n"
    default = default_text(schema)
    variants = _listed_variants(schema)
    if not variants:
        comments = title_lines(schema) + description_lines(schema) + example_lines(schema)
        note = "" if default is None else f" // default: {default}"
        written = _type_of(schema, f"{indent}    ").text
        return f"{indented(comments, indent)}{indent}{label} {written},{note}\n"
    comments = title_lines(schema) + example_lines(schema)
    first_repeats_it = text_of(schema, "description") == text_of(variants[0], "description")
    if not (_is_one_of(schema) and first_repeats_it):
        comments += description_lines(schema)
    if default is not None:
        comments.append(f"// default: {default}")
    lines = _variant_lines(schema, variants, indent, in_property=True)
    listed = "".join(f"{indent} | {line}\n" for line in lines)
    return f"{indented(comments, indent)}{indent}{label}\n{listed}{indent},\n"


# Alternatives, one per line


def _is_one_of(schema: Schema) -> bool:
    """Return whether the reference prints one description for a property and its first variant."""
    return bool(variants_of(schema, "oneOf"))


def _listed_variants(schema: Schema) -> list[JsonValue]:
    """Return the variants of a schema that consists of alternatives only, one per line."""
    unions = _unions(schema)
    if len(unions) != 1 or variants_of(schema, "allOf") or _is_named(schema):
        return []
    if _own_type_counts(schema):
        return []
    deserves_lines = _is_one_of(schema) or any(map(_has_comment, unions[0]))
    return unions[0] if deserves_lines else []


def _has_comment(variant: JsonValue) -> bool:
    return text_of(variant, "description") is not None or default_text(variant) is not None


def _variant_lines(
    parent: Schema, variants: list[JsonValue], indent: str, *, in_property: bool
) -> Iterator[str]:
    described = text_of(parent, "description") if in_property else None
    hides_first = described is not None and _is_one_of(parent)
    has_null = False
    for position, variant in enumerate(variants):
        # As in the reference, three spaces inside a variant, and four inside a property.
        written = _type_of(variant, f"{indent}   ")
        has_null = has_null or "null" in written.parts
        note = text_of(variant, "description")
        if described is not None and (note == described or (position == 0 and hides_first)):
            note = None
        comments = [] if note is None else comment_lines(note)
        if in_property or not isinstance(variant, dict):
            default = default_text(variant)
        else:
            # The reference writes a text beside an enum without quotes, but not in such a variant.
            default = default_text({**variant, "enum": None})
        if default is not None:
            before = comments.pop() if comments else "//"
            comments.append(f"{before} default: {default}")
        yield (
            " ".join([written.text, f"\n{indent}   ".join(comments)]) if comments else written.text
        )
    if parent.get("nullable") is True and not has_null:
        yield "null"
