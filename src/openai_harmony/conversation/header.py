"""The fields of a message header, independent of its spelling."""

from __future__ import annotations

from typing import NamedTuple

from .messages import Role

__all__ = ["ROLES", "Header"]

ROLES = {role.value: role for role in Role}
"""Each role by its word in a header."""


class Header(NamedTuple):
    """The fields that a header gives its message."""

    role: Role
    name: str | None = None
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None
