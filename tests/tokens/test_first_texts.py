"""The encoder of a program's first texts gives the tokens of the real one, or none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openai_harmony import HarmonyEncoding, HarmonyEncodingName
from openai_harmony.tokens.first_texts import LIMIT, LONGEST_WORD, FirstTexts
from openai_harmony.tokens.tokenizer import Tokenizer

WORDS = Path(__file__).parents[1] / "data" / "hostile" / "words.json"
FIRST = FirstTexts()
REAL = Tokenizer()
REAL.encode_ordinary("é")  # builds it

PARTS = [
    *("a", "Abc", "ABC", "the", " hello", "world's", "'LL", "'re", "'S", "'x", "isn't", "I'Ve"),
    *("1", "12345", "0", " 7", "!", "?!", "://", "{\"", "\":", "<|end|>", "_", "$x", "/", "...\n"),
    *(" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n ", "\v", "\f", "\x1c", "\x00", "\x7f"),
]  # fmt: skip
ascii_texts = (
    st.lists(st.sampled_from(PARTS), max_size=12).map("".join)
    | st.text(st.characters(max_codepoint=127), max_size=60)
    | st.text("abcdefgXYZ", max_size=LONGEST_WORD)
)


@settings(deadline=None, max_examples=1000)
@given(ascii_texts)
def test_tokens_are_those_of_the_real_encoder(text: str) -> None:
    FIRST._left = LIMIT
    assert FIRST.encode(text) == REAL.encode_ordinary(text)


def test_tokens_are_those_of_the_reference() -> None:
    cases = [(text, tokens) for text, tokens in json.loads(WORDS.read_text()) if text.isascii()]
    assert len(cases) > 50
    for text, tokens in cases:
        FIRST._left = LIMIT
        assert FIRST.encode(text) in (tokens, None), repr(text)


@pytest.mark.parametrize("text", ["é", "a" * (LONGEST_WORD + 1), "a " * (LIMIT // 2 + 1), "\ud83c"])
def test_other_texts_are_left_to_the_real_encoder(text: str) -> None:
    assert FirstTexts().encode(text) is None
    tokenizer = Tokenizer()
    assert tokenizer.encode_ordinary("hi ") == REAL.encode_ordinary("hi ")
    assert tokenizer._bpe is None
    assert tokenizer.encode_ordinary(text) == REAL.encode_ordinary(text)
    assert tokenizer._bpe is not None
    assert tokenizer.encode_ordinary("hi ") == REAL.encode_ordinary("hi ")


def test_the_limit_holds_for_all_texts_together() -> None:
    first = FirstTexts()
    texts = ["word " * (LIMIT // 50)] * 10
    assert all(first.encode(text) is not None for text in texts)
    assert not first.takes("a")
    assert first.encode("") == []
    assert first.encode("a") is None


def test_the_real_encoder_comes_when_it_is_needed() -> None:
    encoding = HarmonyEncoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    texts = ["one", "two ", "", "three" * 30]
    expected = [REAL.encode_ordinary(text) for text in texts]
    many = encoding.tokenizer.encode_many
    assert [list(tokens) for tokens in many(texts[:3])] == expected[:3]
    assert encoding.tokenizer._bpe is None
    assert [list(tokens) for tokens in many(texts)] == expected
    assert encoding.tokenizer._bpe is not None
    assert [list(tokens) for tokens in many(texts)] == expected
