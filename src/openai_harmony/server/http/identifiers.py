"""Ids of responses, items, conversations and files."""

from __future__ import annotations

import secrets

__all__ = ["new_id"]


def new_id(prefix: str) -> str:
    """Make an id that nobody can guess, such as ``chatcmpl-...`` or ``call_...``."""
    return f"{prefix}{'' if prefix.endswith('-') else '_'}{secrets.token_hex(16)}"
