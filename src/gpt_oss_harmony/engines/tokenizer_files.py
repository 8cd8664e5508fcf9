"""The files of a Hugging Face tokenizer that gives the same tokens as the encoding."""

from __future__ import annotations

from typing import Any

from ..tokens.special_tokens import SPECIAL_TEXTS, START_OF_TEXT, VOCABULARY_SIZE
from ..tokens.tiktoken_core import WORD_PATTERN
from ..tokens.vocabulary import load_vocabulary

_ENDS = ["<|end|>", "<|call|>", "<|return|>"]
_OPENING = r"(?:<\|start\|>assistant)?"
_CHANNEL = r"<\|channel\|>\w+"
_REST = r"[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
_NAME = r" to=(?:functions\.)?(?P<name>[^\s<]+)"

RESPONSE_TEMPLATE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|start|>assistant",
    "fields": {
        "thinking": {
            "open_pattern": rf"{_OPENING}<\|channel\|>analysis<\|message\|>",
            "close": _ENDS,
            "content_args": {"strip": False},
            "repeats": True,
            "join": "\n\n",
        },
        "tool_calls": {
            "open_pattern": _OPENING + rf"(?:{_NAME}{_CHANNEL}|{_CHANNEL}{_NAME}){_REST}",
            "close": _ENDS,
            "content": "json",
            "content_args": {"allow_non_json": True},
            "transform": {
                "type": "function",
                "function": {"name": "{name}", "arguments": "{content}"},
            },
            "repeats": True,
        },
        "content": {
            "open_pattern": rf"{_OPENING}<\|channel\|>(?:commentary|final)(?! to=){_REST}",
            "close": _ENDS,
            "content_args": {"strip": False},
            "repeats": True,
            "join": "\n\n",
        },
    },
}
"""The `response_template` with which Transformers 5.23 parses answers of gpt-oss.

Reasoning becomes ``thinking``, as in the chat template of gpt-oss; preambles and the answer become
``content``. The template reads only output that follows the format; damaged output needs this
library's parser.
"""


def tokenizer_json() -> dict[str, Any]:
    """Return the contents of `tokenizer.json`."""
    pieces = list(load_vocabulary())
    # A visible byte is its own character; the other bytes get characters from 256 on.
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    letters = [chr(byte if byte in visible else next(others)) for byte in range(0x100)]
    texts = ["".join(map(letters.__getitem__, piece)) for piece in pieces]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    by_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    split = {"type": "Split", "pattern": {"Regex": WORD_PATTERN}, "behavior": "Isolated"}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": token, "content": text, **flags, "special": True}
            for token, text in SPECIAL_TEXTS.items()
            if token < VOCABULARY_SIZE - 1  # the models have no row for the last token
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [split | {"invert": False}, by_bytes | {"use_regex": False}],
        },
        "post_processor": None,
        "decoder": by_bytes | {"use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            # tiktoken, too, takes a word that is a token as a whole, and merges only other ones.
            "ignore_merges": True,
            "vocab": {text: token for token, text in enumerate(texts)},
            "merges": [(texts[left], texts[right]) for left, right in _merges(pieces)],
        },
    }


def tokenizer_config() -> dict[str, Any]:
    """Return the contents of `tokenizer_config.json`."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL_TEXTS[START_OF_TEXT],
        "eos_token": "<|return|>",
        "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": 4096,
        "response_template": RESPONSE_TEMPLATE,
    }


def _merges(pieces: list[bytes]) -> list[tuple[int, int]]:
    """Return the two tokens that each longer token is merged from, in the order of tokens.

    `tokenizers` needs these pairs. They are the two tokens that remain when the bytes of a token
    are merged by rank, up to the last merge.
    """
    ranks: dict[bytes, int] = {}
    parts = _Parts(len(pieces))
    for token, piece in enumerate(pieces):
        for cut in range(1, len(piece)):
            right = ranks.get(piece[cut:])
            left = None if right is None else ranks.get(piece[:cut])
            if left is not None and right is not None and parts.stay_apart(left, right):
                parts.add(token, (left, right))
                break
        ranks[piece] = token
    return list(parts.tokens)


class _Parts:
    """The two tokens that each token is merged from; a byte is both parts of itself."""

    def __init__(self, count: int) -> None:
        self._left = list(range(count))
        self._right = list(range(count))
        self._none = count
        self.tokens: dict[tuple[int, int], int] = {}

    def add(self, token: int, pair: tuple[int, int]) -> None:
        """Add a token; tokens must come in order."""
        self._left[token], self._right[token] = pair
        self.tokens[pair] = token

    def stay_apart(self, left: int, right: int) -> bool:
        """Return whether merging leaves two tokens side by side: no earlier merge crosses the cut.

        The method undoes their merges, the last one first. At each step, the tokens at the cut must
        not form a token that merges before the undone merge.
        """
        last = self._none
        while True:
            if self.tokens.get((left, right), last) < last:
                return False
            if left > right:
                last, left = left, self._right[left]
                if left != last:
                    continue
                last, right = right + 1, self._left[right]
                if right + 1 == last:
                    return True
            else:
                last, right = right + 1, self._left[right]
                if right + 1 != last:
                    continue
                last, left = left, self._right[left]
                if left == last:
                    return True
