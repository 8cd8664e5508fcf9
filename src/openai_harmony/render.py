"""Messages to segments of tokens: the one rendering that everything else reads.

A segment says which message it belongs to and whether it is the header, the body or the stop
token. Prompts are the segments joined; training masks and inspectors read the same segments.
Only headers and stops hold special tokens: whatever a body or a name spells is encoded as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from .config import RenderConversationConfig, RenderOptions
from .content import Content, DeveloperContent, SystemContent, TextContent
from .errors import ConversationError
from .header_styles import HeaderPiece, header_pieces
from .messages import Message, Role
from .prompt import developer_prompt, system_prompt
from .special_tokens import CALL, END, RETURN, SPECIAL_TEXTS, START
from .tokenizer import Tokenizer

__all__ = ["Renderer", "Segment", "SegmentKind"]


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


class Renderer:
    """Render messages with one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def conversation(
        self, messages: Sequence[Message], config: RenderConversationConfig
    ) -> Iterator[Segment]:
        """Render `messages` in order, without the reasoning that `config` drops."""
        options = RenderOptions(
            conversation_has_function_tools=_has_function_tools(messages),
            schema_dialect=config.schema_dialect,
            header_style=config.header_style,
        )
        dropped = past_reasoning(messages) if config.auto_drop_analysis else frozenset()
        for at, message in enumerate(messages):
            if at not in dropped:
                yield from self.message(message, at, options)

    def message(self, message: Message, at: int, options: RenderOptions) -> Iterator[Segment]:
        """Render one message: header, a body for each item of content, stop."""
        yield self._header(header_pieces(message, options.header_style), at)
        for item in message.content:
            text = _body_text(message, item, options)
            tokens = self._tokenizer.encode_ordinary(text)
            yield Segment(SegmentKind.BODY, at, text, tokens)
        is_call = message.author.role is Role.ASSISTANT and message.recipient is not None
        yield _stop(CALL if is_call else END, at)

    def next_turn(self, role: Role, at: int) -> Segment:
        """Render the header that the next message starts with: ``<|start|>`` and a role."""
        return self._header((START, role.value), at)

    def training(
        self, messages: Sequence[Message], config: RenderConversationConfig
    ) -> list[Segment]:
        """Render `messages` so that a last ``final`` message ends in ``<|return|>``."""
        segments = list(self.conversation(messages, config))
        if messages and _is_final(messages[-1]):
            segments[-1] = _stop(RETURN, segments[-1].message)
        return segments

    def _header(self, pieces: Iterable[HeaderPiece], at: int) -> Segment:
        tokens: list[int] = []
        text = ""
        for piece in pieces:
            if isinstance(piece, int):
                tokens.append(piece)
                text += SPECIAL_TEXTS[piece]
            else:
                tokens += self._tokenizer.encode_ordinary(piece)
                text += piece
        return Segment(SegmentKind.HEADER, at, text, tokens)


def past_reasoning(messages: Sequence[Message]) -> frozenset[int]:
    """Tell which messages are reasoning that a later answer made obsolete, by index.

    Once the assistant's last message is ``final``, everything on ``analysis`` before the first
    ``final`` message goes (guide, "Handling reasoning output in subsequent sampling").
    """
    last = next((m for m in reversed(messages) if m.author.role is Role.ASSISTANT), None)
    if last is None or last.channel != "final":
        return frozenset()
    first_final = next(at for at, m in enumerate(messages) if m.channel == "final")
    return frozenset(at for at in range(first_final) if messages[at].channel == "analysis")


def _stop(token: int, at: int) -> Segment:
    return Segment(SegmentKind.STOP, at, SPECIAL_TEXTS[token], [token])


def _is_final(message: Message) -> bool:
    return message.author.role is Role.ASSISTANT and message.channel == "final"


def _has_function_tools(messages: Iterable[Message]) -> bool:
    namespaces = (
        (item.tools or {}).get("functions")
        for message in messages
        for item in message.content
        if isinstance(item, DeveloperContent)
    )
    return any(namespace is not None and namespace.tools for namespace in namespaces)


def _body_text(message: Message, item: Content, options: RenderOptions) -> str:
    if isinstance(item, TextContent):
        return item.text
    if isinstance(item, SystemContent):
        _require_role(message, Role.SYSTEM, item)
        return system_prompt(
            item,
            has_function_tools=options.conversation_has_function_tools,
            dialect=options.schema_dialect,
        )
    if isinstance(item, DeveloperContent):
        _require_role(message, Role.DEVELOPER, item)
        return developer_prompt(item, dialect=options.schema_dialect)
    raise ConversationError(f"cannot render content of type {type(item).__name__}", field="content")


def _require_role(message: Message, role: Role, item: Content) -> None:
    if message.author.role is not role:
        raise ConversationError(
            f"{type(item).__name__} belongs in a {role.value} message, "
            f"not in one by {message.author.role.value}",
            field="content",
        )
