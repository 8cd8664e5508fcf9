"""xgrammar with the vocabulary of harmony: a structural tag in, what it allows out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xgrammar  # type: ignore[import-not-found,unused-ignore]

from gpt_oss_harmony.tokens.special_tokens import CALL, FIRST_SPECIAL, RETURN, SPECIAL_TEXTS
from gpt_oss_harmony.tokens.vocabulary import load_vocabulary

__all__ = ["MODEL_VOCABULARY_SIZE", "TagMatcher", "compiler"]

MODEL_VOCABULARY_SIZE = 201_088


def compiler(threads: int = 1, stop_tokens: Sequence[int] = (RETURN, CALL)) -> Any:
    """Make a compiler for the model's vocabulary; it keeps what it compiled."""
    special = range(FIRST_SPECIAL, MODEL_VOCABULARY_SIZE)
    vocabulary = [*load_vocabulary(), *(SPECIAL_TEXTS[token].encode() for token in special)]
    info = xgrammar.TokenizerInfo(
        vocabulary,
        xgrammar.VocabType.RAW,
        vocab_size=MODEL_VOCABULARY_SIZE,
        stop_token_ids=list(stop_tokens),
    )
    return xgrammar.GrammarCompiler(info, max_threads=threads)


class TagMatcher:
    """A tag at work: a token is allowed where its bit is set, as an engine sees it."""

    def __init__(self, compiled: Any) -> None:
        self._matcher = xgrammar.GrammarMatcher(compiled)
        self._mask = xgrammar.allocate_token_bitmask(1, MODEL_VOCABULARY_SIZE)

    @property
    def is_finished(self) -> bool:
        """Whether a stop token was taken."""
        return bool(self._matcher.is_terminated())

    @property
    def is_whole(self) -> bool:
        """Whether the tag is complete, with its stop token or before one."""
        return self.is_finished or bool(self._matcher.is_completed())

    def fill(self) -> None:
        """Compute the mask."""
        self._matcher.fill_next_token_bitmask(self._mask)

    def accept(self, token: int) -> bool:
        """Take a token; whether it was allowed."""
        return bool(self._matcher.accept_token(token))

    def accept_all(self, tokens: Sequence[int]) -> int:
        """Take tokens while the mask has them; return how many."""
        for count, token in enumerate(tokens):
            if self.is_finished:
                return count
            self.fill()
            if not (int(self._mask[0, token // 32]) >> token % 32) & 1:
                return count
            if not self.accept(token):
                raise AssertionError(f"in the mask, but not accepted: {token}")
        return len(tokens)
