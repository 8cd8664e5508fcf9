"""A page's text without the marks of its links, and where each of its characters came from."""

from __future__ import annotations

import re
from bisect import bisect_right

__all__ = ["PlainText"]

_MARK = re.compile(r"【(\d+)†([^【】†]*)(?:†[^【】]*)?】")


class PlainText:
    """What remains of a text when each link is only its words.

    >>> plain = PlainText("See 【0†the manual†example.com】.")
    >>> plain.text, plain.origin(4)
    ('See the manual.', 7)
    """

    def __init__(self, text: str) -> None:
        self._kept = list[int]()  # where each piece that is kept begins in the text
        self._places = list[int]()  # and in the plain text
        self._links = list[tuple[int, int]]()  # where each mark begins, and its number
        pieces, length, done = list[str](), 0, 0
        for mark in _MARK.finditer(text):
            self._links.append((mark.start(), int(mark[1])))
            for start, end in ((done, mark.start()), mark.span(2)):
                length += self._keep(start, end, length)
                pieces.append(text[start:end])
            done = mark.end()
        self._keep(done, len(text), length)
        self.text = "".join((*pieces, text[done:]))

    def _keep(self, start: int, end: int, place: int) -> int:
        if end > start:
            self._kept.append(start)
            self._places.append(place)
        return end - start

    def origin(self, place: int) -> int:
        """Return the offset in the text of the character at `place` of the plain text."""
        at = bisect_right(self._places, place) - 1
        return self._kept[at] + place - self._places[at]

    def between(self, start: int, end: int) -> str:
        """Return what is plain between two offsets of the text."""
        return self.text[self._place(start) : self._place(end)]

    def links_between(self, start: int, end: int) -> list[int]:
        """Return the numbers of the links whose marks begin between two offsets of the text."""
        return [number for offset, number in self._links if start <= offset < end]

    def _place(self, offset: int) -> int:
        """Return the place of the first plain character at `offset` of the text or after."""
        at = bisect_right(self._kept, offset) - 1
        if at < 0:
            return 0
        most = self._places[at + 1] if at + 1 < len(self._places) else len(self.text)
        return min(self._places[at] + offset - self._kept[at], most)
