"""JSON that a column may hold as text, since columns have one type and tools have many."""

from __future__ import annotations

import json
from typing import Any

from ...conversation.json_field import JsonField

__all__ = ["as_text", "parsed", "without_nulls"]


def parsed(field: JsonField) -> JsonField:
    """Parse a field that is text; anything else stays as it is.

    Raises `ConversationError` where the text is no JSON.
    """
    if not isinstance(field.value, str):
        return field
    if not field.value.strip():
        return JsonField(None, field.place)
    try:
        return JsonField(json.loads(field.value), field.place)
    except (ValueError, RecursionError) as error:
        raise field.error(
            f"text that is no JSON ({error!s:.100}); found {field.value!r:.60}"
        ) from None


def as_text(value: Any) -> str:
    """Write a value as the JSON that a model reads, as ``tojson`` of chat templates does."""
    return json.dumps(value, ensure_ascii=False)


def without_nulls(value: Any) -> Any:
    """Leave out the fields of objects that are null: in columns, a missing field is null.

    >>> without_nulls([{"city": "Rome", "unit": None}])
    [{'city': 'Rome'}]
    """
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
