"""The inspector's API: what the page is told of conversations, tokens and grammars."""

from __future__ import annotations

import json
from typing import Any, Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import (
    Conversation,
    HeaderStyle,
    Message,
    RenderConversationConfig,
    Role,
    StreamableParser,
    TokenError,
    load_harmony_encoding,
)
from gpt_oss_harmony.apis import (
    ChatRequest,
    ResponsesRequest,
    turn_of_chat,
    turn_of_response,
)
from gpt_oss_harmony.grammar import find_mismatch
from gpt_oss_harmony.sampled_messages import prompt_tokens
from gpt_oss_harmony.tokens.special_tokens import FIRST_SPECIAL
from gpt_oss_harmony.training import (
    IGNORED,
    TrainingOptions,
    inference_prompt,
    training_examples,
)
from support.examples import examples
from support.inspector_client import CHAT, HARMONY, HOSTILE, RESPONSE, call, send
from support.strategies import Outcome, odd_messages, outcome, streams, usual_messages, wild_streams
from support.training_conversations import any_letters, conversation, likely_letters

ENCODING = load_harmony_encoding("HarmonyGptOss")
GUIDE = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")

laws = settings(max_examples=examples(60))

Reasoning = Literal["by-turn", "reference", "keep"]
reasonings = st.sampled_from(get_args(Reasoning))
styles: st.SearchStrategy[HeaderStyle] = st.sampled_from(get_args(HeaderStyle))


def check(result: dict[str, Any]) -> dict[str, Any]:
    """Check what holds for every rendering; return it."""
    tokens, spans, messages = result["tokens"], result["spans"], result["messages"]
    ids = tokens["ids"]
    check_tokens(tokens)
    assert result["text"] == ENCODING.decode(ids)
    borders = [0, *(span["end"] for span in spans)]
    assert [span["start"] for span in spans] == borders[:-1]
    assert borders[-1] == len(ids)
    assert [message["index"] for message in messages] == list(range(len(messages)))
    assert len(result["conversation"]["messages"]) == len(messages)
    counts = [0] * (len(messages) + 1)
    for span in spans:
        assert span["start"] < span["end"]
        assert span["sampled"] or not span["trainable"]
        counts[span["message"]] += span["end"] - span["start"]
    assert [message["tokens"] for message in messages] == counts[:-1]
    for message in messages:
        assert bool(message["dropped"]) == (message["tokens"] == 0)
    assert all(ids[int(index)] != label for index, label in result["labels"].items())
    return result


def check_tokens(tokens: dict[str, Any]) -> None:
    ids, texts, data = tokens["ids"], tokens["texts"], tokens["bytes"]
    assert len(ids) == len(texts)
    assert {int(index) for index in data} == {
        index for index, text in enumerate(texts) if text is None
    }
    pieces = [
        bytes.fromhex(data[str(index)]) if text is None else text.encode()
        for index, text in enumerate(texts)
    ]
    valid = [token for token in ids if 0 <= token < 201089]
    assert b"".join(pieces) == ENCODING.tokenizer.decode_bytes(valid)


def labels_of(result: dict[str, Any]) -> list[int]:
    """The labels that the spans and the exceptions say."""
    ids: list[int] = result["tokens"]["ids"]
    labels: list[int] = []
    for span in result["spans"]:
        own = ids[span["start"] : span["end"]]
        labels += own if span["trainable"] else [IGNORED] * len(own)
    for index, label in result["labels"].items():
        labels[int(index)] = label
    return labels


# Rendering


FORMS: dict[str, tuple[dict[str, Any], str]] = {
    "a chat": (CHAT, "chat"),
    "a chat without anything": ({"messages": []}, "chat"),
    "a response": (RESPONSE, "responses"),
    "a text": ({"input": "hi"}, "responses"),
    "both": ({"input": "hi", "messages": CHAT["messages"][:2]}, "chat"),
    "harmony": (HARMONY, "harmony"),
    "a channel": ({"messages": [{"role": "user", "content": "hi", "channel": "final"}]}, "harmony"),
}


@pytest.mark.parametrize(("source", "form"), FORMS.values(), ids=FORMS)
def test_forms_are_told_apart(source: dict[str, Any], form: str) -> None:
    result = check(call("render", source=source))
    assert result["form"] == form
    assert check(call("render", source=source, form=form)) == result


NOTICES: dict[str, tuple[dict[str, Any], list[tuple[str, str | None]]]] = {
    "a chat": (CHAT, []),
    "a response": (RESPONSE, []),
    "harmony": (HARMONY, []),
    "unread fields": (
        {
            "efort": 1,
            "temprature": 0,
            "messages": [
                {"role": "user", "content": "a"},
                *[{"role": "user", "content": "a", "nam": "b"}] * 2,
            ],
        },
        [
            (
                "nothing reads efort, temprature (did you mean temperature?), "
                "messages[1].nam (2 times)",
                "efort",
            )
        ],
    ),
    "unread fields of a response": (
        {"efort": 1, "input": [{"role": "user", "content": "a", "nam": "b"}]},
        [("nothing reads efort, input[0].nam", "efort")],
    ),
    "unread fields of harmony": (
        {"messages": [{"role": "user", "content": "a", "chanel": "final", "content_type": "x"}]},
        [("nothing reads messages[0].chanel (did you mean channel?)", "messages[0].chanel")],
    ),
    "an unknown channel": (
        {"messages": [{"role": "assistant", "channel": "finl", "content": "a"}]},
        [
            (
                "messages[0].channel: the models know no channel 'finl'; did you mean final?",
                "messages[0].channel",
            )
        ],
    ),
    "a call of nothing": (
        {
            "messages": [
                {
                    "role": "developer",
                    "content": {
                        "type": "developer_content",
                        "tools": {
                            "functions": {
                                "name": "functions",
                                "tools": [{"name": "now", "description": ""}],
                            }
                        },
                    },
                },
                *[
                    {"role": "assistant", "channel": "commentary", "recipient": to, "content": ""}
                    for to in ("functions.now", "functions.nwo", "nothing")
                ],
            ]
        },
        [
            (
                "messages[2].recipient: no message declares 'functions.nwo'; did you mean "
                "functions.now?",
                "messages[2].recipient",
            )
        ],
    ),
    "an unknown type": (
        {
            "input": "a",
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "objekt"}}],
        },
        [('"objekt" is not the name of a type; write "object"', None)],
    ),
}


@pytest.mark.parametrize(("source", "notices"), NOTICES.values(), ids=NOTICES)
def test_what_is_said_in_vain_is_named(
    source: dict[str, Any], notices: list[tuple[str, str | None]]
) -> None:
    found = check(call("render", source=source))["notices"]
    assert found == [{"text": text, "param": param} for text, param in notices]


def test_a_list_is_a_list_of_messages() -> None:
    assert call("render", source=CHAT["messages"][:2])["form"] == "chat"
    assert call("render", source=HARMONY["messages"])["form"] == "harmony"
    assert call("render", source=CHAT["messages"][:2], form="chat")["form"] == "chat"


def test_requests_are_rendered_as_the_server_renders_them() -> None:
    date = "2025-06-28"
    chat = turn_of_chat(ChatRequest(**CHAT), date=date)
    response = turn_of_response(ResponsesRequest(**RESPONSE), date=date)
    expected = prompt_tokens(ENCODING, chat.conversation, GUIDE)
    assert prompt_tokens(ENCODING, response.conversation, GUIDE) == expected
    for source in (CHAT, RESPONSE):
        result = check(call("render", source=source, date=date))
        assert result["tokens"]["ids"] == expected
        assert "Current date: 2025-06-28" in result["text"]
        assert "type now = (_: {" in result["text"]


def test_messages_spans_and_why_reasoning_is_left_out() -> None:
    result = check(call("render", source=CHAT))
    assert [
        (entry["role"], entry["channel"], entry["recipient"], bool(entry["dropped"]))
        for entry in result["messages"]
    ] == [
        ("system", None, None, False),
        ("developer", None, None, False),
        ("user", None, None, False),
        ("assistant", "analysis", None, True),
        ("assistant", "commentary", "functions.now", False),
        ("tool", "commentary", "assistant", False),
        ("assistant", "analysis", None, True),
        ("assistant", "final", None, False),
        ("user", None, None, False),
    ]
    assert "earlier turn" in result["messages"][3]["dropped"]
    last = result["spans"][-1]
    assert (last["message"], last["kind"], last["sampled"]) == (9, "header", False)
    calls = [span for span in result["spans"] if span["message"] == 4]
    assert [(span["kind"], span["sampled"]) for span in calls] == [
        ("header", False),  # <|start|>assistant, which the prompt had
        ("header", True),
        ("body", True),
        ("stop", True),
    ]
    assert result["labels"] == {}
    assert result["examples"] == 0


def test_what_is_kept_is_a_choice() -> None:
    kept = check(call("render", source=CHAT, reasoning="keep"))
    assert not any(message["dropped"] for message in kept["messages"])
    source = {**CHAT, "messages": CHAT["messages"][:-1]}
    of_reference = check(call("render", source=source, reasoning="reference"))
    dropped = [entry["dropped"] for entry in of_reference["messages"] if entry["dropped"]]
    assert len(dropped) == 2
    assert all("first final" in reason for reason in dropped)


def test_built_in_tools_of_responses_are_declared() -> None:
    source = {"input": "hi", "tools": [{"type": "web_search"}, {"type": "code_interpreter"}]}
    text = check(call("render", source=source))["text"]
    assert "## browser" in text
    assert "## python" in text


def test_examples_say_what_is_trainable() -> None:
    first = check(call("render", source=CHAT, ending="training"))
    assert first["examples"] == 1
    assert first["text"].endswith("Noon.<|return|>")
    assert first["messages"][-1]["dropped"].startswith("comes after")
    trainable = ENCODING.decode([label for label in labels_of(first) if label != IGNORED])
    assert trainable == (
        "<|channel|>analysis<|message|>I ask.<|end|><|start|>assistant<|channel|>commentary"
        ' to=functions.now <|constrain|>json<|message|>{"zone": "UTC"}<|call|>'
        "<|channel|>analysis<|message|>Easy.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Noon.<|return|>"
    )


def test_labels_that_are_other_tokens_are_told() -> None:
    source = conversation("ufuf").to_dict()
    result = check(call("render", source=source, ending="training"))
    ends = [span["end"] - 1 for span in result["spans"] if span["trainable"]]
    (index,) = result["labels"]
    assert int(index) in ends
    assert result["tokens"]["texts"][int(index)] == "<|end|>"
    assert ENCODING.decode(result["labels"].values()) == "<|return|>"


def test_examples_leave_out_what_their_prompt_leaves_out() -> None:
    source = conversation("uafuaf").to_dict()
    first = check(call("render", source=source, ending="training"))
    second = check(call("render", source=source, ending="training", example=1))
    assert first["examples"] == second["examples"] == 2
    reasons = [message["dropped"] for message in second["messages"]]
    assert reasons[1].endswith("example 1 trains on it")
    assert not any(reasons[2:])
    assert "example 2 trains on it" in first["messages"][4]["dropped"]


def test_a_conversation_without_trainable_messages() -> None:
    result = check(call("render", source={"input": "hi"}, ending="training"))
    prompt = check(call("render", source={"input": "hi"}))
    assert result["examples"] == 0
    assert result["tokens"]["ids"] == prompt["tokens"]["ids"][:-2]  # without the next turn
    assert not any(span["trainable"] for span in result["spans"])
    assert "no assistant message" in result["untrained"]
    assert "a prompt is not trained on" in prompt["untrained"]


@laws
@given(any_letters | likely_letters, reasonings, styles)
def test_prompts_are_those_of_the_library(
    letters: str, reasoning: Reasoning, style: HeaderStyle
) -> None:
    said = conversation(letters)
    result = call(
        "render", source=said.to_dict(), form="harmony", reasoning=reasoning, header_style=style
    )
    check(result)
    config = RenderConversationConfig(
        auto_drop_analysis=reasoning == "reference", header_style=style
    )
    expected = ENCODING.render_conversation_for_completion(said, Role.ASSISTANT, config)
    if reasoning == "by-turn":
        expected = inference_prompt(said.messages, TrainingOptions(header_style=style))
    assert result["tokens"]["ids"] == expected


@laws
@given(any_letters | likely_letters, st.sampled_from(["by-turn", "keep"]), styles)
def test_examples_are_those_of_the_library(
    letters: str, reasoning: Reasoning, style: HeaderStyle
) -> None:
    said = conversation(letters)
    options = TrainingOptions(keep_past_reasoning=reasoning == "keep", header_style=style)
    expected = training_examples(said, options)
    for index, example in enumerate(expected):
        result = call(
            "render",
            source=said.to_dict(),
            form="harmony",
            ending="training",
            reasoning=reasoning,
            header_style=style,
            example=index,
        )
        check(result)
        assert result["examples"] == len(expected)
        assert result["tokens"]["ids"] == example.input_ids
        assert labels_of(result) == example.labels
        spans = [span for span in example.spans if span.start < span.end]
        assert [
            (entry["start"], entry["end"], entry["message"], entry["kind"], entry["sampled"])
            for entry in result["spans"]
        ] == [(*span[:3], span.kind.value, span.sampled) for span in spans]


@laws
@given(st.lists(usual_messages() | odd_messages(), max_size=4))
def test_any_conversation_is_read_and_rendered(messages: list[Message]) -> None:
    said = Conversation.from_messages(messages)
    again = Conversation.from_json(said.to_json())
    status, result = send("render", {"source": said.to_dict(), "form": "harmony"})
    if status == 200:
        check(result)
        assert result["tokens"]["ids"] == inference_prompt(again.messages)
        assert result["conversation"] == again.to_dict()
    else:
        assert status == 422
        with pytest.raises(ValueError, match=r".") as caught:
            inference_prompt(again.messages)
        assert result["error"]["message"] in str(caught.value)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
@pytest.mark.parametrize("ending", ["completion", "training"])
def test_hostile_texts_stay_texts(text: str, ending: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "description": text}}
    chat = {
        "messages": [
            {"role": "system", "content": text},
            {"role": "user", "content": text},
            {"role": "assistant", "reasoning": text, "content": text},
        ],
        "tools": [tool],
    }
    result = check(call("render", source=chat, ending=ending))
    bodies = [span for span in result["spans"] if span["kind"] == "body"]
    for span in bodies:
        assert max(result["tokens"]["ids"][span["start"] : span["end"]]) < FIRST_SPECIAL
    said = result["conversation"]["messages"]
    assert said[2]["content"][0]["text"] == text
    for name in ("compare", "allowed"):
        call(name, source=chat)


def test_sampled_messages_keep_their_tokens() -> None:
    tokens = ENCODING.encode("<|channel|>final<|message|>", allowed_special="all")
    tokens += [71, 72, 200002]  # in two tokens, where one would do
    (said,) = ENCODING.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
    raw = {**said.to_dict(), "sampled_tokens": tokens}
    source = {"messages": [{"role": "user", "content": "?"}, raw]}
    for style in get_args(HeaderStyle):
        result = check(call("render", source=source, header_style=style))
        assert result["tokens"]["ids"][-8:] == [*tokens[:-1], 200007, 200006, 173781]
        assert result["conversation"]["messages"][1] == raw
    example = check(call("render", source=source, ending="training"))
    assert example["tokens"]["ids"][-6:] == tokens
    assert call("render", source=result["conversation"])["tokens"] == result["tokens"] or style


# Appending


TOOL = {"name": "now", "description": "Tells the time.", "parameters": {"type": "object"}}
REQUESTS: dict[str, dict[str, Any]] = {
    "harmony": {
        "messages": [{"role": "user", "channel": "x", "content": "hi"}],
        "tool_choice": "none",
    },
    "chat": {
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": TOOL}],
        "tool_choice": {"type": "function", "function": {"name": "now"}},
        "temperature": 0.5,
        "metadata": {"a": "b"},
    },
    "responses": {
        "input": "hi",
        "instructions": "Be brief.",
        "tools": [{"type": "function", **TOOL}],
        "tool_choice": "required",
        "max_output_tokens": 7,
    },
}
QUESTION: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "When?"}]}
CALLED: list[dict[str, Any]] = [
    {"role": "assistant", "channel": "analysis", "content": "Now."},
    {
        "role": "assistant",
        "channel": "commentary",
        "recipient": "functions.now",
        "content_type": "<|constrain|>json",
        "content": "{}",
    },
]
RESULT: dict[str, Any] = {
    "role": "tool",
    "name": "functions.now",
    "channel": "commentary",
    "recipient": "assistant",
    "content": "noon",
}
ANSWERED: list[dict[str, Any]] = [{"role": "assistant", "channel": "final", "content": "At noon."}]


@pytest.mark.parametrize("form", REQUESTS)
def test_a_turn_is_appended_in_the_format_of_its_source(form: str) -> None:
    source: dict[str, Any] = REQUESTS[form]
    before = call("render", source=source)["conversation"]["messages"]
    for messages in ([QUESTION], CALLED, [RESULT], ANSWERED, [QUESTION], CALLED, [RESULT]):
        result = call("append", source=source, messages=messages)
        assert result["form"] == form
        source = result["source"]
    name = "input" if form == "responses" else "messages"
    others = {key: value for key, value in source.items() if key != name}
    assert others == {key: value for key, value in REQUESTS[form].items() if key != name}
    rendered = check(call("render", source=source, reasoning="keep"))
    assert rendered["form"] == form
    after = rendered["conversation"]["messages"]
    assert after[: len(before)] == before
    said = [QUESTION, *CALLED, RESULT, *ANSWERED, QUESTION, *CALLED, RESULT]
    fields = ("role", "channel", "recipient", "name")
    assert [
        ([message.get(field) for field in fields], message["content"][0]["text"])
        for message in after[len(before) :]
    ] == [
        (
            [message.get(field) for field in fields],
            Message.from_dict(dict(message)).text,
        )
        for message in said
    ]


def test_clients_of_an_api_would_append_the_same() -> None:
    chat = call("append", source=REQUESTS["chat"], messages=CALLED)["source"]
    function = {"name": "now", "arguments": "{}"}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    assert chat["messages"][1:] == [{"role": "assistant", "reasoning": "Now.", "tool_calls": calls}]
    chat = call("append", source=chat, messages=[RESULT])["source"]
    assert chat["messages"][2:] == [{"role": "tool", "tool_call_id": "call_1", "content": "noon"}]
    items = call("append", source=REQUESTS["responses"], messages=CALLED)["source"]["input"]
    assert items[0] == {"role": "user", "content": "hi"}
    assert [item["type"] for item in items[1:]] == ["reasoning", "function_call"]


# Comparing


def test_header_styles_are_compared() -> None:
    table = call("compare", source=CHAT)["header_styles"]
    assert table["columns"] == ["guide", "reference", "oss-harmony"]
    assert table["totals"] == [
        len(call("render", source=CHAT, header_style=style)["tokens"]["ids"])
        for style in table["columns"]
    ]
    assert [row["message"] for row in table["rows"]] == [4, 5]
    guide, reference, oss = table["rows"][0]["cells"]
    assert guide == oss
    assert guide == [
        {
            "text": "<|start|>assistant<|channel|>commentary to=functions.now "
            '<|constrain|>json<|message|>{"zone": "UTC"}<|call|>',
            "differs": False,
        }
    ]
    assert [part["text"] for part in reference if part["differs"]] == ["", "<|channel|>commentary"]


def test_schema_dialects_are_compared_line_by_line() -> None:
    table = call("compare", source=CHAT)["schema_dialects"]
    assert table["columns"] == ["typescript", "reference"]
    (row,) = table["rows"]
    assert row["message"] == 1
    (full,), parts = row["cells"]
    assert "zone" in full["text"]
    changed = [part["text"] for part in parts if part["differs"]]
    assert changed
    assert sum(map(len, changed)) < len(full["text"]) // 2


@laws
@given(any_letters | likely_letters, reasonings, st.sampled_from(["completion", "training"]))
def test_comparisons_say_what_was_rendered(letters: str, reasoning: Reasoning, ending: str) -> None:
    body = {
        "source": conversation(letters).to_dict(),
        "form": "harmony",
        "reasoning": reasoning,
        "ending": ending,
    }
    table = call("compare", **body)["header_styles"]
    rendered = [call("render", **body, header_style=style) for style in table["columns"]]
    assert table["totals"] == [len(entry["tokens"]["ids"]) for entry in rendered]
    texts = [_texts(entry) for entry in rendered]
    rows = {row["message"]: row["cells"] for row in table["rows"]}
    for message in texts[0]:
        own = [entry[message] for entry in texts]
        assert (message in rows) == (len(set(own)) > 1)
        for text, parts in zip(own, rows.get(message, ()), strict=message in rows):
            assert "".join(part["text"] for part in parts) == text
            assert any(part["differs"] for part in parts) == (text != own[0])


def _texts(result: dict[str, Any]) -> dict[int, str]:
    texts: dict[int, str] = {}
    for span in result["spans"]:
        own = ENCODING.decode(result["tokens"]["ids"][span["start"] : span["end"]])
        texts[span["message"]] = texts.get(span["message"], "") + own
    texts.pop(len(result["messages"]), None)
    return texts


# Parsing

THOUGHT = "<|channel|>analysis<|message|>Hm 🏰.<|end|><|start|>assistant"
ANSWER = "<|channel|>final<|message|>4<|return|>"


def test_a_completion_is_read_token_by_token() -> None:
    result = call("parse", input=THOUGHT + ANSWER, role="assistant", tools=[])
    assert result["strict"] == result["lenient"]
    reading = result["strict"]
    tokens = result["tokens"]
    check_tokens(tokens)
    assert tokens["ids"] == ENCODING.encode(THOUGHT + ANSWER, allowed_special="all")
    states = [
        (change["index"], change["state"], change["channel"]) for change in reading["changes"]
    ]
    end = tokens["texts"].index("<|end|>")
    assert states == [
        (-1, "Header", None),
        (2, "Content", "analysis"),
        (end, "ExpectStart", None),
        (end + 1, "Header", None),
        (end + 5, "Content", "final"),
        (end + 7, "ExpectStart", None),
    ]
    assert reading["message_ends"] == [end, end + 7]
    assert len(reading["deltas"]) == len(tokens["ids"])
    assert "".join(filter(None, reading["deltas"][:end])) == "Hm 🏰."
    assert reading["error"] is None
    assert not reading["incomplete"]


INPUTS: dict[str, tuple[str, list[int]]] = {
    "ids": ("200005, 17196 200008", [200005, 17196, 200008]),
    "a JSON list": ("[200005,\n 17196]", [200005, 17196]),
    "text": ("<|channel|>final", [200005, 17196]),
    "nothing": ("", []),
    "an unknown id": ("300000", [300000]),
    "the longest id": ("9" * 18, [10**18 - 1]),
}


@pytest.mark.parametrize(("written", "ids"), INPUTS.values(), ids=INPUTS)
def test_ids_are_told_from_text(written: str, ids: list[int]) -> None:
    result = call("parse", input=written)
    assert result["tokens"]["ids"] == ids
    check_tokens(result["tokens"])


def test_a_whole_prompt_has_its_own_roles() -> None:
    prompt = "<|start|>user<|message|>hi<|end|>"
    result = call("parse", input=prompt, role=None)["strict"]
    assert result["changes"][0] == {
        "index": -1, "state": "ExpectStart", "role": None,
        "channel": None, "recipient": None, "content_type": None,
    }  # fmt: skip
    assert result["messages"][0]["role"] == "user"


# What is broken: where strict fails and why, and what lenient makes of it.
BROKEN: dict[str, tuple[str, int, str, list[str], list[str]]] = {
    "no message token": (
        "<|channel|>final Hello.<|return|>", 5, "Unexpected EOS", ["missing-message"], ["Hello."]
    ),
    "a stray token": (
        "<|start|>user<|message|>Hi<|end|><|end|>", 5, "Unexpected token", ["extra-stop"], ["Hi"]
    ),
    "an unknown id": (
        "200005 17196 300000 200008 19 200002", 3, "could not decode", ["unknown-token"], ["4"]
    ),
    "an end in a header": ("<|channel|>final", 2, "Unexpected EOS", [], []),
}  # fmt: skip


def test_a_strict_error_names_the_texts_of_tokens() -> None:
    error = call("parse", input="<|channel|>final<|message|>Hi<|end|>assistant")["strict"]["error"]
    assert error["detail"] == "found 'assistant', expected '<|start|>'"


@pytest.mark.parametrize(
    ("written", "position", "problem", "kinds", "texts"), BROKEN.values(), ids=BROKEN
)
def test_strict_and_lenient_stand_side_by_side(
    written: str, position: int, problem: str, kinds: list[str], texts: list[str]
) -> None:
    result = call("parse", input=written)
    strict, lenient = result["strict"], result["lenient"]
    assert strict["error"]["position"] == position
    assert problem in strict["error"]["message"]
    assert len(strict["deltas"]) == position
    assert lenient["error"] is None
    assert [entry["kind"] for entry in lenient["recoveries"]][: len(kinds)] == kinds
    assert [entry["content"][0]["text"] for entry in lenient["messages"]] == texts


def test_tools_tell_recipients() -> None:
    completion = "<|channel|>commentary to=now<|message|>{}<|call|>"
    result = call("parse", input=completion, tools=["functions.now"])["lenient"]
    assert result["messages"][0]["recipient"] == "functions.now"
    assert result["changes"][1]["recipient"] == "functions.now"


@laws
@given(
    streams | wild_streams.map(lambda ids: [abs(entry) for entry in ids]),
    st.sampled_from(["assistant", None]),
    st.sampled_from([(), ("functions.f",)]),
)
def test_readings_are_the_parsers(
    tokens: list[int], role: str | None, tools: tuple[str, ...]
) -> None:
    result = call("parse", input=json.dumps(tokens), role=role, tools=list(tools))
    assert result["tokens"]["ids"] == tokens
    check_tokens(result["tokens"])
    for name in ("strict", "lenient"):
        reading = result[name]
        strict = name == "strict"
        parser = StreamableParser(ENCODING, role, strict=strict, tools=tools)
        expected: Outcome | None = None
        try:
            expected = outcome(parser, [[token] for token in tokens])
        except OverflowError:
            assert "out of range" in reading["error"]["message"]
        else:
            assert (reading["error"] is None) == (expected.error is None)
            if expected.error is not None:
                assert reading["error"]["message"] == expected.error[0]
                assert reading["error"]["position"] == expected.error[1]
            assert reading["incomplete"] == expected.incomplete
        assert reading["messages"] == [message.to_dict() for message in parser.messages]
        assert [tuple(entry.values()) for entry in reading["recoveries"]] == [
            (kind.value, position, text) for kind, position, text in parser.recoveries
        ]
        _check_course(reading, tokens, role, tools, strict=strict)


def _check_course(
    reading: dict[str, Any],
    tokens: list[int],
    role: str | None,
    tools: tuple[str, ...],
    *,
    strict: bool,
) -> None:
    """Follow the tokens once more, and compare with what is told of each."""
    parser = StreamableParser(ENCODING, role, strict=strict, tools=tools)
    changes = {change["index"]: change for change in reading["changes"]}
    assert list(changes) == sorted(changes)
    now = changes[-1]
    texts: dict[int, str] = {}
    for index, token in enumerate(tokens[: len(reading["deltas"])]):
        before = len(parser.messages)
        parser.process(token)
        now = changes.get(index, now)
        assert (now["state"], now["channel"]) == (parser.state.value, parser.current_channel)
        assert now["recipient"] == parser.current_recipient
        assert reading["message_ends"][before : len(parser.messages)] == [index] * (
            len(parser.messages) - before
        )
        texts[index] = parser.last_content_delta or ""
    if reading["error"] is None:
        try:
            parser.process_eos()
        except TokenError:
            pytest.fail("the end is an error")
        texts[len(tokens) - 1] = texts.get(len(tokens) - 1, "") + (parser.last_content_delta or "")
    if tokens:
        assert "".join(filter(None, reading["deltas"])) == "".join(texts.values())
    assert len(reading["message_ends"]) == len(parser.messages)


# Grammars

# A completion, fields of the source, other fields; and where it leaves the grammar, if it does.
COMPLETIONS: dict[str, tuple[str, dict[str, Any], dict[str, Any], int | None, bool]] = {
    "nothing yet": ("", {}, {}, None, False),
    "an answer": (ANSWER, {}, {}, None, True),
    "thought and answer": (THOUGHT + ANSWER, {}, {}, None, True),
    "as ids": ("200005 17196 200008 19 200002", {}, {}, None, True),
    "the beginning of one": (THOUGHT, {}, {}, None, False),
    "thought where none is wanted": (THOUGHT, {}, {"reasoning": False}, 2, False),
    "more than a turn": (ANSWER + ANSWER, {}, {}, 5, False),
    "no header": ("hi", {}, {}, 0, False),
    "an unknown id": ("200005 300000", {}, {}, 1, False),
    "no call": (ANSWER, {"tool_choice": "required"}, {}, 1, False),
    "no call, and none needed": (
        ANSWER, {"tool_choice": "required"}, {"tool_choice": "auto"}, None, True
    ),
    "a call": (
        '<|channel|>commentary to=functions.now <|constrain|>json<|message|>{"zone":"UTC"}<|call|>',
        {}, {"tool_choice": {"type": "function", "name": "now"}}, None, True,
    ),
    "no JSON": (ANSWER, {"response_format": {"type": "json_object"}}, {}, 3, False),
}  # fmt: skip


@pytest.mark.parametrize(
    ("completion", "source", "fields", "position", "finished"),
    COMPLETIONS.values(),
    ids=COMPLETIONS,
)
def test_completions_stand_beside_the_grammar(
    completion: str,
    source: dict[str, Any],
    fields: dict[str, Any],
    position: int | None,
    finished: bool,
) -> None:
    result = call("allowed", source={**CHAT, **source}, completion=completion, **fields)
    tokens = result["tokens"]["ids"]
    assert result["finished"] == finished
    assert result["from"] == 0
    mismatch = find_mismatch(result["grammar"], tokens)
    if position is None:
        assert result["mismatch"] is None
        assert (mismatch is None) == finished
    else:
        assert mismatch is not None
        assert result["mismatch"]["position"] == mismatch.position == position
        assert f"token {position}" in result["mismatch"]["explanation"]
    places = len(tokens) + (not finished) if position is None else position + 1
    if position == 5:  # behind the end of the turn, nothing may stand
        places = position
    assert [step["index"] for step in result["steps"]] == list(range(places))
    for step in result["steps"]:
        _check_step(step)


def _check_step(step: dict[str, Any]) -> None:
    first = step["first"]["ids"]
    check_tokens(step["first"])
    assert len(first) == min(step["count"], 20)
    special = [token for token in first if token >= FIRST_SPECIAL]
    assert first == sorted(special) + sorted(set(first) - set(special))


def test_steps_are_counted_from_a_place() -> None:
    completion = "<|channel|>final<|message|>" + "word " * 300
    body = {"source": CHAT, "completion": completion}
    length = len(call("parse", input=completion)["tokens"]["ids"])
    assert [step["index"] for step in call("allowed", **body)["steps"]] == list(range(200))
    late = call("allowed", **body, **{"from": length - 3})["steps"]
    assert [step["index"] for step in late] == list(range(length - 3, length + 1))
    assert call("allowed", **body, **{"from": 10**6})["steps"] == []
    text = late[0]
    assert text["first"]["texts"][0] == "<|return|>"
    assert text["count"] > 190_000


def test_a_response_has_its_own_choice_and_format() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    source = {
        "input": "hi",
        "text": {"format": {"type": "json_schema", "name": "n", "schema": schema}},
        "tools": RESPONSE["tools"],
        "tool_choice": "none",
    }
    result = call("allowed", source=source, completion='<|channel|>final<|message|>{"a"')
    assert "call_0" not in result["grammar"]
    assert result["mismatch"] is None
    assert result["steps"][-1]["first"]["texts"][0].strip().startswith(":")


# Errors

LONE = {"type": "object", "description": "\ud83d"}
REFUSED: dict[str, tuple[str, Any, int, str | None, str]] = {
    "no JSON": ("render", "{", 400, None, "the body is no JSON"),
    "no UTF-8": ("render", b"\xff", 400, None, "the body is no JSON"),
    "NaN": ("render", '{"source": NaN}', 400, None, "NaN is not JSON"),
    "infinity": ("render", '{"source": 1e999}', 400, None, "too large"),
    "too many digits": ("render", f'{{"source": {"9" * 5000}}}', 400, None, "no JSON"),
    "too deep": ("render", "[" * 100_000, 400, None, "nested too deeply"),
    "deep": ("render", '{"source":' + '{"a":' * 500 + "1" + "}" * 501, 422, None, "source is nes"),
    "a list": ("render", [], 422, None, "expected an object"),
    "no source": ("render", {}, 422, "source", "missing"),
    "another field": ("render", {"source": {}, "colour": 1}, 422, "colour", "not permitted"),
    "a text": ("render", {"source": "hi"}, 422, "source", "a list of messages"),
    "nothing known": ("render", {"source": {"a": 1}}, 422, None, "expected messages"),
    "a response": ("render", {"source": {"choices": []}}, 422, None, "this is a response"),
    "another form": ("render", {"source": {}, "form": "x"}, 422, "form", "'harmony'"),
    "the wrong form": ("render", {"source": {"input": "hi"}, "form": "chat"}, 422, "messages", ""),
    "a role": ("render", {"source": {"messages": [{"role": "x"}]}}, 422, "messages[0].role", "use"),
    "a message": (
        "render", {"source": {"messages": [1], "form": 1}, "form": "harmony"}, 422,
        "messages[0]", "expected an object",
    ),
    "a harmony role": (
        "render", {"source": {"messages": [{"role": "x", "content": ""}]}, "form": "harmony"},
        422, "messages[0].role", "'developer'",
    ),
    "an input": ("render", {"source": {"input": [{"type": "x"}]}}, 422, "input[0].type", ""),
    "something stored": (
        "render", {"source": {"input": "hi", "previous_response_id": "resp_1"}}, 422,
        "previous_response_id", "nothing is stored here",
    ),
    "a conversation": (
        "render", {"source": {"input": "hi", "conversation": {"id": "conv_1"}}}, 422,
        "conversation", "nothing is stored here",
    ),
    "no date": ("render", {"source": CHAT, "date": "tomorrow"}, 422, "date", "YYYY-MM-DD"),
    "no day": ("render", {"source": CHAT, "date": "2025-02-30"}, 422, "date", "YYYY-MM-DD"),
    "a date for harmony": (
        "render", {"source": HARMONY, "date": "2025-06-28"}, 422, "date", "conversation_start_date"
    ),
    "a style": ("render", {"source": CHAT, "header_style": "x"}, 422, "header_style", "'guide'"),
    "an example": (
        "render", {"source": CHAT, "ending": "training", "example": 7}, 422, "example",
        "there is no example 7; the conversation makes 1",
    ),
    "an example below 0": (
        "render", {"source": CHAT, "example": -1}, 422, "example", "a number from 0",
    ),
    "a surrogate in a schema": (
        "render",
        {"source": {"messages": [], "tools": [
            {"type": "function", "function": {"name": "f", "parameters": LONE}}]}},
        422, "tools/functions.f#", "lone surrogate",
    ),
    "tokens of another message": (
        "render", {"source": {"messages": [
            {"role": "assistant", "channel": "final", "content": "a", "sampled_tokens": [1]}]}},
        422, "messages[0].sampled_tokens", "say another message",
    ),
    "no tokens": (
        "render", {"source": {"messages": [
            {"role": "assistant", "channel": "final", "content": "a", "sampled_tokens": "a"}]}},
        422, "messages[0].sampled_tokens", "expected a list of token ids",
    ),
    "a long number": ("parse", {"input": "1" * 30}, 422, None, "expected token ids"),
    "another role": ("parse", {"input": "", "role": "bot"}, 422, "role", "'assistant'"),
    "no input": ("parse", {}, 422, "input", "missing"),
    "a choice": (
        "allowed", {"source": CHAT, "tool_choice": {"type": "function", "name": "no"}}, 422, None,
        "'no' is not declared; declared tools: functions.now",
    ),
    "a choice of the source": (
        "allowed", {"source": {**CHAT, "tool_choice": "maybe"}}, 422, "tool_choice", "none, auto"
    ),
    "a schema": (
        "allowed", {"source": {**CHAT, "tools": [{"type": "function", "function": {
            "name": "f", "parameters": {"properties": {"a": {"uniqueItems": True}}}}}]}},
        422, "tools/functions.f#/properties/a/uniqueItems", "cannot enforce",
    ),
    "a place": ("allowed", {"source": CHAT, "from": -1}, 422, "from", "a number from 0"),
    "a result without a call": (
        "append", {"source": {"input": "hi"}, "messages": [RESULT]}, 422, "messages",
        "there is no call without a result",
    ),
    "a system message for a request": (
        "append", {"source": CHAT, "messages": [{"role": "system", "content": "x"}]}, 422,
        "messages", "of the user, the assistant or a tool",
    ),
    "no format": ("export", {"source": CHAT}, 422, "format", "missing"),
    "nothing trainable": (
        "export", {"source": {"input": "hi"}, "ending": "training", "format": "python"}, 422,
        "ending", "no message of this conversation is trainable",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "body", "status", "param", "problem"), REFUSED.values(), ids=REFUSED
)
def test_errors_name_the_field_and_the_remedy(
    name: str, body: Any, status: int, param: str | None, problem: str
) -> None:
    result, answer = send(name, body)
    assert result == status, answer
    assert answer["error"]["param"] == param, answer
    assert problem in answer["error"]["message"], answer


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["assistant", "function", "json_schema", "final", *HOSTILE]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "name", "messages", "text"]) | st.text(),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)

BODIES: dict[str, dict[str, Any]] = {
    "render": {"source": CHAT, "form": "auto", "ending": "training", "date": "2025-06-28"},
    "compare": {"source": RESPONSE, "reasoning": "keep", "header_style": "reference"},
    "parse": {"input": THOUGHT + ANSWER, "role": "assistant", "tools": ["functions.now"]},
    "allowed": {"source": CHAT, "completion": ANSWER, "tool_choice": "auto", "from": 1},
    "export": {"source": HARMONY, "format": "python", "schema_dialect": "reference"},
    "append": {"source": CHAT, "messages": [QUESTION, *CALLED, RESULT]},
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [path, *(place for key, entry in items for place in _places(entry, (*path, key)))]


def _replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = _replaced(copy[path[0]], path[1:], new)
    return copy


@st.composite
def changed_bodies(draw: st.DrawFn) -> tuple[str, Any]:
    """Bodies with anything at one or two places."""
    name = draw(st.sampled_from(sorted(BODIES)))
    body: Any = BODIES[name]
    if name in ("render", "compare", "export", "append"):
        body = {**body, "source": draw(st.sampled_from([CHAT, RESPONSE, HARMONY]))}
    for _ in range(draw(st.integers(1, 2))):
        body = _replaced(body, draw(st.sampled_from(_places(body))), draw(json_values))
    return name, body


@settings(max_examples=examples(400))
@given(changed_bodies() | st.tuples(st.sampled_from(sorted(BODIES)), json_values))
def test_any_json_is_answered(request: tuple[str, Any]) -> None:
    """The client raises what an endpoint raises; there is no answer with 500."""
    name, body = request
    status, answer = send(name, json.dumps(body))
    assert status in (200, 422), answer
    if status == 422:
        assert answer["error"]["message"]
