"""Citations: the marks of an answer, and what they cite."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt_oss_harmony.tools.browser import (
    BrowserSession,
    CitedText,
    Link,
    Page,
    SearchResult,
    find_citations,
    rewrite_citations,
)
from gpt_oss_harmony.tools.browser.backends import search_page
from gpt_oss_harmony.tools.browser.browser import find_in_page


def a_session() -> BrowserSession:
    """Cursor 0 is a search, 1 a page, 2 a `find` in it, 3 the page again."""
    session = BrowserSession()
    results = [
        SearchResult("https://a.example/one", "One", "the first " * 20),
        SearchResult("https://b.example/two", "Two", "the second"),
    ]
    session.show(search_page("numbers", results))
    page = Page(
        url="https://a.example/one",
        title="One",
        text="\n".join(f"line {at} 【0†linked†c.example】" for at in range(20)),
        links=(Link(url="https://c.example/"),),
    )
    session.show(page)
    session.show(find_in_page(page, 1, "line 7"))
    session.show_again(1)
    return session


ONE, TWO = ("https://a.example/one", "One"), ("https://b.example/two", "Two")
MARKS = [
    ("【1†L3】", ONE, ((3, 3),), "line 3 linked"),
    ("【3†L3-L4】", ONE, ((3, 4),), "line 3 linked\nline 4 linked"),
    ("【1†L3–5】", ONE, ((3, 5),), "line 3 linked\nline 4 linked\nline 5 linked"),
    ("【1†L4-L3】", ONE, ((3, 4),), "line 3 linked\nline 4 linked"),
    ("【1†L3, L19】", ONE, ((3, 3), (19, 19)), "line 3 linked\n…\nline 19 linked"),
    ("【1†L18-L99】", ONE, ((18, 19),), "line 18 linked\nline 19 linked"),
    ("【1†L99】", ONE, (), ""),
    ("【1†source】", ONE, (), ""),
    ("【1】", ONE, (), ""),
    ("【2†L1】", ONE, ((1, 1),), "line 7 linked"),
    ("【0†L4】", ONE, ((4, 4),), None),
    ("【0†L6】", ONE, ((6, 6),), None),
    ("【0†L7】", TWO, ((7, 7),), "  * Two the second"),
]
NO_MARKS = [
    "【0†L0】",
    "【0】",
    "【4†L1】",
    "【999999999999†L1】",
    "【x†L1】",
    "【1†L1",
    "[1†L1]",
    "【†L1】",
]


@pytest.mark.parametrize(("mark", "cited", "lines", "text"), MARKS, ids=[mark[0] for mark in MARKS])
def test_marks_cite(
    mark: str, cited: tuple[str, str], lines: tuple[tuple[int, int], ...], text: str | None
) -> None:
    answer = f"As 😀 said{mark}."
    [citation] = find_citations(answer, a_session())
    assert answer[citation.start_index : citation.end_index] == mark
    assert (citation.url, citation.title) == cited
    assert citation.lines == lines
    if text is not None:
        assert citation.text == text
    exact = {"lines": [[*span] for span in lines], "cited_text": citation.text} if lines else {}
    assert citation.to_annotation() == {
        "type": "url_citation",
        "start_index": 9,
        "end_index": 9 + len(mark),
        "url": cited[0],
        "title": cited[1],
        **exact,
    }


@pytest.mark.parametrize("mark", NO_MARKS)
def test_other_marks_cite_nothing(mark: str) -> None:
    assert find_citations(f"As said {mark}.", a_session()) == []


def test_marks_become_links_or_nothing() -> None:
    answer = "One【1†L3】, two 【0†L7】 and three 【8†L1】."
    assert rewrite_citations("【8】 and 【8†】", a_session()) == ("【8】 and 【8†】", [])
    text, citations = rewrite_citations(answer, a_session())
    assert text == (
        "One([a.example](https://a.example/one)), "
        "two ([b.example](https://b.example/two)) and three."
    )
    shown = [text[citation.start_index : citation.end_index] for citation in citations]
    assert shown == ["([a.example](https://a.example/one))", "([b.example](https://b.example/two))"]
    text, citations = rewrite_citations(answer, a_session(), lambda _: "")
    assert text == "One, two and three."
    assert [(citation.start_index, citation.end_index) for citation in citations] == [
        (3, 3),
        (8, 8),
    ]


SAMPLES = [mark[0] for mark in MARKS] + NO_MARKS
ANSWERS = st.lists(
    st.text("a 😀.†【】L1-0\n", max_size=12) | st.sampled_from(SAMPLES),
    max_size=8,
).map("".join)


@given(ANSWERS)
def test_indices_point_at_the_marks(answer: str) -> None:
    session = a_session()
    citations = find_citations(answer, session)
    for citation in citations:
        mark = answer[citation.start_index : citation.end_index]
        assert int(mark[1:-1].partition("†")[0]) == citation.cursor
        assert mark.endswith("】")
    text, rewritten = rewrite_citations(answer, session, lambda citation: f"<{citation.cursor}>")
    assert [citation.url for citation in rewritten] == [citation.url for citation in citations]
    for citation in rewritten:
        assert text[citation.start_index : citation.end_index] == f"<{citation.cursor}>"


@given(ANSWERS, st.lists(st.integers(1, 5), min_size=1))
def test_an_answer_in_pieces_becomes_the_same(answer: str, sizes: list[int]) -> None:
    session = a_session()
    shown, at = CitedText(session), 0
    pieces: list[str] = []
    for size in itertools.cycle(sizes):
        if at >= len(answer):
            break
        pieces.append(shown.feed(answer[at : at + size]))
        at += size
    pieces.append(shown.rest())
    text, citations = rewrite_citations(answer, session)
    assert "".join(pieces) == text
    assert shown.citations == citations


def test_only_what_may_be_a_mark_is_held_back() -> None:
    shown = CitedText(a_session())
    pieces = ["See ", "【", "1†L3", "-L4】", " and 【x", " 【1†", "L" * 300, "】 ", "【9†L1】", "."]
    link = " ([a.example](https://a.example/one))"
    assert [shown.feed(piece) for piece in pieces] == [
        *("See", "", "", link, " and 【x", "", f" 【1†{'L' * 300}", "】", "", "."),
    ]


def test_links_hold_whatever_address_there_is() -> None:
    session = BrowserSession()
    session.show(Page(url="https://a.example/(b c)\n<d>", title="A", text="One"))
    text, _ = rewrite_citations("【0†L0】", session)
    assert text == "([a.example](https://a.example/%28b%20c%29%0A%3Cd%3E))"


def test_an_annotation_holds_no_whole_page() -> None:
    session = BrowserSession()
    session.show(Page(url="https://a.example/", title="A", text="word " * 2000))
    [citation] = find_citations("【0†L0-L999】", session)
    cited = citation.to_annotation()["cited_text"]
    assert len(citation.text) > 9000
    assert cited == f"{citation.text[:2000]}…"


def test_a_forgotten_page_is_cited_without_its_lines() -> None:
    session = a_session()
    session.show(Page(url="https://d.example/", title="Large", text="x" * 5_000_000))
    [citation] = find_citations("【1†L3】", session)
    assert (citation.url, citation.lines, citation.text) == ("https://a.example/one", (), "")
