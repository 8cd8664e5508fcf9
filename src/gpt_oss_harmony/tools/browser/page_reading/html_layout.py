"""The layout of a page in plain text: inline text, blocks, lists and tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_SPACES = re.compile(r"[ \t\n\r\f]+")


class InlineText:
    """The text of one block; its whitespace collapses as in a browser.

    >>> text = InlineText()
    >>> for piece in ("two ", " words", "  "): text.add(piece)
    >>> text.take()
    'two words'
    """

    def __init__(self) -> None:
        self.characters = 0
        """The number of added characters."""

        self._pieces: list[str] = []
        self._space_pending = False

    def add(self, text: str) -> None:
        """Add text; each run of whitespace in it means one space."""
        words = _SPACES.sub(" ", text)
        if words == " ":
            self._space_pending = True
        elif words:
            self._space_pending = self._space_pending or words[0] == " "
            self.add_verbatim(words.strip(" "))
            self._space_pending = words[-1] == " "

    def add_verbatim(self, text: str) -> None:
        """Add text without changes, after a space if one is pending."""
        if not text:
            return
        if self._space_pending and self._pieces and not self._pieces[-1].endswith("\n"):
            self._pieces.append(" ")
        self._space_pending = False
        self._pieces.append(text)
        self.characters += len(text)

    def end_line(self) -> None:
        """Continue in the next line."""
        self._space_pending = False
        self._pieces.append("\n")
        self.characters += 1

    def take(self) -> str:
        """Return the added text, and begin again."""
        text = "".join(self._pieces)
        self._pieces.clear()
        self.characters = 0
        self._space_pending = False
        return text


_DEEPEST = 8  # nested lists and quotations that are indented; deeper ones are not indented further


@dataclass
class Layout:
    """Writes blocks with a blank line between them, except within a list.

    >>> layout = Layout()
    >>> layout.begin_block(); layout.inline.add("One"); layout.begin_block()
    >>> layout.inline.add("Two"); layout.text()
    'One\\n\\nTwo'
    """

    inline: InlineText = field(default_factory=InlineText)
    characters: int = 0
    """The number of written characters."""

    _lines: list[str] = field(default_factory=list)
    _lists: list[int | None] = field(default_factory=list)  # the next numbers; None for dots
    _quotes: int = 0
    _marker: str = ""
    _gap: bool = False

    def begin_block(self, *, gap: bool = True) -> None:
        """End the block before, and begin a new one after a blank line if there is a `gap`."""
        self._flush()
        # A block at the start of an item stays in the line of its marker.
        self._gap = self._gap or (gap and not self._marker)

    def begin_heading(self, level: int) -> None:
        """Begin a heading of level 1 to 6."""
        self.begin_block()
        self._marker = "#" * level + " "

    def begin_list(self, first: int | None) -> None:
        """Begin a list that counts from `first`, or has dots if that is None."""
        self.begin_block(gap=not self._lists)
        self._lists.append(first)

    def end_list(self) -> None:
        """End the innermost list."""
        self._flush()
        self._lists.pop()
        self._gap = self._gap or not self._lists

    def begin_item(self) -> None:
        """Begin an item of the innermost list; outside of a list, an item has a dot."""
        self._flush()
        number = self._lists[-1] if self._lists else None
        if number is not None:
            self._lists[-1] = number + 1
        depth = min(max(1, len(self._lists)), _DEEPEST)
        self._marker = "  " * depth + ("* " if number is None else f"{number}. ")

    def end_item(self) -> None:
        """End an item; the next one follows without a blank line."""
        self._flush()
        # An empty item has written nothing; its marker must not stand before the next block.
        self._marker = ""
        self._gap = not self._lists

    def begin_quote(self) -> None:
        """Begin a quotation."""
        self.begin_block()
        self._quotes += 1

    def end_quote(self) -> None:
        """End the innermost quotation."""
        self.begin_block()
        self._quotes -= 1

    def write_block(self, text: str) -> None:
        """Write lines without changes, as a block."""
        self.begin_block()
        self._write(text.strip("\n"))
        self._gap = True

    def text(self) -> str:
        """End the last block and return everything."""
        self._flush()
        return "\n".join(self._lines)

    def _flush(self) -> None:
        text = self.inline.take().strip(" \n")
        if text:
            self._write(text)

    def _write(self, text: str) -> None:
        if self._gap and self._lines:
            self._lines.append("")
        self._gap = False
        quote, marker = "> " * min(self._quotes, _DEEPEST), self._marker
        rest = " " * len(marker) if self._lists else ""
        for index, line in enumerate(text.split("\n")):
            written = (quote + (rest if index else marker) + line.rstrip(" ")).rstrip(" ")
            self._lines.append(written)
            self.characters += len(written) + 1
        self._marker = ""
