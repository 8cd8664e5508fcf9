"""A conversation comes in; out come the sequences that teach a model to say its part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..encoding import HarmonyEncoding, load_harmony_encoding
from ..messages import Conversation, Message, Role
from ..sampled_messages import SampledMessage
from ..segments import Segment, SegmentKind
from ..special_tokens import END, MESSAGE, RETURN, START
from ..tokenizer import ASSISTANT
from .example import IGNORED, TokenSpan, TrainingExample
from .options import TrainingOptions
from .turn_plan import Plan, declares_functions, is_answer, plan_sequences
from .windows import fitting_windows

__all__ = ["ReadExamples", "read_examples", "training_examples"]

_OPENING = [START, ASSISTANT]  # what a prompt ends in


class ReadExamples(NamedTuple):
    """The examples of a conversation, and what is not in them, by index.

    `too_long` are messages that the context cannot hold.
    """

    examples: list[TrainingExample]
    too_long: list[int]


def training_examples(
    conversation: Conversation,
    options: TrainingOptions | None = None,
    *,
    weights: Mapping[int, float] | None = None,
    encoding: HarmonyEncoding | None = None,
) -> list[TrainingExample]:
    """Make the sequences to learn a conversation from; every message is learned in one of them.

    `weights` are those of messages, by index, where they are not 1; 0 leaves a message out of what
    is learned. Raises `ConversationError` where the conversation cannot be rendered.

    >>> from openai_harmony import Message, Role
    >>> question = Message.from_role_and_content(Role.USER, "2 + 2?")
    >>> answer = Message.from_role_and_content(Role.ASSISTANT, "4").with_channel("final")
    >>> (example,) = training_examples(Conversation.from_messages([question, answer]))
    >>> learned = [token for token in example.labels if token != -100]
    >>> load_harmony_encoding("HarmonyGptOss").decode(learned)
    '<|channel|>final<|message|>4<|return|>'
    """
    return read_examples(conversation, options, weights=weights, encoding=encoding).examples


def read_examples(
    conversation: Conversation,
    options: TrainingOptions | None = None,
    *,
    weights: Mapping[int, float] | None = None,
    encoding: HarmonyEncoding | None = None,
) -> ReadExamples:
    """Make the sequences as `training_examples` does, and tell what did not fit."""
    options = options or TrainingOptions()
    messages = conversation.messages
    plans = plan_sequences(messages, options, weights)
    if not plans:
        return ReadExamples([], [])
    rendered = _Rendered(conversation, options, encoding or load_harmony_encoding("HarmonyGptOss"))
    lengths = rendered.lengths
    too_long: list[int] = []
    if options.context_length is not None:
        fitting: list[Plan] = []
        for plan in plans:
            parts, lost = fitting_windows(plan, messages, lengths, options.context_length)
            fitting += parts
            too_long += lost
        plans = fitting
    return ReadExamples([rendered.example(plan, weights or {}) for plan in plans], too_long)


class _Pieces(NamedTuple):
    """The tokens of a message; `stop` is what the model would sample as its last one."""

    header: list[int]
    body: list[int]
    stop: int


class _Rendered:
    """The messages of a conversation as tokens, from which sequences are put together."""

    def __init__(
        self, conversation: Conversation, options: TrainingOptions, encoding: HarmonyEncoding
    ) -> None:
        self._messages = messages = conversation.messages
        config = options.rendering()
        segments = encoding.segments_for_completion(conversation, None, config)
        self._pieces = _pieces(segments, messages)
        self._declared = _late_declaration(messages)
        self._early = self._pieces
        if self._declared:
            # Before functions are declared, the system message does not mention them.
            earlier = Conversation(messages=messages[: self._declared])
            segments = encoding.segments_for_completion(earlier, None, config)
            self._early = _pieces(segments, messages)

    @property
    def lengths(self) -> list[int]:
        """The tokens of each message."""
        return [len(one.header) + len(one.body) + 1 for one in self._pieces]

    def example(self, plan: Plan, weights: Mapping[int, float]) -> TrainingExample:
        """Put a sequence together."""
        messages = self._messages
        pieces = self._early if plan[-1].message < self._declared else self._pieces
        tokens: list[int] = []
        labels: list[int] = []
        spans: list[TokenSpan] = []
        goes_on = False  # the model goes on sampling after the message before
        for at, learned in plan:
            header, body, stop = pieces[at]
            start = len(tokens)
            own = messages[at].author.role is Role.ASSISTANT
            first = start + (2 if own and not goes_on else 0)  # the first token that is sampled
            tokens += header
            headed = len(tokens)
            tokens += body
            tokens.append(END if stop == RETURN else stop)
            end = len(tokens)
            if first > start:
                spans.append(TokenSpan(start, first, at, SegmentKind.HEADER, False))
            spans += (
                TokenSpan(first, headed, at, SegmentKind.HEADER, own),
                TokenSpan(headed, end - 1, at, SegmentKind.BODY, own),
                TokenSpan(end - 1, end, at, SegmentKind.STOP, own),
            )
            labels += [IGNORED] * ((first if learned else end) - start)
            if learned:
                labels += tokens[first : end - 1]
                labels.append(stop)
            goes_on = own and stop == END
        tokens[-1] = stop
        used = {at: weights[at] for at, learned in plan if learned and weights.get(at, 1.0) != 1.0}
        return TrainingExample(tokens, labels, spans, used)


def _pieces(segments: Sequence[Segment], messages: Sequence[Message]) -> list[_Pieces]:
    """Gather the segments of each message; a sampled message has its own tokens."""
    found: list[_Pieces] = []
    header: list[int] = []
    body: list[int] = []
    for kind, at, _, tokens in segments:
        if kind is SegmentKind.BODY:
            body = body + tokens if body else tokens
        elif kind is SegmentKind.HEADER:
            header, body = tokens, []
        else:
            message = messages[at]
            if isinstance(message, SampledMessage):
                found.append(_sampled_pieces(message))
            else:
                stop = RETURN if is_answer(message) else tokens[0]
                found.append(_Pieces(header, body, stop))
    return found


def _sampled_pieces(message: SampledMessage) -> _Pieces:
    own = list(message.sampled_tokens)
    headed = own.index(MESSAGE) + 1
    stop = RETURN if own[-1] == END and is_answer(message) else own[-1]
    return _Pieces(_OPENING + own[:headed], own[headed:-1], stop)


def _late_declaration(messages: Sequence[Message]) -> int:
    """Find where functions are first declared, if the assistant spoke before; 0 if it did not."""
    for at, message in enumerate(messages):
        if declares_functions(message):
            before = (other.author.role for other in messages[:at])
            return at if Role.ASSISTANT in before else 0
    return 0
