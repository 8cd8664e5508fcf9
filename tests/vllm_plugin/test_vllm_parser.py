"""The parser in vLLM's place: what it returns to vLLM, whole and streamed, for both APIs."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from prometheus_client import REGISTRY

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony_vllm.parser import JOINT, declared_recipients, parser_class
from gpt_oss_harmony_vllm.patches import patch_parser
from gpt_oss_harmony_vllm.settings import Settings
from support import vllm_stand_in as vllm
from support.vectors import cases
from support.vllm_stand_in import Function, Request, Tool

ENCODING = load_harmony_encoding("HarmonyGptOss")
DAMAGED: list[dict[str, Any]] = [
    {
        "id": case["id"],
        "completion": case["input"]["text"],
        "tools": case["input"]["tools"],
        "messages": case["expected"]["messages"],
    }
    for case in cases("recovery", "parse")
    if "note" not in case  # of a known gap
]
NOW = Tool(function=Function(name="now"))
CALL = '<|channel|>commentary to=functions.now <|constrain|>json<|message|>{"zone":"UTC"}<|call|>'
THOUGHT = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"


@pytest.fixture
def parser_type(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = vllm.installed(monkeypatch)["vllm.parser.harmony"]
    patch_parser(module, Settings())
    return module.HarmonyParser


def encoded(text: str) -> list[int]:
    return ENCODING.encode(text, allowed_special="all")


def request_for(tools: list[str]) -> Request:
    names = [name.removeprefix("functions.") for name in tools if name.startswith("functions.")]
    return Request(tools=[Tool(function=Function(name=name)) for name in names] or None)


def whole(parser_type: Any, request: Request, tokens: list[int]) -> tuple[str, str, list[Any]]:
    parser = parser_type(None, request.tools)
    reasoning, content, calls = parser.parse("", request, True, tokens)
    return reasoning or "", content or "", [(call.name, call.arguments) for call in calls or ()]


def streamed(parser_type: Any, request: Request, tokens: list[int]) -> tuple[str, str, list[Any]]:
    """Join the deltas of one token each, as vLLM's clients do."""
    parser = parser_type(None, request.tools)
    reasoning, content, calls = "", "", list[list[str]]()
    for index, token in enumerate(tokens):
        is_last = index == len(tokens) - 1
        delta = parser.parse_delta("", [token], request, finished=is_last)
        if delta is None:
            continue
        reasoning += delta.reasoning or ""
        content += delta.content or ""
        for call in delta.tool_calls:
            if call.id is not None:
                assert call.index == len(calls)
                assert call.type == "function"
                calls.append([call.function.name, ""])
            else:
                assert call.function.name is None
            calls[call.index][1] += call.function.arguments
    return reasoning, content, [tuple(call) for call in calls]


def responses(parser_type: Any, request: Request, tokens: list[int]) -> list[tuple[Any, ...]]:
    """Return the messages that vLLM makes items of; its streams have the same text."""
    parser = parser_type(None, request.tools)
    segments = [part for token in tokens for part in parser.process_chunk([token]).segments]
    segments += parser.flush()
    messages, text = [], ""
    for segment in segments:
        text += segment.delta
        message = segment.completed_message
        if message is not None:
            assert not segment.delta, "vLLM skips the end of a message in a segment with text"
            assert isinstance(message, vllm.Message)
            message = message.ours()
            assert message.text == text
            assert text or not message.recipient, "vLLM streams no call without arguments"
            messages.append((message.channel, message.recipient, text))
            text = ""
    assert not text
    return messages


@pytest.mark.parametrize("damaged", DAMAGED, ids=lambda damaged: damaged["id"])
def test_damaged_turns_are_the_same_whole_and_streamed(
    parser_type: Any, damaged: dict[str, Any]
) -> None:
    tools, tokens = damaged.get("tools", []), encoded(damaged["completion"])
    request = request_for(tools)
    reasoning, content, calls = whole(parser_type, request, tokens)
    if tokens:
        streamed_calls = streamed(parser_type, request, tokens)
        assert streamed_calls[:2] == (reasoning, content)
        assert [name for name, _ in streamed_calls[2]] == [name for name, _ in calls]
    items = responses(parser_type, request, tokens)
    answers = [text for channel, to, text in items if to is None and channel != "analysis"]
    built_in = [text for _, to, text in items if to and not vllm.is_function_recipient(to)]
    assert content == JOINT.join(text for text in [*answers, *built_in] if text) or calls
    if all(name.startswith("functions.") for name in tools):
        texts = "".join(text for _, _, text in items)
        assert all(m["content"] in texts for m in damaged["messages"] if m["role"] == "assistant")


def test_reasoning_content_and_a_call(parser_type: Any) -> None:
    text = THOUGHT + "<|channel|>commentary<|message|>One moment.<|end|><|start|>assistant" + CALL
    request = Request(tools=[NOW])
    expected = "Hm.", "One moment.", [("now", '{"zone": "UTC"}')]
    assert whole(parser_type, request, encoded(text)) == expected
    assert streamed(parser_type, request, encoded(text)) == (
        *expected[:2],
        [("now", '{"zone":"UTC"}')],
    )


def test_several_texts_are_separated_alike(parser_type: Any) -> None:
    text = THOUGHT + THOUGHT + "<|channel|>commentary<|message|>A<|end|><|start|>assistant"
    text += "<|channel|>final<|message|>B<|return|>"
    for read in (whole, streamed):
        assert read(parser_type, Request(), encoded(text)) == ("Hm.\nHm.", "A\nB", [])


def test_two_calls_have_their_own_index_and_id(parser_type: Any) -> None:
    parser = parser_type(None, [NOW])
    tokens = encoded(f"{CALL}<|start|>assistant{CALL}")
    delta = parser.parse_delta("", tokens, Request(tools=[NOW]), finished=True)
    assert [(call.index, call.function.name) for call in delta.tool_calls] == [
        (0, "now"),
        (1, "now"),
    ]
    assert len({call.id for call in delta.tool_calls}) == 2


@pytest.mark.parametrize("body", ["", " ", '{"a'])
def test_a_call_that_was_cut_off_is_never_complete(parser_type: Any, body: str) -> None:
    tokens = encoded(f"<|channel|>commentary to=functions.now<|message|>{body}")
    request = Request(tools=[NOW])
    for called in (whole, streamed):
        assert called(parser_type, request, tokens)[2] == [("now", body)]
    shown = [("commentary", "functions.now", body)] if body else []
    assert responses(parser_type, request, tokens) == shown


@pytest.mark.parametrize("body", ["", " "])
def test_a_call_without_arguments_has_an_empty_object(parser_type: Any, body: str) -> None:
    tokens = encoded(f"<|channel|>commentary to=functions.now<|message|>{body}<|call|>")
    request = Request(tools=[NOW])
    assert whole(parser_type, request, tokens)[2] == [("now", "{}")]
    assert streamed(parser_type, request, tokens)[2] == [("now", f"{body}{{}}")]
    assert responses(parser_type, request, tokens) == [
        ("commentary", "functions.now", f"{body}{{}}")
    ]


@pytest.mark.parametrize(
    ("arguments", "content_type", "expected"),
    [
        ('{"a":1}', "json", '{"a": 1}'),
        ('{"a":1', "json", '{"a":1'),
        ('{"a": 1e999}', "json", '{"a": 1e999}'),
        ("print(1)", "code", "print(1)"),
        ("[1,\n2]", "code", "[1,\n2]"),
    ],
)
def test_arguments_are_written_as_vllm_writes_them(
    parser_type: Any, arguments: str, content_type: str, expected: str
) -> None:
    text = f"<|channel|>commentary to=functions.now {content_type}<|message|>{arguments}<|call|>"
    assert whole(parser_type, Request(tools=[NOW]), encoded(text))[2] == [("now", expected)]


@pytest.mark.parametrize("read", [whole, streamed])
def test_calls_of_undeclared_built_in_tools_are_not_lost(parser_type: Any, read: Any) -> None:
    tokens = encoded("<|channel|>analysis to=python code<|message|>print(1)<|call|>")
    assert read(parser_type, Request(), tokens) == ("", "print(1)", [])
    assert read(parser_type, Request(tools=[NOW]), tokens) == ("", "", [("python", "print(1)")])


@pytest.mark.parametrize("read", [whole, streamed])
def test_without_vllms_tool_parser_calls_are_content(
    parser_type: Any, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_parser = property(lambda _: None, lambda *_: None)
    monkeypatch.setattr(parser_type, "tool_parser", no_parser, raising=False)
    assert read(parser_type, Request(tools=[NOW]), encoded(CALL)) == ("", '{"zone":"UTC"}', [])


def test_reasoning_is_hidden_where_the_request_says_so(parser_type: Any) -> None:
    tokens = encoded(THOUGHT + "<|channel|>final<|message|>Yes.<|return|>")
    hidden = Request(include_reasoning=False)
    assert streamed(parser_type, hidden, tokens)[:2] == ("", "Yes.")
    assert parser_type(None).parse_delta("", tokens[:4], hidden, finished=False) is None


def test_a_parser_goes_on_with_the_next_turn(parser_type: Any) -> None:
    """vLLM calls its own tools in between."""
    parser = parser_type(None, [NOW])
    first = encoded(THOUGHT + "<|channel|>analysis to=python code<|message|>1<|call|>")
    second = encoded("<|channel|>final<|message|>One.<|return|>")
    for tokens, expected in ((first, ["Hm.", "1"]), (second, ["One."])):
        segments = parser.process_chunk(tokens).segments + parser.flush()
        messages = [part.completed_message for part in segments if part.completed_message]
        assert [message.ours().text for message in messages] == expected


@pytest.mark.parametrize("at_once", [1, 4, 100])
def test_tokens_of_reasoning_are_counted(parser_type: Any, at_once: int) -> None:
    tokens = encoded(THOUGHT + CALL)
    expected = len(encoded("Hm.")) + len(encoded('{"zone":"UTC"}'))
    parser = parser_type(None, [NOW])
    counted = 0
    for start in range(0, len(tokens), at_once):
        counted += parser.process_chunk(tokens[start : start + at_once]).reasoning_token_count
        assert parser.count_reasoning_tokens(tokens[: start + at_once]) == counted
    assert counted == expected
    assert parser.count_reasoning_tokens(tokens) == parser_type(None).count_reasoning_tokens(tokens)


def test_repairs_are_counted_and_logged(parser_type: Any, caplog: pytest.LogCaptureFixture) -> None:
    name, label = "harmony_recoveries_total", {"kind": "repeated-channel"}
    before = REGISTRY.get_sample_value(name, label) or 0
    text = "<|channel|>analysis<|channel|>commentary to=functions.now<|message|>{}<|call|>"
    with caplog.at_level(logging.DEBUG, "vllm.plugins.harmony"):
        whole(parser_type, Request(tools=[NOW]), encoded(text))
    assert REGISTRY.get_sample_value(name, label) == before + 1
    assert "repaired repeated-channel" in caplog.text


def test_the_recipients_of_all_kinds_of_tools() -> None:
    class Flat:
        type, name = "function", "later"

    tools = [NOW, Flat(), Tool(type="web_search_preview"), Tool(type="mcp")]
    assert list(declared_recipients(tools)) == [
        *("functions.now", "functions.later"),
        *("browser.search", "browser.open", "browser.find"),
    ]


def test_the_class_looks_like_vllms_own(parser_type: Any) -> None:
    assert issubclass(parser_type, vllm.HarmonyParser)
    assert parser_type.__name__ == "HarmonyParser"
    assert parser_class(vllm.HarmonyParser, parser_type.vllm, Settings()) is not parser_type


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('{"zone": "UTC"}}', '{"zone": "UTC"}'),
        ("{'zone': 'UTC'}", '{"zone": "UTC"}'),
        ("{'zone': 1}", "{'zone': 1}"),  # it would not follow the schema
    ],
)
def test_arguments_are_mended_on_request(parser_type: Any, written: str, text: str) -> None:
    schema = {"type": "object", "properties": {"zone": {"type": "string"}}}
    request = Request(tools=[Tool(function=Function(name="now", parameters=schema))])
    tokens = encoded(CALL.replace('{"zone":"UTC"}', written))
    mending = parser_class(parser_type.__mro__[2], parser_type.vllm, Settings(mends=True))
    for read in (whole, streamed):
        assert read(parser_type, request, tokens)[2] == [("now", written)]
        (call,) = read(mending, request, tokens)[2]
        assert call == ("now", text)
