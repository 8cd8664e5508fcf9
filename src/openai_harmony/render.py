"""Messages to segments of tokens: the one rendering that everything else reads.

A segment says which message it belongs to and whether it is the header, the body or the stop
token. Prompts are the segments joined; training masks and inspectors read the same segments.
Only headers and stops hold special tokens: whatever a body or a name spells is encoded as text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple, cast

from .bounded_cache import BoundedCache
from .config import HeaderStyle, RenderConversationConfig, SchemaDialect
from .content import Content, DeveloperContent, SystemContent, TextContent
from .errors import ConversationError
from .header import Header
from .header_styles import header_pieces
from .messages import Message, Role
from .prompt import developer_prompt, system_prompt
from .special_tokens import CALL, END, SPECIAL_TEXTS, START
from .tokenizer import Tokenizer

__all__ = ["Rendered", "Renderer", "Segment", "SegmentKind", "ends_in_return", "segments_of"]


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


class Rendered(NamedTuple):
    """A whole message as tokens, and where its parts end in them."""

    tokens: list[int]
    parts: tuple[tuple[SegmentKind, str, int], ...]


# What a message is rendered from; equal keys give equal tokens. Never an identity.
_Key = tuple[object, ...]

DEFAULT_CACHE_BYTES = 64 * 1024 * 1024
_BYTES_PER_ENTRY = 700  # of dictionary entry, key, lists and tuples, beside their contents


class Renderer:
    """Render messages with one tokenizer; what was rendered once is kept, up to a limit."""

    def __init__(self, tokenizer: Tokenizer, cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._tokenizer = tokenizer
        self.cache: BoundedCache[_Key, Rendered] = BoundedCache(cache_bytes)
        self._header = functools.lru_cache(maxsize=4096)(self._render_header)

    def conversation(
        self, messages: Sequence[Message], config: RenderConversationConfig
    ) -> list[tuple[int, Rendered]]:
        """Render `messages` in order, each with its index, without what `config` drops."""
        dropped = past_reasoning(messages) if config.auto_drop_analysis else frozenset()
        kept = [at for at in range(len(messages)) if at not in dropped] if dropped else None
        chosen = messages if kept is None else [messages[at] for at in kept]
        has_tools = functools.cache(lambda: _has_function_tools(messages))
        rendered = self.messages(chosen, config.schema_dialect, config.header_style, has_tools)
        return list(zip(kept if kept is not None else range(len(messages)), rendered, strict=True))

    def messages(
        self,
        messages: Sequence[Message],
        dialect: SchemaDialect,
        style: HeaderStyle,
        has_tools: Callable[[], bool],
    ) -> list[Rendered]:
        """Render messages; the texts not seen before are encoded in one call."""
        found: list[Rendered | None] = []
        missing: list[tuple[int, _Key, Header, list[str]]] = []
        cached = self.cache.get
        for message in messages:
            author, content = message.author, message.content
            role = author.role
            if len(content) == 1 and type(content[0]) is TextContent:
                texts = [content[0].text]
            else:
                texts = [_body_text(role, item, dialect, has_tools) for item in content]
            channel, recipient = message.channel, message.recipient
            content_type = message.content_type
            key = (style, role, author.name, channel, recipient, content_type, *texts)
            known = cached(key)
            if known is None:
                header = Header(role, author.name, channel, recipient, content_type)
                missing.append((len(found), key, header, texts))
            found.append(known)
        if missing:
            self._render_missing(missing, style, found)
        return cast("list[Rendered]", found)  # nothing is missing any more

    def _render_missing(
        self,
        missing: list[tuple[int, _Key, Header, list[str]]],
        style: HeaderStyle,
        found: list[Rendered | None],
    ) -> None:
        bodies = iter(self._tokenizer.encode_many([t for *_, texts in missing for t in texts]))
        for at, key, header, texts in missing:
            header_text, header_tokens = self._header(header, style)
            tokens = header_tokens.copy()
            parts = [(SegmentKind.HEADER, header_text, len(tokens))]
            for text in texts:
                tokens += next(bodies)
                parts.append((SegmentKind.BODY, text, len(tokens)))
            is_call = header.role is Role.ASSISTANT and header.recipient is not None
            stop = CALL if is_call else END
            tokens.append(stop)
            parts.append((SegmentKind.STOP, SPECIAL_TEXTS[stop], len(tokens)))
            found[at] = rendered = Rendered(tokens, tuple(parts))
            size = 8 * len(tokens) + sum(len(text) for text in texts) + _BYTES_PER_ENTRY
            self.cache.put(key, rendered, size)

    def next_turn(self, role: Role, at: int) -> Segment:
        """Render the header that the next message starts with: ``<|start|>`` and a role."""
        tokens = [START, *self._tokenizer.encode_ordinary(role.value)]
        return Segment(SegmentKind.HEADER, at, SPECIAL_TEXTS[START] + role.value, tokens)

    def _render_header(self, header: Header, style: HeaderStyle) -> tuple[str, list[int]]:
        tokens: list[int] = []
        text = ""
        for piece in header_pieces(header, style):
            if isinstance(piece, int):
                tokens.append(piece)
                text += SPECIAL_TEXTS[piece]
            else:
                tokens += self._tokenizer.encode_ordinary(piece)
                text += piece
        return text, tokens


def segments_of(rendered: Rendered, at: int) -> Iterator[Segment]:
    """Cut a rendered message, the one with the index `at`, into its segments."""
    start = 0
    for kind, text, end in rendered.parts:
        yield Segment(kind, at, text, rendered.tokens[start:end])
        start = end


def ends_in_return(messages: Sequence[Message]) -> bool:
    """Whether a training example of `messages` ends in ``<|return|>``: after an answer."""
    return bool(messages) and _is_final(messages[-1])


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


def _body_text(
    role: Role, item: Content, dialect: SchemaDialect, has_tools: Callable[[], bool]
) -> str:
    if isinstance(item, TextContent):
        return item.text
    if isinstance(item, SystemContent):
        _require_role(role, Role.SYSTEM, item)
        return system_prompt(item, has_function_tools=has_tools(), dialect=dialect)
    if isinstance(item, DeveloperContent):
        _require_role(role, Role.DEVELOPER, item)
        return developer_prompt(item, dialect=dialect)
    raise ConversationError(f"cannot render content of type {type(item).__name__}", field="content")


def _require_role(role: Role, required: Role, item: Content) -> None:
    if role is not required:
        raise ConversationError(
            f"{type(item).__name__} belongs in a {required.value} message, "
            f"not in one by {role.value}",
            field="content",
        )
