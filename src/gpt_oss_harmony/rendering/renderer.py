"""Messages to segments of tokens: the only rendering, which everything else uses.

A segment is the header, a body or the stop token of a message, and has the message's index. A
prompt is all segments joined; training masks and the inspector use the same segments. Only headers
and stops contain special tokens: bodies and names are encoded as text, whatever they spell.
"""

from __future__ import annotations

import functools
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, cast

from ..config import HeaderStyle, RenderConversationConfig, SchemaDialect
from ..conversation.content import TextContent
from ..conversation.messages import Header, Message, Role, declares_functions
from ..errors import ConversationError, SchemaError
from ..tokens.special_tokens import CALL, END, SPECIAL_TEXTS, START
from ..tokens.tiktoken_core import id_list
from ..tokens.tokenizer import Tokenizer
from .cache import DEFAULT_CACHE_BYTES, BoundedCache
from .headers import header_pieces
from .history import analysis_before_first_final, past_reasoning
from .system_prompt import PromptWriter


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


# A message's tokens depend on these alone: the header style, the five fields of the header and the
# texts of the bodies. Equal keys give equal tokens. A key never contains an object's identity.
_Key: TypeAlias = tuple[Any, ...]
_FIELDS = slice(1, 6)
_STYLE_AND_FIELDS = slice(6)
_TEXTS = slice(6, None)


@dataclass(eq=False)  # compared and hashed as an object: it is a key of `Generation.after`
class Rendered:
    """A message as tokens; `ends` are the indices where the header and each body end.

    Tokens start as an `array` (cheap to build) and become a `list` on the first cache hit (cheap
    to copy).
    """

    __slots__ = ("ends", "header", "key", "tokens")

    key: _Key
    tokens: array[int] | list[int]
    header: str
    ends: tuple[int, ...]

    def copy_tokens(self) -> list[int]:
        """Return the tokens as a list that the caller may change."""
        return id_list(self.tokens) if isinstance(self.tokens, array) else self.tokens.copy()

    def segments(self, message_index: int) -> Iterator[Segment]:
        """Split the message into segments with this message index."""
        tokens, ends = self.copy_tokens(), self.ends
        yield Segment(SegmentKind.HEADER, message_index, self.header, tokens[: ends[0]])
        for text, (start, end) in zip(self.key[_TEXTS], pairwise(ends), strict=True):
            yield Segment(SegmentKind.BODY, message_index, text, tokens[start:end])
        yield Segment(SegmentKind.STOP, message_index, SPECIAL_TEXTS[tokens[-1]], tokens[-1:])

    def size(self) -> int:
        """Estimate the bytes of a cache entry: a list of tokens, the texts, overhead."""
        return 8 * len(self.tokens) + sum(map(sys.getsizeof, self.key[_TEXTS])) + 800


_Header: TypeAlias = "tuple[str, array[int]]"


class Renderer:
    """Render messages with one tokenizer; cache those by `cached_roles`, up to a limit in bytes."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        cached_roles: Iterable[Role] = Role,
    ) -> None:
        self._tokenizer = tokenizer
        self._cached_roles = frozenset(cached_roles)
        self.cache: BoundedCache[_Key, Rendered] = BoundedCache(cache_bytes, Rendered.size)
        self.prompts = PromptWriter(cache_bytes // 8)
        self.headers: BoundedCache[tuple[Any, ...], _Header] = BoundedCache(
            cache_bytes // 8,
            # The texts in the key are about as long as the header.
            lambda header: 3 * sys.getsizeof(header[0]) + 4 * len(header[1]) + 500,
        )

    def conversation(
        self, messages: Sequence[Message], config: RenderConversationConfig
    ) -> tuple[Sequence[int], list[Rendered]]:
        """Render the messages that `config` keeps; return their indices and the rendered ones."""
        dropped: frozenset[int] = frozenset()
        if config.auto_drop_analysis:
            is_by_turn = config.reasoning_rule == "by-turn"
            dropped = (past_reasoning if is_by_turn else analysis_before_first_final)(messages)
        indices: Sequence[int] = range(len(messages))
        if dropped:
            indices = [index for index in indices if index not in dropped]
        # Only a system content needs it, and only once: the conversation may be long.
        has_tools = functools.cache(lambda: any(map(declares_functions, messages)))
        chosen = [messages[index] for index in indices] if dropped else messages
        render = functools.partial(
            self.messages,
            dialect=config.schema_dialect, style=config.header_style, has_tools=has_tools,
        )  # fmt: skip
        try:
            return indices, render(chosen)
        except ConversationError as error:
            # Errors of schemas, and those without a field, may be of a request, whose messages are
            # others; a schema's place among the tools is the same in both.
            if error.field and not isinstance(error, SchemaError):
                error.field = f"{_first_wrong(chosen, indices, render)}{error.field}"
            raise

    def messages(
        self,
        messages: Sequence[Message],
        dialect: SchemaDialect,
        style: HeaderStyle,
        has_tools: Callable[[], bool],
    ) -> list[Rendered]:
        """Render messages; encode all uncached texts in one call."""
        rendered: list[Rendered | None] = []
        missing: list[tuple[int, _Key]] = []
        young = self.cache.young
        after = young.after
        cached_roles = self._cached_roles
        cached: Rendered | None = None
        for message in messages:
            # Attribute lookup on pydantic models is slow; one read of `__dict__` gets all fields.
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
                role = message.author.role
                texts = (self.prompts.text(role, item, dialect, has_tools) for item in content)
                key = (
                    style, role, message.author.name, message.channel, message.recipient,
                    message.content_type, *texts,
                )  # fmt: skip
            if key[1] not in cached_roles:
                missing.append((len(rendered), key))
                rendered.append(None)
                continue
            # Most conversations were rendered before with one turn less, so the message that came
            # next last time is tried first. Comparing equal strings is faster than hashing one.
            previous, cached = cached, after.get(cached)
            if cached is None or cached.key != key:
                cached = young.get(key) or self.cache.get(key)
                if cached is None:
                    missing.append((len(rendered), key))
                else:
                    if isinstance(cached.tokens, array):
                        cached.tokens = self._tokenizer.shared(cached.tokens)
                    after[previous] = cached
            rendered.append(cached)
        if missing:
            self._fill_in(rendered, missing)
        return cast("list[Rendered]", rendered)

    def _fill_in(self, rendered: list[Rendered | None], missing: list[tuple[int, _Key]]) -> None:
        """Render the messages that are not cached, and store each at its index."""
        bodies = iter(self._tokenizer.encode_many([t for _, key in missing for t in key[_TEXTS]]))
        new: list[tuple[_Key, Rendered]] = []
        headers = self.headers
        for index, key in missing:
            header_key = key[_STYLE_AND_FIELDS]
            header = headers.young.get(header_key) or headers.get(header_key)
            header_text, header_tokens = header or self._render_header(key)
            tokens = header_tokens[:]  # a copy: other messages have the same header
            ends = [len(tokens)]
            for _ in key[_TEXTS]:
                tokens += next(bodies)
                ends.append(len(tokens))
            _, role, _, _, recipient, _ = header_key
            is_call = role is Role.ASSISTANT and recipient is not None
            # Never <|return|>: the model samples it, but later prompts have <|end|> in its place.
            tokens.append(CALL if is_call else END)
            message = Rendered(key, tokens, header_text, tuple(ends))
            rendered[index] = message
            if role in self._cached_roles:
                new.append((key, message))
        if new:
            self.cache.put_all(new)

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

    def next_turn(self, role: Role, message_index: int) -> Segment:
        """Render the opening of the next message: ``<|start|>`` and a role."""
        tokens = [START, *self._tokenizer.encode_ordinary(role.value)]
        text = SPECIAL_TEXTS[START] + role.value
        return Segment(SegmentKind.HEADER, message_index, text, tokens)

    def limit_cache(self, limit: int) -> None:
        """Cache at most about `limit` bytes from now on; drop what is cached."""
        self.cache.set_limit(limit)
        self.headers.set_limit(limit // 8)
        self.prompts.tools_cache.set_limit(limit // 8)


def _first_wrong(
    messages: Sequence[Message],
    indices: Sequence[int],
    render: Callable[[Sequence[Message]], object],
) -> str:
    """Return the beginning of paths in the first message that cannot be rendered alone."""
    for index, message in zip(indices, messages, strict=True):
        try:
            render([message])
        except ConversationError:
            return f"messages[{index}]."
    return ""
