"""Messages with the tokens that the model sampled, and prompts that repeat these tokens.

The same text has several encodings, so rendering a sampled message again may give other tokens. A
prompt that repeats the sampled tokens is exactly what the model read and wrote, so the engine's
prefix cache contains it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from .config import RenderConversationConfig
from .conversation.content import TextContent
from .conversation.messages import Conversation, Message, Role, is_answer
from .encoding import HarmonyEncoding
from .errors import PromptLengthError, TokenError
from .rendering.renderer import Segment, SegmentKind
from .tokens.special_tokens import CALL, END, MESSAGE, RETURN, START, STOP_TOKENS
from .tokens.tokenizer import ASSISTANT, id_array, special_positions

__all__ = [
    "OPENING",
    "SampledMessage",
    "prompt_length",
    "prompt_segments",
    "prompt_tokens",
    "sampled_stop",
    "stop_in_prompt",
    "with_sampled_tokens",
]

OPENING = (START, ASSISTANT)
"""The tokens that end a prompt and start each later message by the assistant."""


def stop_in_prompt(stop: int, *, is_call: bool) -> int:
    """Return the stop token of a sampled message in later prompts.

    ``<|return|>`` becomes ``<|call|>`` after a call, and ``<|end|>`` after any other message.
    """
    return (CALL if is_call else END) if stop == RETURN else stop


def sampled_stop(message: Message, stop: int) -> int:
    """Return the token that the model samples if a prompt ends the message with `stop`."""
    # The first test is quick, and enough for most; isinstance() of a model is a call in Python.
    if type(message) is not Message and isinstance(message, SampledMessage):
        stop = message.sampled_tokens[-1]
    return RETURN if stop == END and is_answer(message) else stop


class SampledMessage(Message):
    """A message by the assistant with its tokens, from the first after `OPENING` to the stop token.

    >>> from gpt_oss_harmony import load_harmony_encoding
    >>> encoding = load_harmony_encoding("HarmonyGptOss")
    >>> tokens = encoding.encode("<|channel|>final<|message|>hi<|return|>", allowed_special="all")
    >>> messages = encoding.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
    >>> (message,) = with_sampled_tokens(encoding, messages, tokens, ends=[len(tokens)])
    >>> encoding.decode(message.sampled_tokens)
    '<|channel|>final<|message|>hi<|return|>'
    """

    sampled_tokens: tuple[int, ...]

    @classmethod
    def of(cls, message: Message, tokens: Sequence[int]) -> SampledMessage:
        """Add tokens to a message, without checking them."""
        return cls.model_construct(**message.__dict__, sampled_tokens=tuple(tokens))

    def tokens_in_prompt(self) -> tuple[list[int], int]:
        """Return the tokens of the message in later prompts, and the length of its header."""
        tokens = [*OPENING, *self.sampled_tokens]
        tokens[-1] = stop_in_prompt(tokens[-1], is_call=self.recipient is not None)
        return tokens, tokens.index(MESSAGE) + 1


def with_sampled_tokens(
    encoding: HarmonyEncoding,
    messages: Sequence[Message],
    tokens: Sequence[int],
    ends: Sequence[int],
) -> list[Message]:
    """Add their tokens to the messages of a completion; `ends` has the end index of each message.

    A message gets its tokens only if the strict parser reads the same message from them. A repaired
    message does not, so the next prompt contains the repaired text.
    """
    start = 0
    result: list[Message] = []
    for message, end in zip(messages, ends, strict=True):
        sampled = list(tokens[start:end])
        # The prompt has the opening of the first message; the model has sampled the others.
        if tuple(sampled[:2]) == OPENING:
            del sampled[:2]
        if sampled and sampled[-1] not in STOP_TOKENS:
            sampled.append(END)  # a token limit ended the message
        is_read = _parses_to(message, sampled, encoding)
        result.append(SampledMessage.of(message, sampled) if is_read else message)
        start = end
    return result


def _parses_to(message: Message, tokens: list[int], encoding: HarmonyEncoding) -> bool:
    """Return whether the strict parser reads the message from its tokens.

    A stream asks this at the end of each message. The same few headers occur again and again, and
    a body without special tokens is its text, so most messages are compared without a parser.
    """
    if MESSAGE not in tokens:
        return False
    header = tokens.index(MESSAGE) + 1
    body = tokens[header:-1]
    try:
        text = encoding.tokenizer.decode_bytes(body).decode()
    except UnicodeDecodeError:
        text = None
    if text is None or special_positions(id_array(body)):
        return _parsed(encoding, tuple(tokens)) == message
    empty = _parsed_header(encoding, (*tokens[:header], tokens[-1]))
    return (
        empty is not None
        and all(getattr(empty, name) == getattr(message, name) for name in _HEADER)
        and message.content == [TextContent(text=text)]
    )


def _parsed(encoding: HarmonyEncoding, tokens: tuple[int, ...]) -> Message | None:
    try:
        messages = encoding.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
    except TokenError:
        return None
    return messages[0] if len(messages) == 1 else None


_parsed_header = functools.lru_cache(maxsize=256)(_parsed)
_HEADER = ("author", "channel", "recipient", "content_type")


def prompt_tokens(
    encoding: HarmonyEncoding,
    conversation: Conversation,
    config: RenderConversationConfig | None = None,
    *,
    most_tokens: int | None = None,
) -> list[int]:
    """Render the prompt for the assistant's next message, with the tokens of sampled messages.

    Sampled messages end in ``<|end|>`` or ``<|call|>``, never in ``<|return|>`` (`stop_in_prompt`).
    A prompt of more than `most_tokens` raises `PromptLengthError`.
    """
    messages = conversation.messages
    if not any(isinstance(message, SampledMessage) for message in messages):
        return encoding.render_conversation_for_completion(
            conversation, Role.ASSISTANT, config, most_tokens=most_tokens
        )
    segments = [*prompt_segments(encoding, conversation, config)]
    length = sum(len(segment.tokens) for segment in segments)
    if most_tokens is not None and length > most_tokens:
        raise PromptLengthError(length, most_tokens)
    return [token for segment in segments for token in segment.tokens]


def prompt_length(
    encoding: HarmonyEncoding,
    conversation: Conversation,
    config: RenderConversationConfig | None = None,
) -> int:
    """Count the tokens that `prompt_tokens` returns."""
    if not any(isinstance(message, SampledMessage) for message in conversation.messages):
        return encoding.count_tokens_for_completion(conversation, Role.ASSISTANT, config)
    segments = prompt_segments(encoding, conversation, config)
    return sum(len(segment.tokens) for segment in segments)


def prompt_segments(
    encoding: HarmonyEncoding,
    conversation: Conversation,
    config: RenderConversationConfig | None = None,
) -> Iterator[Segment]:
    """Render the prompt of `prompt_tokens` as segments."""
    messages = conversation.messages
    for segment in encoding.segments_for_completion(conversation, Role.ASSISTANT, config):
        message = messages[segment.message] if segment.message < len(messages) else None
        if not isinstance(message, SampledMessage):
            yield segment
        elif segment.kind is SegmentKind.HEADER:
            # These are the tokens of the whole message, whose other segments are left out.
            tokens, header = message.tokens_in_prompt()
            for kind, run in (
                (SegmentKind.HEADER, tokens[:header]),
                (SegmentKind.BODY, tokens[header:-1]),
                (SegmentKind.STOP, tokens[-1:]),
            ):
                if run:
                    yield Segment(kind, segment.message, encoding.decode(run), run)
