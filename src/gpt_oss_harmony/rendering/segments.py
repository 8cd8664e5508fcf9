"""Segments: tokens of a rendered conversation with their message, kind and text."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["Segment", "SegmentKind"]


class SegmentKind(str, Enum):
    """The part of a message that a segment is."""

    HEADER = "header"
    BODY = "body"
    STOP = "stop"


class Segment(NamedTuple):
    """The tokens of a header, a body or a stop token.

    `text` is the text that the tokens stand for. `message` is the index of the message in the
    conversation; dropped messages count. For the header that opens the next turn it is the number
    of messages.
    """

    kind: SegmentKind
    message: int
    text: str
    tokens: list[int]
