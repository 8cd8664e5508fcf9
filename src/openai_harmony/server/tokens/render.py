"""A turn as its prompt: the text, the tokens, and the segments that they make up."""

from __future__ import annotations

from typing_extensions import TypedDict  # of Python 3.12, which tells pydantic more

from ...apis.turn_request import TurnRequest
from ...encoding import load_harmony_encoding
from ...sampled_messages import prompt_segments
from ..turns.preparation import RENDERING

__all__ = ["RenderedSegment", "RenderedTurn", "rendered_turn"]


class RenderedSegment(TypedDict):
    """A run of tokens of the message with this index; `kind` is header, body or stop."""

    kind: str
    message: int
    text: str
    tokens: list[int]


class RenderedTurn(TypedDict):
    """A prompt as ``harmony render --output json`` prints it, and the number of its tokens."""

    text: str
    tokens: list[int]
    segments: list[RenderedSegment]
    count: int


def rendered_turn(turn: TurnRequest) -> RenderedTurn:
    """Render the prompt of a turn; messages that the model has sampled are the tokens it chose."""
    encoding = load_harmony_encoding("HarmonyGptOss")
    segments = list(prompt_segments(encoding, turn.conversation, RENDERING))
    tokens = [token for segment in segments for token in segment.tokens]
    return {
        "text": "".join(segment.text for segment in segments),
        "tokens": tokens,
        "segments": [
            {
                "kind": segment.kind.value,
                "message": segment.message,
                "text": segment.text,
                "tokens": segment.tokens,
            }
            for segment in segments
        ],
        "count": len(tokens),
    }
