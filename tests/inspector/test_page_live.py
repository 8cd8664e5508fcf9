"""Live in the inspector: a chat whose stream arrives as tokens, with calls, stops and figures."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.engines import Engine, SampledToken, Sampling
from gpt_oss_harmony.server import Settings
from support.page_visitor import Visitor, fragment, token_ids
from support.scripted_engine import GatedEngine, ScriptedEngine
from support.served import CHAT_WEATHER, serving

pytestmark = pytest.mark.slow

ENCODING = load_harmony_encoding("HarmonyGptOss")
THOUGHT = "<|channel|>analysis<|message|>Hm, sunny.<|end|>"
FINAL = "<|channel|>final<|message|>It is sunny.<|return|>"
ANSWER = f"{THOUGHT}<|start|>assistant{FINAL}"
CALL = (
    "<|channel|>commentary to=functions.get_current_weather <|constrain|>json<|message|>"
    '{"location":"Tokyo"}<|call|>'
)
WEATHER = {
    "messages": [{"role": "user", "content": "How is it in Tokyo?"}],
    "tools": [CHAT_WEATHER],
}
BEGINNING = {
    "messages": [
        {
            "role": "developer",
            "content": [{"type": "developer_content", "instructions": "Be brief."}],
        }
    ]
}
LOGPROBS = [0.0, -2.3026, -4.6052, -9.0]
"""Of the first tokens, and of the others again; a hundred percent, ten, one, less."""
KEY = "a-key-for-the-page"


class LikelyEngine(GatedEngine):
    """Tells how likely its tokens are, and another that was."""

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        likely = itertools.cycle(LOGPROBS)
        async for sampled in super()._generate(prompt, sampling, max_tokens):
            logprob = next(likely)
            top = ((sampled.token, logprob), (1753, -1.0))
            yield sampled._replace(logprob=logprob, top_logprobs=top)


@contextmanager
def live(
    visitor: Visitor, engine: Engine, settings: Settings | None = None, **document: Any
) -> Iterator[Page]:
    """Serve an engine, and open the tab where one can talk with it."""
    with serving(engine, settings) as url:
        page = visitor.open(
            url.removesuffix("v1") + fragment("live", **{"source": BEGINNING, **document})
        )
        yield page
        page.context.close()  # before the server ends: a page may still ask it to render


def say(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Message").fill(text)
    page.keyboard.press("Enter")


def tokens(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Answer")


def chat(page: Page) -> Locator:
    return page.get_by_role("log", name="Chat")


def status(page: Page) -> Locator:
    return page.get_by_role("tabpanel").get_by_role("status")


def figure(page: Page, name: str) -> Locator:
    return page.get_by_role("definition").and_(page.locator(f'dt:text-is("{name}") + dd'))


def test_the_stream_is_seen_as_it_comes(visitor: Visitor) -> None:
    engine = GatedEngine(ANSWER, before_gate=5)
    with live(visitor, engine) as page:
        say(page, "How is it?")
        engine.wait_at_gate()
        ids = ENCODING.encode(ANSWER, allowed_special="all")
        expect(tokens(page).locator(".token")).to_have_count(5)
        assert token_ids(tokens(page)) == ids[:5]
        expect(chat(page).get_by_role("article")).to_have_text(
            [re.compile("How is it[?]"), re.compile("Hm,$")]
        )
        expect(figure(page, "Sampled")).to_have_text("5 tokens")
        expect(figure(page, "State")).to_have_text("sampling")
        expect(page.get_by_role("button", name="Send")).to_be_disabled()
        engine.open()
        expect(status(page)).to_have_text(f"The turn has ended after {len(ids)} tokens.")
        assert token_ids(tokens(page)) == ids
        expect(chat(page).get_by_role("article")).to_have_text(
            [re.compile("How is it[?]"), re.compile("Hm, sunny[.]"), re.compile("It is sunny[.]")]
        )
        expect(figure(page, "Time to first token")).to_have_text(re.compile(r"^[\d,]+ ms$"))
        expect(figure(page, "Tokens per second")).to_have_text(re.compile(r"^\d+([.]\d)?$"))
        expect(figure(page, "State")).to_have_text("stop")
    [prompt] = engine.prompts
    assert prompt.endswith("<|start|>user<|message|>How is it?<|end|><|start|>assistant")


def test_no_turn_goes_on_from_what_cannot_be_read(visitor: Visitor) -> None:
    visitor.expected.append("status of 4")
    engine = ScriptedEngine(FINAL)
    with live(visitor, engine) as page:
        for written, problem in (
            ('{"messages": [', "Not valid JSON: line 1, column 15: the text ends too early"),
            ('[{"role": "usr", "content": "Hi"}]', "messages[0].role: expected one of"),
        ):
            page.get_by_role("tab", name="Conversation").click()
            page.get_by_role("button", name="JSON", exact=True).click()
            page.get_by_role("textbox", name="Conversation as JSON").fill(written)
            page.get_by_role("tab", name="Live").click()
            say(page, "How is it?")
            alert = page.get_by_role("tabpanel").get_by_role("alert")
            expect(alert).to_contain_text(problem)
            if problem.startswith("Not valid"):
                page.get_by_role("button", name="New conversation").click()
            alert.get_by_role("button", name="To the conversation").click()
        field = page.get_by_role("textbox", name="Conversation as JSON")
        expect(field).to_have_value('[{"role": "usr", "content": "Hi"}]')
        field.fill("")
        page.get_by_role("tab", name="Live").click()
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Send").click()
        expect(chat(page)).to_contain_text("It is sunny.")
    assert len(engine.prompts) == 1


def test_what_is_written_during_a_turn_is_kept(visitor: Visitor) -> None:
    engine = GatedEngine(ANSWER, before_gate=5)
    with live(visitor, engine) as page:
        say(page, "How is it?")
        engine.wait_at_gate()
        page.get_by_role("tab", name="Conversation").click()
        page.get_by_role("button", name="JSON", exact=True).click()
        field = page.get_by_role("textbox", name="Conversation as JSON")
        field.fill('{"messages": [')
        engine.open()
        page.get_by_role("tab", name="Live").click()
        expect(status(page)).to_contain_text("the conversation was changed meanwhile")
        page.get_by_role("tab", name="Conversation").click()
        expect(field).to_have_value('{"messages": [')


def test_a_call_is_answered_and_the_turn_goes_on(visitor: Visitor) -> None:
    engine = ScriptedEngine(f"{THOUGHT}<|start|>assistant{CALL}", FINAL)
    with live(visitor, engine, source={**WEATHER, "tool_choice": "required"}) as page:
        page.get_by_role("button", name="Send").click()
        result = page.get_by_role("textbox", name="Result of functions.get_current_weather")
        result.fill('{"sunny": true}')
        page.get_by_role("button", name="Go on", exact=True).click()
        expect(chat(page)).to_contain_text("It is sunny.")
        expect(result).to_be_hidden()
        expect(chat(page).get_by_role("article").nth(-2)).to_contain_text('{"sunny": true}')
        # It is still the request that it was, and goes on in the same format.
        page.get_by_role("tab", name="Conversation").click()
        page.get_by_role("button", name="JSON", exact=True).click()
        text = page.get_by_role("textbox", name="Conversation as JSON").input_value()
    request = json.loads(text)
    assert request["tool_choice"] == "required"
    assert request["tools"] == WEATHER["tools"]
    roles = [message["role"] for message in request["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant"]
    first, second = engine.prompts
    assert second == (
        f"{first}{THOUGHT}<|start|>assistant{CALL}"
        "<|start|>functions.get_current_weather to=assistant<|channel|>commentary<|message|>"
        '{"sunny": true}<|end|><|start|>assistant'
    )


def test_a_turn_can_be_stopped(visitor: Visitor) -> None:
    engine = GatedEngine(ANSWER, before_gate=5)
    with live(visitor, engine) as page:
        say(page, "How is it?")
        engine.wait_at_gate()
        expect(tokens(page).locator(".token")).to_have_count(5)
        page.get_by_role("button", name="Stop").click()
        engine.wait_for_end()
        expect(status(page)).to_contain_text("Stopped after 5 tokens")
        expect(page.get_by_role("button", name="Send")).to_be_enabled()
        expect(chat(page)).not_to_contain_text("sunny")
        page.get_by_role("button", name="Step through these tokens").click()
        expect(page.get_by_role("listbox", name="Stream").locator(".token")).to_have_count(5)


def test_probabilities_are_shades(visitor: Visitor) -> None:
    engine = LikelyEngine(FINAL, before_gate=100)
    with live(visitor, engine) as page:
        say(page, "How is it?")
        expect(status(page)).to_contain_text("The turn has ended")
        shades = (
            tokens(page)
            .locator(".token")
            .evaluate_all(
                "all => all.map(t => Number(getComputedStyle(t).getPropertyValue('--shade')))"
            )
        )
        assert [round(shade, 2) for shade in shades[:5]] == [0, 0.5, 1, 1, 0]
        looks = (
            tokens(page)
            .locator(".token")
            .evaluate_all("all => all.slice(3, 5).map(t => getComputedStyle(t).backgroundColor)")
        )
        assert looks[0] != looks[1]
        tokens(page).locator(".token").nth(1).click()
        expect(page.get_by_role("region", name="Turn")).to_contain_text("10.0 %")
        expect(page.get_by_role("region", name="Turn")).to_contain_text("36.8 %")
        page.get_by_role("checkbox", name="Shade by probability").uncheck()
        expect(tokens(page).locator(".shaded")).to_have_count(0)


def test_the_grammar_of_the_turn_can_be_asked_for(visitor: Visitor) -> None:
    engine = ScriptedEngine(CALL, FINAL)
    with live(visitor, engine, source=WEATHER) as page:
        page.get_by_role("checkbox", name="Sample under the grammar").check()
        page.get_by_role("button", name="Send").click()
        expect(status(page)).to_contain_text("The turn has ended")
    grammar = engine.samplings[0].grammar
    assert grammar is not None
    assert "get_current_weather" in grammar


def test_an_engine_that_fails_is_told(visitor: Visitor) -> None:
    with live(visitor, ScriptedEngine("<|channel|>final<|message|>It!")) as page:
        say(page, "How is it?")
        expect(page.get_by_role("alert")).to_contain_text("breaks off")
        expect(status(page)).to_contain_text("Broken off after 4 tokens")
        expect(page.get_by_role("button", name="Send")).to_be_enabled()


def test_what_the_model_says_is_text(visitor: Visitor) -> None:
    said = "<img hostile src=/x onerror=window.hostile=1><script>window.hostile=1</script>"
    completion = f"<|channel|>final to={said.split()[0]}<|message|>{said}<|return|>"
    with live(visitor, ScriptedEngine(completion)) as page:
        say(page, said)
        expect(status(page)).to_contain_text("The turn has ended")
        expect(chat(page).get_by_role("article").last).to_contain_text(said)
        assert page.locator("[hostile]").count() == 0
        assert page.evaluate("window.hostile") is None


NAMES = [  # of tools, as an MCP server may choose them
    "<img/hostile/src=/x/onerror=window.hostile=1>",
    "<script/hostile>Reflect.set(window,'hostile',1)</script>",
    "&lt;b/hostile&gt;",
    "'/hostile/autofocus/onfocus",
    '"><b/hostile>',
]


@pytest.mark.parametrize("name", NAMES)
def test_the_names_of_mcp_tools_are_text(visitor: Visitor, name: str) -> None:
    tool = {"name": name, "description": name, "parameters": None}
    namespace = {"name": "host", "description": name, "tools": [tool]}
    developer = {"type": "developer_content", "tools": {"host": namespace}}
    source = {"messages": [{"role": "developer", "content": [developer]}]}
    called = name.replace("=", "")  # a header ends a name there
    call = f"<|channel|>commentary to=host.{called} <|constrain|>json<|message|>{{}}<|call|>"
    with live(visitor, ScriptedEngine(call, FINAL), source=source) as page:
        say(page, name)
        result = page.get_by_role("textbox", name=f"Result of host.{called}")
        result.fill(name)
        page.get_by_role("button", name="Go on", exact=True).click()
        expect(chat(page)).to_contain_text("It is sunny.")
        expect(chat(page)).to_contain_text(f"host.{called}")
        assert page.locator("[hostile]").count() == 0
        assert page.evaluate("window.hostile") is None


def test_a_key_is_asked_for_where_the_server_wants_one(visitor: Visitor) -> None:
    visitor.expected.append("status of 401")
    engine = ScriptedEngine(FINAL)
    with live(visitor, engine, Settings(api_keys=(KEY,))) as page:
        field = page.get_by_label("API key")
        field.fill("another")
        page.keyboard.press("Enter")
        expect(field).to_be_visible()
        field.fill(KEY)
        page.keyboard.press("Enter")
        say(page, "How is it?")
        expect(chat(page)).to_contain_text("It is sunny.")
        assert KEY not in page.url
        assert page.context.cookies() == []


def test_the_demo_model_answers(visitor: Visitor, demo_url: str) -> None:
    page = visitor.open(demo_url.removesuffix("v1") + fragment("live", source=BEGINNING))
    page.get_by_role("spinbutton", name="Temperature").fill("0")
    say(page, "What is 27 + 45?")
    expect(chat(page).get_by_role("article").last).to_contain_text("27 + 45 = 72.")
    expect(status(page)).to_contain_text("The turn has ended")
    expect(tokens(page).locator(".shaded").first).to_be_visible()


def test_without_a_model_the_tab_says_how_to_get_one(visitor: Visitor, inspector_url: str) -> None:
    page = visitor.open(inspector_url + fragment("live"))
    expect(page.get_by_role("tabpanel")).to_contain_text("harmony inspect demo")
