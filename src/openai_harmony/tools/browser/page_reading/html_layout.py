"""The layout of a page in plain text: blocks, lists and tables, line by line."""

from __future__ import annotations

from dataclasses import dataclass, field

from .inline_text import InlineText

__all__ = ["Layout"]

_DEEPEST = 8  # lists and quotations that are indented; deeper ones stand below each other


@dataclass
class Layout:
    """Writes blocks; what is between two of them is one blank line, or none within a list.

    >>> layout = Layout()
    >>> layout.begin_block(); layout.inline.add("One"); layout.begin_block()
    >>> layout.inline.add("Two"); layout.text()
    'One\\n\\nTwo'
    """

    inline: InlineText = field(default_factory=InlineText)
    characters: int = 0
    """How much has been written."""

    _lines: list[str] = field(default_factory=list)
    _lists: list[int | None] = field(default_factory=list)  # the next numbers; None for dots
    _quotes: int = 0
    _marker: str = ""
    _gap: bool = False

    def begin_block(self, *, gap: bool = True) -> None:
        """End the block before; with a `gap`, a blank line follows it."""
        self._flush()
        self._gap = self._gap or (gap and not self._marker)

    def begin_heading(self, level: int) -> None:
        """Begin a heading of level 1 to 6."""
        self.begin_block()
        self._marker = "#" * level + " "

    def begin_list(self, first: int | None) -> None:
        """Begin a list whose items count from `first`, or have dots."""
        self.begin_block(gap=not self._lists)
        self._lists.append(first)

    def end_list(self) -> None:
        """End the innermost list."""
        self._flush()
        self._lists.pop()
        self._gap = self._gap or not self._lists

    def begin_item(self) -> None:
        """Begin an item of the innermost list; outside of any it is one with a dot."""
        self._flush()
        number = self._lists[-1] if self._lists else None
        if number is not None:
            self._lists[-1] = number + 1
        depth = min(max(1, len(self._lists)), _DEEPEST)
        self._marker = "  " * depth + ("* " if number is None else f"{number}. ")

    def end_item(self) -> None:
        """End an item; the next one follows without a blank line."""
        self._flush()
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
        """Write lines that are kept to the letter, as a block."""
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
        for at, line in enumerate(text.split("\n")):
            written = (quote + (rest if at else marker) + line.rstrip(" ")).rstrip(" ")
            self._lines.append(written)
            self.characters += len(written) + 1
        self._marker = ""
