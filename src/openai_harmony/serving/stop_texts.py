"""Texts that end an answer, looked for while it is written."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["StopTexts"]


class StopTexts:
    """Holds back the end of a text as long as a stop text may begin there.

    >>> stop = StopTexts(["END"])
    >>> stop.feed("one E"), stop.feed("ND two"), stop.found
    ('one ', '', True)
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._pattern = re.compile("|".join(map(re.escape, texts)))
        self._texts = texts
        self._longest = max(map(len, texts))
        self._held = ""
        self.found = False

    def feed(self, text: str) -> str:
        """Take more text; return what can be passed on, which ends before a stop text."""
        text = self._held + text
        match = self._pattern.search(text)
        if match is not None:
            self.found = True
            self._held = ""
            return text[: match.start()]
        safe = self._safe_length(text)
        self._held = text[safe:]
        return text[:safe]

    def rest(self) -> str:
        """Return what was held back, at the end of the text."""
        held, self._held = self._held, ""
        return held

    def _safe_length(self, text: str) -> int:
        """Find where the first stop text may begin that has not ended yet."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            end = text[start:]
            if any(stop.startswith(end) for stop in self._texts):
                return start
        return len(text)
