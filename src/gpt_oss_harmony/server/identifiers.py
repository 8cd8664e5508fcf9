"""Ids of responses, items, conversations and files."""

from __future__ import annotations

import secrets
import time

__all__ = ["new_id"]


def new_id(prefix: str) -> str:
    """Make an id that nobody can guess, such as ``chatcmpl-...`` or ``call_...``.

    Ids sort by the microsecond at which they were made, so they order rows of the same second. Then
    come 72 random bits.
    """
    joint = "" if prefix.endswith("-") else "_"
    return f"{prefix}{joint}{time.time_ns() // 1000:014x}{secrets.token_hex(9)}"
