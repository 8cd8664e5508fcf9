"""`HarmonyEncoding`: conversations to tokens, tokens to messages, text to tokens and back."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel

from .config import RenderConversationConfig, RenderOptions
from .conversation.messages import Conversation, Message, Role, checked_conversation, is_answer
from .errors import ConversationError, PromptLengthError, VocabularyError, wrong_type
from .parsing.parser import StreamableParser, parse_messages
from .parsing.recovery import RecoveryKind
from .parsing.state import MendCheck
from .rendering.renderer import Segment
from .tokens.special_tokens import CALL, END, RETURN, SPECIAL_IDS, SPECIAL_TEXTS
from .tokens.tiktoken_core import id_list
from .tokens.tokenizer import integer, load_tokenizer

if TYPE_CHECKING:
    from .rendering.renderer import Rendered, Renderer

__all__ = ["HarmonyEncoding", "HarmonyEncodingName", "load_harmony_encoding"]

_Options = TypeVar("_Options", RenderConversationConfig, RenderOptions)


class HarmonyEncodingName(str, Enum):
    """The names of the encodings: one, as in openai-harmony."""

    HARMONY_GPT_OSS = "HarmonyGptOss"

    def __str__(self) -> str:
        return self.value


class HarmonyEncoding:
    """Render, parse, encode and decode in the harmony format; safe to share between threads.

    Get it from `load_harmony_encoding`. Rendered messages are cached (64 MiB by default), so a
    conversation with one more turn costs only that turn. All methods that render raise
    `ConversationError` if the conversation cannot be rendered.

    >>> encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    >>> encoding.decode(encoding.render(Message.from_role_and_content(Role.USER, "hi")))
    '<|start|>user<|message|>hi<|end|>'
    """

    def __init__(self, name: HarmonyEncodingName) -> None:
        self._name = name
        self.tokenizer = load_tokenizer()

    def __repr__(self) -> str:
        return f"<HarmonyEncoding {self._name.value}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return load_harmony_encoding, (self._name,)  # a copy is the same object in its process

    @functools.cached_property
    def _renderer(self) -> Renderer:
        # Imported on first use, which saves programs that only parse 15 ms at their start.
        from .rendering.renderer import Renderer

        return Renderer(self.tokenizer)

    @property
    def name(self) -> str:
        """The name with which `load_harmony_encoding` returns this encoding."""
        return self._name.value

    # Conversations to tokens

    def render_conversation_for_completion(
        self,
        conversation: Conversation,
        next_turn_role: Role,
        config: RenderConversationConfig | None = None,
        *,
        continue_last: bool = False,
        most_tokens: int | None = None,
    ) -> list[int]:
        """Render the prompt for the next message by `next_turn_role`.

        The prompt ends in ``<|start|>`` and the role. With `continue_last`, it ends inside the last
        message, which the model goes on writing; its author must be `next_turn_role`. An answer
        that is continued keeps the reasoning before it. A prompt of more than `most_tokens` raises
        `PromptLengthError`, before its list is made: one of millions holds up other threads.
        """
        if continue_last:
            return self._render_begun(conversation, Role(next_turn_role), config)
        opening = self._renderer.next_turn(Role(next_turn_role), 0).tokens
        rendered = self._rendered(conversation, config)[1]
        if most_tokens is not None:
            length = _length_of(rendered) + len(opening)
            if length > most_tokens:
                raise PromptLengthError(length, most_tokens)
        tokens = _tokens_of(rendered)
        tokens += opening
        return tokens

    def count_tokens_for_completion(
        self,
        conversation: Conversation,
        next_turn_role: Role,
        config: RenderConversationConfig | None = None,
    ) -> int:
        """Count the tokens of the prompt that `render_conversation_for_completion` returns.

        This makes no list of them.
        """
        opening = self._renderer.next_turn(Role(next_turn_role), 0).tokens
        rendered = self._rendered(conversation, config)[1]
        return _length_of(rendered) + len(opening)

    def _render_begun(
        self, conversation: Conversation, role: Role, config: RenderConversationConfig | None
    ) -> list[int]:
        """Render a conversation up to the last token of its last message, without its end."""
        before, begun = conversation.messages[:-1], conversation.messages[-1:]
        if not begun or begun[0].author.role is not role:
            found = f"it is by {begun[0].author.role.value!r}" if begun else "there is none"
            raise ConversationError(
                f"the last message must be by {role.value!r} to be continued, but {found}"
            )
        config = _checked(config, RenderConversationConfig, "config")
        tokens = self.render_conversation(Conversation(messages=before), config)
        options = RenderOptions(
            schema_dialect=config.schema_dialect, header_style=config.header_style
        )
        return [*tokens, *self.render(begun[0], options)[:-1]]

    def render_conversation(
        self, conversation: Conversation, config: RenderConversationConfig | None = None
    ) -> list[int]:
        """Render all messages, without the start of the next one."""
        return _tokens_of(self._rendered(conversation, config)[1])

    def render_conversation_for_training(
        self, conversation: Conversation, config: RenderConversationConfig | None = None
    ) -> list[int]:
        """Render all messages; an assistant's ``final`` message at the end gets ``<|return|>``."""
        tokens = self.render_conversation(conversation, config)
        if conversation.messages and is_answer(conversation.messages[-1]):
            tokens[-1] = RETURN
        return tokens

    def render(self, message: Message, render_options: RenderOptions | None = None) -> list[int]:
        """Render one message, from ``<|start|>`` to its stop token."""
        if not isinstance(message, Message):
            remedy = "render_conversation() renders a whole Conversation"
            raise wrong_type("message", "a Message", message, remedy)
        options = _checked(render_options, RenderOptions, "render_options")
        (rendered,) = self._renderer.messages(
            [message],
            options.schema_dialect,
            options.header_style,
            lambda: options.conversation_has_function_tools,
        )
        return rendered.copy_tokens()

    def segments_for_completion(
        self,
        conversation: Conversation,
        next_turn_role: Role | None,
        config: RenderConversationConfig | None = None,
    ) -> list[Segment]:
        """Render a prompt as segments; if `next_turn_role` is None, it has no next turn."""
        segments = self._segments(conversation, config)
        if next_turn_role is not None:
            index = len(conversation.messages)
            segments.append(self._renderer.next_turn(Role(next_turn_role), index))
        return segments

    def segments_for_training(
        self, conversation: Conversation, config: RenderConversationConfig | None = None
    ) -> list[Segment]:
        """Render a training example as segments."""
        segments = self._segments(conversation, config)
        if conversation.messages and is_answer(conversation.messages[-1]):
            segments[-1] = segments[-1]._replace(text=SPECIAL_TEXTS[RETURN], tokens=[RETURN])
        return segments

    def limit_cache(self, limit: int) -> None:
        """Cache at most `limit` bytes of rendered messages; 0 turns the cache off."""
        self._renderer.limit_cache(limit)

    def _rendered(
        self, conversation: Conversation, config: RenderConversationConfig | None
    ) -> tuple[Sequence[int], list[Rendered]]:
        messages = checked_conversation(conversation).messages
        config = _checked(config, RenderConversationConfig, "config")
        return self._renderer.conversation(messages, config)

    def _segments(
        self, conversation: Conversation, config: RenderConversationConfig | None
    ) -> list[Segment]:
        indices, rendered = self._rendered(conversation, config)
        pairs = zip(indices, rendered, strict=True)
        return [segment for index, message in pairs for segment in message.segments(index)]

    # Tokens to messages

    def parse_messages_from_completion_tokens(
        self,
        tokens: Iterable[int],
        role: Role | None = None,
        *,
        strict: bool = True,
        tools: Collection[str] | None = None,
        repairs: Collection[RecoveryKind] | None = None,
        mend_arguments: bool | MendCheck = False,
    ) -> list[Message]:
        """Parse a completion (or a whole prompt) into messages.

        The arguments are those of `StreamableParser`. In strict mode, tokens that do not follow the
        format raise `TokenError`, and ids outside the vocabulary `VocabularyError`. In lenient mode
        they are repaired; `StreamableParser.recoveries` lists the repairs.
        """
        parser = StreamableParser(
            self, role, strict=strict, tools=tools, repairs=repairs, mend_arguments=mend_arguments
        )
        return parse_messages(parser, tokens)

    # Text to tokens and back

    def encode(
        self,
        text: str,
        *,
        allowed_special: Literal["all"] | AbstractSet[str] = frozenset(),
        disallowed_special: Literal["all"] | Collection[str] = "all",
    ) -> list[int]:
        """Encode text; read only the special tokens in `allowed_special` as special tokens.

        Raises `VocabularyError` if the text spells a special token in `disallowed_special`. By
        default, all are disallowed. With ``disallowed_special=()``, special tokens that are not
        allowed are encoded as ordinary text.

        >>> encoding = load_harmony_encoding("HarmonyGptOss")
        >>> encoding.encode("hi<|end|>", allowed_special={"<|end|>"})
        [3686, 200007]
        >>> encoding.encode("<|end|>", disallowed_special=())
        [27, 91, 419, 91, 29]
        """
        return self.tokenizer.encode(text, allowed_special, disallowed_special)

    def decode(self, tokens: Iterable[int], errors: str = "replace") -> str:
        """Decode tokens; `errors` handles invalid UTF-8, as in `bytes.decode`."""
        return self.tokenizer.decode(tokens, errors)

    def decode_utf8(self, tokens: Iterable[int]) -> str:
        """Decode tokens; raise `VocabularyError` if their bytes are not valid UTF-8."""
        try:
            return self.tokenizer.decode(tokens, "strict")
        except UnicodeDecodeError as error:
            raise VocabularyError(
                f"Could not decode tokens: Invalid utf-8 sequence: {error.reason} "
                f"at byte {error.start}; decode() replaces invalid bytes"
            ) from error

    @functools.cached_property
    def special_tokens_set(self) -> set[str]:
        """The text of every special token."""
        return set(SPECIAL_IDS)

    def is_special_token(self, token: int) -> bool:
        """Return whether `token` is the id of a special token."""
        return integer(token) in SPECIAL_TEXTS

    def stop_tokens(self) -> list[int]:
        """Return the tokens that end a message: ``<|call|>``, ``<|return|>`` and ``<|end|>``."""
        return [CALL, RETURN, END]

    def stop_tokens_for_assistant_actions(self) -> list[int]:
        """Return the tokens at which sampling stops: ``<|return|>`` and ``<|call|>``."""
        return [RETURN, CALL]


def _checked(options: _Options | None, kind: type[_Options], name: str) -> _Options:
    """Return options of a class; refuse others with the fields of theirs that it has as well."""
    if options is None:
        return kind()
    if isinstance(options, kind):
        return options
    passed = options.model_dump(exclude_unset=True) if isinstance(options, BaseModel) else options
    given = passed if isinstance(passed, Mapping) else {}
    fields = ", ".join(f"{key}={given[key]!r}" for key in kind.model_fields if key in given)
    raise wrong_type(name, f"a {kind.__name__}", options, f"write {kind.__name__}({fields})")


def load_harmony_encoding(name: str | HarmonyEncodingName) -> HarmonyEncoding:
    """Return the encoding with this name; all calls return the same object.

    The vocabulary is part of the package: no network, cache folder or environment variable is used.
    Raises `ValueError` if the name is unknown.

    >>> load_harmony_encoding("HarmonyGptOss").name
    'HarmonyGptOss'
    """
    try:
        encoding_name = HarmonyEncodingName(name)
    except ValueError:
        names = ", ".join(repr(item.value) for item in HarmonyEncodingName)
        raise ValueError(f"Invalid HarmonyEncodingName: {name!r} (known: {names})") from None
    return _load(encoding_name)


@functools.cache
def _load(name: HarmonyEncodingName) -> HarmonyEncoding:
    return HarmonyEncoding(name)


def _length_of(rendered: Iterable[Rendered]) -> int:
    return sum(len(message.tokens) for message in rendered)


def _tokens_of(rendered: Iterable[Rendered]) -> list[int]:
    tokens: list[int] = []
    for message in rendered:
        added = message.tokens
        tokens += added if isinstance(added, list) else id_list(added)
    return tokens
