"""The fields of a message header, however the header is spelled."""

from __future__ import annotations

import re
from typing import NamedTuple

from .messages import Role

__all__ = ["INVISIBLE", "INVISIBLE_RUN", "ROLES", "Header"]

ROLES = {role.value: role for role in Role}
"""The word of each role in a header, and the role."""

INVISIBLE = (
    r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Control characters, and those with Unicode's property Default_Ignorable_Code_Point."""

INVISIBLE_RUN = re.compile(rf"[{INVISIBLE}]+")


class Header(NamedTuple):
    """The fields of a message that its header contains."""

    role: Role
    name: str | None = None
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None
