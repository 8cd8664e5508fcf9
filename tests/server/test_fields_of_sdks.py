"""Every field of every request of the SDKs is honoured, refused, or named in `Harmony-Ignored`.

The types of the installed `openai`, `anthropic` and `ollama` packages are walked, so a field of a
new release is tried without anyone listing it. Each field is sent with plausible values and with
one of a wrong type, and each request is compared with the same request without the field:

- *refused*: the answer is a 400,
- *named*: the header has the field, or an object that contains it,
- *honoured*: the engine gets another input, or the client another answer. That the answer repeats
  a choice, a switch or a number honours nothing; that it repeats a text of the client's own does.

A field whose effect needs a situation, such as a prompt that is too long, has it in `SITUATIONS`.
What clients send back as they got it, the fields of answers, asks for nothing.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import anthropic.types as anthropic_types
import anthropic.types.beta as beta_types
import ollama._types as ollama_types
import openai.types.chat as chat_types
import openai.types.responses as responses_types
import pytest
from anthropic.types import message_create_params
from anthropic.types.beta import message_create_params as beta_params
from anthropic.types.messages import batch_create_params as message_batch_params
from anthropic.types.messages import batch_list_params as message_list_params
from fastapi.testclient import TestClient
from openai.types import (
    batch_create_params,
    batch_list_params,
    file_create_params,
    file_list_params,
    upload_create_params,
)
from openai.types import completion_create_params as raw_params
from openai.types.chat import completion_create_params, completion_list_params
from openai.types.conversations import conversation_create_params, item_list_params
from openai.types.responses import (
    input_item_list_params,
    response_compact_params,
    response_create_params,
)
from openai.types.uploads import part_create_params
from pydantic import BaseModel
from typing_extensions import NotRequired, Required, get_type_hints, is_typeddict

from gpt_oss_harmony.engines import SampledToken, Sampling
from support.chat_server import FINAL, THINK, TellingEngine
from support.scripted_engine import ENCODING
from support.server_tools import PretendedPython, compute, serving_tools


class Api(NamedTuple):
    """An endpoint: the type of its requests, and a body into which fields are put."""

    path: str
    fields: Any
    body: dict[str, Any]


HI = {"role": "user", "content": "hi"}
NOW = {"name": "now", "description": "Tells the time."}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
CHAT = {
    "messages": [HI, {"role": "assistant", "tool_calls": [CALL]}],
    "tools": [{"type": "function", "function": {**NOW, "parameters": SCHEMA}}],
}
RESPONSES = {
    "store": False,
    "input": [
        HI,
        {"type": "function_call", "call_id": "call_1", "name": "now", "arguments": "{}"},
    ],
    "tools": [{"type": "function", **NOW, "parameters": SCHEMA}],
}
MESSAGES = {
    "max_tokens": 90,
    "messages": [
        HI,
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "call_1", "name": "now", "input": {}}],
        },
    ],
    "tools": [{**NOW, "input_schema": SCHEMA}],
}


class OllamaQuestion(ollama_types.Message):
    role: Literal["user"]


class OllamaAnswer(ollama_types.Message):
    role: Literal["assistant"]


class OllamaResult(ollama_types.Message):
    role: Literal["tool"]


class OllamaChat(ollama_types.ChatRequest):
    """Ollama has one type for the messages of all roles, which have different fields."""

    options: ollama_types.Options | None = None
    messages: Sequence[OllamaQuestion | OllamaAnswer | OllamaResult] | None = None


class OllamaGenerate(ollama_types.GenerateRequest):
    options: ollama_types.Options | None = None


OLLAMA = {"model": "script", "stream": False}
OLLAMA_CALL = {"function": {"name": "now", "arguments": {}}}
OLLAMA_CHAT = {**CHAT, "messages": [HI, {"role": "assistant", "tool_calls": [OLLAMA_CALL]}]}
APIS = {
    "chat": Api(
        "/v1/chat/completions", completion_create_params.CompletionCreateParamsNonStreaming, CHAT
    ),
    "responses": Api(
        "/v1/responses", response_create_params.ResponseCreateParamsNonStreaming, RESPONSES
    ),
    "completions": Api(
        "/v1/completions",
        raw_params.CompletionCreateParamsNonStreaming,
        {"prompt": "<|start|>user<|message|>hi<|end|><|start|>assistant"},
    ),
    "messages": Api(
        "/v1/messages", message_create_params.MessageCreateParamsNonStreaming, MESSAGES
    ),
    "beta messages": Api(
        "/v1/messages?beta=true", beta_params.MessageCreateParamsNonStreaming, MESSAGES
    ),
    "ollama": Api("/api/chat", OllamaChat, {**OLLAMA, **OLLAMA_CHAT}),
    "ollama generate": Api("/api/generate", OllamaGenerate, {**OLLAMA, "prompt": "hi"}),
}
FOLLOWING: dict[str, list[Any]] = {"messages": [HI], "input": [], "tools": []}
"""Fields whose items are added to those of the body, and what follows them."""

TWICE = "Compute twice."
COMPUTING = {
    "input": [{"role": "user", "content": TWICE}],
    "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}],
}
STREAM = {"stream": True}
LONG = [{"role": "user", "content": "word " * 5000}, HI]
SITUATIONS: dict[str, dict[str, Any]] = {
    "chat metadata": {"store": True},
    "chat stream_options<ChatCompletionStreamOptionsParam>.include_usage": STREAM,
    "chat top_logprobs": {"logprobs": True},
    "responses background": {"store": True},
    "responses max_tool_calls": COMPUTING,
    "responses truncation": {"input": LONG},
    "completions stream_options<ChatCompletionStreamOptionsParam>.include_usage": STREAM,
    "ollama top_logprobs": {"logprobs": True},
    "ollama generate top_logprobs": {"logprobs": True},
}
"""Fields of a body without which another field would change nothing."""

REFERENCES = ("id", "encrypted_content")
"""Fields that name something: an object that names what does not exist is refused as a whole."""

# Values

SAMPLES: dict[str, Any] = {
    "model": "script",
    "call_id": "call_1",
    "tool_call_id": "call_1",
    "tool_use_id": "call_1",
    "name": "now",
    "arguments": "{}",
    "role": "user",
    "temperature": 0.5,
    "top_p": 0.5,
    "data": "aGk=",
    "max_tokens": 90,
    "stop": "there",
    "stop_sequences": "there",
    "definition": 'start: "a"',
    "tools": {"type": "function", "name": "now", "function": {"name": "now"}},
    "container": {"type": "auto"},
    "schema": SCHEMA,
    "parameters": SCHEMA,
    "input_schema": SCHEMA,
}
"""Values of fields by name, where any text or number would be refused for another reason."""


LOOSE = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
"""A schema that is not enforced unless it is strict."""

BESIDE: dict[str, dict[str, Any]] = {
    "name": {"content": "hi"},
    "audio": {"content": "hi"},
    "clear_at": {"content": "hi"},
    "output_config": {"content": "hi"},
    "strict": {"schema": LOOSE, "parameters": LOOSE, "input_schema": LOOSE},
}
"""Fields without which another field of the same object means nothing, if it can have them."""


class Leaf(NamedTuple):
    """A field, and objects that contain it: one without it, others with values of it."""

    path: str
    without: Any
    values: list[Any]
    wrong: Any
    is_label: bool  # whether a repetition honours it
    comes_back: bool = False  # whether answers have it, too

    def put(self, into: Callable[[Any], Any]) -> Leaf:
        """Put the values into a larger one."""
        without, wrong = (
            value if value is MISSING else into(value) for value in (self.without, self.wrong)
        )
        return self._replace(without=without, values=list(map(into, self.values)), wrong=wrong)


MISSING: Any = object()


def leaves(hint: Any, name: str, path: str, seen: set[Any], inside: Any = None) -> Iterator[Leaf]:
    """Yield the fields inside of a value of this type, each with the value around it.

    An object is walked once for each type of object that it stands in.
    """
    for variant in variants(hint):
        if is_object(variant) and (variant, inside) not in seen:
            seen.add((variant, inside))
            yield from leaves_of(variant, path, seen)
        elif _is_list(variant):
            for leaf in leaves(get_args(variant)[0], name, f"{path}[]", seen, inside):
                yield leaf.put(lambda value: [value])


def leaves_of(variant: Any, path: str, seen: set[Any]) -> Iterator[Leaf]:
    hints = fields_of(variant)
    least = sample(variant, "")
    tag = "" if path == "" else f"<{least.get('type') or least.get('role') or variant.__name__}>"
    for name, hint in hints.items():
        here = f"{path}{tag}.{name}" if path else name
        beside = {k: v for k, v in BESIDE.get(name, {}).items() if k in hints}
        rest = {key: value for key, value in {**beside, **least, **beside}.items() if key != name}
        if name != "type" and not is_tag(hint):
            values = [value for one in variants(hint) for value in plausible(one, name)]
            values = [value for value in values if value != {}]  # which asks for nothing
            yield Leaf(
                here,
                rest if name not in required_fields(variant) else MISSING,
                [{**rest, name: value} for value in values],
                {**rest, name: wrong_value(hint)} if wrong_value(hint) is not MISSING else MISSING,
                all(one is str or _is_texts(one) for one in variants(hint)),
                any(
                    name in answered().get(key, ())
                    for key in (variant.__name__.removesuffix("Param"), least.get("type", ""))
                ),
            )
        for leaf in leaves(hint, name, here, seen, variant):
            yield leaf.put(partial(_with_field, rest, name))


def _with_field(fields: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    return {**fields, name: value}


def is_object(hint: Any) -> bool:
    return is_typeddict(hint) or (isinstance(hint, type) and issubclass(hint, BaseModel))


@cache
def fields_of(typed: Any) -> dict[str, Any]:
    if issubclass(typed, BaseModel):
        fields = typed.model_fields
        return {field.alias or name: field.annotation for name, field in fields.items()}
    return get_type_hints(typed, include_extras=True)


@cache
def required_fields(typed: Any) -> set[str]:
    """Return the required fields; the SDKs' annotations are texts, which hide `Required`."""
    if issubclass(typed, BaseModel):
        fields = typed.model_fields
        return {field.alias or name for name, field in fields.items() if field.is_required()}
    marks = {name: get_origin(hint) for name, hint in fields_of(typed).items()}
    return {
        name
        for name, mark in marks.items()
        if mark is Required
        or name == "call_id"
        or (name in typed.__required_keys__ and mark is not NotRequired)
    }


def variants(hint: Any) -> list[Any]:
    while get_origin(hint) in (Required, NotRequired):
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        return [one for part in get_args(hint) for one in variants(part)]
    return [] if hint is type(None) else [hint]


def is_choice(hint: Any) -> bool:
    return get_origin(hint) is Literal


def is_tag(hint: Any) -> bool:
    """Return whether a field has one value, which only says what the object is."""
    known = variants(hint)
    return len(known) == 1 and is_choice(known[0]) and len(get_args(known[0])) == 1


def _is_list(hint: Any) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Iterable) and not _is_dict(hint)


def _is_dict(hint: Any) -> bool:
    origin = get_origin(hint)
    return hint is dict or (isinstance(origin, type) and issubclass(origin, Mapping))


def _is_texts(hint: Any) -> bool:
    return _is_dict(hint) and get_args(hint) == (str, str)


def sample(hint: Any, name: str) -> Any:
    """Make a plausible value, of an object the least one."""
    known = variants(hint)
    first = known[0]
    if name in SAMPLES and str in known:
        return SAMPLES[name]
    if is_choice(first):
        return get_args(first)[0]
    if is_object(first):
        hints = fields_of(first)
        return {key: sample(hints[key], key) for key in hints if key in required_fields(first)}
    if _is_list(first):
        return [sample(get_args(first)[0], name)]
    if name in SAMPLES and (
        isinstance(SAMPLES[name], dict) or not (first is object or _is_dict(first))
    ):
        return SAMPLES[name]
    if _is_dict(first):
        values = get_args(first)
        return {"k": sample(values[1], name)} if values else {"k": "v"}
    return {str: "text", int: 1, float: 1.0, bool: True}.get(first, {"k": "v"})


def plausible(variant: Any, name: str) -> list[Any]:
    """Make values of one type: all choices, both switches, or one value."""
    if is_choice(variant):
        return list(get_args(variant))
    if variant is bool:
        return [True, False]
    if _is_list(variant):
        items = variants(get_args(variant)[0])
        return [[value] for one in items for value in plausible(one, name)]
    others = {str: "other", int: 20_000 if name == "budget_tokens" else 2, float: 0.25}
    is_own = isinstance(SAMPLES.get(name), str) or (name in SAMPLES and variant is not str)
    own = is_own or variant not in others
    return [sample(variant, name), *([] if own else [others[variant]])]


def wrong_value(hint: Any) -> Any:
    """Return a value of a type that the field does not have."""
    known = variants(hint)
    if any(one in (object, Any) for one in known):
        return MISSING
    return 3.25 if any(is_object(one) or _is_dict(one) for one in known) else {"wrong": 3.25}


# What comes back

ANSWERS: tuple[Any, ...] = (
    chat_types.ChatCompletionMessage,
    anthropic_types.Message,
    beta_types.BetaMessage,
)


@cache
def answered() -> dict[str, set[str]]:
    """Return the fields of the objects in answers, by the names of their types and their tags."""
    found: dict[str, set[str]] = {}
    todo: list[Any] = [responses_types.ResponseItem, *ANSWERS]
    while todo:
        one = todo.pop()
        if isinstance(one, type) and issubclass(one, BaseModel):
            if one.__name__ not in found:
                found[one.__name__] = set(one.model_fields)
                fields = one.model_fields.items()
                tag = one.model_fields.get("type")
                for name in () if tag is None else get_args(tag.annotation):
                    found.setdefault(name, set()).update(one.model_fields)
                todo += [field.annotation for name, field in fields if name != "tools"]
        else:
            todo += get_args(one)
    return found


# The law


class Tried(NamedTuple):
    """What a server did with a request.

    `named` and `unenforced` are the fields in headers, `effects` everything that a request changes:
    the input of the engine and, at the end, the answer.
    """

    status: int
    named: frozenset[str]
    unenforced: str
    effects: list[Any]
    text: str

    @property
    def wrong_field(self) -> str:
        """The path of the field that the error names, without indices."""
        error = json.loads(self.text)["error"]
        if isinstance(error, str):  # Ollama's
            error = {"message": error}
        param = error.get("param") or error["message"].partition(":")[0]
        return re.sub(r"\[\d+\]", "", param)

    def effects_beside(self, repeated: str | None) -> list[Any]:
        """Return the effects without repetitions of a field in the answer."""
        if repeated is None:
            return self.effects
        value = rf'"{repeated}": ?("[^"]*"|[a-z0-9.]+)'
        return [*self.effects[:-1], re.sub(value, "", self.effects[-1])]


class Server:
    """A server that tries requests; equal ones only once."""

    def __init__(self, client: TestClient, engine: Script) -> None:
        self._client = client
        self._engine = engine
        self._tried: dict[str, Tried] = {}

    def try_request(self, api: Api, fields: Mapping[str, Any]) -> Tried:
        """Send a request with these fields, unless it is known what becomes of it."""
        body = body_with(api, fields)
        key = json.dumps(body, sort_keys=True)
        if key not in self._tried:
            self._tried[key] = self._send(api.path, body)
        return self._tried[key]

    def _send(self, path: str, body: dict[str, Any]) -> Tried:
        self._engine.prompts.clear()
        self._engine.samplings.clear()
        answer = self._client.post(path, json=body)
        effects: list[Any] = [*self._engine.prompts, *self._engine.samplings]
        stored = _STORED.search(answer.text) if body.get("store") else None
        if stored is not None:
            effects.append(_without_ids(self._client.get(f"{path}/{stored[0]}").text))
        named = answer.headers.get("harmony-ignored", "").split(", ")
        return Tried(
            answer.status_code,
            frozenset(filter(None, named)),
            answer.headers.get("harmony-unenforced", ""),
            [*effects, answer.headers["content-type"], _without_ids(answer.text)],
            answer.text,
        )


class Script(TellingEngine):
    """Reasons and answers; in the situation of `TWICE`, it calls python twice before."""

    def __init__(self) -> None:
        super().__init__()
        self.context_length = 4000

    def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        text = ENCODING.decode(prompt)
        calls = text.count("to=python") if TWICE in text else 2
        self.completions[:] = [[compute("1"), compute("2"), THINK + FINAL][calls]]
        return super()._generate(prompt, sampling, max_tokens)


_STORED = re.compile("(resp_|chatcmpl-)[0-9a-f]{32}")


def _without_ids(text: str) -> str:
    text = re.sub(r"[a-z]+[_-][0-9a-f]{32}|hr1\.[\w-]+", "ID", text)
    return re.sub(r'"(created|created_at|completed_at|\w+_duration)": ?([0-9]+|"[^"]*")', "", text)


def body_with(api: Api, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Put fields into the body of an API; messages, items and tools stand after its own."""
    body = {**api.body, **fields}
    for name, own in api.body.items():
        if isinstance(own, list) and isinstance(body[name], list):
            body[name] = [*own, *fields.get(name, []), *FOLLOWING.get(name, [])]
    return body


def is_named(path: str, tried: Tried) -> bool:
    """Return whether a header has the field, or an object that contains it."""
    plain = re.sub(r"<[^>]*>", "", path)
    if f"/{plain.rpartition('.')[2]}" in tried.unenforced:  # a keyword of a schema
        return True
    tags = re.finditer(r"<([^>]*)>", path)
    of_tags = {re.sub(r"<[^>]*>", "", path[: tag.start()]) + f".{tag[1]}" for tag in tags}
    return not of_tags.isdisjoint(tried.named) or any(
        f"{plain}.".startswith((f"{name}.", f"{name}[]")) or name.startswith(f"{plain}.")
        for name in tried.named
    )


def silent_fields(api: Api, server: Server, known: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the fields of an API that are accepted in silence, and those refused by mistake.

    Fields whose paths begin with one of the `known` are left out.
    """
    name = next((name for name, one in APIS.items() if one is api), "")
    skipped = list(known)
    for leaf in leaves_of(api.fields, "", set()):
        if not leaf.values or leaf.path.startswith(tuple(skipped)):
            continue
        situation = SITUATIONS.get(f"{name} {leaf.path}", {})

        def sent(fields: dict[str, Any], situation: dict[str, Any] = situation) -> Tried:
            return server.try_request(api, {**situation, **fields})

        problem, is_done = problem_of(leaf, sent)
        if problem:
            yield f"{leaf.path}: {problem}"
        if is_done:
            skipped += [f"{leaf.path}<", f"{leaf.path}["]


def problem_of(leaf: Leaf, sent: Callable[[Any], Tried]) -> tuple[str, bool]:
    """Try a field; return what is wrong, and whether the fields inside of it need no trial."""
    tried = [sent(fields) for fields in leaf.values]
    if broken := [one.text for one in tried if one.status >= 500]:
        return broken[0][:300], False
    compared = [one for one in tried if one.status == 200]
    if not compared:
        words = {"type", "role", *re.findall(r"\w+", leaf.path)}
        wrong = re.split(r"\W+", tried[0].wrong_field)
        is_meant = words.issuperset(wrong) or wrong[-1].endswith(REFERENCES)
        return "" if is_meant else f"refused for another reason: {tried[0].text:.300}", True
    if any(is_named(leaf.path, one) for one in tried):
        return "", False
    is_accepted = len(compared) == len(tried)
    if leaf.without is not MISSING:
        compared.append(sent(leaf.without))
    repeated = None if leaf.is_label else leaf.path.rpartition(".")[2]
    effects = [one.effects_beside(repeated) for one in compared]
    if len(effects) > 1 and all(one == effects[0] for one in effects) and is_accepted:
        return "" if leaf.comes_back else f"{len(tried)} values change nothing", leaf.comes_back
    if leaf.wrong is not MISSING and not leaf.comes_back:
        wrong_type = sent(leaf.wrong)
        if wrong_type.status == 200 and not is_named(leaf.path, wrong_type):
            return "a value of a wrong type passes", False
    return "", False


BESIDES = {
    "conversations": Api(
        "/v1/conversations", conversation_create_params.ConversationCreateParams, {}
    ),
    "compact": Api(
        "/v1/responses/compact", response_compact_params.ResponseCompactParams,
        {"model": "script", "input": [HI] * 3, "summarize": True},
    ),
    "batches": Api("/v1/batches", batch_create_params.BatchCreateParams, {}),
    "uploads": Api(
        "/v1/uploads", upload_create_params.UploadCreateParams,
        {"filename": "a.txt", "bytes": 1, "purpose": "user_data"},
    ),
    "batches of messages": Api(
        "/v1/messages/batches", message_batch_params.BatchCreateParams,
        {"requests": [{"custom_id": "a", "params": {"max_tokens": 1, "messages": [HI]}}]},
    ),
}  # fmt: skip
"""What clients of the SDKs send beside requests for answers.

The items, and the requests of a batch, are read as those of the endpoints above.
"""

ELSEWHERE = (
    *("items[]<", "input[]<", "requests[]<Request>.params<", "tools[]<"),  # read as above
    *("bytes", "expires_after", "filename", "purpose"),  # of an upload's file: test_uploads
    *("requests[]<Request>.custom_id", "output_expires_after"),  # of the results: test_batches
)


@pytest.mark.parametrize("api", BESIDES)
def test_no_other_field_is_accepted_in_silence(
    api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Script()
    with serving_tools(engine, PretendedPython(), folder=tmp_path) as client:
        file = client.post(
            "/v1/files", files={"file": ("a.jsonl", BATCH_LINE)}, data={"purpose": "batch"}
        ).json()
        monkeypatch.setitem(SAMPLES, "input_file_id", file["id"])
        monkeypatch.setitem(SAMPLES, "seconds", 3600)
        tried = Server(client, engine)
        assert list(silent_fields(BESIDES[api], tried, ELSEWHERE)) == []


BATCH_LINE = b'{"custom_id": "a", "method": "POST", "url": "/v1/responses", "body": {"input": "a"}}'

LISTED: dict[tuple[str, str], Any] = {
    ("get", "/v1/batches"): batch_list_params.BatchListParams,
    ("get", "/v1/messages/batches"): message_list_params.BatchListParams,
    ("get", "/v1/files"): file_list_params.FileListParams,
    ("get", "/v1/conversations/{conversation_id}/items"): item_list_params.ItemListParams,
    ("get", "/v1/responses/{response_id}/input_items"): input_item_list_params.InputItemListParams,
    ("get", "/v1/chat/completions"): completion_list_params.CompletionListParams,
    ("post", "/v1/files"): file_create_params.FileCreateParams,
    ("post", "/v1/uploads/{upload_id}/parts"): part_create_params.PartCreateParams,
}
"""Queries and forms, whose fields no body has: what the server does not know goes unread."""

UNREAD = {
    "include": "items have all that the server stores of them",
    "betas": "a header",
    "workspace_id": "the owner is the API key",
    "metadata": "the fields are metadata[KEY]",
}


def test_queries_and_forms_have_the_fields_of_the_sdks() -> None:
    with serving_tools(Script()) as client:
        document = client.get("/openapi.json").json()
    for (method, path), params in LISTED.items():
        operation = document["paths"][path][method]
        listed = operation.get("parameters", ())
        known = {field["name"] for field in listed if field["in"] == "query"}
        form = operation.get("requestBody", {}).get("content", {}).get("multipart/form-data")
        if form is not None:
            name = form["schema"]["$ref"].rpartition("/")[2]
            fields = document["components"]["schemas"][name]["properties"]
            known |= {field.partition("[")[0] for field in fields}
        assert set(fields_of(params)) - known <= UNREAD.keys(), path


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_no_field_is_accepted_in_silence(api: str, tmp_path: Path) -> None:
    engine = Script()
    with serving_tools(engine, PretendedPython(), folder=tmp_path) as client:
        assert list(silent_fields(APIS[api], Server(client, engine))) == []


def test_the_walk_finds_the_fields() -> None:
    paths = {leaf.path for leaf in leaves_of(APIS["messages"].fields, "", set())}
    assert {
        "service_tier",
        "tools[]<ToolParam>.input_examples",
        "messages[]<user>.content[]<text>.cache_control",
    } <= paths


NAMED: list[tuple[str, dict[str, Any], str]] = [
    ("responses", {"service_tier": "flex"}, "service_tier"),
    ("responses", {"prompt_cache_retention": "24h"}, "prompt_cache_retention"),
    ("responses", {"tools": [{"type": "web_search", "search_context_size": "low"}]},
     "tools[].search_context_size"),
    ("responses", {"input": [{"type": "reasoning", "summary": [{"text": "a", "zz": 1,
      "type": "summary_text"}]}]}, "input[].summary[].zz"),
    ("chat", {"service_tier": "priority"}, "service_tier"),
    ("chat", {"messages": [{"role": "system", "content": "a", "name": "b"}]}, "messages[].name"),
    ("messages", {"system": [{"type": "text", "text": "a", "cache_control": {"ttl": "5m"}}]},
     "system[].cache_control"),
    ("messages", {"speed": "fast"}, "speed"),
    ("messages", {"tools": [{"name": "a", "input_schema": SCHEMA, "defer_loading": True}]},
     "tools[].defer_loading"),
]  # fmt: skip


COUNTS = {"responses": "/v1/responses/input_tokens", "messages": "/v1/messages/count_tokens"}


@pytest.mark.parametrize(("api", "fields", "name"), NAMED, ids=[f"{a} {n}" for a, _, n in NAMED])
def test_named_fields(api: str, fields: dict[str, Any], name: str, tmp_path: Path) -> None:
    """Fields are named also where a request's tokens are only counted."""
    body = body_with(APIS[api], fields)
    paths = [path for path in (APIS[api].path, COUNTS.get(api)) if path is not None]
    with serving_tools(Script(), PretendedPython(), folder=tmp_path) as client:
        for path in paths:
            assert client.post(path, json=body).headers["harmony-ignored"] == name
    with serving_tools(
        Script(), PretendedPython(), folder=tmp_path, unknown_fields="refuse"
    ) as client:
        for path in paths:
            refused = client.post(path, json=body)
            assert refused.status_code == 400
            assert name in refused.json()["error"]["message"]


def test_default_values_ask_for_nothing() -> None:
    tool = {**NOW, "input_schema": SCHEMA, "defer_loading": False, "allowed_callers": ["direct"]}
    with serving_tools(Script()) as client:
        for api, fields in (
            ("chat", {"service_tier": "auto", "parallel_tool_calls": False}),
            ("messages", {"speed": "standard", "tools": [tool]}),
        ):
            sent = client.post(APIS[api].path, json=body_with(APIS[api], fields))
            assert "harmony-ignored" not in sent.headers
