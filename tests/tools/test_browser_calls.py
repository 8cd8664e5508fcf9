"""Calls of the browser: how they are read, what is said about bad ones, what is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt_oss_harmony import Message, Role, SystemContent, TextContent, load_harmony_encoding
from gpt_oss_harmony.tools.browser import Browser, BrowserSession, Link, Page, SearchResult
from gpt_oss_harmony.tools.browser.backends import search_page
from gpt_oss_harmony.tools.tool import ToolError, ToolMessage

ENCODING = load_harmony_encoding("HarmonyGptOss")


class Shelf:
    """A search and a source of pages that are in memory; `asked` are the searches."""

    schemes = ("https",)

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, str | None]] = []
        self.closed = 0

    async def search(
        self, query: str, topn: int, source: str | None = None
    ) -> Sequence[SearchResult]:
        self.asked.append((query, topn, source))
        if query == "nothing":
            return []
        if query == "broken":
            raise ToolError("the service is down")
        return [
            SearchResult(f"https://{query}.example/{at}", f"{query} {at}", f"about {at}", "line 30")
            for at in range(30)
        ]

    async def open(self, url: str, *, source: bool = False) -> Page:
        if url.endswith("missing"):
            raise ToolError("there is no such page")
        text = "<html>" if source else "\n".join(f"line {at}" for at in range(1000))
        return Page(
            url=url, title=f"Page {url}", text=text, links=(Link(url="https://next.example/"),)
        )

    async def close(self) -> None:
        self.closed += 1


class Dialogue:
    """A browser with a session, and a way to call it."""

    def __init__(self) -> None:
        self.shelf = Shelf()
        self.browser = Browser(self.shelf, [self.shelf])
        self.session = self.browser.new_session()

    def send(
        self, text: str, recipient: str = "browser.open", channel: str = "analysis"
    ) -> ToolMessage:
        call = Message.from_role_and_content(Role.ASSISTANT, text)
        call = call.with_recipient(recipient).with_channel(channel)

        async def answers() -> list[ToolMessage]:
            return [message async for message in self.browser.call(call, self.session)]

        [answer] = asyncio.run(answers())
        return answer

    def call(self, function: str, **arguments: Any) -> str:
        answer = self.send(json.dumps(arguments), f"browser.{function}")
        return said(answer)


def said(message: Message) -> str:
    [content] = message.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.fixture
def dialogue() -> Dialogue:
    return Dialogue()


def header(view: str) -> str:
    return "\n".join(view.split("\n")[:2])


# Recipients and channels


@pytest.mark.parametrize(
    ("recipient", "text"),
    [
        ("browser.search", '{"query": "fox"}'),
        ("functions.browser.search", '{"query": "fox"}'),
        ("browser", '{"name": "search", "arguments": {"query": "fox"}}'),
        ("browser", '{"name": "browser.search", "arguments": "{\\"query\\": \\"fox\\"}"}'),
        (
            "functions.browser",
            '{"name": "functions.browser.search", "arguments": {"query": "fox"}}',
        ),
    ],
)
@pytest.mark.parametrize("channel", ["analysis", "commentary"])
def test_calls_are_answered_by_their_recipient_on_their_channel(
    dialogue: Dialogue, recipient: str, text: str, channel: str
) -> None:
    assert dialogue.browser.accepts(recipient)
    answer = dialogue.send(text, recipient, channel)
    assert (answer.author.role, answer.author.name) == (Role.TOOL, recipient)
    assert (answer.recipient, answer.channel) == ("assistant", channel)
    assert said(answer).startswith("[0] fox\n**viewing lines [0 - ")
    rendered = ENCODING.decode(ENCODING.render(answer))
    assert rendered.startswith(f"<|start|>{recipient} to=assistant<|channel|>{channel}<|message|>")


@pytest.mark.parametrize("recipient", [None, "", "python", "functions.shell", "browsers.open"])
def test_calls_of_other_tools_are_not_accepted(dialogue: Dialogue, recipient: str | None) -> None:
    assert not dialogue.browser.accepts(recipient)


def test_the_declaration_is_the_trained_one(dialogue: Dialogue) -> None:
    declared = dialogue.browser.declare(SystemContent.new())
    assert declared == SystemContent.new().with_browser_tool()


# Arguments


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ({"query": "fox"}, ("fox", 10, None)),
        ({"query": "fox", "topn": 3}, ("fox", 3, None)),
        ({"query": "fox", "topn": 3.0}, ("fox", 3, None)),
        ({"query": "fox", "topn": "3"}, ("fox", 3, None)),
        ({"query": "fox", "top_n": 4}, ("fox", 4, None)),
        ({"query": "fox", "topn": 0}, ("fox", 1, None)),
        ({"query": "fox", "topn": 999}, ("fox", 20, None)),
        ({"query": "fox", "topn": None, "source": "news"}, ("fox", 10, "news")),
        ({"query": 1984}, ("1984", 10, None)),
    ],
)
def test_arguments_of_a_search(
    dialogue: Dialogue, arguments: dict[str, Any], asked: tuple[str, int, str | None]
) -> None:
    view = dialogue.call("search", **arguments)
    assert dialogue.shelf.asked == [asked]
    assert view.count("【") == asked[1]


MISTAKES = [
    ("browser.search", "", "the argument `query` is missing; `browser.search` needs it"),
    ("browser.search", '{"query": ""}', "`query` is empty"),
    ("browser.search", json.dumps({"query": "x" * 1001}), "longer than 1000 characters"),
    ("browser.search", '{"query": ["a"]}', "`query` must be a string, not [\"a\"]"),
    ("browser.search", '{"query": "a", "topn": "many"}', "`topn` must be a number"),
    ("browser.search", '{"query": "a", "topn": 1.5}', "`topn` must be a number, not 1.5"),
    ("browser.search", '{"query": "a", "topn": true}', "`topn` must be a number, not true"),
    ("browser.search", '{"query": "a", "topn": 1e999}', "the number 1e999 is too large"),
    ("browser.search", '{"query": "a", "days": 3}', "unknown argument `days`; `browser"),
    ("browser.search", '{"query": "a"', "must be a JSON object: "),
    ("browser.search", '["a"]', "must be a JSON object, such as"),
    ("browser.search", "[" * 100_000, "must be a JSON object"),
    ("browser.search", '{"query": "broken"}', "the service is down"),
    ("browser.open", '{"cursor": 7, "id": 0}', "no page at cursor 7; the cursors are 0 to 1"),
    ("browser.open", '{"id": 999}', "no link 999 on the most recent page; its links are 0 to 0"),
    ("browser.open", '{"id": 30, "cursor": 0}', "the page at cursor 0; its links are 0 to 9"),
    ("browser.open", '{"loc": 1000}', "there is no line 1000; the last line of the page is 999"),
    ("browser.open", '{"id": "example.com"}', "a URL is written in full"),
    ("browser.open", '{"id": "file:///etc/passwd"}', "this browser opens https://"),
    ("browser.open", '{"id": {"url": "x"}}', "`id` must be a number or a string"),
    ("browser.open", '{"id": "https://a.example/missing"}', "there is no such page"),
    ("browser.open", '{"view_source": "maybe"}', "`view_source` must be a boolean"),
    ("browser.open", '{"view_source": true, "cursor": 0}', "search results have no source"),
    ("browser.open", '{"id": 123456789012345678901234567890}', "`id` must be a number"),
    ("browser.find", "{}", "the argument `pattern` is missing"),
    ("browser.find", '{"pattern": "a", "cursor": 2}', "there is no page at cursor 2"),
    ("browser.click", "{}", "there is no function `click`; there are `browser.search`"),
    ("browser.open.link", "{}", "there is no function `open.link`"),
    ("browser", '{"query": "fox"}', "the call names no function; call `browser.search`"),
    ("browser", '{"name": "open", "arguments": 3}', "`arguments` must be a JSON object"),
]  # fmt: skip


@pytest.mark.parametrize(("recipient", "text", "problem"), MISTAKES)
def test_mistakes_are_told_and_change_nothing(
    dialogue: Dialogue, recipient: str, text: str, problem: str
) -> None:
    dialogue.call("search", query="fox")
    dialogue.call("open", id=0)
    before = dialogue.session.to_json()
    answer = said(dialogue.send(text, recipient))
    assert answer.startswith("Error: ")
    assert problem in answer
    assert dialogue.session.to_json() == before


def test_without_a_page_there_is_nothing_to_scroll_or_search(dialogue: Dialogue) -> None:
    assert "no page is open yet" in dialogue.call("open", loc=3)
    assert "no page is open yet" in dialogue.call("find", pattern="a")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=5,
)
NAMES = st.sampled_from(["query", "topn", "source", "id", "cursor", "loc", "num_lines", "pattern"])
CALLS = st.text(max_size=30) | st.dictionaries(NAMES, JSON, max_size=4).map(json.dumps)


@given(st.lists(st.tuples(st.sampled_from(["search", "open", "find", ""]), CALLS), max_size=6))
def test_no_call_is_an_exception(calls: list[tuple[str, str]]) -> None:
    dialogue = Dialogue()
    for function, text in calls:
        before = len(dialogue.session.views)
        answer = dialogue.send(text, f"browser.{function}" if function else "browser")
        ENCODING.render(answer)
        failed = answer.is_error
        assert failed == said(answer).startswith("Error: ")
        assert len(dialogue.session.views) == before + (not failed)
        if not failed:
            assert said(answer).startswith(f"[{before}] ")
        assert BrowserSession.from_json(dialogue.session.to_json()) == dialogue.session


# Pages by cursor


def test_links_of_an_older_search_are_its_own(dialogue: Dialogue) -> None:
    dialogue.call("search", query="old")
    dialogue.call("search", query="new")
    assert header(dialogue.call("open", id=1, cursor=0)).startswith(
        "[2] Page https://old.example/1 (https://old.example/1)"
    )
    assert "https://new.example/1" in header(dialogue.call("open", id=1, cursor=1))


def test_pages_open_at_the_passage_that_was_found(dialogue: Dialogue) -> None:
    dialogue.call("search", query="fox")
    assert "viewing lines [26 - " in header(dialogue.call("open", id=0))
    assert "viewing lines [500 - 509] of 999" in header(
        dialogue.call("open", id=0, cursor=0, loc=500, num_lines=10)
    )
    assert "viewing lines [0 - " in header(dialogue.call("open", id="https://fox.example/0"))


def test_scrolling_adds_a_view_of_the_same_page(dialogue: Dialogue) -> None:
    dialogue.call("open", id="https://a.example/")
    view = dialogue.call("open", loc=100, num_lines=2)
    assert view == (
        "[1] Page https://a.example/ (https://a.example/)\n"
        "**viewing lines [100 - 101] of 999**\n\nL100: line 100\nL101: line 101"
    )
    assert len(dialogue.session.pages) == 1


def test_find_results_open_the_page_they_were_found_in(dialogue: Dialogue) -> None:
    dialogue.call("open", id="https://a.example/")
    dialogue.call("open", id="https://b.example/")
    assert "match at L777" in dialogue.call("find", pattern="LINE 777", cursor=0)
    opened = dialogue.call("open", id=0)
    assert header(opened) == (
        "[3] Page https://a.example/ (https://a.example/)\n**viewing lines [773 - "
        + opened.split("lines [773 - ")[1].split("\n")[0]
    )
    assert "match at L5】" in dialogue.call("find", pattern="line 5", cursor=2)
    assert len(dialogue.session.pages) == 4


def test_find_looks_into_search_results_too(dialogue: Dialogue) -> None:
    dialogue.call("search", query="fox")
    assert "match at L6" in dialogue.call("find", pattern="about 2")


def test_the_source_of_a_page(dialogue: Dialogue) -> None:
    dialogue.call("open", id="https://a.example/")
    for call in ({"view_source": True}, {"id": "view-source:https://a.example/"}):
        assert dialogue.call("open", **call).endswith("L0: <html>")


def test_an_empty_search_is_a_page(dialogue: Dialogue) -> None:
    assert dialogue.call("search", query="nothing").endswith(
        "L4: No results. Try other or fewer words."
    )


def test_a_session_forgets_the_oldest_pages_when_it_is_full() -> None:
    session = BrowserSession()
    for at in range(5):
        session.show(Page(url=f"https://a.example/{at}", title="", text=str(at) * 1_000_000))
    assert [page.forgotten for page in session.pages] == [True, False, False, False, False]
    with pytest.raises(ToolError, match=r"no longer kept; open it again by its URL, https://a"):
        session.page(0)
    assert BrowserSession.from_json(session.to_json()) == session


BULKY: dict[str, dict[str, object]] = {
    "text": {"text": "x" * 1_000_000},
    "addresses": {"links": tuple(Link(url="x" * 4000) for _ in range(250))},
    "titles and passages": {"links": tuple(Link(url="", title="x" * 500, passage="x" * 500)
                                           for _ in range(1000))},
}  # fmt: skip


@pytest.mark.parametrize("parts", BULKY.values(), ids=BULKY)
def test_a_session_has_four_million_characters_of_any_kind(parts: dict[str, Any]) -> None:
    session = BrowserSession()
    for at in range(9):
        session.show(Page.model_validate({"url": str(at), "title": "", "text": "", **parts}))
    assert sum(page.size for page in session.pages) <= 4_000_000
    assert len(session.to_json()) < 5_000_000


def test_a_page_of_results_is_short_whatever_a_service_returns() -> None:
    results = [SearchResult("u" * 3_900, "t" * 10**6, "s" * 10**6, "p" * 10**6) for _ in range(20)]
    page = search_page("q" * 10**6, [*results, SearchResult("u" * 4_001, "", "")])
    assert len(page.links) == 20
    assert len(page.text) + len(page.title) < 20 * 6_000
    assert page.size < 20 * 12_000


@pytest.mark.parametrize(
    "stored", ["", "{", "[]", '{"views": [0]}', '{"pages": [{}]}', '{"views": [-1]}']
)
def test_a_damaged_session_is_refused(dialogue: Dialogue, stored: str) -> None:
    with pytest.raises(ValueError, match="BrowserSession"):
        dialogue.browser.load_session(stored)


def test_what_is_both_search_and_source_is_closed_once(dialogue: Dialogue) -> None:
    asyncio.run(dialogue.browser.close())
    assert dialogue.shelf.closed == 1


def test_surrogates_in_arguments_do_not_reach_the_encoder(dialogue: Dialogue) -> None:
    assert "\ufffd" in said(dialogue.send('{"query": "\\ud800"}', "browser.search"))
