"""A conversation comes in; out come the sequences that teach a model to say its part of it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ..conversation.messages import Conversation, Message, Role
from ..encoding import HarmonyEncoding, load_harmony_encoding
from ..rendering.renderer import Rendered, Renderer
from ..sampled_messages import OPENING, SampledMessage
from ..tokens.special_tokens import END, MESSAGE, RETURN
from .example import IGNORED, MessageTokens, TrainingExample
from .options import TrainingOptions
from .turn_plan import Plan, declares_functions, plan_sequences
from .windows import fitting_windows

__all__ = ["ReadExamples", "planned_example", "read_examples", "training_examples"]

_CACHE_BYTES = 16 * 1024 * 1024


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
    rendered = _Rendered(messages, options, encoding or load_harmony_encoding("HarmonyGptOss"))
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


def planned_example(
    conversation: Conversation, plan: Plan, options: TrainingOptions | None = None
) -> TrainingExample:
    """Make one sequence of a conversation, which `plan_sequences` has planned."""
    encoding = load_harmony_encoding("HarmonyGptOss")
    options = options or TrainingOptions()
    return _Rendered(conversation.messages, options, encoding).example(plan, {})


class _Rendered:
    """The messages of a conversation as tokens, from which sequences are put together."""

    def __init__(
        self, messages: Sequence[Message], options: TrainingOptions, encoding: HarmonyEncoding
    ) -> None:
        self._messages = messages
        style, dialect = options.header_style, options.schema_dialect
        renderer = _renderer(encoding)
        declared, late = _declaration(messages)
        rendered = renderer.messages(messages, dialect, style, lambda: declared)
        self._pieces = list(map(_pieces, messages, rendered))
        self._early, self._late = self._pieces, late
        if late:
            # Before functions are declared, the system message does not mention them.
            rendered = renderer.messages(messages[:late], dialect, style, lambda: False)
            self._early = list(map(_pieces, messages, rendered))

    @property
    def lengths(self) -> list[int]:
        """The tokens of each message."""
        return [len(tokens) for tokens, *_ in self._pieces]

    def example(self, plan: Plan, weights: Mapping[int, float]) -> TrainingExample:
        """Put a sequence together."""
        pieces = self._early if plan[-1].message < self._late else self._pieces
        tokens: list[int] = []
        labels: list[int] = []
        parts: list[MessageTokens] = []
        goes_on = False  # the model goes on sampling after the message before
        for at, learned in plan:
            own, headed, stop, is_own = pieces[at]
            start = len(tokens)
            tokens += own
            end = len(tokens)
            # The prompt ends in the start of the first message that is sampled in one go.
            first = start if goes_on or not is_own else start + len(OPENING)
            parts.append((at, start, first, start + headed, end, is_own))
            if learned:
                labels += [IGNORED] * (first - start)
                labels += own[first - start :]
                labels[-1] = stop
            else:
                labels += [IGNORED] * (end - start)
            goes_on = stop == END and is_own
        tokens[-1] = stop
        used = {at: weights[at] for at, learned in plan if learned and weights.get(at, 1.0) != 1.0}
        return TrainingExample(tokens, labels, parts, used)


_Pieces: TypeAlias = tuple[list[int], int, int, bool]
"""A message as a prompt has it: its tokens, how many of them are the header's, what the model
samples in place of the last one, and whether the message is the assistant's."""


def _pieces(message: Message, rendered: Rendered) -> _Pieces:
    """Take the tokens of a message: its own if it was sampled, else those rendered."""
    is_own = message.author.role is Role.ASSISTANT
    if isinstance(message, SampledMessage):
        tokens = [*OPENING, *message.sampled_tokens]
        header = tokens.index(MESSAGE) + 1
    else:
        tokens = rendered.copy_tokens()
        header = rendered.ends[0]
    stop = tokens[-1]
    if stop == RETURN:
        tokens[-1] = END
    elif stop == END and is_own and message.channel == "final":
        stop = RETURN
    return tokens, header, stop, is_own


@functools.lru_cache(maxsize=4)
def _renderer(encoding: HarmonyEncoding) -> Renderer:
    """Keep what comes again, which instructions and tools do, and few other texts."""
    return Renderer(encoding.tokenizer, cache_bytes=_CACHE_BYTES)


def _declaration(messages: Sequence[Message]) -> tuple[bool, int]:
    """Tell whether functions are declared; and where, if the assistant spoke before, else 0."""
    spoken = False
    for at, message in enumerate(messages):
        if declares_functions(message):
            return True, at if spoken else 0
        spoken = spoken or message.author.role is Role.ASSISTANT
    return False, 0
