"""Citations in an answer: which page and which lines each of its marks means."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from .page import Page
from .page_reading.link_list import domain_of
from .session import BrowserSession

__all__ = ["Citation", "find_citations", "markdown_link", "rewrite_citations"]

_MARK = re.compile(r"【(\d{1,9})(?:†([^【】]{0,200}))?】")
_MOST_CITED = 2000  # characters of a page in an annotation, which is kept with each response
_NOT_IN_ADDRESS = re.compile(r"[()<>\s]")  # what would end it in Markdown
_LINES = re.compile(r"L(\d{1,9})(?:\s*[-–—]\s*L?(\d{1,9}))?")


@dataclass(frozen=True)
class Citation:
    """A mark in an answer, and what it cites."""

    start_index: int
    """Where the mark begins in the text, in characters (code points)."""

    end_index: int
    """Where it ends: `text[start_index:end_index]` is the mark."""

    cursor: int
    url: str
    title: str
    lines: tuple[tuple[int, int], ...]
    """The first and the last line of each range; empty where the mark names none that exist."""

    text: str
    """Those lines, without the marks of links; ranges are apart by a line of ``…``."""

    def to_annotation(self) -> dict[str, Any]:
        """Return the annotation of the Responses API.

        Where lines are cited, it has two more fields: ``lines``, the first and the last of each
        range, and ``cited_text``, the beginning of what they say.
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
    """Return the citations of an answer in order; the text stays as it is.

    A mark whose cursor or page is unknown is none. A cited line of search results cites the page
    that was found, one of `find` results the page that was searched.

    >>> session = BrowserSession()
    >>> session.show(Page(url="https://example.com/", title="Example", text="One\\nTwo"))
    0
    >>> [citation] = find_citations("It is two【0†L1】.", session)
    >>> citation.start_index, citation.url, citation.text
    (9, 'https://example.com/', 'Two')
    """
    found = (_citation(mark, session) for mark in _MARK.finditer(text))
    return [citation for citation in found if citation is not None]


def markdown_link(citation: Citation) -> str:
    """Write a citation as a link in Markdown, in parentheses, named by its domain."""
    address = _NOT_IN_ADDRESS.sub(lambda found: quote(found[0], safe=""), citation.url)
    return f"([{domain_of(citation.url) or citation.title}]({address}))"


def rewrite_citations(
    text: str, session: BrowserSession, write: Callable[[Citation], str] = markdown_link
) -> tuple[str, list[Citation]]:
    """Return the answer with each mark written otherwise, and the citations where they are then.

    Marks that cite nothing are left out, but for numbers alone, ``【1】``, which may be the
    answer's own; so are the spaces before what is written as nothing, for which `write` may be
    ``lambda _: ""``.
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
    lines = () if page.forgotten else _ranges(mark[2] or "", len(page.lines))
    cited = _cited(page, session, lines)
    if cited is None:
        return None
    text = "\n…\n".join("\n".join(page.plain_lines(*span)) for span in lines)
    return Citation(*mark.span(), cursor, *cited, lines, text)


def _ranges(named: str, count: int) -> tuple[tuple[int, int], ...]:
    """Return the ranges of lines that a mark names, as far as there are such lines."""
    spans = ((int(span[1]), int(span[2] or span[1])) for span in _LINES.finditer(named))
    ordered = ((min(span), min(max(span), count - 1)) for span in spans)
    return tuple((first, last) for first, last in ordered if first <= last)


def _cited(
    page: Page, session: BrowserSession, lines: tuple[tuple[int, int], ...]
) -> tuple[str, str] | None:
    """Return the address and the title of what lines of a page cite; None where it is nothing."""
    if page.found_in is not None:
        page = session.pages[page.found_in]
        lines = ()  # which are those of the results
    if page.kind == "document":
        return page.url, page.title
    if not lines:
        return None
    first, last = lines[0]
    numbers = page.links_in(0, first)[-1:] or page.links_in(first, last)[:1]
    if not numbers:
        return None
    link = page.links[numbers[0]]
    return link.url, link.title
