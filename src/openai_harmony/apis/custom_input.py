"""The text for a custom tool, which the model writes as JSON: ``{"input": "..."}``."""

from __future__ import annotations

import functools
import re

from .requested_tools import CUSTOM_TOOL_FIELD

__all__ = ["CustomToolInput", "custom_tool_input"]

_OPENING = re.compile(rf'\s*\{{\s*"{CUSTOM_TOOL_FIELD}"\s*:\s*"')
_BEGINNING = re.compile(
    functools.reduce(
        lambda rest, piece: f"{piece}({rest})?",
        reversed([r"\s*", r"\{\s*", '"', *CUSTOM_TOOL_FIELD, r'"\s*', r":\s*"]),
    )
)
"""Whatever more text may make an opening of."""
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PLAIN = re.compile(r'[^"\\]*')
_CODE_UNIT = re.compile(r"\\u([0-9a-fA-F]{4})")


def custom_tool_input(body: str) -> str:
    """Read the text of a whole call.

    >>> custom_tool_input('{"input": "two\\\\nlines"}'), custom_tool_input("bare")
    ('two\\nlines', 'bare')
    """
    reader = CustomToolInput()
    return reader.feed(body) + reader.rest()


class CustomToolInput:
    """Reads the text while the JSON is written; what does not begin as this JSON is the text.

    >>> reader = CustomToolInput()
    >>> [reader.feed(piece) for piece in ('{"inp', 'ut": "a', '\\\\', 'nb"}')]
    ['', 'a', '', '\\nb']
    """

    def __init__(self) -> None:
        self._held = ""
        self._read = self._read_opening

    def feed(self, delta: str) -> str:
        """Take more of the body; return what the text grows by."""
        self._held += delta
        return self._read()

    def rest(self) -> str:
        """Return what is left at the end, where the JSON did not come to one."""
        held, self._held = self._held, ""
        if self._read == self._read_opening:
            return held
        return "" if self._read == self._read_nothing else _unpaired(held)

    def _read_opening(self) -> str:
        match = _OPENING.match(self._held)
        if match is not None:
            self._held = self._held[match.end() :]
            self._read = self._read_string
            return self._read()
        if _BEGINNING.fullmatch(self._held):
            return ""
        self._read = self._read_bare
        return self._read()

    def _read_bare(self) -> str:
        text, self._held = self._held, ""
        return text

    def _read_nothing(self) -> str:
        self._held = ""
        return ""

    def _read_string(self) -> str:
        text = self._held
        found: list[str] = []
        at = 0
        while True:
            plain = _PLAIN.match(text, at)
            end = at if plain is None else plain.end()
            found.append(text[at:end])
            at = end
            if at == len(text):
                break
            if text[at] == '"':
                self._read = self._read_nothing
                at = len(text)
                break
            escape = _read_escape(text, at)
            if escape is None:
                break
            found.append(escape[0])
            at = escape[1]
        self._held = text[at:]
        return "".join(found)


def _read_escape(text: str, at: int) -> tuple[str, int] | None:
    """Read an escape; return its text and where it ends, None where more has to come."""
    if len(text) < at + 2:
        return None
    if text[at + 1] != "u":
        return _ESCAPES.get(text[at + 1], text[at + 1]), at + 2
    if len(text) < at + 6:
        return None
    unit = _CODE_UNIT.match(text, at)
    if unit is None:
        return text[at : at + 2], at + 2
    code = int(unit[1], 16)
    if not 0xD800 <= code < 0xE000:
        return chr(code), at + 6
    low = _CODE_UNIT.match(text, at + 6)
    if low is None and code < 0xDC00 and _may_be_unit(text[at + 6 :]):
        return None
    if low is not None and code < 0xDC00 and 0xDC00 <= int(low[1], 16) < 0xE000:
        return chr(0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00), at + 12
    return "\N{REPLACEMENT CHARACTER}", at + 6


def _may_be_unit(text: str) -> bool:
    return len(text) < 6 and re.fullmatch(r"(\\(u[0-9a-fA-F]{0,4})?)?", text) is not None


def _unpaired(held: str) -> str:
    """Show half of a pair as what cannot be shown; half an escape is nothing."""
    return "\N{REPLACEMENT CHARACTER}" if _CODE_UNIT.match(held) else ""
