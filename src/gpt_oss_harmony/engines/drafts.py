"""Drafts: guesses of the next tokens, which the model checks in one step.

A step of the model costs about the same for a few tokens as for one. So a request adds a draft to
its last token, and samples after each token of the draft. While the sampled token is the drafted
one, the next token is already computed. Drafts change only the time of a completion, never its
tokens.

There are two sources of drafts: the markup between messages, and the tokens that followed the same
few tokens earlier in the prompt or completion. The second source is right in quoted text, code and
names, and wrong elsewhere, so its drafts grow while they are right.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from ..encoding import load_harmony_encoding
from ..tokens.special_tokens import CHANNEL, END, MESSAGE, START

LONGEST_DRAFT = 7
"""With the last token of the request, these are `cpu_model.FEW_ROWS` rows of logits: up to as many,
a step costs about the same."""

_REPEATED = 3
"""The number of tokens that must repeat before the tokens that followed them become a draft."""


@functools.cache
def _markup() -> Mapping[tuple[int, ...], tuple[int, ...]]:
    """Return the tokens that most often follow a header's first tokens and a message's end."""
    encode = load_harmony_encoding("HarmonyGptOss").encode
    assistant, analysis, final = map(encode, ("assistant", "analysis", "final"))
    return {
        (START, *assistant): (CHANNEL, *analysis, MESSAGE),
        (CHANNEL, *analysis): (MESSAGE,),
        (CHANNEL, *final): (MESSAGE,),
        (END,): (START, *assistant, CHANNEL, *final, MESSAGE),
    }


class Drafts:
    """The drafts of one completion; `vocabulary_size` is that of the model."""

    def __init__(self, prompt: Sequence[int], vocabulary_size: int) -> None:
        self._tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}
        self._longest = 1  # of the drafts from repeated text
        self._is_repeated = False  # whether the last draft was from repeated text
        self._vocabulary_size = vocabulary_size
        self._add(prompt)

    def _add(self, tokens: Sequence[int]) -> None:
        begin = len(self._tokens)
        self._tokens += tokens
        # The last tokens are added only when another token follows them.
        for position in range(max(begin, _REPEATED), len(self._tokens)):
            self._after[tuple(self._tokens[position - _REPEATED : position])] = position

    def next(self, length: int) -> list[int]:
        """Return a draft of at most `length` tokens."""
        last = tuple(self._tokens[-_REPEATED:])
        draft = _markup().get(last[-2:]) or _markup().get(last[-1:]) or ()
        self._is_repeated = not draft
        if self._is_repeated and (position := self._after.get(last)) is not None:
            draft = tuple(self._tokens[position : position + self._longest])
        known = (token for token in draft[: max(length, 0)] if token < self._vocabulary_size)
        return list(known)

    def take(self, tokens: Sequence[int], drafted: int, right: int) -> None:
        """Add the tokens of a step, in which `right` of the `drafted` tokens were correct."""
        if self._is_repeated and drafted:
            is_right = right == drafted
            self._longest = min(2 * self._longest, LONGEST_DRAFT) if is_right else 1
        self._add(tokens)
