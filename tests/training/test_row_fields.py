"""The law of rows: each field is rendered, or counted under its name, or the row is rejected."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from gpt_oss_harmony import ConversationError
from gpt_oss_harmony.apis.chat_input import read_chat
from gpt_oss_harmony.training import RejectedRow, inference_prompt, row_examples
from gpt_oss_harmony.training.row_forms import RowForm, detect_form
from support.training_oracle import DATE, WRITERS, random_talk, write_chat

TEXT = {"type": "text", "text": "ho"}
SCHEMA = {
    "type": "object",
    "title": "Place",
    "properties": {
        "city": {"type": "string", "description": "The city", "pattern": "^[A-Z]"},
        "days": {"type": "array", "items": {"type": "integer", "minimum": 1}},
    },
    "required": ["city"],
    "additionalProperties": False,
}
FUNCTION = {"name": "f", "description": "A function", "parameters": SCHEMA, "strict": True}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"city": "Rome"}'}}
ASKED = {"role": "user", "content": "hi", "name": "Ann"}
RESULT = {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "{}"}
SETTINGS = {
    "reasoning_effort": "high",
    "model_identity": "You are Tom.",
    "builtin_tools": ["python"],
    "weight": 0.5,
    "parallel_tool_calls": False,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "list", "schema": {"type": "array"}, "strict": True},
    },
    "metadata": {"source": "web"},
}
# Every field that a form has, and some of other forms.
ROWS: dict[str, dict[str, Any]] = {
    "chat": {
        **SETTINGS,
        "tools": [{"type": "function", "function": FUNCTION, "cache_control": {"ttl": 5}}],
        "messages": [
            {"role": "system", "content": "Be brief.", "name": "boss", "cache": 1},
            {"role": "user", "content": [{**TEXT, "cache_control": 1}, {"type": "image", "x": 1}]},
            {
                "role": "assistant",
                "content": "Let me look.",
                "reasoning": "hm",
                "reasoning_content": "hmm",
                "reasoning_details": [{"type": "reasoning.text", "text": "x", "index": 0}],
                "tool_calls": [{**CALL, "index": 0}],
                "weight": 0.5,
                "annotations": [1],
                "audio": {"id": "a"},
                "name": "bot",
            },
            {**RESULT, "status": "ok"},
            {"role": "developer", "content": "In French."},
            ASKED,
            {"role": "assistant", "content": [TEXT], "thinking": "hm", "train": True},
            ASKED,
            {"role": "assistant", "content": None, "refusal": "no", "channel": "final"},
        ],
    },
    "template arguments": {
        "chat_template_kwargs": {
            "reasoning_effort": "high",
            "model_identity": "You are Tom.",
            "builtin_tools": ["browser"],
            "enable_thinking": True,
        },
        "reasoning_language": "French",
        "messages": [ASKED, {"role": "assistant", "content": "ho", "thinking": "hm"}],
    },
    "reasoning details": {
        "messages": [
            ASKED,
            {
                "role": "assistant",
                "content": "ho",
                "reasoning_details": [{"type": "reasoning.text", "text": "x", "index": 1}],
            },
        ]
    },
    "reasoning parts": {
        "messages": [
            ASKED,
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "s": 1}, TEXT]},
        ],
        "response_format": {"type": "json_object"},
    },
    "functions": {
        "functions": [FUNCTION],
        "messages": [
            ASKED,
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "f", "arguments": '{"city": "Rome"}', "x": 1},
            },
            {"role": "function", "name": "f", "content": "{}"},
            {"role": "assistant", "content": "ho"},
        ],
    },
    "custom tools": {
        "tools": [{"type": "custom", "custom": {"name": "f", "description": "A tool", "x": 1}}],
        "messages": [
            ASKED,
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c1", "type": "custom", "custom": {"name": "f", "input": "x", "y": 1}}
                ],
            },
        ],
    },
    "other tools": {
        "tools": [
            {"type": "web_search", "filters": 1},
            {
                "type": "namespace",
                "name": "n",
                "description": "N",
                "tools": [{"type": "function", "name": "g", "description": "G"}],
            },
        ],
        "messages": [ASKED, {"role": "assistant", "content": "ho"}],
    },
    "sharegpt": {
        "id": 7,
        "system": "Be brief.",
        "tools": json.dumps([{"type": "function", "function": FUNCTION}]),
        "conversations": [
            {"from": "human", "value": "hi", "lang": "en"},
            {"from": "function_call", "value": '{"name": "f", "arguments": {"city": "Rome"}}'},
            {"from": "observation", "value": "{}", "took": 1},
            {"from": "gpt", "value": "<think>hm</think>ho", "weight": 0.5, "score": 1},
        ],
    },
    "responses": {
        "model": "x",
        "instructions": "Be brief.",
        "reasoning": {"effort": "high", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "l", "schema": {"type": "array"}}},
        "tools": [{"type": "function", **FUNCTION}],
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "hi", "x": 1}]},
            {
                "type": "reasoning",
                "id": "rs_1",
                "content": [{"type": "reasoning_text", "text": "hm"}],
                "summary": [{"type": "summary_text", "text": "h"}],
                "encrypted_content": "abc",
            },
            {
                "type": "function_call",
                "call_id": "c1",
                "name": "f",
                "arguments": '{"city": "Rome"}',
                "status": "completed",
            },
            {"type": "function_call_output", "call_id": "c1", "output": "{}"},
        ],
        "output": [
            {
                "type": "message",
                "role": "assistant",
                "phase": "final_answer",
                "content": [{"type": "output_text", "text": "ho", "annotations": [1]}],
            }
        ],
    },
    "completion": {
        "prompt": [ASKED, {"role": "assistant", "content": "so"}, ASKED],
        "completion": [{"role": "assistant", "content": "ho", "extra": 1}],
        "score": 1,
    },
    "completion as text": {"prompt": "hi", "completion": "ho", "score": 1},
    "alpaca": {
        "instruction": "Add.",
        "input": "1 and 2",
        "output": "3",
        "system": "Be brief.",
        "history": [["hi", "ho"]],
        "text": "Below is an instruction",
    },
    "harmony": {
        "weight": 0.5,
        "id": 1,
        "messages": [
            {
                "role": "system",
                "content": [
                    {
                        "type": "system_content",
                        "model_identity": "You are Tom.",
                        "reasoning_effort": "High",
                        "conversation_start_date": "2025-06-28",
                        "knowledge_cutoff": "2024-06",
                        "other": 1,
                    }
                ],
            },
            {"role": "user", "content": "hi", "extra": 1},
            {"role": "assistant", "channel": "analysis", "content": "hm", "train": True},
            {
                "role": "assistant",
                "channel": "commentary",
                "recipient": "functions.f",
                "content_type": "<|constrain|>json",
                "content": "{}",
                "thinking_time": 1,
            },
            {
                "role": "tool",
                "name": "functions.f",
                "recipient": "assistant",
                "channel": "commentary",
                "content": "{}",
            },
            {"role": "assistant", "channel": "final", "content": [{**TEXT, "x": 1}]},
        ],
    },
}


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


def test_fields_are_counted_under_their_names() -> None:
    read, _ = row_examples(ROWS["chat"], start_date=DATE)
    assert set(read.unused) == {
        "parallel_tool_calls",
        "metadata",
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
    if all("channel" not in message for message in silent["messages"]) and kind != "opening":
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
