"""A turn as its prompt: the text, the tokens, and the segments that they make up."""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import TypedDict  # of Python 3.12, which tells pydantic more

from ...apis.turn_request import TurnRequest
from ...encoding import load_harmony_encoding
from ...messages import Role
from ...sampled_messages import SampledMessage
from ...segments import Segment, SegmentKind
from ...special_tokens import END, MESSAGE, RETURN
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
    segments = list(_segments(turn))
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


def _segments(turn: TurnRequest) -> Iterator[Segment]:
    messages = turn.conversation.messages
    encoding = load_harmony_encoding("HarmonyGptOss")
    for segment in encoding.segments_for_completion(turn.conversation, Role.ASSISTANT, RENDERING):
        message = messages[segment.message] if segment.message < len(messages) else None
        if not isinstance(message, SampledMessage):
            yield segment
        elif segment.kind is SegmentKind.HEADER:
            for kind, tokens in _sampled(message):
                yield Segment(kind, segment.message, encoding.decode(tokens), tokens)


def _sampled(message: SampledMessage) -> Iterator[tuple[SegmentKind, list[int]]]:
    """Cut a message as it is rendered: `prompt_tokens` says which tokens these are."""
    tokens = [*load_harmony_encoding("HarmonyGptOss").encode(_OPENING, allowed_special="all")]
    tokens += message.sampled_tokens
    body = tokens.index(MESSAGE) + 1
    yield SegmentKind.HEADER, tokens[:body]
    if tokens[body:-1]:
        yield SegmentKind.BODY, tokens[body:-1]
    yield SegmentKind.STOP, [END if tokens[-1] == RETURN else tokens[-1]]


_OPENING = "<|start|>assistant"
