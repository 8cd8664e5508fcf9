"""One sequence to learn from: ids, labels, and where each token comes from."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ..rendering.segments import SegmentKind

__all__ = ["IGNORED", "MessageTokens", "TokenSpan", "TrainingExample"]

IGNORED = -100
"""The label of a token that is not learned, as torch and Transformers have it."""


class TokenSpan(NamedTuple):
    """A run of tokens, from `start` up to, not including, `end`: where they come from.

    `message` is the index in the conversation. `sampled` tells whether the model would have
    sampled them; the ``<|start|>assistant`` that ends a prompt is not, a later one of the same
    turn is.
    """

    start: int
    end: int
    message: int
    kind: SegmentKind
    sampled: bool


MessageTokens: TypeAlias = tuple[int, int, int, int, int, bool]
"""A message of an example: its index, where it starts, where the model begins to sample it, where
its body starts, where it ends, and whether the assistant spoke it."""


@dataclass(frozen=True)
class TrainingExample:
    """Token ids, what is learned at each place, and where the tokens come from.

    A label is the token that the model shall choose at its place, or `IGNORED`. It is the id that
    stands there, but for the stop of an answer that the conversation goes on after: the prompt of
    the next turn has ``<|end|>`` there, and the model samples ``<|return|>``.
    """

    input_ids: list[int]
    labels: list[int]
    messages: list[MessageTokens]
    weights: Mapping[int, float] = field(default_factory=dict)
    """The weights of messages, by index, where they are not 1."""

    @functools.cached_property
    def spans(self) -> list[TokenSpan]:
        """Where the tokens come from, run by run."""
        return [span for one in self.messages for span in _spans(*one)]

    def __len__(self) -> int:
        """Count the tokens."""
        return len(self.input_ids)

    def learns(self, message: MessageTokens) -> bool:
        """Whether a message is learned, which it is wholly or not at all."""
        return self.labels[message[4] - 1] != IGNORED

    def token_messages(self) -> list[int]:
        """The message that each token belongs to."""
        return [span.message for span in self.spans for _ in range(span.start, span.end)]

    def token_kinds(self) -> list[SegmentKind]:
        """What each token is within its message."""
        return [span.kind for span in self.spans for _ in range(span.start, span.end)]

    def token_sampled(self) -> list[bool]:
        """Whether the model would have sampled, token by token."""
        return [span.sampled for span in self.spans for _ in range(span.start, span.end)]

    def assistant_masks(self) -> list[int]:
        """1 where the id itself is learned, for trainers that make labels of a mask.

        0 where the label is another token than the input, which a mask cannot say.
        """
        pairs = zip(self.input_ids, self.labels, strict=True)
        return [int(token == label) for token, label in pairs]

    def loss_weights(self) -> list[float]:
        """How much each label counts: its message's weight; 0 where nothing is learned."""
        found = [0.0] * len(self.labels)
        for message in filter(self.learns, self.messages):
            at, _, first, _, end, _ = message
            found[first:end] = [self.weights.get(at, 1.0)] * (end - first)
        return found

    @property
    def learned(self) -> int:
        """How many labels are learned."""
        return len(self.labels) - self.labels.count(IGNORED)


def _spans(
    at: int, start: int, sampled: int, body: int, end: int, is_own: bool
) -> Iterator[TokenSpan]:
    if sampled > start:
        yield TokenSpan(start, sampled, at, SegmentKind.HEADER, False)
    yield TokenSpan(sampled, body, at, SegmentKind.HEADER, is_own)
    yield TokenSpan(body, end - 1, at, SegmentKind.BODY, is_own)
    yield TokenSpan(end - 1, end, at, SegmentKind.STOP, is_own)
