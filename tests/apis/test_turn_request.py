"""Requests of both APIs become turns: what goes where, what is said about wrong ones, the laws."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import (
    ConversationError,
    Message,
    ReasoningEffort,
    RenderConversationConfig,
    Role,
    SystemContent,
    load_harmony_encoding,
)
from gpt_oss_harmony.apis import (
    ChatRequest,
    HistoryItem,
    ResponsesRequest,
    TurnRequest,
    items_of_messages,
    turn_of_chat,
    turn_of_response,
)
from gpt_oss_harmony.engines import Sampling
from gpt_oss_harmony.grammar import ToolChoice, TurnOptions, turn_grammar
from gpt_oss_harmony.sampled_messages import SampledMessage, prompt_tokens, with_sampled_tokens
from support.examples import examples
from support.turn_requests import developer_of, said

ENCODING = load_harmony_encoding("HarmonyGptOss")
GUIDE = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")

USER = {"role": "user", "content": "hi"}
NOW = {"type": "function", "name": "now", "description": "Tells the time.", "parameters": None}
NOTE = "[image: not shown, this model reads text only]"


def turn(*items: dict[str, Any], **fields: Any) -> TurnRequest:
    return turn_of_response(ResponsesRequest(input=[*items], **fields))


def system_of(request: TurnRequest) -> SystemContent:
    (content,) = request.conversation.messages[0].content
    assert isinstance(content, SystemContent)
    return content


def rendered(request: TurnRequest) -> list[int]:
    return prompt_tokens(ENCODING, request.conversation, GUIDE)


def function_call(call_id: str = "call_1", **fields: Any) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": call_id, "name": "now", "arguments": "{}"}
    return {**call, **fields}


def output(value: object = "3", call_id: str = "call_1") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


def assistant(text: str = "yes", **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


def reasoning(**fields: Any) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [], **fields}


# Items, and what they say.
ITEMS: list[tuple[list[dict[str, Any]], list[tuple[str | None, str | None, str]]]] = [
    ([USER], [("user", None, "hi")]),
    ([{"type": "message", **USER, "id": "msg_1", "status": "completed"}], [("user", None, "hi")]),
    (
        [{"role": "user", "content": [{"type": "input_text", "text": t} for t in ("a", "b")]}],
        [("user", None, "a|b")],
    ),
    (
        [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}],
        [("user", None, NOTE)],
    ),
    (
        [{"role": "user", "content": [{"type": "input_file"}, {"type": "input_hologram"}]}],
        [("user", None, "|".join(NOTE.replace("image", n) for n in ("file", "attachment")))],
    ),
    ([assistant()], [("final", None, "yes")]),
    ([assistant(phase="commentary")], [("commentary", None, "yes")]),
    (
        [assistant(), function_call()],
        [("commentary", None, "yes"), ("commentary", "functions.now", "{}")],
    ),
    (
        [assistant(phase="final_answer"), function_call()],
        [("final", None, "yes"), ("commentary", "functions.now", "{}")],
    ),
    (
        [assistant("a"), USER, assistant("b"), reasoning(), function_call()],
        [
            ("final", None, "a"),
            ("user", None, "hi"),
            ("commentary", None, "b"),
            ("commentary", "functions.now", "{}"),
        ],
    ),
    (
        [function_call(), output(), assistant("a"), function_call(), output(), assistant("b")],
        [
            ("commentary", "functions.now", "{}"),
            ("functions.now", "assistant", "3"),
            ("commentary", None, "a"),
            ("commentary", "functions.now", "{}"),
            ("functions.now", "assistant", "3"),
            ("final", None, "b"),
        ],
    ),
    (
        [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}],
        [("final", None, "No.")],
    ),
    (
        [reasoning(content=[{"type": "reasoning_text", "text": "hm"}], encrypted_content=None)],
        [("analysis", None, "hm")],
    ),
    ([reasoning(summary=[{"type": "summary_text", "text": "hm"}])], [("analysis", None, "hm")]),
    ([reasoning(content=None)], []),
    ([reasoning(encrypted_content="of another server")], []),
    (
        [
            reasoning(encrypted_content="x", summary=[{"type": "summary_text", "text": "hm"}]),
            function_call(namespace="files", name="ls"),
            output([{"type": "input_text", "text": "a"}, {"type": "input_image"}]),
        ],
        [
            ("analysis", None, "hm"),
            ("commentary", "files.ls", "{}"),
            ("files.ls", "assistant", f"a|{NOTE}"),
        ],
    ),
    (
        [
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": 'a "b"\n'},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
        ],
        [
            ("commentary", "functions.patch", '{"input": "a \\"b\\"\\n"}'),
            ("functions.patch", "assistant", "ok"),
        ],
    ),
    (
        [function_call(name="browser.search"), output()],
        [("commentary", "browser.search", "{}"), ("browser.search", "assistant", "3")],
    ),
    (
        [
            USER,
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
            {"type": "mcp_list_tools", "tools": []},
            assistant(),
        ],
        [("user", None, "hi"), ("final", None, "yes")],
    ),
]


@pytest.mark.parametrize(("items", "expected"), ITEMS)
def test_items_become_messages(
    items: list[dict[str, Any]], expected: list[tuple[str | None, str | None, str]]
) -> None:
    assert said(turn(*items)) == expected


def test_calls_are_constrained_json_on_commentary() -> None:
    message = turn(function_call()).conversation.messages[-1]
    assert (message.channel, message.content_type) == ("commentary", "<|constrain|>json")


def test_text_is_a_message_by_the_user() -> None:
    text, item = turn_of_response(ResponsesRequest(input="hi")), turn(USER)
    assert text == item == turn_of_response(ResponsesRequest(messages=[USER]))


def test_the_curl_command_of_the_guide_is_read() -> None:
    request = ResponsesRequest.model_validate(
        {
            "messages": [{"role": "system", "content": "hello"}],
            "temperature": 0.9,
            "max_tokens": 1000,
            "stream": True,
            "model": "openai/gpt-oss-20b",
        }
    )
    made = turn_of_response(request)
    assert developer_of(made).instructions == "hello"
    assert said(made) == []
    assert made.sampling == Sampling(temperature=0.9, max_tokens=1000)
    assert request.stream is True


def test_no_instruction_is_lost() -> None:
    before = [HistoryItem({"role": "developer", "content": "b"}), HistoryItem(USER)]
    request = ResponsesRequest(
        instructions="a",
        input=[
            {"role": "system", "content": [{"type": "input_text", "text": t} for t in ("c", "d")]},
            USER,
            {"type": "message", "role": "developer", "content": "e"},
        ],
    )
    made = turn_of_response(request, before)
    assert developer_of(made).instructions == "a\n\nb\n\nc\n\nd\n\ne"
    assert said(made) == [("user", None, "hi")] * 2


# Wrong requests, and what is said about them.
ERRORS: list[tuple[dict[str, Any], str]] = [
    ({}, "input: the field is missing or null; expected text or a list of items"),
    (
        {"input": [{}]},
        "input[0].type: the field is missing; "
        "expected the type of an item, or the role of a message",
    ),
    ({"input": [{"type": 3}]}, "input[0].type: expected text, found 3"),
    (
        {"messages": [{"type": "dream"}]},
        "messages[0].type: the item type 'dream' is unknown; use one of message, "
        "reasoning, function_call, function_call_output, custom_tool_call, "
        "custom_tool_call_output, item_reference, compaction",
    ),
    (
        {"input": [USER, {"role": "tool", "content": "3"}]},
        "input[1].role: expected one of user, assistant, system, developer, found 'tool'",
    ),
    (
        {"input": [{"role": "user"}]},
        "input[0].content: the field is missing; expected text or a list of parts",
    ),
    (
        {"input": [{"role": "user", "content": [{"type": "input_text"}]}]},
        "input[0].content[0].text: the field is missing; expected text",
    ),
    (
        {"input": [assistant(phase="draft")]},
        "input[0].phase: expected one of commentary, final_answer, found 'draft'",
    ),
    (
        {"input": [output()]},
        "input[0].call_id: no tool call before this message has the id 'call_1'; "
        "send the item of the call as well, or previous_response_id",
    ),
    (
        {"input": [function_call(), output(None)]},
        "input[1].output: the field is missing or null; expected text or a list of parts",
    ),
    ({"input": [function_call(arguments={})]}, "input[0].arguments: expected text, found {}"),
    ({"input": [{"id": "msg_1"}]}, "input[0].id: no item is stored under the id 'msg_1'"),
    (
        {"input": [{"type": "compaction", "encrypted_content": "x"}]},
        "input[0].encrypted_content: this server cannot decrypt it: it was changed, "
        "or encrypted elsewhere or with another key; send the items that it replaces",
    ),
    (
        {"input": "", "tools": [{"type": "namespace", "name": "a", "tools": [{"name": "b"}]}]},
        "tools[0].tools[0].type: the field is missing; expected text",
    ),
    (
        {"input": "", "text": {"format": {"type": "yaml"}}},
        "text.format.type: expected one of text, json_object, json_schema, grammar, "
        "structural_tag, found 'yaml'",
    ),
    (
        {"input": "", "text": {"format": {"type": "json_schema", "schema": {}}}},
        "text.format.name: the field is missing; expected text",
    ),
    (
        {"input": "", "tool_choice": "required", "tools": [{"type": "web_search"}]},
        "tool_choice: a call is required, but the model has no tool to call",
    ),
    (
        {"input": "", "tool_choice": "always"},
        "tool_choice: expected one of none, auto, required, or an object that names a tool, "
        "found 'always'",
    ),
    (
        {"input": "", "tool_choice": {"type": "function", "name": "then"}, "tools": [NOW]},
        "tool_choice.name: 'then' is not declared; declared tools: functions.now",
    ),
    (
        {"input": "", "tool_choice": {"type": "web_search"}, "tools": [{"type": "web_search"}]},
        "tool_choice.type: a tool of the type 'web_search' cannot be called here; "
        "declared tools: none",
    ),
    (
        {
            "input": "",
            "tools": [{"type": "mcp"}],
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "mcp"}],
            },
        },
        "tool_choice.tools: a call is required, but none of these tools can be called",
    ),
]


@pytest.mark.parametrize(("fields", "problem"), ERRORS)
def test_errors_name_the_field(fields: dict[str, Any], problem: str) -> None:
    request = ResponsesRequest.model_validate(fields)
    with pytest.raises(ConversationError) as caught:
        turn_of_response(request)
    assert str(caught.value) == problem
    assert caught.value.field == problem.partition(": ")[0]


# Settings


@pytest.mark.parametrize(
    ("asked", "effort"),
    [
        (None, ReasoningEffort.HIGH),  # the default of the server
        ("none", ReasoningEffort.LOW),
        ("minimal", ReasoningEffort.LOW),
        ("low", ReasoningEffort.LOW),
        ("medium", ReasoningEffort.MEDIUM),
        ("high", ReasoningEffort.HIGH),
        ("xhigh", ReasoningEffort.HIGH),
        ("max", ReasoningEffort.HIGH),
    ],
)
def test_effort_and_date(asked: str | None, effort: ReasoningEffort) -> None:
    fields = {"input": "hi", "reasoning": {"effort": asked}}
    date, default = "2025-06-28", ReasoningEffort.HIGH
    request = ResponsesRequest.model_validate(fields)
    made = turn_of_response(request, date=date, effort=default)
    chat = ChatRequest.model_validate({"messages": [USER], "reasoning_effort": asked})
    wanted = SystemContent(reasoning_effort=effort, conversation_start_date="2025-06-28")
    assert system_of(made) == wanted
    assert system_of(turn_of_chat(chat, date=date, effort=default)) == wanted


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
NAMED = {"name": "list", "description": "All.", "schema": SCHEMA, "strict": True}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "json_object"}),
        ({"type": "json_schema", **NAMED}, {"type": "json_schema", "json_schema": NAMED}),
        (
            {"type": "json_schema", "json_schema": {"name": "any"}},
            {"type": "json_schema", "json_schema": {"name": "any", "schema": {}, "strict": False}},
        ),
    ],
)
def test_formats(wanted: dict[str, Any] | None, expected: dict[str, Any] | None) -> None:
    made = turn(USER, text={"format": wanted})
    nested = (
        {"type": "json_schema", "json_schema": NAMED} if wanted and "name" in wanted else wanted
    )
    chat = turn_of_chat(ChatRequest(messages=[USER], response_format=nested))
    assert made == chat
    assert made.response_format == expected
    formats = developer_of(made).response_formats or {}
    assert list(formats) == ([expected["json_schema"]["name"]] if formats and expected else [])
    turn_grammar(made.conversation, TurnOptions(response_format=made.response_format))


PATCH = {
    "type": "custom",
    "name": "patch",
    "description": "Changes files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /x+/"},
}
FILES = {"type": "namespace", "name": "files", "description": "Disk.", "tools": [NOW, PATCH]}


def test_tools() -> None:
    made = turn(
        USER,
        tools=[NOW, {**NOW, "name": "then", "strict": True}, PATCH, FILES, {"type": "web_search"}],
    )
    namespaces = developer_of(made).tools or {}
    assert {name: [t.name for t in namespaces[name].tools] for name in namespaces} == {
        "functions": ["now", "then", "patch"],
        "files": ["now", "patch"],
    }
    assert namespaces["files"].description == "Disk."
    assert made.tools == {
        "functions.now", "functions.then", "functions.patch", "files.now", "files.patch"
    }  # fmt: skip
    assert made.custom_tools == {"functions.patch", "files.patch"}
    assert made.strict_tools == {"functions.then"}
    assert made.namespaces == {"files"}
    patch = namespaces["files"].tools[1]
    assert patch.description == (
        "Changes files.\n\nThe input follows this grammar (lark):\nstart: /x+/"
    )
    assert patch.parameters == {"type": "string"}
    grammar = ("lark", "start: /x+/")
    assert made.tool_texts == {"functions.patch": grammar, "files.patch": grammar}


def test_tools_of_both_spellings_are_the_same() -> None:
    flat = turn(USER, tools=[NOW, PATCH])
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /x+/"}}
    nested: list[dict[str, Any]] = [
        {"type": "function", "function": {k: v for k, v in NOW.items() if k != "type"}},
        {
            "type": "custom",
            "custom": {"name": "patch", "description": "Changes files.", "format": grammar},
        },
    ]
    assert turn_of_chat(ChatRequest(messages=[USER], tools=nested)) == flat


def test_items_may_bring_tools() -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": [NOW]}
    assert turn(USER, item).tools == {"functions.now"}
    later = turn_of_response(ResponsesRequest(input="hi"), [HistoryItem(item)])
    assert later.tools == {"functions.now"}


def test_a_tool_is_declared_once() -> None:
    newer = {**NOW, "description": "Newer."}
    item = {"type": "additional_tools", "role": "developer", "tools": [newer]}
    namespaces = developer_of(turn(item, item, tools=[NOW, {**NOW, "name": "then"}])).tools or {}
    assert [(t.name, t.description) for t in namespaces["functions"].tools] == [
        ("now", "Newer."),
        ("then", "Tells the time."),
    ]


def required(*names: str) -> ToolChoice:
    return ToolChoice("required", names)


CHOICES: list[tuple[Any, ToolChoice]] = [
    (None, ToolChoice("auto")),
    ("auto", ToolChoice("auto")),
    ("none", ToolChoice("none")),
    ("required", ToolChoice("required")),
    ({"type": "auto"}, ToolChoice("auto")),
    ({"type": "required"}, ToolChoice("required")),
    ({"type": "function", "name": "now"}, required("functions.now")),
    ({"type": "function", "function": {"name": "now"}}, required("functions.now")),
    ({"type": "function", "name": "now", "namespace": "files"}, required("files.now")),
    ({"type": "function", "name": "files.now"}, required("files.now")),
    ({"type": "custom", "name": "patch"}, required("functions.patch")),
    ({"type": "custom", "custom": {"name": "patch"}}, required("functions.patch")),
    ({"type": "namespace", "name": "files"}, required("files.now", "files.patch")),
    (
        {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "now"}, {"type": "web_search"}],
        },
        ToolChoice("auto", ("functions.now",)),
    ),
    (
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [{"type": "function", "function": {"name": "now"}}],
            },
        },
        required("functions.now"),
    ),
    (
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]},
        ToolChoice("none"),
    ),
]


@pytest.mark.parametrize(("choice", "expected"), CHOICES)
def test_tool_choice(choice: Any, expected: ToolChoice) -> None:
    tools: list[dict[str, Any]] = [NOW, PATCH, FILES, {"type": "web_search"}]
    made = turn(USER, tools=tools, tool_choice=choice)
    assert made.tool_choice == expected
    chat = turn_of_chat(ChatRequest(messages=[USER], tools=tools, tool_choice=choice))
    assert chat == made
    turn_grammar(made.conversation, TurnOptions(tool_choice=made.tool_choice))


def test_sampling() -> None:
    defaults = Sampling(temperature=0.5, top_p=0.9, top_k=40, stop_tokens=frozenset({1}))
    fields: dict[str, Any] = {
        "top_k": -1,
        "min_p": 0.1,
        "seed": 7,
        "frequency_penalty": 1,
        "presence_penalty": -1.0,
        "repetition_penalty": 1.1,
        "stop": "END",
        "temperature": 0,
    }
    made = turn_of_response(
        ResponsesRequest(input="hi", max_output_tokens=5, top_logprobs=2, **fields),
        sampling=defaults,
    )
    chat = turn_of_chat(
        ChatRequest(
            messages=[USER], max_completion_tokens=5, logprobs=True, top_logprobs=2, **fields
        ),
        sampling=defaults,
    )
    assert made == chat
    assert made.stop == ("END",)
    assert made.sampling == Sampling(
        temperature=0, top_p=0.9, top_k=0, min_p=0.1, seed=7, max_tokens=5, logprobs=2,
        stop_tokens=frozenset({1}), frequency_penalty=1, presence_penalty=-1,
        repetition_penalty=1.1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "logprobs"),
    [
        ({}, None),
        ({"include": ["message.output_text.logprobs"]}, 0),
        ({"include": ["message.output_text.logprobs"], "top_logprobs": 3}, 3),
        ({"top_logprobs": 3}, 3),
        ({"top_logprobs": 0}, None),
    ],
)
def test_logprobs(fields: dict[str, Any], logprobs: int | None) -> None:
    assert turn(USER, **fields).sampling.logprobs == logprobs


# History


def thought(text: str) -> dict[str, Any]:
    return reasoning(content=[{"type": "reasoning_text", "text": text}])


def test_references_are_looked_up_with_their_tokens() -> None:
    tokens = tuple(
        ENCODING.encode("<|channel|>final<|message|>yes<|return|>", allowed_special="all")
    )
    references = {"msg_1": HistoryItem(assistant(), tokens)}
    request = ResponsesRequest(input=[{"type": "item_reference", "id": "msg_1"}])
    made = turn_of_response(request, references=references)
    message = made.conversation.messages[-1]
    assert isinstance(message, SampledMessage)
    assert message.sampled_tokens == tokens


def test_a_reference_to_a_reference_is_refused() -> None:
    references = {"a": HistoryItem({"type": "item_reference", "id": "a"})}
    with pytest.raises(ConversationError, match=r"^input\[0\].id: the item with this id is"):
        turn_of_response(ResponsesRequest(input=[{"id": "a"}]), references=references)


def test_sealed_items_are_opened() -> None:
    sealed = {"x": [HistoryItem(thought("hm"), (1, 2))], "y": [HistoryItem(USER)] * 2}
    request = ResponsesRequest(
        input=[
            USER,  # the compaction stands for all before it
            {"type": "compaction", "encrypted_content": "y"},
            reasoning(encrypted_content="x", summary=[{"type": "summary_text", "text": "less"}]),
        ]
    )
    made = turn_of_response(request, decrypt=sealed.get)
    assert said(made) == [("user", None, "hi"), ("user", None, "hi"), ("analysis", None, "hm")]
    message = made.conversation.messages[-1]
    assert isinstance(message, SampledMessage)
    assert message.sampled_tokens == (1, 2)


@pytest.mark.parametrize("beside", ["content", "summary"])
def test_a_seal_that_does_not_open_is_an_error_whatever_stands_beside_it(beside: str) -> None:
    kind = "reasoning_text" if beside == "content" else "summary_text"
    item = reasoning(encrypted_content="z", **{beside: [{"type": kind, "text": "hm"}]})
    request = ResponsesRequest(input=[USER, item])
    with pytest.raises(ConversationError, match=r"encrypted_content: this server cannot decrypt"):
        turn_of_response(request, decrypt=lambda text: None)
    assert said(turn_of_response(request)) == [("user", None, "hi"), ("analysis", None, "hm")]


@pytest.mark.parametrize("name", ["anna", "a.b-c_1", "a b", "<|start|>", "a/b", "", "x" * 65, 7])
def test_a_name_of_a_user_is_read_or_named_as_ignored(name: object) -> None:
    turn = turn_of_chat(ChatRequest(messages=[{**USER, "name": name}]))
    is_read = name in ("anna", "a.b-c_1")
    assert turn.conversation.messages[-1].author.name == (name if is_read else None)
    assert turn.unread == (() if is_read or name == "" else ("messages[].name",))


def test_past_reasoning_is_left_out_and_that_of_the_turn_is_kept() -> None:
    made = turn(thought("a"), assistant(), USER, thought("b"), function_call(), output())
    assert [text for channel, _, text in said(made) if channel == "analysis"] == ["b"]


def test_what_was_sampled_is_repeated() -> None:
    """No re-tokenisation: a turn's tokens stand in the next prompt as they were sampled."""
    spelled = [
        "<|channel|>analysis<|message|>Look.<|end|>",
        "<|start|>assistant<|channel|>commentary<|message|>I look.<|end|>",
        "<|start|>assistant<|channel|>analysis to=functions.now code<|message|>{ }<|call|>",
    ]
    pieces = [ENCODING.encode(text, allowed_special="all") for text in spelled]
    tokens = [token for piece in pieces for token in piece]
    ends = [sum(map(len, pieces[: index + 1])) for index in range(len(pieces))]
    messages = ENCODING.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
    sampled = with_sampled_tokens(ENCODING, messages, tokens, ends)
    first = turn(USER, tools=[NOW])
    stored = items_of_messages(sampled, lambda prefix: f"{prefix}_1")
    request = ResponsesRequest(input=[output()], tools=[NOW])
    later = rendered(turn_of_response(request, [HistoryItem(USER), *stored]))
    before = [*rendered(first), *tokens]
    assert later[: len(before)] == before
    assert ENCODING.decode(later[len(before) :]) == (
        "<|start|>functions.now to=assistant<|channel|>commentary<|message|>3<|end|>"
        "<|start|>assistant"
    )


# The law: the same conversation gives the same tokens, whichever API says it.


@dataclass(frozen=True)
class Called:
    """A call as neither API writes it."""

    name: str
    argument: str
    is_custom: bool
    result: str


@dataclass(frozen=True)
class Step:
    """What someone said: instructions, a question, or a step of the assistant."""

    role: str
    text: str | None
    image: bool = False
    thought: str | None = None
    calls: tuple[Called, ...] = ()


TEXTS = st.text(st.sampled_from('ab \n<|>{}"\\é日'), min_size=1, max_size=6)
CALLS = st.builds(
    Called, st.sampled_from(["now", "then"]), TEXTS, is_custom=st.booleans(), result=TEXTS
)
STEPS = st.one_of(
    st.builds(Step, st.sampled_from(["system", "developer"]), TEXTS),
    st.builds(Step, st.just("user"), TEXTS, image=st.booleans()),
    st.builds(
        Step,
        st.just("assistant"),
        st.none() | TEXTS,
        thought=st.none() | TEXTS,
        calls=st.lists(CALLS, max_size=2).map(tuple),
    ).filter(lambda step: bool(step.text or step.thought or step.calls)),
)


def as_items(steps: Sequence[Step]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for index, step in enumerate(steps):
        if step.thought:
            items.append(thought(step.thought))
        if step.text is not None:
            parts: list[dict[str, Any]] = [{"type": "input_text", "text": step.text}]
            if step.image:
                parts.append({"type": "input_image", "image_url": "data:,", "detail": "auto"})
            content = step.text if step.role == "assistant" else parts
            items.append({"type": "message", "role": step.role, "content": content})
        items += [_call_item(called, f"call_{index}_{n}") for n, called in enumerate(step.calls)]
        items += [
            {
                "type": "custom_tool_call_output" if called.is_custom else "function_call_output",
                "call_id": f"call_{index}_{n}",
                "output": called.result,
            }
            for n, called in enumerate(step.calls)
        ]
    return items


def _call_item(called: Called, call_id: str) -> dict[str, Any]:
    named = {"call_id": call_id, "name": called.name}
    if called.is_custom:
        return {"type": "custom_tool_call", **named, "input": called.argument}
    return {"type": "function_call", **named, "arguments": called.argument}


def as_chat(steps: Sequence[Step]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for index, step in enumerate(steps):
        content: Any = step.text
        if step.image:
            content = [{"type": "text", "text": step.text}, {"type": "image_url", "image_url": {}}]
        message = {"role": step.role, "content": content}
        if step.role == "assistant":
            message["reasoning_content"] = step.thought
            calls = [_tool_call(called, f"call_{index}_{n}") for n, called in enumerate(step.calls)]
            message["tool_calls"] = calls
        messages.append(message)
        messages += [
            {"role": "tool", "tool_call_id": f"call_{index}_{n}", "content": called.result}
            for n, called in enumerate(step.calls)
        ]
    return messages


def _tool_call(called: Called, call_id: str) -> dict[str, Any]:
    if called.is_custom:
        custom = {"name": called.name, "input": called.argument}
        return {"id": call_id, "type": "custom", "custom": custom}
    function = {"name": called.name, "arguments": called.argument}
    return {"id": call_id, "type": "function", "function": function}


@settings(max_examples=examples(150))
@given(st.lists(STEPS, min_size=1, max_size=6))
def test_both_apis_give_the_same_tokens(steps: list[Step]) -> None:
    response = turn_of_response(ResponsesRequest(input=as_items(steps), tools=[NOW]))
    chat = turn_of_chat(ChatRequest(messages=as_chat(steps), tools=[NOW]))
    assert rendered(response) == rendered(chat)
    assert response == chat


@settings(max_examples=examples(50))
@given(st.lists(STEPS, min_size=1, max_size=6), st.integers(0, 6))
def test_it_does_not_matter_where_the_history_ends(steps: list[Step], cut: int) -> None:
    items = as_items(steps)
    history = [HistoryItem(item) for item in items[:cut]]
    together = turn_of_response(ResponsesRequest(input=items))
    assert turn_of_response(ResponsesRequest(input=items[cut:]), history) == together


@settings(max_examples=examples(50))
@given(st.lists(STEPS, min_size=1, max_size=6))
def test_every_text_is_in_the_prompt_or_past_reasoning(steps: list[Step]) -> None:
    made = turn_of_response(ResponsesRequest(input=as_items(steps)))
    told = [text for _, _, text in said(made)]
    instructions = developer_of(made).instructions or ""
    for step in steps:
        if step.role in ("system", "developer"):
            assert (step.text or "") in instructions
        elif step.text:
            assert any(step.text in text for text in told)
        for called in step.calls:
            assert called.result in told


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["message", "user", "x", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "role", "content", "name", "text"]), inner)
    ),
)
WILD_ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            ["message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
             "custom_tool_call_output", "item_reference", "compaction", "additional_tools"]
        ) | JSON,
        **dict.fromkeys(
            ("role", "content", "summary", "encrypted_content", "call_id", "name", "arguments",
             "output", "input", "id", "phase", "namespace", "tools"),
            JSON,
        ),
    },
)  # fmt: skip
WILD = st.fixed_dictionaries(
    {"input": st.lists(WILD_ITEMS, max_size=3)},
    optional={
        "tools": st.lists(st.dictionaries(st.sampled_from(["type", "name", "tools"]), JSON)),
        "tool_choice": st.dictionaries(st.sampled_from(["type", "name", "tools", "mode"]), JSON),
        "text": st.fixed_dictionaries({"format": st.dictionaries(st.text(max_size=3), JSON)}),
    },
)


@settings(max_examples=examples(300))
@given(WILD)
def test_any_request_becomes_a_turn_or_a_clear_error(fields: dict[str, Any]) -> None:
    request = ResponsesRequest.model_validate(fields)
    try:
        made = turn_of_response(request)
    except ConversationError as error:
        problem = error
    else:
        assert all(isinstance(message, Message) for message in made.conversation.messages)
        return
    assert problem.field


def test_the_current_date_is_a_function_even_if_its_module_was_imported_before() -> None:
    code = "import gpt_oss_harmony.apis.current_date, gpt_oss_harmony.apis as apis; "
    subprocess.run([sys.executable, "-c", f"{code}apis.current_date()"], check=True)
