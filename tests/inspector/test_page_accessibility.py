"""The inspector for everyone: by axe's rules, with keys alone, narrow, light and dark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from support.page_visitor import Visitor, accessibility_problems, fragment

pytestmark = pytest.mark.slow

CHATS = Path(__file__).parents[1] / "data" / "chat"
WEATHER = json.loads((CHATS / "weather" / "conversation.json").read_text(encoding="utf-8"))
BROKEN = (
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
    '<|channel|>commentary<|constrain|>functions.get_location<|message|>{"a": "🏰"}<|call|>'
    "<|start|>assistant<|channel|>final It is.<|return|>"
)
DOCUMENT: dict[str, Any] = {
    "source": WEATHER,
    "form": "harmony",
    "input": BROKEN,
    "completion": "<|channel|>final<|message|>Sunny.<|call|>",
}
TABS = {
    "conversation": "the next turn begins",
    "tokens": "Messages complete",
    "grammar": "leaves the grammar",
    "compare": "oss-harmony",
    "live": "",
}
LOOKS = {"light": ("light", 1280), "dark": ("dark", 1280), "narrow": ("light", 360)}


def opened(visitor: Visitor, url: str, tab: str, **options: Any) -> Page:
    page = visitor.open(url + fragment(tab, **DOCUMENT), **options)
    expect(page.get_by_role("tabpanel")).to_contain_text(TABS[tab])
    return page


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing(visitor: Visitor, inspector_url: str, tab: str, look: str) -> None:
    theme, width = LOOKS[look]
    page = opened(
        visitor,
        inspector_url,
        tab,
        color_scheme=theme,
        viewport={"width": width, "height": 900},
    )
    assert accessibility_problems(page) == []
    if tab != "conversation":
        return
    page.get_by_role("checkbox", name="Token ids").check()
    page.get_by_role("checkbox", name="Training mask").check()
    assert accessibility_problems(page) == []
    if look == "narrow":
        page.get_by_role("button", name="Editor", exact=True).click()
    page.get_by_role("button", name="JSON", exact=True).click()
    assert accessibility_problems(page) == []


@pytest.mark.parametrize("tab", TABS)
def test_a_narrow_screen_is_wide_enough(visitor: Visitor, inspector_url: str, tab: str) -> None:
    page = opened(visitor, inspector_url, tab, viewport={"width": 360, "height": 700})
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360, page.evaluate(
        """() => [...document.body.querySelectorAll("*")]
            .filter(found => found.getBoundingClientRect().right > 361)
            .map(found => found.outerHTML.slice(0, 120)).slice(0, 10)"""
    )


BACKGROUND = "getComputedStyle(document.body).backgroundColor"


def test_light_and_dark_are_those_of_the_system_until_one_is_chosen(
    visitor: Visitor, inspector_url: str
) -> None:
    page = visitor.open(inspector_url, color_scheme="light")
    light = page.evaluate(BACKGROUND)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(BACKGROUND)
    assert light != dark
    switch = page.get_by_role("button", name="Theme")
    switch.click()
    expect(switch).to_have_accessible_name("Theme: light")
    assert page.evaluate(BACKGROUND) == light
    page.reload()
    expect(switch).to_have_accessible_name("Theme: light")
    assert page.evaluate(BACKGROUND) == light
    switch.click()
    page.emulate_media(color_scheme="light")
    assert page.evaluate(BACKGROUND) == dark
    switch.click()
    assert page.evaluate(BACKGROUND) == light


def focused(page: Page) -> str:
    """The role or tag, and the name or text, of what has the focus."""
    violations: str = page.evaluate(
        """() => {
            const { activeElement: e } = document;
            return `${e.getAttribute("role") ?? e.tagName} ${e.textContent.slice(0, 40)}`;
        }"""
    )
    return violations


def tab_to(page: Page, wanted: str) -> None:
    """Press Tab until the focus is on something; nothing may keep it."""
    seen = []
    for _ in range(80):
        page.keyboard.press("Tab")
        seen.append(focused(page))
        if seen[-1].startswith(wanted):
            return
    pytest.fail(f"Tab never gets to {wanted}: {seen}")


def test_everything_can_be_done_with_keys(visitor: Visitor, inspector_url: str) -> None:
    page = visitor.open(inspector_url + fragment("conversation", **DOCUMENT))
    expect(page.get_by_role("tabpanel")).to_contain_text(TABS["conversation"])
    # To the tokens, at once or one Tab after the other; through them, and what is known of one.
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert focused(page).startswith("option")
    page.get_by_role("button", name="To the tokens").focus()
    tab_to(page, "option")
    page.keyboard.press("Control+End")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator(":focus")).to_have_attribute("data-id", "173781")
    expect(page.get_by_test_id("token-detail")).to_contain_text("173781")
    # One tab stop, then out again.
    page.keyboard.press("Tab")
    assert not focused(page).startswith("option")
    page.keyboard.press("Shift+Tab")
    expect(page.locator(":focus")).to_have_attribute("data-id", "173781")
    # From tab to tab, and into a panel.
    page.get_by_role("tab", selected=True).focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", selected=True)).to_be_focused()
    chosen = page.get_by_role("tab", selected=True).inner_text()
    assert "tab=" in page.url
    page.keyboard.press("End")
    page.keyboard.press("Home")
    expect(page.get_by_role("tab", selected=True)).not_to_have_text(chosen)


def test_what_has_the_focus_can_be_seen(visitor: Visitor, inspector_url: str) -> None:
    page = visitor.open(inspector_url + fragment("conversation", **DOCUMENT))
    expect(page.get_by_role("tabpanel")).to_contain_text(TABS["conversation"])
    unseen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen = page.evaluate(
            """() => {
                const { activeElement: e } = document;
                const style = getComputedStyle(e);
                const ring = style.outlineStyle !== "none" && style.outlineWidth !== "0px";
                return e === document.body || ring || style.boxShadow !== "none";
            }"""
        )
        if not seen:
            unseen.add(focused(page))
    assert not unseen
