"""Characters: what may stand in a page that a model reads."""

from __future__ import annotations

import re

__all__ = ["clean_label", "clean_line", "clean_text"]

_LINE_ENDS = re.compile("\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_UNSEEN = re.compile(
    "(\U0001f3f4[\U000e0020-\U000e007f]+)"  # the flags of England, Scotland and Wales stay
    "|[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f"  # controls
    "\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"  # widthless, directions
    "\ufff9-\ufffb\U000e0000-\U000e007f]+"  # annotations, and tags that spell hidden ASCII
)
_BRACKETS = str.maketrans({"【": "〖", "】": "〗", "\xa0": " ", "\u202f": " "})
_PLAIN = re.compile(r"[ -~\n]*")
_SURROGATES = re.compile("[\ud800-\udfff]")


def clean_text(text: str) -> str:
    r"""Keep what can be seen: brackets of links become others, lines end in ``\n`` alone.

    Joiners stay, for emoji and for scripts that need them.

    >>> clean_text("a\tb【1†c】\r\nd\u200be")
    'a       b〖1†c〗\nde'
    """
    if _PLAIN.fullmatch(text):
        return text
    text = _SURROGATES.sub("\ufffd", _LINE_ENDS.sub("\n", text))
    return _UNSEEN.sub(r"\1", text.translate(_BRACKETS)).expandtabs(8)


def clean_line(text: str, limit: int) -> str:
    """Return clean text as one line of at most `limit` characters.

    >>> clean_line(" two\\n words ", 5)
    'two …'
    """
    line = " ".join(clean_text(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def clean_label(text: str) -> str:
    """Return the text of a link as one line, without the sign that ends it.

    >>> clean_label("note†")
    'note‡'
    """
    return " ".join(clean_text(text).split()).replace("†", "‡")
