"""The text of a cell's output as a notebook shows it: without colours and overwritten lines, cut.

The model's code wrote the output: it is untrusted, and may be any text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...tokens.python_encoder import without_surrogates

_NAMES, _NAME = 10, 100  # most names in a list, and about the most characters of each

# Control sequences of ECMA-48: those that end in a letter, those that end in a bell, short ones.
_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?"
)
_CONTROLS = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def clean_text(text: str) -> str:
    r"""Return text without control sequences, with each line as it was after all overwriting.

    >>> clean_text("\x1b[31mred\x1b[0m 10%\r100%\n")
    '100%\n'
    """
    text = without_surrogates(_ANSI.sub("", text)).replace("\r\n", "\n")
    if "\r" in text or "\b" in text:
        text = "\n".join(map(_final_line, text.split("\n")))
    return _CONTROLS.sub("", text)


def _final_line(line: str) -> str:
    """Return the visible part of a line: after the last return, without erased characters."""
    # A return at the end has not been written over.
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
    """Join the start and the end of an output; cut its middle to leave at most `characters`.

    `cut` characters are already missing. A note counts all that are left out; it fits into 100
    characters.

    >>> print(joined_output("0" * 50 + "1" * 50, 0, "", 50))
    0000000
    [86 characters are left out here]
    1111111
    """
    if cut:
        first, last = clean_text(first), clean_text(last)
        size = len(first) + cut + len(last)
    else:
        first = last = clean_text(first + last)
        size = len(first)
        if size <= characters:
            return first
    half = max(0, (characters - len(_left_out(size))) // 2)
    first, last = first[:half], last[max(0, len(last) - half) :]
    note = _left_out(size - len(first) - len(last))
    return first.rstrip() + note + last.lstrip()


def _left_out(characters: int) -> str:
    return f"\n[{characters:,} characters are left out here]\n"


def output_with_notes(
    before: Sequence[str], output: tuple[str, int, str], after: Sequence[str], characters: int
) -> str:
    """Write the notes of the tool before and after an output, with at most `characters` in all.

    `output` is what `joined_output` joins. The output gets the room that the notes leave, but at
    least a half.

    >>> print(output_with_notes(["[It was restarted.]"], ("1", 0, ""), [], 100))
    [It was restarted.]
    1
    """
    before, after = [note for note in before if note], [note for note in after if note]
    room = characters - sum(len(note) + 1 for note in (*before, *after))
    shown = joined_output(*output, max(room, characters // 2)).rstrip("\n")
    text = "\n".join((*before, *([shown] if shown else []), *after))
    return joined_output(text, 0, "", characters) or "[no output]"


def listed(names: Sequence[str], more: int = 0) -> str:
    """List the first names, each shortened, and the number of `more` and of the others.

    >>> listed(["a.txt", "b.txt"], more=7)
    'a.txt, b.txt and 7 more'
    """
    shown = [
        name if len(name) <= _NAME else f"{name[: _NAME // 2]}…{name[-(_NAME // 2) :]}"
        for name in names[:_NAMES]
    ]
    more += len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
