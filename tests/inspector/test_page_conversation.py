"""A conversation to tokens in the inspector: edited in two ways, rendered as the library does."""

from __future__ import annotations

import functools
import json
import operator
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from gpt_oss_harmony import (
    Conversation,
    RenderConversationConfig,
    Role,
    load_harmony_encoding,
)
from gpt_oss_harmony.apis.request_body import field_path
from support.page_visitor import Visitor, expect_token_ids, fragment, token_ids
from support.wrong_requests import places

pytestmark = pytest.mark.slow

ENCODING = load_harmony_encoding("HarmonyGptOss")
CHATS = Path(__file__).parents[1] / "data" / "chat"
DATE = "2025-06-28"
QUESTION = "What is 2 + 2?"

LOOK = "e => { const s = getComputedStyle(e); return [s.backgroundColor, s.color, s.fontWeight] }"
DRAWN = "e => ['::before', '::after'].map(part => getComputedStyle(e, part).content).join()"


def read(name: str) -> Any:
    return json.loads((CHATS / name).read_text(encoding="utf-8"))


def rendered(conversation: Any, **options: Any) -> list[int]:
    """What the library makes of a conversation, with the defaults of the page."""
    config = RenderConversationConfig(
        **{"auto_drop_analysis": False, "header_style": "guide", **options}
    )
    return ENCODING.render_conversation_for_completion(
        Conversation.from_json(json.dumps(conversation)), Role.ASSISTANT, config
    )


SUM = read("user_only/conversation.json")
WEATHER = read("weather/conversation.json")
FORMS = {
    "harmony": SUM,
    "chat": {"messages": [{"role": "user", "content": QUESTION}]},
    "responses": {"model": "gpt-oss-20b", "input": QUESTION},
}


def view(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Tokens of the prompt")


def row(page: Page, name: str) -> Locator:
    return view(page).get_by_role("group", name=name)


def summary(page: Page) -> Locator:
    return page.locator(".result .summary")


def as_json(page: Page) -> Locator:
    """The conversation as JSON, to be read and to be filled."""
    page.get_by_role("button", name="JSON", exact=True).click()
    return page.get_by_role("textbox", name="Conversation as JSON")


def expect_tokens(page: Page, ids: list[int]) -> None:
    expect_token_ids(view(page), ids)
    expect(summary(page)).to_contain_text(f"{len(ids):,} tokens")


def opened(visitor: Visitor, url: str, source: Any, **document: Any) -> Page:
    return visitor.open(url + fragment(source=source, **document))


def turn(question: str, *thoughts: str, answer: str) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": question},
        *({"role": "assistant", "channel": "analysis", "content": text} for text in thoughts),
        {"role": "assistant", "channel": "final", "content": answer},
    ]


def sampled(thought: str, answer: str) -> list[int]:
    text = (
        f"<|channel|>analysis<|message|>{thought}<|end|>"
        f"<|start|>assistant<|channel|>final<|message|>{answer}<|return|>"
    )
    return ENCODING.encode(text, allowed_special="all")


TWO_TURNS = {
    "messages": [
        *turn("One?", "I think.", answer="1."),
        *turn("Two?", "I think more.", answer="2."),
    ]
}


def test_the_form_and_the_json_edit_the_same_conversation(page: Page) -> None:
    page.get_by_role("textbox", name="Text of message 2").fill("How is it in Oslo?")
    expect(row(page, "message 2, user")).to_contain_text("How is it in Oslo?")
    text = as_json(page)
    edited = json.loads(text.input_value())
    assert edited["messages"][2]["content"] == [{"type": "text", "text": "How is it in Oslo?"}]
    edited["messages"][3]["content"] = "I look."
    text.fill(json.dumps(edited))
    expect(row(page, "message 3, assistant")).to_contain_text("I look.")
    page.get_by_role("button", name="Form", exact=True).click()
    expect(page.get_by_role("textbox", name="Text of message 3")).to_have_value("I look.")
    expect(page.get_by_role("textbox", name="Text of message 2")).to_have_value(
        "How is it in Oslo?"
    )
    expect_tokens(page, rendered(edited))


def test_a_conversation_is_written_in_the_form(page: Page) -> None:
    as_json(page).fill('{"messages": []}')
    page.get_by_role("button", name="Form", exact=True).click()
    page.get_by_role("button", name="Add user message").click()
    page.get_by_role("textbox", name="Text of message 0").fill("hi")
    page.get_by_role("button", name="Add developer message").click()
    page.get_by_label("Instructions").fill("Be kind.")
    page.get_by_label("Function tools").fill('[{"name": "now", "description": "The time."}]')
    page.get_by_label("Response format").fill('{"name": "list", "json_schema": {"type": "array"}}')
    page.get_by_role("button", name="Add assistant message").click()
    last = page.get_by_role("group", name="Message 2")
    last.get_by_role("combobox", name="Channel").select_option("commentary")
    last.get_by_label("Recipient").fill("functions.now")
    last.get_by_role("button", name="More fields").click()
    last.get_by_label("Content type").fill("json")
    page.get_by_role("textbox", name="Text of message 2").fill("{}")
    page.get_by_role("button", name="Move up message 2").click()
    page.get_by_role("button", name="Move down message 1").click()
    expect(row(page, "message 2, assistant")).to_contain_text("to=functions.now")
    developer = {
        "type": "developer_content",
        "instructions": "Be kind.",
        "tools": {
            "functions": {
                "name": "functions",
                "tools": [{"name": "now", "description": "The time."}],
            }
        },
        "response_formats": {"list": {"name": "list", "json_schema": {"type": "array"}}},
    }
    call = {"channel": "commentary", "recipient": "functions.now", "content_type": "json"}
    written = [
        {"role": "developer", "content": [developer]},
        {"role": "user", "content": "hi"},
        {"role": "assistant", **call, "content": "{}"},
    ]
    expect_tokens(page, rendered({"messages": written}))
    page.get_by_role("button", name="Remove message 2").click()
    expect_tokens(page, rendered({"messages": written[:2]}))


def test_a_request_goes_on_as_harmony_in_the_form(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, read("weather/request.json"), options={"date": DATE})
    expect_tokens(page, rendered(WEATHER))
    page.get_by_role("button", name="Edit as harmony").click()
    expect(page.get_by_role("textbox", name="Text of message 2")).to_have_value(
        WEATHER["messages"][2]["content"][0]["text"]
    )
    expect_tokens(page, rendered(WEATHER))


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_input_are_read(page: Page, form: str) -> None:
    as_json(page).fill(json.dumps(FORMS[form]))
    if form != "harmony":
        page.get_by_label("Date").fill(DATE)
    expect_tokens(page, rendered(SUM))


def test_the_form_can_be_named(page: Page) -> None:
    # A list of texts alone may be either; what has no channel counts as chat.
    as_json(page).fill('{"messages": [{"role": "user", "content": "hi"}]}')
    expect(row(page, "message 0, system")).to_be_visible()
    page.get_by_label("Format").select_option("harmony")
    expect_tokens(page, rendered({"messages": [{"role": "user", "content": "hi"}]}))


def test_tools_and_response_formats_are_read(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, read("shopping_list/request.json"))
    expect(row(page, "developer")).to_contain_text("# Response Formats")
    page = opened(visitor, inspector_url, WEATHER)
    expect(row(page, "developer")).to_contain_text("namespace functions {")
    expect_tokens(page, rendered(WEATHER))


def test_what_is_not_json_is_said_beside_it(page: Page) -> None:
    as_json(page).fill('{\n"messages": [}')
    problem = "Not valid JSON: line 2, column 14: expected a value"
    expect(page.get_by_role("alert")).to_contain_text(problem)
    expect(summary(page)).to_have_text("Not up to date: these are the tokens before the error.")
    as_json(page).fill(json.dumps(SUM))
    expect(page.get_by_role("alert")).to_have_count(0)
    expect_tokens(page, rendered(SUM))


def test_what_is_no_conversation_is_said_with_its_place(visitor: Visitor, page: Page) -> None:
    visitor.expected.append("status of 4")
    as_json(page).fill('{"messages": [{"role": "nobody", "channel": "final", "content": "hi"}]}')
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("line 1, column 24: messages[0].role: expected")  # only one
    expect(summary(page)).to_contain_text("before the error")
    alert.get_by_role("button", name="Show the place").click()
    field = page.get_by_role("textbox", name="Conversation as JSON")
    expect(field).to_be_focused()
    assert field.evaluate("field => field.selectionStart") == 23


BROKEN = '[{"role": "user", "content": "I am Bob"}'


def test_a_draft_is_kept_and_no_tab_shows_an_older_conversation(page: Page) -> None:
    as_json(page).fill(json.dumps(SUM))
    as_json(page).fill(BROKEN)
    problem = "Not valid JSON: line 1, column 41: the text ends too early"
    for tab in ("Compare", "Grammar"):
        page.get_by_role("tab", name=tab).click()
        panel = page.get_by_role("tabpanel", name=tab)
        expect(panel.get_by_role("alert")).to_contain_text(problem)
        if tab == "Grammar":
            expect(panel).to_contain_text(f"No grammar: {problem}")
        panel.get_by_role("button", name="To the conversation").click()
        expect(page.get_by_role("tab", name="Conversation")).to_have_attribute(
            "aria-selected", "true"
        )
    page.get_by_role("button", name="Form", exact=True).click()
    expect(page.get_by_text("The JSON cannot be read yet")).to_be_visible()
    page.get_by_role("button", name="Edit as JSON").click()
    expect(as_json(page)).to_have_value(BROKEN)
    in_address = """async (draft) => {
        const { readFragment, unpack } = await import("/inspector/fragment.js");
        const { c } = readFragment();
        return c !== null && (await unpack(c)).draft === draft;
    }"""
    while not page.evaluate(in_address, BROKEN):  # the page writes its address after a pause
        page.wait_for_timeout(20)
    page.reload()
    expect(as_json(page)).to_have_value(BROKEN)
    expect(page.get_by_role("alert")).to_contain_text(problem)
    as_json(page).fill(f"{BROKEN}]")
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("button", name="Form", exact=True).click()
    page.get_by_role("button", name="Edit as harmony").click()
    expect(page.locator(".editor-form textarea").filter(visible=True).first).to_have_value(
        "I am Bob"
    )


def test_the_last_key_before_a_reload_is_kept(page: Page) -> None:
    as_json(page).fill(json.dumps(SUM))
    as_json(page).fill(BROKEN)
    page.reload()
    expect(as_json(page)).to_have_value(BROKEN)
    carried = ["https://example.org/#c=of-another-link", {"source": {"messages": []}}]
    page.evaluate(
        "text => sessionStorage.setItem('harmony-inspector-document', text)", json.dumps(carried)
    )
    page.reload()
    expect(as_json(page)).to_have_value(BROKEN)


def test_the_last_key_is_kept_where_the_address_is_written_during_the_reload(page: Page) -> None:
    def answer_late(route: Route) -> None:
        time.sleep(1)  # the page, which is still there, writes its address after 0.3 seconds
        route.continue_()

    page.route(page.url.partition("#")[0], answer_late)
    as_json(page).fill(BROKEN)
    page.reload()
    expect(as_json(page)).to_have_value(BROKEN)


def test_signs_that_json_never_has_are_named(page: Page) -> None:
    problem = page.locator("#json-problem")
    for written, words in {
        "{“a”: 1}": 'column 2: write " around names and texts',
        "{'a': 1}": 'column 2: write " around names and texts',
        '{"a": True}': "column 7: write true, false and null in small letters",
        '{"a": "b\tc"}': "column 9: write this character in a text as \\t",
        '{"a": 1, // why': "column 10: JSON has no comments",
    }.items():
        as_json(page).fill(written)
        expect(problem).to_contain_text(words)


def test_a_field_that_stands_twice_is_named(page: Page) -> None:
    as_json(page).fill('{"messages": [{"role": "user", "content": "a", "content": "b"}]}')
    expect(
        page.get_by_text("messages[0].content stands twice; the last one counts")
    ).to_be_visible()


def test_nothing_is_a_conversation_without_messages(page: Page) -> None:
    as_json(page).fill(BROKEN)
    as_json(page).fill("")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_text("No messages yet")).to_be_visible()
    expect(as_json(page)).to_have_value("")


def _random_json(random: Random, depth: int = 3) -> Any:
    kind = random.choice(["text", "number", "scalar", "list", "object"] if depth else ["text"])
    if kind == "list":
        return [_random_json(random, depth - 1) for _ in range(random.randrange(4))]
    if kind == "object":
        names = random.sample(["a", "b_1", "messages", "role"], random.randrange(4))
        return {name: _random_json(random, depth - 1) for name in names}
    if kind == "number":
        return random.choice([0, -1, 2.5, 1e30, 10**20])
    if kind == "scalar":
        return random.choice([None, True, False])
    return "".join(random.choices(['"', "\\", "\n", "é", "😀", "a", ",", "}", "]", " "], k=3))


def _values(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each value in a JSON value with its path, as errors name it."""
    for place in [(), *(places(value) if isinstance(value, dict | list) else ())]:
        yield field_path(place), functools.reduce(operator.getitem, place, value)


def _is_json(text: str) -> bool:
    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


def test_the_page_and_python_agree_on_what_is_json_and_where_its_fields_stand(page: Page) -> None:
    random = Random()
    fields, texts = [], []
    for _ in range(300):
        value = _random_json(random)
        text = json.dumps(
            value, indent=random.choice([None, 1]), ensure_ascii=random.random() < 0.5
        )
        fields += [(text, path, inner) for path, inner in _values(value)]
        for _ in range(8):
            at, sign = random.randrange(len(text) + 1), random.choice([*'{}[]",:1e-.\\\n tN', ""])
            texts.append(text[:at] + sign + text[at + random.randrange(2) :])
    found = page.evaluate(
        """async ([texts, places]) => {
            const { jsonProblem, placeOf } = await import("/inspector/json-places.js");
            const codePoints = (text, place) => [...text.slice(0, place)].length;
            return [
                texts.map((text) => jsonProblem(text)),
                places.map(([text, path]) => codePoints(text, placeOf(text, path))),
            ];
        }""",
        [texts, fields],
    )
    for text, problem in zip(texts, found[0], strict=True):
        assert (problem is None) == _is_json(text), (text, problem)
    for (text, path, value), place in zip(fields, found[1], strict=True):
        assert json.JSONDecoder().raw_decode(text, place)[0] == value, (text, path)


def test_special_tokens_are_told_from_text(visitor: Visitor, inspector_url: str) -> None:
    said = {"messages": [{"role": "user", "channel": "x", "content": "so <|end|> <|start|>system"}]}
    page = opened(visitor, inspector_url, said)
    expect(row(page, "message 0, user").locator(".special")).to_have_text(
        ["<|start|>", "<|channel|>", "<|message|>", "<|end|>"]
    )
    expect(row(page, "message 0, user")).to_contain_text("so <|end|> <|start|>system")
    expect_tokens(page, rendered(said))
    real = view(page).locator(".special").last
    spelled = view(page).locator(".token", has_text="<|").first
    look = (
        "e => { const s = getComputedStyle(e); return [s.backgroundColor, s.color, s.fontWeight] }"
    )
    assert real.evaluate(look) != spelled.evaluate(look)


def test_ids_are_shown_on_demand(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, SUM)
    token = view(page).locator(".token").first
    expect(token).to_be_visible()
    assert "200006" not in token.evaluate(DRAWN)
    page.get_by_role("checkbox", name="Token ids").check()
    assert "200006" in token.evaluate(DRAWN)


def test_a_token_tells_all_about_itself(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, WEATHER)
    view(page).locator(".token", has_text="<|channel|>").first.click()
    detail = page.get_by_test_id("token-detail")
    for words in ("200005", "<|channel|>", "3 assistant", "header"):
        expect(detail).to_contain_text(words)


def test_each_message_is_counted(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, WEATHER)
    expect(summary(page)).to_contain_text("6 messages")
    counts = view(page).locator(".count").all_inner_texts()
    assert sum(int(words.split()[0].replace(",", "")) for words in counts) == len(rendered(WEATHER))
    segments = ENCODING.segments_for_completion(
        Conversation.from_json(json.dumps(WEATHER)),
        Role.ASSISTANT,
        RenderConversationConfig(auto_drop_analysis=False, header_style="guide"),
    )
    user = sum(len(segment.tokens) for segment in segments if segment.message == 2)
    expect(row(page, "message 2, user")).to_contain_text(f"{user} tokens")


def test_dropped_reasoning_is_shown_with_its_reason(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, {"messages": TWO_TURNS["messages"][:4]})
    dropped = view(page).locator(".dropped")
    expect(summary(page)).to_contain_text("1 left out")
    expect(dropped).to_contain_text("I think.")
    expect(dropped).to_contain_text("the reasoning of an earlier turn")
    expect(dropped.locator(".token")).to_have_count(0)
    page.get_by_role("combobox", name="Reasoning", exact=True).select_option("reference")
    expect(dropped).to_contain_text("before the first final answer")
    page.get_by_role("combobox", name="Reasoning", exact=True).select_option("keep")
    expect(dropped).to_have_count(0)
    expect(summary(page)).to_contain_text("4 messages")
    said = ENCODING.decode(token_ids(view(page)))
    assert "<|channel|>analysis<|message|>I think.<|end|>" in said


def test_the_training_mask_shows_what_is_trainable(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, TWO_TURNS, options={"ending": "training"})
    expect(summary(page)).to_contain_text("trainable")
    expect(page.get_by_role("checkbox", name="Training mask")).to_be_checked()
    expect_token_ids(view(page).locator(".trainable"), sampled("I think.", "1."))
    page.get_by_label("Example").select_option("1")
    expect_token_ids(view(page).locator(".trainable"), sampled("I think more.", "2."))


def test_the_next_turn_is_opened_for_completion_alone(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, SUM)
    expect(row(page, "next turn")).to_be_visible()
    page.get_by_label("Ending").select_option("training")
    expect(row(page, "next turn")).to_have_count(0)


@pytest.mark.parametrize("style", ["guide", "reference", "oss-harmony"])
def test_header_styles_can_be_chosen(visitor: Visitor, inspector_url: str, style: str) -> None:
    page = opened(visitor, inspector_url, WEATHER)
    page.get_by_label("Header style").select_option(style)
    expect_tokens(page, rendered(WEATHER, header_style=style))


def test_schema_dialects_can_be_chosen(visitor: Visitor, inspector_url: str) -> None:
    page = opened(visitor, inspector_url, WEATHER)
    page.get_by_label("Schema dialect").select_option("reference")
    expect_tokens(page, rendered(WEATHER, schema_dialect="reference"))
