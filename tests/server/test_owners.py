"""What one key makes does not exist for another: a law over the operations of the document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from gpt_oss_harmony.server import Settings, create_app
from support.named_things import make_named
from support.scripted_engine import TalkingEngine
from support.served import PATIENCE, serving

ANNA, BEN = "sk-anna", "sk-ben"
HI = [{"role": "user", "content": "Hi!"}]
KNOWN = {"model": "script", "input": "Hi!", "messages": HI, "prompt": "Hi!", "max_tokens": 9}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(TalkingEngine(), Settings(api_keys=(ANNA, BEN))) as url:
        yield url.removesuffix("/v1")


@pytest.fixture(scope="module")
def anna(url: str) -> Iterator[httpx2.Client]:
    with client_of(url, ANNA) as client:
        yield client


@pytest.fixture(scope="module")
def ben(url: str) -> Iterator[httpx2.Client]:
    with client_of(url, BEN) as client:
        yield client


def client_of(url: str, key: str) -> httpx2.Client:
    return httpx2.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE)


def unknown(id: str) -> str:
    """An id of the same kind that nobody has."""
    return re.sub(r"[0-9a-zA-Z]{12}$", "0" * 12, id)


PATHS = create_app(TalkingEngine()).openapi()["paths"]
NAMING = [path for path in PATHS if "_id}" in path]
NAMED = [(method.upper(), path) for path in NAMING for method in PATHS[path]]
LISTS = [path for path, methods in PATHS.items() if "get" in methods and "{" not in path]


@pytest.fixture(scope="module")
def annas(url: str) -> dict[str, dict[str, str]]:
    """What Anna made for each path that names something: the ids by their names."""
    with client_of(f"{url}/v1", ANNA) as client:
        return {path: make_named(client, path) for path in NAMING}


def test_the_law_is_about_all_that_can_be_named() -> None:
    assert len(NAMED) > 30
    assert len(LISTS) > 8


def answer_of(client: httpx2.Client, method: str, path: str, named: dict[str, str]) -> Any:
    """Ask for something by its ids; say what was answered, with the ids left out."""
    sent: dict[str, Any] = {}
    if method in ("POST", "PATCH"):
        sent["json"] = {**KNOWN, "metadata": {"a": "b"}, "items": HI, "part_ids": [], "name": "b"}
        if path.endswith(("/files", "/parts")):
            sent = {"files": {"file" if path.endswith("/files") else "data": ("b.txt", b"Ho")}}
    answer = client.request(method, path.format(**named), **sent)
    text = re.sub('"request_id":"[^"]*"', "", answer.text)
    for name, id in named.items():
        text = text.replace(id, name)
    return answer.status_code, text


@pytest.mark.parametrize(("method", "path"), NAMED)
def test_what_another_key_made_is_unknown(
    method: str, path: str, annas: dict[str, dict[str, str]], ben: httpx2.Client
) -> None:
    named = annas[path]
    strange = {name: unknown(id) for name, id in named.items()}
    assert strange != named
    status, text = answer_of(ben, method, path, named)
    assert (status, text) == answer_of(ben, method, path, strange)
    assert status in (404, 405)


@pytest.mark.parametrize("path", LISTS)
def test_lists_have_nothing_of_another_key(
    path: str, annas: dict[str, dict[str, str]], ben: httpx2.Client
) -> None:
    text = ben.get(path).text
    assert not [id for named in annas.values() for id in named.values() if id in text]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/responses", "previous_response_id"),
        ("/v1/responses", "conversation"),
        ("/v1/responses/input_tokens", "previous_response_id"),
        ("/v1/responses/compact", "previous_response_id"),
        ("/v1/batches", "input_file_id"),
    ],
)
def test_a_body_cannot_name_what_another_key_made(
    path: str, field: str, annas: dict[str, dict[str, str]], ben: httpx2.Client
) -> None:
    name, of = {
        "conversation": ("conversation_id", "/v1/conversations/{conversation_id}"),
        "input_file_id": ("file_id", "/v1/files/{file_id}"),
        "previous_response_id": ("response_id", "/v1/responses/{response_id}"),
    }[field]
    id = annas[of][name]

    def asked(id: str) -> Any:
        body = {"model": "script", "input": "Hi!", field: id}
        if path == "/v1/batches":
            body = {field: id, "endpoint": "/v1/responses", "completion_window": "24h"}
        answer = ben.post(path, json=body)
        return answer.status_code, answer.text.replace(id, name)

    status, text = asked(id)
    assert (status, text) == asked(unknown(id))
    assert status in (400, 404)


@pytest.mark.parametrize("place", ["input_file", "input_image", "container", "item_reference"])
def test_an_input_cannot_name_what_another_key_made(
    place: str, annas: dict[str, dict[str, str]], ben: httpx2.Client
) -> None:
    name, of = {
        "container": ("container_id", "/v1/containers/{container_id}"),
        "item_reference": ("item_id", "/v1/conversations/{conversation_id}/items/{item_id}"),
    }.get(place, ("file_id", "/v1/files/{file_id}"))
    id = annas[of][name]

    def asked(id: str) -> Any:
        part = {"type": place, "file_id": id}
        given: Any = [{"role": "user", "content": [{"type": "input_text", "text": "?"}, part]}]
        body = {"model": "script", "input": given}
        if place == "container":
            body = {"input": "?", "tools": [{"type": "code_interpreter", "container": id}]}
        if place == "item_reference":
            body["input"] = [{"type": place, "id": id}]
        answer = ben.post("/v1/responses", json=body)
        return answer.status_code, answer.text.replace(id, name)

    status, text = asked(id)
    assert (status, text) == asked(unknown(id))
    assert status >= 400


def test_nothing_of_annas_was_changed(
    annas: dict[str, dict[str, str]], anna: httpx2.Client
) -> None:
    """The last of this file: after all that Ben asked for, everything is there."""
    for path in {path for method, path in NAMED if method == "GET"}:
        if path.endswith("/results"):
            continue  # 404 until the batch has ended
        answer = anna.get(path.format(**annas[path]))
        assert answer.status_code == 200, (path, answer.text)
