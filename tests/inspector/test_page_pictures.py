"""The pictures of the inspector in the documentation, taken where HARMONY_TEST_SCREENSHOTS says.

They show a fixed conversation in a window of a fixed size; ``make screenshots`` takes them anew.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from support.page_visitor import Visitor, fragment

pytestmark = pytest.mark.slow

FOLDER = os.environ.get("HARMONY_TEST_SCREENSHOTS", "")
MOST_BYTES = 150_000
THOUGHT = "Need to use function get_current_weather."
BROKEN = (
    f"<|channel|>analysis<|message|>{THOUGHT}<|end|>"
    "<|start|>assistant<|channel|>commentary<|constrain|>functions.get_current_weather<|message|>"
    '{"location": "Tokyo"}<|call|>'
    "<|start|>assistant<|channel|>final It is sunny in Tokyo.<|return|>"
)
DEVELOPER = {"type": "developer_content", "instructions": "Use a friendly tone."}
CONVERSATION = {
    "messages": [
        {"role": "developer", "content": [DEVELOPER]},
        {"role": "user", "content": "What is 2 + 2?"},
        {"role": "assistant", "channel": "analysis", "content": "Simple arithmetic."},
        {"role": "assistant", "channel": "final", "content": "2 + 2 = 4."},
        {"role": "user", "content": "And what is the weather like in Tokyo?"},
        {"role": "assistant", "channel": "analysis", "content": THOUGHT},
        {
            "role": "assistant",
            "channel": "commentary",
            "recipient": "functions.get_current_weather",
            "content_type": "json",
            "content": '{"location": "Tokyo"}',
        },
        {
            "role": "tool",
            "name": "functions.get_current_weather",
            "channel": "commentary",
            "recipient": "assistant",
            "content": '{"sunny": true, "temperature": 20}',
        },
    ]
}
TABS: dict[str, tuple[dict[str, Any], str]] = {
    "conversation": ({"source": CONVERSATION, "form": "harmony"}, "the next turn"),
    "tokens": ({"input": BROKEN}, "Messages complete: 3 of 3"),
}
THEMES = {"conversation": "light", "tokens": "dark"}


def opened(visitor: Visitor, url: str, tab: str) -> Page:
    document, words = TABS[tab]
    page = visitor.open(
        url + fragment(tab, **document),
        color_scheme=THEMES[tab],
        viewport={"width": 1200, "height": 700},
    )
    expect(page.get_by_role("tabpanel")).to_contain_text(words)
    return page


@pytest.mark.skipif(not FOLDER, reason="HARMONY_TEST_SCREENSHOTS names no folder")
@pytest.mark.parametrize("tab", TABS)
def test_a_picture_is_taken(visitor: Visitor, inspector_url: str, tab: str) -> None:
    page = opened(visitor, inspector_url, tab)
    if tab == "tokens":
        page.get_by_role("spinbutton", name="Number of tokens read").fill("27")
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Strict")).to_contain_text("In a message")
    file = Path(FOLDER) / f"inspector-{tab}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    taken = Image.open(io.BytesIO(page.screenshot(animations="disabled", caret="hide")))
    # There are few colours, and nobody sees which of the shades at the edges of letters are gone.
    few = taken.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(file, optimize=True)
    assert file.stat().st_size < MOST_BYTES
