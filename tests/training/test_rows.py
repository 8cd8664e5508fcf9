"""Rows of data sets: harmony, Chat Completions and ShareGPT to conversations."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openai_harmony import ConversationError, Message, Role, load_harmony_encoding
from openai_harmony.training import training_examples
from openai_harmony.training.rows import detect_form, read_row

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
    ("text", "expected an object, found 'text'"),
    ({}, r"neither 'messages' nor 'conversations' among the fields \(none\)"),
    ({"text": "hi"}, "among the fields 'text'"),
    ({"messages": None}, "neither 'messages'"),
    ({"messages": "[{"}, "messages: text that is no JSON"),
    ({"messages": [{"role": "user"}]}, r"messages\[0\].content: the field is missing"),
    ({"conversations": [{"role": "user"}]}, "name a list of role and content 'messages'"),
    (share(("alien", "hi")), r"conversations\[0\].from: expected one of human"),
    (share(("gpt", "<tool_call>{</tool_call>")), "no JSON"),
    (chat({"role": "tool", "content": "{}"}), r"messages\[1\].tool_call_id: the field is missing"),
    (chat({**ANSWERED, "weight": "1"}), r"messages\[1\].weight: expected a number"),
    (chat({**ANSWERED, "weight": -1}), "expected a number of 0 or more"),
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


@settings(deadline=None, max_examples=300)
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


@settings(deadline=None, max_examples=200)
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
