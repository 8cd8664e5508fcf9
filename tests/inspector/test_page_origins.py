"""Pages of other sites in a real browser: they cannot use a server on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from gpt_oss_harmony.server import Settings
from support.inspector_page import CHROMIUM_ARGUMENTS, chromium_program
from support.scripted_engine import ScriptedEngine
from support.served import PATIENCE, serving

pytestmark = pytest.mark.slow

ANSWER = "<|channel|>final<|message|>The secret is 4711.<|return|>"
SECRET = "4711"
ATTACKER = "attacker.example"  # which the browser finds at 127.0.0.1, as DNS rebinding makes it
REQUEST = {"model": "script", "input": "Which secret?"}

FETCH = """async ([url, options]) => {
    try {
        const answer = await fetch(url, options);
        return [answer.status, await answer.text(), [...answer.headers.keys()].join()];
    } catch (error) {
        return [0, String(error), ""];
    }
}"""
SOCKET = """([url, request]) => new Promise(resolve => {
    const socket = new WebSocket(url);
    let received = "";
    socket.onopen = () => socket.send(request);
    socket.onclose = () => resolve(["closed", received]);
    socket.onmessage = event => {
        received += event.data;
        if (JSON.parse(event.data).type === "response.completed") resolve(["completed", received]);
    };
})"""

JSON_TYPE = {"Content-Type": "application/json"}
SIMPLE = {"method": "POST", "headers": {"Content-Type": "text/plain"}, "body": json.dumps(REQUEST)}
JSON = {**SIMPLE, "headers": JSON_TYPE}
KEYED = {**JSON, "headers": {**JSON_TYPE, "Authorization": "Bearer none", "X-Stainless": "1"}}
ATTEMPTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a simple request": ("/v1/responses", SIMPLE),
    "a request that nobody reads": ("/v1/responses", {**SIMPLE, "mode": "no-cors"}),
    "a request with a preflight": ("/v1/responses", JSON),
    "a request with a key": ("/v1/responses", KEYED),
    "with cookies": ("/v1/responses", {**JSON, "credentials": "include"}),
    "Chat Completions": ("/v1/chat/completions", SIMPLE),
    "the inspector": ("/inspector/api/render", JSON),
    "the models": ("/v1/models", {}),
    "a deletion": ("/v1/responses/resp_1", {"method": "DELETE"}),
}


class Blank(BaseHTTPRequestHandler):
    """A site with empty pages."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[int]:
    """The port of another site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Blank)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def rebinding_browser() -> Iterator[Browser]:
    """A browser for which the attacker's name is this machine."""
    rules = f"--host-resolver-rules=MAP {ATTACKER} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    arguments = [*(a for a in CHROMIUM_ARGUMENTS if "resolver" not in a), rules]
    program = chromium_program()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@contextmanager
def visiting(browser: Browser, url: str) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE * 1000)
    try:
        page = context.new_page()
        page.goto(url)
        yield page
    finally:
        context.close()


def socket(page: Page, root: str) -> tuple[str, str]:
    """Ask over a WebSocket; return how it ended, and what was received."""
    request = json.dumps({"type": "response.create", **REQUEST})
    url = root.replace("http://", "ws://") + "/v1/responses"
    ending, received = page.evaluate(SOCKET, [url, request])
    return ending, received


def test_a_page_of_another_origin_reaches_nothing(rebinding_browser: Browser, site: int) -> None:
    engine = ScriptedEngine(*[ANSWER] * 20)
    with serving(engine) as url:
        root = url.removesuffix("/v1")
        for host in ("127.0.0.1", ATTACKER):
            with visiting(rebinding_browser, f"http://{host}:{site}/") as page:
                for path, options in ATTEMPTS.values():
                    status, text, _ = page.evaluate(FETCH, [root + path, options])
                    assert status == 0, path
                    assert SECRET not in text
                assert socket(page, root) == ("closed", "")
        assert engine.prompts == [], "the model was asked"


def test_a_name_that_was_bound_again_reaches_nothing(rebinding_browser: Browser) -> None:
    """For the browser, the page and the server are of one origin: only the name gives it away."""
    engine = ScriptedEngine(*[ANSWER] * 20)
    with serving(engine) as url:
        rebound = url.removesuffix("/v1").replace("127.0.0.1", ATTACKER)
        with visiting(rebinding_browser, rebound) as page:
            assert page.title() == ""
            for path, options in ATTEMPTS.values():
                if options.get("mode") == "no-cors":
                    continue  # of the same origin, it would be readable anyway
                status, text, _ = page.evaluate(FETCH, [rebound + path, options])
                assert status == 400, path
                assert json.loads(text)["error"]["code"] == "host_not_allowed"
            assert socket(page, rebound) == ("closed", "")
        assert engine.prompts == [], "the model was asked"


def test_an_allowed_origin_can_do_all(rebinding_browser: Browser, site: int) -> None:
    origin = f"http://{ATTACKER}:{site}"
    engine = ScriptedEngine(*[ANSWER] * 20)
    with (
        serving(engine, Settings(allowed_origins=(origin,))) as url,
        visiting(rebinding_browser, origin) as page,
    ):
        root = url.removesuffix("/v1")
        for options in (JSON, KEYED, {**JSON, "credentials": "include"}):
            status, text, _ = page.evaluate(FETCH, [root + "/v1/responses", options])
            assert status == 200
            assert SECRET in text
        deletion = page.evaluate(FETCH, [root + "/v1/responses/resp_1", {"method": "DELETE"}])
        assert (deletion[0], "not_found" in deletion[1]) == (404, True)
        ending, received = socket(page, root)
        assert ending == "completed"
        assert SECRET in received


def test_the_page_of_the_server_itself_can_do_all(rebinding_browser: Browser) -> None:
    with serving(ScriptedEngine(*[ANSWER] * 20)) as url:
        root = url.removesuffix("/v1")
        with visiting(rebinding_browser, root) as page:
            status, text, _ = page.evaluate(FETCH, [root + "/v1/responses", JSON])
            assert (status, SECRET in text) == (200, True)
            assert socket(page, root)[0] == "completed"


def test_a_page_needs_the_key_of_a_server_with_keys(rebinding_browser: Browser, site: int) -> None:
    """Its origin is allowed, and the key decides; what is refused can be read, too."""
    origin = f"http://127.0.0.1:{site}"
    engine = ScriptedEngine(*[ANSWER] * 20)
    settings = Settings(allowed_origins=(origin,), api_keys=("a-secret",))
    with serving(engine, settings) as url, visiting(rebinding_browser, origin) as page:
        root = url.removesuffix("/v1")
        status, text, headers = page.evaluate(FETCH, [root + "/v1/responses", KEYED])
        assert (status, json.loads(text)["error"]["code"]) == (401, "invalid_api_key")
        assert "www-authenticate" in headers.split(",")
        assert socket(page, root) == ("closed", "")
        assert engine.prompts == []
        with_key = {**JSON_TYPE, "Authorization": "Bearer a-secret"}
        status, text, _ = page.evaluate(
            FETCH, [root + "/v1/responses", {**JSON, "headers": with_key}]
        )
        assert (status, SECRET in text) == (200, True)
