"""Rows of data sets: harmony, Chat Completions and ShareGPT to conversations."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections import Counter
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import ConversationError, Message, Role, load_harmony_encoding
from gpt_oss_harmony.training import (
    IGNORED,
    RejectedRow,
    TrainingOptions,
    row_examples,
    stream_examples,
    training_examples,
)
from gpt_oss_harmony.training.row_forms import detect_form
from gpt_oss_harmony.training.rows import RowDates, parse_line, read_row
from support.examples import examples

ENCODING = load_harmony_encoding("HarmonyGptOss")


def read(row: Any) -> tuple[str, list[str]]:
    """Read a row; write its messages without the system's, as a prompt has them."""
    result = read_row(row)
    messages = [m for m in result.conversation.messages if m.author.role is not Role.SYSTEM]
    texts = (ENCODING.decode(ENCODING.render(message)) for message in messages)
    return result.form, [
        text.replace("<|message|>", ">").replace("<|start|>", "/") for text in texts
    ]


CALL = {"name": "f", "arguments": {"city": "Rom"}}
CALL_TEXT = (
    '/assistant to=functions.f<|channel|>commentary <|constrain|>json>{"city": "Rom"}<|call|>'
)
RESULT_TEXT = "/functions.f to=assistant<|channel|>commentary>{}<|end|>"
USER, FINAL = "/user>hi<|end|>", "/assistant<|channel|>final>ho<|end|>"
THOUGHT = "/assistant<|channel|>analysis>hm<|end|>"
DECLARED = (
    "/developer># Tools\n\n## functions\n\nnamespace functions {\n\n"
    "type f = (_: {\ncity?: string,\n}) => any;\n\n} // namespace functions<|end|>"
)
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
ASKED = {"role": "user", "content": "hi"}
ANSWERED = {"role": "assistant", "content": "ho"}


def chat(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"messages": [ASKED, *messages], **fields}


def calling(*calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def said(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


def share(*messages: tuple[str, Any], **fields: Any) -> dict[str, Any]:
    return {"conversations": [{"from": who, "value": value} for who, value in messages], **fields}


VECTORS: dict[str, tuple[Any, str, list[str]]] = {
    "chat": (chat(ANSWERED), "chat", [USER, FINAL]),
    "a list of messages": ([ASKED, ANSWERED], "chat", [USER, FINAL]),
    "messages as text": ({"messages": json.dumps([ASKED, ANSWERED])}, "chat", [USER, FINAL]),
    "thinking": (chat({**ANSWERED, "thinking": "hm"}), "chat", [USER, THOUGHT, FINAL]),
    "reasoning": (chat({**ANSWERED, "reasoning": "hm"}), "chat", [USER, THOUGHT, FINAL]),
    "reasoning_content": (
        chat({**ANSWERED, "reasoning_content": "hm", "thinking": None}),
        "chat",
        [USER, THOUGHT, FINAL],
    ),
    "thinking parts": (
        chat(said([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "ho"}])),
        "chat",
        [USER, THOUGHT, FINAL],
    ),
    "thinking parts of parts": (
        chat(
            said(
                [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}],
                tool_calls=[CALL],
            )
        ),
        "chat",
        [USER, THOUGHT, CALL_TEXT],
    ),
    "reasoning parts": (
        chat(said([{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "ho"}])),
        "chat",
        [USER, THOUGHT, FINAL],
    ),
    "reasoning parts with a summary": (
        chat(said([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}])),
        "chat",
        [USER, THOUGHT],
    ),
    "reasoning parts beside the field": (
        chat(
            said(
                [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "ho"}],
                thinking="hm",
            )
        ),
        "chat",
        [USER, THOUGHT, FINAL],
    ),
    "a refusal": (chat(said(None, refusal="ho")), "chat", [USER, FINAL]),
    "no refusal beside calls": (
        chat(said(None, refusal="", tool_calls=[CALL])),
        "chat",
        [USER, CALL_TEXT],
    ),
    "an empty part beside calls": (
        chat(said([{"type": "text", "text": ""}], tool_calls=[CALL])),
        "chat",
        [USER, CALL_TEXT],
    ),
    "marked reasoning": (chat(said("<think>\nhm\n</think>\n\nho")), "chat", [USER, THOUGHT, FINAL]),
    "no thought in the marks": (chat(said("<think>\n\n</think>\n\nho")), "chat", [USER, FINAL]),
    "marked calls": (
        chat(said(f"<think>hm</think><tool_call>{json.dumps(CALL)}</tool_call>")),
        "chat",
        [USER, THOUGHT, CALL_TEXT],
    ),
    "messages beside no conversations": (chat(ANSWERED, conversations=[]), "chat", [USER, FINAL]),
    "a call without id, with an object": (
        chat(calling({"function": CALL}), {"role": "tool", "content": {}}),
        "chat",
        [USER, CALL_TEXT, RESULT_TEXT],
    ),
    "a flat call": (chat(calling(CALL)), "chat", [USER, CALL_TEXT]),
    "a call as text": (chat(calling(json.dumps(CALL))), "chat", [USER, CALL_TEXT]),
    "calls as text": (
        chat({"role": "assistant", "tool_calls": json.dumps([CALL])}),
        "chat",
        [USER, CALL_TEXT],
    ),
    "results by name": (
        chat(
            calling({"function": {"name": "g", "arguments": "{}"}}, {"function": CALL}),
            {"role": "tool", "name": "f", "content": "{}"},
        ),
        "chat",
        [
            USER,
            CALL_TEXT.replace("functions.f", "functions.g").replace('{"city": "Rom"}', "{}"),
            CALL_TEXT,
            RESULT_TEXT,
        ],
    ),
    "several results in one message": (
        chat(
            calling({"id": "1", "function": {"name": "g", "arguments": "{}"}}, {"function": CALL}),
            {
                "role": "tool",
                "content": [{"name": "f", "content": "{}"}, {"id": "1", "content": "[]"}],
            },
        ),
        "chat",
        [
            USER,
            CALL_TEXT.replace("functions.f", "functions.g").replace('{"city": "Rom"}', "{}"),
            CALL_TEXT,
            RESULT_TEXT,
            RESULT_TEXT.replace("functions.f", "functions.g").replace("{}", "[]"),
        ],
    ),
    "one result of several parts": (
        chat(
            calling({"function": CALL}),
            {"role": "tool", "content": [{"type": "text", "text": part} for part in "{}"]},
        ),
        "chat",
        [USER, CALL_TEXT, RESULT_TEXT],
    ),
    "one result that looks like several": (
        chat(
            calling({"id": "1", "function": CALL}),
            {"role": "tool", "tool_call_id": "1", "content": [{"name": "f", "content": "{}"}]},
        ),
        "chat",
        [USER, CALL_TEXT, RESULT_TEXT.replace("{}", '[{"name": "f", "content": "{}"}]')],
    ),
    "tools": (
        chat(tools=[{"type": "function", "function": {"name": "f", "parameters": PARAMETERS}}]),
        "chat",
        [DECLARED, USER],
    ),
    "tools as text": (
        chat(tools=json.dumps([{"name": "f", "parameters": PARAMETERS}])),
        "chat",
        [DECLARED, USER],
    ),
    "parameters as text": (
        chat(tools=[{"type": "function", "name": "f", "parameters": json.dumps(PARAMETERS)}]),
        "chat",
        [DECLARED, USER],
    ),
    "no tools": (chat(ANSWERED, tools=""), "chat", [USER, FINAL]),
    "harmony": (
        {"messages": [ASKED, {"role": "assistant", "channel": "analysis", "content": "hm"}]},
        "harmony",
        [USER, THOUGHT],
    ),
    "sharegpt": (share(("human", "hi"), ("gpt", "ho")), "sharegpt", [USER, FINAL]),
    "sharegpt with a system's text": (
        share(("human", "hi"), system="Be brief."),
        "sharegpt",
        ["/developer># Instructions\n\nBe brief.<|end|>", USER],
    ),
    "sharegpt with reasoning": (
        share(("user", "hi"), ("assistant", "<think>\nhm\n</think>\n\nho")),
        "sharegpt",
        [USER, THOUGHT, FINAL],
    ),
    "sharegpt with roles for calls": (
        share(
            ("human", "hi"),
            ("function_call", json.dumps(CALL)),
            ("observation", "{}"),
            ("gpt", "ho"),
            tools=json.dumps([{"name": "f", "parameters": PARAMETERS}]),
        ),
        "sharegpt",
        [DECLARED, USER, CALL_TEXT, RESULT_TEXT, FINAL],
    ),
    "sharegpt with marked calls": (
        share(
            ("human", "hi"),
            ("gpt", f"<think>hm</think><tool_call>\n{json.dumps(CALL)}\n</tool_call>"),
            ("tool", '<tool_response>{"name": "f", "content": {}}</tool_response>'),
        ),
        "sharegpt",
        [USER, THOUGHT, CALL_TEXT, RESULT_TEXT],
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_rows(name: str) -> None:
    row, form, texts = VECTORS[name]
    assert read(row) == (form, texts)


REFUSED: list[tuple[Any, str]] = [
    ("text", "the row is text; expected an object with messages"),
    ({}, r"the row has no messages; its fields are none; write it as"),
    ({"text": "hi"}, "its fields are 'text'"),
    ({"messages": None, "id": 1}, "the row has no messages; its fields are 'id'; write"),
    ({"question": "a", "answer": "b"}, '"user", "content": "<question>"}, .*"<answer>"'),
    ({"chosen": [], "rejected": []}, "row of preferences .chosen and rejected, as TRL has them"),
    ([{"messages": []}], "the row is a list of rows; write each of them on its own line"),
    (None, "the row is null; expected an object with messages"),
    (7, "the row is 7; expected an object with messages"),
    (
        {"messages": [{"who": "human", "value": "hi"}]},
        r"messages\[0\].role: the field is missing; the fields of the message are 'who', 'value'",
    ),
    (
        {"messages": "[{"},
        "messages: expected a list or an object, or its JSON as text, found '\\[{'",
    ),
    ({"messages": [{"role": "user"}]}, r"messages\[0\].content: the field is missing"),
    ({"conversations": [{"role": "user"}]}, r"messages\[0\].content: the field is missing"),
    (share(("alien", "hi")), r"conversations\[0\].from: expected one of human"),
    (
        share(("gpt", "<tool_call>{</tool_call>")),
        "expected a list or an object, or its JSON as text, found '{'",
    ),
    *(
        (
            {"instruction": "a", "output": "b", "history": [["c", "d"], pair]},
            r"history\[1\]: expected a question and its answer",
        )
        for pair in (["e"], ["e", "f", "g"], "ef")
    ),
    (chat({"role": "tool", "content": "{}"}), r"messages\[1\].tool_call_id: the field is missing"),
    (chat({**ANSWERED, "weight": "1"}), r"messages\[1\].weight: expected a number"),
    (chat({**ANSWERED, "weight": -1}), "expected a number of 0 or more"),
    (chat({**ANSWERED, "train": 1}), r"messages\[1\].train: expected true or false"),
    (chat({**ANSWERED, "weight": 0, "train": True}), "train: another field .* contradicts it"),
    (chat({**ANSWERED, "train": True, "masked": True}), "masked: another field"),
    (chat({**ANSWERED, "train_detail": [{"begin_offset": 0}]}), "weights of single characters"),
    (chat(said([{"type": "thinking"}])), r"content\[0\].thinking: the field is missing"),
    ({"messages": [{"role": "user", "channel": "x", "content": 1}]}, r"messages\[0\].content"),
    (
        {"messages": [{**ASKED, "channel": "x"}, {"content": "hi"}]},
        r"messages\[1\].role: the field",
    ),
    (
        {"messages": [{"role": "user", "channel": "x", "content": [{"text": "x"}]}]},
        r"Unknown content variant",
    ),
    (
        {"messages": [{**ASKED, "channel": "x", "weight": []}]},
        r"messages\[0\].weight: expected a num",
    ),
]


@pytest.mark.parametrize(("row", "problem"), REFUSED)
def test_what_cannot_be_read_says_why(row: Any, problem: str) -> None:
    with pytest.raises(ConversationError, match=problem):
        read_row(row)


def test_the_form_can_be_given() -> None:
    row = {"messages": [ASKED, ANSWERED]}
    assert detect_form(row) == "chat"
    assert read_row(row, form="harmony").conversation.messages[-1].channel is None


def test_dates_and_effort() -> None:
    row = chat(reasoning_effort="high")
    text = ENCODING.decode(
        ENCODING.render(read_row(row, start_date="2025-06-28").conversation.messages[0])
    )
    assert "Current date: 2025-06-28" in text
    assert "Reasoning: high" in text


def test_weights_go_to_all_that_a_message_becomes() -> None:
    row = chat(
        {"role": "system", "content": "x"},
        {
            "role": "assistant",
            "content": "see",
            "thinking": "hm",
            "tool_calls": [CALL],
            "weight": 0,
        },
        {"role": "tool", "content": "{}"},
        {**ANSWERED, "weight": 0.5},
    )
    result = read_row(row)
    channels = [message.channel for message in result.conversation.messages]
    assert channels == [
        None,
        None,
        None,
        "analysis",
        "commentary",
        "commentary",
        "commentary",
        "final",
    ]
    assert result.weights == {3: 0, 4: 0, 5: 0, 7: 0.5}


def test_weights_of_harmony_messages() -> None:
    row = {"messages": [ASKED, {**ANSWERED, "channel": "final", "weight": 2}]}
    assert read_row(row).weights == {1: 2.0}


FLAGS: list[tuple[str, Any]] = [
    ("train", False),
    ("training", False),
    ("trainable", False),
    ("loss", False),
    ("masked", True),
    ("weight", 0),
]


@pytest.mark.parametrize(("name", "value"), FLAGS)
def test_other_spellings_of_weights(name: str, value: Any) -> None:
    flagged = {name: value}
    opposite = {name: 1 if name == "weight" else not value}
    rows = [
        chat({**ANSWERED, **flagged}, ASKED, {**ANSWERED, **opposite}),
        {
            "messages": [
                ASKED,
                {**ANSWERED, "channel": "final", **flagged},
                {**ANSWERED, **opposite},
            ]
        },
        {
            "conversations": [
                {"from": "human", "value": "hi"},
                {"from": "gpt", "value": "ho", **flagged},
                {"from": "gpt", "value": "ho", **opposite},
            ]
        },
    ]
    for row in rows:
        weights = read_row(row).weights
        assert [weights[index] for index in sorted(weights)] == [0.0, 1.0]


PICTURE = {"type": "image_url", "image_url": {"url": "x"}}
TOOL_USE = {"type": "tool_use", "id": "1", "name": "f", "input": {}}
UNLEARNABLE: list[tuple[Any, str]] = [
    (said([{"type": "text", "text": "see"}, PICTURE]), "type 'image_url' cannot be learned"),
    (said([TOOL_USE]), "type 'tool_use' cannot be learned"),
    (said("hm</think>ho"), "</think> in an assistant's text"),
    (said("ho <think>hm</think>"), "<think> in an assistant's text"),
    (said([{"type": "text", "text": "<think>hm</think>ho"}]), "<think> in an assistant's text"),
    (said("<think>x</think>ho", reasoning="hm"), "<think> in an assistant's text"),
    (said("<tool_call>{}</tool_call>", tool_calls=[CALL]), "<tool_call> in an assistant's text"),
]


@pytest.mark.parametrize(("message", "reason"), UNLEARNABLE)
def test_what_no_model_should_say_is_rejected_where_it_would_be_learned(
    message: dict[str, Any], reason: str
) -> None:
    with pytest.raises(RejectedRow, match=reason):
        row_examples(chat(message))
    for row, options in [
        (chat({**message, "weight": 0}, ASKED, ANSWERED), None),
        (chat(message, ASKED, ANSWERED), TrainingOptions(turns="last")),
    ]:
        _, made = row_examples(row, options)
        assert sum(example.trainable_tokens for example in made.examples) == 5


def function(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **fields}}


def call_of(name: str) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": "{}"}}]}


def learned(row: Any) -> list[tuple[list[str], str]]:
    """Return the functions that each example declares, and the text that it trains on."""
    _, made = row_examples(row)
    return [
        (
            re.findall(r"^type (\w+) = ", ENCODING.decode(example.input_ids), re.MULTILINE),
            ENCODING.decode(label for label in example.labels if label != IGNORED),
        )
        for example in made.examples
    ]


def test_tools_that_change_are_those_that_an_answer_was_given_with() -> None:
    result = {"role": "tool", "content": "1"}
    messages = [
        {**ASKED, "tools": [function("one")]},
        call_of("one"),
        {**result, "tools": json.dumps([function("one"), function("two")])},
        call_of("two"),
        result,
        {**ANSWERED, "tools": []},  # nothing changes
        {**ASKED, "tools": [function("two")]},
        {**ANSWERED, "tools": [function("two")]},
    ]
    call = "<|channel|>commentary to=functions.{} <|constrain|>json<|message|>{{}}<|call|>"
    answer = "<|channel|>final<|message|>ho<|return|>"
    assert learned({"messages": messages}) == [
        (["one"], call.format("one")),
        (["one", "two"], call.format("two") + answer),
        (["two"], answer),
    ]
    read, made = row_examples({"messages": messages})
    assert not read.unused
    assert not made.findings  # each call is checked against the tools of its time
    # The prompts are those of requests with the tools of their time.
    plain = [{**message, "tools": None} for message in messages]
    times = ((2, ["one"]), (4, ["one", "two"]), (8, ["two"]))
    for example, (end, declared) in zip(made.examples, times, strict=True):
        request = {"messages": plain[:end], "tools": [function(name) for name in declared]}
        (*_, then) = row_examples(request, reject=())[1].examples
        assert example.input_ids[: len(then) - 1] == then.input_ids[:-1], end


def test_a_row_without_tools_may_get_some_and_their_unread_fields_are_counted() -> None:
    strict = function("one", strict=True)
    row = chat(ANSWERED, {**ASKED, "tools": [strict]}, call_of("one"))
    assert [declared for declared, _ in learned(row)] == [[], ["one"]]
    assert row_examples(row)[0].unused == ["tools[].function.strict"]
    row["messages"] += [{**ASKED, "tools": [function("two")]}, ANSWERED]
    assert row_examples(row)[0].unused == ["tools[].function.strict"]


def test_a_call_of_a_function_that_is_declared_only_later_is_rejected() -> None:
    row = chat(call_of("two"), {**ASKED, "tools": [function("two")]}, ANSWERED)
    row["tools"] = [function("one")]
    with pytest.raises(RejectedRow, match="'two' is called, but not declared"):
        row_examples(row)


def test_tools_that_nothing_was_answered_with_are_refused() -> None:
    row = {"messages": [{**ASKED, "tools": [function("one")]}, ANSWERED]}
    assert read_row({**row, "tools": [function("one")]})  # the same twice
    with pytest.raises(ConversationError, match=r"messages\[0\]\.tools: replaces other tools"):
        read_row({**row, "tools": [function("two")]})


def test_two_functions_of_one_name_that_differ_are_refused() -> None:
    row = {"messages": [ASKED, ANSWERED], "tools": [function("one"), function("one")]}
    assert read_row(row)
    row["tools"][1]["function"]["description"] = "Another."
    with pytest.raises(ConversationError, match=r"tools\[1\]: 'one' is declared twice"):
        read_row(row)


def test_a_stream_goes_on_behind_rejected_rows() -> None:
    rejected: list[tuple[object, str]] = []
    rows = [chat(ANSWERED), chat(), {"text": "x"}, chat(said([PICTURE])), chat(ANSWERED)]
    made = stream_examples(rows, on_rejected=lambda row, error: rejected.append((row, str(error))))
    assert [example.trainable_tokens for example in made] == [5, 5]
    assert [row for row, _ in rejected] == rows[1:4]
    assert rejected[0][1].startswith("nothing to train on: the conversation has no assistant")
    with pytest.raises(RejectedRow):
        list(stream_examples(rows))


DATES: list[tuple[str, dict[str, Any], str]] = [
    ("2025-06-28", {}, "2025-06-28"),
    ("2025-06-28..2025-06-28", {}, "2025-06-28"),
    ("field:day", {"day": "2025-06-28"}, "2025-06-28"),
    ("field:day", {"day": "2025-06-28T23:59:59+02:00"}, "2025-06-28"),
    ("field:day", {"day": datetime(2025, 6, 28, 23)}, "2025-06-28"),
    ("field:day", {"day": 1751068799.5}, "2025-06-27"),
]


@pytest.mark.parametrize(("text", "fields", "day"), DATES)
def test_dates_of_rows(text: str, fields: dict[str, Any], day: str) -> None:
    row = read_row(chat(ANSWERED, **fields), start_date=text)
    assert f"Current date: {day}\n" in ENCODING.decode(
        ENCODING.render(row.conversation.messages[0])
    )


@pytest.mark.parametrize("value", [None, "soon", True, [], float("nan"), 10**30, "2025-02-30"])
def test_rows_without_their_date(value: Any) -> None:
    with pytest.raises(ConversationError, match=r"day: .*a date, such as"):
        read_row(chat(ANSWERED, day=value), start_date="field:day")


@pytest.mark.parametrize(
    "text", ["", "field:", "28.6.2025", "2025-06-31", "2025-06-02..2025-06-01"]
)
def test_dates_that_are_none(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not a date|day is out of range|ends before|must be in"
    ):
        RowDates.parse(text)


def test_a_range_of_dates_is_drawn_from_evenly_and_the_same_each_time() -> None:
    dates = RowDates.parse("2025-02-27..2025-03-02")
    rows = [{"messages": str(number)} for number in range(400)]
    drawn = [dates.date_of(row) for row in rows]
    assert drawn == [dates.date_of(dict(row)) for row in rows]
    counts = Counter(drawn)
    assert sorted(counts) == ["2025-02-27", "2025-02-28", "2025-03-01", "2025-03-02"]
    assert min(counts.values()) > 60


# As many as are read in one go; what is odd about the last one has them read one by one.
ODD: list[Any] = [
    {**ANSWERED, "channel": "final"},
    {"role": "tool", "name": "f", "recipient": "assistant", "content": [], "content_type": "x"},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "system", "content": [{"type": "system_content", "reasoning_effort": "High"}]},
    {"role": "user", "content": ["as text"]},
    {"role": "user", "content": {"type": "text", "text": "not in a list"}},
]


@pytest.mark.parametrize("odd", ODD)
def test_harmony_messages_are_those_that_from_dict_reads(odd: dict[str, Any]) -> None:
    row = {"messages": [{**ASKED, "channel": None}, odd]}
    result = read_row(row, form="harmony").conversation.messages
    assert result == [Message.from_dict(message) for message in row["messages"]]


# Laws

NAMES = ["role", "content", "from", "value", "tool_calls", "function", "name", "arguments", "id"]
NAMES += [
    "channel",
    "recipient",
    "weight",
    "thinking",
    "type",
    "text",
    "tool_call_id",
    "parameters",
]
WORDS = ["user", "assistant", "tool", "system", "human", "gpt", "function_call", "function", "f"]
plain = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(), st.sampled_from(WORDS), st.text()
)
anything = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=12,
)
messages = st.lists(st.dictionaries(st.sampled_from(NAMES), anything, max_size=5), max_size=4)


@settings(max_examples=examples(300))
@given(
    st.one_of(
        anything,
        st.fixed_dictionaries({"messages": messages}, optional={"tools": anything}),
        st.fixed_dictionaries({"conversations": messages}, optional={"tools": anything}),
    )
)
def test_any_json_is_read_or_refused(row: Any) -> None:
    with contextlib.suppress(ConversationError):  # anything else is a bug
        result = read_row(row)
        training_examples(result.conversation, weights=result.weights)


@settings(max_examples=examples(200))
@given(messages)
def test_harmony_is_read_as_from_dict_reads_it(raw: list[dict[str, Any]]) -> None:
    unweighted = [{**message, "weight": None} for message in raw]
    try:
        expected = [Message.from_dict(message) for message in unweighted]
    except ConversationError as error:
        with pytest.raises(ConversationError, match=re.escape(error.problem)):
            read_row({"messages": unweighted}, form="harmony")
    else:
        result = read_row({"messages": unweighted}, form="harmony")
        assert result.conversation.messages == expected


# What is learned is what the weights say. Each text of the assistant is marked with the index of
# its message in the row, so that the tokens themselves say where they come from.

REASONING_NAMES = ["reasoning", "reasoning_content", "thinking"]


@st.composite
def assistants(draw: st.DrawFn, source: int) -> dict[str, Any]:
    """A message by the assistant whose texts all hold its index; any part may be empty."""
    count = iter(range(100))

    def text() -> str:
        return draw(st.sampled_from(["", f"«{source}.{next(count)}»"]))

    def part(kind: str) -> dict[str, Any]:
        return {"type": kind, {"text": "text"}.get(kind, kind): text()}

    kinds = st.lists(st.sampled_from(["text", "thinking", "reasoning", "refusal"]), max_size=3)
    parts = st.builds(lambda chosen: [part(kind) for kind in chosen], kinds)
    content: Any = draw(st.one_of(st.none(), st.builds(text), parts))
    message: dict[str, Any] = {"role": "assistant"}
    if draw(st.booleans()):
        message[draw(st.sampled_from(REASONING_NAMES))] = text()
    if draw(st.booleans()):
        message["refusal"] = draw(st.sampled_from([None, ""]))
    if draw(st.booleans()):
        message["tool_calls"] = [
            {
                "id": f"{source}.{number}",
                "function": {"name": "f", "arguments": f"«{source}.c{number}»"},
            }
            for number in range(draw(st.integers(0, 2)))
        ]
    is_said = any(message.get(name) for name in [*REASONING_NAMES, "tool_calls"])
    if isinstance(content, list) and any(message.get(name) for name in REASONING_NAMES):
        content = [part for part in content if part["type"] not in REASONING_NAMES]
    message["content"] = "" if content is None and not is_said else content
    return message


WEIGHTS: dict[float, list[dict[str, Any]]] = {
    0.0: [{"weight": 0}, {"train": False}, {"masked": True}],
    0.5: [{"weight": 0.5}, {"weight": 0.5, "train": True}],
    1.0: [{}, {"weight": 1}, {"train": True}, {"weight": None}],
}


@st.composite
def weighted_chats(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[float]]:
    """Messages, and the weight of each."""
    messages: list[dict[str, Any]] = []
    weights: list[float] = []
    for kind in draw(st.lists(st.sampled_from("suaaa"), min_size=1, max_size=8)):
        weight = draw(st.sampled_from(list(WEIGHTS)))
        fields = draw(st.sampled_from(WEIGHTS[weight]))
        role = {"s": "system", "u": "user"}.get(kind)
        message: dict[str, Any] = {"role": role, "content": "hi"}
        if role is None:
            message = draw(assistants(len(messages)))
        messages.append({**message, **fields})
        weights.append(weight)
        for call in message.get("tool_calls", ()):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "{}"})
            weights.append(1.0)
    return messages, weights


@settings(max_examples=examples(200))
@given(weighted_chats())
def test_what_is_learned_is_what_the_weights_of_the_row_say(
    chosen: tuple[list[dict[str, Any]], list[float]],
) -> None:
    messages, weights = chosen
    expected = sorted(
        (mark, weights[source])
        for source, message in enumerate(messages)
        if weights[source]
        for mark in re.findall("«[^»]*»", json.dumps(message, ensure_ascii=False))
    )
    learned: list[tuple[str, float]] = []
    with contextlib.suppress(RejectedRow):  # nothing to train on
        _, made = row_examples({"messages": messages}, form="chat", reject=())
        for example in made.examples:
            pairs = zip(example.labels, example.loss_weights(), strict=True)
            for weight, run in itertools.groupby(pairs, key=lambda pair: pair[1]):
                labels = [label for label, _ in run]
                assert all((label == IGNORED) == (weight == 0) for label in labels)
                text = ENCODING.decode(label for label in labels if label != IGNORED)
                learned += ((mark, weight) for mark in re.findall("«[^»]*»", text))
    assert sorted(learned) == expected


# Lines of JSON

ODD_LINES = [
    "-0", "1e999", "NaN", "-Infinity", '{"a": 1, "a": 2}', '"\\ud800"', '"\\ud83d\\ude00"',
    "1.0", "0.1", "5e-324", "1" * 4299, "1" * 4301, "18446744073709551616", "9007199254740993.0",
    '"\x01"', "01", "+1", ".5", "1.", '"\\x"', '"\\u0000"', "[" * 150 + "]" * 150, "{", "tru",
    '{"a": 1} x', "\ufeff1", '"\ud800"', "'a'",
]  # fmt: skip


@pytest.mark.parametrize("line", [line.encode("utf-8", "surrogatepass") for line in ODD_LINES])
def test_odd_lines_are_read_as_the_standard_library_reads_them(line: bytes) -> None:
    try:
        expected = repr(json.loads(line))
    except ValueError as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            parse_line(line)
    else:
        assert repr(parse_line(line)) == expected


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@given(st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_lines_are_read_as_the_standard_library_reads_them(value: Any) -> None:
    for is_ascii in (True, False):
        text = json.dumps(value, ensure_ascii=is_ascii)
        assert repr(parse_line(text.encode())) == repr(json.loads(text))


@given(st.lists(st.sampled_from(["system", "user", "assistant"]), min_size=2, max_size=7))
def test_the_least_length_of_a_row_is_that_of_its_shortest_part(roles: list[str]) -> None:
    """Also where instructions follow an answer, so that the row has several conversations."""
    messages = [{"role": role, "content": f"{role} " * 9} for role in roles]
    try:
        row_examples({"messages": messages}, TrainingOptions(context_length=1))
    except ConversationError as error:
        found = re.search(r"shortest part of the row has ([\d,]+) tokens", str(error))
        if found is None:
            return
        least = int(found[1].replace(",", ""))
        assert row_examples({"messages": messages}, TrainingOptions(context_length=least))[0]
        with pytest.raises(ConversationError, match="nothing fits"):
            row_examples({"messages": messages}, TrainingOptions(context_length=least - 1))
