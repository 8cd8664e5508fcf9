"""The vocabulary of harmony for llguidance."""

from __future__ import annotations

import functools
import re

import llguidance
from llguidance import TokenizerWrapper

from ..encoding import load_harmony_encoding
from ..tokens.special_tokens import FIRST_SPECIAL, SPECIAL_IDS, SPECIAL_TEXTS
from ..tokens.vocabulary import load_vocabulary

MODEL_VOCABULARY_SIZE = 201_088
"""The number of logits of the gpt-oss models; the format's last special token has none."""

_SLICES = [
    r'[^<|"\\\x00-\x1F\x7F]{1,10}',
    r'[^<|"\\\x00-\x1F\x7F]{1,30}',
    r'[^<|"\\\x00-\x1F\x7F]+',
    r"[^<|][^<|]*",  # not "+": llguidance searches alternatives only for a concatenation
]
"""Kinds of tokens whose masks llguidance computes in advance: tokens that are allowed anywhere in
JSON strings, and tokens that are allowed anywhere in text."""


class _Table:
    """The tokenizer of harmony with the interface that llguidance needs."""

    def __init__(self) -> None:
        special = range(FIRST_SPECIAL, MODEL_VOCABULARY_SIZE)
        self.tokens = [*load_vocabulary(), *(SPECIAL_TEXTS[token].encode() for token in special)]
        self.special_token_ids = list(special)
        # llguidance's end of a sequence; in harmony, <|return|> and <|call|> in the grammar end it.
        self.eos_token_id = SPECIAL_IDS["<|endoftext|>"]
        self.bos_token_id = None

    def __call__(self, text: bytes) -> list[int]:
        encoding = load_harmony_encoding("HarmonyGptOss")
        return encoding.tokenizer.encode_ordinary(text.decode("utf-8", "replace"))


@functools.cache
def token_table() -> llguidance.LLTokenizer:
    """Return the vocabulary for llguidance; building it takes 0.4 s, once per process."""
    return llguidance.LLTokenizer(TokenizerWrapper(_Table()), slices=_SLICES)


def build_tables() -> None:
    """Build what the first grammar of a process needs, which blocks all its threads.

    A server does this before its first request.
    """
    load_harmony_encoding("HarmonyGptOss").encode("é")  # not ASCII: needs the whole encoder
    token_table()


_NAMED_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|<\|\w+\|>')


def with_token_ids(grammar: str) -> str:
    """Return a grammar of `turn_grammar` that names special tokens by their ids.

    llguidance finds a token by its name only if the engine declares it as special. llama.cpp does
    not declare ``<|channel|>`` and others.

    >>> with_token_ids('start: <|channel|> "final" <|message|> "<|end|>"')
    'start: <[200005]> "final" <[200008]> "<|end|>"'
    """

    def by_id(match: re.Match[str]) -> str:
        token = SPECIAL_IDS.get(match[0])
        return match[0] if token is None else f"<[{token}]>"

    return _NAMED_TOKEN.sub(by_id, grammar)
