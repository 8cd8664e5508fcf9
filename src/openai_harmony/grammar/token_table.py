"""The vocabulary as llguidance wants it, built once per process: some 0.4 s."""

from __future__ import annotations

import functools

import llguidance
from llguidance import TokenizerWrapper

from ..encoding import load_harmony_encoding
from ..tokens.special_tokens import FIRST_SPECIAL, SPECIAL_IDS, SPECIAL_TEXTS
from ..tokens.vocabulary import load_vocabulary

__all__ = ["MODEL_VOCABULARY_SIZE", "token_table"]

MODEL_VOCABULARY_SIZE = 201_088
"""Logits of the gpt-oss models; the format's last special token has none."""

_SLICES = [
    r'[^<|"\\\x00-\x1F\x7F]{1,10}',
    r'[^<|"\\\x00-\x1F\x7F]{1,30}',
    r'[^<|"\\\x00-\x1F\x7F]+',
    r"[^<|]+",
]
"""Kinds of tokens whose masks llguidance computes beforehand: those that may stand anywhere in JSON
strings, and those that may stand anywhere in text, since no marker can be made of them."""


class _Table:
    """What llguidance asks of a tokenizer."""

    def __init__(self) -> None:
        special = range(FIRST_SPECIAL, MODEL_VOCABULARY_SIZE)
        self.tokens = [*load_vocabulary(), *(SPECIAL_TEXTS[token].encode() for token in special)]
        self.special_token_ids = list(special)
        # Ends a sequence for llguidance; in harmony <|return|> and <|call|> do, inside the grammar.
        self.eos_token_id = SPECIAL_IDS["<|endoftext|>"]
        self.bos_token_id = None

    def __call__(self, text: bytes) -> list[int]:
        encoding = load_harmony_encoding("HarmonyGptOss")
        return encoding.tokenizer.encode_ordinary(text.decode("utf-8", "replace"))


@functools.cache
def token_table() -> llguidance.LLTokenizer:
    """Build the table, or return it."""
    return llguidance.LLTokenizer(TokenizerWrapper(_Table()), slices=_SLICES)
