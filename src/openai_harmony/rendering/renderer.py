"""Messages to segments of tokens: the one rendering that everything else reads.

A segment says which message it belongs to and whether it is the header, the body or the stop
token. Prompts are the segments joined; training masks and inspectors read the same segments.
Only headers and stops hold special tokens: whatever a body or a name spells is encoded as text.
"""

from __future__ import annotations

import functools
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias, cast

from ..config import HeaderStyle, RenderConversationConfig, SchemaDialect
from ..conversation.content import Content, DeveloperContent, SystemContent, TextContent
from ..conversation.header import Header
from ..conversation.messages import Message, Role
from ..errors import ConversationError
from ..tokens.special_tokens import CALL, END, SPECIAL_TEXTS, START
from ..tokens.tokenizer import Tokenizer
from .cache import BoundedCache
from .headers import header_pieces
from .segments import Segment, SegmentKind
from .system_prompt import developer_prompt, system_prompt
from .tool_sections import ToolSections

__all__ = ["Rendered", "Renderer", "past_reasoning"]


# All that a message is rendered from: style, the five fields of a header, texts of the bodies.
# Equal keys give equal tokens; no identity is ever part of one.
_Key: TypeAlias = tuple[Any, ...]
_FIELDS = slice(1, 6)
_STYLE_AND_FIELDS = slice(6)
_TEXTS = slice(6, None)


@dataclass(eq=False)
class Rendered:
    """A whole message as tokens; `ends` tells where the header and each of the bodies end.

    Tokens are an array, quickly made, until they are asked for again; then they are a list,
    quickly copied.
    """

    __slots__ = ("ends", "header", "key", "tokens")

    key: _Key
    tokens: array[int] | list[int]
    header: str
    ends: tuple[int, ...]

    def copy_tokens(self) -> list[int]:
        """A list of the tokens for the caller."""
        return list(self.tokens)

    def segments(self, at: int) -> Iterator[Segment]:
        """Cut the message, the one with the index `at`, into its segments."""
        tokens, ends = self.copy_tokens(), self.ends
        yield Segment(SegmentKind.HEADER, at, self.header, tokens[: ends[0]])
        for text, (start, end) in zip(self.key[_TEXTS], pairwise(ends), strict=True):
            yield Segment(SegmentKind.BODY, at, text, tokens[start:end])
        yield Segment(SegmentKind.STOP, at, SPECIAL_TEXTS[tokens[-1]], tokens[-1:])


DEFAULT_CACHE_BYTES = 64 * 1024 * 1024


def _size(rendered: Rendered) -> int:
    """Estimate the bytes of a cache entry: a list of tokens, the texts, overhead."""
    return 8 * len(rendered.tokens) + sum(map(sys.getsizeof, rendered.key[_TEXTS])) + 800


_Header: TypeAlias = "tuple[str, array[int]]"


def _header_size(header: _Header) -> int:
    text, tokens = header
    return 3 * sys.getsizeof(text) + 4 * len(tokens) + 500  # the key's texts are about as long


class Renderer:
    """Render messages with one tokenizer; what was rendered once is kept, up to a limit."""

    def __init__(self, tokenizer: Tokenizer, cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._tokenizer = tokenizer
        self.cache: BoundedCache[_Key, Rendered] = BoundedCache(cache_bytes, _size)
        self.tool_sections = ToolSections(cache_bytes // 8)
        self.headers: BoundedCache[tuple[Any, ...], _Header] = BoundedCache(
            cache_bytes // 8, _header_size
        )

    def conversation(
        self, messages: Sequence[Message], config: RenderConversationConfig
    ) -> tuple[Sequence[int], list[Rendered]]:
        """Render `messages` without what `config` drops; return the indices of the rest, too."""
        dropped = past_reasoning(messages) if config.auto_drop_analysis else None
        kept: Sequence[int] = range(len(messages))
        if dropped:
            kept = [at for at in kept if at not in dropped]
        has_tools = functools.cache(lambda: _has_function_tools(messages))
        chosen = [messages[at] for at in kept] if dropped else messages
        rendered = self.messages(chosen, config.schema_dialect, config.header_style, has_tools)
        return kept, rendered

    def messages(
        self,
        messages: Sequence[Message],
        dialect: SchemaDialect,
        style: HeaderStyle,
        has_tools: Callable[[], bool],
    ) -> list[Rendered]:
        """Render messages; the texts not seen before are encoded in one call."""
        found: list[Rendered | None] = []
        missing: list[tuple[int, _Key]] = []
        young = self.cache.young
        after = young.after
        known: Rendered | None = None
        for message in messages:
            # The models' own lookup of attributes is slow; their fields can be had in one.
            fields = message.__dict__
            content = fields["content"]
            if len(content) == 1 and type(content[0]) is TextContent:
                author = fields["author"].__dict__
                key: _Key = (
                    style,
                    author["role"],
                    author["name"],
                    fields["channel"],
                    fields["recipient"],
                    fields["content_type"],
                    content[0].__dict__["text"],
                )
            else:
                key = self._key(message, dialect, style, has_tools)
            # Most conversations were here before, a turn shorter: then no text need be hashed.
            previous, known = known, after.get(known)
            if known is None or known.key != key:
                known = young.get(key) or self.cache.get(key)
                if known is None:
                    missing.append((len(found), key))
                else:
                    if isinstance(known.tokens, array):
                        known.tokens = self._tokenizer.shared(known.tokens)
                    after[previous] = known
            found.append(known)
        if missing:
            self._render_missing(missing, found)
        return cast("list[Rendered]", found)  # nothing is missing any more

    def _key(
        self,
        message: Message,
        dialect: SchemaDialect,
        style: HeaderStyle,
        has_tools: Callable[[], bool],
    ) -> _Key:
        author = message.author
        fields = (author.role, author.name, message.channel, message.recipient)
        texts = (self._body_text(author.role, item, dialect, has_tools) for item in message.content)
        return (style, *fields, message.content_type, *texts)

    def _render_missing(
        self, missing: list[tuple[int, _Key]], found: list[Rendered | None]
    ) -> None:
        bodies = iter(self._tokenizer.encode_many([t for _, key in missing for t in key[_TEXTS]]))
        new: list[tuple[_Key, Rendered]] = []
        for at, key in missing:
            fields = key[_FIELDS]
            kept = self.headers.get(key[_STYLE_AND_FIELDS])
            header, header_tokens = kept or self._render_header(key)
            tokens = header_tokens[:]
            ends = [len(tokens)]
            for _ in key[_TEXTS]:
                tokens += next(bodies)
                ends.append(len(tokens))
            tokens.append(_stop_token(fields))
            found[at] = rendered = Rendered(key, tokens, header, tuple(ends))
            new.append((key, rendered))
        self.cache.put_all(new)

    def _body_text(
        self, role: Role, item: Content, dialect: SchemaDialect, has_tools: Callable[[], bool]
    ) -> str:
        if isinstance(item, TextContent):
            return item.text
        tools = self.tool_sections
        if isinstance(item, SystemContent):
            _require_role(role, Role.SYSTEM, item)
            return system_prompt(
                item, has_function_tools=has_tools(), dialect=dialect, write_tools=tools
            )
        if isinstance(item, DeveloperContent):
            _require_role(role, Role.DEVELOPER, item)
            return developer_prompt(item, dialect=dialect, write_tools=tools)
        problem = f"cannot render content of type {type(item).__name__}"
        raise ConversationError(problem, field="content")

    def next_turn(self, role: Role, at: int) -> Segment:
        """Render the header that the next message starts with: ``<|start|>`` and a role."""
        tokens = [START, *self._tokenizer.encode_ordinary(role.value)]
        return Segment(SegmentKind.HEADER, at, SPECIAL_TEXTS[START] + role.value, tokens)

    def _render_header(self, key: _Key) -> _Header:
        tokens = array("I")
        text = ""
        for piece in header_pieces(Header(*key[_FIELDS]), key[0]):
            if isinstance(piece, int):
                tokens.append(piece)
                text += SPECIAL_TEXTS[piece]
            else:
                tokens.extend(self._tokenizer.encode_ordinary(piece))
                text += piece
        self.headers.put(key[_STYLE_AND_FIELDS], (text, tokens))
        return text, tokens

    def limit_cache(self, limit: int) -> None:
        """Keep at most about `limit` bytes, and forget what there is."""
        self.cache.set_limit(limit)
        self.headers.set_limit(limit // 8)
        self.tool_sections.cache.set_limit(limit // 8)


def _stop_token(fields: tuple[Any, ...]) -> int:
    role, _name, _channel, recipient, _content_type = fields
    return CALL if role is Role.ASSISTANT and recipient is not None else END


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


def _has_function_tools(messages: Iterable[Message]) -> bool:
    namespaces = (
        (item.tools or {}).get("functions")
        for message in messages
        for item in message.content
        if isinstance(item, DeveloperContent)
    )
    return any(namespace is not None and namespace.tools for namespace in namespaces)


def _require_role(role: Role, required: Role, item: Content) -> None:
    if role is not required:
        raise ConversationError(
            f"{type(item).__name__} belongs in a {required.value} message, "
            f"not in one by {role.value}",
            field="content",
        )
