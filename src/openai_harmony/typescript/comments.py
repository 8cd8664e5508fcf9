"""The comments of a TypeScript type: titles, descriptions, examples and defaults of a schema.

Whatever a schema says there stays inside comments: no line of it can become code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .json_text import JsonValue, Schema, compact_json, quoted

__all__ = [
    "LINE_BREAK",
    "comment_lines",
    "default_text",
    "description_lines",
    "escaped_json",
    "example_lines",
    "indented",
    "text_of",
    "title_lines",
]


def text_of(schema: JsonValue, keyword: str) -> str | None:
    """A keyword's value where it is text."""
    text = schema.get(keyword) if isinstance(schema, dict) else None
    return text if isinstance(text, str) else None


_LINE_ENDS = "\n\r\u2028\u2029"
LINE_BREAK = re.compile(f"\r\n|[{_LINE_ENDS}]")
"""Where TypeScript ends a line, and with it a comment."""


def comment_lines(text: str) -> list[str]:
    """Split where TypeScript ends a line; outer blank lines go, a single line stays as it is."""
    if not LINE_BREAK.search(text):
        return [f"// {text}"]
    return [f"// {line}".rstrip() for line in LINE_BREAK.split(text.strip(_LINE_ENDS))]


def indented(lines: Iterable[str], indent: str) -> str:
    """Join lines, each after `indent`."""
    return "".join(f"{indent}{line}\n" for line in lines)


def title_lines(schema: Schema) -> list[str]:
    """Write the title, set off by an empty comment line."""
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
    """A text default stands bare beside an enum, as the reference has it."""
    if not isinstance(schema, dict) or "default" not in schema:
        return None
    default = schema["default"]
    bare = isinstance(default, str) and isinstance(schema.get("enum"), list) and schema["enum"]
    if isinstance(default, str) and bare and not LINE_BREAK.search(default):
        return default
    return _noted_value(default)


def _noted_value(value: JsonValue) -> str:
    """Text stands unescaped in a comment, unless it would end the comment's line."""
    if isinstance(value, str):
        return quoted(value) if LINE_BREAK.search(value) else f'"{value}"'
    return escaped_json(value)


def escaped_json(value: JsonValue) -> str:
    """JSON text that stays in one line of TypeScript."""
    return compact_json(value).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
