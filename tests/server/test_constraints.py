"""Constraints of requests, in the fields of several servers: enforced, or refused by name."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gpt_oss_harmony.apis import ChatRequest, turn_of_chat
from gpt_oss_harmony.apis.requested_reasoning import message_limits
from gpt_oss_harmony.engines import FinishReason, SampledToken, Sampling
from gpt_oss_harmony.grammar import Matcher
from support.chat_server import HI, NOW, chat, chunks, joined
from support.responses_server import NOW as FLAT_NOW
from support.responses_server import RUN, create, serving, stream
from support.scripted_engine import ENCODING, ScriptedEngine

THINK = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
SAY = "<|channel|>final<|message|>{}<|return|>"
LARK = {"type": "grammar", "syntax": "lark", "definition": 'start: "{" /[^}]*/ "}"'}
REGEX = {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"}


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture(scope="module")
def client(engine: ScriptedEngine) -> Iterator[TestClient]:
    with serving(engine=engine) as client:
        yield client


def accepts(sampling: Sampling, text: str) -> bool:
    assert sampling.grammar is not None
    tokens = ENCODING.encode(text, allowed_special="all")
    return Matcher(sampling.grammar).accept_all(tokens) == len(tokens)


# White space, and the limit on tokens

PRINTED = '{\n  "a": 1\n}'
OBJECT: dict[str, Any] = {"type": "json_schema", "name": "o", "schema": {"type": "object"}}
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("responses", {"input": "hi", "text": {"format": OBJECT}}),
    ("chat/completions", {"messages": HI, "response_format": {"type": "json_object"}}),
    ("messages", {"messages": HI, "max_tokens": 90, "output_format": OBJECT}),
]
SPELLED = {
    # the white space: the spellings that it allows
    None: ('{"a":1}', '{"a": 1}'),
    "compact": ('{"a":1}',),
    "indented": ('{"a": 1}', PRINTED),
    "flexible": ('{"a":1}', '{"a": 1}', PRINTED),
}


@pytest.mark.parametrize(("path", "body"), ASKED, ids=[path for path, _ in ASKED])
@pytest.mark.parametrize("whitespace", SPELLED)
def test_requests_name_their_white_space(
    client: TestClient,
    engine: ScriptedEngine,
    path: str,
    body: dict[str, Any],
    whitespace: str | None,
) -> None:
    engine.completions = [SAY.format("{}")]
    answer = client.post(f"/v1/{path}", json={**body, "json_whitespace": whitespace})
    assert answer.status_code == 200, answer.text
    allowed = [
        text
        for text in ('{"a":1}', '{"a": 1}', PRINTED)
        if accepts(engine.samplings[-1], SAY.format(text))
    ]
    assert allowed == list(SPELLED[whitespace])


def test_a_server_names_white_space_and_the_work_for_schemas() -> None:
    engine = ScriptedEngine(SAY.format("{}"), SAY.format("{}"))
    with serving(engine=engine, json_whitespace="indented", schema_steps=1) as client:
        chat(client, response_format={"type": "json_object"})
        assert accepts(engine.samplings[-1], SAY.format(PRINTED))
        listed = {"type": "array", "uniqueItems": True, "maxItems": 3, "items": {"enum": [1, 2]}}
        wanted = {"type": "json_schema", "json_schema": {"name": "l", "schema": listed}}
        answer = client.post(
            "/v1/chat/completions", json={"messages": HI, "response_format": wanted}
        )
        assert answer.headers["Harmony-Unenforced"] == "response_format#"


TAG: dict[str, Any] = {"type": "structural_tag", "triggers": ["<f="]}
TAG["structures"] = [{"begin": "<f=now>", "schema": {"type": "object"}, "end": "</f>"}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("chat/completions", {"messages": HI, "response_format": TAG}),
        ("chat/completions", {"messages": HI, "structured_outputs": {"structural_tag": TAG}}),
        ("responses", {"input": "hi", "structured_outputs": {"structural_tag": json.dumps(TAG)}}),
    ],
)
def test_structural_tags_are_read(
    client: TestClient, engine: ScriptedEngine, path: str, body: dict[str, Any]
) -> None:
    engine.completions = [SAY.format("Hi.")]
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    assert accepts(engine.samplings[-1], SAY.format("It is <f=now>{}</f>."))
    assert not accepts(engine.samplings[-1], SAY.format("It is <f=now>[]</f>."))


def test_a_header_names_what_allows_too_few_values(
    client: TestClient, engine: ScriptedEngine
) -> None:
    engine.completions = [SAY.format("1")]
    wide = {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": wide}}
    answer = client.post("/v1/chat/completions", json={"messages": HI, "response_format": wanted})
    assert answer.headers["Harmony-Narrowed"] == "response_format#/maximum"
    assert "Harmony-Unenforced" not in answer.headers


class ClosingEngine(ScriptedEngine):
    """Says that it ends turns in time."""

    closes_in_time = True


@pytest.mark.parametrize(("path", "body"), ASKED, ids=[path for path, _ in ASKED])
def test_a_request_or_a_server_ends_answers_in_time(path: str, body: dict[str, Any]) -> None:
    for settings, fields in (({}, {"close_in_time": True}), ({"close_in_time": True}, {})):
        engine = ClosingEngine(SAY.format("{}"))
        with serving(engine=engine, **settings) as client:
            answer = client.post(f"/v1/{path}", json={**body, **fields})
        assert answer.status_code == 200, answer.text
        assert engine.samplings[-1].close_in_time


def test_an_engine_that_cannot_end_in_time_refuses_a_request_but_no_setting() -> None:
    with serving(SAY.format("{}"), close_in_time=True) as client:
        wanted = {"messages": HI, "response_format": {"type": "json_object"}}
        answer = client.post("/v1/chat/completions", json={**wanted, "close_in_time": True})
        assert answer.status_code == 400
        assert "cannot end a turn within max_tokens" in answer.json()["error"]["message"]
        assert client.post("/v1/chat/completions", json=wanted).status_code == 200


# Reasoning


class BroodingEngine(ScriptedEngine):
    """Reasons for as long as the grammar lets it, message after message."""

    liked = tuple(
        ENCODING.encode(text, allowed_special="all")[0]
        for text in ("<|channel|>", "analysis", "<|message|>", " hm", "{", "}", "<|call|>")
    )

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        matcher = Matcher(sampling.grammar or "")
        for count in range(1, max_tokens + 1):
            mask = matcher.bitmask()
            liked = [token for token in self.liked if mask[token // 8] >> token % 8 & 1]
            token = liked[0] if liked else matcher.allowed_tokens()[0]
            matcher.accept(token)
            reason = FinishReason.STOP if matcher.is_finished else None
            if count == max_tokens:
                reason = reason or FinishReason.LENGTH
            yield SampledToken(token, finish_reason=reason)
            if reason is not None:
                return


@pytest.mark.parametrize("effort", ["low", "medium", "high"])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "now"}])
def test_a_turn_that_only_wants_to_reason_ends_with_its_call(effort: str, choice: Any) -> None:
    with serving(engine=BroodingEngine()) as client:
        response = create(
            client,
            input="hi",
            tools=[FLAT_NOW],
            tool_choice=choice,
            reasoning={"effort": effort},
            max_output_tokens=300,
        )
    assert response["status"] == "completed"
    *before, call = response["output"]
    assert call["type"] == "function_call"
    assert {item["type"] for item in before} == {"reasoning"}
    share = {"low": 64, "medium": 128, "high": 192}[effort]
    thoughts = response["usage"]["output_tokens_details"]["reasoning_tokens"]
    assert share // 2 < thoughts <= share + 6 * 4  # and the headers of four messages


LIMITS: list[tuple[dict[str, Any], int, tuple[int, ...]]] = [
    ({}, 4096, (1536, 256, 128, 128)),
    ({}, 8191, (2688, 448, 224, 224)),
    ({"reasoning_effort": "low"}, 4096, (768, 128, 64, 64)),
    ({"reasoning_effort": "high"}, 4096, (2304, 384, 192, 192)),
    ({"thinking_token_budget": 160}, 4096, (120, 20, 10, 10)),
    ({"reasoning": {"max_tokens": 10_000}}, 4096, (2304, 384, 192, 192)),
    ({"thinking_token_budget": 0}, 4096, ()),
    ({"thinking_token_budget": -1}, 4096, (1536, 256, 128, 128)),
    ({"reasoning": {"enabled": False}}, 4096, ()),
    ({"chat_template_kwargs": {"enable_thinking": False}}, 4096, ()),
    ({}, 1, ()),
    ({}, 10, (3,)),
]


@pytest.mark.parametrize(("fields", "room", "limits"), LIMITS)
def test_reasoning_leaves_room(fields: dict[str, Any], room: int, limits: tuple[int, ...]) -> None:
    turn = turn_of_chat(ChatRequest(messages=HI, **fields))
    assert message_limits(room, turn.effort, turn.reasoning_tokens) == limits
    assert sum(limits) <= room * 3 // 4


EFFORTS: list[dict[str, Any]] = [
    {"reasoning_effort": "high"},
    {"reasoning": {"effort": "high"}},
    {"chat_template_kwargs": {"reasoning_effort": "high"}},
    {"reasoning_effort": "high", "reasoning": {"effort": "high"}},
]


@pytest.mark.parametrize("fields", EFFORTS)
def test_the_effort_has_several_names(
    client: TestClient, engine: ScriptedEngine, fields: dict[str, Any]
) -> None:
    engine.completions = [SAY, SAY]
    chat(client, **fields)
    assert "Reasoning: high" in engine.prompts[-1]
    assert create(client, input="hi", **fields)["reasoning"]["effort"] == "high"
    assert "Reasoning: high" in engine.prompts[-1]


@pytest.mark.parametrize("fields", [{"include_reasoning": False}, {"reasoning": {"exclude": True}}])
def test_a_chat_may_hide_reasoning(
    client: TestClient, engine: ScriptedEngine, fields: dict[str, Any]
) -> None:
    engine.completions = [THINK + SAY.format("Hi."), THINK + SAY.format("Hi.")]
    message = chat(client, **fields)["choices"][0]["message"]
    assert (message["content"], message["reasoning"]) == ("Hi.", None)
    (choice,) = joined(chunks(client, **fields)).values()
    assert choice["message"] == {"role": "assistant", "content": "Hi."}


LONG = "First, we add. Is 2 + 2 = 4.0? Yes!\n\nThen, we say it. Done."
SUMMARIES = [
    ({"summary": "concise"}, "First, we add."),
    ({"summary": "auto"}, "First, we add. Is 2 + 2 = 4.0? Yes!"),
    ({"generate_summary": "detailed"}, "First, we add.\n\nThen, we say it."),
    ({"summary": None}, None),
]


@pytest.mark.parametrize(("reasoning", "summary"), SUMMARIES)
def test_reasoning_is_summarised_by_its_own_sentences(
    client: TestClient, engine: ScriptedEngine, reasoning: dict[str, Any], summary: str | None
) -> None:
    engine.completions = [THINK.replace("Hm.", LONG) + SAY.format("4"), SAY]
    events = stream(client, input="hi", reasoning=reasoning)
    response = events[-1]["response"]
    first = response["output"][0]
    texts = [] if summary is None else [{"type": "summary_text", "text": summary}]
    assert (first["summary"], first["content"][0]["text"]) == (texts, LONG)
    told = [event for event in events if "reasoning_summary" in event["type"]]
    assert [event["type"].partition("summary_")[2] for event in told] == (
        ["part.added", "text.delta", "text.done", "part.done"] if texts else []
    )
    # Clients send it back without its content; the model reads the reasoning, not its summary.
    sent = [
        {"role": "user", "content": "hi"},
        {**first, "content": None},
        {"type": "function_call", "call_id": "c", "name": "now", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "1"},
    ]
    create(client, input=sent, tools=[FLAT_NOW])
    assert f"<|message|>{LONG}<|end|>" in engine.prompts[-1]


# The form of the answer

FORMS: list[tuple[dict[str, Any], str, str]] = [
    ({"guided_json": {"type": "integer"}}, "12", "a"),
    ({"guided_json": '{"type": "integer"}'}, "12", "a"),
    ({"guided_regex": "[0-9]+"}, "12", "a"),
    ({"guided_choice": ["yes", "no"]}, "no", "maybe"),
    ({"guided_grammar": 'root ::= "a" | "b"'}, "b", "c"),
    ({"structured_outputs": {"json": {"type": "integer"}}}, "12", "a"),
    ({"structured_outputs": {"regex": "[0-9]+"}}, "12", "a"),
    ({"structured_outputs": {"choice": ["yes", "no"], "json": None}}, "no", "maybe"),
    ({"structured_outputs": {"grammar": 'start: "a" | "b"'}}, "b", "c"),
    ({"structured_outputs": {"json_object": True}}, "{}", "a"),
]


@pytest.mark.parametrize(("fields", "right", "wrong"), FORMS)
def test_the_form_of_the_answer_has_several_names(
    client: TestClient, engine: ScriptedEngine, fields: dict[str, Any], right: str, wrong: str
) -> None:
    engine.completions = [SAY, SAY]
    chat(client, **fields)
    create(client, input="hi", **fields)
    for sampling in engine.samplings[-2:]:
        assert accepts(sampling, THINK + SAY.format(right))
        assert not accepts(sampling, SAY.format(wrong))


# Custom tools


def test_a_grammar_of_a_custom_tool_is_enforced(client: TestClient, engine: ScriptedEngine) -> None:
    """Calls carry the text as it is, so that a text like the JSON of other tools is unharmed."""
    header = "<|channel|>commentary to=functions.run code<|message|>"
    text = '{"input": "1"}'
    flat = {**RUN, "format": LARK}
    engine.completions = [f"{header}{text}<|call|>"] * 4
    response = create(client, input="hi", tools=[flat])
    assert [item["input"] for item in response["output"]] == [text]
    assert not accepts(engine.samplings[-1], f"{header}no")
    assert accepts(engine.samplings[-1], f"{header}{text}<|call|>")
    assert "The input follows this grammar (lark):" in engine.prompts[-1]
    assert "type run = (_: string) => any;" in engine.prompts[-1]
    events = stream(client, input="hi", tools=[flat])
    deltas = [event["delta"] for event in events if event["type"].endswith("input.delta")]
    assert "".join(deltas) == text
    nested = {"type": "custom", "custom": {"name": "run", "format": {**LARK, "grammar": LARK}}}
    message = chat(client, tools=[nested])["choices"][0]["message"]
    assert message["tool_calls"][0]["custom"]["input"] == text
    body = {"messages": HI, "tools": [nested], "stream": True}
    sent = client.post("/v1/chat/completions", json=body).text.split("\n\n")[:-2]
    (choice,) = joined([json.loads(event.removeprefix("data: ")) for event in sent]).values()
    assert choice["message"]["tool_calls"][0]["custom"]["input"] == text


def test_earlier_calls_of_a_custom_tool_are_shown_as_its_calls_are(
    client: TestClient, engine: ScriptedEngine
) -> None:
    engine.completions = [SAY]
    items = [
        {"role": "user", "content": "hi"},
        {"type": "custom_tool_call", "call_id": "call_1", "name": "run", "input": "12"},
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "ok"},
    ]
    create(client, input=items, tools=[{**RUN, "format": REGEX}])
    assert "<|channel|>commentary to=functions.run code<|message|>12<|call|>" in engine.prompts[-1]


# Refused by name

CHAT_REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"guided_regex": "a", "guided_json": {}}, "guided_regex"),
    ({"guided_regex": "a", "response_format": {"type": "json_object"}}, "guided_regex"),
    ({"guided_choice": []}, "guided_choice"),
    ({"guided_json": "{"}, "guided_json"),
    ({"structured_outputs": {"structural_tag": "{"}}, "structured_outputs.structural_tag"),
    ({"structured_outputs": {"choice_object": {}}}, "structured_outputs.choice_object"),
    ({"structured_outputs": {"regex": 3}}, "structured_outputs.regex"),
    ({"reasoning_effort": "low", "reasoning": {"effort": "high"}}, "reasoning.effort"),
    ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
    ({"chat_template_kwargs": {"builtin_tools": []}}, "chat_template_kwargs.builtin_tools"),
    ({"thinking_token_budget": "many"}, "thinking_token_budget"),
    ({"min_tokens": 3}, "min_tokens"),
    ({"bad_words": ["no"]}, "bad_words"),
    ({"ignore_eos": True}, "ignore_eos"),
    ({"logit_bias": {"1": 2}}, "logit_bias"),
    ({"modalities": ["audio"]}, "modalities"),
    ({"function_call": "auto"}, "function_call"),
    ({"web_search_options": {}}, "web_search_options"),
    ({"tools": [{"type": "teleport"}]}, "tools[0].type"),
]
RESPONSES_REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"include": ["reasoning.secrets"]}, "include[0]"),
    ({"include_reasoning": False}, "include_reasoning"),
    ({"tools": [FLAT_NOW, {"type": "teleport"}]}, "tools[1].type"),
    ({"tools": [{**RUN, "format": {**LARK, "syntax": "yacc"}}]}, "tools[0].format.syntax"),
    ({"tools": [{**RUN, "format": {"type": "xml"}}]}, "tools[0].format.type"),
    (
        {"tools": [{**RUN, "format": {**LARK, "definition": "start: <|call|>"}}]},
        "tools/functions.run#/format/definition",
    ),
    ({"input": [{"type": "reasoning", "encrypted_content": "x"}]}, "input[0].encrypted_content"),
    (
        {"input": [{"type": "reasoning", "summary": [], "encrypted_content": "hr1.AAAA"}]},
        "input[0].encrypted_content",
    ),
    ({"min_tokens": 3}, "min_tokens"),
]


@pytest.mark.parametrize(("fields", "param"), CHAT_REFUSALS, ids=str)
def test_chat_names_what_it_cannot_do(
    client: TestClient, fields: dict[str, Any], param: str
) -> None:
    answer = client.post("/v1/chat/completions", json={"messages": HI, **fields})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize(("fields", "param"), RESPONSES_REFUSALS, ids=str)
def test_responses_name_what_they_cannot_do(
    client: TestClient, fields: dict[str, Any], param: str
) -> None:
    answer = client.post("/v1/responses", json={"input": "hi", **fields})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param


def test_values_without_effect_are_accepted(client: TestClient, engine: ScriptedEngine) -> None:
    engine.completions = [SAY]
    harmless = {"min_tokens": 0, "bad_words": [], "ignore_eos": False, "modalities": ["text"]}
    assert chat(client, tools=[NOW], include_reasoning=True, **harmless)["choices"]
