"""``harmony schema``: tools and JSON Schemas to the TypeScript that the model reads."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ..apis.chat_messages import tool_from_chat
from ..config import SchemaDialect
from ..rendering.system_prompt import tool_declaration
from ..typescript.json_text import JsonValue
from ..typescript.reference_dialect import reference_schema_to_typescript
from ..typescript.writer import schema_to_typescript
from .command import Command, add_file, add_schema_dialect
from .output import Output
from .source import InputError, read_json

__all__ = ["SCHEMA"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser, "a function tool, a list of them, or a JSON Schema, as JSON")
    add_schema_dialect(parser, "--dialect")


def _run(arguments: argparse.Namespace) -> None:
    raw, _ = read_json(arguments.file)
    Output().line("\n\n".join(_types(raw, arguments.schema_dialect)))


def _types(raw: JsonValue, dialect: SchemaDialect) -> Iterator[str]:
    if isinstance(raw, list):
        if not raw:
            raise InputError("the list of tools is empty")
        for at, tool in enumerate(raw):
            yield tool_declaration(tool_from_chat(tool, field=f"[{at}]"), dialect)
    elif _is_tool(raw):
        yield tool_declaration(tool_from_chat(raw), dialect)
    else:
        yield _schema_type(raw, dialect)


def _is_tool(raw: JsonValue) -> bool:
    """Whether an object is a tool: no JSON Schema has such a type or name."""
    return isinstance(raw, dict) and (
        raw.get("type") == "function" or isinstance(raw.get("name"), str)
    )


def _schema_type(schema: JsonValue, dialect: SchemaDialect) -> str:
    if not isinstance(schema, (dict, bool)):
        raise InputError(f"expected a tool or a JSON Schema, found {schema!r:.80}")
    if dialect == "reference":
        return reference_schema_to_typescript(schema)
    return schema_to_typescript(schema)


SCHEMA = Command(
    name="schema",
    summary="show a tool or a JSON Schema as the TypeScript that the model reads",
    examples="""\
  harmony schema tools.json
  harmony schema tool.json --dialect reference
  echo '{"type": "array", "items": {"type": "string"}}' | harmony schema
""",
    add_arguments=_add_arguments,
    run=_run,
)
