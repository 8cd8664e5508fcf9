"""The law of rows: each field is rendered, or counted under its name, or the row is rejected."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from gpt_oss_harmony import ConversationError
from gpt_oss_harmony.apis.chat.input import read_chat
from gpt_oss_harmony.training import RejectedRow, inference_prompt, row_examples
from gpt_oss_harmony.training.row_forms import RowForm, detect_form
from support.training_oracle import DATE, WRITERS, random_talk, write_chat
from support.training_rows import ASKED, FUNCTION, ROWS


def taught_by(row: dict[str, Any], form: RowForm) -> tuple[Any, Counter[str]] | None:
    """Return what a row teaches, and its unused fields; None if it is rejected."""
    try:
        read, made = row_examples(row, form=form, start_date=DATE, reject=())
    except ConversationError:
        return None
    return (
        [(e.input_ids, e.labels, e.loss_weights()) for e in made.examples],
        Counter(read.unused),
    )


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values that hold no others."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    elif value is not None:
        yield path


def changed(row: dict[str, Any], path: tuple[Any, ...], *, without: bool) -> dict[str, Any]:
    """Copy a row with another value at a path, or without the field."""
    copied = copy.deepcopy(row)
    inner: Any = copied
    for key in path[:-1]:
        inner = inner[key]
    value = inner[path[-1]]
    if without and isinstance(inner, dict):
        del inner[path[-1]]
    elif isinstance(value, bool):
        inner[path[-1]] = not value
    elif isinstance(value, (int, float)):
        inner[path[-1]] = value * 2
    else:
        inner[path[-1]] = f"{value}x"
    return copied


# Fields that match calls with results, or say what they stand beside, and are not themselves text.
MATCHING = {"id", "call_id", "tool_call_id", "type", "role", "name"}


@pytest.mark.parametrize("name", ROWS)
def test_each_field_is_rendered_or_counted_or_refused(name: str) -> None:
    row = ROWS[name]
    form = detect_form(row)
    before = taught_by(row, form)
    assert before is not None, name
    for path in leaves(row):
        if path[-1] in MATCHING:
            continue
        names = {str(key) for key in path if isinstance(key, str)}
        counted = any(set(unused.replace("[]", "").split(".")) & names for unused in before[1])
        after = taught_by(changed(row, path, without=False), form)
        removed = taught_by(changed(row, path, without=True), form)
        is_rendered = after is None or removed is None or after[0] != before[0]
        is_rendered |= removed is not None and removed[0] != before[0]
        assert is_rendered or counted, path


SEEDS = 2
"""The random rows of each form; with 12, there are 13,015 mutants."""

MANY = {
    **ROWS,
    **{
        f"{name} {seed}": write(make(random.Random(seed)))
        for name, (make, write) in WRITERS.items()
        for seed in range(SEEDS)
    },
}
NOT_NAMES = {"messages", "content", "tools", "function", "parameters", "prompt", "input"}
"""Words that stand in the names of many fields; one of them alone does not explain a change."""

REASONING = {"reasoning", "reasoning_content", "thinking", "text", "content", "value"}


def mutants(row: dict[str, Any], path: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    """Change a value a little, and to one of another type."""
    little = changed(row, path, without=False)
    if little != row:  # twice 0 is 0
        yield little
    copied = copy.deepcopy(row)
    inner: Any = copied
    for key in path[:-1]:
        inner = inner[key]
    if inner[path[-1]] not in ("", [], {}, 7):  # an empty value says nothing
        inner[path[-1]] = 7
        yield copied


def explained(row: dict[str, Any], path: tuple[Any, ...], unused: Counter[str]) -> bool:
    """Return whether a report without examples names the field at a path, or what has it."""
    words = {str(key) for key in path if isinstance(key, str)} - NOT_NAMES
    for depth in range(len(path)):
        inner: Any = row
        for key in path[:depth]:
            inner = inner[key]
        if isinstance(inner, dict) and isinstance(inner.get("type"), str):
            words.add(inner["type"])  # such as a tool that the model cannot have
    for name in unused:
        if words & set(name.replace("[]", "").split(".")):
            return True
        if name == "reasoning of earlier turns" and path[-1] in REASONING:
            return True
    return any(name.startswith("messages after the last answer") for name in unused)


@pytest.mark.parametrize("name", MANY)
def test_each_change_is_learned_or_counted_or_refused(name: str) -> None:
    """The law of fields, for every value of a row and without an exception."""
    row = MANY[name]
    form = detect_form(row)
    before = taught_by(row, form)
    if before is None:
        return
    silent = [
        path
        for path in leaves(row)
        for mutant in mutants(row, path)
        if taught_by(mutant, form) == before and not explained(row, path, before[1])
    ]
    assert silent == []


@pytest.mark.parametrize("name", ROWS)
def test_an_unknown_field_is_counted_wherever_it_stands(name: str) -> None:
    row = ROWS[name]
    form = detect_form(row)
    objects = {path[: index + 1] for path in leaves(row) for index in range(-1, len(path) - 1)}
    for path in objects:
        copied = copy.deepcopy(row)
        inner: Any = copied
        for key in path:
            inner = inner[key]
        if not isinstance(inner, dict):
            continue
        if path[-1:] in (("properties",), ("schema",)) or "schema" in path:
            continue  # names of parameters, not fields; the schema of an answer is copied whole
        inner["unheard_of"] = "x"
        result = taught_by(copied, form)
        if result is None:
            continue
        before = taught_by(row, form)
        assert before is not None
        names = [str(key) for key in path if isinstance(key, str)]
        is_counted = any(
            unused.endswith("unheard_of")
            or unused.split(".")[-1].removesuffix("[]") in [*names, inner.get("type")]
            for unused in result[1]
        )
        assert is_counted or result[0] != before[0], path


@pytest.mark.parametrize(
    ("part", "named"),
    [
        ({"type": "image"}, "messages[].content[].image"),
        ({"type": "image_url", "image_url": {"url": "x"}}, "messages[].content[].image_url"),
    ],
)
def test_images_are_counted(part: dict[str, Any], named: str) -> None:
    question = {"role": "user", "content": [part]}
    read, _ = row_examples({"messages": [question, {"role": "assistant", "content": "A cat."}]})
    assert list(read.unused) == [named]


def test_fields_are_counted_under_their_names() -> None:
    read, _ = row_examples(ROWS["chat"], start_date=DATE)
    assert set(read.unused) == {
        "parallel_tool_calls",
        "metadata",
        "label",
        "response_format.json_schema.strict",
        "tools[].cache_control",
        "tools[].function.strict",
        "tools[].function.parameters.title",
        "tools[].function.parameters.pattern",
        "tools[].function.parameters.minimum",
        "tools[].function.parameters.additionalProperties",
        "messages[].name",
        "messages[].cache",
        "messages[].content[].cache_control",
        "messages[].content[].x",
        "messages[].reasoning_content",
        "messages[].reasoning_details",
        "messages[].tool_calls[].index",
        "messages[].annotations",
        "messages[].audio",
        "messages[].status",
    }


MIXTURES: list[tuple[dict[str, Any], str]] = [
    (
        {"tools": [FUNCTION], "messages": [{**ASKED, "channel": "x"}]},
        r"mixes harmony's own fields \(messages\[0\].channel\) .* \(tools\)",
    ),
    (
        {"messages": [ASKED, {"role": "assistant", "recipient": "f", "thinking": "hm"}]},
        r"messages\[1\].recipient\) with those of Chat Completions \(messages\[1\].thinking",
    ),
    (
        {
            "reasoning_effort": "high",
            "messages": [{"role": "assistant", "channel": "thinking", "content": "x"}],
        },
        r"messages\[0\].channel",
    ),
]


@pytest.mark.parametrize(("row", "problem"), MIXTURES)
def test_mixtures_of_forms_are_refused(row: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConversationError, match=problem):
        row_examples(row)


def test_channels_beside_fields_of_chat_completions_are_read_as_meant() -> None:
    with_channels = {
        "reasoning_effort": "high",
        "messages": [
            ASKED,
            {"role": "assistant", "channel": "analysis", "content": "hm"},
            {"role": "assistant", "channel": "commentary", "content": "Wait."},
            {"role": "assistant", "channel": "final", "content": "ho"},
        ],
    }
    read, made = row_examples(with_channels, start_date=DATE)
    channels = [message.channel for message in read.conversation.messages]
    assert (read.form, channels) == ("chat", [None, None, "analysis", "commentary", "final"])
    assert len(made.examples) == 1


def answering(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [ASKED, {"role": "assistant", "content": text, **fields}]}


def calling(arguments: str, name: str = "f") -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {**answering("", tool_calls=[call]), "tools": [{**FUNCTION, "type": "function"}]}


LIST_FORMAT = {"name": "list", "schema": {"type": "array"}}
FORMAT = {"type": "json_schema", "json_schema": LIST_FORMAT}
HARMONY = {"role": "user", "content": "hi", "channel": None, "recipient": None}
FOUND: list[tuple[dict[str, Any], str, str]] = [
    (answering("<|channel|>analysis<|message|>x"), "markup", r"<\|channel\|> in an assistant's"),
    (answering("ho<|return|>"), "markup", r"<\|return\|>"),
    (answering("ho<|im_end|>"), "markup", r"<\|im_end\|>"),
    (answering("ho</s>"), "markup", "</s>"),
    (answering("ho", reasoning="<think>hm"), "markup", "<think>"),
    (answering("ho</think>"), "markup", "</think>"),
    (calling("{city: Tokyo"), "calls", "are not valid JSON"),
    (calling('{"city": NaN}'), "calls", "NaN is not JSON"),
    (calling('{"city": "a", "city": "b"}'), "calls", "'city' occurs twice"),
    (calling('["a"]'), "calls", "not a JSON object"),
    (calling('{"city": 7}'), "calls", "break its declared parameters"),
    (calling("{}", "g"), "calls", "'g' is called, but not declared"),
    (answering(" "), "empty", "an answer has no text"),
    (answering("a \ud83c b"), "damaged", r"half of a character, .ud83c, would be learned as"),
    ({**answering("{}"), "response_format": FORMAT}, "format", "breaks its response format"),
    (
        {**answering("[]"), "response_format": {"type": "json_object"}},
        "format",
        "not the JSON object",
    ),
    ({**calling('{"city": "a"}'), "tools": None}, "undeclared", "no tool is declared"),
    (answering("", reasoning="hm"), "unanswered", "no call or answer after it"),
    ({"messages": [{"role": "assistant", "content": "ho"}]}, "opening", "begins with the assist"),
    (
        {"messages": [HARMONY, {"role": "assistant", "channel": "thinking", "content": "x"}]},
        "channels",
        "the channel 'thinking'",
    ),
    (
        {
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "x"},
                {"role": "assistant", "channel": "final", "content": "x"},
            ]
        },
        "channels",
        "no channel",
    ),
]


@pytest.mark.parametrize(("row", "kind", "problem"), FOUND)
def test_what_is_odd_is_counted_or_rejected(row: dict[str, Any], kind: Any, problem: str) -> None:
    _, made = row_examples(row, reject=())
    assert [finding.kind for finding in made.findings] == [kind]
    with pytest.raises(RejectedRow, match=problem):
        row_examples(row, reject={kind})
    silent = copy.deepcopy(row)
    for message in silent["messages"]:
        message["weight"] = 0
    silent["messages"] += [ASKED, {"role": "assistant", "content": "ok"}]
    if all("channel" not in message for message in silent["messages"]) and kind not in (
        "opening",
        "format",
    ):
        assert not row_examples(silent, reject={kind})[1].findings


@pytest.mark.parametrize("seed", range(60))
def test_trained_prompts_are_those_that_the_row_has_before_each_answer(seed: int) -> None:
    """Served is trained: each prompt is that of the messages before the answer."""
    row = write_chat(random_talk(random.Random(seed), turns=4))
    read, made = row_examples(row, start_date=DATE, reject=())
    spoken = [i for i, message in enumerate(row["messages"]) if message["role"] == "assistant"]
    prompts = []
    for index in spoken:
        before = {**row, "messages": row["messages"][:index]}
        served = read_chat(before, conversation_start_date=DATE).conversation
        prompts.append(inference_prompt(served.messages))
    trained = []
    for example in made.examples:
        parts = [part for part in example.messages if example.is_trainable(part)]
        trained += [
            example.input_ids[: part.sampled] for part in parts if part.sampled > part.start
        ]
    assert [prompt for prompt in prompts if prompt not in trained] == []
    assert read.form == "chat"


def test_texts_of_an_answer_are_learned_as_one() -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    apart = {"messages": [ASKED, {"role": "assistant", "content": parts}]}
    together = {"messages": [ASKED, {"role": "assistant", "content": "Hello"}]}
    taught = [row_examples(row)[1].examples[0].labels for row in (apart, together)]
    assert taught[0] == taught[1]


def test_every_form_of_the_oracle_is_detected() -> None:
    forms = {
        name: detect_form(write(make(random.Random(1)))) for name, (make, write) in WRITERS.items()
    }
    assert set(forms.values()) == {
        *("chat", "harmony", "sharegpt", "completion", "alpaca", "responses")
    }
