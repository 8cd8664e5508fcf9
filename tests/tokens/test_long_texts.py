"""Texts of any length are encoded in linear time, to the tokens of the reference.

``tests/data/hostile/words.json`` has texts and the tokens that openai-harmony 0.0.8 makes of them.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import Message, Role, load_harmony_encoding
from gpt_oss_harmony.tokens import tiktoken_core
from support.examples import examples

WORDS = Path(__file__).parents[1] / "data" / "hostile" / "words.json"
ENCODING = load_harmony_encoding("HarmonyGptOss")
ENCODING.encode("é")  # not ASCII: from now on tiktoken encodes

MILLION = 1_000_000
_LETTERS = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=MILLION))

LONG_TEXTS = {
    "letter": "a" * MILLION,
    "capital": "A" * MILLION,
    "random letters": _LETTERS,
    "digit": "7" * MILLION,
    "CJK": "日" * MILLION,
    "emoji": "🏰" * (MILLION // 2),
    "combining marks": "a" + "\u0301" * MILLION,
    "joiners": "\u200d" * MILLION,
    "apostrophes": "'" * MILLION,
    "contractions": "a's" * (MILLION // 3),
    "punctuation and lines": "!" + "\n/" * (MILLION // 2),
    "lines": "\n" * MILLION,
    "spaces": " " * MILLION,
    "tabs before a letter": "\t" * MILLION + "b",
    "spaces between letters": "a" + " " * MILLION + "b",
    "spaces before a line": " " * MILLION + "\nb",
    "lines, then spaces": "\n" * MILLION + " " * MILLION,
    "many kinds of white space": " \t\xa0\u2003\u2028" * (MILLION // 4) + "1",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", LONG_TEXTS.values(), ids=LONG_TEXTS)
def test_a_million_characters_come_back(text: str) -> None:
    assert ENCODING.decode(ENCODING.encode(text)) == text


def test_long_white_space_is_encoded_among_other_texts() -> None:
    texts = ["a", " " * MILLION + "b", "c\n", "", "\t" * 10]
    expected = [ENCODING.encode(text) for text in texts]
    assert [list(tokens) for tokens in ENCODING.tokenizer.encode_many(texts)] == expected
    message = Message.from_role_and_content(Role.USER, texts[1])
    (parsed,) = ENCODING.parse_messages_from_completion_tokens(ENCODING.render(message))
    assert parsed == message


def _whole(text: str) -> list[int]:
    """Encode without cutting anything off."""
    with patch.object(tiktoken_core, "WHITE_LIMIT", sys.maxsize):
        return ENCODING.tokenizer.encode_ordinary(text)


@pytest.mark.parametrize("limit", [2, 3, 5, sys.maxsize])
def test_words_are_those_of_the_reference(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiktoken_core, "WHITE_LIMIT", limit)
    for text, tokens in json.loads(WORDS.read_text()):
        assert ENCODING.tokenizer.encode_ordinary(text) == tokens, repr(text)


white = st.sampled_from(" \t\x0b\x0c\r\n\x85\xa0\u1680\u2003\u2028\u202f\u3000") | st.just("\r\n")
runs = st.builds(lambda one, count: one * count, white, st.integers(1, 9))
others = st.sampled_from(["a", "A", "1", "!", "/", "'s", "日", "\u0301", "\x1c", "\x1f", "\u200b"])


@settings(max_examples=examples(500))
@given(st.lists(runs | white | others, max_size=12).map("".join), st.integers(2, 8))
def test_cutting_white_space_off_changes_no_token(text: str, limit: int) -> None:
    with patch.object(tiktoken_core, "WHITE_LIMIT", limit):
        assert ENCODING.tokenizer.encode_ordinary(text) == _whole(text)
        pair = ENCODING.tokenizer.encode_many([text, "b"])
    assert [list(tokens) for tokens in pair] == [_whole(text), _whole("b")]


@pytest.mark.parametrize("length", [249_999, 250_000, 500_000])
@pytest.mark.parametrize(
    ("before", "after"), [("", ""), ("a", "b"), ("\n", "!"), ("ab" * 50_000, "\n"), ("!\n", "1")]
)
def test_the_real_limit_changes_no_token(length: int, before: str, after: str) -> None:
    text = before + "\t " * (length // 2) + " " * (length % 2) + after
    assert ENCODING.tokenizer.encode_ordinary(text) == _whole(text)


SEPARATOR_PARTS = ("<|", "reserved_201088", "|>", "a")


@settings(max_examples=examples(300))
@given(st.lists(st.lists(st.sampled_from(SEPARATOR_PARTS), max_size=5).map("".join), max_size=4))
def test_no_text_is_taken_for_what_stands_between_texts(texts: list[str]) -> None:
    expected = [_whole(text) for text in texts]
    assert [list(tokens) for tokens in ENCODING.tokenizer.encode_many(texts)] == expected
