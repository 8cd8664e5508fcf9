"""The inspector over HTTP: its page, who may ask, and as a part of the server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gpt_oss_harmony.inspector
from gpt_oss_harmony import __version__
from gpt_oss_harmony.inspector.calls import MAX_VALUES
from support.inspector_client import CHAT, HERE, client
from support.responses_server import serving

PAGE = Path(gpt_oss_harmony.inspector.__file__).parent / "page"
JSON = {"Content-Type": "application/json"}
RENDER = "/inspector/api/render"


def test_the_page_and_its_files_are_served() -> None:
    files = {"/": "index.html"}
    files |= {f"/inspector/{file.name}": file.name for file in PAGE.glob("*.*")}
    kinds = {
        "html": "text/html; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "css": "text/css; charset=utf-8",
        "json": "application/json",
    }
    for path, name in files.items():
        answer = client.get(path)
        kind = kinds.get(name.rpartition(".")[2])
        if kind is None or name.endswith(".d.ts"):
            assert answer.status_code == 404, path
            continue
        assert answer.status_code == 200, path
        assert answer.headers["Content-Type"] == kind
        assert answer.content == (PAGE / name).read_bytes()


def test_the_page_may_load_nothing_from_elsewhere() -> None:
    headers = client.get("/").headers
    policy = dict(
        part.strip().partition(" ")[::2] for part in headers["Content-Security-Policy"].split(";")
    )
    assert policy["default-src"] == "'self'"
    assert "script-src" not in policy
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"


def test_files_are_sent_once() -> None:
    first = client.get("/")
    assert first.headers["Cache-Control"] == "no-cache"
    again = client.get("/", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/", headers={"If-None-Match": '"another"'}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "..%2f__init__.py",
        "%2e%2e%2froutes.py",
        "routes.py",
        "wire.d.ts",
        "none.js",
        ".js",
        "a/b.js",
    ],
)
def test_nothing_but_the_page_is_served(path: str) -> None:
    assert client.get(f"/inspector/{path}").status_code == 404


def test_settings_say_what_there_is() -> None:
    assert client.get("/inspector/api/settings").json() == {
        "version": __version__,
        "grammar": True,
        "live": False,
        "needs_key": False,
        "model": None,
    }


REFUSED: dict[str, tuple[dict[str, str], bytes, int]] = {
    "a form": ({"Content-Type": "application/x-www-form-urlencoded"}, b"{}", 415),
    "text, as other sites may send": ({"Content-Type": "text/plain"}, b"{}", 415),
    "no type": ({}, b"{}", 415),
    "too much": (JSON, b" " * (16 * 1024 * 1024 + 1), 413),
    "nothing": (JSON, b"", 400),
}


@pytest.mark.parametrize(("headers", "content", "status"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_request_is_refused(
    headers: dict[str, str], content: bytes, status: int
) -> None:
    answer = client.post(RENDER, content=content, headers=headers)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "param"}


def test_types_may_have_parameters() -> None:
    content = json.dumps({"source": CHAT})
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert client.post(RENDER, content=content, headers=headers).status_code == 200


def test_the_api_is_not_read_by_get() -> None:
    assert client.get(RENDER).status_code == 405


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:4711", 200),
        ("localhost:4711", 200),
        ("attacker.example", 400),
        ("127.0.0.1.attacker.example", 400),
        ("[::1]:4711", 200),
        ("192.168.0.1:4711", 400),
    ],
)
def test_only_this_machine_is_answered(host: str, status: int) -> None:
    """A site whose name is made to point to 127.0.0.1 sends its own name."""
    for path in ("/", "/inspector/api/settings"):
        assert client.get(HERE + path, headers={"Host": host}).status_code == status


# As a part of the server


def test_the_server_has_it_and_its_model() -> None:
    with serving() as server:
        assert server.get("/").content == client.get("/").content
        assert server.get("/inspector/api/settings").json() == {
            "version": __version__,
            "grammar": True,
            "live": True,
            "needs_key": False,
            "model": "script",
        }
        response = server.post(RENDER, json={"source": CHAT}).json()
        assert response == client.post(RENDER, json={"source": CHAT}).json()
        refused = server.post(RENDER, json={"source": 1})
        assert (refused.status_code, refused.json()["error"]["param"]) == (422, "source")
        counted = server.get("/metrics").text
    assert 'route="/inspector/api/render",status="200"' in counted
    assert 'route="/"' in counted


def test_the_server_wants_its_keys_for_the_api_and_not_for_the_page() -> None:
    body = {"source": CHAT}
    with serving(api_keys=("a secret",)) as server:
        assert server.get("/").status_code == 200
        assert server.get("/inspector/api/settings").json()["needs_key"]
        for headers in ({}, {"Authorization": "Bearer another"}):
            refused = server.post(RENDER, json=body, headers=headers)
            assert refused.status_code == 401
            assert "API key" in refused.json()["error"]["message"]
        headers = {"Authorization": "Bearer a secret"}
        assert server.post(RENDER, json=body, headers=headers).status_code == 200


def test_the_server_may_go_without_it() -> None:
    with serving(inspector=False) as server:
        for path in ("/", "/inspector/main.js", "/inspector/api/settings"):
            assert server.get(path).status_code == 404
        assert server.get("/health").status_code == 200


def test_the_server_has_a_smaller_limit_where_it_was_told_one() -> None:
    with serving(max_request_bytes=1000) as server:
        answer = server.post(RENDER, json={"source": {"input": "a" * 1000}})
    assert answer.status_code == 413


def test_the_values_of_a_request_are_limited() -> None:
    body = b'{"text":"' + b"," * MAX_VALUES + b',"}'
    answer = client.post("/inspector/api/parse", content=body, headers=JSON)
    assert answer.status_code == 413
    assert "500,000 values" in answer.json()["error"]["message"]
