"""Pages of the browser: lines, windows, links, what is found in them."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.tools.browser import Page
from gpt_oss_harmony.tools.browser.browser import find_in_page, line_of_passage
from gpt_oss_harmony.tools.browser.page import (
    MOST_TOKENS,
    WIDTH,
    WINDOW,
    PlainText,
    line_spans,
    window_end,
    write_view,
)
from gpt_oss_harmony.tools.browser.page_reading import UnreadableError, read_body
from gpt_oss_harmony.tools.browser.page_reading.body import read_markdown
from gpt_oss_harmony.tools.browser.page_reading.characters import clean_text, decode
from gpt_oss_harmony.tools.browser.page_reading.html_page import read_html
from gpt_oss_harmony.tools.tool import ToolError

ENCODING = load_harmony_encoding("HarmonyGptOss")

# HTML

LAYOUTS = [
    ("<h2>A</h2>b<h3>C</h3>", "## A\n\nb\n\n### C"),
    ("<p>a\n  b<br>c<p>d", "a b\nc\n\nd"),
    ("one<div>two</div>three", "one\n\ntwo\n\nthree"),
    ("a <b> b </b> <i>c</i>", "a b c"),
    ("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>e", "  * a\n  * b\n    * c\n  * d\n\ne"),
    ("<p>x<ul><li><p>a</p><li><p>b</p></ul>", "x\n\n  * a\n  * b"),
    ("<ol start=9><li>a<li>b</ol>", "  9. a\n  10. b"),
    ("<ol start=none><li>a</ol>", "  1. a"),
    ("<li>stray", "  * stray"),
    ("<table><tr><th>a<th>b<tr><td>1<td><p>2</p></table>", "a | b\n1 | 2"),
    ("<table><tr><td><ul><li>1<li>2</ul><td>3</table>", "1 2 | 3"),
    ("<table><tr><td><h1>T</h1><p>one<p>two<td>x</table>", "# T\n\none\n\ntwo\n\nx"),
    ("<p>t<pre>\n a\n  b </pre>", "t\n\n a\n  b"),
    ("<blockquote><p>a<p>b</blockquote>c", "> a\n\n> b\n\nc"),
    ("m<sup>2</sup> H<sub>2</sub>O", "m^{2} H_{2}O"),
    ("a<hr>b", "a\n\n* * *\n\nb"),
    ("<img alt='a cat'> <img src=x>", "[Image: a cat]"),
    ("<math alttext='x^2'><mi>x</mi></math>", "x^2"),
    ("<dl><dt>k<dd>v</dl>", "k\n\nv"),
    ("a<script>b</script><style>c</style><template>d</template>e", "ae"),
    ("a<p hidden>b<p style='DISPLAY : none'>c<p>d", "a\n\nd"),
    ("<p>a&nbsp;b&lt;c&#x1F600;", "a b<c😀"),
    ("<a href=x>one<p>two</p></a>", "【0†one two】"),
    ("see<a href=x> it </a>now", "see 【0†it】 now"),
    ("<a href=x><img alt=logo></a><a href=x></a>", "【0†logo】"),
    ("<a href='#top'>a</a> <a href='javascript:b()'>b</a> <a href='mailto:c@d'>c</a>", "a b c"),
    ("<a href='doc://local/x'>a</a> <a href='http://[x'>b</a> <a href='//o.example'>c</a>",
     "a b 【0†c†o.example】"),
    ("<base href='https://b.example/'><a href=x>a</a>", "【0†a†b.example】"),
    ("<a href=x>a†b</a><a href=x>c</a><a href=y>d</a>", "【0†a‡b】【0†c】【1†d】"),
    ("<a href=x>" + "w " * 300 + "</a>", ("w " * 300).strip()),
    ("<a name=x>anchor</a>", "anchor"),
    ("<svg><a href=x>a</a></svg><body>b", "b"),
    ("", ""),
]  # fmt: skip


@pytest.mark.parametrize(("html", "text"), LAYOUTS, ids=[html[:40] for html, _ in LAYOUTS])
def test_html_becomes_text(html: str, text: str) -> None:
    assert read_html(html, "https://a.example/", 10_000)[1] == text


def test_the_text_of_a_page_ends_soon_after_the_limit() -> None:
    _, text, _, cut = read_html("<p>word word" * 1000, "https://a.example/", 100)
    assert cut
    assert 100 < len(text) < 200


def test_deep_nesting_is_no_recursion() -> None:
    html = "<ul><li>" * 2000 + "<blockquote>" * 2000 + "end"
    assert read_html(html, "https://a.example/", 10**6)[1].endswith("end")


@given(st.text("<>/ab ='\"pultdr【】†&;!-\n\t0", max_size=200))
def test_any_html_is_read_and_only_its_links_have_brackets(html: str) -> None:
    _, text, links, _ = read_html(html, "https://a.example/", 10_000)
    without = re.sub(r"【\d+†[^【】†]*(†[^【】†]*)?】", "", text)
    assert "【" not in without
    assert "】" not in without
    assert all(int(number) < len(links) for number in re.findall(r"【(\d+)†", text))


MARKDOWN = [
    ("[a](b) ![i](c) [d](https://o.example/ \"t\")", "【0†a】 ![i](c) 【1†d†o.example】"),
    ("[a](#here) [b]() [c][d]", "a [b]() [c][d]"),
    ("【0†x】", "〖0†x〗"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "text"), MARKDOWN)
def test_links_of_markdown_are_numbered(source: str, text: str) -> None:
    assert read_markdown(source, "https://a.example/", 1000).text == text


# Characters

CHARACTERS = [
    ("a\r\nb\rc\u2028d\x0ce", "a\nb\nc\nd\ne"),
    ("a\x00b\x1b[1mc\x7f\x85", "ab[1mc\n"),
    ("a\u200bb\ufeffc\u202ed\xade", "abcde"),
    ("a\u200db \u200cc", "a\u200db \u200cc"),
    ("hi\U000e0041\U000e0042", "hi"),
    ("\ud800x", "\ufffdx"),
    ("a\tb", "a       b"),
    ("a\xa0b", "a b"),
]


@pytest.mark.parametrize(("text", "clean"), CHARACTERS)
def test_only_what_can_be_seen_stays(text: str, clean: str) -> None:
    assert clean_text(text) == clean


CHARSETS = [
    (b"caf\xe9", "iso-8859-1", "café"),
    (b"caf\xe9", None, "café"),
    (b"caf\xe9", "utf-8", "café"),
    ("café".encode(), "us-ascii", "café"),
    (b"\x93quoted\x94", "latin1", "“quoted”"),
    (b"\xef\xbb\xbfx", "utf-16", "x"),
    ("x".encode("utf-16-be"), "utf-16be", "x"),
    ("日本".encode("iso2022_jp"), "iso-2022-jp", "日本"),
    ("日本".encode("euc_jp"), "EUC-JP", "日本"),
    ("中文".encode("gbk"), "gb2312", "中文"),
    (b"a+AGE-", "utf-7", "a+AGE-"),
    (b"nul", "\0", "nul"),
    (b"", "utf-8", ""),
]


@pytest.mark.parametrize(("body", "declared", "text"), CHARSETS)
def test_character_sets(body: bytes, declared: str | None, text: str) -> None:
    assert decode(body, declared) == text


def test_one_broken_byte_does_not_change_the_character_set() -> None:
    body = ("прекрасно " * 500).encode() + b"\xff"
    assert decode(body, "utf-8") == "прекрасно " * 500 + "\ufffd"


@given(st.binary(max_size=300), st.sampled_from(["", "text/html", "text/plain", "text/markdown"]))
def test_any_body_is_read_or_refused(body: bytes, kind: str) -> None:
    with suppress(UnreadableError):
        read_body(body, content_type=kind, address="https://a.example/", limit=1000)


# Lines

TEXTS = st.text(st.sampled_from("abc -–\n日😀e\u0301"), max_size=600) | st.text(max_size=300)
PAGES = TEXTS.map(lambda text: Page(url="https://a.example/", title="T", text=clean_text(text)))


@given(PAGES)
def test_lines_are_the_text(page: Page) -> None:
    """Put together again, with the ends of lines that the text has, they are the text."""
    spans = line_spans(page.text)
    together = page.lines[0]
    for (_, end), (start, _), line in zip(spans, spans[1:], page.lines[1:], strict=False):
        together += page.text[end:start] + line
        assert page.text[end:start] in ("", "\n")
    assert together == page.text
    assert all(len(line) <= WIDTH for line in page.lines)


@given(PAGES, st.data())
def test_each_character_is_in_its_line(page: Page, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(page.text)))
    line = page.line_at(offset)
    start, end = line_spans(page.text)[line]
    assert start <= offset <= end


BREAKS = [
    ("a" * 81, ["a" * 80, "a"]),
    ("a" * 79 + " b", ["a" * 79 + " ", "b"]),
    ("a" * 80 + " b", ["a" * 80, " b"]),
    ("a" * 70 + " well-known words", ["a" * 70 + " well-", "known words"]),
    ("a" * 70 + " 2025-01-01", ["a" * 70 + " ", "2025-01-01"]),
    ("", [""]),
    ("a\n\nb", ["a", "", "b"]),
]


@pytest.mark.parametrize(("text", "lines"), BREAKS)
def test_lines_break_between_words(text: str, lines: list[str]) -> None:
    assert Page(url="", title="", text=text).lines == lines


# Windows

LINE = re.compile(r"L(\d+): (.*)", re.DOTALL)
HEADER = re.compile(
    r"\[(\d+)\] T \(https://a\.example/\)\n\*\*viewing lines \[(\d+) - (\d+)\] of (\d+)\*\*\n\n"
)


def shown(view: str) -> tuple[list[int], list[str]]:
    """Return the numbers of a view's header, and its lines without their numbers."""
    header = HEADER.match(view)
    assert header is not None
    numbers = [int(number) for number in header.groups()]
    lines = [LINE.fullmatch(line) for line in view[header.end() :].split("\n")]
    assert [int(line[1]) for line in lines if line] == list(range(numbers[1], numbers[2] + 1))
    return numbers, [line[2] for line in lines if line]


@given(TEXTS.map(lambda text: text * 20), st.integers(0, 99))
def test_windows_one_after_the_other_are_the_page(text: str, cursor: int) -> None:
    page = Page(url="https://a.example/", title="T", text=clean_text(text))
    at, lines = 0, list[str]()
    while at < len(page.lines):
        numbers, window = shown(write_view(page, cursor, at))
        assert (numbers[0], numbers[1], numbers[3]) == (cursor, at, len(page.lines) - 1)
        lines += window
        at = numbers[2] + 1
    assert lines == page.lines


@pytest.mark.parametrize("line", ["word " * 15, "日本語" * 20, "😀" * 80, "", "a b c d e f g " * 5])
def test_a_window_is_as_long_as_its_tokens_allow(line: str) -> None:
    page = Page(url="", title="", text="\n".join([line] * 3000))
    for first in (0, 1234):
        end = window_end(page, first)
        for last, fits in ((end, True), (end + 1, False)):
            body = "\n".join(f"L{at}: {page.lines[at]}" for at in range(first, last))
            assert (len(ENCODING.encode(body)) <= WINDOW) == fits or abs(
                len(ENCODING.encode(body)) - WINDOW
            ) < 80


def test_a_number_of_lines_is_shown_as_far_as_it_is_reasonable() -> None:
    page = Page(url="", title="", text="\n".join(["words in a line"] * 9000))
    assert window_end(page, 10, 3) == 13
    assert window_end(page, 10, 500) == 510
    assert window_end(page, 8990, 500) == 9000
    end = window_end(page, 0, 9000)
    body = "\n".join(f"L{at}: words in a line" for at in range(end))
    assert WINDOW < len(ENCODING.encode(body)) <= MOST_TOKENS


def test_a_line_that_is_not_there_is_refused() -> None:
    with pytest.raises(ToolError, match="no line 2; the last line of the page is 1"):
        write_view(Page(url="", title="", text="a\nb"), 0, 2)


# Links, and text without their marks

LINKED = st.lists(
    st.text("ab \n", max_size=120)
    | st.builds(
        "【{}†{}{}】".format,
        st.integers(0, 99),
        st.text("xy ", max_size=99),
        st.sampled_from(["", "†d.e"]),
    ),
    max_size=12,
).map("".join)  # fmt: skip


@given(LINKED)
def test_plain_text_knows_where_it_came_from(text: str) -> None:
    plain = PlainText(text)
    assert plain.text == re.sub(r"【\d+†([^【】†]*)[^【】]*】", r"\1", text)
    for place, character in enumerate(plain.text):
        assert text[plain.origin(place)] == character
        assert plain.between(0, plain.origin(place)) == plain.text[:place]


@given(LINKED)
def test_plain_lines_are_the_plain_text(text: str) -> None:
    page = Page(url="", title="", text=text)
    spans = line_spans(text)
    for first in range(len(spans)):
        for last in range(first, min(first + 4, len(spans))):
            wanted = plain_of(text, spans[first][0], spans[last][1])
            assert "".join(page.plain_lines(first, last)) == wanted.replace("\n", "")


def plain_of(text: str, start: int, end: int) -> str:
    """Return what is plain in a part of a text that may begin or end within a mark."""
    kept = [True] * len(text)
    for mark in re.finditer(r"【\d+†([^【】†]*)(†[^【】]*)?】", text):
        kept[mark.start() : mark.end()] = [
            mark.start(1) <= at < mark.end(1) for at in range(*mark.span())
        ]
    return "".join(text[at] for at in range(start, end) if kept[at])


# Find

MANUAL = Page(
    url="https://a.example/manual",
    title="Manual",
    text="intro\n" * 10
    + "The quick brown 【0†fox†b.example】 jumps over\nthe lazy dog.\n"
    + "filler\n" * 20
    + "A FOX again. " + "z" * 75 + " straddling",
)  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("fox", [10, 32]),
        ("FOX jumps", [10]),
        ("brown 【0†fox†b.example】", [10]),
        ("over the   lazy", [10]),
        ("a.b", []),
        ("intro intro", [0, 4, 8]),
        ("z straddling", [33]),
    ],
)
def test_find_shows_the_lines_where_matches_begin(pattern: str, lines: list[int]) -> None:
    found = find_in_page(MANUAL, 3, pattern)
    assert [link.line for link in found.links] == lines
    assert found.found_in == 3
    assert [f"# 【{at}†match at L{line}】" in found.text for at, line in enumerate(lines)] == [
        True
    ] * len(lines)
    if not lines:
        assert found.text == f"No `find` results for pattern: `{pattern}`"


@given(st.lists(st.sampled_from(["a", "B", "ab", "İ", "ß", " ", "  ", "\n", "\n\n"])).map("".join))
def test_find_finds_what_is_there(text: str) -> None:
    page = Page(url="", title="", text=text)
    expected = [found.start() for found in re.finditer(r"ab\s+a", text, re.IGNORECASE)]
    found = find_in_page(page, 0, "ab a")
    assert bool(found.links) == bool(expected)
    if expected:
        assert found.links[0].line == page.line_at(expected[0])


def test_find_takes_linear_time() -> None:
    page = Page(url="", title="", text="a " * 500_000)
    assert not find_in_page(page, 0, "a " * 249 + "b").links


def test_results_of_find_are_lines_without_marks() -> None:
    found = find_in_page(MANUAL, 0, "brown")
    assert found.title == "Find results for text: `brown` in `Manual`"
    assert found.url == "https://a.example/manual/find?pattern=brown"
    assert found.text == (
        "# 【0†match at L10】\nThe quick brown fox jumps over\nthe lazy dog.\nfiller\nfiller"
    )


@pytest.mark.parametrize("pattern", ["", "  \n", "\u200b", "x" * 501])
def test_patterns_without_words_and_endless_ones_are_refused(pattern: str) -> None:
    with pytest.raises(ToolError, match="`pattern` is"):
        find_in_page(MANUAL, 0, pattern)


def test_results_of_find_are_fifty_at_most() -> None:
    page = Page(url="", title="", text="word\n" * 1000)
    assert len(find_in_page(page, 0, "word").links) == 50


def test_a_passage_is_found_where_it_begins() -> None:
    assert line_of_passage(MANUAL, "fox jumps\n over the lazy") == 10
    assert line_of_passage(MANUAL, "nowhere") is None
    assert line_of_passage(MANUAL, " ") is None
