"""What a message header says, however it is spelled."""

from __future__ import annotations

from typing import NamedTuple

from .messages import Role

__all__ = ["ROLES", "Header"]

ROLES = {role.value: role for role in Role}
"""Each role by the word that stands for it in a header."""


class Header(NamedTuple):
    """What a header says about its message."""

    role: Role
    name: str | None = None
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None
