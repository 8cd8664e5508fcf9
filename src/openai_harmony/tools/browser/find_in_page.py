"""Looking for a text in a page."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from urllib.parse import quote

from ..tool_error import ToolError
from .page import Link, Page
from .page_reading.clean_text import clean_line, clean_text
from .plain_text import PlainText

__all__ = ["find_in_page", "line_of_passage"]

_RESULTS = 50
_LINES = 4  # that each result shows
_PATTERN_LIMIT = 500  # characters
_PASSAGE_WORDS = 30  # by which a passage is known


def find_in_page(page: Page, place: int, pattern: str) -> Page:
    """Return the results of looking for `pattern` as a page; each links to the line it is in.

    `place` is that of the page in the session. Case, ends of lines and the marks of links do not
    matter. Raises `ToolError` for a pattern without words.
    """
    words = clean_text(PlainText(pattern).text).split()
    if not words:
        raise ToolError("`pattern` is empty; give the text to look for")
    if len(pattern) > _PATTERN_LIMIT:
        raise ToolError(f"`pattern` is longer than {_PATTERN_LIMIT} characters; look for less")
    shown = clean_line(pattern, _PATTERN_LIMIT)
    results = [_result(page, number, line) for number, line in enumerate(_matches(page, words))]
    return Page(
        url=f"{page.url}/find?pattern={quote(shown)}",
        title=f"Find results for text: `{shown}` in `{page.title}`",
        text="\n\n".join(text for text, _ in results)
        or f"No `find` results for pattern: `{shown}`",
        links=tuple(link for _, link in results),
        kind="find",
        found_in=place,
    )


def line_of_passage(page: Page, passage: str) -> int | None:
    """Return the line in which a passage of the page begins; None where it is not found."""
    words = clean_text(passage).split()[:_PASSAGE_WORDS]
    return next(_lines_with(page, words), None) if words else None


def _lines_with(page: Page, words: list[str]) -> Iterator[int]:
    """Yield the line of each place where the words follow each other."""
    folded = _Folded(page.plain.text)
    wanted = _Folded(" ".join(words)).text
    place = folded.text.find(wanted)
    while place >= 0:
        yield page.line_at(page.plain.origin(folded.origin(place)))
        place = folded.text.find(wanted, place + len(wanted))


class _Folded:
    """A text in lower case and with single spaces, and where its characters come from.

    Looking for a text in it takes linear time, which an expression for any spaces would not.
    """

    def __init__(self, text: str) -> None:
        lower = text.replace("İ", "I").lower()  # the one character that would become two
        words = [(word.start(), word[0]) for word in re.finditer(r"\S+", lower)]
        self.text = " ".join(word for _, word in words)
        self._origins = [start for start, _ in words]
        self._places = list(accumulate((len(word) + 1 for _, word in words), initial=0))[:-1]

    def origin(self, place: int) -> int:
        """Return the offset in the text of the character at `place`."""
        at = bisect_right(self._places, place) - 1
        return self._origins[at] + place - self._places[at]


def _matches(page: Page, words: list[str]) -> list[int]:
    """Return the lines in which matches begin, without those that an earlier result shows."""
    lines = list[int]()
    for line in _lines_with(page, words):
        if not lines or line >= lines[-1] + _LINES:
            lines.append(line)
            if len(lines) == _RESULTS:
                break
    return lines


def _result(page: Page, number: int, line: int) -> tuple[str, Link]:
    last = min(line + _LINES, len(page.lines)) - 1
    snippet = "\n".join(page.plain_lines(line, last))
    return f"# 【{number}†match at L{line}】\n{snippet}", Link(url=page.url, line=line)
