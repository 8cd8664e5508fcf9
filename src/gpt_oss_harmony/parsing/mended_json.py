"""Arguments that are nearly JSON: text in, JSON text out where only one meaning is possible.

One reader goes through the text like a reader of JSON, and notes an edit where the text leaves the
format and can mean only one thing (`Mend`). It returns None for anything else: for JSON that needs
no mend, for text that was cut, and for what may mean two things. json_repair reads more, but also
completes cut values and invents missing ones, and its changes have no list.
"""

from __future__ import annotations

import html
import json
import re
from enum import Enum
from operator import itemgetter
from typing import NamedTuple

from ..conversation.json_field import strict_json

LONGEST_TEXT = 1_000_000
"""Characters: longer text is not mended."""

_MOST_LEVELS = 100


class Mend(str, Enum):
    """Slips of models in JSON that have one meaning."""

    BRACKET = "bracket"
    """A closing bracket stands where nothing is open, or closes what another one opened; a bracket
    is missing where the next one shows it, or is one of Python's tuples."""
    CONTROL = "control"
    """A string contains a raw line break, tab or other control character."""
    COMMA = "comma"
    """A comma is missing, another sign, doubled, or before a closing bracket."""
    COLON = "colon"
    """``=``, another sign or nothing stands in place of a colon."""
    COMMENT = "comment"
    """There is a comment."""
    AROUND = "around"
    """Text stands around the JSON: prose, a code fence, an invisible character."""
    QUOTES = "quotes"
    """A string has other quotes, unescaped ones inside, or parts; or a name has none."""
    ESCAPE = "escape"
    """A backslash stands before a character that needs none, or all quotes are escaped."""
    LITERAL = "literal"
    """A word or number is written as in Python or JavaScript, such as ``True`` or ``.5``."""


class MendedJson(NamedTuple):
    """JSON text after its mends, each listed once."""

    text: str
    mends: tuple[Mend, ...]


def mend_json(text: str) -> MendedJson | None:
    r"""Mend text that is nearly JSON; None where it is JSON, was cut, or has no one meaning.

    >>> mend_json('{"a": [1, 2]]}')
    MendedJson(text='{"a": [1, 2]}', mends=(<Mend.BRACKET: 'bracket'>,))
    >>> mend_json("Here: {'a': True,}").text
    '{"a": true}'
    >>> mend_json('{"a": 1}') is mend_json('{"a": 1') is mend_json('{"a": b}') is None
    True
    """
    if len(text) > LONGEST_TEXT or _is_json(text):
        return None
    try:
        for escaped, unescape in _ESCAPED:
            if escaped.match(text):
                unescaped = unescape(text)
                inner = mend_json(unescaped)
                if inner is None:
                    is_sound = _is_json(unescaped)
                    return MendedJson(unescaped, (Mend.ESCAPE,)) if is_sound else None
                return inner._replace(mends=(Mend.ESCAPE, *inner.mends))
        try:
            reader = _Reader(text)
            reader.read_all()
        except _UnclearError:
            reader = _Reader(text, replaces=True)
            reader.read_all()
    except (_UnclearError, ValueError, RecursionError):
        return None
    mended = reader.mended()
    return MendedJson(mended, reader.mends) if _is_json(mended) else None


def _is_json(text: str) -> bool:
    try:
        strict_json(text)
    except (ValueError, RecursionError):
        return False
    return True


class _UnclearError(Exception):
    """The text is cut, or may mean several things."""


def _without_escapes(text: str) -> str:
    raw = _CONTROL.sub(lambda found: json.dumps(found[0])[1:-1], text)
    return str(json.loads(f'"{raw}"'))


_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPED = (
    (re.compile(r'\s*[\[{](?:\s|\\[nrt])*(\\")'), _without_escapes),
    (re.compile(r"\s*[\[{]\s*(&(?:quot|#34);)"), html.unescape),
)
_ENDS = {"{": "}", "[": "]", "(": ")"}
_OPENING = {end: sign for sign, end in _ENDS.items()}
_CLOSING = {**_ENDS, "(": "]"}  # as JSON writes them
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "„": "“", "‘": "’", "«": "»"}
_COLONS = ":=："
_COMMAS = ",;，、"

# Prose with a quote or a closing bracket may itself be a part of the JSON.
_BEFORE = re.compile(r"[^{\[\"}\]]*")
# Counts in these patterns are bounded, so that hostile text is read in linear time.
_NAME = (
    r'(?:"(?:[^"\\\n]|\\.){0,200}"' + r"|'[^'\n]{0,200}'"
    r'|[“‘][^”’\n]{0,200}[”’]|[^\W\d][\w$-]{0,200}"?|\d+)'
)
_ITEM = rf"{_NAME}\s*(?:=>|[{_COLONS}])"
_NO_BRACE = re.compile(r'\s*"(?:[^"\\\n]|\\.)*"\s*:')
_DOUBLED = re.compile(r"\{\s*\{")
_SPACE = re.compile(r"[ \t\n\r]*")
_COMMENT = re.compile(r"//[^\n]*|#[^\n]*|/\*.*?\*/|[\s\ufeff\u200b]+", re.DOTALL)
_PLAIN = re.compile(r"[^\\\x00-\x1f\"'`”“’»]+")
_SOUND_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_JOINT = re.compile(r"\s*\+\s*(?=[\"'])")
_LINE_END = re.compile(r"[ \t]*[\r\n]")
_COLON = re.compile(r"\s*:")
_AFTER_NAME = re.compile(rf"\s*(?:=>|[{_COLONS}])")
_NO_VALUE = r"$|//|/\*|#"
_AFTER_ITEM = (
    rf"\s*(?:{_NO_VALUE}|[{_COMMAS}]\s*(?:[{_COMMAS}}}\]]|{_NO_VALUE}|{_ITEM}))"
    rf"|\s*\n\s*{_ITEM}|\s+(?=[\"'“‘]){_ITEM}"
)
_AFTER_ELEMENT = (
    rf"\s*(?:{_NO_VALUE}|[{_COMMAS}]\s*(?:[,}}\])\"'{{\[(“‘`+.\d-]|{_NO_VALUE}"
    r"|(?i:true|false|null|none)\b)|[\"'{\[])"
    r"|\s+(?:[-.\d]|(?i:true|false|null|none)\b)"
)
_AFTER_VALUE = {
    "{": re.compile(rf"\s*[}}\]]|{_AFTER_ITEM}"),
    "[": re.compile(rf"\s*[}}\]]|{_AFTER_ELEMENT}"),
    "(": re.compile(rf"\s*[}}\])]|{_AFTER_ELEMENT}"),
}
_NEXT_ITEM = re.compile(rf"\s*[{_COMMAS}]\s*{_ITEM}")
_BARE_NAME = re.compile(r"([^\W\d][\w$-]*|\d+)(\"?)(?=\s*(?:=>|[:=：]))")
_LITERAL = re.compile(r"(?:true|false|null|none)\b", re.IGNORECASE)
_ENDED = r"(?=\s*(?:[]})]|[,;，、\"'\s]|//|/\*|#|$))"
_NUMBER = re.compile(rf"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?{_ENDED}", re.ASCII)
_ODD_NUMBER = re.compile(
    rf"[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d[\d_]{{0,99}})?\.?\d{{0,99}}(?:[eE][-+]?\d+)?){_ENDED}",
    re.ASCII,
)
_HALF_QUOTED = re.compile(r"(?:[^\W_]|[./@])(?:[\w ./@+&-]|:(?!\s)){0,200}\"(?=\s*(?:[]},;，]|$))")
_AFTER = re.compile(r"(?!\s*[,，])[^{\[\"}\]]*$")
_STRAY = re.compile(r"[\s}\])]*[}\]][\s}\])]*")
_WORDS = {"true": "true", "false": "false", "null": "null", "none": "null"}


class _Reader:
    """Reads one broken text, and notes the edits that make it sound."""

    def __init__(self, text: str, *, replaces: bool = False) -> None:
        self._text = text
        self._replaces = replaces
        """Whether a bracket that closes nothing stands for the right one; else it is left out."""
        self._at = 0
        self._open: list[str] = []  # the brackets that are open
        self._comma: int | None = None  # the last comma, if no value came after it
        self._edits: list[tuple[int, int, str, Mend]] = []

    @property
    def mends(self) -> tuple[Mend, ...]:
        """The mends in the order of the text, each once."""
        return tuple(dict.fromkeys(mend for *_, mend in sorted(self._edits, key=itemgetter(0, 1))))

    def mended(self) -> str:
        """Return the text with all edits."""
        pieces, done = [], 0
        for start, end, new, _ in sorted(self._edits, key=itemgetter(0, 1)):
            pieces += [self._text[done:start], new]
            done = end
        return "".join([*pieces, self._text[done:]]).strip()

    def _edit(self, kind: Mend, start: int, end: int, new: str = "") -> None:
        self._edits.append((start, end, new, kind))

    def read_all(self) -> None:
        """Read the text from the first bracket to the end. Raises `_UnclearError`."""
        text = self._text
        start = 0
        has_brace = _NO_BRACE.match(text) is None
        if has_brace:
            start = _match(_BEFORE, text, 0).end()
        before = text[:start]
        if has_brace and text[start : start + 1] not in ("{", "["):
            raise _UnclearError
        if before.strip():
            self._edit(Mend.AROUND, 0, start)
        self._at = start
        is_doubled = _DOUBLED.match(text, start) is not None
        if is_doubled:
            self._edit(Mend.BRACKET, start, start + 1)
            self._at = text.index("{", start + 1)
        if has_brace:
            self._begin(text[self._at])
        else:
            self._edit(Mend.BRACKET, 0, 0, "{")
            self._open.append("{")
        self._read_items()
        self._read_rest(before, is_doubled=is_doubled)

    def _read_items(self) -> None:
        """Read values up to the end of the outermost one."""
        has_value = False  # whether the innermost bracket has a value before this place
        while self._open:
            self._skip_space()
            sign = self._text[self._at : self._at + 1]
            if not sign:
                raise _UnclearError  # cut
            if sign in _OPENING:
                self._end(sign)
                has_value = True
                continue
            if sign in _COMMAS:
                self._read_comma(sign, has_value=has_value)
                continue
            if has_value and self._comma is None:
                self._edit(Mend.COMMA, self._at, self._at, ",")
            self._comma = None
            if self._open[-1] == "{":
                self._read_name()
                sign = self._text[self._at : self._at + 1]
            if sign in _CLOSING:
                self._begin(sign)
                has_value = False
            elif sign and sign not in "}])" and sign not in _COMMAS:
                self._read_value(sign)
                has_value = True
            else:
                raise _UnclearError  # a name without a value

    def _skip_space(self) -> None:
        while True:
            self._at = _match(_SPACE, self._text, self._at).end()
            found = _COMMENT.match(self._text, self._at)
            if found is None:
                return
            self._edit(Mend.COMMENT, self._at, found.end(), " ")
            self._at = found.end()

    # Brackets and commas

    def _begin(self, sign: str) -> None:
        if len(self._open) == _MOST_LEVELS:
            raise _UnclearError
        if sign == "(":
            self._edit(Mend.BRACKET, self._at, self._at + 1, "[")
        self._open.append(sign)
        self._at += 1

    def _end(self, sign: str) -> None:
        at, opened = self._at, self._open
        if self._comma is not None:
            self._edit(Mend.COMMA, self._comma, self._comma + 1)
            self._comma = None
        if _OPENING[sign] not in opened:
            if sign == ")":
                raise _UnclearError
            self._edit(Mend.BRACKET, at, at + 1, _CLOSING[opened.pop()] if self._replaces else "")
            self._at += 1
            return
        if len(opened) == 1 and sign == "}" and _NEXT_ITEM.match(self._text, at + 1):
            self._edit(Mend.BRACKET, at, at + 1)  # the object goes on
            self._at += 1
            return
        while _ENDS[opened[-1]] != sign:
            self._edit(Mend.BRACKET, at, at, _CLOSING[opened.pop()])
        if opened.pop() == "(":
            self._edit(Mend.BRACKET, at, at + 1, "]")
        self._at += 1

    def _read_comma(self, sign: str, *, has_value: bool) -> None:
        at = self._at
        if not has_value or self._comma is not None:
            self._edit(Mend.COMMA, at, at + 1)
        else:
            self._comma = at
            if sign != ",":
                self._edit(Mend.COMMA, at, at + 1, ",")
        self._at += 1

    # Names and values

    def _read_name(self) -> None:
        """Read a name, the colon behind it, and the space up to the value."""
        sign = self._text[self._at]
        if sign in _QUOTES:
            self._read_string(sign, _AFTER_NAME, is_name=True)
        else:
            bare = _BARE_NAME.match(self._text, self._at)
            if bare is None:
                raise _UnclearError
            self._edit(Mend.QUOTES, bare.start(), bare.end(), json.dumps(bare[1]))
            self._at = bare.end()
        self._skip_space()
        at = self._at
        found = _AFTER_NAME.match(self._text, at)
        if found is None:
            if self._text[at : at + 1] not in (*_QUOTES, *"{[-0123456789"):
                raise _UnclearError
            self._edit(Mend.COLON, at, at, ":")
        elif self._text[at : found.end()] != ":":
            self._edit(Mend.COLON, at, found.end(), ":")
        self._at = at if found is None else found.end()
        self._skip_space()

    def _read_value(self, sign: str) -> None:
        """Read a string, a word or a number."""
        text, at = self._text, self._at
        if text.startswith(('"""', "'''"), at):
            end = text.find(text[at : at + 3], at + 3)
            if end < 0:
                raise _UnclearError
            self._replace(Mend.QUOTES, text[at : end + 3], json.dumps(text[at + 3 : end]))
        elif sign not in _QUOTES:
            self._read_word()
        else:
            after = _AFTER_VALUE[self._open[-1]]
            self._read_string(sign, after, is_name=False)
            while joint := _JOINT.match(text, self._at):
                # The first part loses its closing quote, the second one its opening quote.
                begun = joint.end()
                if text[begun] != text[self._at - 1] or text[begun] != '"':
                    raise _UnclearError
                self._edit(Mend.QUOTES, self._at - 1, begun + 1)
                self._at = begun
                self._read_string('"', after, is_name=False)

    def _read_word(self) -> None:
        """Read a literal, a number, or words that lack their first quote."""
        text, at = self._text, self._at
        if word := _LITERAL.match(text, at):
            self._replace(Mend.LITERAL, word[0], _WORDS[word[0].lower()])
        elif number := _NUMBER.match(text, at):
            self._at = number.end()
        elif number := _ODD_NUMBER.match(text, at):
            self._replace(Mend.LITERAL, number[0], _plain_number(number[0]))
        elif bare := _HALF_QUOTED.match(text, at):
            self._replace(Mend.QUOTES, bare[0], f'"{bare[0]}')
        else:
            raise _UnclearError

    def _replace(self, kind: Mend, written: str, new: str) -> None:
        if written != new:
            self._edit(kind, self._at, self._at + len(written), new)
        self._at += len(written)

    def _read_string(self, opening: str, after: re.Pattern[str], *, is_name: bool) -> None:
        """Read a string; a quote ends it if something follows that may follow a string."""
        text, closing, begun = self._text, _QUOTES[opening], len(self._edits)
        if opening != '"':
            self._edit(Mend.QUOTES, self._at, self._at + 1, '"')
        self._at += 1
        escapes = ""  # the characters of JSON's own escapes
        while True:
            plain = _PLAIN.match(text, self._at)
            self._at = at = self._at if plain is None else plain.end()
            sign = text[at : at + 1]
            if not sign:
                raise _UnclearError  # cut
            if sign == "\\":
                escapes += self._read_escape(opening)
                continue
            if sign == closing and self._ends_string(after, is_name=is_name):
                break
            if sign == '"':
                if closing == '"' and _LINE_END.match(text, at + 1):
                    raise _UnclearError  # it may end the string
                self._edit(Mend.QUOTES, at, at, "\\")
            elif sign < " ":
                self._edit(Mend.CONTROL, at, at + 1, json.dumps(sign)[1:-1])
            self._at += 1
        made = self._edits[begun:]
        self._check_string([kind for *_, kind in made], opening, escapes)
        if closing != '"':
            self._edit(Mend.QUOTES, self._at, self._at + 1, '"')
        self._at += 1

    def _ends_string(self, after: re.Pattern[str], *, is_name: bool) -> bool:
        """Whether the quote here ends its string."""
        text, end = self._text, self._at + 1
        if is_name and text[self._at] == '"':
            return True
        if after.match(text, end) or (not is_name and _JOINT.match(text, end)):
            return True
        if _COLON.match(text, end):
            raise _UnclearError  # a name behind a string that did not end
        return False

    def _check_string(self, made: list[Mend], opening: str, escapes: str) -> None:
        """Refuse mends of one string that together may mean several things."""
        # Quotes inside a string come in pairs; one without its partner may be the end of the
        # string. In `C:\Users\new`, nobody knows whether `\n` is a line break or begins the name of
        # a folder.
        is_odd = opening == '"' and made.count(Mend.QUOTES) % 2
        if is_odd or ("\\" in escapes and escapes.strip("\\")):
            raise _UnclearError

    def _read_escape(self, opening: str) -> str:
        """Read a backslash and what it escapes; return the letter, or a backslash for itself."""
        text, at = self._text, self._at
        escape = _SOUND_ESCAPE.match(text, at)
        self._at = at + 2 if escape is None else escape.end()
        escaped = text[at + 1 : at + 2]
        if escaped in (opening, "'") and escaped != '"':
            self._edit(Mend.ESCAPE, at, at + 1)
        elif escape is not None:
            return "" if escaped in '"\\/' else escaped
        elif not escaped or escaped in "\nu01234567xavN":
            raise _UnclearError  # Python's escapes mean something else
        else:
            self._edit(Mend.ESCAPE, at, at, "\\")
            return "\\"
        return ""

    # After the value

    def _read_rest(self, before: str, *, is_doubled: bool) -> None:
        """Leave out what follows the value: brackets, the rest of a fence, prose, a repetition."""
        text, at = self._text, self._at
        rest = text[at:]
        if is_doubled and "}" not in rest:
            raise _UnclearError
        if stray := _STRAY.match(rest):
            self._edit(Mend.BRACKET, at, at + stray.end())
            at += stray.end()
            rest = text[at:]
        if not rest.strip():
            return
        # Behind `x = {…}` or `print({…}`, more code may change the value or have others.
        is_repeated = text[len(before) : at].strip() == rest.strip()
        is_code = before.rstrip()[-1:] in ("=", "(") and rest.strip(" \n\t);`")
        if not is_repeated and (is_code or not _AFTER.match(rest)):
            raise _UnclearError
        self._edit(Mend.AROUND, at, len(text))


def _plain_number(written: str) -> str:
    """Write a number of Python's as JSON does. Raises `_UnclearError`."""
    number = written.replace("_", "").lstrip("+")
    sign, digits = ("-", number[1:]) if number.startswith("-") else ("", number)
    if digits[:2] in ("0x", "0X"):
        return f"{sign}{int(digits, 16)}"
    whole, dot, fraction = digits.partition(".")
    number = sign + (whole or "0") + (dot + fraction if fraction else "")
    if not any(map(str.isdigit, digits)) or not _NUMBER.fullmatch(number):
        raise _UnclearError
    return number


def _match(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    found = pattern.match(text, at)
    if found is None:
        raise AssertionError("the pattern matches any text")
    return found
