"""What happens while a model speaks, before either API has put it into its own words.

A message is known by `at`, its place in the turn.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from ...conversation.messages import Message
from ...engines.engine import FinishReason
from ...parsing.recovery import Recovery

__all__ = [
    "MessageBegun",
    "MessageEnded",
    "TextAdded",
    "TokenLogprob",
    "TurnEnded",
    "TurnEvent",
    "Usage",
]


class TokenLogprob(NamedTuple):
    """A sampled token of a body: its bytes, its log-probability, and the likeliest in its place."""

    data: bytes
    logprob: float
    top: tuple[tuple[bytes, float], ...]


class MessageBegun(NamedTuple):
    """The header of a message has been read."""

    at: int
    channel: str | None
    recipient: str | None


class TextAdded(NamedTuple):
    """Text of a message; `logprobs` are those of the tokens since the last text."""

    at: int
    text: str
    logprobs: tuple[TokenLogprob, ...]


class MessageEnded(NamedTuple):
    """A whole message; a `SampledMessage` unless it had to be repaired.

    `is_complete` is False where the tokens ran out inside it.
    """

    at: int
    message: Message
    is_complete: bool


class Usage(NamedTuple):
    """Numbers of tokens; the cached are among the input's, those of reasoning the output's."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0

    def plus(self, other: Usage) -> Usage:
        """Add the usage of a further turn."""
        return Usage(*(mine + its for mine, its in zip(self, other, strict=True)))


class TurnEnded(NamedTuple):
    """The end of the turn: why it ended, and what was sampled in all."""

    reason: FinishReason
    usage: Usage
    tokens: list[int]
    recoveries: list[Recovery]


TurnEvent: TypeAlias = "MessageBegun | TextAdded | MessageEnded | TurnEnded"
