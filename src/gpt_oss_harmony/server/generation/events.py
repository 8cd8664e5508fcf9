"""The events of a turn while the model writes it, independent of the API.

The events of one message share its `position` among the messages of the turn.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal, NamedTuple, TypeAlias

from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from ...conversation.messages import Message
from ...engines.engine import FinishReason
from ...grammar import Violation
from ...parsing.recovery import Recovery

__all__ = [
    "LEAST_LOGPROB",
    "Ending",
    "LogprobJson",
    "MessageBegun",
    "MessageEnded",
    "RepetitionDetail",
    "TextAdded",
    "TokenJson",
    "TokenLogprob",
    "TurnEnded",
    "TurnEvent",
    "Usage",
    "repetition_detail",
]

LEAST_LOGPROB = -9999.0
"""The logarithm of a probability of zero in both APIs: JSON has no infinity."""


class TokenJson(TypedDict):
    """A token, its bytes as numbers, and the natural logarithm of its probability."""

    token: str
    bytes: list[int]
    logprob: float


class LogprobJson(TokenJson):
    """A token of the content, and the likeliest tokens in its place."""

    top_logprobs: list[TokenJson]


class TokenLogprob(NamedTuple):
    """A sampled token of a body: its bytes, its log-probability, and the likeliest tokens."""

    data: bytes
    logprob: float
    top: tuple[tuple[bytes, float], ...]

    def to_json(self) -> LogprobJson:
        """Write the token as both APIs do.

        >>> TokenLogprob(b"hi", -0.5, ()).to_json()
        {'token': 'hi', 'bytes': [104, 105], 'logprob': -0.5, 'top_logprobs': []}
        """
        token, *top = (
            TokenJson(
                token=data.decode("utf-8", errors="replace"),
                bytes=list(data),
                logprob=max(logprob, LEAST_LOGPROB),
            )
            for data, logprob in ((self.data, self.logprob), *self.top)
        )
        return {**token, "top_logprobs": top}


class MessageBegun(NamedTuple):
    """The header of a message has been read."""

    position: int
    channel: str | None
    recipient: str | None


class TextAdded(NamedTuple):
    """Text of a message; `logprobs` are those of the tokens since the last text."""

    position: int
    text: str
    logprobs: tuple[TokenLogprob, ...]


class MessageEnded(NamedTuple):
    """A whole message; it is a `SampledMessage` unless it was repaired.

    `is_complete` is False if the tokens ended inside the message.
    """

    position: int
    message: Message
    is_complete: bool


class Usage(NamedTuple):
    """Numbers of tokens; cached tokens are part of the input, the last two of the output."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    forced_tokens: int = 0

    def plus(self, other: Usage) -> Usage:
        """Add the usage of a further turn."""
        return Usage(*(mine + its for mine, its in zip(self, other, strict=True)))


class Ending(Enum):
    """How a turn ended; each API has a table of its own words for them."""

    ANSWER = "the model ended its turn"
    CALL = "the model called a tool"
    STOP_TEXT = "a stop text was found"
    LIMIT = "the turn has as many tokens as it may have"
    CONTEXT = "the context is full"
    REPETITION = "the model ran in circles, and the server ended the turn"

    @property
    def is_early(self) -> bool:
        """Whether something else than the model, or a stop text, ended the turn."""
        return self in (Ending.LIMIT, Ending.CONTEXT, Ending.REPETITION)


class RepetitionDetail(TypedDict, total=False):
    """The reason why the server ended a turn early; clients get it as a limit on tokens."""

    stop_reason: Literal["repetition"]


def repetition_detail(ending: Ending) -> RepetitionDetail:
    """Return the field that names a repetition in an answer; none for any other ending."""
    return {"stop_reason": "repetition"} if ending is Ending.REPETITION else {}


class TurnEnded(NamedTuple):
    """The end of the turn, and everything that was sampled.

    `violations` are those of schemas that the grammar does not enforce in full. `stop_text` is the
    stop text that ended the turn, if one did.
    """

    ending: Ending
    usage: Usage
    tokens: list[int]
    recoveries: list[Recovery]
    violations: tuple[Violation, ...] = ()
    stop_text: str | None = None

    @property
    def reason(self) -> FinishReason:
        """The reason as an engine names it."""
        return FinishReason.LENGTH if self.ending.is_early else FinishReason.STOP


TurnEvent: TypeAlias = "MessageBegun | TextAdded | MessageEnded | TurnEnded"
