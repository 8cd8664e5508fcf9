"""Citations of an answer: the page and lines of each mark, and links that replace the marks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from .browser import BrowserSession
from .page import Page
from .page_reading.links import domain_of

_MARK = re.compile(r"【(\d{1,9})(?:†([^【】]{0,200}))?】")
_MOST_CITED = 2000  # characters of a page in an annotation, which is stored with each response
_NOT_IN_ADDRESS = re.compile(r"[()<>\s]")  # characters that end an address in Markdown
_BEGINNING = re.compile(r"【(?:\d{1,9}(?:†[^【】]{0,200})?)?")  # of a mark
_LINES = re.compile(r"L(\d{1,9})(?:\s*[-–—]\s*L?(\d{1,9}))?")


@dataclass(frozen=True)
class Citation:
    """A mark in an answer, and the page and lines that it cites."""

    start_index: int
    """Start of the mark in the text, in characters (code points)."""

    end_index: int
    """End of the mark: `text[start_index:end_index]` is the mark."""

    cursor: int
    url: str
    title: str
    lines: tuple[tuple[int, int], ...]
    """First and last line of each range; empty if the mark names no existing line."""

    text: str
    """The text of these lines without marks of links; a line of ``…`` separates ranges."""

    def to_annotation(self) -> dict[str, Any]:
        """Return the annotation of the Responses API.

        If it cites lines, it has two more fields: ``lines``, the first and the last of each range,
        and ``cited_text``, the beginning of their text.
        """
        annotation: dict[str, Any] = {
            "type": "url_citation",
            "start_index": self.start_index,
            "end_index": self.end_index,
            "url": self.url,
            "title": self.title,
        }
        if self.lines:
            cut = len(self.text) > _MOST_CITED
            annotation["lines"] = [list(span) for span in self.lines]
            annotation["cited_text"] = self.text[:_MOST_CITED] + ("…" if cut else "")
        return annotation


def find_citations(text: str, session: BrowserSession) -> list[Citation]:
    """Return the citations of an answer in order, without changing its text.

    A mark with an unknown cursor or page is not a citation. A line of search results cites the page
    of the result; a line of `find` results cites the searched page.

    >>> session = BrowserSession()
    >>> session.show(Page(url="https://example.com/", title="Example", text="One\\nTwo"))
    0
    >>> [citation] = find_citations("It is two【0†L1】.", session)
    >>> citation.start_index, citation.url, citation.text
    (9, 'https://example.com/', 'Two')
    """
    citations = (_citation(mark, session) for mark in _MARK.finditer(text))
    return [citation for citation in citations if citation is not None]


def markdown_link(citation: Citation) -> str:
    """Write a citation as a Markdown link in parentheses, with the domain as its text."""
    address = _NOT_IN_ADDRESS.sub(lambda match: quote(match[0], safe=""), citation.url)
    # The form of the browser of openai/gpt-oss, without the spaces that it adds.
    return f"([{domain_of(citation.url) or citation.title}]({address}))"


def rewrite_citations(
    text: str, session: BrowserSession, write: Callable[[Citation], str] = markdown_link
) -> tuple[str, list[Citation]]:
    """Replace each mark by what `write` returns; return the text and its citations.

    Marks that cite nothing are removed, except bare numbers such as ``【1】``, which may belong to
    the answer itself. If the replacement is empty, the spaces before it are removed too.
    """
    written, citations, done = "", list[Citation](), 0
    for mark in _MARK.finditer(text):
        citation = _citation(mark, session)
        unknown = "" if mark[2] else mark[0]
        shown = unknown if citation is None else write(citation)
        written += text[done : mark.start()]
        done = mark.end()
        if not shown:
            written = written.rstrip(" ")
        if citation is not None:
            start = len(written)
            end = start + len(shown)
            citations.append(replace(citation, start_index=start, end_index=end))
        written += shown
    return written + text[done:], citations


def _citation(mark: re.Match[str], session: BrowserSession) -> Citation | None:
    cursor = int(mark[1])
    if cursor >= len(session.views):
        return None
    page = session.pages[session.views[cursor]]
    lines: tuple[tuple[int, int], ...] = ()
    if not page.forgotten:
        last = len(page.lines) - 1
        spans = ((int(span[1]), int(span[2] or span[1])) for span in _LINES.finditer(mark[2] or ""))
        # A model may write the ends in the other order, or cite beyond the last line.
        ordered = ((min(span), min(max(span), last)) for span in spans)
        lines = tuple(span for span in ordered if span[0] <= span[1])
    cited = _cited(page, session, lines)
    if cited is None:
        return None
    text = "\n…\n".join("\n".join(page.plain_lines(*span)) for span in lines)
    return Citation(*mark.span(), cursor, *cited, lines, text)


def _cited(
    page: Page, session: BrowserSession, lines: tuple[tuple[int, int], ...]
) -> tuple[str, str] | None:
    """Return the address and the title of the page that lines cite; None if they cite none."""
    if page.found_in is not None:
        page = session.pages[page.found_in]
        lines = ()  # these were lines of the results
    if page.kind == "document":
        return page.url, page.title
    if not lines:
        return None
    first, last = lines[0]
    # Each result begins with its link, so a line is of the last link up to it.
    numbers = page.links_in(0, first)[-1:] or page.links_in(first, last)[:1]
    if not numbers:
        return None
    link = page.links[numbers[0]]
    return link.url, link.title


class CitedText:
    """Rewrites a text piece by piece, with the result of `rewrite_citations` for the whole text.

    A possible beginning of a mark is pending until the mark is complete, as are spaces before it.

    >>> session = BrowserSession()
    >>> from gpt_oss_harmony.tools.browser import Page
    >>> session.show(Page(url="https://example.com/", title="Example", text="One"))
    0
    >>> text = CitedText(session)
    >>> [text.feed(piece) for piece in ("One【0†", "L0", "】.")] + [text.rest()]
    ['One', '', '([example.com](https://example.com/)).', '']
    """

    def __init__(self, session: BrowserSession) -> None:
        self._session = session
        self._pending = ""
        self._length = 0
        self.citations: list[Citation] = []
        """The citations so far, with the positions of their links in the rewritten text."""

    def feed(self, text: str) -> str:
        """Add text; return the text that is now rewritten."""
        pending = self._pending + text
        start = pending.rfind("【")
        is_open = start >= 0 and _BEGINNING.fullmatch(pending, start) is not None
        ready = pending[: start if is_open else len(pending)].rstrip(" ")
        self._pending = pending[len(ready) :]
        return self._rewrite(ready)

    def rest(self) -> str:
        """Return the rest of the rewritten text."""
        pending, self._pending = self._pending, ""
        return self._rewrite(pending)

    def _rewrite(self, text: str) -> str:
        written, citations = rewrite_citations(text, self._session)
        self.citations += [
            replace(
                citation,
                start_index=citation.start_index + self._length,
                end_index=citation.end_index + self._length,
            )
            for citation in citations
        ]
        self._length += len(written)
        return written
