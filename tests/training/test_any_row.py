"""The law of bad rows: every JSON value as a row is examples, or one named rejection."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpt_oss_harmony import ConversationError
from gpt_oss_harmony.training import row_examples, stream_examples
from gpt_oss_harmony.training.row_forms import ROW_FORMS
from gpt_oss_harmony.training.rows import read_row
from gpt_oss_harmony.training.trainers import preference_example, unpaired_preference_example
from support.training_oracle import DATE
from support.training_rows import ROWS

CASES = 1_500  # of each seed

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 0.5, 10**400, float("inf"), float("nan")),
    *("", "x", "[", "{}", "[]", "[{}]", "null", "7", "\ud800", "[" * 50, "<think>"),
    *("<tool_call>7</tool_call>", "<tool_call>[]</tool_call>", '["x"]', '[{"a": 1}]'),
    *("assistant", "user", "tool", "system", "custom", "function", "namespace", "mcp"),
    *("json_schema", "reasoning", "thinking", "analysis", "final", "2025-01-01"),
    *([], [None], [7], ["x"], [[]], [{}], [["a", "b"]], {}, {"a": 1}),
    *({"type": "text"}, {"type": 7}, {"type": ["x"]}, {"text": "A"}, [{"text": "A"}]),
    *([{"type": "text", "text": 7}], {"role": "user"}, [{"role": "assistant", "content": "x"}]),
    *({"$ref": "#"}, {"properties": 7}, {"properties": {"a": 7}}, {"enum": 7}),
]
ASKED = {"role": "user", "content": "hi"}
SAID = [{"role": "assistant", "content": text, "thinking": "hm"} for text in ("a", "b")]
PREFERENCES: dict[str, dict[str, Any]] = {
    "trl": {"prompt": [ASKED], "chosen": SAID[:1], "rejected": SAID[1:], "margin": 1.0},
    "openai": {
        "input": {"messages": [ASKED], "tools": []},
        "preferred_output": SAID[:1],
        "non_preferred_output": SAID[1:],
    },
    "common beginning": {"chosen": [ASKED, SAID[0]], "rejected": [ASKED, SAID[1]]},
    "labelled": {"prompt": [ASKED], "completion": SAID[:1], "label": False, "score": 1.0},
    "labelled conversation": {"messages": [ASKED, *SAID, ASKED, SAID[1]], "kto_tag": False},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of a value and of all values inside it."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*path, index))


def with_value(row: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    inner = row = copy.deepcopy(row)
    for key in path[:-1]:
        inner = inner[key]
    if isinstance(inner, dict) != isinstance(path[-1], str):
        raise TypeError("JSON has no such key")
    inner[path[-1]] = value
    return row


def by_row(raw: Any, chance: random.Random) -> None:
    date = chance.choice([DATE, None, "field:id", "2025-01-01..2025-02-01"])
    _, made = row_examples(raw, form=chance.choice([None, *ROW_FORMS]), start_date=date)
    assert made.examples


def by_stream(raw: Any, chance: random.Random) -> None:
    refused: list[Any] = []
    made = list(stream_examples([raw], on_rejected=lambda row, error: refused.append(error)))
    assert bool(made) != bool(refused)


def by_reading(raw: Any, chance: random.Random) -> None:
    read_row(raw, form=chance.choice([None, *ROW_FORMS]))


def by_preference(raw: Any, chance: random.Random) -> None:
    is_labelled = isinstance(raw, dict) and not {"kto_tag", "completion"}.isdisjoint(raw)
    make = unpaired_preference_example if is_labelled else preference_example
    assert make(raw, on_unused=lambda names: None)["prompt_ids"]


def by_label(raw: Any, chance: random.Random) -> None:
    assert unpaired_preference_example(raw, on_unused=lambda names: None)["prompt_ids"]


WAYS: list[Callable[[Any, random.Random], None]] = [
    by_row,
    by_stream,
    by_reading,
    by_preference,
    by_label,
]


def check(way: Callable[[Any, random.Random], None], raw: Any, chance: random.Random) -> None:
    """Run a function; it succeeds, or it raises one error of one kind that says something."""
    problem = None
    try:
        way(raw, chance)
    except ConversationError as error:
        problem = error.problem
    assert problem is None or problem.strip()


@pytest.mark.parametrize("seed", range(4))
def test_any_value_anywhere_is_examples_or_one_named_rejection(seed: int) -> None:
    chance = random.Random(seed)
    given = [*ROWS.values(), *PREFERENCES.values()]
    places_of = [list(places(row)) for row in given]
    for _ in range(CASES):
        which = chance.randrange(len(given))
        raw = given[which]
        for path in chance.sample(places_of[which], chance.choice([1, 1, 1, 2])):
            try:
                raw = with_value(raw, path, copy.deepcopy(chance.choice(VALUES)))
            except (LookupError, TypeError):
                continue  # the first value has no such place
        check(by_preference if which >= len(ROWS) else chance.choice(WAYS), raw, chance)


@pytest.mark.parametrize("value", VALUES)
def test_any_value_is_no_row_or_one(value: Any) -> None:
    for way in WAYS:
        check(way, value, random.Random(0))


NAMED = [
    ([{"text": "A"}], r"messages\[1\].content\[0\].type: the field is missing"),
    (["A"], r"messages\[1\].content\[0\]: expected an object, found 'A'"),
    ([None], r"messages\[1\].content\[0\]"),
]


@pytest.mark.parametrize(("content", "problem"), NAMED)
def test_a_wrong_part_is_named(content: Any, problem: str) -> None:
    with pytest.raises(ConversationError, match=problem):
        row_examples({"messages": [ASKED, {"role": "assistant", "content": content}]})


def test_a_weight_that_no_float_can_hold_is_named() -> None:
    answer = {"role": "assistant", "content": "ho", "weight": 10**400}
    with pytest.raises(ConversationError, match=r"messages\[1\].weight: expected a number of 0"):
        row_examples({"messages": [ASKED, answer]})


def test_a_declared_name_that_no_header_can_contain_is_a_finding() -> None:
    plain = {"description": "", "parameters": {"type": "object"}}
    tools = [{"name": "a<b", **plain}, {"name": "f", **plain}]
    functions = {"functions": {"name": "functions", "tools": tools}}
    content = [{"type": "developer_content", "tools": functions}]
    call = {
        "role": "assistant",
        "channel": "commentary",
        "recipient": "functions.f",
        "content_type": "<|constrain|>json",
        "content": "{}",
    }
    row = {"messages": [{"role": "developer", "content": content}, ASKED, call]}
    with pytest.raises(ConversationError, match=r"cannot contain the name 'functions.a<b'"):
        row_examples(row)
