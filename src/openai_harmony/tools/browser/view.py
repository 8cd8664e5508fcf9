"""What the model sees of a page: a header, and numbered lines that fit a window."""

from __future__ import annotations

from itertools import islice

from ... import HarmonyEncodingName, load_harmony_encoding
from ..tool_error import ToolError
from .page import Page

__all__ = ["MOST_TOKENS", "WINDOW", "window_end", "write_view"]

WINDOW = 1024
"""Tokens of a window, unless the model asks for a number of lines."""

MOST_TOKENS = 8192
"""Tokens of a window when it does."""

_URL_LIMIT = 1024  # characters


def write_view(page: Page, cursor: int, first: int, count: int = -1) -> str:
    """Show a page from line `first` on: `count` lines, or a window where that is not positive.

    Raises `ToolError` where there is no such line.
    """
    last = len(page.lines) - 1
    if first > last:
        raise ToolError(f"there is no line {first}; the last line of the page is {last}")
    end = window_end(page, first, count)
    place = f" ({page.url[:_URL_LIMIT]})" if page.url else ""
    return (
        f"[{cursor}] {page.title}{place}\n"
        f"**viewing lines [{first} - {end - 1}] of {last}**\n\n{_body(page, first, end)}"
    )


def window_end(page: Page, first: int, count: int = -1) -> int:
    """Return the line after the last one of a window; one line is shown always."""
    encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    limit = MOST_TOKENS if count > 0 else WINDOW
    end, tokens = first, 0
    for line in islice(page.lines, first, first + count if count > 0 else None):
        tokens += len(encoding.encode(f"L{end}: {line}\n", disallowed_special=()))
        if tokens > limit and end > first:
            break
        end += 1
    while end > first + 1 and (
        len(encoding.encode(_body(page, first, end), disallowed_special=())) > limit
    ):
        end -= 1  # joined, lines may take other tokens than each by itself
    return end


def _body(page: Page, first: int, end: int) -> str:
    return "\n".join(f"L{at}: {page.lines[at]}" for at in range(first, end))
