"""Tokens to messages in the inspector: what is pasted is read, step by step, strict and lenient."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Locator, Page, expect

from gpt_oss_harmony import load_harmony_encoding
from support.page_visitor import Visitor, fragment, token_ids
from support.served import CHAT_WEATHER

pytestmark = pytest.mark.slow

ENCODING = load_harmony_encoding("HarmonyGptOss")
ANSWER = (
    "<|channel|>analysis<|message|>Sum.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>4.<|return|>"
)
IDS = ENCODING.encode(ANSWER, allowed_special="all")
CALL = '<|channel|>commentary to=get_weather<|constrain|>json<|message|>{"a":1}<|call|>'
BROKEN = f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant{CALL}"


class Step(NamedTuple):
    """What a parser shows at a place."""

    state: str
    role: str
    channel: str
    recipient: str
    content_type: str
    delta: str


def start(page: Page) -> None:
    page.get_by_role("tab", name="Tokens").click()


def paste(page: Page, text: str) -> None:
    start(page)
    page.get_by_role("textbox", name="Tokens or text").fill(text)


def status(page: Page, words: str) -> None:
    expect(page.get_by_role("tabpanel").get_by_role("status").first).to_contain_text(words)


def parser(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def shown(page: Page, name: str = "Lenient") -> Step:
    return Step(*parser(page, name).locator("dd").all_inner_texts())


def view(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Stream")


INPUTS = {
    "text": ANSWER,
    "ids": " ".join(map(str, IDS)),
    "a list of ids": str(IDS),
    "lines of ids": ",\n".join(map(str, IDS)),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_what_is_pasted_is_read(page: Page, kind: str) -> None:
    paste(page, INPUTS[kind])
    status(page, f"{len(IDS)} tokens, 2 messages, 0 recoveries; the strict parser reads them all")
    assert token_ids(view(page)) == IDS


@pytest.mark.parametrize("kind", ["text", "ids"])
def test_a_file_is_read(page: Page, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "completion.txt"
    file.write_text(INPUTS[kind] + "\n", encoding="utf-8")
    start(page)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Open a file").click()
    chooser.value.set_files(file)
    status(page, f"{len(IDS)} tokens, 2 messages")
    assert token_ids(view(page)) == IDS


def test_stepping_by_keys_shows_what_the_parser_knows(page: Page) -> None:
    paste(page, ANSWER)
    status(page, f"{len(IDS)} tokens")
    slider = page.get_by_role("slider", name="Tokens read")
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_value("0")
    steps = [shown(page)]
    for place in range(1, len(IDS) + 1):
        page.keyboard.press("ArrowRight")
        expect(slider).to_have_value(str(place))
        steps.append(shown(page))
        marked = view(page).locator("[aria-selected=true]")
        assert marked.get_attribute("data-index") == str(place - 1)
    header, content, between = "In a header", "In a message", "Between messages"
    assert steps == [
        Step(header, "assistant", "none", "none", "none", "none"),
        Step(header, "assistant", "none", "none", "none", "none"),  # <|channel|>
        Step(header, "assistant", "none", "none", "none", "none"),  # analysis
        Step(content, "assistant", "analysis", "none", "none", "none"),  # <|message|>
        Step(content, "assistant", "analysis", "none", "none", '"Sum"'),
        Step(content, "assistant", "analysis", "none", "none", '"."'),
        Step(between, "none", "none", "none", "none", "none"),  # <|end|>
        Step(header, "none", "none", "none", "none", "none"),  # <|start|>
        Step(header, "none", "none", "none", "none", "none"),  # assistant
        Step(header, "none", "none", "none", "none", "none"),  # <|channel|>
        Step(header, "none", "none", "none", "none", "none"),  # final
        Step(content, "assistant", "final", "none", "none", "none"),  # <|message|>
        Step(content, "assistant", "final", "none", "none", '"4"'),
        Step(content, "assistant", "final", "none", "none", '"."'),
        Step(between, "none", "none", "none", "none", "none"),  # <|return|>
    ]
    page.keyboard.press("ArrowLeft")
    assert shown(page) == steps[-2]
    page.keyboard.press("Home")
    page.keyboard.press("PageDown")
    assert shown(page) == steps[3]


def test_buttons_step_too(page: Page) -> None:
    paste(page, CALL)
    page.get_by_role("button", name="First").click()
    for _ in range(4):
        page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("spinbutton", name="Number of tokens read")).to_have_value("4")
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_role("slider", name="Tokens read")).to_have_value("3")
    page.get_by_role("button", name="Last").click()
    expect(parser(page, "Lenient")).to_contain_text("Messages complete: 1 of 1")
    page.get_by_role("spinbutton", name="Number of tokens read").fill("1")
    page.keyboard.press("Enter")
    expect(parser(page, "Lenient")).to_contain_text("Messages complete: 0 of 1")


def test_a_token_that_is_clicked_is_the_place(page: Page) -> None:
    paste(page, CALL)
    view(page).locator(".token", has_text="<|message|>").click()
    assert shown(page) == Step(
        "In a message", "assistant", "commentary", "get_weather", "<|constrain|>json", "none"
    )


def test_messages_are_complete_where_they_end(page: Page) -> None:
    paste(page, ANSWER)
    view(page).locator(".token", has_text="<|end|>").click()
    reading = parser(page, "Strict")
    expect(reading).to_contain_text("Messages complete: 1 of 2")
    expect(reading.get_by_role("article")).to_have_text("assistantanalysisSum.")


def test_repairs_are_marked_where_they_happened(page: Page) -> None:
    paste(page, BROKEN)
    page.get_by_role("textbox", name="Tools").fill("functions.get_weather")
    status(page, "1 recovery")
    places = view(page).locator(".recovery").evaluate_all("all => all.map(t => t.dataset.index)")
    listed = page.get_by_role("region", name="Recoveries").get_by_role("listitem")
    expect(listed).to_have_count(1)
    expect(listed).to_contain_text("tool-name")
    expect(listed).to_contain_text('"get_weather"')
    assert [f"Token {place}" for place in places] == [listed.get_by_role("button").inner_text()]
    page.get_by_role("button", name="First").click()
    listed.get_by_role("button").click()
    assert view(page).locator("[aria-selected=true]").get_attribute("data-index") == places[0]


def test_the_tools_are_those_of_the_conversation(visitor: Visitor, inspector_url: str) -> None:
    source = {"messages": [{"role": "user", "content": "hi"}], "tools": [CHAT_WEATHER]}
    call = CALL.replace("get_weather", "get_current_weather")
    page = visitor.open(inspector_url + fragment("tokens", source=source, input=call))
    status(page, "1 recovery")
    tools = page.get_by_role("textbox", name="Tools")
    expect(tools).to_have_attribute("placeholder", "functions.get_current_weather")
    expect(page.get_by_role("region", name="Recoveries")).to_contain_text("tool-name")
    tools.fill("python")
    status(page, "0 recoveries")


def test_strict_and_lenient_stand_side_by_side(page: Page) -> None:
    paste(page, f"So.<|end|><|start|>assistant{CALL}")
    status(page, "the strict parser fails")
    expect(parser(page, "Strict")).to_contain_text("does not fit")
    expect(parser(page, "Strict").get_by_role("article")).to_have_count(0)
    expect(parser(page, "Lenient").get_by_role("article")).to_have_count(2)
    expect(parser(page, "Lenient")).to_contain_text("So.")
    expect(view(page).locator(".refused")).to_have_count(1)
    view(page).locator(".token").nth(1).click()
    assert shown(page, "Strict") == Step("In a header", "assistant", *["none"] * 4)
    expect(parser(page, "Lenient").locator("dd").first).to_have_text("In a header")


TO_WEATHER = "<|channel|>commentary to=functions.get_current_weather <|constrain|>json<|message|>"
PROBLEMS: dict[str, tuple[str, list[str], str]] = {
    "other messages": (
        "<|channel|>analysis<|channel|>final<|message|>Hi<|return|>",
        ["Token 4repeated-channel"],
        "the strict parser reads other messages",
    ),
    "broken arguments": (
        f'{TO_WEATHER}{{"location": "Tokyo"<|call|>',
        ["not valid JSON: the text ends too early, at character 21."],
        "0 recoveries; the strict parser reads them all",
    ),
    "an undeclared function": (
        f"{TO_WEATHER}{{}}<|call|>".replace("get_current_weather", "foo"),
        ["functions.foo is not declared."],
        "0 recoveries; the strict parser reads them all",
    ),
    "cut off": (
        "<|channel|>analysis<|message|>thinking about",
        ["Endcut off The output ends before <|end|>, <|call|> or <|return|>."],
        "0 recoveries; the strict parser reads them all",
    ),
    "cut off in a header": (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final",
        ["cut-header", "Endstrict The output ends in a header: <|message|> is missing.Unexpected"],
        "the strict parser fails",
    ),
    "words without special tokens": (
        "analysisWe need to answer.assistantfinalThe answer is 4.",
        ["no-markup", "Endstrict"],
        "2 messages",
    ),
}


def test_problems_are_listed_by_position(page: Page) -> None:
    region = page.get_by_role("region", name="Recoveries")
    for text, problems, words in PROBLEMS.values():
        paste(page, text)
        status(page, words)
        items = region.get_by_role("listitem")
        expect(items).to_have_count(len(problems))
        for item, problem in zip(items.all(), problems, strict=True):
            expect(item).to_contain_text(problem)


def test_messages_that_the_parsers_read_in_different_ways_are_marked(page: Page) -> None:
    paste(page, PROBLEMS["other messages"][0])
    status(page, "other messages")
    for name in ("Strict", "Lenient"):
        expect(parser(page, name).get_by_role("article")).to_contain_text("differs")


def test_a_message_that_is_cut_off_is_not_complete(page: Page) -> None:
    paste(page, PROBLEMS["cut off"][0])
    status(page, "1 message")
    for name in ("Strict", "Lenient"):
        reading = parser(page, name)
        expect(reading).to_contain_text("Messages complete: 0 of 1; the last one is cut off")
        expect(reading.get_by_role("article")).to_have_text("assistantanalysisthinking about")


def test_the_tokens_of_a_plain_text_are_counted(page: Page) -> None:
    paste(page, "Hello, how many tokens is this?")
    status(page, "8 tokens of plain text.")
    region = page.get_by_role("region", name="Recoveries")
    expect(region).to_contain_text("The text has no special tokens.")
    expect(region.get_by_role("listitem")).to_have_count(0)


def test_text_that_spells_a_token_is_text(page: Page) -> None:
    spelled = ENCODING.encode("<|end|>", disallowed_special=())
    paste(page, " ".join(map(str, [*IDS[:3], *spelled, IDS[-1]])))
    status(page, f"{4 + len(spelled)} tokens, 1 message, 0 recoveries")
    expect(view(page).locator(".special")).to_have_count(3)
    expect(parser(page, "Strict").get_by_role("article")).to_contain_text("<|end|>")


def test_a_number_that_is_no_token_is_refused(visitor: Visitor, page: Page) -> None:
    visitor.expected.append("status of 4")
    paste(page, f"200005 {1 << 70}")
    expect(page.get_by_role("alert")).to_contain_text(str(1 << 70))


def test_the_prompt_of_the_conversation_can_be_read(page: Page) -> None:
    start(page)
    page.get_by_role("button", name="Prompt of the conversation").click()
    status(page, "the strict parser reads them all")
