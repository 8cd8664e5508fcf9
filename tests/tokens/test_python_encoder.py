"""The encoder in Python alone makes the tokens of tiktoken, for every character and any text.

tiktoken is the oracle. ``make encoders`` compares as many texts as one likes.
"""

from __future__ import annotations

import functools
import json
import runpy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony.tokens import encoder as tiktoken_encoder
from gpt_oss_harmony.tokens.character_classes import RUNS
from gpt_oss_harmony.tokens.encoder import Encoder, new_encoder
from gpt_oss_harmony.tokens.python_encoder import PythonEncoder, words
from gpt_oss_harmony.tokens.quicktok_core import QuicktokCore
from gpt_oss_harmony.tokens.special_tokens import VOCABULARY_SIZE
from gpt_oss_harmony.tokens.tokenizer import Tokenizer
from support.examples import examples

ROOT = Path(__file__).parents[2]
WORDS = json.loads((ROOT / "tests" / "data" / "hostile" / "words.json").read_text())
TABLE = runpy.run_path(str(ROOT / "scripts" / "build_character_classes.py"))
COMPARED = runpy.run_path(str(ROOT / "scripts" / "compare_encoders.py"))

PARTS = [
    *("a", "Abc", "ABC", "the", " hello", "world's", "'LL", "'ſ", "'S", "'x", "ǅ", "ʰ", "日本"),
    *("1", "12345", "²", " 7", "٣", "!", "?!", "://", "<|end|>", "/", "...\n", "\u0301", "🏰", "𝐀"),
    *(" ", "  ", "\t", "\n", "\r\n", " \n ", "\x1c", "\x85", "\u2028", "\u3000", "𐐀", "𐐨", "𝟘"),
]  # fmt: skip
texts = st.lists(st.sampled_from(PARTS), max_size=12).map("".join) | st.text(max_size=60)


@functools.cache
def python() -> PythonEncoder:
    return PythonEncoder()


@functools.cache
def tiktoken() -> Encoder:
    encoder = Encoder()
    encoder.encode("é")  # not ASCII: from now on tiktoken encodes
    return encoder


@functools.cache
def quicktok() -> QuicktokCore:
    return QuicktokCore()


def test_tokens_are_those_of_the_reference() -> None:
    assert [python().encode(text) for text, _ in WORDS] == [tokens for _, tokens in WORDS]


@settings(max_examples=examples(1000))
@given(texts)
def test_texts_get_the_tokens_of_tiktoken(text: str) -> None:
    assert python().encode(text) == tiktoken().encode(text)
    assert "".join(words(text)) == text


@given(st.text("ab", max_size=400) | st.text("aé日", max_size=200) | st.text("etaoin", max_size=99))
def test_long_words_are_merged_as_tiktoken_does(text: str) -> None:
    assert python().encode(text) == tiktoken().encode(text)


@pytest.mark.slow
def test_the_table_has_the_class_of_every_character() -> None:
    """A release of tiktoken with another Unicode needs another table: run the script."""
    assert TABLE["runs"]() == RUNS


CONTEXTS = (
    "{}",
    "{}a",
    "a{}",
    "A{}b",
    " {}",
    "{}!",
    "!{}",
    "1{}",
    "a'{}",
    "a'{}e",
    "a'r{}",
    "\n{}\n",
)


@pytest.mark.slow
@pytest.mark.parametrize("context", CONTEXTS)
def test_every_character_is_read_as_by_tiktoken(context: str) -> None:
    """Alone each; beside others a share of them in each context, all of them in all together."""
    characters = [*TABLE["characters"]()]
    share = 1 if context == "{}" else len(CONTEXTS) - 1
    some = characters[CONTEXTS.index(context) % share :: share]
    all_texts = [context.format(character) for character in some]
    for start in range(0, len(all_texts), 10_000):
        part = all_texts[start : start + 10_000]
        expected = [list(tokens) for tokens in tiktoken().encode_many(part)]
        found = [python().encode(text) for text in part]
        assert found == expected, next(
            text for text, one, other in zip(part, found, expected, strict=True) if one != other
        )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["python", "quicktok"])
def test_random_texts(name: str, seed: int) -> None:
    if name == "quicktok":
        pytest.importorskip("quicktok")
    encoder = python() if name == "python" else quicktok()
    assert COMPARED["compare"](encoder, seed, 300) is None


LENGTHS = [20_000, pytest.param(200_000, marks=pytest.mark.slow)]
LONG_TEXTS = (
    *("a", "A", "etaoinshrdlu", "7", "日", "🏰", "\u0301", "\u200d", "'", "a's", "!\n/", "\n", " "),
    *("\t\n", " \t\xa0\u2003\u2028", "Aa", "aA", "\u0301A", "a\u0301 "),
)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("part", LONG_TEXTS)
def test_long_texts(part: str, length: int) -> None:
    """Quadratic time would be seen: the longest would take hours."""
    text = part * (length // len(part)) + "b"
    assert python().encode(text) == tiktoken().encode(text)


@pytest.mark.slow
def test_a_million_of_one_letter() -> None:
    assert python().encode("a" * 1_000_000) == tiktoken().encode("a" * 1_000_000)


@pytest.mark.parametrize("text", ["\ud83c", "a\udc00b", "\ud83c\udff0 castle", "\udff0\ud83c"])
def test_surrogates(text: str) -> None:
    assert python().encode(text) == tiktoken().encode(text)


def test_many_texts() -> None:
    texts = ["", "a", "<|end|>", "日本", "<|reserved_201088|>", "\ud800"]
    assert python().encode_many(texts) == tiktoken().encode_many(texts)


def test_it_takes_the_place_of_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(new_encoder(), Encoder)
    monkeypatch.setattr(tiktoken_encoder, "find_spec", lambda name: None)
    tokenizer = Tokenizer()
    assert isinstance(tokenizer.encoder, PythonEncoder)
    text = "Grüße, <|end|> and 日本 🏰"
    expected = Tokenizer.encode(Tokenizer(), text, "all", ())
    tokens = tokenizer.encode(text, "all", ())
    assert tokens == expected
    assert tokenizer.decode(tokens) == text
    assert max(tokens) < VOCABULARY_SIZE
