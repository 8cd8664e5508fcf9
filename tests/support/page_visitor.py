"""Someone who visits the inspector in a browser, and notices whatever goes wrong there."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    Request,
    expect,
)

from support.served import PATIENCE

_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/")
_IDS = "all => all.map(token => Number(token.dataset.id))"
_AXE = Path(__file__).parents[1] / "page" / "node_modules" / "axe-core" / "axe.min.js"

expect.set_options(timeout=PATIENCE * 1000)


class Visitor:
    """Opens pages, each in a profile of its own, and remembers what went wrong in them.

    `expected` are patterns of what the test makes go wrong, such as a request that is refused.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.expected: list[str] = []
        self.wrong: list[str] = []

    def open(self, url: str, **options: Any) -> Page:
        """Open a page of the inspector; `options` are those of Playwright's contexts."""
        context = self._browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options}
        )
        context.set_default_timeout(PATIENCE * 1000)
        self._contexts.append(context)
        page = context.new_page()
        origin = "/".join(url.split("/")[:3]) + "/"
        page.on("console", self._told)
        page.on("pageerror", lambda error: self._went_wrong(f"a script threw: {error}"))
        page.on("dialog", self._asked)
        page.on("request", lambda request: self._requested(request, origin))
        page.goto(url)
        return page

    def close(self) -> None:
        """Close all pages; fails where anything went wrong in one."""
        for context in self._contexts:
            context.close()
        assert not self.wrong, self.wrong

    def _told(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._went_wrong(f"{message.type}: {message.text} ({message.location})")

    def _asked(self, dialog: Dialog) -> None:
        self._went_wrong(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _requested(self, request: Request, origin: str) -> None:
        if not request.url.startswith((origin, f"blob:{origin}", "data:")):
            self._went_wrong(f"a request: {request.method} {request.url}")

    def _went_wrong(self, what: str) -> None:
        if not any(re.search(pattern, what) for pattern in self.expected):
            self.wrong.append(what)


@contextmanager
def inspecting(*arguments: str) -> Iterator[str]:
    """Run ``harmony inspect`` as a process; the URL that it prints is given."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gpt_oss_harmony", "inspect", "--no-open", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            told = []
            for line in process.stdout:
                told.append(line)
                if found := _ADDRESS.search(line):
                    yield line[found.start() :].split()[0]
                    break
            else:
                pytest.fail(f"the inspector does not start: {told}")
        finally:
            process.kill()


def fragment(tab: str = "", **document: Any) -> str:
    """The end of an address that opens a document: `source`, `form`, `options` and so on."""
    text = json.dumps(document).encode()
    packer = zlib.compressobj(wbits=-15)
    packed = base64.urlsafe_b64encode(packer.compress(text) + packer.flush()).decode()
    return f"#c={packed.rstrip('=')}&tab={tab}"


def token_ids(view: Locator) -> list[int]:
    """The ids of the tokens that have elements now: all of them where there are not many."""
    found: list[int] = view.locator(".token").evaluate_all(_IDS)
    return found


def expect_token_ids(view: Locator, ids: list[int]) -> None:
    """Wait until a view shows these tokens."""
    end = time.monotonic() + PATIENCE
    while token_ids(view) != ids and time.monotonic() < end:
        view.page.wait_for_timeout(20)
    assert token_ids(view) == ids


def accessibility_problems(page: Page) -> list[str]:
    """What axe finds in a page: the rule, and the elements that break it."""
    if not _AXE.exists():
        if shutil.which("npm") is None and "HARMONY_TEST_CHROMIUM" not in os.environ:
            pytest.skip("npm is not installed")
        pytest.fail("axe is missing; run: make tests/page/node_modules/.installed")
    page.evaluate(_AXE.read_text(encoding="utf-8"))
    found = page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{problem['id']}: {problem['help']}: {node['html'][:200]} {node['failureSummary']}"
        for problem in found
        for node in problem["nodes"]
    ]
