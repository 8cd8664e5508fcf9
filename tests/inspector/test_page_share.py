"""Sharing from the inspector: links that hold the conversation, exports that give its tokens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from gpt_oss_harmony import load_harmony_encoding
from support.page_visitor import Visitor, fragment, inspecting, token_ids

pytestmark = pytest.mark.slow

ENCODING = load_harmony_encoding("HarmonyGptOss")
CHATS = Path(__file__).parents[1] / "data" / "chat"


def read(name: str) -> Any:
    return json.loads((CHATS / name).read_text(encoding="utf-8"))


WEATHER = read("weather/conversation.json")
SHOPPING = read("shopping_list/request.json")
TURNS = {
    "messages": [
        {"role": "user", "content": "One?"},
        {"role": "assistant", "channel": "analysis", "content": "I think. 🏰"},
        {"role": "assistant", "channel": "final", "content": "1."},
        {"role": "user", "content": "Two? <|end|>"},
        {"role": "assistant", "channel": "final", "content": "2."},
    ]
}
DOCUMENTS: dict[str, dict[str, Any]] = {
    "tools": {"source": WEATHER, "options": {"header_style": "reference"}},
    "a request": {"source": SHOPPING, "form": "chat", "options": {"date": "2025-06-28"}},
    "responses": {"source": {"input": "hi", "instructions": "Be 🏰."}},
    "past reasoning": {"source": TURNS},
    "reasoning that is kept": {"source": TURNS, "options": {"reasoning": "keep"}},
    "training": {"source": TURNS, "options": {"ending": "training", "example": 1}},
}


def tokens_shown(page: Page) -> list[int]:
    view = page.get_by_role("listbox", name="Tokens of the prompt")
    expect(view.locator(".token").first).to_be_visible()
    return token_ids(view)


def share(page: Page) -> Locator:
    page.get_by_role("button", name="Share").click()
    return page.get_by_role("dialog", name="Share")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_link_opens_the_same(visitor: Visitor, inspector_url: str, name: str) -> None:
    page = visitor.open(inspector_url + fragment(**DOCUMENTS[name]))
    tokens = tokens_shown(page)
    link = share(page).get_by_role("textbox", name="Link")
    expect(link).not_to_have_value("")
    other = visitor.open(link.input_value())
    assert tokens_shown(other) == tokens
    expect(other.locator(".result .summary")).to_have_text(
        page.locator(".result .summary").text_content() or ""
    )


def test_the_address_follows_what_is_written(visitor: Visitor, page: Page) -> None:
    before = page.url
    page.get_by_role("textbox", name="Text of message 2").fill("Where am I?")
    page.wait_for_url(lambda url: url != before and "c=" in url)
    expect(page.get_by_role("listbox", name="Tokens of the prompt")).to_contain_text("Where am I?")
    page.get_by_role("tab", name="Tokens").click()
    page.wait_for_url("**tab=tokens**")
    other = visitor.open(page.url)
    expect(other.get_by_role("tab", name="Tokens")).to_have_attribute("aria-selected", "true")
    other.get_by_role("tab", name="Conversation").click()
    expect(other.get_by_role("textbox", name="Text of message 2")).to_have_value("Where am I?")


def test_a_link_is_copied(visitor: Visitor, inspector_url: str) -> None:
    page = visitor.open(
        inspector_url + fragment(source=TURNS),
        permissions=["clipboard-read", "clipboard-write"],
    )
    tokens_shown(page)
    dialog = share(page)
    dialog.get_by_role("button", name="Copy link").click()
    expect(page.get_by_text("Link copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == dialog.get_by_role("textbox", name="Link").input_value()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Share")).to_be_focused()


def saved(page: Page, kind: str, folder: Path) -> Path:
    """Export as a person does, and return the file."""
    dialog = share(page)
    dialog.get_by_label("Export").select_option(kind)
    content = dialog.get_by_label("Content of the file")
    expect(content).to_have_value(MARKS[kind])
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Download").click()
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    assert file.read_text(encoding="utf-8") == content.input_value()
    return file


MARKS = {
    "Harmony JSON": re.compile(r'^\{\s*"messages"'),
    "Python program": re.compile("^from gpt_oss_harmony import|^import json"),
    "Test vector": re.compile(r'^\{\s*"conversation"'),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_python_program_gives_the_tokens_that_are_shown(
    visitor: Visitor, inspector_url: str, tmp_path: Path, name: str
) -> None:
    page = visitor.open(inspector_url + fragment(**DOCUMENTS[name]))
    tokens = tokens_shown(page)
    file = saved(page, "Python program", tmp_path)
    assert file.suffix == ".py"
    more = "import json; from gpt_oss_harmony import *; print(json.dumps(list(tokens)))"
    with file.open("a", encoding="utf-8") as program:
        program.write(f"\n{more}\n")
    done = subprocess.run(
        [sys.executable, "-X", "utf8", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == tokens


def test_the_vector_has_the_tokens_and_can_be_opened(
    visitor: Visitor, inspector_url: str, tmp_path: Path
) -> None:
    page = visitor.open(inspector_url + fragment(**DOCUMENTS["tools"]))
    tokens = tokens_shown(page)
    file = saved(page, "Test vector", tmp_path)
    vector = json.loads(file.read_text(encoding="utf-8"))
    assert vector["tokens"] == tokens
    assert vector["text"] == ENCODING.decode(tokens)
    other = visitor.open(inspector_url)
    other.get_by_label("File to open").set_input_files(file)
    expect(other.get_by_label("Header style")).to_have_value("reference")
    expect(other.get_by_role("region", name="Rendering")).to_contain_text(f"{len(tokens)} tokens")
    assert tokens_shown(other) == tokens


def test_the_json_is_the_conversation(visitor: Visitor, inspector_url: str, tmp_path: Path) -> None:
    page = visitor.open(inspector_url + fragment(**DOCUMENTS["a request"]))
    tokens = tokens_shown(page)
    file = saved(page, "Harmony JSON", tmp_path)
    assert json.loads(file.read_text(encoding="utf-8")) == read("shopping_list/conversation.json")
    with inspecting(str(file)) as url:
        assert tokens_shown(visitor.open(url)) == tokens
