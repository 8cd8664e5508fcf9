"""How much a message of a row counts: its field ``weight``."""

from __future__ import annotations

from ...conversation.json_field import JsonField

__all__ = ["read_weight"]


def read_weight(weight: JsonField) -> float:
    """Read how much a message counts; raises `ConversationError` where it is no such number."""
    if isinstance(weight.value, bool) or not isinstance(weight.value, (int, float)):
        raise weight.unexpected("a number")
    if not 0 <= weight.value < float("inf"):
        raise weight.unexpected("a number of 0 or more")
    return float(weight.value)
