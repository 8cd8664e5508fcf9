"""Many tokens in the inspector: what is near is in the page as tokens, the rest is text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from gpt_oss_harmony import load_harmony_encoding

pytestmark = pytest.mark.slow

ENCODING = load_harmony_encoding("HarmonyGptOss")
SIZES = [10_000, 100_000]
MOST = 5_000
"""Tokens that have elements at a time: some screens of them."""


def view(page: Page, name: str) -> Locator:
    return page.get_by_role("listbox", name=name)


def indices(tokens: Locator) -> list[int]:
    shown: list[int] = tokens.locator(".token").evaluate_all(
        "all => all.map(token => Number(token.dataset.index))"
    )
    return shown


def words(count: int) -> str:
    """A text of as many tokens, in lines."""
    return "".join("so\n" if index % 40 == 39 else " so" for index in range(count // 2 * 2))


@pytest.mark.parametrize("count", SIZES)
def test_a_long_conversation(page: Page, count: int) -> None:
    text = words(count)
    total = len(ENCODING.encode(text))
    assert total >= count
    source: dict[str, Any] = {"messages": [{"role": "user", "channel": "x", "content": text}]}
    page.get_by_role("button", name="JSON", exact=True).click()
    page.evaluate(
        """source => {
            const area = document.querySelector("textarea.code");
            area.value = source;
            area.dispatchEvent(new Event("input", { bubbles: true }));
        }""",
        json.dumps(source),
    )
    summary = page.locator(".result .summary")
    expect(summary).to_contain_text(f"{total + 8:,} tokens")
    tokens = view(page, "Tokens of the prompt")
    assert 0 < len(indices(tokens)) < MOST
    assert max(indices(tokens)) < MOST
    # The whole text is there to be searched and copied.
    assert tokens.evaluate("view => view.textContent").count(" so") >= count // 2
    end = tokens.get_by_role("group", name="next turn")
    end.scroll_into_view_if_needed()
    end.locator(".token").last.click()
    expect(page.get_by_test_id("token-detail")).to_contain_text(f"{total + 7:,}")
    assert len(indices(tokens)) < MOST
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert (len(indices(tokens)) == total + 8) == (count == SIZES[0])


@pytest.mark.parametrize("count", SIZES)
def test_a_long_stream(page: Page, count: int) -> None:
    ids = [200005, 17196, 200008, *[1753] * (count - 4), 200002]
    page.get_by_role("tab", name="Tokens").click()
    area = page.get_by_role("textbox", name="Tokens or text")
    area.fill(" ".join(map(str, ids)))
    # While it is read and drawn, the page answers.
    theme = page.get_by_role("button", name="Theme")
    theme.click()
    expect(theme).to_contain_text("light")
    expect(page.get_by_role("tabpanel").get_by_role("status").first).to_contain_text(
        f"{count:,} tokens, 1 message, 0 recoveries"
    )
    tokens = view(page, "Stream")
    assert 0 < len(indices(tokens)) < MOST
    for place in (count // 2, 1, count):
        page.get_by_role("spinbutton", name="Number of tokens read").fill(str(place))
        page.keyboard.press("Enter")
        marked = tokens.locator("[aria-selected=true]")
        expect(marked).to_have_attribute("data-index", str(place - 1))
        expect(marked).to_be_in_viewport()
        assert len(indices(tokens)) < MOST
