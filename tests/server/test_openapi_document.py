"""Requests made of the OpenAPI document: whatever is asked, no 5xx and no page of HTML."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from openai_harmony.server import Settings, create_app
from support.scripted_engine import TalkingEngine
from support.served import PATIENCE, serving

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


@DOCUMENT.parametrize()
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_breaks_the_server(case: Any, url: str) -> None:
    steer(case, url)
    response = case.call(base_url=url.removesuffix("/v1"), timeout=PATIENCE)
    case.validate_response(response, checks=CHECKED)
    if response.status_code >= 400 and case.operation.path != "/ready":
        error = response.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"]


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


def operations() -> Iterator[Any]:
    """The operations that take something that can be wrong."""
    for result in DOCUMENT.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()
        if operation.body or operation.query:
            yield pytest.param(operation, id=operation.label)


@pytest.mark.parametrize("operation", list(operations()))
def test_what_the_document_forbids_is_refused(operation: Any, url: str) -> None:
    """Negative data: each request breaks the document in some place."""

    @given(case=operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    @settings(
        max_examples=WRONG_EXAMPLES,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any) -> None:
        steer(case, url)
        response = case.call(base_url=url.removesuffix("/v1"), timeout=PATIENCE)
        assert response.status_code < 500
        assert "server_error" not in response.text

    ask()


@pytest.mark.parametrize(
    "number", ["-1", "-2", "-32391741", str(-(2**63)), str(2**63), "9" * 400, "1.5", "x", "", "%00"]
)
def test_a_stream_goes_on_only_from_a_number_of_an_event(url: str, number: str) -> None:
    with httpx2.Client(base_url=url, timeout=PATIENCE) as client:
        id = made(url, ["response_id"])["response_id"]
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
        case.path_parameters.update(made(url, case.path_parameters))
        if "starting_after" in (case.query or {}):
            case.query["stream"] = True
    if isinstance(case.body, dict):
        case.body["model"] = "script"
        for name in ("previous_response_id", "conversation"):
            case.body.pop(name, None)


def made(url: str, names: Iterable[str]) -> dict[str, str]:
    """Make what parameters name, and return the ids."""
    ids = {"name": "script"}
    with httpx2.Client(base_url=url, timeout=PATIENCE) as client:
        if "response_id" in names:
            asked = {"model": "script", "input": "Hi!"}
            ids["response_id"] = client.post("/responses", json=asked).json()["id"]
        if "conversation_id" in names:
            items = [{"role": "user", "content": "Hi!"}]
            talk = client.post("/conversations", json={"items": items}).json()["id"]
            ids["conversation_id"] = talk
            listed = client.get(f"/conversations/{talk}/items").json()
            ids["item_id"] = listed["data"][0]["id"]
    return {name: ids[name] for name in names if name in ids}
