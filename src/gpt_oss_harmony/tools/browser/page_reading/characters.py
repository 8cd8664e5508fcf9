"""Characters: decoding bytes to text, and removing characters that a page must not contain."""

from __future__ import annotations

import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,1000}?(?:charset|encoding)\s*=\s*["']?\s*([\w:.-]+)""",
    re.IGNORECASE,
)
_HEAD = 4096  # bytes in which a page may declare its character set
_SAMPLE = 100_000  # bytes that a guess is based on
_FEW = 20  # bytes beyond ASCII, which are too few to guess from
_TOLERATED = 1000  # one invalid character is tolerated among as many

# Browsers read these names as other codecs (WHATWG, Encoding); Python reads the others by name.
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
# Codecs that a page may declare. Python has others, which are slow or not character sets.
_ALLOWED_CODECS = re.compile(
    r"utf-(8|16(-[lb]e)?)|iso8859-\d+|cp(125\d|866|874|932|949)|koi8-[ru]|mac-(roman|cyrillic)"
    r"|gb2312|gbk|gb18030|big5(hkscs)?|euc_(jp|kr)|iso2022_jp|shift_jis|ascii|tis-620"
)
_STATEFUL = ("utf-16-le", "utf-16-be", "iso2022_jp")  # their bytes can also be valid UTF-8

_LINE_ENDS = re.compile("\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_UNSEEN = re.compile(
    "(\U0001f3f4[\U000e0020-\U000e007f]+)"  # the flags of England, Scotland and Wales stay
    "|[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f"  # controls
    "\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"  # widthless, directions
    "\ufff9-\ufffb\U000e0000-\U000e007f]+"  # annotations, and tags that spell hidden ASCII
)
# The stand-ins of the brackets are those of the browser of openai/gpt-oss.
_BRACKETS = str.maketrans({"【": "〖", "】": "〗", "\xa0": " ", "\u202f": " "})
_PLAIN = re.compile(r"[ -~\n]*")
_SURROGATES = re.compile("[\ud800-\udfff]")  # here, as this process has no other module of ours


def decode(body: bytes, declared: str | None = None, *, markup: bool = False) -> str:
    """Decode a body whose header declares a character set, or none; `markup` may declare its own.

    A byte order mark decides. Otherwise valid UTF-8 is UTF-8; otherwise a declared character set
    holds if it fits; otherwise it is guessed. Invalid bytes become U+FFFD.

    >>> decode(b"caf\\xe9", "iso-8859-1"), decode("café".encode(), "iso-8859-1")
    ('café', 'café')
    """
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    in_markup = _META.search(body, 0, _HEAD) if markup else None
    declarations = [_codec(declared), _codec(in_markup[1].decode("ascii")) if in_markup else None]
    if declarations[0] in _STATEFUL:
        return body.decode(declarations[0], "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        for codec in filter(None, declarations):
            text = body.decode(codec, "replace")
            if text.count("\ufffd") * _TOLERATED <= len(text):
                return text
        return body.decode(_guessed_codec(body), "replace")


def _codec(label: str | None) -> str | None:
    """Return the codec of a label; None if it names no allowed character set."""
    try:
        name = codecs.lookup((label or "").strip().strip("\"'")).name
    except (LookupError, ValueError):  # ValueError: a null character
        return None
    return _ALIASES.get(name, name) if _ALLOWED_CODECS.fullmatch(name) else None


def _guessed_codec(body: bytes) -> str:
    from charset_normalizer import from_bytes

    sample = body[:_SAMPLE]
    if len(sample.translate(None, bytes(range(128)))) < _FEW:
        return "cp1252"
    best = from_bytes(sample, cp_exclusion=["utf_16", "utf_32", "utf_7"]).best()
    return (best and _codec(best.encoding)) or "cp1252"


def clean_text(text: str) -> str:
    r"""Remove invisible characters, replace brackets of links, and end lines with ``\n`` alone.

    Joiners stay, because emoji and some scripts need them.

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
    """Return the text of a link as one line, without the sign that would end it.

    >>> clean_label("note†")
    'note‡'
    """
    return " ".join(clean_text(text).split()).replace("†", "‡")
