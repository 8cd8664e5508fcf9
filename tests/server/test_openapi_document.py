"""Requests made of the OpenAPI document: whatever is asked, no 5xx and no page of HTML."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from schemathesis import checks
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from gpt_oss_harmony.apis.request_body import ConstraintFields, RequestBody
from gpt_oss_harmony.server import Settings, create_app
from support.examples import examples
from support.named_things import make_named
from support.scripted_engine import TalkingEngine
from support.served import PATIENCE, serving

pytestmark = pytest.mark.slow
pytest_plugins = ["schemathesis.pytest.plugin"]  # left out elsewhere, as it takes 0.7 seconds

EXAMPLES = 12
WRONG_EXAMPLES = 25


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(TalkingEngine(), Settings(max_request_bytes=100_000)) as url:
        yield url


DOCUMENT = schemathesis.openapi.from_dict(create_app(TalkingEngine()).openapi())

CHECKED = [
    checks.not_a_server_error,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.status_code_conformance,
]


def operations() -> Iterator[Any]:
    """Each operation, named by its method and path.

    Schemathesis' own `parametrize` gives all of them one name, of which xdist runs only the first.
    """
    for result in DOCUMENT.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()
        yield pytest.param(operation, id=operation.label)


OPERATIONS = list(operations())
FALLIBLE = [each for each in OPERATIONS if each.values[0].body or each.values[0].query]
"""The operations that take something that can be wrong."""

DRAWN = settings(
    max_examples=examples(EXAMPLES),
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_request_breaks_the_server(operation: Any, url: str) -> None:
    @given(case=operation.as_strategy())
    @DRAWN
    def ask(case: Any) -> None:
        steer(case, url)
        response = case.call(base_url=url.removesuffix("/v1"), timeout=PATIENCE)
        case.validate_response(response, checks=CHECKED)
        if response.status_code >= 400 and case.operation.path != "/ready":
            error = response.json()["error"]
            if case.operation.path.startswith("/api/"):
                assert error
                assert isinstance(error, str)
                return
            of_messages = case.operation.path.startswith("/v1/messages")
            fields = {"message", "type"} if of_messages else {"message", "type", "param", "code"}
            assert set(error) == fields
            assert error["message"]

    ask()


def cursors() -> Iterator[Any]:
    """Each list, with each of its fields that name a place in it."""
    for param in OPERATIONS:
        for field in param.values[0].query:
            if field.name in ("after", "after_id", "before_id"):
                yield pytest.param(*param.values, field.name, id=f"{param.id} {field.name}")


@pytest.mark.parametrize(("operation", "name"), list(cursors()))
def test_no_list_begins_at_a_place_that_it_does_not_have(
    operation: Any, name: str, url: str
) -> None:
    """A program that goes on from page to page would read the first one for ever."""
    place = operation.path.format(**made(url, operation.path))
    answer = httpx2.get(url.removesuffix("/v1") + place, params={name: "none_1"}, timeout=PATIENCE)
    assert answer.status_code == 404
    assert "none_1" in answer.json()["error"]["message"]


def test_streams_have_the_schema_of_their_events() -> None:
    paths = create_app(TalkingEngine()).openapi()["paths"]
    for path, required in (
        ("/v1/responses", {"type", "sequence_number"}),
        ("/v1/chat/completions", {"id", "created", "model", "object", "choices"}),
        ("/v1/completions", {"id", "created", "model", "object", "choices"}),
    ):
        stream = paths[path]["post"]["responses"]["200"]["content"]["text/event-stream"]
        data = stream["itemSchema"]["properties"]["data"]["anyOf"][0]["contentSchema"]
        assert "$ref" not in str(data)
        event, error = data["anyOf"]
        assert required <= set(event["required"])
        assert error["required"] == ["error"]


@pytest.mark.parametrize("operation", FALLIBLE)
def test_what_the_document_forbids_is_refused(operation: Any, url: str) -> None:
    """Negative data: each request breaks the document in some place."""

    @given(case=operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    @settings(DRAWN, max_examples=examples(WRONG_EXAMPLES))
    def ask(case: Any) -> None:
        steer(case, url)
        response = case.call(base_url=url.removesuffix("/v1"), timeout=PATIENCE)
        assert response.status_code < 500
        assert "server_error" not in response.text

    ask()


# Field by field


def request_models(model: type[RequestBody] = RequestBody) -> Iterator[type[RequestBody]]:
    """The models of requests that the document has."""
    for kind in model.__subclasses__():
        if kind.__name__ in SCHEMAS:
            yield kind
        yield from request_models(kind)


SCHEMAS: dict[str, Any] = create_app(TalkingEngine()).openapi()["components"]["schemas"]
NEEDED: dict[str, dict[str, Any]] = {
    "BatchBody": {
        "input_file_id": "a", "endpoint": "/v1/responses", "completion_window": "24h",
    },
    "ChatRequest": {"messages": [{"role": "user", "content": "a"}], "logprobs": True},
    "CompactionRequest": {"model": "m"},
    "CompleteUpload": {"part_ids": ["a"]},
    "CompletionRequest": {"prompt": "a"},
    "CompletionUpdate": {"metadata": {}},
    "ContainerRequest": {"name": "a"},
    "ConversationUpdate": {"metadata": {}},
    "DetokenizeRequest": {"tokens": [1]},
    "ExpiresAfter": {"anchor": "last_active_at", "minutes": 1},
    "ItemsRequest": {"items": []},
    "MessagesRequest": {"messages": [{"role": "user", "content": "a"}]},
    "NetworkPolicy": {"type": "disabled"},
    "OllamaChatRequest": {"model": "m", "messages": [{"role": "user", "content": "a"}]},
    "OllamaGenerateRequest": {"model": "m"},
    "ParseRequest": {"tokens": [1]},
    "TokenizeRequest": {"prompt": "a"},
    "UploadBody": {"filename": "a", "bytes": 1, "purpose": "user_data"},
}  # fmt: skip
"""The fields that requests must have, and those that another field needs."""

DEPENDENT = {
    ("ChatRequest", "add_generation_prompt"),
    ("CompletionRequest", "best_of"),
    ("ParseRequest", "tokens"),
    ("ParseRequest", "text"),
}
"""Fields that are right or wrong by the values of others, which no schema of one field says."""

LATER = {"functions", "structured_outputs"}
"""Fields of Chat Completions and Responses that are refused where the turn is read."""

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, -2, 2**31, -(2**63) - 1, -(2**63), 2**63 - 1, 2**63, 0.5, -2.5,
    "", "a", "x" * 300, [], ["a"], [""], ["text"], [1], [-1], [True], ["a", 1], [[]], [[1]], [{}],
    ["a"] * 200, [{}] * 200, {}, {"a": "b"}, {"a" * 65: "b"}, {"a": "b" * 513}, {"a": 1},
    {str(number): "" for number in range(17)}, {"id": "a"}, {"effort": "low"}, {"effort": "x"},
    {"json": {}}, {"grammar": "start: x"}, {"grammar": 1}, {"lark": "start: x"}, {"lark": False},
]  # fmt: skip


def near_bounds(schema: Any) -> Iterator[Any]:
    """Values at the bounds of a schema and beyond them, and those that it lists."""
    for keyword, bound in schema.items() if isinstance(schema, dict) else ():
        if keyword == "enum":
            yield from bound
        elif keyword == "const":
            yield bound
        elif keyword in ("minimum", "maximum", "exclusiveMaximum") and abs(bound) < 2**53:
            whole = (int(bound) + step for step in (-1, 0, 1))
            yield from (*whole, bound + 0.001, bound - 0.001)
        elif keyword in ("minItems", "maxItems"):
            yield from (["a"] * max(bound + step, 0) for step in (-1, 0, 1))
        elif keyword in ("minLength", "maxLength"):
            yield from ("a" * max(bound + step, 0) for step in (-1, 0, 1))
        elif keyword == "$ref":
            yield from near_bounds(SCHEMAS[bound.rpartition("/")[2]])
        else:
            for part in bound if isinstance(bound, list) else (bound,):
                yield from near_bounds(part)


@pytest.mark.parametrize("model", list(request_models()), ids=lambda model: model.__name__)
def test_the_document_has_every_bound_and_no_other(model: type[RequestBody]) -> None:
    """A value of a field is accepted where the document allows it, and nowhere else.

    Numbers like 1.0 are left out: they are integers in JSON Schema, and no integers here.
    """
    for name, schema in SCHEMAS[model.__name__]["properties"].items():
        if (model.__name__, name) in DEPENDENT:
            continue
        if issubclass(model, ConstraintFields) and name in LATER:
            continue
        validator = Draft202012Validator({**schema, "components": {"schemas": SCHEMAS}})
        for value in [*VALUES, *near_bounds(schema)]:
            try:
                model.model_validate({**NEEDED.get(model.__name__, {}), name: value})
                is_accepted = True
            except ValidationError:
                is_accepted = False
            assert validator.is_valid(value) == is_accepted, (name, value)


@pytest.mark.parametrize(
    "number", ["-1", "-2", "-32391741", str(-(2**63)), str(2**63), "9" * 400, "1.5", "x", "", "%00"]
)
def test_a_stream_goes_on_only_from_a_number_of_an_event(url: str, number: str) -> None:
    with httpx2.Client(base_url=url, timeout=PATIENCE) as client:
        id = made(url, "/v1/responses/{response_id}")["response_id"]
        answer = client.get(f"/responses/{id}?stream=true&starting_after={number}")
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["param"], error["code"]) == ("starting_after", "invalid_value")


_TURNS = itertools.count()


def steer(case: Any, url: str) -> None:
    """Lead most cases past what refuses nearly all that is random: names and ids."""
    if next(_TURNS) % 4 == 0:
        return
    if case.path_parameters:
        case.path_parameters.update(made(url, case.operation.path))
        if "starting_after" in (case.query or {}):
            case.query["stream"] = True
    if isinstance(case.body, dict):
        case.body["model"] = "script"
        for name in ("previous_response_id", "conversation"):
            case.body.pop(name, None)


def made(url: str, path: str) -> dict[str, str]:
    with httpx2.Client(base_url=url, timeout=PATIENCE) as client:
        return make_named(client, path)
