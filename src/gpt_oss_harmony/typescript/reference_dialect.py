"""JSON Schemas as TypeScript, byte for byte as openai-harmony 0.0.8 writes it.

This module reproduces that library's quirks: it loses keywords, does not escape text, and lets
comments run into code. `gpt_oss_harmony.typescript.writer` writes our corrected dialect.
"""

from __future__ import annotations

from .comments import text_of
from .json_text import JsonValue, Schema, compact_json, json_value


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
        lines = ""
        for variant in variants:
            default = _default_text(variant)
            # Only in a property does the reference write such a default without quotes.
            if isinstance(variant, dict) and default is not None and _has_enum(variant):
                default = compact_json(variant["default"])
            note = text_of(variant, "description")
            lines += f"\n{indent} | {_variant_text(variant, note, default, indent)}"
        return lines
    kind = schema.get("type")
    if isinstance(kind, list):
        names = ["number" if name == "integer" else name for name in kind if isinstance(name, str)]
        return " | ".join(names) if names else "any"
    if kind == "object":
        return _object_text(schema, indent)
    if kind == "array":
        return f"{_type_text(schema['items'], indent)}[]" if "items" in schema else "Array<any>"
    if kind == "string":
        values = schema.get("enum")
        listed = values if isinstance(values, list) else []
        texts = [f'"{value}"' for value in listed if isinstance(value, str)]
        return " | ".join(texts) or "string"
    if kind in ("number", "integer"):
        return "number"
    return "boolean" if kind == "boolean" else "any"


def _object_text(schema: Schema, indent: str) -> str:
    comment = "".join(f"{indent}{line}\n" for line in _description_lines(schema))
    properties = schema.get("properties")
    required = schema.get("required")
    listed = required if isinstance(required, list) else []
    required_names = {name for name in listed if isinstance(name, str)}
    lines = ""
    if isinstance(properties, dict):
        for name, value in properties.items():
            mark = "" if name in required_names else "?"
            lines += _property_text(f"{name}{mark}:", value, indent)
    return f"{comment}{{\n{lines}{indent}}}"


def _property_text(label: str, schema: JsonValue, indent: str) -> str:
    if not isinstance(schema, dict):
        return f"{indent}{label} any,\n"
    variants = schema.get("oneOf")
    if isinstance(variants, list):
        # The reference prints one description for the property and its first variant.
        description = text_of(schema, "description")
        comments = _title_lines(schema) + _example_lines(schema)
        if not variants or description != text_of(variants[0], "description"):
            comments += _description_lines(schema)
        if "default" in schema:
            comments.append(f"// default: {_default_text(schema)}")
        lines = f"{indent}{label}\n"
        for index, variant in enumerate(variants):
            own = text_of(variant, "description")
            is_printed = description is not None and (index == 0 or own == description)
            note = None if is_printed else own
            lines += f"{indent} | {_variant_text(variant, note, _default_text(variant), indent)}\n"
        return "".join(f"{indent}{line}\n" for line in comments) + f"{lines}{indent},\n"
    # With any "oneOf", even one that is not a list, the reference prints no description or default.
    described = "oneOf" not in schema
    comments = _title_lines(schema)
    comments += _description_lines(schema) if described else []
    comments += _example_lines(schema)
    text = "".join(f"{indent}{line}\n" for line in comments)
    default = _default_text(schema) if described else None
    comment = "" if default is None else f" // default: {default}"
    return f"{text}{indent}{label} {_nullable_text(schema, indent + '    ')},{comment}\n"


def _variant_text(schema: JsonValue, note: str | None, default: str | None, indent: str) -> str:
    notes = [] if note is None else [note]
    if default is not None:
        notes.append(f"default: {default}")
    comment = f" // {' '.join(notes)}" if notes else ""
    return _nullable_text(schema, f"{indent}   ") + comment


def _nullable_text(schema: JsonValue, indent: str) -> str:
    """Add ``| null``, unless the type contains the letters "null", even in a property's name."""
    text = _type_text(schema, indent)
    nullable = isinstance(schema, dict) and schema.get("nullable") is True
    return f"{text} | null" if nullable and "null" not in text else text


def _title_lines(schema: Schema) -> list[str]:
    title = text_of(schema, "title")
    return [] if title is None else [f"// {title}", "//"]


def _description_lines(schema: Schema) -> list[str]:
    description = text_of(schema, "description")
    return [] if description is None else [f"// {description}"]


def _example_lines(schema: Schema) -> list[str]:
    examples = schema.get("examples")
    if not isinstance(examples, list) or not examples:
        return []
    texts = [example for example in examples if isinstance(example, str)]
    return ["// Examples:", *(f'// - "{text}"' for text in texts)]


def _default_text(schema: JsonValue) -> str | None:
    """Write a default; a text default has no quotes if the schema has a non-empty enum."""
    if not isinstance(schema, dict) or "default" not in schema:
        return None
    default = schema["default"]
    if not isinstance(default, str):
        return compact_json(default)
    return default if _has_enum(schema) else f'"{default}"'


def _has_enum(schema: Schema) -> bool:
    values = schema.get("enum")
    return isinstance(values, list) and bool(values)
