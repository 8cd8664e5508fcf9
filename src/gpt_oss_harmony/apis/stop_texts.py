"""The search for stop texts, which end an answer, while it is written."""

from __future__ import annotations

from collections.abc import Sequence


class StopTexts:
    """Keeps the end of a text pending while a stop text may begin there.

    The stop text that ends first counts; if several end together, the longest counts. So the result
    does not depend on how the text is split.

    >>> stop = StopTexts(["END"])
    >>> stop.feed("one E"), stop.feed("ND two"), stop.found
    ('one ', '', True)
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._searches = [_Search(text) for text in texts]
        self._pending = ""
        self.text: str | None = None
        """The stop text that was found."""

    @property
    def found(self) -> bool:
        """True once a stop text was found."""
        return self.text is not None

    def feed(self, text: str) -> str:
        """Take more text; return the text that is safe to emit, which ends before a stop text."""
        pending = self._pending + text
        for end, character in enumerate(text, start=len(self._pending) + 1):
            matched = max((search.step(character) for search in self._searches), default=0)
            if matched:
                self.text = pending[end - matched : end]
                self._pending = ""
                return pending[: end - matched]
        safe = len(pending) - max((search.matched for search in self._searches), default=0)
        self._pending = pending[safe:]
        return pending[:safe]

    def rest(self) -> str:
        """Return the pending text at the end of the answer."""
        pending, self._pending = self._pending, ""
        return pending


class _Search:
    """Searches one text, character by character, with the Knuth-Morris-Pratt algorithm."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._shorter = [0, 0]  # after so many matched characters, the next shorter match
        self.matched = 0  # characters of the searched text at the end of the text so far

    def step(self, character: str) -> int:
        """Read a character; return the length of the text where it is found, else 0."""
        self.matched = self._longer(self.matched, character)
        return self.matched if self.matched == len(self._text) else 0

    def _longer(self, matched: int, character: str) -> int:
        """Return how much is matched with one more character."""
        while matched and self._text[matched] != character:
            matched = self._shorter_than(matched)
        return matched + 1 if self._text[matched] == character else 0

    def _shorter_than(self, matched: int) -> int:
        while len(self._shorter) <= matched:
            last = len(self._shorter) - 1
            self._shorter.append(self._longer(self._shorter[last], self._text[last]))
        return self._shorter[matched]
