"""A rendering in segments: runs of tokens with their message, kind and text."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["Segment", "SegmentKind"]


class SegmentKind(str, Enum):
    """The part of a message that a segment holds."""

    HEADER = "header"
    BODY = "body"
    STOP = "stop"


class Segment(NamedTuple):
    """A run of tokens: `text` is their text, `message` the index of their message.

    The header that opens the next turn has the index one past the last message.
    """

    kind: SegmentKind
    message: int
    text: str
    tokens: list[int]
