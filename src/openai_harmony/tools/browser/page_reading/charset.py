"""Character sets: which one bytes are in, and the text they stand for."""

from __future__ import annotations

import codecs
import re

__all__ = ["decode"]

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,1000}?(?:charset|encoding)\s*=\s*["']?\s*([\w:.-]+)""",
    re.IGNORECASE,
)
_HEAD = 4096  # bytes in which a page declares its character set
_SAMPLE = 100_000  # bytes that a guess is made from
_FEW = 20  # bytes
_TOLERATED = 1000  # characters for each one that may be broken

# What browsers take these names for (WHATWG, Encoding); the rest are known to Python by name.
_ALIASES = {
    "ascii": "cp1252",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "shift_jis": "cp932",
    "tis-620": "cp874",
    "utf-16": "utf-16-le",
}
# Names of codecs that a page may ask for; Python has others, which are no character sets, or slow.
_KNOWN = re.compile(
    r"utf-(8|16(-[lb]e)?)|iso8859-\d+|cp(125\d|866|874|932|949)|koi8-[ru]|mac-(roman|cyrillic)"
    r"|gb2312|gbk|gb18030|big5(hkscs)?|euc_(jp|kr)|iso2022_jp|shift_jis|ascii|tis-620"
)
_STATEFUL = ("utf-16-le", "utf-16-be", "iso2022_jp")  # which other bytes can be mistaken for


def decode(body: bytes, declared: str | None = None, *, markup: bool = False) -> str:
    """Decode a body whose header declares a character set, or none; `markup` may declare its own.

    A byte order mark decides; else what is valid UTF-8 is UTF-8; else what was declared holds, if
    it fits; else it is guessed. Nothing is an error: bytes that mean nothing become U+FFFD.

    >>> decode(b"caf\\xe9", "iso-8859-1"), decode("café".encode(), "iso-8859-1")
    ('café', 'café')
    """
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    inner = _META.search(body, 0, _HEAD) if markup else None
    names = [_codec(declared), _codec(inner[1].decode("ascii")) if inner else None]
    if names[0] in _STATEFUL:
        return body.decode(names[0], "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return _fitting(body, [name for name in names if name is not None])


def _fitting(body: bytes, names: list[str]) -> str:
    for name in names:
        text = body.decode(name, "replace")
        if text.count("\ufffd") * _TOLERATED <= len(text):
            return text
    return body.decode(_guess(body), "replace")


def _codec(label: str | None) -> str | None:
    """Return the codec of a label; None where there is no such character set."""
    try:
        name = codecs.lookup((label or "").strip().strip("\"'")).name
    except (LookupError, ValueError):  # ValueError: a null character
        return None
    return _ALIASES.get(name, name) if _KNOWN.fullmatch(name) else None


def _guess(body: bytes) -> str:
    """Guess from the bytes beyond ASCII; a few of them say nothing."""
    from charset_normalizer import from_bytes

    sample = body[:_SAMPLE]
    if len(sample.translate(None, bytes(range(128)))) < _FEW:
        return "cp1252"
    best = from_bytes(sample, cp_exclusion=["utf_16", "utf_32", "utf_7"]).best()
    return (best and _codec(best.encoding)) or "cp1252"
