"""Messages that remember the tokens they were sampled as, and prompts that repeat these.

Rendering a sampled message again may give other tokens than the model chose: the same text can be
cut in other ways. A prompt that repeats the tokens is what the model saw and said, and what an
engine's prefix cache holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .config import RenderConversationConfig
from .conversation.messages import Conversation, Message, Role
from .encoding import HarmonyEncoding
from .errors import TokenError
from .rendering.segments import Segment, SegmentKind
from .tokens.special_tokens import CALL, END, MESSAGE, RETURN, START
from .tokens.tokenizer import ASSISTANT

__all__ = [
    "OPENING",
    "SampledMessage",
    "prompt_segments",
    "prompt_tokens",
    "sampled_stop",
    "stop_in_prompt",
    "with_sampled_tokens",
]

OPENING = (START, ASSISTANT)
"""What a prompt ends in, and what a later message by the assistant starts with."""


def stop_in_prompt(stop: int) -> int:
    """Return the stop token that later prompts have for a sampled one: no ``<|return|>``."""
    return END if stop == RETURN else stop


def sampled_stop(message: Message, stop: int) -> int:
    """Return the token that the model samples where a prompt ends a message with `stop`."""
    if isinstance(message, SampledMessage):
        stop = message.sampled_tokens[-1]
    if stop == END and message.channel == "final" and message.author.role is Role.ASSISTANT:
        return RETURN
    return stop


class SampledMessage(Message):
    """A message by the assistant with its tokens: all after ``<|start|>assistant``, with the stop.

    >>> from openai_harmony import load_harmony_encoding
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
        """Give a message its tokens, as they are."""
        return cls.model_construct(**message.__dict__, sampled_tokens=tuple(tokens))

    def tokens_in_prompt(self) -> tuple[list[int], int]:
        """Return the tokens of the message in later prompts, and how many are its header."""
        tokens = [*OPENING, *self.sampled_tokens]
        tokens[-1] = stop_in_prompt(tokens[-1])
        return tokens, tokens.index(MESSAGE) + 1


def with_sampled_tokens(
    encoding: HarmonyEncoding,
    messages: Sequence[Message],
    tokens: Sequence[int],
    ends: Sequence[int],
) -> list[Message]:
    """Give the messages of a completion their tokens; `ends` is the index after each one's last.

    Only a message that the strict parser reads from its tokens gets them. What had to be repaired
    stays a plain message, so that the next prompt shows the model what was meant.
    """
    start = 0
    known: list[Message] = []
    for message, end in zip(messages, ends, strict=True):
        own = _own_tokens(tokens[start:end])
        known.append(SampledMessage.of(message, own) if _say(encoding, own, message) else message)
        start = end
    return known


def prompt_tokens(
    encoding: HarmonyEncoding,
    conversation: Conversation,
    config: RenderConversationConfig | None = None,
) -> list[int]:
    """Render the prompt for the assistant's next message, sampled messages by their own tokens.

    Their last token is ``<|end|>`` or ``<|call|>``: history never ends in ``<|return|>``.
    """
    messages = conversation.messages
    if not any(isinstance(message, SampledMessage) for message in messages):
        return encoding.render_conversation_for_completion(conversation, Role.ASSISTANT, config)
    return [
        t for segment in prompt_segments(encoding, conversation, config) for t in segment.tokens
    ]


def prompt_segments(
    encoding: HarmonyEncoding,
    conversation: Conversation,
    config: RenderConversationConfig | None = None,
) -> Iterator[Segment]:
    """Render the prompt of `prompt_tokens` as segments, which know their message and kind."""
    messages = conversation.messages
    for segment in encoding.segments_for_completion(conversation, Role.ASSISTANT, config):
        message = messages[segment.message] if segment.message < len(messages) else None
        if not isinstance(message, SampledMessage):
            yield segment
        elif segment.kind is SegmentKind.HEADER:
            for kind, tokens in _cut(message):
                yield Segment(kind, segment.message, encoding.decode(tokens), tokens)


def _cut(message: SampledMessage) -> Iterator[tuple[SegmentKind, list[int]]]:
    tokens, header = message.tokens_in_prompt()
    yield SegmentKind.HEADER, tokens[:header]
    if tokens[header:-1]:
        yield SegmentKind.BODY, tokens[header:-1]
    yield SegmentKind.STOP, tokens[-1:]


def _own_tokens(tokens: Sequence[int]) -> list[int]:
    """Cut the opening off, and close a message that the limit of tokens left open."""
    own = list(tokens)
    if tuple(own[:2]) == OPENING:
        del own[:2]
    if own and own[-1] not in (END, CALL, RETURN):
        own.append(END)
    return own


def _say(encoding: HarmonyEncoding, tokens: list[int], message: Message) -> bool:
    if not tokens:
        return False
    try:
        read = encoding.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
    except TokenError:
        return False
    return read == [message]
