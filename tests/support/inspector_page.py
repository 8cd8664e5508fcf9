"""The inspector in a real browser, for tests: take `page`.

The browser is Chromium, driven by Playwright. HARMONY_TEST_CHROMIUM names the program; without it,
the system's is taken, and where there is none the tests are skipped. Nothing but this machine can
be reached from it. A page in which anything goes wrong fails its test: a script that throws, an
error in the console (as of a Content-Security-Policy that was violated), a dialog, a request to
anywhere but its own server.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from support.page_visitor import Visitor, inspecting

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM_ARGUMENTS = (
    "--no-sandbox",  # which does not start where tests run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-lcd-text",  # pictures are the same on every screen
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def chromium_program() -> str:
    """Return the path of Chromium; skip, or fail, where there is none."""
    named = os.environ.get("HARMONY_TEST_CHROMIUM")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if found is not None:
        return found
    if named:
        pytest.fail(f"HARMONY_TEST_CHROMIUM names no program: {named}")
    pytest.skip("Chromium is not installed; HARMONY_TEST_CHROMIUM can say where it is")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser, without any page; a module's own, so that no event loop outlives the module."""
    program = chromium_program()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    """Someone who opens pages; what went wrong in them fails the test."""
    visitor = Visitor(browser)
    yield visitor
    visitor.close()


@pytest.fixture(scope="session")
def inspector_url() -> Iterator[str]:
    """The inspector without a model; all tests of a worker share it, as it keeps nothing."""
    with inspecting() as url:
        yield url


@pytest.fixture
def page(visitor: Visitor, inspector_url: str) -> Page:
    """The inspector, as it is when it was opened."""
    return visitor.open(inspector_url)
