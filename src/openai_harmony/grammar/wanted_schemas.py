"""The JSON Schemas that an answer must follow one of: those of the options, or of the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..conversation.content import DeveloperContent
from ..conversation.messages import Conversation
from .errors import GrammarError
from .options import TurnOptions

__all__ = ["wanted_schemas"]


def wanted_schemas(conversation: Conversation, options: TurnOptions) -> list[tuple[str, object]]:
    """Find the schemas, each behind a pointer to where it stands; nothing for free text.

    >>> options = TurnOptions(response_format={"type": "json_object"})
    >>> wanted_schemas(Conversation.from_messages([]), options)
    [('#', {'type': 'object'})]
    """
    if options.response_format is not None:
        return _schema_of(options.response_format)
    return [
        (f"response_formats/{name}#", wanted.json_schema)
        for message in conversation.messages
        for item in message.content
        if isinstance(item, DeveloperContent)
        for name, wanted in (item.response_formats or {}).items()
    ]


def _schema_of(response_format: Mapping[str, Any]) -> list[tuple[str, object]]:
    kind = response_format.get("type")
    if kind == "text":
        return []
    if kind == "json_object":
        return [("#", {"type": "object"})]
    if kind != "json_schema":
        raise GrammarError(
            f"response_format: the type {kind!r:.80} is unknown",
            remedy="use text, json_object or json_schema",
        )
    wanted = response_format.get("json_schema", response_format)
    if not isinstance(wanted, Mapping) or not isinstance(wanted.get("schema"), (Mapping, bool)):
        raise GrammarError("response_format: json_schema has no schema", remedy="give it one")
    return [("response_format#", wanted["schema"])]
