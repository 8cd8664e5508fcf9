"""Texts that end an answer, looked for while it is written."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["StopTexts"]


class StopTexts:
    """Holds back the end of a text as long as a stop text may begin there.

    The stop text that ends first counts, of several that end together the longest, so that it
    does not matter how the text is cut.

    >>> stop = StopTexts(["END"])
    >>> stop.feed("one E"), stop.feed("ND two"), stop.found
    ('one ', '', True)
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._searches = [_Search(text) for text in texts]
        self._held = ""
        self.found = False

    def feed(self, text: str) -> str:
        """Take more text; return what can be passed on, which ends before a stop text."""
        known = self._held + text
        for at, character in enumerate(text, start=len(self._held) + 1):
            ended = max((search.step(character) for search in self._searches), default=0)
            if ended:
                self.found = True
                self._held = ""
                return known[: at - ended]
        safe = len(known) - max((search.matched for search in self._searches), default=0)
        self._held = known[safe:]
        return known[:safe]

    def rest(self) -> str:
        """Return what was held back, at the end of the text."""
        held, self._held = self._held, ""
        return held


class _Search:
    """Looks for one text, character by character, by the method of Knuth, Morris and Pratt."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._shorter = [0, 0]  # after so many matched characters, the next shorter match
        self.matched = 0  # characters of the text that stand at the end of what was read

    def step(self, character: str) -> int:
        """Read a character; return the length of the text where it is found, else 0."""
        self.matched = self._longer(self.matched, character)
        if self.matched < len(self._text):
            return 0
        return self.matched

    def _longer(self, matched: int, character: str) -> int:
        """Return how much is matched with one more character."""
        while matched and self._text[matched] != character:
            matched = self._shorter_than(matched)
        return matched + 1 if self._text[matched] == character else 0

    def _shorter_than(self, matched: int) -> int:
        while len(self._shorter) <= matched:
            at = len(self._shorter) - 1
            self._shorter.append(self._longer(self._shorter[at], self._text[at]))
        return self._shorter[matched]
