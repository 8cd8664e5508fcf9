"""The grammar in the inspector: what may come at each place, and where a completion leaves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.apis.chat.input import read_chat
from gpt_oss_harmony.grammar import Matcher, turn_grammar
from support.page_visitor import Visitor, expect_token_ids, fragment, token_ids

pytestmark = pytest.mark.slow

ENCODING = load_harmony_encoding("HarmonyGptOss")
CHATS = Path(__file__).parents[1] / "data" / "chat"
WEATHER = json.loads((CHATS / "weather" / "request.json").read_text(encoding="utf-8"))
CALL = (
    "<|channel|>commentary to=functions.get_current_weather <|constrain|>json<|message|>"
    '{"location": "Tokyo"}<|call|>'
)
ANSWER = "<|channel|>final<|message|>Sunny.<|return|>"


def opened(visitor: Visitor, url: str, completion: str = "", **document: Any) -> Page:
    page = visitor.open(
        url + fragment("grammar", source=WEATHER, completion=completion, **document)
    )
    expect(allowed(page).get_by_role("heading")).not_to_contain_text("Compiling")
    return page


def view(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Completion tokens")


def verdict(page: Page) -> Locator:
    return page.get_by_role("tabpanel").get_by_role("status")


def allowed(page: Page) -> Locator:
    return page.get_by_role("region", name="Allowed tokens")


def ids_allowed(page: Page) -> list[int]:
    return [int(id) for id in allowed(page).locator("small").all_inner_texts()]


def words(count: int) -> str:
    return f"{count:,} token{'' if count == 1 else 's'} allowed"


def test_each_place_tells_what_is_allowed(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, CALL)
    expect(verdict(page)).to_contain_text("A whole turn of")
    matcher = Matcher(turn_grammar(read_chat(WEATHER).conversation))
    tokens = ENCODING.encode(CALL, allowed_special="all")
    assert token_ids(view(page)) == tokens
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    for token in tokens:
        expected = set(matcher.allowed_tokens())
        expect(allowed(page)).to_contain_text(words(len(expected)))
        shown = ids_allowed(page)
        assert set(shown) <= expected
        assert len(shown) == min(20, len(expected))
        assert matcher.accept(token)
        page.keyboard.press("ArrowRight")
    expect(allowed(page)).to_contain_text("the turn is over")


MISMATCHES = {
    "a stop token": (f"{ANSWER[:-10]}<|call|>", 4),
    "a tool that there is not": ("<|channel|>commentary to=functions.nothing", 3),
    "another order": ("<|message|>", 0),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_a_mismatch_is_shown_where_it_is(visitor: Visitor, inspector_url: str, name: str) -> None:
    completion, at_least = MISMATCHES[name]
    page = opened(visitor, inspector_url, completion)
    expect(verdict(page)).to_contain_text("leaves the grammar at token")
    refused = view(page).locator(".refused")
    expect(refused).to_have_count(1)
    position = int(refused.get_attribute("data-index") or "-1")
    assert position >= at_least
    expect(verdict(page)).to_contain_text(f"at token {position}")
    expect(page.get_by_text("allowed there")).to_be_visible()
    matcher = Matcher(turn_grammar(read_chat(WEATHER).conversation))
    tokens = ENCODING.encode(completion, allowed_special="all")
    assert all(matcher.accept(token) for token in tokens[:position])
    assert not matcher.accept(tokens[position])


def test_a_turn_that_goes_on_is_no_mismatch(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, "<|channel|>final<|message|>Sun")
    expect(verdict(page)).to_contain_text("4 tokens, all allowed; the turn is not over")
    expect(view(page).locator(".refused")).to_have_count(0)


def test_a_turn_can_be_written_token_by_token(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url)
    expect(verdict(page)).to_contain_text("Nothing is written yet")
    written: list[int] = []
    for name in ("<|channel|>", "final", "<|message|>"):
        [token] = ENCODING.encode(name, allowed_special="all")
        allowed(page).get_by_role("button", name=f"{name} {token}", exact=True).click()
        written.append(token)
        expect(page.get_by_role("textbox", name="Completion")).to_have_value(
            " ".join(map(str, written))
        )
        expect_token_ids(view(page), written)


def test_a_choice_of_tools_forbids_answers(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, ANSWER)
    expect(verdict(page)).to_contain_text("A whole turn")
    page.get_by_label("Tool choice").select_option("required: some call")
    expect(verdict(page)).to_contain_text("leaves the grammar at token 1")
    page.get_by_label("Tool choice").select_option("none: no calls")
    expect(verdict(page)).to_contain_text("A whole turn")


def test_reasoning_can_be_forbidden(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, "<|channel|>analysis<|message|>Hm.<|end|>")
    expect(verdict(page)).to_contain_text("all allowed")
    page.get_by_role("checkbox", name="Reasoning").uncheck()
    expect(verdict(page)).to_contain_text("leaves the grammar at token 2")


def test_a_long_completion_is_asked_for_in_pages(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, f"<|channel|>final<|message|>{'so ' * 500}<|return|>")
    expect(verdict(page)).to_contain_text("A whole turn")
    for place in (450, 3, 250):
        page.get_by_role("spinbutton").fill(str(place))
        page.keyboard.press("Enter")
        expect(allowed(page)).to_contain_text("tokens allowed")
        marked = view(page).locator("[aria-selected=true]")
        expect(marked).to_have_attribute("data-index", str(place - 1))
