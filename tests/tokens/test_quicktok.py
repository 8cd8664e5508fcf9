"""quicktok gives the tokens of tiktoken, for any text; another quicktok is never used."""

from __future__ import annotations

import functools
import hashlib
import json
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import VocabularyError
from gpt_oss_harmony.tokens import quicktok_core
from gpt_oss_harmony.tokens.encoder import CHOICE, Encoder, installed_encoder, new_encoder
from gpt_oss_harmony.tokens.quicktok_core import QuicktokCore, sample_texts
from gpt_oss_harmony.tokens.special_tokens import SPECIAL_TEXTS
from gpt_oss_harmony.tokens.tiktoken_core import TiktokenCore
from gpt_oss_harmony.tokens.tokenizer import Tokenizer
from gpt_oss_harmony.tokens.vocabulary import load_vocabulary
from support.examples import examples

quicktok = pytest.importorskip("quicktok")

WORDS = json.loads((Path(__file__).parents[1] / "data" / "hostile" / "words.json").read_text())

texts = st.text(st.characters(exclude_categories=["Cs"])) | st.lists(
    st.sampled_from([*quicktok_core._PARTS, "<|reserved_200018|>", "<|endofprompt|>", "a" * 300])
).map("".join)


@functools.cache
def tiktoken() -> TiktokenCore:
    return TiktokenCore(load_vocabulary().ranks())


@functools.cache
def core() -> QuicktokCore:
    return QuicktokCore()


def test_what_it_is_compared_with_is_of_tiktoken() -> None:
    encoded = tiktoken().encode_many(list(sample_texts()))
    lengths = array("I", map(len, encoded))
    assert quicktok_core._sha256(lengths, *encoded) == quicktok_core._SAMPLES_SHA256
    vocabulary = hashlib.sha256(b"".join(load_vocabulary()))
    assert vocabulary.hexdigest() == quicktok_core._VOCABULARY_SHA256


def test_tokens_are_those_of_the_reference() -> None:
    expected = [tokens for _, tokens in WORDS]
    assert [core().encode(text) for text, _ in WORDS] == expected
    assert [list(tokens) for tokens in core().encode_many([text for text, _ in WORDS])] == expected


@settings(max_examples=examples(1000))
@given(st.lists(texts, max_size=5))
@example([])
@example([""])
def test_any_text_gets_the_tokens_of_tiktoken(several: list[str]) -> None:
    expected = [tiktoken().encode(text) for text in several]
    assert [core().encode(text) for text in several] == expected
    assert [list(tokens) for tokens in core().encode_many(several)] == expected


# Texts in which quicktok itself differs: characters of Unicode 17, a contraction with a long s.
@pytest.mark.parametrize("text", ["\U00011db4-y", "\U00018deb(Error", "n'\u017f'rEc", "\u088f's"])
def test_tiktoken_encodes_what_quicktok_reads_otherwise(text: str) -> None:
    expected = tiktoken().encode(text)
    assert quicktok.get_encoding("o200k_harmony").encode_ordinary(text) != expected
    assert core().encode(text) == expected
    assert [list(tokens) for tokens in core().encode_many(["hi", text])] == [
        [3686],
        expected,
    ]


@pytest.mark.slow
def test_every_character_is_in_the_class_that_it_has_for_tiktoken() -> None:
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    ordinary = [one for one in characters if not quicktok_core._OTHER_CLASSES.match(one)]
    assert len(ordinary) > 900_000
    for around in ("{}(Er", "A{}'s"):
        text = "\n".join(map(around.format, ordinary))
        assert core().encode(text) == tiktoken().encode(text)


@pytest.mark.parametrize("word", ["a", " ", "\n", "漢", "ab", "!?", "\u0301", "👩\u200d👧"])
def test_long_words_take_linear_time_and_get_the_tokens_of_tiktoken(word: str) -> None:
    text = word * (quicktok_core._LONG_TEXT // len(word) + 7)
    assert core().encode(text) == tiktoken().encode(text)
    assert len(core().encode(word * 2_000_000)) > 1000


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Tokenizer:
    monkeypatch.delenv(CHOICE)
    tokenizer = Tokenizer()
    tokenizer.encode_ordinary("é")
    assert isinstance(tokenizer.encoder.core, QuicktokCore)
    return tokenizer


def test_the_tokenizer_has_our_names_of_special_tokens(quick: Tokenizer) -> None:
    for token, text in SPECIAL_TEXTS.items():
        assert quick.decode([token, 24912]) == f"{text}hello"
    assert quick.encode("<|reserved_200018|><|end|>", "all", ()) == [200018, 200007]
    with pytest.raises(VocabularyError, match="201089"):
        quick.decode([201089])
    assert quick.decode(quick.encode_ordinary("<|endofprompt|>")) == "<|endofprompt|>"


def test_lone_surrogates_become_the_replacement(quick: Tokenizer) -> None:
    text = "a\ud800\ud83d\ude00"
    assert quick.decode(quick.encode_ordinary(text)) == "a\ufffd😀"
    many = quick.encode_many([text, "é" * 30_000])
    assert quick.decode(many[0]) == "a\ufffd😀"


def test_it_is_chosen_by_what_is_installed_and_by_a_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(CHOICE)
    assert (installed_encoder(), new_encoder().name) == ("quicktok", "quicktok")
    monkeypatch.setenv(CHOICE, "tiktoken")
    encoder = new_encoder()
    assert (encoder.encode("é"), encoder.name) == ([377], "tiktoken")
    monkeypatch.setenv(CHOICE, "fast")
    with pytest.raises(VocabularyError, match="HARMONY_TOKENIZER='fast' is unknown; choose tiktok"):
        new_encoder()


class Wrong:
    """A quicktok with one wrong id."""

    def __init__(self, real: Any, wrong: str) -> None:
        self._real, self._wrong = real, wrong

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def encode_batch(self, texts: list[str], threads: int, special: bool) -> Any:
        ids, ends = self._real.encode_batch(texts, threads, special)
        if self._wrong == "ids" and len(texts) > 1:
            ids[-1] += 1
        return ids, ends

    def decode_bytes(self, ids: Any) -> bytes:
        data: bytes = self._real.decode_bytes(ids)
        return data + b"!" if self._wrong == "vocabulary" else data


@pytest.mark.parametrize("wrong", ["ids", "vocabulary"])
def test_another_quicktok_gives_way_to_tiktoken(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = quicktok.get_encoding("o200k_harmony")
    monkeypatch.setattr(quicktok, "get_encoding", lambda name: Wrong(real, wrong))
    encoder = Encoder(tries_quicktok=True)
    with pytest.warns(RuntimeWarning, match="does not give the tokens of tiktoken; tiktoken is"):
        assert encoder.encode("é") == [377]
    assert isinstance(encoder.core, TiktokenCore)
    assert encoder.encode("é") == [377]  # and no second warning
