"""Running text: the whitespace between words, as a browser would collapse it."""

from __future__ import annotations

import re

__all__ = ["InlineText"]

_SPACES = re.compile(r"[ \t\n\r\f]+")


class InlineText:
    """Text of one block; a space that is owed is written before the next word.

    >>> text = InlineText()
    >>> for piece in ("two ", " words", "  "): text.add(piece)
    >>> text.take()
    'two words'
    """

    def __init__(self) -> None:
        self.characters = 0
        """How much was added."""

        self._pieces: list[str] = []
        self._owed = False

    def add(self, text: str) -> None:
        """Add text whose whitespace means one space."""
        words = _SPACES.sub(" ", text)
        if words == " ":
            self._owed = True
        elif words:
            self._owed = self._owed or words[0] == " "
            self.add_as_is(words.strip(" "))
            self._owed = words[-1] == " "

    def add_as_is(self, text: str) -> None:
        """Add text that is kept to the letter, after a space if one is owed."""
        if not text:
            return
        if self._owed and self._pieces and not self._pieces[-1].endswith("\n"):
            self._pieces.append(" ")
        self._owed = False
        self._pieces.append(text)
        self.characters += len(text)

    def end_line(self) -> None:
        """Go on in the next line."""
        self._owed = False
        self._pieces.append("\n")
        self.characters += 1

    def take(self) -> str:
        """Return what was added, and begin anew."""
        text = "".join(self._pieces)
        self._pieces.clear()
        self.characters = 0
        self._owed = False
        return text
