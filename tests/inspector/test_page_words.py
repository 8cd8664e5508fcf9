"""The page in the language of its reader: the browser's at first, then the one that is chosen."""

from __future__ import annotations

import json
from importlib import resources

import pytest
from playwright.sync_api import Page, expect

from support.page_visitor import Visitor, fragment

pytestmark = pytest.mark.slow

WORDS = json.loads(
    (resources.files("gpt_oss_harmony.inspector") / "page" / "words.json").read_text("utf-8")
)
TABS = ["Conversation", "Compare", "Tokens", "Grammar", "Live"]
HI = {"messages": [{"role": "user", "content": "hi"}]}
TURN = "<|channel|>final<|message|>Hello.<|return|>"

TEXTS = """() => {
    const seen = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const { parentElement, textContent } = walker.currentNode;
        // Tokens and messages are in the language of who wrote them.
        if (!parentElement.closest(".token, [lang='']")) seen.push(textContent.trim());
    }
    for (const element of document.querySelectorAll("body *")) {
        for (const name of ["aria-label", "title", "placeholder"]) {
            seen.push(element.getAttribute(name) ?? "");
        }
    }
    return seen;
}"""


def in_english(page: Page, language: str) -> set[str]:
    """The sentences that the page shows in English, though they are others in the language."""
    texts: list[str] = page.evaluate(TEXTS)
    return {text for text in texts if text in WORDS and WORDS[text][language] != text}


@pytest.mark.parametrize(
    ("locale", "language"), [("ja-JP", "ja"), ("ko-KR", "ko"), ("ru-RU", "ru")]
)
def test_the_page_speaks_the_language_of_the_browser(
    visitor: Visitor, inspector_url: str, locale: str, language: str
) -> None:
    page = visitor.open(inspector_url, locale=locale)
    welcome = page.get_by_role("region", name=WORDS["Welcome"][language])
    expect(welcome).to_contain_text(WORDS["Nothing leaves this machine."][language])
    page.goto("about:blank")
    page.goto(inspector_url + fragment(source=HI, input=TURN, completion=TURN))
    expect(page.locator("html")).to_have_attribute("lang", language)
    expect(page.locator(".result .summary")).to_contain_text("7")
    for tab in TABS:
        page.get_by_role("tab", name=WORDS[tab][language], exact=True).click()
        expect(page.get_by_role("tabpanel", name=WORDS[tab][language])).not_to_be_empty()
        assert in_english(page, language) <= {"auto"}, tab  # as `tool_choice` spells it
    page.get_by_role("button", name=WORDS["Share"][language]).click()
    expect(page.get_by_role("dialog")).to_contain_text(WORDS["Export"][language])
    assert in_english(page, language) <= {"auto"}


def test_plurals_follow_the_language(visitor: Visitor, inspector_url: str) -> None:
    counts = {1: "1 токен ", 2: "2 токена ", 5: "5 токенов ", 21: "21 токен "}
    page = visitor.open(inspector_url + fragment("tokens", input=TURN), locale="ru")
    area = page.get_by_role("textbox", name="Токены или текст")
    for count, words in counts.items():
        area.fill(" ".join(["1753"] * count))
        expect(page.locator(".pane.given .summary")).to_contain_text(f"Обычный текст: {words}"[:-1])


def test_the_language_is_chosen_and_remembered(visitor: Visitor, inspector_url: str) -> None:
    page = visitor.open(inspector_url + fragment("tokens", source=HI, input=TURN), locale="fr-FR")
    switch = page.get_by_role("combobox", name="Language")
    expect(switch).to_have_value("en")
    page.get_by_role("textbox", name="Tokens or text").fill("changed just now")
    switch.select_option("한국어")
    expect(page.locator("html")).to_have_attribute("lang", "ko")
    # The document goes along, with what is not in the address yet.
    expect(page.get_by_role("textbox", name="토큰 또는 텍스트")).to_have_value("changed just now")
    other = page.context.new_page()
    other.goto(inspector_url)
    expect(other.get_by_role("tab", name="대화", exact=True)).to_be_visible()
    other.get_by_role("combobox", name="언어").select_option("English")
    expect(other.get_by_role("tab", name="Conversation")).to_be_visible()


def test_a_document_too_long_to_go_along_stays(visitor: Visitor, inspector_url: str) -> None:
    page = visitor.open(inspector_url + fragment("tokens", source=HI, input=TURN))
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('full'); }; }")
    switch = page.get_by_role("combobox", name="Language")
    switch.select_option("日本語")
    expect(page.locator("#notice")).to_contain_text("too long to be kept")
    expect(switch).to_have_value("en")
    expect(page.get_by_role("textbox", name="Tokens or text")).to_have_value(TURN)
