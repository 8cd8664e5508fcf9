"""The playground in a browser: the inspector's page with Python in it, from a plain file server.

`make playground` builds it, and `make test-playground` fails without it. Nothing but the file
server can be reached. A request to another place, a violated policy or an error in the console
fails the test.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from gpt_oss_harmony.inspector.calls import answer
from support.page_visitor import (
    Visitor,
    accessibility_problems,
    expect_token_ids,
    fragment,
)
from support.playground import FileServer, built_playground, file_server

pytestmark = pytest.mark.slow

HI = {"messages": [{"role": "user", "channel": "x", "content": "Grüße 🏰"}]}
TABS = ("Conversation", "Compare", "Tokens", "Grammar", "Live")
EVAL = """() => new Promise(resolve => {
    setTimeout("globalThis.evaluated = true");
    setTimeout(() => resolve(globalThis.evaluated === true), 50);
})"""
"""Whether a text can be run as JavaScript; what the debugger itself evaluates, no policy stops."""


@pytest.fixture(scope="module")
def server() -> Iterator[FileServer]:
    with file_server(built_playground()) as server:
        yield server


@pytest.fixture(scope="module")
def shared(browser: Browser) -> Iterator[Visitor]:
    """Someone whose browser has loaded Python."""
    visitor = Visitor(browser)
    yield visitor
    visitor.close()


@pytest.fixture(scope="module")
def loaded(shared: Visitor, server: FileServer) -> Page:
    """The playground, after Python was loaded; what the file server sends from now on is noted."""
    page = shared.open(server.url + "playground/")
    load(page)
    server.sent.clear()
    return page


def load(page: Page) -> None:
    """Agree to load Python, and wait until it runs."""
    bar = page.get_by_role("region", name="Python")
    button = bar.get_by_role("button")
    expect(button).to_have_text(re.compile(r"Load 21\.\d MB"))
    assert accessibility_problems(page) == []
    button.click()
    expect(bar.get_by_role("progressbar")).to_be_visible()
    expect(bar).to_have_count(0)


def again(page: Page, url: str) -> None:
    """Open an address as if it were new."""
    page.goto("about:blank")
    page.goto(url)


def test_it_says_how_much_it_loads_and_starts(loaded: Page) -> None:
    expect(loaded.locator("h1")).to_have_text("harmony playground")
    expect(loaded.get_by_role("listbox", name="Tokens of the prompt")).to_be_visible()


def test_the_first_tab_opens_again_without_a_network(loaded: Page) -> None:
    """The service worker has had control only since the page was fetched, and keeps it too."""
    loaded.context.set_offline(True)
    try:
        loaded.reload()
        expect(loaded.get_by_role("listbox", name="Tokens of the prompt")).to_be_visible()
    finally:
        loaded.context.set_offline(False)


def test_it_changes_its_language_without_a_network(loaded: Page) -> None:
    loaded.context.set_offline(True)
    try:
        loaded.get_by_role("combobox", name="Language").select_option("日本語")
        expect(loaded.get_by_role("tab", name="会話", exact=True)).to_be_visible()
        loaded.get_by_role("combobox", name="言語").select_option("English")
        expect(loaded.get_by_role("tab", name="Conversation")).to_be_visible()
    finally:
        loaded.context.set_offline(False)


def test_it_is_loaded_once(loaded: Page, server: FileServer) -> None:
    again(loaded, server.url + "playground/" + fragment(source=HI))
    expect(loaded.get_by_role("listbox", name="Tokens of the prompt")).to_contain_text("Grüße")
    expected = json.loads(answer("render", json.dumps({"source": HI}).encode()).text)
    view = loaded.get_by_role("listbox", name="Tokens of the prompt")
    expect_token_ids(view, expected["tokens"]["ids"])
    python = [path for path in server.sent if path.startswith("/playground/python-")]
    assert {path.rpartition("/")[2] for path in python} <= {"files.json"}


def test_it_runs_without_a_network(loaded: Page, server: FileServer) -> None:
    loaded.context.set_offline(True)
    try:
        again(loaded, server.url + "playground/" + fragment(source=HI))
        expect(loaded.get_by_role("listbox", name="Tokens of the prompt")).to_contain_text("Grüße")
    finally:
        loaded.context.set_offline(False)


def test_the_policy_holds_in_the_page_and_in_the_worker(
    loaded: Page, shared: Visitor, server: FileServer
) -> None:
    shared.expected.append("unsafe-eval")
    again(loaded, server.url + "playground/")
    expect(loaded.get_by_role("listbox", name="Tokens of the prompt")).to_be_visible()
    (worker,) = loaded.workers
    assert worker.evaluate(EVAL) is False
    assert loaded.evaluate(EVAL) is False
    names = loaded.evaluate("async () => (await caches.keys()).map(name => name.split('/').at(-1))")
    assert "page" in names


def test_every_tab(loaded: Page, server: FileServer) -> None:
    again(loaded, server.url + "playground/")
    panel = loaded.get_by_role("tabpanel")
    words = {
        "Conversation": "229 tokens",
        "Compare": "Header style",
        "Tokens": "Read a model's output",
        "Grammar": "No grammars here",
        "Live": "grammars need llguidance",
    }
    for tab in TABS:
        loaded.get_by_role("tab", name=tab).click()
        expect(panel).to_contain_text(words[tab], ignore_case=True)


def test_every_example(loaded: Page, server: FileServer) -> None:
    """Each shows the tokens that the library makes here."""
    again(loaded, server.url + "playground/")
    examples = loaded.evaluate("async () => (await import('./inspector/examples.js')).EXAMPLES")
    assert len(examples) == 9
    for number, example in enumerate(examples):
        loaded.locator("details.menu summary", has_text="Examples").click()
        loaded.locator("details.menu[open] li button").nth(number).click()
        document = example["document"]
        if example["tab"] == "conversation":
            body = {"source": document["source"], "form": document["form"], **document["options"]}
            name, view = "render", "Tokens of the prompt"
        else:
            body, name, view = {"input": document["input"]}, "parse", "Stream"
        expected = json.loads(answer(name, json.dumps(body).encode()).text)["tokens"]["ids"]
        expect_token_ids(loaded.get_by_role("listbox", name=view), expected)


def test_typing_and_sharing(loaded: Page, server: FileServer) -> None:
    again(loaded, server.url + "playground/" + fragment(source=HI))
    view = loaded.get_by_role("listbox", name="Tokens of the prompt")
    loaded.get_by_role("textbox", name="Text").first.fill("Tschüß")
    expect(view).to_contain_text("Tschüß")
    loaded.get_by_role("button", name="Share").click()
    link = loaded.get_by_role("textbox", name="Link")
    expect(link).to_have_value(re.compile(r"/playground/#c="))
    address = link.input_value()
    loaded.get_by_role("combobox", name="Export").select_option("python")
    expect(loaded.get_by_role("textbox", name="Content of the file")).to_have_value(
        re.compile("Tschüß")
    )
    again(loaded, address)
    expect(view).to_contain_text("Tschüß")


def say(page: Page, words: str) -> None:
    """Send a message in Live, with greedy sampling, and wait for the end of the turn."""
    page.get_by_role("spinbutton", name="Temperature").fill("0")
    page.get_by_role("textbox", name="Message").fill(words)
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("tabpanel")).to_contain_text(re.compile(r"The turn has ended after"))


def test_the_model_answers_in_the_page(loaded: Page, server: FileServer) -> None:
    again(loaded, server.url + "playground/" + fragment("live", source={"messages": []}))
    panel = loaded.get_by_role("tabpanel")
    say(loaded, "What is 27 + 45?")
    expect(panel).to_contain_text("27 + 45 = 72.")
    turn = loaded.get_by_role("region", name="Turn")
    expect(turn).to_contain_text("50 tokens")
    assert [path for path in server.sent if "completions" in path] == []


def test_the_model_calls_the_weather(loaded: Page, server: FileServer) -> None:
    again(loaded, server.url + "playground/")
    loaded.get_by_role("tab", name="Live").click()
    loaded.get_by_role("button", name="New conversation").click()
    say(loaded, "What is the weather in Tokyo?")
    expect(loaded.get_by_role("tabpanel")).to_contain_text("get_current_weather")


def test_a_turn_can_be_stopped(loaded: Page, server: FileServer) -> None:
    again(loaded, server.url + "playground/" + fragment("live", source={"messages": []}))
    loaded.get_by_role("textbox", name="Message").fill("What is 27 + 45?" * 40)
    loaded.get_by_role("button", name="Send").click()
    loaded.get_by_role("button", name="Stop").click()
    expect(loaded.get_by_role("button", name="Send")).to_be_enabled()
    say(loaded, "Hello!")


def test_a_problem_names_its_field(loaded: Page, server: FileServer) -> None:
    again(loaded, server.url + "playground/" + fragment(source={"messages": [{"role": "nobody"}]}))
    expect(loaded.get_by_role("alert").first).to_contain_text("messages[0]")


def test_a_narrow_window(loaded: Page, server: FileServer) -> None:
    size = loaded.viewport_size
    assert size is not None
    loaded.set_viewport_size({"width": 390, "height": 844})
    try:
        again(loaded, server.url + "playground/" + fragment(source=HI))
        expect(loaded.get_by_role("listbox", name="Tokens of the prompt")).to_be_visible()
        for tab in TABS:
            loaded.get_by_role("tab", name=tab).click()
            assert loaded.evaluate("document.documentElement.scrollWidth") <= 390, tab
    finally:
        loaded.set_viewport_size(size)


def test_a_file_with_another_hash_is_refused(
    visitor: Visitor, server: FileServer, tmp_path: Path
) -> None:
    folder = tmp_path / "playground"
    shutil.copytree(built_playground() / "playground", folder)
    (python,) = folder.glob("python-*")
    content = bytearray((python / "packages.zip").read_bytes())
    content[len(content) // 2] ^= 1
    (python / "packages.zip").write_bytes(content)
    with file_server(tmp_path) as changed:
        page = visitor.open(changed.url + "playground/", viewport={"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_role("region", name="Python").get_by_role("button").click()
        alert = page.get_by_role("region", name="Python").get_by_role("alert")
        expect(alert).to_contain_text("packages.zip is not the file that belongs here")
        kept = page.evaluate(
            "async () => (await Promise.all((await caches.keys()).map(async name => "
            "(await (await caches.open(name)).keys()).map(({ url }) => url)))).flat()"
        )
        assert not any(url.endswith("packages.zip") for url in kept)
        # The worker, too, speaks the language of the page.
        russian = visitor.open(changed.url + "playground/", locale="ru-RU")
        button = russian.get_by_role("region", name="Python").get_by_role("button")
        expect(button).to_have_text(re.compile(r"Загрузить 21,\d МБ"))
        button.click()
        alert = russian.get_by_role("region", name="Python").get_by_role("alert")
        expect(alert).to_contain_text("Python не запускается: packages.zip — не тот файл")
