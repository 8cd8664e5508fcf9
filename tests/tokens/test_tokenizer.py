"""Tokens become text in two ways, by tables and by tiktoken once it is loaded, with one result."""

from __future__ import annotations

from array import array
from itertools import chain
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import VocabularyError
from gpt_oss_harmony.tokens.special_tokens import FIRST_SPECIAL, SPECIAL_TEXTS, VOCABULARY_SIZE
from gpt_oss_harmony.tokens.tokenizer import Tokenizer, special_positions, token_id
from gpt_oss_harmony.tokens.vocabulary import load_vocabulary
from support.examples import examples

TABLES = Tokenizer()
TIKTOKEN = Tokenizer()
TIKTOKEN.encode_ordinary("é")  # not ASCII: from now on tiktoken encodes, and decodes

TEXTS = [
    *(
        "hello world",
        "привет, мир",
        "こんにちは世界",
        "안녕하세요",
        "㐀㐁𠀀𠀁",
        "🏰👨‍👩‍👧",
        "é\x80\xff",
    ),
    *("def f(x):\n\treturn x", "", "a"),
]
# A start of a character, its middle, its end; and bytes that no character has.
BROKEN = [TIKTOKEN.encode_ordinary("🏰")[:1], TIKTOKEN.encode_ordinary("𠀀")[1:], [187], [188, 35]]

ids = st.integers(0, VOCABULARY_SIZE - 1)
some_text = st.sampled_from(TEXTS).map(TIKTOKEN.encode_ordinary)
pieces = st.lists(ids, max_size=4) | some_text | st.sampled_from(BROKEN)


def _bytes(tokens: list[int]) -> bytes:
    vocabulary = load_vocabulary()
    return b"".join(
        vocabulary[token] if token < FIRST_SPECIAL else SPECIAL_TEXTS[token].encode()
        for token in tokens
    )


@settings(max_examples=examples(300))
@given(st.lists(pieces, max_size=5).map(lambda parts: [*chain.from_iterable(parts)]))
def test_the_bytes_of_tokens_are_joined_and_decoded(tokens: list[int]) -> None:
    data = _bytes(tokens)
    for tokenizer in (TABLES, TIKTOKEN):
        assert tokenizer.decode_bytes(tokens) == data
        for kind in (list, tuple, iter):
            assert tokenizer.decode(kind(tokens)) == data.decode("utf-8", "replace")
        assert tokenizer.decode(tokens, "ignore") == data.decode("utf-8", "ignore")
    assert TABLES.encoder.core is None


@pytest.mark.parametrize("tokenizer", [TABLES, TIKTOKEN, Tokenizer()])
def test_invalid_utf_8_is_refused_where_errors_are_strict(tokenizer: Tokenizer) -> None:
    with pytest.raises(UnicodeDecodeError):
        tokenizer.decode(BROKEN[0], "strict")
    with pytest.raises(LookupError, match="unknown error handler"):
        tokenizer.decode(BROKEN[0], "unknown")


WRONG = [
    -1,
    -VOCABULARY_SIZE,
    -VOCABULARY_SIZE - 1,
    -2 * VOCABULARY_SIZE,
    -(2**70),
    VOCABULARY_SIZE,
]


@pytest.mark.parametrize("tokenizer", [TABLES, TIKTOKEN, Tokenizer()])
@pytest.mark.parametrize("wrong", [*WRONG, 2**70, 1.0, "1", None, b"1"])
@pytest.mark.parametrize("kind", [list, tuple])
def test_what_is_no_token_is_refused(tokenizer: Tokenizer, wrong: Any, kind: Any) -> None:
    for tokens in ([wrong], [24912, wrong], [wrong, 24912, 200006]):
        with pytest.raises(VocabularyError):
            tokenizer.decode(kind(tokens))
        with pytest.raises(VocabularyError):
            tokenizer.decode_bytes(kind(tokens))


@pytest.mark.parametrize("tokenizer", [TABLES, TIKTOKEN, Tokenizer()])
def test_any_kind_of_integer_is_a_token(tokenizer: Tokenizer) -> None:
    numpy = pytest.importorskip("numpy")
    tokens = numpy.array([24912, 2375])
    assert tokenizer.decode(tokens) == tokenizer.decode(list(tokens)) == "hello world"
    assert tokenizer.decode([True]) == '"'
    with pytest.raises(VocabularyError):
        tokenizer.decode(numpy.array([1.0]))


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (-1, "-1"),
        (VOCABULARY_SIZE, "201089"),
        (10**30 - 1, "9" * 30),
        (10**30, "with more than 30 digits"),
        (1 - 10**30, "-" + "9" * 30),
        # Python prints at most 4,300 digits.
        pytest.param(-(10**5000), "with more than 30 digits", id="5,001 digits"),
    ],
)
def test_ids_outside_the_vocabulary_are_shown_if_they_are_short(token: int, shown: str) -> None:
    with pytest.raises(VocabularyError) as raised:
        token_id(token)
    assert str(raised.value) == f"token id {shown} is outside the vocabulary (0 to 201088)"


# Ids whose bytes are like those of other ids in one place.
byte_ids = st.tuples(*[st.sampled_from([0, 1, 3, 4, 13, 17, 255])] * 4).map(
    lambda four: int.from_bytes(bytes(four), "little")
)


@settings(max_examples=examples(400))
@given(st.lists(ids | byte_ids, max_size=6))
@example([1 << 18])
@example([1 << 24])
@example([FIRST_SPECIAL - 1, FIRST_SPECIAL, 200_192, VOCABULARY_SIZE - 1, VOCABULARY_SIZE])
def test_special_positions_are_those_of_ids_from_the_first_special_one(tokens: list[int]) -> None:
    expected = [at for at, token in enumerate(tokens) if token >= FIRST_SPECIAL]
    assert special_positions(array("I", tokens)) == expected
