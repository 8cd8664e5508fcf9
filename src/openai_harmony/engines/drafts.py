"""Tokens that probably come next: drafts, which the model checks in one step.

A step of the model costs about the same for one token as for a few. So a request adds to its last
token those that it expects, and samples after each of them: as long as the sampled token is the
drafted one, the next is already computed. So drafts never change a completion, only its time.

There are two sources: the markup between the messages of a turn, and what followed the same few
tokens before, in the prompt or in the completion. The second is right in quoted text, code and
names, and wrong elsewhere; so its drafts grow while they are right.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from ..encoding import load_harmony_encoding
from ..tokens.special_tokens import CHANNEL, END, MESSAGE, START

__all__ = ["LONGEST_DRAFT", "Drafts"]

LONGEST_DRAFT = 7

_REPEATED = 3
"""Tokens that must stand somewhere before for what followed them to be a draft."""


@functools.cache
def _markup() -> Mapping[tuple[int, ...], tuple[int, ...]]:
    """Return what most often follows the first tokens of a header, and the end of a message."""
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
        self._is_repeated = False  # whether the last draft was such a one
        self._vocabulary_size = vocabulary_size
        self._add(prompt)

    def _add(self, tokens: Sequence[int]) -> None:
        begin = len(self._tokens)
        self._tokens += tokens
        # The last tokens are left out until something follows them.
        for position in range(max(begin, _REPEATED), len(self._tokens)):
            self._after[tuple(self._tokens[position - _REPEATED : position])] = position

    def next(self, length: int) -> list[int]:
        """Return at most `length` tokens that may come next."""
        last = tuple(self._tokens[-_REPEATED:])
        draft = _markup().get(last[-2:]) or _markup().get(last[-1:]) or ()
        self._is_repeated = not draft
        if self._is_repeated and (position := self._after.get(last)) is not None:
            draft = tuple(self._tokens[position : position + self._longest])
        known = (token for token in draft[: max(length, 0)] if token < self._vocabulary_size)
        return list(known)

    def take(self, tokens: Sequence[int], drafted: int, right: int) -> None:
        """Add the tokens of a step; `right` of the `drafted` tokens were among them."""
        if self._is_repeated and drafted:
            is_right = right == drafted
            self._longest = min(2 * self._longest, LONGEST_DRAFT) if is_right else 1
        self._add(tokens)
