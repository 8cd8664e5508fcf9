"""Tokens that no model samples: refused in strict mode, left out in lenient mode, never a hang."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import chain, repeat
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import (
    HarmonyError,
    Role,
    StreamableParser,
    VocabularyError,
    load_harmony_encoding,
)
from gpt_oss_harmony.tokens.special_tokens import (
    CHANNEL,
    CONSTRAIN,
    END,
    MESSAGE,
    RETURN,
    START,
    VOCABULARY_SIZE,
)
from support.examples import examples

ENCODING = load_harmony_encoding("HarmonyGptOss")

HOSTILE_IDS = (
    -1, -VOCABULARY_SIZE - 1, VOCABULARY_SIZE, 2**31, 2**32, 2**63, 2**64, -(2**64), 10**100,
)  # fmt: skip
NO_IDS: dict[str, Any] = {
    "none": None,
    "text": "1",
    "float": 1.0,
    "NaN": float("nan"),
    "bytes": b"1",
    "list": [1],
    "object": object(),
    "complex": 1j,
}


def _body(*tokens: Any) -> list[Any]:
    start = ENCODING.encode("<|channel|>final<|message|>hi", allowed_special="all")
    return [*start, *tokens]


@pytest.mark.parametrize(
    "token", [*HOSTILE_IDS, *NO_IDS.values()], ids=[*map(str, HOSTILE_IDS), *NO_IDS]
)
def test_strict_mode_refuses_what_is_no_token(token: Any) -> None:
    is_32_bits = isinstance(token, int) and 0 <= token < 2**32
    kind = OverflowError if isinstance(token, int) else TypeError  # as in the reference
    for feed in (StreamableParser.process_many, _one_by_one):
        parser = StreamableParser(ENCODING, Role.ASSISTANT)
        with nullcontext() if is_32_bits else pytest.raises(kind):
            feed(parser, _body(token))
        assert parser.current_content in ("", "hi\ufffd" if is_32_bits else "hi")
    for decode in (ENCODING.decode, ENCODING.decode_utf8):
        for tokens in ([token], [5, token], (token, 5)):
            problem = "Invalid token for decoding: -?[0-9w]|a token id must be an integer"
            with pytest.raises(VocabularyError, match=problem):
                decode(tokens)


def _one_by_one(parser: StreamableParser, tokens: list[Any]) -> None:
    for token in tokens:
        parser.process(token)


@pytest.mark.parametrize("token", HOSTILE_IDS, ids=str)
def test_lenient_mode_leaves_unknown_ids_out(token: int) -> None:
    tokens = _body(token, *ENCODING.encode(" you"), token, RETURN)
    (whole,) = ENCODING.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT, strict=False)
    parser = StreamableParser(ENCODING, Role.ASSISTANT, strict=False)
    _one_by_one(parser, tokens)
    assert parser.process_eos().messages == [whole]
    assert whole.to_dict()["content"][0]["text"] == "hi you"
    assert [recovery.text for recovery in parser.recoveries] == [str(token)] * 2


def test_decoding_refuses_every_negative_id() -> None:
    ENCODING.decode([0])  # ids that were met are looked up in a table
    for token in (-1, -VOCABULARY_SIZE, -VOCABULARY_SIZE - 1, -2 * VOCABULARY_SIZE):
        with pytest.raises(VocabularyError, match="outside the vocabulary"):
            ENCODING.decode([token, 0])
    with pytest.raises(VocabularyError, match="more than 30 digits"):
        ENCODING.decode([10**5000])


LONG = 100_000
_THE, _FINAL, _HALF = ENCODING.encode(" the"), ENCODING.encode("final"), ENCODING.encode("🏰")[:1]
_BLANK = ENCODING.encode(" \t")
_OPEN = ENCODING.encode("<|start|>assistant<|channel|>final<|message|>", allowed_special="all")
_ASSISTANT = ENCODING.encode("assistant")


def _times(tokens: list[int], count: int) -> list[int]:
    return list(chain.from_iterable(repeat(tokens, count // len(tokens))))


STREAMS: dict[str, Callable[[int], list[int]]] = {
    "a body": lambda n: [*_OPEN, *_times(_THE, n), END],
    "halves of characters": lambda n: [*_OPEN, *_times(_HALF, n), END],
    "the word assistant": lambda n: [*_OPEN, *_times(_ASSISTANT, n), END],
    "markers in a body": lambda n: [*_OPEN, *_times([CHANNEL, *_THE, MESSAGE], n), END],
    "a header": lambda n: [START, *_times(_THE, n), MESSAGE, *_THE, END],
    "a header of channels": lambda n: [START, *_times([CHANNEL, *_FINAL], n), MESSAGE, END],
    "a header of types": lambda n: [START, *_times([CONSTRAIN, *_THE], n), MESSAGE, END],
    "a header of blanks": lambda n: [START, CHANNEL, *_times(_BLANK, n), END],
    "a header of glued words": lambda n: [START, *_times(_FINAL, n), MESSAGE, END],
    "a header cut": lambda n: [START, *_times([CHANNEL, *_FINAL], n), END],
    "beginnings": lambda n: _times([START, CHANNEL], n),
    "ends": lambda n: _times([END], n),
    "stray text": lambda n: _times(_THE, n),
    "spelled markers": lambda n: _times(ENCODING.encode("<|end|>", disallowed_special=()), n),
}


def _parsed(tokens: list[int], strict: bool, chunk: int) -> tuple[Any, ...]:
    parser = StreamableParser(ENCODING, None, strict=strict)
    error = ""
    try:
        for start in range(0, len(tokens), chunk):
            if chunk == 1:
                parser.process(tokens[start])
            else:
                parser.process_many(tokens[start : start + chunk])
            assert (parser.current_content, parser.last_content_delta) is not None
            assert len(parser.messages) <= len(tokens)
        parser.process_eos()
    except HarmonyError as raised:
        error = str(raised)
    messages = [message.to_dict() for message in parser.messages]
    return messages, error, parser.recoveries


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(stream, marks=[pytest.mark.slow] if name == "beginnings" else [], id=name)
        for name, stream in STREAMS.items()
    ],
)
def test_long_streams_may_be_cut_anywhere(stream: Callable[[int], list[int]], strict: bool) -> None:
    tokens = stream(LONG)
    outcome = _parsed(tokens, strict, 4096)
    assert _parsed(tokens, strict, len(tokens)) == outcome
    short = stream(LONG // 20)
    single = _parsed(short, strict, 1)
    assert _parsed(short, strict, 7) == single
    assert strict or not single[1]


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
@pytest.mark.parametrize("name", ["a body", "halves of characters", "the word assistant"])
def test_long_bodies_are_read_token_by_token(name: str, strict: bool) -> None:
    tokens = STREAMS[name](LONG)
    (message,), error, _ = _parsed(tokens, strict, 1)
    assert not error
    assert ENCODING.decode(tokens[len(_OPEN) : -1]) == message["content"][0]["text"]


# Names of tools come from whoever asks, and no name is refused here.
HEADER_WORDS = ["to=", "functions.", "commentary", "json", "code", "final", "assistant"]
PARTS = [*HEADER_WORDS, " ", "{}", "\n", "?"]
MARKERS = ("<|channel|>", "<|constrain|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>")
SIGNS = st.characters(codec="utf-8") | st.sampled_from(
    [" ", "\x0c", "\xa0", "\u200b", ".", "\\", "|"]
)
NAMES = st.text(SIGNS, max_size=4) | st.sampled_from(
    ["", " ", "to=", "functions.", "f", "json", "a|b"]
)


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(NAMES, max_size=4), st.sampled_from([None, *Role]), st.data())
@example([""], Role.TOOL, None)
@example(["", "functions.f"], Role.ASSISTANT, None)
def test_any_names_of_tools_let_the_parser_end(
    tools: list[str], role: Role | None, data: st.DataObject | None
) -> None:
    pieces = st.sampled_from([*PARTS, *tools]) | st.sampled_from(MARKERS) | st.text(max_size=5)
    said = [*PARTS, *tools] if data is None else data.draw(st.lists(pieces, max_size=12))
    tokens = [
        token
        for piece in said
        for token in ENCODING.encode(piece, allowed_special={*MARKERS} & {piece} or set())
    ]
    parser = StreamableParser(ENCODING, role, strict=False, tools=tools)
    _one_by_one(parser, tokens)
    whole = StreamableParser(ENCODING, role, strict=False, tools=tools)
    whole.process_many(tokens)
    assert parser.process_eos().messages == whole.process_eos().messages
