"""What the model will see: a conversation as tokens, each with its message, and the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from typing_extensions import TypedDict  # of Python 3.12, which tells pydantic more

from ..conversation.messages import Message
from ..encoding import load_harmony_encoding
from ..training import IGNORED
from .rendering import RenderedConversation, rendered_conversation
from .source import conversation_json, read_source
from .token_list import TokenList, token_list
from .wire import Form, RenderBody

__all__ = ["Rendering", "RenderingSpan", "rendering"]


class MessageSummary(TypedDict):
    """A message: how many tokens it has, or why it is left out."""

    index: int
    role: str
    name: str | None
    channel: str | None
    recipient: str | None
    content_type: str | None
    tokens: int
    dropped: str | None


class RenderingSpan(TypedDict):
    """A run of tokens of one message; that of the next turn's header is one past the last."""

    start: int
    end: int
    message: int
    kind: Literal["header", "body", "stop"]
    sampled: bool
    learned: bool


class Rendering(TypedDict):
    """The conversation as it was read and rendered.

    `labels` has the token that is learned where another one stands, by its index.
    """

    form: Form
    conversation: dict[str, Any]
    messages: list[MessageSummary]
    spans: list[RenderingSpan]
    tokens: TokenList
    labels: dict[str, int]
    text: str
    examples: int


def rendering(body: RenderBody) -> Rendering:
    """Render a source; raises `HarmonyError`, which names the field at fault."""
    source = read_source(body)
    messages = source.conversation.messages
    rendered = rendered_conversation(source.conversation, body)
    lengths = {part.message: part.end - part.start for part in rendered.parts}
    pairs = zip(rendered.tokens, rendered.labels if rendered.examples else (), strict=False)
    return {
        "form": source.form,
        "conversation": conversation_json(source.conversation),
        "messages": [
            _summary(at, message, lengths.get(at, 0), rendered.dropped.get(at))
            for at, message in enumerate(messages)
        ],
        "spans": list(_spans(rendered, len(messages))),
        "tokens": token_list(rendered.tokens),
        "labels": {
            str(at): label
            for at, (token, label) in enumerate(pairs)
            if label not in (token, IGNORED)
        },
        "text": load_harmony_encoding("HarmonyGptOss").decode(rendered.tokens),
        "examples": rendered.examples,
    }


def _summary(at: int, message: Message, tokens: int, dropped: str | None) -> MessageSummary:
    return {
        "index": at,
        "role": message.author.role.value,
        "name": message.author.name,
        "channel": message.channel,
        "recipient": message.recipient,
        "content_type": message.content_type,
        "tokens": tokens,
        "dropped": dropped,
    }


def _spans(rendered: RenderedConversation, messages: int) -> Iterator[RenderingSpan]:
    end = 0
    for message, start, first, body, end, is_own in rendered.parts:
        yield from _span(start, first, message, "header", False, rendered.labels)
        yield from _span(first, body, message, "header", is_own, rendered.labels)
        yield from _span(body, end - 1, message, "body", is_own, rendered.labels)
        yield from _span(end - 1, end, message, "stop", is_own, rendered.labels)
    yield from _span(end, len(rendered.tokens), messages, "header", False, rendered.labels)


def _span(
    start: int,
    end: int,
    message: int,
    kind: Literal["header", "body", "stop"],
    sampled: bool,
    labels: Sequence[int],
) -> Iterator[RenderingSpan]:
    """Make a span, unless it is empty; a message is learned from where it is sampled, or not."""
    if start < end:
        yield {
            "start": start,
            "end": end,
            "message": message,
            "kind": kind,
            "sampled": sampled,
            "learned": labels[start] != IGNORED,
        }
