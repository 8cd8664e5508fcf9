"""Messages of the model become items and chat messages, and items become messages again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseInputItem, ResponseOutputItem
from pydantic import TypeAdapter

from gpt_oss_harmony import (
    Conversation,
    Message,
    Role,
    StreamableParser,
    load_harmony_encoding,
)
from gpt_oss_harmony.apis import (
    CHAT_JOINT,
    CustomToolInput,
    HistoryItem,
    ItemBegun,
    ItemEnded,
    ItemKind,
    ItemRules,
    ResponsesRequest,
    TurnEnded,
    TurnReader,
    TurnRequest,
    called_name,
    chat_message_of,
    custom_tool_input,
    input_items_of,
    item_events,
    item_json,
    items_of_messages,
    turn_of_response,
)
from gpt_oss_harmony.apis.conversation_builder import ConversationBuilder
from gpt_oss_harmony.apis.requested_tools import RequestedTools, read_tools
from gpt_oss_harmony.apis.responses.input import ItemReader
from gpt_oss_harmony.conversation.json_field import JsonField
from gpt_oss_harmony.sampled_messages import SampledMessage, with_sampled_tokens

ENCODING = load_harmony_encoding("HarmonyGptOss")
OUTPUT_ITEM: TypeAdapter[Any] = TypeAdapter(ResponseOutputItem)
INPUT_ITEM: TypeAdapter[Any] = TypeAdapter(ResponseInputItem)

CUSTOM = {"functions.patch", "files.patch"}
FUNCTION = {"type": "function", "name": "ls"}
PATCH = {"type": "custom", "name": "patch"}
TOOLS = [FUNCTION, PATCH, {"type": "namespace", "name": "files", "tools": [FUNCTION, PATCH]}]


def tools() -> RequestedTools:
    return read_tools(JsonField(TOOLS, "tools").items())


def own(
    channel: str | None, text: str, recipient: str | None = None, content_type: str | None = None
) -> Message:
    message = Message.from_role_and_content(Role.ASSISTANT, text)
    message.channel, message.recipient = channel, recipient
    message.content_type = content_type
    return message


class Ids:
    """Counts: msg_1, call_2, ..."""

    def __init__(self) -> None:
        self._made = 0

    def __call__(self, prefix: str) -> str:
        self._made += 1
        return f"{prefix}_{self._made}"


def items_of(*messages: Message) -> list[dict[str, Any]]:
    made = items_of_messages(messages, Ids(), custom_tools=CUSTOM, namespaces={"files"})
    return [dict(stored.item) for stored in made]


# Kinds

KINDS = [
    ("analysis", None, ItemKind.REASONING),
    ("analysis", "all", ItemKind.REASONING),
    ("commentary", None, ItemKind.COMMENTARY),
    ("commentary", "user", ItemKind.COMMENTARY),
    ("final", None, ItemKind.FINAL_ANSWER),
    (None, None, ItemKind.FINAL_ANSWER),
    ("commentary", "functions.ls", ItemKind.FUNCTION_CALL),
    ("analysis", "functions.ls", ItemKind.FUNCTION_CALL),
    ("final", "functions.ls", ItemKind.FUNCTION_CALL),
    ("analysis", "browser.search", ItemKind.FUNCTION_CALL),
    ("commentary", "functions.patch", ItemKind.CUSTOM_TOOL_CALL),
    ("analysis", "python", ItemKind.SERVER_CALL),
]


@pytest.mark.parametrize(("channel", "recipient", "kind"), KINDS)
def test_kinds(channel: str | None, recipient: str | None, kind: ItemKind) -> None:
    rules = ItemRules(custom_tools=CUSTOM, server_tools={"python"})
    assert rules.begin(0, channel, recipient).kind is kind
    assert kind.is_call == (recipient not in (None, "all", "user"))
    assert kind.is_message == (kind in (ItemKind.COMMENTARY, ItemKind.FINAL_ANSWER))
    assert kind.is_of_server == (recipient == "python")


@pytest.mark.parametrize(
    ("recipient", "name"),
    [
        ("functions.ls", ("ls", None)),
        ("functions.a.b", ("a.b", None)),
        ("files.ls", ("ls", "files")),
        ("files.more.ls", ("ls", "files.more")),
        ("others.ls", ("others.ls", None)),
        ("python", ("python", None)),
        ("functions.", ("functions.", None)),
        ("functions", ("functions", None)),
        ("files", ("files", None)),
    ],
)
def test_names(recipient: str, name: tuple[str, str | None]) -> None:
    assert called_name(recipient, {"files", "files.more"}) == name


# Items


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


# A message, and the item that it becomes.
ITEMS: list[tuple[Message, dict[str, Any]]] = [
    (
        own("analysis", "Hm."),
        {
            "type": "reasoning", "id": "rs_1", "status": "completed", "summary": [],
            "content": [{"type": "reasoning_text", "text": "Hm."}],
        },
    ),
    (
        own("commentary", "I look."),
        {
            "type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
            "phase": "commentary", "content": [text_part("I look.")],
        },
    ),
    (
        own("final", ""),
        {
            "type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
            "phase": "final_answer", "content": [text_part("")],
        },
    ),
    (
        own("commentary", '{"a": 1}', "functions.ls"),
        {
            "type": "function_call", "id": "fc_2", "call_id": "call_1", "status": "completed",
            "name": "ls", "arguments": '{"a": 1}',
        },
    ),
    (
        own("analysis", " ", "files.ls"),
        {
            "type": "function_call", "id": "fc_2", "call_id": "call_1", "status": "completed",
            "name": "ls", "namespace": "files", "arguments": "{}",
        },
    ),
    (
        own("commentary", '{"input": "a\\nb"}', "functions.patch"),
        {
            "type": "custom_tool_call", "id": "ctc_2", "call_id": "call_1",
            "status": "completed", "name": "patch", "input": "a\nb",
        },
    ),
    (
        own("analysis", "1 + 1", "python"),
        {
            "type": "function_call", "id": "fc_2", "call_id": "call_1", "status": "completed",
            "name": "python", "arguments": "1 + 1",
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("message", "expected"), ITEMS)
def test_messages_become_items(message: Message, expected: dict[str, Any]) -> None:
    (item,) = items_of(message)
    assert item == expected
    read = OUTPUT_ITEM.validate_python(item)
    assert read.type == item["type"]


@pytest.mark.parametrize(("message", "expected"), ITEMS)
def test_items_begin_empty(message: Message, expected: dict[str, Any]) -> None:
    rules = ItemRules(custom_tools=CUSTOM, namespaces={"files"})
    call_id = expected.get("call_id", "")
    begun = item_json(
        rules.begin(0, message.channel, message.recipient, lambda _: call_id), id=expected["id"]
    )
    empty = {"content": [], "arguments": "", "input": ""}
    assert begun == {
        **expected,
        **{name: empty[name] for name in empty if name in expected},
        "status": "in_progress",
    }
    OUTPUT_ITEM.validate_python(begun)


def test_logprobs_stand_beside_the_text() -> None:
    logprob = {"token": "4", "bytes": [52], "logprob": -0.1, "top_logprobs": []}
    part = {**text_part("4"), "logprobs": [logprob]}
    begun = ItemRules().begin(0, "final", None)
    item = item_json(begun, id="msg_1", status="completed", text="4", part=part)
    assert item["content"][0]["logprobs"] == [logprob]
    OUTPUT_ITEM.validate_python(item)


def test_what_was_cut_off_stays_as_it_is() -> None:
    message = own("commentary", "", "functions.ls")
    *_, ended = item_events([message], ItemRules(), str, is_cut=True)
    assert isinstance(ended, ItemEnded)
    assert (ended.is_complete, ended.text) == (False, "")


def test_items_have_the_tokens_of_their_messages() -> None:
    text = "<|channel|>final<|message|>4<|return|>"
    tokens = ENCODING.encode(text, allowed_special="all")
    messages = ENCODING.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
    sampled = with_sampled_tokens(ENCODING, messages, tokens, [len(tokens)])
    assert [item.tokens for item in items_of_messages(sampled, Ids())] == [tuple(tokens)]
    assert [item.tokens for item in items_of_messages(messages, Ids())] == [None]


# Round trips

TEXTS = st.text(st.sampled_from('ab \n<|>{}"\\é日'), max_size=6)
NAMES = st.sampled_from(["ls", "patch"])
NAMESPACES = st.sampled_from([{}, {"namespace": "files"}])


def calls(kind: str, field: str, name: str) -> st.SearchStrategy[dict[str, Any]]:
    # Blank arguments would become {}: that is tested above.
    texts = TEXTS.filter(str.strip) if field == "arguments" else TEXTS
    return st.builds(
        lambda text, namespace: {
            "type": kind, "status": "completed", "name": name, field: text, **namespace,
        },
        texts,
        NAMESPACES,
    )  # fmt: skip


OWN_ITEMS = st.lists(
    st.one_of(
        TEXTS.map(
            lambda text: {
                "type": "reasoning", "status": "completed", "summary": [],
                "content": [{"type": "reasoning_text", "text": text}],
            }
        ),
        st.builds(
            lambda text, phase: {
                "type": "message", "status": "completed", "role": "assistant", "phase": phase,
                "content": [text_part(text)],
            },
            TEXTS,
            st.sampled_from(["commentary", "final_answer"]),
        ),
        calls("function_call", "arguments", "ls"),
        calls("custom_tool_call", "input", "patch"),
    ),
    max_size=6,
)  # fmt: skip


def with_ids(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**item, "id": f"i{index}", **({"call_id": f"c{index}"} if "name" in item else {})}
        for index, item in enumerate(items)
    ]


def same_ids(items: Sequence[dict[str, Any]]) -> Iterator[str]:
    for item in items:
        if "call_id" in item:
            yield item["call_id"]
        yield item["id"]


def messages_of(items: Sequence[dict[str, Any]]) -> list[Message]:
    builder = ConversationBuilder(tools())
    ItemReader(builder).read_all([HistoryItem(item) for item in items], "input")
    return builder.messages


@given(OWN_ITEMS)
def test_items_become_messages_and_the_same_items(made: list[dict[str, Any]]) -> None:
    items = with_ids(made)
    ids = same_ids(items)
    again = items_of_messages(
        messages_of(items), lambda _: next(ids), custom_tools=CUSTOM, namespaces={"files"}
    )
    assert [stored.item for stored in again] == items


MESSAGES = st.lists(
    st.one_of(
        st.builds(own, st.sampled_from(["analysis", "commentary", "final"]), TEXTS),
        st.builds(
            own,
            st.just("commentary"),
            TEXTS.filter(str.strip),
            st.sampled_from(["functions.ls", "files.ls", "browser.search", "python", "a.b"]),
            st.just("<|constrain|>json"),
        ),
    ),
    max_size=6,
)


@given(MESSAGES)
def test_messages_become_items_and_the_same_messages(messages: list[Message]) -> None:
    assert messages_of(items_of(*messages)) == messages


# Chat messages


def test_a_turn_becomes_one_chat_message() -> None:
    message = chat_message_of(
        [
            own("analysis", "Look."),
            own("commentary", "I look."),
            own("analysis", "Now."),
            own("commentary", "", "functions.ls"),
            own("analysis", '{"input": "x"}', "functions.patch"),
            own("analysis", "{}", "browser.open"),
        ],
        Ids(),
        custom_tools=CUSTOM,
    )
    ls = {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    patch = {"id": "call_2", "type": "custom", "custom": {"name": "patch", "input": "x"}}
    browser = {
        "id": "call_3",
        "type": "function",
        "function": {"name": "browser.open", "arguments": "{}"},
    }
    assert message == {
        "role": "assistant",
        "content": "I look.",
        "refusal": None,
        "annotations": [],
        "reasoning": "Look.\n\nNow.",
        "reasoning_content": "Look.\n\nNow.",
        "tool_calls": [ls, patch, browser],
    }
    ChatCompletionMessage.model_validate(message)


@pytest.mark.parametrize(
    ("messages", "content", "reasoning"),
    [
        ([], "", None),
        ([own("analysis", "Hm.")], "", "Hm."),
        ([own("final", "4")], "4", None),
        ([own("commentary", "Well."), own("final", "4")], f"Well.{CHAT_JOINT}4", None),
        ([own("commentary", "{}", "functions.ls")], None, None),
    ],
)
def test_content_and_reasoning(
    messages: list[Message], content: str | None, reasoning: str | None
) -> None:
    message = chat_message_of(messages, Ids())
    assert (message["content"], message["reasoning"]) == (content, reasoning)
    assert ("tool_calls" in message) == any(source.recipient for source in messages)


# The text for custom tools

BODIES = [
    ('{"input": "a"}', "a"),
    ('{"input":""}', ""),
    (' {\n"input" : "a\\n\\"b\\" \\\\ \\/ \\u00e9"\n}\n', 'a\n"b" \\ / é'),
    ('{"input": "\\ud83d\\ude00!"}', "😀!"),
    ('{"input": "\\ud83d!"}', "\N{REPLACEMENT CHARACTER}!"),
    ('{"input": "\\ude00\\ud83d"}', "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"),
    ('{"input": "\\ud83d\\u0041"}', "\N{REPLACEMENT CHARACTER}A"),
    ('{"input": "\\q \\u12', "q "),
    ('{"input": "cut o', "cut o"),
    ('{"input": "cut \\', "cut "),
    ('{"input": "\\ud83d', "\N{REPLACEMENT CHARACTER}"),
    ('{"input": "a", "more": 1}', "a"),
    ('{"in', '{"in'),
    ("*** Begin Patch", "*** Begin Patch"),
    ('{"other": "a"}', '{"other": "a"}'),
    ('{"input": 3}', '{"input": 3}'),
    ('{"input ": "a"}', '{"input ": "a"}'),
    ("", ""),
]


@pytest.mark.parametrize(("body", "text"), BODIES)
def test_the_text_for_a_custom_tool(body: str, text: str) -> None:
    assert custom_tool_input(body) == text
    reader = CustomToolInput()
    assert "".join(map(reader.feed, body)) + reader.rest() == text


@given(st.text(), st.booleans(), st.lists(st.integers(0, 40), max_size=4))
@example("\ud83d", True, [])
def test_any_text_comes_back_however_it_is_cut(text: str, ascii_: bool, cuts: list[int]) -> None:
    body = json.dumps({"input": text}, ensure_ascii=ascii_)
    places = sorted({0, *(cut for cut in cuts if cut < len(body)), len(body)})
    reader = CustomToolInput()
    pieces = [body[a:b] for a, b in pairwise(places)]
    read = "".join(map(reader.feed, pieces)) + reader.rest()
    lone = any("\ud800" <= character <= "\udfff" for character in text)
    assert read == text or (lone and ascii_)


# Input items

INPUTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"role": "user", "content": "hi"},
        {
            "type": "message", "id": "msg_1", "status": "completed", "role": "user",
            "content": [{"type": "input_text", "text": "hi"}],
        },
    ),
    (
        {"role": "system", "content": [{"type": "text", "text": "hi"}], "id": None},
        {
            "type": "message", "id": "msg_1", "status": "completed", "role": "system",
            "content": [{"type": "input_text", "text": "hi"}],
        },
    ),
    (
        {"role": "assistant", "content": "hi", "phase": "commentary", "id": "msg_x"},
        {
            "type": "message", "id": "msg_x", "status": "completed", "role": "assistant",
            "phase": "commentary", "content": [text_part("hi")],
        },
    ),
    (
        {"role": "user", "content": [{"type": "input_image", "file_id": "f"}]},
        {
            "type": "message", "id": "msg_1", "status": "completed", "role": "user",
            "content": [
                {"type": "input_image", "file_id": "f", "image_url": None, "detail": "auto"}
            ],
        },
    ),
    (
        {"type": "reasoning", "encrypted_content": None, "content": None},
        {"type": "reasoning", "id": "rs_1", "summary": []},
    ),
    (
        {"type": "function_call_output", "call_id": "c", "output": "3"},
        {
            "type": "function_call_output", "id": "fco_1", "status": "completed",
            "call_id": "c", "output": "3",
        },
    ),
    (
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("sent", "kept"), INPUTS)
def test_input_items_are_whole(sent: dict[str, Any], kept: dict[str, Any]) -> None:
    request = ResponsesRequest(input=[sent])
    assert input_items_of(request, Ids()) == [HistoryItem(kept)]
    again = ResponsesRequest(input=[kept])
    assert input_items_of(again, Ids()) == [HistoryItem(kept)]
    if kept["type"] != "web_search_call":
        INPUT_ITEM.validate_python(kept)


def test_input_items_have_what_references_name() -> None:
    stored = {"msg_1": HistoryItem({"role": "user", "content": "hi"}, (1,))}
    request = ResponsesRequest(input=[{"type": "item_reference", "id": "msg_1"}])
    assert input_items_of(request, Ids(), stored) == [stored["msg_1"]]


@given(OWN_ITEMS)
def test_kept_input_says_the_same(made: list[dict[str, Any]]) -> None:
    request = ResponsesRequest(input=[{"role": "user", "content": "hi"}, *with_ids(made)])
    kept = input_items_of(request, Ids())
    later = turn_of_response(ResponsesRequest(input=[]), kept)
    assert later.conversation == turn_of_response(request).conversation


@given(OWN_ITEMS)
def test_agents_may_send_back_what_they_read(made: list[dict[str, Any]]) -> None:
    """As the SDK's objects dump themselves: with every field, most of them null."""
    items = with_ids(made)
    dumped = [OUTPUT_ITEM.validate_python(item).model_dump() for item in items]
    assert messages_of(dumped) == messages_of(items)
    kept = input_items_of(ResponsesRequest(input=dumped), Ids())
    assert messages_of([dict(stored.item) for stored in kept]) == messages_of(items)


def test_sampled_messages_come_back_as_such() -> None:
    builder = ConversationBuilder()
    ItemReader(builder).read_all([HistoryItem(INPUTS[2][1], (1, 2))], "history")
    (message,) = builder.messages
    assert isinstance(message, SampledMessage)
    assert (message.channel, message.sampled_tokens) == ("commentary", (1, 2))


@pytest.mark.parametrize("target", ["", " to=user", " to=all", " to=functions.f", " to=python"])
def test_the_tokens_of_reasoning_are_those_of_its_items(target: str) -> None:
    text = f"<|channel|>analysis{target}<|message|>Hm, hm.<|end|>"
    tokens = ENCODING.encode(text, allowed_special="all")
    reader = TurnReader(TurnRequest(Conversation.from_messages([])), new_id="{}_1".format)
    events = [event for token in tokens for event in reader.take(token)] + [*reader.end()]
    (kind,) = (event.kind for event in events if isinstance(event, ItemBegun))
    assert (kind is ItemKind.REASONING) is (target in ("", " to=user", " to=all"))
    expected = len(tokens) if kind is ItemKind.REASONING else 0
    parser = StreamableParser(ENCODING, Role.ASSISTANT, strict=False)
    parser.process_many(tokens)
    assert parser.process_eos().reasoning_tokens == expected
    (ended,) = (event for event in events if isinstance(event, TurnEnded))
    assert ended.usage.reasoning_tokens == expected
