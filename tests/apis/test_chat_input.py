"""Chat Completions requests: what they become, and what is said about wrong ones."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import (
    Conversation,
    ConversationError,
    DeveloperContent,
    Message,
    ReasoningEffort,
    Role,
    SystemContent,
    TextContent,
    ToolDescription,
)
from gpt_oss_harmony.apis.chat.input import conversation_from_chat, is_chat, tool_from_chat
from gpt_oss_harmony.apis.conversation_builder import content_texts
from gpt_oss_harmony.conversation.json_field import JsonField
from support.examples import examples
from support.vectors import cases

USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "tool", "tool_call_id": "call_1", "content": "3"}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}


def call(name: str = "now", arguments: object = "{}") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": "call_1", "type": "function", "function": function}


def assistant(**fields: object) -> dict[str, Any]:
    return {"role": "assistant", **fields}


def json_schema(**fields: object) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": fields}


# An assistant message, and the (channel, recipient, content type, texts) it becomes.
ASSISTANT = [
    (assistant(content="yes"), [("final", None, None, ["yes"])]),
    (assistant(content=""), [("final", None, None, [""])]),
    (assistant(content=None, refusal="no"), [("final", None, None, ["no"])]),
    (assistant(content="", refusal="no"), [("final", None, None, ["no"])]),
    (
        assistant(content=[{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}]),
        [("final", None, None, ["ab"])],
    ),
    (
        assistant(reasoning="hm", content="yes"),
        [("analysis", None, None, ["hm"]), ("final", None, None, ["yes"])],
    ),
    (assistant(reasoning_content="hm", content=""), [("analysis", None, None, ["hm"])]),
    (assistant(thinking="hm"), [("analysis", None, None, ["hm"])]),
    (
        assistant(reasoning="", reasoning_content=None, thinking="hm"),
        [("analysis", None, None, ["hm"])],
    ),
    (
        assistant(content=None, tool_calls=[call(arguments='{"a": 1')]),
        [("commentary", "functions.now", "<|constrain|>json", ['{"a": 1'])],
    ),
    (
        assistant(content="", tool_calls=[call()]),
        [("commentary", "functions.now", "<|constrain|>json", ["{}"])],
    ),
    (
        assistant(reasoning="hm", content="Wait.", tool_calls=[call("a"), call("b")]),
        [
            ("analysis", None, None, ["hm"]),
            ("commentary", None, None, ["Wait."]),
            ("commentary", "functions.a", "<|constrain|>json", ["{}"]),
            ("commentary", "functions.b", "<|constrain|>json", ["{}"]),
        ],
    ),
    (assistant(content="yes", tool_calls=[]), [("final", None, None, ["yes"])]),
    (
        assistant(
            tool_calls=[{"id": "a", "type": "custom", "custom": {"name": "cut", "input": "é"}}]
        ),
        [("commentary", "functions.cut", "<|constrain|>json", ['{"input": "é"}'])],
    ),
    (
        assistant(tool_calls=[call("browser.open")]),
        [("commentary", "browser.open", "<|constrain|>json", ["{}"])],
    ),
    (
        assistant(content=[{"type": "text", "text": "a"}, IMAGE]),
        [("final", None, None, ["a[image: not shown, this model reads text only]"])],
    ),
]

# A wrong request, and what is said about it.
ERRORS: list[tuple[Any, str]] = [
    (3, "messages: expected a list, found 3"),
    ({}, "messages: the field is missing; expected a list"),
    (["hi"], "messages[0]: expected an object, found 'hi'"),
    ([{"content": "hi"}], "messages[0].role: the field is missing; expected text"),
    (
        [{"role": "cat"}],
        "messages[0].role: expected one of user, assistant, system, developer, tool, found 'cat'",
    ),
    (
        [{"role": "function", "name": "now", "content": "3"}],
        "messages[0].role: messages by functions are not supported; send the role 'tool' instead",
    ),
    (
        [{"role": "user"}],
        "messages[0].content: the field is missing; expected text or a list of parts",
    ),
    (
        [{"role": "system", "content": 3}],
        "messages[0].content: expected text or a list of parts, found 3",
    ),
    (
        [{"role": "user", "content": [{"type": "text"}]}],
        "messages[0].content[0].text: the field is missing; expected text",
    ),
    (
        [{"role": "user", "content": ["hi"]}],
        "messages[0].content[0]: expected an object, found 'hi'",
    ),
    (
        [assistant()],
        "messages[0].content: the field is missing; expected text or a list of parts",
    ),
    ([assistant(reasoning=["hm"])], "messages[0].reasoning: expected text, found ['hm']"),
    (
        [assistant(tool_calls=[call("system\n.a")])],
        "messages[0].tool_calls[0].function.name: 'system\\n.a' is not a valid tool name; use a "
        "name without white space, control characters, lone surrogates, '=', '<', '|' and '>'",
    ),
    (
        [assistant(function_call={"name": "now", "arguments": "{}"})],
        "messages[0].function_call: the old function-calling fields are not supported; "
        "send tool_calls instead",
    ),
    (
        [assistant(tool_calls={})],
        "messages[0].tool_calls: expected a list, found {}",
    ),
    (
        [assistant(tool_calls=[call(arguments={"a": 1})])],
        "messages[0].tool_calls[0].function.arguments: expected text, found {'a': 1}",
    ),
    (
        [assistant(tool_calls=[{"function": {"name": "now", "arguments": "{}"}}])],
        "messages[0].tool_calls[0].id: the field is missing; expected text",
    ),
    (
        [assistant(tool_calls=[{"id": "a", "type": "custom", "custom": {}}])],
        "messages[0].tool_calls[0].custom.name: the field is missing; expected text",
    ),
    (
        [assistant(tool_calls=[{"id": "a", "type": "shell"}])],
        "messages[0].tool_calls[0].type: harmony has no calls of the type 'shell'; "
        "remove the call",
    ),
    (
        [{"role": "tool", "content": "3"}],
        "messages[0].tool_call_id: the field is missing; expected text",
    ),
    (
        [ANSWER, assistant(tool_calls=[call()])],
        "messages[0].tool_call_id: no tool call before this message has the id 'call_1'; "
        "keep the assistant message with its tool_calls",
    ),
    (
        {"messages": [], "functions": [{"name": "now"}]},
        "functions: the old function-calling fields are not supported; send tools instead",
    ),
    (
        {"messages": [], "reasoning_effort": "extreme"},
        "reasoning_effort: expected one of none, minimal, low, medium, high, xhigh, max, "
        "found 'extreme'",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "txt", "text": "hi"}]}]},
        "messages[0].content[0].type: 'txt' is not a type of content; did you mean text?",
    ),
    ({"messages": [], "tools": 3}, "tools: expected a list, found 3"),
    ({"messages": [], "tools": [{}]}, "tools[0].type: the field is missing; expected text"),
    (
        {"messages": [], "tools": [{"type": "custom", "custom": {"name": 3}}]},
        "tools[0].custom.name: expected text, found 3",
    ),
    (
        {"messages": [], "tools": [{"type": "function", "name": "a b"}]},
        "tools[0].name: 'a b' is not a valid tool name; use a name without white space, control "
        "characters, lone surrogates, '=', '<', '|' and '>'",
    ),
    (
        {"messages": [], "tools": [{"type": "function", "function": {}}]},
        "tools[0].function.name: the field is missing; expected text",
    ),
    (
        {"messages": [], "tools": [{"type": "function", "functions": {"name": "a"}}]},
        "tools[0].function: the field is missing, but there is 'functions'; expected an object "
        "with a name (in Responses, the name alone)",
    ),
    (
        {"messages": [], "tools": [{"type": "function", "name": "a", "parameters": 3}]},
        "tools[0].parameters: expected an object, found 3",
    ),
    (
        {"messages": [], "response_format": {"type": "xml"}},
        "response_format.type: expected one of text, json_object, json_schema, grammar, "
        "structural_tag, found 'xml'",
    ),
    (
        {"messages": [], "response_format": json_schema(schema={})},
        "response_format.json_schema.name: the field is missing; expected text",
    ),
]  # fmt: skip

# Parsed JSON, and whether it is a Chat Completions request.
FORMATS = [
    (CHAT := [USER], True),
    ({"messages": CHAT}, True),
    ({"messages": [{"role": "user", "name": None, "content": [{"type": "text"}]}]}, True),
    ({"messages": [{**USER, "channel": None}]}, True),
    ({"messages": [assistant(tool_calls=[call()])], "tools": []}, True),
    ({"messages": 3}, True),
    ({}, True),
    (3, True),
    ([3], True),
    ([{**USER, "channel": "final"}], False),
    ([USER, {**USER, "recipient": "all"}], False),
    ([{**USER, "content_type": "json"}], False),
    ([{"author": {"role": "user"}, "content": "hi"}], False),
    ({"messages": [{"role": "system", "content": [{"type": "system_content"}]}]}, False),
    ({"messages": [{"role": "developer", "content": {"type": "developer_content"}}]}, False),
]


def messages_of(request: Any) -> list[Message]:
    return conversation_from_chat(request).messages


def developer_of(request: dict[str, Any]) -> DeveloperContent | None:
    contents = [
        content
        for message in messages_of({"messages": [], **request})
        for content in message.content
        if isinstance(content, DeveloperContent)
    ]
    assert len(contents) <= 1
    return contents[0] if contents else None


def texts(message: Message) -> list[str]:
    return [item.text for item in message.content if isinstance(item, TextContent)]


@pytest.mark.parametrize("case", cases("chat", "chat"), ids=lambda case: case["id"])
def test_requests_become_conversations(case: dict[str, Any]) -> None:
    request, date = case["input"]["request"], case["input"]["date"]
    untouched = copy.deepcopy(request)
    messages = case["expected"]["messages"]
    expected = Conversation.from_json(json.dumps({"messages": messages}))
    assert conversation_from_chat(request, conversation_start_date=date) == expected
    assert request == untouched
    assert is_chat(request)
    assert not is_chat(expected.to_dict())


@pytest.mark.parametrize(("message", "expected"), ASSISTANT)
def test_assistant_messages(
    message: dict[str, Any], expected: list[tuple[str, str | None, str | None, list[str]]]
) -> None:
    _system, *messages = messages_of([message])
    assert all(m.author.role is Role.ASSISTANT for m in messages)
    assert [(m.channel, m.recipient, m.content_type, texts(m)) for m in messages] == expected


@pytest.mark.parametrize(("request_", "problem"), ERRORS)
def test_errors_name_the_field(request_: Any, problem: str) -> None:
    with pytest.raises(ConversationError) as caught:
        conversation_from_chat(request_)
    assert str(caught.value) == problem
    assert caught.value.field == problem.partition(": ")[0]


@pytest.mark.parametrize(("raw", "expected"), FORMATS)
def test_formats_are_told_apart(raw: object, expected: bool) -> None:
    assert is_chat(raw) is expected


@pytest.mark.parametrize("effort", list(ReasoningEffort))
def test_reasoning_effort(effort: ReasoningEffort) -> None:
    (system,) = messages_of({"messages": [], "reasoning_effort": effort.value.lower()})
    assert system.content == [SystemContent(reasoning_effort=effort)]


def test_no_date_is_made_up() -> None:
    (system,) = messages_of([])
    assert system.content == [SystemContent()]


def test_no_instruction_is_lost() -> None:
    request = [
        {"role": "developer", "content": "a"},
        USER,
        {"role": "system", "content": [{"type": "text", "text": " b\n"}]},
        {"role": "system", "content": ""},
        {"role": "developer", "content": "c"},
    ]
    assert developer_of({"messages": request}) == DeveloperContent(instructions="a\n\n b\n\n\nc")
    assert len(messages_of(request)) == 3


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"messages": [USER, {"role": "system", "content": ""}]},
        {"tools": []},
        {"tools": None, "response_format": None},
        {"response_format": {"type": "text"}},
        {"response_format": {"type": "json_object"}},
    ],
)
def test_no_empty_developer_message(request_: dict[str, Any]) -> None:
    assert developer_of(request_) is None


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ({"name": "now"}, ToolDescription.new("now", "")),
        ({"name": "now", "description": None, "parameters": None}, ToolDescription.new("now", "")),
        ({"name": "now", "parameters": {}}, ToolDescription.new("now", "", {})),
        ({"name": "now", "parameters": True}, ToolDescription.new("now", "", {"type": "object"})),
        (
            {
                "name": "now",
                "description": "Time.",
                "parameters": {"type": "object"},
                "strict": True,
            },
            ToolDescription.new("now", "Time.", {"type": "object"}),
        ),
    ],
)
def test_tools(function: dict[str, Any], expected: ToolDescription) -> None:
    tool = {"type": "function", "function": function}
    assert developer_of({"tools": [tool]}) == DeveloperContent().with_function_tools([expected])
    assert tool_from_chat(tool) == expected
    assert tool_from_chat(function) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"name": "list"}, ("list", {}, None)),
        ({"name": "list", "schema": {"type": "array"}}, ("list", {"type": "array"}, None)),
        ({"name": "list", "description": "All.", "schema": {}}, ("list", {}, "All.")),
    ],
)
def test_response_formats(fields: dict[str, Any], expected: tuple[str, Any, str | None]) -> None:
    content = developer_of({"response_format": json_schema(**fields)})
    assert content == DeveloperContent().with_response_format(*expected)


def test_an_answer_goes_to_the_latest_call_with_its_id() -> None:
    messages = messages_of(
        [assistant(tool_calls=[call("a")]), ANSWER, assistant(tool_calls=[call("b")]), ANSWER]
    )
    answers = [m for m in messages if m.author.role is Role.TOOL]
    assert [m.author.name for m in answers] == ["functions.a", "functions.b"]
    assert {(m.recipient, m.channel) for m in answers} == {("assistant", "commentary")}


def test_calls_with_one_id_get_their_results_in_order() -> None:
    calls = [call("a"), call("b"), call("c")]
    results = [{**ANSWER, "content": name} for name in ("a", "b", "c", "c again")]
    more = [assistant(tool_calls=[call("d")]), {**ANSWER, "content": "d"}]
    answers = [
        (m.author.name, m.text)
        for m in messages_of([assistant(tool_calls=calls), *results, *more])
        if m.author.role is Role.TOOL
    ]
    names = [("a", "a"), ("b", "b"), ("c", "c"), ("c", "c again"), ("d", "d")]
    assert answers == [(f"functions.{name}", text) for name, text in names]


def test_a_text_is_a_preamble_where_a_call_follows_before_the_next_question() -> None:
    messages = messages_of(
        [
            assistant(content="a"),
            USER,
            assistant(content="b"),
            assistant(content="c", reasoning="hm", tool_calls=[call()]),
            ANSWER,
            assistant(content="d"),
        ]
    )
    told = {texts(m)[0]: m.channel for m in messages[1:] if m.author.role is Role.ASSISTANT}
    assert told == {
        "a": "final",
        "b": "commentary",
        "c": "commentary",
        "hm": "analysis",
        "{}": "commentary",
        "d": "final",
    }


def test_tools_that_the_model_cannot_have_are_not_declared() -> None:
    assert developer_of({"tools": [{"type": "web_search"}, {"type": "mcp", "name": "a"}]}) is None


@pytest.mark.parametrize(
    ("effort", "meant"),
    [("none", "Low"), ("minimal", "Low"), ("xhigh", "High"), ("max", "High")],
)
def test_other_efforts_are_the_nearest_of_the_three(effort: str, meant: str) -> None:
    (system,) = messages_of({"messages": [], "reasoning_effort": effort})
    assert system.content == [SystemContent(reasoning_effort=ReasoningEffort(meant))]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["text", "function", "now", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "function", "name", "id"]), inner)
    ),
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(Role).map(lambda role: role.value) | JSON},
    optional={
        key: st.text(max_size=3) | JSON
        for key in ("content", "tool_calls", "tool_call_id", "reasoning", "refusal")
    },
)
REQUESTS = st.fixed_dictionaries(
    {"messages": st.lists(MESSAGES, max_size=3) | JSON},
    optional=dict.fromkeys(("tools", "response_format", "reasoning_effort"), JSON),
)


@settings(max_examples=examples(300))
@given(REQUESTS)
def test_any_request_becomes_a_conversation_or_a_clear_error(request_: dict[str, Any]) -> None:
    try:
        conversation = conversation_from_chat(request_)
    except ConversationError as error:
        problem = error
    else:
        assert Conversation.from_json(conversation.to_json()) == conversation
        return
    assert problem.field


def data_url(text: str, kind: str = "text/markdown") -> str:
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"


FILES: list[tuple[dict[str, Any], str]] = [
    ({"filename": "a.md", "file_data": data_url("é")}, "[file: a.md]\né"),
    (
        {"file_data": data_url("{}", "application/json; charset=utf-8")},
        "[file: without a name]\n{}",
    ),
    (
        {"file_data": data_url("%PDF", "application/pdf")},
        "[file: not shown, this model reads text only]",
    ),
    ({"file_id": "file_1"}, "[file: not shown, this model reads text only]"),
]


@pytest.mark.parametrize(("fields", "text"), FILES)
def test_files_of_text_are_texts(fields: dict[str, Any], text: str) -> None:
    """In both APIs: nested under `file`, or flat."""
    nested = {"type": "file", "file": fields}
    flat = {"type": "input_file", **fields}
    assert content_texts(JsonField([nested, flat])) == [text, text]


def test_a_damaged_file_is_named() -> None:
    for data in ("data:text/plain;base64,!", "data:text/plain;base64,/w=="):
        with pytest.raises(ConversationError, match="not UTF-8 text") as caught:
            content_texts(JsonField([{"type": "input_file", "file_data": data}], "content"))
        assert caught.value.field == "content[0].file_data"
