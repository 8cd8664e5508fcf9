"""A rendering in pieces: tokens that know their message, their kind and their text."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["Segment", "SegmentKind"]


class SegmentKind(str, Enum):
    """What a segment is within its message."""

    HEADER = "header"
    BODY = "body"
    STOP = "stop"


class Segment(NamedTuple):
    """A run of tokens: `text` is what they stand for, `message` the index of its message.

    The header that opens the next turn has the index one past the last message.
    """

    kind: SegmentKind
    message: int
    text: str
    tokens: list[int]
