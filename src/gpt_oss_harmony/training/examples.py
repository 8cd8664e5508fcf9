"""A conversation to training examples: token ids, labels, and the origin of each token.

The label at an index is the token that the model should choose there. It is `IGNORED` for tokens
that the model does not sample, and in messages that are not trained on.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..conversation.messages import (
    Conversation,
    Message,
    Role,
    checked_conversation,
    declares_functions,
)
from ..encoding import load_harmony_encoding
from ..rendering.renderer import Rendered, Renderer, SegmentKind
from ..sampled_messages import OPENING, SampledMessage, prompt_tokens, sampled_stop
from ..tokens.special_tokens import END
from .options import TrainingOptions
from .sequence_plan import (
    Plan,
    fitting_windows,
    kept_in_prompt,
    plan_sequences,
    shortest_window,
)

IGNORED = -100
"""The label of a token that is not trained on, as in PyTorch and Transformers."""

_CACHE_BYTES = 16 * 1024 * 1024


class TokenSpan(NamedTuple):
    """The origin of the tokens from `start` up to, but not including, `end`.

    `message` is the index in the conversation. `sampled` is true if the model samples these tokens.
    It is false for the ``<|start|>assistant`` at the end of a prompt, and true for later ones of
    the same turn.
    """

    start: int
    end: int
    message: int
    kind: SegmentKind
    sampled: bool


class MessageTokens(NamedTuple):
    """The tokens of a message in an example: the message's index, and indices of tokens.

    The model begins to sample the message at `sampled`, unless another author wrote it.
    """

    message: int
    start: int
    sampled: int
    body: int
    end: int
    is_assistant: bool

    def spans(self) -> Iterator[TokenSpan]:
        """Split the message into header, body and stop."""
        message, start, sampled, body, end, is_assistant = self
        if sampled > start:
            yield TokenSpan(start, sampled, message, SegmentKind.HEADER, False)
        yield TokenSpan(sampled, body, message, SegmentKind.HEADER, is_assistant)
        yield TokenSpan(body, end - 1, message, SegmentKind.BODY, is_assistant)
        yield TokenSpan(end - 1, end, message, SegmentKind.STOP, is_assistant)


@dataclass(frozen=True)
class TrainingExample:
    """Token ids, a label for each, and the origins of the tokens.

    A label is the token that the model should choose at its index, or `IGNORED`. It equals the id
    at this index, except for the stop token of an answer that is not the last message: the next
    prompt has ``<|end|>`` there, but the model samples ``<|return|>``.
    """

    input_ids: list[int]
    labels: list[int]
    messages: list[MessageTokens]
    weights: Mapping[int, float] = field(default_factory=dict)
    """The weights of messages that are not 1, by index."""

    @functools.cached_property
    def spans(self) -> list[TokenSpan]:
        """The origins of all tokens, in order."""
        return [span for message in self.messages for span in message.spans()]

    def __len__(self) -> int:
        """Count the tokens."""
        return len(self.input_ids)

    def is_trainable(self, message: MessageTokens) -> bool:
        """Return whether a message is trained on (either all its sampled tokens are, or none)."""
        return self.labels[message.end - 1] != IGNORED

    def with_offset(self, offset: int) -> TrainingExample:
        """Return the example with the indices of its messages raised, but not of the first."""
        if not offset:
            return self
        parts = [
            part._replace(message=part.message + offset) if part.message else part
            for part in self.messages
        ]
        weights = {index + offset: weight for index, weight in self.weights.items()}
        return TrainingExample(self.input_ids, self.labels, parts, weights)

    def token_messages(self) -> list[int]:
        """Return the index of the message that each token belongs to."""
        return [span.message for span in self.spans for _ in range(span.start, span.end)]

    def token_kinds(self) -> list[SegmentKind]:
        """Return the part of the message (header, body, stop) to which each token belongs."""
        return [span.kind for span in self.spans for _ in range(span.start, span.end)]

    def token_sampled(self) -> list[bool]:
        """Return for each token whether the model samples it."""
        return [span.sampled for span in self.spans for _ in range(span.start, span.end)]

    def assistant_masks(self) -> list[int]:
        """Return a loss mask for trainers without labels: 1 if the label is the id itself.

        It is 0 if the label is another token than the input, because a mask cannot express that.
        """
        pairs = zip(self.input_ids, self.labels, strict=True)
        return [int(token == label) for token, label in pairs]

    def loss_weights(self) -> list[float]:
        """Return the weight of each label: that of its message, or 0 if it is `IGNORED`."""
        weights = [0.0] * len(self.labels)
        for message in filter(self.is_trainable, self.messages):
            weight = self.weights.get(message.message, 1.0)
            weights[message.sampled : message.end] = [weight] * (message.end - message.sampled)
        return weights

    @property
    def trainable_tokens(self) -> int:
        """Count the labels that are not `IGNORED`."""
        return len(self.labels) - self.labels.count(IGNORED)


class ReadExamples(NamedTuple):
    """The examples of a conversation, and the indices of messages that are in none of them.

    `too_long` are the messages that do not fit into the context.
    """

    examples: list[TrainingExample]
    too_long: list[int]


def training_examples(
    conversation: Conversation,
    options: TrainingOptions | None = None,
    *,
    weights: Mapping[int, float] | None = None,
) -> list[TrainingExample]:
    """Make the examples of a conversation; each message is trained on in one of them.

    `weights` has the weights of messages that are not 1, by index; messages of weight 0 are not
    trained on. Raises `ConversationError` if the conversation cannot be rendered.

    >>> from gpt_oss_harmony import Message, Role
    >>> question = Message.from_role_and_content(Role.USER, "2 + 2?")
    >>> answer = Message.from_role_and_content(Role.ASSISTANT, "4").with_channel("final")
    >>> (example,) = training_examples(Conversation.from_messages([question, answer]))
    >>> trainable = [token for token in example.labels if token != -100]
    >>> load_harmony_encoding("HarmonyGptOss").decode(trainable)
    '<|channel|>final<|message|>4<|return|>'
    """
    return read_examples(conversation, options, weights=weights).examples


def read_examples(
    conversation: Conversation,
    options: TrainingOptions | None = None,
    *,
    weights: Mapping[int, float] | None = None,
) -> ReadExamples:
    """Make the examples as `training_examples` does; also return the messages that did not fit."""
    options = TrainingOptions.checked(options)
    messages = checked_conversation(conversation).messages
    plans = plan_sequences(messages, options, weights)
    if not plans:
        return ReadExamples([], [])
    rendered = _RenderedConversation(messages, options)
    too_long: list[int] = []
    if options.context_length is not None:
        fitting: list[Plan] = []
        for plan in plans:
            lengths = rendered.prompt_messages(plan).lengths
            windows, lost = fitting_windows(plan, messages, lengths, options.context_length)
            fitting += windows
            too_long += lost
        plans = fitting
    return ReadExamples([rendered.example(plan, weights or {}) for plan in plans], too_long)


def least_context_length(
    conversation: Conversation,
    options: TrainingOptions | None = None,
    *,
    weights: Mapping[int, float] | None = None,
) -> int:
    """Return the least `context_length` for which there is an example; 0 if there never is."""
    options = options or TrainingOptions()
    messages = conversation.messages
    rendered = _RenderedConversation(messages, options)
    plans = plan_sequences(messages, options, weights)
    shortest = (
        shortest_window(plan, messages, rendered.prompt_messages(plan).lengths) for plan in plans
    )
    return min(shortest, default=0)


def planned_example(
    conversation: Conversation, plan: Plan, options: TrainingOptions | None = None
) -> TrainingExample:
    """Make one example of a conversation by a plan from `plan_sequences`."""
    options = options or TrainingOptions()
    return _RenderedConversation(conversation.messages, options).example(plan, {})


class _PromptMessages:
    """The messages of a conversation in prompts, as columns, which are faster than objects."""

    def __init__(self, messages: Sequence[Message], rendered: Sequence[Rendered]) -> None:
        self.tokens: list[list[int]] = []
        self.header_lengths: list[int] = []
        self.sampled_stops: list[int] = []
        """The tokens that the model samples in place of the last ones."""
        # Only the first messages may be rendered (`_RenderedConversation._undeclared`).
        for message, result in zip(messages, rendered, strict=False):
            # The first test is quick; isinstance() of a model calls a function in Python.
            if type(message) is not Message and isinstance(message, SampledMessage):
                tokens, header_length = message.tokens_in_prompt()
            else:
                shared, header_length = result.tokens, result.ends[0]
                tokens = shared if isinstance(shared, list) else shared.tolist()
            self.tokens.append(tokens)
            self.header_lengths.append(header_length)
            self.sampled_stops.append(sampled_stop(message, tokens[-1]))

    @functools.cached_property
    def lengths(self) -> list[int]:
        """The number of tokens of each message."""
        return list(map(len, self.tokens))


class _RenderedConversation:
    """A conversation as tokens, from which examples are assembled."""

    def __init__(self, messages: Sequence[Message], options: TrainingOptions) -> None:
        style, dialect = options.header_style, options.schema_dialect
        renderer = _renderer()
        self._is_assistant = [message.author.role is Role.ASSISTANT for message in messages]
        declaring = next((i for i, m in enumerate(messages) if declares_functions(m)), None)
        has_tools = declaring is not None
        rendered = renderer.messages(messages, dialect, style, lambda: has_tools)
        self._messages = _PromptMessages(messages, rendered)
        self._undeclared_end = 0
        if declaring and any(self._is_assistant[:declaring]):
            # Examples that end before functions are declared have a system message without them.
            rendered = renderer.messages(messages[:declaring], dialect, style, lambda: False)
            self._undeclared = _PromptMessages(messages, rendered)
            self._undeclared_end = declaring

    def prompt_messages(self, plan: Plan) -> _PromptMessages:
        """Return the messages as the example of a plan, or of a window of it, has them."""
        is_early = plan[-1].message < self._undeclared_end
        return self._undeclared if is_early else self._messages

    def example(self, plan: Plan, weights: Mapping[int, float]) -> TrainingExample:
        """Assemble an example."""
        messages = self.prompt_messages(plan)
        tokens: list[int] = []
        parts: list[MessageTokens] = []
        goes_on = False  # the model goes on sampling after the message before
        for index, _ in plan:
            is_assistant = self._is_assistant[index]
            start = len(tokens)
            tokens += messages.tokens[index]
            # The prompt ends in the start of the first message of each step.
            sampled = start if goes_on or not is_assistant else start + len(OPENING)
            body = start + messages.header_lengths[index]
            parts.append(MessageTokens(index, start, sampled, body, len(tokens), is_assistant))
            goes_on = is_assistant and messages.sampled_stops[index] == END
        labels = [IGNORED] * len(tokens)
        used: dict[int, float] = {}
        for (index, is_trainable), part in zip(plan, parts, strict=True):
            if is_trainable:
                labels[part.sampled : part.end] = tokens[part.sampled : part.end]
                labels[part.end - 1] = messages.sampled_stops[index]
                if weights.get(index, 1.0) != 1.0:
                    used[index] = weights[index]
        # Nothing follows, so the last message ends as the model ends it, not as a prompt has it.
        tokens[-1] = messages.sampled_stops[plan[-1].message]
        return TrainingExample(tokens, labels, parts, used)


@functools.cache
def _renderer() -> Renderer:
    """Return a renderer for data sets, in which only instructions and tools recur."""
    tokenizer = load_harmony_encoding("HarmonyGptOss").tokenizer
    return Renderer(tokenizer, _CACHE_BYTES, cached_roles=(Role.SYSTEM, Role.DEVELOPER))


# The prompts of inference


class PromptDifference(NamedTuple):
    """The index of the first token at which the prompt for a message and the example differ."""

    message: int
    position: int


def inference_prompt(
    messages: Sequence[Message],
    options: TrainingOptions | None = None,
) -> list[int]:
    """Render the prompt for the assistant's next message after `messages`, as the server does."""
    options = options or TrainingOptions()
    kept = [messages[index] for index in kept_in_prompt(messages, range(len(messages)), options)]
    encoding = load_harmony_encoding("HarmonyGptOss")
    return prompt_tokens(encoding, Conversation(messages=kept), options.rendering())


def find_prompt_difference(
    conversation: Conversation,
    example: TrainingExample,
    options: TrainingOptions | None = None,
) -> PromptDifference | None:
    """Compare an example with the prompt for each message that it trains on.

    Returns the first difference, or None if the example begins with every prompt. Messages that an
    example leaves out because of the context's length are also left out of the prompts.
    """
    options = options or TrainingOptions()
    messages = conversation.messages
    present = {message.message for message in example.messages}
    if options.context_length is None:
        present.update(range(len(messages)))
    for trained in filter(example.is_trainable, example.messages):
        before = [messages[index] for index in range(trained.message) if index in present]
        prompt = inference_prompt(before, options)
        for position, token in enumerate(prompt):
            if example.input_ids[position : position + 1] != [token]:
                return PromptDifference(trained.message, position)
    return None
