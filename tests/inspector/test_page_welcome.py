"""The first minute with the inspector: a welcome, examples, lessons in empty places, two panes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from support.page_visitor import Visitor, fragment

pytestmark = pytest.mark.slow

HI = {"messages": [{"role": "user", "channel": "x", "content": "hi"}]}
TURN = "<|channel|>final<|message|>Hello.<|return|>"
PURPOSES = {
    "A function call as tokens": ("Conversation", "Need to use function"),
    "A request of an API as tokens": ("Conversation", "A Chat Completions request"),
    "What training uses": ("Conversation", "trainable"),
    "Read a model's output": ("Tokens", "the strict parser reads them all"),
    "Repair damaged output": ("Tokens", "2 recoveries"),
}


def test_the_welcome_has_examples_and_goes(page: Page, inspector_url: str) -> None:
    region = page.get_by_role("region", name="Welcome")
    for purpose, (tab, words) in PURPOSES.items():
        page.evaluate("localStorage.clear()")
        page.goto("about:blank")
        page.goto(inspector_url)
        region.get_by_role("button", name=purpose, exact=True).click()
        expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
        expect(page.get_by_role("tabpanel")).to_contain_text(words)
        expect(region).to_have_count(0)


def test_the_welcome_is_closed_for_good(visitor: Visitor, inspector_url: str) -> None:
    page = visitor.open(inspector_url + fragment(source=HI))
    expect(page.get_by_role("listbox", name="Tokens of the prompt")).to_contain_text("hi")
    region = page.get_by_role("region", name="Welcome")
    expect(region).to_have_count(0)  # a link shows what it holds
    other = page.context.new_page()
    other.goto(inspector_url)
    other.get_by_role("button", name="Close the welcome").click()
    other.goto("about:blank")
    other.goto(inspector_url)
    expect(other.get_by_role("listbox", name="Tokens of the prompt")).to_be_visible()
    expect(other.get_by_role("region", name="Welcome")).to_have_count(0)


LESSONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "conversation": ({"source": {"messages": []}}, "No messages yet", "Hostile text"),
    "tokens": ({"source": HI}, "Read a model's output", "Damaged output"),
    "grammar": ({"source": HI}, "Write a turn under its grammar", "A whole turn"),
    "compare": ({"source": HI}, "No differences", "A function call and its result"),
}


@pytest.mark.parametrize("tab", LESSONS)
def test_an_empty_tab_teaches(visitor: Visitor, inspector_url: str, tab: str) -> None:
    document, title, example = LESSONS[tab]
    page = visitor.open(inspector_url + fragment(tab, **{"form": "harmony", **document}))
    lesson = page.get_by_role("region", name=title)
    expect(lesson).to_be_visible()
    lesson.get_by_role("button", name=example, exact=True).click()
    expect(lesson).to_be_hidden()
    page.go_back()
    if tab != "grammar":  # what is written there is not another document
        expect(lesson).to_be_visible()


PASTED: dict[str, tuple[str, str, str]] = {
    "a conversation": (json.dumps(HI), "Conversation", "the next turn begins"),
    "a request": (json.dumps({"input": "How far?"}), "Conversation", "A Responses request"),
    "a turn": (TURN, "Tokens", "the strict parser reads them all"),
    "ids": ("[200005, 17196, 200008, 12194, 200002]", "Tokens", "5 tokens, 1 message"),
}


def paste(page: Page, text: str) -> None:
    page.evaluate(
        """text => {
            const clipboardData = new DataTransfer();
            clipboardData.setData("text/plain", text);
            const options = { clipboardData, bubbles: true, cancelable: true };
            document.body.dispatchEvent(new ClipboardEvent("paste", options));
        }""",
        text,
    )


def test_what_is_pasted_beside_the_fields_is_opened(page: Page) -> None:
    for text, tab, words in PASTED.values():
        paste(page, text)
        expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
        expect(page.get_by_role("tabpanel")).to_contain_text(words)


RESPONSE = {"choices": [{"message": {"role": "assistant", "content": "Four."}}]}
REFUSED = {
    "a response": (RESPONSE, "This is a response, not a request."),
    "another object": ({"foo": 1}, "neither a conversation"),
}


def test_pasted_json_of_another_kind_changes_nothing(page: Page) -> None:
    tokens = page.get_by_role("listbox", name="Tokens of the prompt")
    expect(tokens).to_contain_text("<|start|>assistant")
    before = tokens.inner_text()
    for source, words in REFUSED.values():
        paste(page, json.dumps(source))
        expect(page.locator("#notice")).to_contain_text(words)
        assert tokens.inner_text() == before
    paste(page, json.dumps({"choices": [{"text": TURN}]}))
    expect(page.get_by_role("textbox", name="Tokens or text")).to_have_value(TURN)


@pytest.mark.parametrize("width", [360, 768])
def test_a_narrow_window_switches_between_panes(
    visitor: Visitor, inspector_url: str, width: int
) -> None:
    page = visitor.open(
        inspector_url + fragment(source=HI, form="harmony", input=TURN),
        viewport={"width": width, "height": 700},
    )
    tokens = page.get_by_role("listbox", name="Tokens of the prompt")
    expect(tokens.locator(".token").first).to_be_in_viewport()
    editor = page.get_by_role("region", name="Editor")
    expect(editor).to_be_hidden()
    page.get_by_role("button", name="Editor", exact=True).click()
    expect(tokens).to_be_hidden()
    page.get_by_role("textbox", name="Text of message 0").fill("Hello, you two!")
    switch = page.get_by_role("button", name="Tokens 13", exact=True)
    expect(switch).to_be_in_viewport()
    switch.click()
    expect(tokens).to_contain_text("Hello, you two!")
    expect(editor).to_be_hidden()
    page.get_by_role("tab", name="Tokens").click()
    page.get_by_role("button", name="Input", exact=True).click()
    expect(page.get_by_role("textbox", name="Tokens or text")).to_have_value(TURN)
    expect(page.get_by_role("button", name="Messages 1", exact=True)).to_be_visible()


def test_a_wide_window_shows_both_panes(visitor: Visitor, inspector_url: str) -> None:
    page = visitor.open(
        inspector_url + fragment(source=HI), viewport={"width": 1024, "height": 700}
    )
    expect(page.get_by_role("listbox", name="Tokens of the prompt")).to_be_visible()
    expect(page.get_by_role("region", name="Editor")).to_be_visible()
    expect(page.get_by_role("group", name="Pane")).to_be_hidden()


def test_the_mask_says_why_nothing_is_trained_on(visitor: Visitor, inspector_url: str) -> None:
    answered = {
        "messages": [*HI["messages"], {"role": "assistant", "channel": "final", "content": "Hi!"}]
    }
    page = visitor.open(inspector_url + fragment(source=answered, form="harmony"))
    result = page.get_by_role("region", name="Rendering")
    page.get_by_role("checkbox", name="Training mask").check()
    expect(result).to_contain_text("A prompt is not trained on")
    expect(result.locator(".sampled .token")).to_have_count(6)
    page.get_by_role("button", name="Show the training example").click()
    expect(result).to_contain_text("6 of 15 tokens are trained on.")
    expect(result.locator(".trainable .token")).to_have_count(6)
    page.get_by_role("button", name="Remove message 1").click()
    expect(result).to_contain_text("The conversation has no assistant message; add the answer")
    expect(result.locator(".token")).to_have_count(7)
