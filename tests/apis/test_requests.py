"""The bodies of requests: what they take, what is said about wrong ones, what they need."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import completion_create_params as chat_params
from openai.types.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase

import gpt_oss_harmony
from gpt_oss_harmony import ConversationError
from gpt_oss_harmony.apis import (
    ChatRequest,
    CompletionRequest,
    MessagesRequest,
    RequestBody,
    ResponsesRequest,
    field_path,
    read_body,
    turn_of_chat,
)
from gpt_oss_harmony.apis.request_body import ReasoningSettings, SamplingFields
from gpt_oss_harmony.engines import Sampling

MESSAGES = [{"role": "user", "content": "hi"}]
MINIMAL: dict[type[RequestBody], dict[str, Any]] = {
    ResponsesRequest: {"input": "hi"},
    ChatRequest: {"messages": MESSAGES},
    CompletionRequest: {"prompt": "hi"},
}
BODIES = list(MINIMAL)


@pytest.mark.parametrize("name", ["inputs", "imput", "Input"])
def test_a_misspelt_input_is_named(name: str) -> None:
    sent = {name: "hi", "previous_response_id": "resp_1"}
    with pytest.raises(ConversationError, match=f"^input: the field is missing, .* '{name}'"):
        read_body(ResponsesRequest, sent)


# Wrong fields, and what is said about them; where pydantic says it, only their place.
SHARED_ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": "1"}, "temperature"),
    ({"temperature": float("nan")}, "temperature"),
    ({"top_p": -0.1}, "top_p"),
    ({"seed": 2**63}, "seed"),
    ({"stop": 3}, "stop"),
    ({"stop": ["a", ""]}, "stop[1]"),
    ({"stop": ["a"] * 17}, "stop"),
    ({"stream": "yes"}, "stream"),
    ({"max_tokens": -1}, "max_tokens"),
]
RESPONSES_ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"input": 3}, "input: expected text or a list of items"),
    ({"input": [{}, 3]}, "input: expected a list of objects; item 1 is not an object"),
    ({"input": "a", "messages": "b"}, "messages: this is another name for input; "
     "send one of the two"),
    ({"previous_response_id": "resp_1", "conversation": "conv_1"},
     "conversation: send previous_response_id or conversation, not both"),
    ({"conversation": {"id": 3}}, "conversation"),
    ({"store": False, "background": True},
     "background: a response in the background is stored; leave store out"),
    ({"prompt": {"id": "pmpt_1"}},
     "prompt: stored prompts are not supported; send instructions and input"),
    ({"metadata": {"a": 3}}, "metadata.a"),
    ({"metadata": {"a" * 65: ""}},
     f"metadata.{'a' * 65}"),
    ({"metadata": {"a": "b" * 513}}, "metadata.a"),
    ({"metadata": {str(index): "" for index in range(17)}},
     "metadata"),
    ({"top_logprobs": 21}, "top_logprobs"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"reasoning": {"effort": "extreme"}}, "reasoning.effort"),
    ({"truncation": "some"}, "truncation"),
    ({"tools": [3]}, "tools[0]"),
    ({"text": {"verbosity": "chatty"}},
     "text.verbosity"),
]  # fmt: skip
CHAT_ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"messages": None}, "messages"),
    ({"messages": []}, "messages"),
    ({"n": 0}, "n"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"logit_bias": {"1": 2}}, "logit_bias: no engine supports this setting; leave it out"),
    ({"top_logprobs": 2}, "top_logprobs: it needs logprobs; set logprobs to true"),
]
COMPLETION_ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"prompt": None}, "prompt: expected text, token ids, or a list of one of them"),
    ({"prompt": []}, "prompt"),
    ({"prompt": ["a", 3]}, "prompt[1]: it is neither text nor a list of token ids"),
    ({"prompt": [[1], [-1]]}, "prompt[1]: it is neither text nor a list of token ids"),
    ({"prompt": ""}, "prompt: the prompt is empty; send at least one token"),
    ({"prompt": ["", "a"]}, "prompt[0]: the prompt is empty; send at least one token"),
    ({"prompt": [[1], []]}, "prompt[1]: the prompt is empty; send at least one token"),
    ({"prompt": [[]]}, "prompt[0]: the prompt is empty; send at least one token"),
    ({"suffix": "a"}, "suffix: the model can only continue texts; leave it out"),
    ({"best_of": 2}, "best_of: the server does not compare choices; leave it out"),
    ({"logit_bias": {"1": 2}}, "logit_bias: no engine supports this setting; leave it out"),
]
ERRORS = [
    *((body, *error) for body in BODIES for error in SHARED_ERRORS),
    *((ResponsesRequest, *error) for error in RESPONSES_ERRORS),
    *((ChatRequest, *error) for error in CHAT_ERRORS),
    *((CompletionRequest, *error) for error in COMPLETION_ERRORS),
]


@pytest.mark.parametrize(("body", "fields", "problem"), ERRORS)
def test_errors_name_the_field(
    body: type[RequestBody], fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConversationError) as caught:
        read_body(body, {**MINIMAL[body], **fields})
    assert str(caught.value).startswith(problem)
    assert caught.value.field == problem.partition(": ")[0]


def test_a_body_is_an_object() -> None:
    with pytest.raises(ConversationError, match=r"^expected an object, found list$"):
        read_body(ChatRequest, [])


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("body", BODIES)
def test_bodies_are_not_nested_too_deeply(body: type[RequestBody]) -> None:
    read_body(body, {**MINIMAL[body], "user": None, "more": nested(200)})
    for levels in (201, 100_000):
        with pytest.raises(ConversationError, match=r"^more is nested deeper than 200 levels"):
            read_body(body, {**MINIMAL[body], "more": nested(levels)})


@pytest.mark.parametrize("body", BODIES)
def test_null_is_the_same_as_nothing(body: type[RequestBody]) -> None:
    others = set(body.model_fields) - set(MINIMAL[body])
    assert read_body(body, {**MINIMAL[body], **dict.fromkeys(others)}) == read_body(
        body, MINIMAL[body]
    )


@pytest.mark.parametrize("body", BODIES)
def test_unknown_fields_are_ignored(body: type[RequestBody]) -> None:
    fields = {**MINIMAL[body], "client_data": {"a": 1}, "input_": 3}
    assert read_body(body, fields) == read_body(body, MINIMAL[body])


@pytest.mark.parametrize("body", BODIES)
def test_nothing_is_streamed_unless_asked_for(body: type[RequestBody]) -> None:
    assert not read_body(body, MINIMAL[body]).model_dump()["stream"]


@pytest.mark.parametrize("body", BODIES)
def test_bodies_are_documented(body: type[RequestBody]) -> None:
    schema = body.model_json_schema()
    assert set(schema["properties"]) == set(body.model_fields)
    assert schema["description"]


# Fields of the API that say nothing about the answer here.
IGNORED = {
    "access_programs", "background_options", "context_management", "image", "moderation",
    "prompt_cache_options",
}  # fmt: skip
CHAT_IGNORED = {
    "audio", "function_call", "modalities", "moderation", "prediction", "prompt_cache_options",
    "prompt_cache_retention", "web_search_options",
}  # fmt: skip


def test_every_field_of_the_api_is_known() -> None:
    """A new version of the SDK shows here what the API has got."""
    asked = set(ResponseCreateParamsBase.__annotations__)
    assert asked - IGNORED <= set(ResponsesRequest.model_fields)
    chat = set(chat_params.CompletionCreateParamsBase.__annotations__)
    assert chat - CHAT_IGNORED <= set(ChatRequest.model_fields)
    plain = set(CompletionCreateParamsBase.__annotations__)
    assert plain <= set(CompletionRequest.model_fields)


# What bodies mean


@pytest.mark.parametrize(
    ("sent", "prompts"),
    [
        ("hi", ["hi"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [[1, 2]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
        (["a", [1]], ["a", [1]]),
    ],
)
def test_prompts(sent: object, prompts: list[Any]) -> None:
    assert CompletionRequest.model_validate({"prompt": sent}).prompt == prompts


@pytest.mark.parametrize("sent", ["conv_1", {"id": "conv_1"}])
def test_a_conversation_is_an_id(sent: object) -> None:
    assert ResponsesRequest.model_validate({"conversation": sent}).conversation == "conv_1"


@pytest.mark.parametrize(
    ("fields", "limit"),
    [({}, None), ({"max_tokens": 3}, 3), ({"max_output_tokens": 4, "max_tokens": 3}, 4)],
)
def test_token_limits(fields: dict[str, Any], limit: int | None) -> None:
    request = ResponsesRequest.model_validate(fields)
    assert request.token_limit == request.sampling(Sampling(max_tokens=limit)).max_tokens == limit
    names = {"max_output_tokens": "max_completion_tokens"}
    chat = {names.get(name, name): value for name, value in fields.items()}
    assert ChatRequest.model_validate({"messages": MESSAGES, **chat}).token_limit == limit


def test_the_server_may_limit_tokens() -> None:
    assert ResponsesRequest(input="hi").sampling(Sampling(max_tokens=7)).max_tokens == 7


@given(st.lists(st.sampled_from(["input", "content", 0, 12, "[key]"])))
def test_paths_name_every_part(location: list[str | int]) -> None:
    path = field_path(location)
    shown = [part for part in location if part != "[key]"]
    assert path.replace("]", "").replace("[", ".").lstrip(".") == ".".join(map(str, shown))


# Short chats

SHORT = [
    ResponsesRequest(input="hi", instructions="Be brief.", temperature=0, store=False),
    ResponsesRequest(input=[{"type": "message", **MESSAGES[0]}], stream=True),
    ResponsesRequest(messages=MESSAGES, reasoning=ReasoningSettings(effort="high")),
    ChatRequest(messages=MESSAGES, stop=["."], n=2),
    ChatRequest(messages=[*MESSAGES, {"role": "assistant", "content": "x" * 3700}]),
    MessagesRequest(messages=MESSAGES, max_tokens=10, system="Be brief."),
]
LONGER = [
    ResponsesRequest(input="x" * 4000),
    ResponsesRequest(input="hi", instructions="x" * 4000),
    ResponsesRequest(input=MESSAGES * 41),
    ResponsesRequest(input="hi", tools=[]),
    ResponsesRequest(input="hi", previous_response_id="resp_1"),
    ResponsesRequest(input="hi", conversation="conv_1"),
    ResponsesRequest(input=[{"type": "item_reference", "id": "msg_1"}]),
    ResponsesRequest(input=[{**MESSAGES[0], "id": "msg_1"}]),
    ResponsesRequest(input=[{"role": "user", "content": [{"type": "input_file"}]}]),
    ResponsesRequest(input=[{"role": "user"}]),
    ResponsesRequest.model_validate({"input": "hi", "text": {"format": {"type": "json_object"}}}),
    ResponsesRequest.model_validate({"input": "hi", "guided_regex": "a"}),
    ChatRequest(messages=[*MESSAGES, {"role": "tool", "tool_call_id": "1", "content": "2"}]),
    ChatRequest(messages=MESSAGES, response_format={"type": "json_object"}),
    MessagesRequest(messages=MESSAGES, system=[{"type": "text", "text": "Be brief."}]),
]


@pytest.mark.parametrize("request_", SHORT)
def test_a_short_chat_is_texts_alone(request_: SamplingFields) -> None:
    assert request_.is_short_chat


@pytest.mark.parametrize("request_", LONGER)
def test_what_may_take_longer_is_no_short_chat(request_: SamplingFields) -> None:
    assert not request_.is_short_chat


# What they need

BLOCKED = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"blocked: {name}", name=name)
        return None

blocked = {
    "alembic", "fastapi", "httpx2", "llguidance", "numpy", "openai", "sqlalchemy", "starlette",
    "torch", "transformers", "uvicorn",
}
sys.meta_path.insert(0, Block())
from gpt_oss_harmony.apis import *
turn = turn_of_response(ResponsesRequest(input="hi"))
assert turn == turn_of_chat(ChatRequest(messages=[{"role": "user", "content": "hi"}]))
assert items_of_messages(turn.conversation.messages[1:], str)
assert not {"gpt_oss_harmony.grammar", "gpt_oss_harmony.server"} & sys.modules.keys()
"""


def test_the_mapping_needs_no_extra() -> None:
    command = [sys.executable, "-W", "error", "-c", BLOCKED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


READ_BY_PREFIX = {"guided_json_object"}
"""Fields whose names the code puts together."""


@pytest.mark.parametrize("body", [*BODIES, MessagesRequest])
def test_every_field_is_used_or_refused(body: type[RequestBody]) -> None:
    """A field that nothing reads has no effect, in silence: use it, or make it `Unsupported`."""
    package = Path(gpt_oss_harmony.__file__).parent
    files = (path for layer in ("apis", "server") for path in (package / layer).rglob("*.py"))
    code = "".join(path.read_text(encoding="utf-8") for path in files)
    unused = {
        name
        for name, field in body.model_fields.items()
        if field.annotation is not Any and not re.search(rf"\.{name}\b|[\"']{name}[\"']", code)
    }
    assert unused <= READ_BY_PREFIX


def test_a_dict_is_no_request() -> None:
    request: Any = {"messages": MESSAGES}
    with pytest.raises(TypeError, match=r"write ChatRequest\(\*\*request\)"):
        turn_of_chat(request)
