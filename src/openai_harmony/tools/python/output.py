"""The text of a cell's output as a notebook shows it: without colours and overwritten lines, cut.

The model's code wrote the output: it is untrusted, and may be any text.
"""

from __future__ import annotations

import re

__all__ = ["clean_text", "joined_output"]

# Control sequences of ECMA-48: those that end in a letter, those that end in a bell, short ones.
_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?"
)
_CONTROLS = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def clean_text(text: str) -> str:
    r"""Return text without control sequences, with each line as it was after all overwriting.

    >>> clean_text("\x1b[31mred\x1b[0m 10%\r100%\n")
    '100%\n'
    """
    text = _SURROGATES.sub("\ufffd", _ANSI.sub("", text)).replace("\r\n", "\n")
    if "\r" in text or "\b" in text:
        text = "\n".join(map(_final_line, text.split("\n")))
    return _CONTROLS.sub("", text)


def _final_line(line: str) -> str:
    """Return the visible part of a line: after the last return, without erased characters."""
    line = line.rstrip("\r").rpartition("\r")[2]
    if "\b" not in line:
        return line
    shown: list[str] = []
    for character in line:
        if character != "\b":
            shown.append(character)
        elif shown:
            shown.pop()
    return "".join(shown)


def joined_output(first: str, cut: int, last: str, characters: int) -> str:
    """Join the start and the end of an output, with a note of how much is missing between them.

    `cut` characters are already missing; more are cut to leave at most `characters`.

    >>> print(joined_output("0123456789", 0, "", 4))
    01
    [6 characters are left out here]
    89
    """
    if not cut:
        text = clean_text(first + last)
        if len(text) <= characters:
            return text
        first = last = text
        cut = len(text) - 2 * (characters // 2)
    else:
        first, last = clean_text(first), clean_text(last)
        cut += max(0, len(first) - characters // 2) + max(0, len(last) - characters // 2)
    first, last = first[: characters // 2], last[-(characters // 2) :]
    note = f"[{cut:,} characters are left out here]"
    return f"{first.rstrip()}\n{note}\n{last.lstrip()}"
