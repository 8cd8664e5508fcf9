"""What `turn_grammar` returns compiles: every schema, alone and sixteen together."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from gpt_oss_harmony import Conversation, DeveloperContent, Message, Role, ToolDescription
from gpt_oss_harmony.grammar import (
    GrammarError,
    Matcher,
    TurnOptions,
    enforceable_schema,
    turn_constraint,
)
from gpt_oss_harmony.grammar.json_schema.formats import FORMATS
from gpt_oss_harmony.grammar.json_schema.pattern_lengths import pattern_with_length
from support.json_matcher import accepts_text, json_matcher
from support.tool_schemas import PATTERNS, tool_schema

NOTHING = Conversation.from_messages([])
LENGTHS = [
    *((0, None), (1, None), (9, None), (12, 100), (20, None), (46, None), (50, 60)),
    *((50, 1000), (200, None), (999, None), (0, 50), (0, 1000)),
]


def compiled(schema: Any) -> tuple[str, ...]:
    """Compile the grammar of an answer; return the pointers of what it leaves out."""
    wanted = {"type": "json_schema", "schema": schema}
    options = TurnOptions(response_format=wanted, on_unsupported="loosen")
    constraint = turn_constraint(NOTHING, options)
    Matcher(constraint.grammar).bitmask()
    return tuple(error.pointer for error in constraint.unenforced)


@pytest.mark.parametrize("text", [*PATTERNS, *FORMATS])
def test_texts_of_each_length(text: str) -> None:
    for shortest, longest in LENGTHS:
        schema: dict[str, Any] = {"type": "string", "minLength": shortest}
        schema["format" if text in FORMATS else "pattern"] = text
        if longest is not None:
            schema["maxLength"] = longest
        left_out = compiled(schema)
        assert set(left_out) <= {"response_format#/minLength", "response_format#"}, schema


HOST = "^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z0-9][a-z0-9-]{0,61}[a-z0-9]$"


@pytest.mark.parametrize(("shortest", "is_left_out"), [(1, False), (4, False), (5, True)])
def test_a_length_that_each_text_of_the_pattern_has_is_not_left_out(
    shortest: int, is_left_out: bool
) -> None:
    """As in a published tool; the engine cannot join this pattern with its lengths."""
    schema = {"type": "string", "pattern": HOST, "minLength": shortest, "maxLength": 253}
    shown = ["response_format#/minLength"] if is_left_out else []
    assert compiled(schema) == (*shown, "response_format#/maxLength")


@pytest.mark.parametrize(
    ("pattern", "shortest"),
    [(r"^\S.*\S$", 20), ("https?://.*", 50), ("a", 46), (r"^.*\.json$", 300), ("^v\\d+$", 40)],
)
def test_a_length_becomes_a_part_of_the_pattern(pattern: str, shortest: int) -> None:
    """The texts are those that both keywords allow; nothing is left out."""
    schema = {"type": "string", "pattern": pattern, "minLength": shortest}
    matcher = json_matcher(enforceable_schema(schema))
    found = re.compile(pattern)
    choices = random.Random(pattern)
    texts = [
        choices.choice(["", "v", "http://", "https://x", "ab"])
        + "".join(choices.choices("a1 vx.", k=length))
        + choices.choice(["", ".json", "7"])
        for length in (
            shortest - 9,
            shortest - 6,
            shortest - 2,
            shortest - 1,
            shortest,
            shortest + 9,
        )
        for _ in range(12)
    ] + ["v" + "1" * (shortest + extra) for extra in (-2, -1, 0)]
    verdicts = set()
    for text in texts:
        expected = len(text) >= shortest and found.search(text) is not None
        verdicts.add(expected)
        assert accepts_text(matcher, json.dumps(text)) == expected, text
    assert verdicts == {True, False}


def random_patterns() -> Iterator[tuple[str, int, int | None]]:
    choices = random.Random(7)
    parts = ["a", "b*", "[ab]{1,3}", "(?:ab)*", "c+", "(?:a|bc)", "b?", "(?:ab?){2}"]
    for _ in range(150):
        body = "".join(choices.choices(parts, k=choices.randint(1, 4)))
        start, end = choices.choice(["^", ""]), choices.choice(["$", ""])
        shortest = choices.randint(0, 6)
        longest = choices.choice([None, shortest, shortest + 2])
        yield f"{start}{body}{end}", shortest, longest


def test_a_pattern_with_a_length_is_the_same_language() -> None:
    """Compared with Python's own regular expressions, on all short texts of three letters."""
    texts = [""]
    for _ in range(7):
        texts += [
            text + letter for text in texts if len(text) == len(texts[-1]) for letter in "abc"
        ]
    kept = 0
    for pattern, shortest, longest in random_patterns():
        written = pattern_with_length(pattern, shortest, longest)
        if written is None:
            continue
        kept += 1
        plain = re.compile(
            re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: f"\\U{int(m[1], 16):08x}", written)
        )
        original = re.compile(pattern)
        for text in texts:
            fits = shortest <= len(text) and (longest is None or len(text) <= longest)
            expected = fits and original.search(text) is not None
            assert (plain.search(text) is not None) == expected, (pattern, written, text)
    assert kept > 80


def test_random_tools_compile_alone_and_together() -> None:
    seeds = range(5_000, 5_160)
    for seed in seeds:
        compiled(tool_schema(seed))
    for first in seeds[::16]:
        together([tool_schema(seed) for seed in range(first, first + 16)])


def together(schemas: list[Any]) -> tuple[GrammarError, ...]:
    tools = [ToolDescription.new(f"f{i}", "A tool.", one) for i, one in enumerate(schemas)]
    developer = DeveloperContent.new().with_function_tools(tools)
    chat = Conversation.from_messages([Message.from_role_and_content(Role.DEVELOPER, developer)])
    constraint = turn_constraint(chat, TurnOptions(on_unsupported="loosen"))
    Matcher(constraint.grammar).bitmask()
    return constraint.unenforced


def bounded_integers(count: int, seed: int) -> dict[str, Any]:
    """Integers whose bounds all have fifteen digits and all differ."""
    choices = random.Random(seed)
    return {
        "type": "object",
        "properties": {
            f"p{index}": {
                "type": "integer",
                "minimum": -choices.randrange(10**14, 10**15),
                "maximum": choices.randrange(10**14, 10**15),
            }
            for index in range(count)
        },
    }


@pytest.mark.slow
def test_too_many_bounds_are_loosened_and_named() -> None:
    left_out = compiled(bounded_integers(1_000, 1))
    assert left_out == ("response_format#",)
    wanted = {"type": "json_schema", "schema": bounded_integers(1_000, 1)}
    with pytest.raises(GrammarError, match=r"too large together.*use fewer"):
        turn_constraint(NOTHING, TurnOptions(response_format=wanted))


def test_schemas_that_are_too_large_only_together() -> None:
    """The largest schemas are loosened, no more of them than necessary."""
    unenforced = together([bounded_integers(100 + index, index) for index in range(8)])
    pointers = [error.pointer for error in unenforced]
    assert pointers
    assert pointers == [f"tools/functions.f{7 - index}#" for index in range(len(pointers))]
    assert len(pointers) < 6
