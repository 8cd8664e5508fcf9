"""The bodies of calls in the form for clients, while the model writes them.

===========================  ====================================================================
arguments                    clients read them as JSON, so a whole call without any gets ``{}``
the input of a custom tool   the text in the JSON that the model writes: ``{"input": "..."}``
code for the tool `python`   without the JSON or the fence that models put around it; the writer
                             of Responses, which alone shows it, removes them
===========================  ====================================================================

Each class takes pieces of text with `feed`, which returns the text that is safe to emit, and ends
with `rest`.
"""

from __future__ import annotations

import functools
import re
from typing import Protocol

from ..conversation.built_in_tools import call_item, read_code
from .items import ItemBegun, ItemKind
from .requested_tools import CUSTOM_TOOL_FIELD


class BodyText(Protocol):
    """Converts the body of an item to the text for clients."""

    def feed(self, text: str) -> str:
        """Take text; return the text that is safe to emit."""

    def rest(self, *, is_complete: bool = True) -> str:
        """Return the rest of the text, at the end of the body or where it was cut."""


def body_text(item: ItemBegun) -> BodyText | None:
    """Return what converts the body of an item; None for a text that clients get as it is."""
    if item.kind is ItemKind.CUSTOM_TOOL_CALL:
        return CustomToolInput(is_text=item.is_text)
    if item.kind is ItemKind.SERVER_CALL and call_item(item.recipient or "").text != "arguments":
        return None
    return CallArguments() if item.kind.is_call else None


class CallArguments:
    """The arguments of a call; white space alone is none.

    >>> arguments = CallArguments()
    >>> arguments.feed(" "), arguments.feed("{}"), arguments.rest()
    ('', ' {}', '')
    >>> CallArguments().rest(), CallArguments().rest(is_complete=False)
    ('{}', '')
    """

    def __init__(self) -> None:
        self._blank: str | None = ""  # the text so far, while it is only white space

    def feed(self, text: str) -> str:
        """Take text; return the text that is safe to emit."""
        if self._blank is None:
            return text
        text = self._blank + text
        self._blank = None if text.strip() else text
        return text if self._blank is None else ""

    def rest(self, *, is_complete: bool = True) -> str:
        """Return ``{}`` for a whole call without arguments; what was cut stays as it is."""
        return "{}" if is_complete and self._blank is not None else self._blank or ""


class ShownCode:
    """The code for clients while the model writes it; a wrapper is removed at the end.

    >>> code = ShownCode()
    >>> [code.feed("1 +"), code.feed(" 1"), code.rest()]
    ['1 +', ' 1', '']
    >>> code = ShownCode()
    >>> [code.feed('{"code": "1'), code.feed(' + 1"}'), code.rest()]
    ['', '', '1 + 1']
    """

    def __init__(self) -> None:
        self._pending = ""
        self._is_plain = False

    def feed(self, text: str) -> str:
        """Take text; return the code that is safe to emit."""
        if self._is_plain:
            return text
        self._pending += text
        beginning = self._pending.lstrip()
        if not beginning or beginning[0] in "{`":
            return ""
        self._is_plain = True
        return self._pending

    def rest(self, *, is_complete: bool = True) -> str:
        """Return the rest of the code."""
        return "" if self._is_plain else read_code(self._pending)


# The input of a custom tool

_OPENING = re.compile(rf'\s*\{{\s*"{CUSTOM_TOOL_FIELD}"\s*:\s*"')
_BEGINNING = re.compile(
    functools.reduce(
        lambda rest, piece: f"{piece}({rest})?",
        reversed([r"\s*", r"\{\s*", '"', *CUSTOM_TOOL_FIELD, r'"\s*', r":\s*"]),
    )
)
"""Matches text that may still become an `_OPENING`."""
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PLAIN = re.compile(r'[^"\\]*')
_CODE_UNIT = re.compile(r"\\u([0-9a-fA-F]{4})")
_INCOMPLETE_UNIT = re.compile(r"(\\(u[0-9a-fA-F]{0,3})?)?")


def custom_tool_input(body: str) -> str:
    """Return the input in the body of a whole call.

    >>> custom_tool_input('{"input": "two\\\\nlines"}'), custom_tool_input("bare")
    ('two\\nlines', 'bare')
    """
    reader = CustomToolInput()
    return reader.feed(body) + reader.rest()


class CustomToolInput:
    """Reads the input while the model writes the JSON.

    A body in another form is itself the input. With `is_text`, every body is.

    >>> reader = CustomToolInput()
    >>> [reader.feed(piece) for piece in ('{"inp', 'ut": "a', '\\\\', 'nb"}')]
    ['', 'a', '', '\\nb']
    """

    def __init__(self, *, is_text: bool = False) -> None:
        self._pending = ""
        self._read = self._read_bare if is_text else self._read_opening

    def feed(self, delta: str) -> str:
        """Take more of the body; return the input that it adds."""
        self._pending += delta
        return self._read()

    def rest(self, *, is_complete: bool = True) -> str:
        """Return the rest of the input at the end of the body, if the JSON is incomplete."""
        pending, self._pending = self._pending, ""
        if self._read == self._read_opening:
            return pending
        # A surrogate without its pair is replaced, and an incomplete escape dropped.
        return "\N{REPLACEMENT CHARACTER}" if _CODE_UNIT.match(pending) else ""

    def _read_opening(self) -> str:
        match = _OPENING.match(self._pending)
        if match is not None:
            self._pending = self._pending[match.end() :]
            self._read = self._read_string
            return self._read()
        if _BEGINNING.fullmatch(self._pending):
            return ""
        self._read = self._read_bare
        return self._read()

    def _read_bare(self) -> str:
        text, self._pending = self._pending, ""
        return text

    def _read_nothing(self) -> str:
        self._pending = ""
        return ""

    def _read_string(self) -> str:
        text = self._pending
        texts: list[str] = []
        index = 0
        while True:
            plain = _PLAIN.match(text, index)
            end = index if plain is None else plain.end()
            texts.append(text[index:end])
            index = end
            if index == len(text):
                break
            if text[index] == '"':
                self._read = self._read_nothing
                index = len(text)
                break
            escape = _read_escape(text, index)
            if escape is None:
                break
            texts.append(escape[0])
            index = escape[1]
        self._pending = text[index:]
        return "".join(texts)


def _read_escape(text: str, start: int) -> tuple[str, int] | None:
    """Read an escape; return its text and its end, or None if it is incomplete."""
    if len(text) < start + 2:
        return None
    if text[start + 1] != "u":
        return _ESCAPES.get(text[start + 1], text[start + 1]), start + 2
    end = start + 6
    if len(text) < end:
        return None
    unit = _CODE_UNIT.match(text, start)
    if unit is None:
        return text[start : start + 2], start + 2
    code = int(unit[1], 16)
    if not 0xD800 <= code < 0xE000:
        return chr(code), end
    if code < 0xDC00:
        low = _CODE_UNIT.match(text, end)
        if low is None and _INCOMPLETE_UNIT.fullmatch(text, end):
            return None
        if low is not None and 0xDC00 <= int(low[1], 16) < 0xE000:
            return chr(0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00), end + 6
    return "\N{REPLACEMENT CHARACTER}", end
