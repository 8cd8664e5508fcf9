"""A JSON Schema in; out, byte for byte, the TypeScript that openai-harmony 0.0.8 writes for it.

This module owns the quirks: lost keywords, unescaped text, comments that leak into code.
`openai_harmony.typescript.writer` writes the corrected dialect.
"""

from __future__ import annotations

from .json_text import JsonValue, compact_json, json_value


def reference_schema_to_typescript(schema: JsonValue, indent: str = "") -> str:
    """Write a schema with every quirk of the reference.

    >>> reference_schema_to_typescript({"type": "array", "items": {"type": ["string", "null"]}})
    'string | null[]'
    """
    return _type_text(json_value(schema), indent)


def _type_text(schema: JsonValue, indent: str) -> str:
    if not isinstance(schema, dict):
        return "any"
    variants = schema.get("oneOf")
    if isinstance(variants, list):
        return "".join(_root_variant(variant, indent) for variant in variants)
    kind = schema.get("type")
    if isinstance(kind, list):
        return _joined_names(kind)
    if kind == "object":
        return _object_text(schema, indent)
    if kind == "array":
        return _array_text(schema, indent)
    if kind == "string":
        return " | ".join(f'"{value}"' for value in _enum_strings(schema)) or "string"
    if kind in ("number", "integer"):
        return "number"
    return "boolean" if kind == "boolean" else "any"


def _joined_names(kinds: list[JsonValue]) -> str:
    names = [kind for kind in kinds if isinstance(kind, str)]
    if not names:
        return "any"
    return " | ".join("number" if name == "integer" else name for name in names)


def _enum_strings(schema: dict[str, JsonValue]) -> list[str]:
    values = schema.get("enum")
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _array_text(schema: dict[str, JsonValue], indent: str) -> str:
    return f"{_type_text(schema['items'], indent)}[]" if "items" in schema else "Array<any>"


def _object_text(schema: dict[str, JsonValue], indent: str) -> str:
    comment = "".join(f"{indent}{line}\n" for line in _description_lines(schema))
    properties = schema.get("properties")
    required = schema.get("required")
    listed = required if isinstance(required, list) else []
    needed = {name for name in listed if isinstance(name, str)}
    lines = ""
    if isinstance(properties, dict):
        for name, value in properties.items():
            mark = "" if name in needed else "?"
            lines += _property_text(f"{name}{mark}:", value, indent)
    return f"{comment}{{\n{lines}{indent}}}"


def _property_text(label: str, schema: JsonValue, indent: str) -> str:
    if not isinstance(schema, dict):
        return f"{indent}{label} any,\n"
    variants = schema.get("oneOf")
    if isinstance(variants, list):
        return _union_property_text(label, schema, variants, indent)
    # A "oneOf" that is no list still costs the property its description and default.
    described = "oneOf" not in schema
    comments = _title_lines(schema)
    comments += _description_lines(schema) if described else []
    comments += _example_lines(schema)
    text = "".join(f"{indent}{line}\n" for line in comments)
    default = _default_text(schema) if described else None
    comment = "" if default is None else f" // default: {default}"
    return f"{text}{indent}{label} {_nullable_text(schema, indent + '    ')},{comment}\n"


def _union_property_text(
    label: str, schema: dict[str, JsonValue], variants: list[JsonValue], indent: str
) -> str:
    """The property's description and its first variant's are taken for one: only one is printed."""
    description = _text_of(schema, "description")
    comments = _title_lines(schema) + _example_lines(schema)
    if not variants or description != _text_of(variants[0], "description"):
        comments += _description_lines(schema)
    if "default" in schema:
        comments.append(f"// default: {_default_text(schema)}")
    text = "".join(f"{indent}{line}\n" for line in comments)
    lines = ""
    for position, variant in enumerate(variants):
        own = _text_of(variant, "description")
        note = None if description is not None and (position == 0 or own == description) else own
        lines += f"{indent} | {_variant_text(variant, note, _default_text(variant), indent)}\n"
    return f"{text}{indent}{label}\n{lines}{indent},\n"


def _root_variant(schema: JsonValue, indent: str) -> str:
    note = _text_of(schema, "description")
    default = _default_text(schema)
    if isinstance(schema, dict) and default is not None and _has_enum(schema):
        default = compact_json(schema["default"])
    return f"\n{indent} | {_variant_text(schema, note, default, indent)}"


def _variant_text(schema: JsonValue, note: str | None, default: str | None, indent: str) -> str:
    notes = [] if note is None else [note]
    if default is not None:
        notes.append(f"default: {default}")
    comment = f" // {' '.join(notes)}" if notes else ""
    return _nullable_text(schema, f"{indent}   ") + comment


def _nullable_text(schema: JsonValue, indent: str) -> str:
    """Leave out the null where the type holds the letters "null", be it in a property's name."""
    text = _type_text(schema, indent)
    nullable = isinstance(schema, dict) and schema.get("nullable") is True
    return f"{text} | null" if nullable and "null" not in text else text


def _text_of(schema: JsonValue, keyword: str) -> str | None:
    text = schema.get(keyword) if isinstance(schema, dict) else None
    return text if isinstance(text, str) else None


def _title_lines(schema: dict[str, JsonValue]) -> list[str]:
    title = _text_of(schema, "title")
    return [] if title is None else [f"// {title}", "//"]


def _description_lines(schema: dict[str, JsonValue]) -> list[str]:
    description = _text_of(schema, "description")
    return [] if description is None else [f"// {description}"]


def _example_lines(schema: dict[str, JsonValue]) -> list[str]:
    examples = schema.get("examples")
    if not isinstance(examples, list) or not examples:
        return []
    texts = [example for example in examples if isinstance(example, str)]
    return ["// Examples:", *(f'// - "{text}"' for text in texts)]


def _default_text(schema: JsonValue) -> str | None:
    """A text default stands bare beside a non-empty enum."""
    if not isinstance(schema, dict) or "default" not in schema:
        return None
    default = schema["default"]
    if not isinstance(default, str):
        return compact_json(default)
    return default if _has_enum(schema) else f'"{default}"'


def _has_enum(schema: dict[str, JsonValue]) -> bool:
    values = schema.get("enum")
    return isinstance(values, list) and bool(values)
