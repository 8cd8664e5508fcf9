"""How tokens are drawn: lines break where the text does, boundaries show, scripts read well."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from support.page_visitor import Visitor, fragment, token_ids

pytestmark = pytest.mark.slow

HEBREW = "שלום עולם, מה שלומך היום? אני רוצה לדעת"
ROLES: list[dict[str, Any]] = [
    {"role": "system", "content": [{"type": "system_content", "model_identity": "I am."}]},
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "one two three four"},
    {"role": "assistant", "channel": "analysis", "content": "one two three four"},
    {"role": "assistant", "channel": "commentary", "content": "one two three four"},
    {"role": "tool", "name": "functions.f", "channel": "commentary", "content": "one two three"},
    {"role": "assistant", "channel": "final", "content": "one two three four"},
]


def said(*texts: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "channel": "x", "content": text} for text in texts]}


def opened(visitor: Visitor, url: str, source: Any, **options: Any) -> Page:
    page = visitor.open(url + fragment(source=source, form="harmony"), **options)
    expect(page.get_by_role("listbox", name="Tokens of the prompt")).to_be_visible()
    return page


def row(page: Page, index: int) -> Locator:
    return page.get_by_role("listbox").get_by_role("group", name=f"message {index}")


def body(page: Page, index: int = 0) -> list[tuple[float, float, float]]:
    """The left, top and width of each token of a message's body, in the order of the tokens."""
    places: list[tuple[float, float, float]] = (
        row(page, index)
        .locator(".segment.body .token")
        .evaluate_all(
            "all => all.map(token => token.getClientRects()[0]).map(r => [r.left, r.top, r.width])"
        )
    )
    return places


def test_lines_break_only_where_the_text_does(visitor: Visitor, inspector_url: str) -> None:
    long = "".join(f" word{index % 7}" for index in range(400))
    page = opened(visitor, inspector_url, said(long, "one\ntwo\n\nfour\n"))
    lines = row(page, 0).evaluate(
        """row => {
            const box = row.querySelector(".row-text").getBoundingClientRect();
            const ends = [];
            let line = -Infinity;
            for (const token of row.querySelectorAll(".token")) {
                for (const { top, right } of token.getClientRects()) {
                    if (Math.abs(top - line) > 11) ends.push(0);
                    line = top;
                    ends[ends.length - 1] = (right - box.left) / box.width;
                }
            }
            return ends;
        }"""
    )
    assert len(token_ids(row(page, 0))) > 600  # more than a block of the view
    assert len(lines) > 10
    assert min(lines[:-1]) > 0.85, lines
    tops = sorted({top for _, top, _ in body(page, 1)})
    height = tops[1] - tops[0]
    assert tops[2] - tops[1] == pytest.approx(2 * height, abs=1)  # after an empty line
    assert len(tops) == 3


CONTRAST = """() => {
    const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const parts = colour => {
        context.clearRect(0, 0, 1, 1);
        context.fillStyle = colour;
        context.fillRect(0, 0, 1, 1);
        return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = colour => {
        const linear = parts(colour).map(byte => byte / 255)
            .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const contrast = (one, other) => {
        const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
        return (bright + 0.05) / (dark + 0.05);
    };
    const worst = [];
    for (const token of document.querySelectorAll(".segment.body .token.odd:not(.special)")) {
        const { color, backgroundColor } = getComputedStyle(token);
        const row = getComputedStyle(token.closest(".row"));
        worst.push(contrast(color, backgroundColor));
        worst.push(contrast(row.borderLeftColor, row.backgroundColor));
    }
    return worst;
}"""
SHADOW = "token => getComputedStyle(token).boxShadow"
FILL = "token => getComputedStyle(token).backgroundColor"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_boundaries_are_seen(visitor: Visitor, inspector_url: str, theme: str) -> None:
    page = opened(visitor, inspector_url, {"messages": ROLES}, color_scheme=theme)
    contrasts = page.evaluate(CONTRAST)
    assert len(contrasts) > 20
    assert min(contrasts) >= 4.5
    even, odd = (row(page, 2).locator(".segment.body .token").nth(index) for index in (0, 1))
    switch = page.get_by_role("group", name="Boundaries of tokens")
    # Not by colour alone: every other token has a bar; and in high contrast, all have a border.
    assert even.evaluate(FILL) != odd.evaluate(FILL)
    assert even.evaluate(SHADOW) != odd.evaluate(SHADOW)
    switch.get_by_role("button", name="lines").click()
    assert even.evaluate(SHADOW) == odd.evaluate(SHADOW)
    line = even.evaluate(SHADOW)
    assert even.evaluate(FILL) == odd.evaluate(FILL)
    switch.get_by_role("button", name="none").click()
    assert even.evaluate(SHADOW) == odd.evaluate(SHADOW) != line
    page.get_by_role("checkbox", name="Token ids").check()
    page.get_by_role("tab", name="Tokens").click()
    page.get_by_role("button", name="Prompt of the conversation").click()
    expect(page.get_by_role("listbox", name="Stream")).to_be_visible()
    expect(switch.get_by_role("button", name="none")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("checkbox", name="Token ids")).to_be_checked()
    page.reload()
    expect(switch.get_by_role("button", name="none")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("checkbox", name="Token ids")).to_be_checked()


def test_each_line_has_the_direction_of_its_text(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, said(HEBREW, "abc def ghi", f"x\n{HEBREW}\ny"))
    lefts = [left for left, _, _ in body(page)]
    assert lefts == sorted(lefts, reverse=True)
    lefts = [left for left, _, _ in body(page, 1)]
    assert lefts == sorted(lefts)
    [(x, *_), *middle, (y, *_)] = body(page, 2)
    assert x == pytest.approx(min(x, y), abs=400)  # both at the left, after the header or not
    assert max(left for left, _, _ in middle) > 1000
    # The header reads from left to right, at the right of its text.
    header = row(page, 0).locator(".segment.header .token")
    first, last = header.first.bounding_box(), header.last.bounding_box()
    assert first is not None
    assert last is not None
    assert lefts[0] < first["x"] < last["x"]


def test_no_control_character_turns_the_tokens_around(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, said("a \u202e b c \u2067 d e"))
    lefts = [left for left, _, _ in body(page)]
    assert lefts == sorted(lefts)


def test_nothing_is_invisible(visitor: Visitor, inspector_url: str) -> None:
    family = "👩‍👩‍👧"
    text = f"x\u0337\u0300\u0361 {family} \u200b\t."
    page = opened(visitor, inspector_url, said(text))
    assert min(width for _, _, width in body(page)) > 4
    tokens = row(page, 0).locator(".segment.body .token")
    parts = tokens.evaluate_all(
        """all => all.filter(token => token.dataset.bytes).map(token =>
            [getComputedStyle(token, "::after").content.replaceAll('"', "").trim(), token.title])"""
    )
    numbers = [tuple(map(int, drawn.split("/"))) for drawn, _ in parts]
    assert numbers
    assert all(1 <= number <= count for number, count in numbers)
    for (number, count), (_, title) in zip(numbers, parts, strict=True):
        name, _, written = title.partition(", bytes ")
        assert name.startswith(f"part {number} of {count} of ")
        assert bytes.fromhex(written) in text.encode()
        assert name.rpartition(" ")[2] in text
    texts = tokens.evaluate_all("all => all.map(token => token.textContent)")
    assert "".join(texts) == text
    # Each character stands at the token in which it begins.
    assert [shown for shown in texts if "👩" in shown] == [" 👩", "👩"]


def test_the_texts_have_no_language(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, said(HEBREW))
    assert page.evaluate("document.documentElement.lang") == "en"
    expect(page.get_by_role("listbox")).to_have_attribute("lang", "")
    expect(page.get_by_role("textbox", name="Text of message 0")).to_have_attribute("dir", "auto")


def test_tokens_are_copied(visitor: Visitor, inspector_url: str) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    page = opened(visitor, inspector_url, said("hi 🏰"), permissions=permissions)
    ids = token_ids(page.get_by_role("listbox"))
    text = "<|start|>user<|channel|>x<|message|>hi 🏰<|end|><|start|>assistant"
    copies = {"Text": text, "Token ids": " ".join(map(str, ids)), "Python list": json.dumps(ids)}
    for name, expected in copies.items():
        page.locator("summary", has_text="Copy").click()
        page.get_by_role("button", name=name, exact=True).click()
        expect(page.get_by_text(f"{name} copied")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == expected
    page.locator("summary", has_text="Copy").click()
    page.get_by_role("button", name="Link", exact=True).click()
    expect(page.get_by_text("Link copied")).to_be_visible()
    other = visitor.open(page.evaluate("navigator.clipboard.readText()"))
    expect(other.get_by_role("listbox")).to_be_visible()
    assert token_ids(other.get_by_role("listbox")) == ids
