"""The log: a request id in every line of a request, and not a word of what was said."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.websockets import WebSocketDisconnect

from gpt_oss_harmony.server.logs import announce, configure_logs
from gpt_oss_harmony.server.store import StoreError
from support.chat_server import HI
from support.responses_server import PATH, THOUGHT, answer, serving
from support.scripted_engine import ScriptedEngine
from support.server_tools import COMPUTE, PretendedPython, RoomyEngine, compute, serving_tools
from support.server_tools import answer as said

SECRET = "canary"
OWN_ID = {"X-Request-Id": "proxy-7"}


@contextmanager
def logged(
    monkeypatch: pytest.MonkeyPatch, *, form: Any = "json", level: str = "debug"
) -> Iterator[io.StringIO]:
    """Configure the log of this process for a while; what is written to it is given."""
    library, root = logging.getLogger("gpt_oss_harmony"), logging.getLogger()
    before = library.level, root.level, root.handlers[:]
    monkeypatch.setattr(logging.getLogger("mcp"), "propagate", True)  # set back at the end
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    root.handlers[:] = []  # those of the test runner are left open
    configure_logs(form, level)
    try:
        yield written
    finally:
        root.handlers[:] = before[2]
        root.setLevel(before[1])
        library.setLevel(before[0])


def lines(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def requests(written: io.StringIO) -> list[dict[str, Any]]:
    return [line for line in lines(written) if line["message"] == "request"]


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [("proxy-7", True), ("a" * 128, True), ("a" * 129, False), ("two words", False), ("", False)],
)
def test_the_id_of_a_client_is_kept_unless_it_could_spoil_the_log(
    given: str, is_kept: bool
) -> None:
    with serving() as client:
        id = client.get("/health", headers={"X-Request-Id": given}).headers["x-request-id"]
    assert (id == given) is is_kept
    assert is_kept or id.startswith("req_")


def test_every_response_has_an_id() -> None:
    with serving("!", api_keys=("key",)) as client:
        keyed = {"Authorization": "Bearer key"}
        answers = [
            client.get("/health"),
            client.get("/nowhere"),
            client.get("/v1/models"),  # 401, before the routes
            client.post("/v1/chat/completions", headers=keyed, json={"messages": HI}),
            client.post("/v1/chat/completions", headers=keyed, content=b"{"),
        ]
    ids = {sent.headers["x-request-id"] for sent in answers}
    assert len(ids) == len(answers)


def test_the_response_of_a_bug_has_the_id_of_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(ScriptedEngine):
        async def health(self) -> Any:
            raise RuntimeError(SECRET)

    with logged(monkeypatch) as written, serving(engine=Broken()) as client:
        sent = client.get("/health", headers=OWN_ID)
        assert (sent.status_code, sent.headers["x-request-id"]) == (500, "proxy-7")
    bug = next(line for line in lines(written) if line["level"] == "error")
    assert bug["request_id"] == "proxy-7"
    assert bug["message"] == "GET /health failed"
    assert bug["exception"].startswith("builtins.RuntimeError\n  health (")
    assert SECRET not in written.getvalue()
    assert [line["status"] for line in requests(written)] == [500]


def test_requests_are_logged_by_route(monkeypatch: pytest.MonkeyPatch) -> None:
    with logged(monkeypatch, level="info") as written, serving() as client:
        client.get(f"/v1/models/{SECRET}", headers=OWN_ID)
        client.get(f"/{SECRET}?{SECRET}=1")
    known, unknown = requests(written)
    assert (
        known.items()
        >= {
            "level": "info",
            "request_id": "proxy-7",
            "method": "GET",
            "route": "/v1/models/{name:path}",
            "status": 404,
        }.items()
    )
    assert known["seconds"] > 0
    assert unknown["route"] == "other"
    assert SECRET not in written.getvalue()


@pytest.mark.parametrize(
    ("level", "paths"),
    [("warning", []), ("info", ["/v1/models"]), ("debug", ["/v1/models", "/health"])],
)
def test_requests_are_logged_where_asked_for(
    monkeypatch: pytest.MonkeyPatch, level: str, paths: list[str]
) -> None:
    with logged(monkeypatch, level=level) as written, serving() as client:
        for path in ("/v1/models", "/health"):
            client.get(path)
    assert [line["route"] for line in requests(written)] == paths


def test_a_websocket_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        logged(monkeypatch) as written,
        serving(said("Hi."), said("Hi.")) as client,
        client.websocket_connect(PATH, headers=OWN_ID) as socket,
    ):
        for _ in range(2):
            answer(socket, input="hi")
    (line,) = requests(written)
    assert (line["request_id"], line["status"], line["route"]) == ("proxy-7", 101, PATH)


def test_a_websocket_that_was_not_accepted_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with logged(monkeypatch) as written, serving() as client, pytest.raises(WebSocketDisconnect):
        client.websocket_connect("/v1/models").__enter__()
    assert [line["status"] for line in requests(written)] == [403]


def test_nothing_that_was_said_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """In prompts, reasoning, answers, calls, failures, refusals, names, metadata and keys."""
    engine = RoomyEngine(
        THOUGHT.replace("Hm", SECRET) + compute(f"print('{SECRET}')"),
        compute("raise"),
        said(SECRET),
        f"<|channel|>final<|message|>{SECRET}!",
        f"<|channel|>final to={SECRET} oops <|message|>{SECRET}<|return|>",
    )
    with logged(monkeypatch) as written, serving_tools(engine, PretendedPython()) as client:
        body = {"input": SECRET, "instructions": SECRET, "metadata": {SECRET: SECRET}}
        first = client.post(PATH, json={**body, "tools": [COMPUTE]}, headers=OWN_ID)
        assert first.json()["status"] == "completed", first.text
        for sent in (
            {**body, "stream": True},
            {"messages": [{"role": "user", "content": SECRET}]},
            {"messages": [{"role": SECRET, "content": SECRET}]},
            {"messages": HI, "tools": [{"type": SECRET, SECRET: SECRET}]},
            {SECRET: SECRET},
        ):
            path = PATH if "input" in sent else "/v1/chat/completions"
            client.post(path, json=sent, headers={"Authorization": f"Bearer {SECRET}"})
        services = client.app.state.services  # type: ignore[attr-defined]

        def fail(*_: Any, **__: Any) -> None:
            with services.store.blocking._database.writing() as connection:
                connection.exec_driver_sql("INSERT INTO nowhere VALUES (?)", (SECRET,))

        monkeypatch.setattr(services.store.blocking.responses, "finish", fail)
        engine.completions.append(said(SECRET))
        lost = client.post(PATH, json=body)
        assert lost.status_code == 503, lost.text
    text = written.getvalue()
    assert "could not be stored" in text
    assert "no such table: nowhere" in text  # errors of the store say what failed
    assert "the tool python failed" in text
    assert {line["request_id"] for line in lines(written) if "tool" in line["message"]} == {
        "proxy-7"
    }
    assert SECRET not in text


def test_lines_of_text_and_of_other_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    with logged(monkeypatch, form="text", level="info") as written:
        logging.getLogger("a.library").warning("a\nb")
        logging.getLogger("a.library").info("not shown")
        try:
            raise StoreError("the database is gone") from ValueError(SECRET)
        except StoreError:
            logging.getLogger("gpt_oss_harmony.server").exception("failed")
    first, second, *rest = written.getvalue().splitlines()
    assert first.endswith("Z WARNING a.library: a\\nb")
    assert second.endswith("Z ERROR gpt_oss_harmony.server: failed")
    assert rest[0] == "gpt_oss_harmony.server.store.errors.StoreError: the database is gone"
    assert rest[-1] == "builtins.ValueError"


def test_what_libraries_would_quote_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio shows the exception of a task that nobody awaits; the SDK of MCP what it received."""
    loop = asyncio.new_event_loop()
    lost = loop.create_future()
    lost.set_exception(RuntimeError(SECRET))
    about = {"message": "a task failed", "exception": lost.exception(), "future": lost}
    with logged(monkeypatch) as written:
        loop.call_exception_handler(about)
        logging.getLogger("mcp.client").warning("the server sent %s", SECRET)
    loop.close()
    (line,) = lines(written)
    assert line["message"] == "a task failed"
    assert line["exception"] == "builtins.RuntimeError"


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_a_server_says_of_itself_is_in_the_same_form(
    monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    with logged(monkeypatch, form=form, level="error") as written:
        announce("serving demo")
    text = written.getvalue()
    assert (json.loads(text)["message"] if form == "json" else text.rstrip()) == "serving demo"


def test_background_work_has_the_id_of_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = RoomyEngine(compute("raise"), said("Done."))
    with logged(monkeypatch) as written, serving_tools(engine, PretendedPython()) as client:
        body = {"input": "hi", "background": True, "tools": [COMPUTE]}
        id = client.post(PATH, json=body, headers=OWN_ID).json()["id"]
        events = client.get(f"{PATH}/{id}?stream=true").text  # waits for its end
        assert "response.completed" in events
    failure = next(line for line in lines(written) if line["level"] == "error")
    assert failure["request_id"] == "proxy-7"
