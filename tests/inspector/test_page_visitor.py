"""The visitor of the inspector notices what goes wrong; else all other tests would see nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser

from support.page_visitor import Visitor, accessibility_problems

pytestmark = pytest.mark.slow

WRONG = {
    "throw": ("<script>throw new Error('oh')</script>", "a script threw: oh"),
    "reject": ("<script>Promise.reject(new Error('oh'))</script>", "a script threw: oh"),
    "log": ("<script>console.error('oh')</script>", "error: oh"),
    "ask": ("<script>alert('oh')</script>", "a dialog: oh"),
    "violate": (
        '<meta http-equiv="Content-Security-Policy" content="script-src \'none\'">'
        "<script>oh()</script>",
        "Content Security Policy",
    ),
    "go elsewhere": ('<img src="http://example.com/x.png">', "a request: GET http://example.com/"),
    "go to another port": (
        '<img src="http://127.0.0.1:1/x">',
        "a request: GET http://127.0.0.1:1/",
    ),
    "miss": ('<img src="/missing">', "status of 404"),
}


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path[1:].replace("%20", " ")
        self.send_response(404 if name == "missing" else 200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        if name in WRONG:
            self.wfile.write(f"<link rel=icon href='data:,'>{WRONG[name][0]}".encode())

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", WRONG)
def test_what_goes_wrong_is_noticed(browser: Browser, pages: str, name: str) -> None:
    visitor = Visitor(browser)
    visitor.open(pages + name).wait_for_timeout(0)
    with pytest.raises(AssertionError, match=WRONG[name][1].replace("(", "\\(")):
        visitor.close()


def test_what_is_expected_is_not_wrong(browser: Browser, pages: str) -> None:
    visitor = Visitor(browser)
    visitor.expected.append("error: oh")
    visitor.open(f"{pages}log")
    visitor.close()


def test_what_nobody_can_read_is_found(browser: Browser, pages: str) -> None:
    visitor = Visitor(browser)
    page = visitor.open(pages)
    page.set_content("<html lang=en><title>x</title><main><h1>x</h1><button></button>")
    assert [problem.split(":")[0] for problem in accessibility_problems(page)] == ["button-name"]
    visitor.close()
