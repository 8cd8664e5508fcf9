"""Turns to run through both engines: those of the tests, and one for each known difference."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpt_oss_harmony import Conversation
from gpt_oss_harmony.grammar import TurnOptions

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tests"))

from support.strategies import tokens_of
from support.turns import (
    CHOICES,
    ENCODING,
    FINAL,
    FORMAT,
    JSON_CALL,
    PLAIN,
    PLAN,
    SAY,
    THINK,
    TOOLS,
    WHOLE_TURNS,
    WRONG_TURNS,
)

__all__ = ["DIFFERENCES", "ENCODING", "WHOLE", "Case", "cases"]

DIFFERENCES = {
    "another-stop-token": "a call may end with `<|return|>`, and an answer with `<|call|>`: the "
    "format does not say which stop token ends a turn",
    "special-token-in-string": "a JSON string may hold a special token that is no stop token",
    "unknown-words": "text may spell `<|word|>`, as long as this is no special token",
    "any-white-space": "JSON may have any amount of white space; with the grammar one space, or "
    "a new line and its indent, after a separator",
    "unicode-escapes": r"JSON strings may have `\uXXXX` escapes; with the grammar they have none, "
    "so that no name of a property can be disguised",
    "ignored-keywords": "some keywords of JSON Schema are ignored: `multipleOf` of decimals, "
    "lengths beside a pattern, patterns of names beside other names",
    "reserved-words": "text cannot have `<|reserved_`",
    "escapes-in-bounded-strings": "a string with `minLength`, `maxLength` or `pattern` cannot hold "
    "an escaped character, such as a quote or a line's end",
}
"""All that is known: the tag allows more; only the last two say what it forbids."""


@dataclass(frozen=True)
class Case:
    """A completion, and the name of the difference that it shows; none where both agree."""

    chat: Conversation
    options: TurnOptions
    tokens: tuple[int, ...]
    difference: str = ""


def case(
    chat: Conversation,
    text: str,
    options: TurnOptions | None = None,
    difference: str = "",
    spelled: str = "",
    rest: str = "",
) -> Case:
    """Make a case: text with markers, text that only spells them, text with markers."""
    middle = ENCODING.encode(spelled, disallowed_special=())
    tokens = (*tokens_of(text), *middle, *tokens_of(rest))
    return Case(chat, options or TurnOptions(), tokens, difference)


WHOLE = [case(chat, text) for chat, text in WHOLE_TURNS]

_WRONG_STOPS = {"<|return|>", "<|call|>"}
_ENDED = ("hi", "}", "code<|message|>1")  # what could end here, with the other stop token


def cases() -> Iterator[Case]:
    """Yield all cases."""
    yield from WHOLE
    for chat, good, bad, rest in WRONG_TURNS:
        is_ended = good.endswith(_ENDED) and "analysis<|message|>" not in good
        name = "another-stop-token" if bad in _WRONG_STOPS and is_ended else ""
        tokens = (*tokens_of(good), *tokens_of(bad), *tokens_of(rest or ""))
        yield Case(chat, TurnOptions(), tokens, name)
    for choice, _ in CHOICES:
        for ending in set().union(*(allowed for _, allowed in CHOICES)):
            for before in ("", THINK, PLAN):
                yield case(TOOLS, before + ending, TurnOptions(tool_choice=choice))
    yield from _options()
    yield from _known()


def _options() -> Iterator[Case]:
    """Yield what options allow and forbid."""
    quiet = TurnOptions(reasoning=False)
    twice = TurnOptions(reasoning_messages=2)
    bounded = TurnOptions(reasoning_tokens=3, text_tokens=2)
    code = "<|channel|>analysis to=python code<|message|>"
    bounded_texts = [
        THINK.replace("Hmm.", thought) + ending
        for thought in ("", "one two three", "one two three four")
        for ending in (SAY, f"{FINAL}one two<|return|>", f"{FINAL}one two three<|return|>")
    ]
    bounded_texts += [f"{code}{text}<|call|>" for text in ("", "one two", "one two three")]
    for options, texts in (
        (quiet, [THINK + SAY, PLAN + SAY]),
        (twice, [f"{PLAN}{THINK}{PLAN}{THINK}{PLAN}{SAY}", THINK * 3 + SAY]),
        (TurnOptions(reasoning_messages=1, preambles=False), [THINK + SAY, THINK * 2 + SAY]),
        (bounded, bounded_texts),
    ):
        for text in texts:
            yield case(TOOLS, text, options)
    json_object = TurnOptions(response_format={"type": "json_object"})
    yield case(PLAIN, f'{FINAL}{{"a": [1, null]}}<|return|>', json_object)
    yield case(PLAIN, f"{FINAL}[", json_object)


QUARTERS = {"type": "number", "multipleOf": 0.25}
BOUNDED = {"type": "string", "minLength": 1}


def answer(schema: dict[str, Any]) -> TurnOptions:
    """Ask for an answer."""
    return TurnOptions(response_format={"type": "json_schema", "name": "answer", "schema": schema})


def _known() -> Iterator[Case]:
    string = f'{JSON_CALL}{{"location":"'
    yield case(TOOLS, f'{string}<|end|>"}}<|call|>', difference="special-token-in-string")
    yield case(TOOLS, string, spelled="<|end|>", rest='"}<|call|>')  # both allow it
    yield case(PLAIN, FINAL, None, "unknown-words", "a <|b|>", "<|return|>")
    yield case(PLAIN, FINAL, None, "reserved-words", "<|reserved_ <", "<|return|>")
    for spelled in ("a <|end|>", "<|<|start|>"):  # both refuse it
        yield case(PLAIN, FINAL, spelled=spelled, rest="<|return|>")
    yield case(FORMAT, f'{FINAL}{{   "answer":1}}<|return|>', difference="any-white-space")
    yield case(TOOLS, f'{string}\\u0041"}}<|call|>', difference="unicode-escapes")
    yield case(PLAIN, f"{FINAL}0.3", answer(QUARTERS), "ignored-keywords")
    yield case(PLAIN, f"{FINAL}0.75<|return|>", answer(QUARTERS))
    name = "escapes-in-bounded-strings"
    yield case(PLAIN, f'{FINAL}"a\\nb"<|return|>', answer(BOUNDED), name)
    yield case(PLAIN, f'{FINAL}"ab"<|return|>', answer(BOUNDED))
