"""Finding text in a page: the results of `browser.find`, and the line of a passage."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from urllib.parse import quote

from ..tool import ToolError
from .page import Link, Page, PlainText
from .page_reading.characters import clean_line, clean_text

_RESULTS = 50
_LINES = 4  # that each result shows
_PATTERN_LIMIT = 500  # characters
_PASSAGE_WORDS = 30  # that identify a passage


def find_in_page(page: Page, index: int, pattern: str) -> Page:
    """Return the matches of `pattern` as a page of results, each with a link to its line.

    `index` is the index of the page in the session. Case, line ends and marks of links do not
    matter. Raises `ToolError` for a pattern without words.
    """
    words = clean_text(PlainText(pattern).text).split()
    if not words:
        raise ToolError("`pattern` is empty; give the text to look for")
    if len(pattern) > _PATTERN_LIMIT:
        raise ToolError(f"`pattern` is longer than {_PATTERN_LIMIT} characters; look for less")
    shown = clean_line(pattern, _PATTERN_LIMIT)
    lines = list[int]()
    for line in _lines_with(page, words):
        if not lines or line >= lines[-1] + _LINES:  # else the result before shows it
            lines.append(line)
        if len(lines) == _RESULTS:
            break
    results = list[str]()
    for number, line in enumerate(lines):
        last = min(line + _LINES, len(page.lines)) - 1
        snippet = "\n".join(page.plain_lines(line, last))
        results.append(f"# 【{number}†match at L{line}】\n{snippet}")
    return Page(
        url=f"{page.url}/find?pattern={quote(shown)}",
        title=f"Find results for text: `{shown}` in `{page.title}`",
        text="\n\n".join(results) or f"No `find` results for pattern: `{shown}`",
        links=tuple(Link(url=page.url, line=line) for line in lines),
        kind="find",
        found_in=index,
    )


def line_of_passage(page: Page, passage: str) -> int | None:
    """Return the line in which a passage of the page begins; None if it is not found."""
    words = clean_text(passage).split()[:_PASSAGE_WORDS]
    return next(_lines_with(page, words), None) if words else None


def _lines_with(page: Page, words: list[str]) -> Iterator[int]:
    """Yield the line of each occurrence of the words in this order."""
    folded = _FoldedText(page.plain.text)
    pattern = _FoldedText(" ".join(words)).text
    offset = folded.text.find(pattern)
    while offset >= 0:
        yield page.line_at(page.plain.origin(folded.origin(offset)))
        offset = folded.text.find(pattern, offset + len(pattern))


class _FoldedText:
    """A text in lower case with single spaces, and the origin of each of its characters.

    Searching it takes linear time; a regular expression that allows any spaces would not.
    """

    def __init__(self, text: str) -> None:
        lower = text.replace("İ", "I").lower()  # the only character with a longer lower case
        words = [(word.start(), word[0]) for word in re.finditer(r"\S+", lower)]
        self.text = " ".join(word for _, word in words)
        self._origins = [start for start, _ in words]
        self._starts = list(accumulate((len(word) + 1 for _, word in words), initial=0))[:-1]

    def origin(self, offset: int) -> int:
        """Return the offset in the original text of the character at `offset`."""
        word = bisect_right(self._starts, offset) - 1
        return self._origins[word] + offset - self._starts[word]
