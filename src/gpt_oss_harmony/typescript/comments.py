"""The comments of a TypeScript type: titles, descriptions, examples and defaults of a schema.

A schema's text stays inside its comment: no line of it becomes code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .json_text import JsonValue, Schema, compact_json, quoted


def text_of(schema: JsonValue, keyword: str) -> str | None:
    """Return a keyword's value if it is text, else None."""
    text = schema.get(keyword) if isinstance(schema, dict) else None
    return text if isinstance(text, str) else None


_LINE_ENDS = "\n\r\u2028\u2029"
LINE_BREAK = re.compile(f"\r\n|[{_LINE_ENDS}]")
"""The line breaks of TypeScript; each ends a comment."""


def comment_lines(text: str) -> list[str]:
    """Split text into comment lines, without outer blank lines; a single line stays as it is."""
    if not LINE_BREAK.search(text):
        return [f"// {text}"]
    return [f"// {line}".rstrip() for line in LINE_BREAK.split(text.strip(_LINE_ENDS))]


def indented(lines: Iterable[str], indent: str) -> str:
    """Join lines, each with `indent` before it."""
    return "".join(f"{indent}{line}\n" for line in lines)


def title_lines(schema: Schema) -> list[str]:
    """Write the title and an empty comment line after it."""
    title = text_of(schema, "title")
    return [] if title is None else [*comment_lines(title), "//"]


def description_lines(schema: Schema) -> list[str]:
    """Write the description."""
    description = text_of(schema, "description")
    return [] if description is None else comment_lines(description)


def example_lines(schema: Schema) -> list[str]:
    """Write the examples as a list."""
    examples = schema.get("examples")
    if not isinstance(examples, list) or not examples:
        return []
    return ["// Examples:", *(f"// - {_noted_value(example)}" for example in examples)]


def default_text(schema: JsonValue) -> str | None:
    """Write a default; if there is an enum, a text has no quotes, as in the reference."""
    if not isinstance(schema, dict) or "default" not in schema:
        return None
    default = schema["default"]
    has_enum = isinstance(schema.get("enum"), list) and schema["enum"]
    if isinstance(default, str) and has_enum and not LINE_BREAK.search(default):
        return default
    return _noted_value(default)


def _noted_value(value: JsonValue) -> str:
    """Write a value for a comment; text is escaped only if it contains a line break."""
    if isinstance(value, str):
        return quoted(value) if LINE_BREAK.search(value) else f'"{value}"'
    return escaped_json(value)


def escaped_json(value: JsonValue) -> str:
    """Return JSON text without any of TypeScript's line breaks."""
    return compact_json(value).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
