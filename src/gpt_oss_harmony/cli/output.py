"""Output: text in the colours of a terminal, and JSON laid out line by line."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from shutil import get_terminal_size
from typing import Any, TypeAlias

from ..conversation.content import TextContent
from ..conversation.messages import Message, Role
from ..tokens.python_encoder import without_surrogates

Style: TypeAlias = str
"""The kind of a text, such as a channel or a role; `_CODES` has the colours."""

_CODES: dict[Style, str] = {
    "marker": "2",  # special tokens and other structure: faint
    "title": "1",
    "system": "35",
    "developer": "34",
    "user": "1",
    "tool": "36",
    "analysis": "33",
    "commentary": "36",
    "final": "32",
    "repair": "31",
}

_CONTROL = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"
}


class Output:
    """Standard output; `color` is the value of ``--color``."""

    def __init__(self, color: str = "auto") -> None:
        self.is_terminal = sys.stdout.isatty()
        """Whether a person is reading."""
        # https://no-color.org: any non-empty value turns colours off.
        has_colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        by_default = self.is_terminal and has_colours
        self.is_coloured = color == "always" or (color == "auto" and by_default)
        """Whether styles are shown."""

    @staticmethod
    def printable(text: str) -> str:
        """Escape control codes: a terminal must not execute those of a model."""
        return text.translate(_CONTROL)

    @classmethod
    def in_a_line(cls, text: str) -> str:
        r"""Escape line breaks and tabs too, such as those of a file's name.

        >>> Output.in_a_line("a\x1b[31m\nb")
        'a\\x1b[31m\\nb'
        """
        return cls.printable(text).replace("\n", r"\n").replace("\t", r"\t")

    def write(self, text: str, style: Style = "") -> None:
        """Write text; on a terminal, control codes are escaped."""
        text = without_surrogates(text)
        if self.is_terminal or self.is_coloured:
            text = self.printable(text)
        code = _CODES.get(style)
        if self.is_coloured and code and text:
            # Some terminals, and all pagers, end a colour at the line end.
            lines = text.split("\n")
            text = "\n".join(f"\x1b[{code}m{line}\x1b[0m" if line else "" for line in lines)
        sys.stdout.write(text)

    def line(self, text: str = "", style: Style = "") -> None:
        """Write text and a line break."""
        self.write(text, style)
        sys.stdout.write("\n")

    def note(self, text: str, style: Style = "") -> None:
        """Write a line, which a terminal breaks between words."""
        self.line(folded(text) if self.is_terminal else text, style)

    def flush(self) -> None:
        """Show what has been written."""
        sys.stdout.flush()


_FIRST_COLUMN = re.compile(r"\S.*?\s{2,}")


def folded(text: str, width: int | None = None) -> str:
    """Break lines between words, by default those of the terminal.

    The rest of a row goes on in its last column.

    >>> print(folded("/save FILE  write the conversation as JSON", 30))
    /save FILE  write the
                conversation as
                JSON
    """
    width = max(width or get_terminal_size().columns, 20)
    lines = []
    for line in text.split("\n"):
        column = _FIRST_COLUMN.match(line)
        indent = " " * (len(column[0]) if column and len(column[0]) < width / 2 else 0)
        wrap = partial(textwrap.wrap, break_on_hyphens=False, subsequent_indent=indent)
        lines += wrap(line, width) or [""]
    return "\n".join(lines)


def write_message(message: Message, output: Output, *, fold: bool = False) -> None:
    """Write the header of a message, and its text below; `fold` breaks lines between words."""
    line = output.note if fold else output.line
    author = message.author
    who = author.role.value if author.name is None else f"{author.role.value} {author.name}"
    words = [who, *filter(None, [message.channel])]
    if message.recipient is not None:
        words.append(f"to {message.recipient}")
    if message.content_type is not None:
        words.append(message.content_type)
    line(f"[{' · '.join(words)}]", "title")
    for item in message.content:
        if isinstance(item, TextContent):
            line(item.text, style_of(message))


def style_of(message: Message) -> Style:
    """Return the style of a message: its channel where the assistant speaks, else its role."""
    role = message.author.role
    return message.channel or "" if role is Role.ASSISTANT else role.value


def json_lines(fields: Mapping[str, Any]) -> str:
    """Write an object as JSON, with a line for each field and for each object in a list.

    >>> print(json_lines({"tokens": [1, 2], "messages": [{"role": "user"}]}))
    {
      "tokens": [1, 2],
      "messages": [
        {"role": "user"}
      ]
    }
    """
    lines = []
    for name, value in fields.items():
        text = _json(value)
        if isinstance(value, Sequence) and value and all(isinstance(item, dict) for item in value):
            text = "[\n" + ",\n".join(f"    {_json(item)}" for item in value) + "\n  ]"
        lines.append(f"  {_json(name)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
