"""Texts get the tokens of the reference, from the encoder of a program's first texts and from
tiktoken's.

``tests/data/hostile/words.json`` has texts and the tokens that openai-harmony 0.0.8 makes of them.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony.tokens.encoder import (
    LIMIT,
    LONGEST_WORD,
    Encoder,
    FirstTexts,
)
from gpt_oss_harmony.tokens.tiktoken_core import TESTED_TIKTOKEN
from support.examples import examples

ROOT = Path(__file__).parents[2]
WORDS = json.loads((ROOT / "tests" / "data" / "hostile" / "words.json").read_text())
FIRST = FirstTexts()

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


@functools.cache
def real() -> Encoder:
    encoder = Encoder()
    encoder.encode("é")  # not ASCII: from now on tiktoken encodes
    return encoder


def test_tokens_are_those_of_the_reference() -> None:
    texts = [text for text, _ in WORDS]
    expected = [tokens for _, tokens in WORDS]
    assert [real().encode(text) for text in texts] == expected
    assert [list(tokens) for tokens in real().encode_many(texts)] == expected
    ascii_words = [(text, tokens) for text, tokens in WORDS if text.isascii()]
    assert len(ascii_words) > 50
    for text, tokens in ascii_words:
        FIRST.left = LIMIT
        assert FIRST.encode(text) in (tokens, None), repr(text)


@settings(max_examples=examples(1000))
@given(ascii_texts)
def test_first_texts_get_the_tokens_of_tiktoken(text: str) -> None:
    FIRST.left = LIMIT
    assert FIRST.encode(text) == real().encode(text)


@pytest.mark.parametrize("text", ["é", "a" * (LONGEST_WORD + 1), "a " * (LIMIT // 2 + 1), "\ud83c"])
def test_other_texts_are_left_to_tiktoken(text: str) -> None:
    assert FirstTexts().encode(text) is None
    encoder = Encoder()
    assert encoder.encode("hi ") == real().encode("hi ")
    assert encoder.core is None
    assert encoder.encode(text) == real().encode(text)
    # The first call of an encoder may be for many texts.
    assert [list(one) for one in Encoder().encode_many([text, "hi"])] == [
        real().encode(text),
        real().encode("hi"),
    ]
    assert encoder.core is not None
    assert encoder.encode("hi ") == real().encode("hi ")


def test_the_limit_holds_for_all_texts_together() -> None:
    first = FirstTexts()
    texts = ["word " * (LIMIT // 50)] * 10
    assert all(first.encode(text) is not None for text in texts)
    assert first.left == 0
    assert first.encode("") == []
    assert first.encode("a") is None


def test_tiktoken_comes_when_it_is_needed() -> None:
    encoder = Encoder()
    texts = ["one", "two ", "", "three" * 30]
    expected = [real().encode(text) for text in texts]
    assert [list(tokens) for tokens in encoder.encode_many(texts[:3])] == expected[:3]
    assert encoder.core is None
    assert [list(tokens) for tokens in encoder.encode_many(texts)] == expected
    assert encoder.core is not None
    assert [list(tokens) for tokens in encoder.encode_many(texts)] == expected


@pytest.mark.parametrize("version", ["0.12.5", "0.15.0", "1.13.0", "0.1"])
def test_another_tiktoken_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiktoken, "__version__", version)
    with pytest.raises(ImportError) as raised:
        Encoder().encode("é")
    assert str(raised.value) == (
        f"tiktoken {version} is installed, but gpt_oss_harmony needs "
        f"{' or '.join(TESTED_TIKTOKEN)}: pip install 'tiktoken=={max(TESTED_TIKTOKEN)}.*'"
    )


@pytest.mark.parametrize("version", [f"{tested}.9" for tested in TESTED_TIKTOKEN])
def test_other_patches_of_tiktoken_are_used(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiktoken, "__version__", version)
    assert Encoder().encode("é") == real().encode("é")


def test_the_requirement_names_the_tested_releases() -> None:
    requirement = re.search(r'"tiktoken>=(.*),<0\.(\d+);', (ROOT / "pyproject.toml").read_text())
    assert requirement is not None
    first, end = requirement.groups()
    assert (first, f"0.{int(end) - 1}") == (TESTED_TIKTOKEN[0], TESTED_TIKTOKEN[-1])
