"""Requests made of the OpenAPI document: whatever is asked, no 5xx and no page of HTML."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import checks

from openai_harmony.server import Settings, create_app
from support.scripted_engine import TalkingEngine
from support.served import PATIENCE, serving

EXAMPLES = 12


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(TalkingEngine(), Settings(max_request_bytes=100_000)) as url:
        yield url


DOCUMENT = schemathesis.openapi.from_asgi("/openapi.json", create_app(TalkingEngine()))

CHECKED = [
    checks.not_a_server_error,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.status_code_conformance,
]


@DOCUMENT.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
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


_TURNS = itertools.count()


def steer(case: Any, url: str) -> None:
    """Lead most cases past what refuses nearly all that is random: names and ids."""
    if next(_TURNS) % 4 == 0:
        return
    if case.path_parameters:
        case.path_parameters.update(made(url, case.path_parameters))
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
