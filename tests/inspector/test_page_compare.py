"""Header styles and schema dialects side by side in the inspector, their differences marked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from gpt_oss_harmony import (
    Conversation,
    RenderConversationConfig,
    Role,
    load_harmony_encoding,
)
from support.page_visitor import Visitor, fragment

pytestmark = pytest.mark.slow

ENCODING = load_harmony_encoding("HarmonyGptOss")
CHATS = Path(__file__).parents[1] / "data" / "chat"
WEATHER = json.loads((CHATS / "weather" / "conversation.json").read_text(encoding="utf-8"))
NULLABLE = {
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "f",
                "parameters": {"type": "object", "properties": {"a": {"const": "b"}}},
            },
        }
    ],
}


def table(page: Page, name: str) -> Locator:
    return page.get_by_role("table", name=name)


def total(**options: str) -> int:
    config = RenderConversationConfig(
        **{"auto_drop_analysis": False, "header_style": "guide", **options}  # type: ignore[arg-type]
    )
    conversation = Conversation.from_json(json.dumps(WEATHER))
    return len(ENCODING.render_conversation_for_completion(conversation, Role.ASSISTANT, config))


def test_header_styles_stand_side_by_side(visitor: Visitor, inspector_url: str) -> None:
    page = visitor.open(inspector_url + fragment("compare", source=WEATHER))
    styles = table(page, "Header styles")
    for style in ("guide", "reference", "oss-harmony"):
        head = styles.get_by_role("columnheader", name=style)
        expect(head).to_contain_text(f"{total(header_style=style)} tokens")
    # The call and the result; all other messages are the same.
    expect(styles.get_by_role("rowheader")).to_have_text(["4", "5"])
    call = styles.get_by_role("row", name="4").get_by_role("cell")
    expect(call).to_have_text(
        [
            "<|start|>assistant<|channel|>commentary to=functions.get_current_weather "
            '<|constrain|>json<|message|>{"location":"San Francisco"}<|call|>',
            "<|start|>assistant to=functions.get_current_weather<|channel|>commentary "
            '<|constrain|>json<|message|>{"location":"San Francisco"}<|call|>',
            "<|start|>assistant<|channel|>commentary to=functions.get_current_weather "
            '<|constrain|>json<|message|>{"location":"San Francisco"}<|call|>',
        ]
    )
    expect(call.nth(0).locator("mark")).to_have_count(0)
    assert "".join(call.nth(1).locator("mark").all_inner_texts()) == "<|channel|>commentary"
    expect(call.nth(2).locator("mark")).to_have_count(0)


def test_schema_dialects_stand_side_by_side(visitor: Visitor, inspector_url: str) -> None:
    page = visitor.open(inspector_url + fragment("compare", source=NULLABLE))
    dialects = table(page, "Schema dialects")
    expect(dialects.get_by_role("columnheader")).to_have_count(3)
    [typescript, reference] = dialects.get_by_role("cell").all()
    expect(typescript).to_contain_text('a?: "b"')
    expect(reference).to_contain_text("a?: any")
    assert "any" in "".join(reference.locator("mark").all_inner_texts())
    expect(typescript.locator("mark")).to_have_count(0)


def test_what_is_the_same_everywhere_is_said(visitor: Visitor, inspector_url: str) -> None:
    hello = {"messages": [{"role": "user", "channel": "x", "content": "hi"}]}
    page = visitor.open(inspector_url + fragment("compare", source=hello))
    expect(page.get_by_text("All of them give the same 9 tokens.")).to_have_count(2)


def test_it_follows_the_conversation(page: Page) -> None:
    page.get_by_role("tab", name="Compare").click()
    expect(table(page, "Header styles").get_by_role("row", name="4")).to_contain_text("Tokyo")
    page.get_by_role("tab", name="Conversation").click()
    page.get_by_role("textbox", name="Text of message 4").fill('{"location":"Oslo"}')
    page.get_by_role("tab", name="Compare").click()
    expect(table(page, "Header styles").get_by_role("row", name="4")).to_contain_text("Oslo")
