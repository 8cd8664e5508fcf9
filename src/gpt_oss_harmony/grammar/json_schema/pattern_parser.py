"""Parse the regular expressions of JSON Schema: an ECMA-262 pattern in, a tree of nodes out.

This module decides which patterns have one clear meaning. Look-around, and patterns whose meaning
ECMA-262 leaves to the implementation or defines in two ways, raise an error.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TypeAlias

from ..errors import GrammarError
from .budget import cached, spend

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Sorted ranges of code points, first and last, which do not touch each other."""

LAST = 0x10FFFF


@dataclass(frozen=True)
class Characters:
    """One character of these ranges or general categories; if negated, of neither."""

    ranges: Ranges
    categories: tuple[str, ...] = ()
    negated: bool = False

    def include(self, character: str) -> bool:
        """Return whether the character is one of these."""
        code = ord(character)
        is_listed = any(first <= code <= last for first, last in self.ranges)
        if self.categories and not is_listed:
            is_listed = unicodedata.category(character).startswith(self.categories)
        return is_listed != self.negated

    def exclude(self, other: Characters) -> bool:
        """Return whether it is certain that the two have no character in common."""
        if self.categories or other.categories:
            return False
        return not any(
            first <= last and start <= end
            for first, end in self.ranges
            for start, last in other.ranges
        )


@dataclass(frozen=True)
class Edge:
    """The start or the end of the text."""

    start: bool


@dataclass(frozen=True)
class Sequence:
    """One node after the other; without nodes, the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Alternatives:
    """A choice between nodes; without nodes, it matches nothing."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """A node that occurs several times in a row."""

    part: Node
    least: int
    most: int | None


Node: TypeAlias = Characters | Edge | Sequence | Alternatives | Repeat


def merged(ranges: list[tuple[int, int]]) -> Ranges:
    """Return the same code points as sorted ranges that do not touch."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def complement(ranges: Ranges) -> Ranges:
    """Return all other code points."""
    others: list[tuple[int, int]] = []
    first = 0
    for start, end in ranges:
        if first < start:
            others.append((first, start - 1))
        first = end + 1
    if first <= LAST:
        others.append((first, LAST))
    return tuple(others)


REPEAT_LIMIT = 1_000
"""The largest count in braces."""

_GROUP_DEPTH_LIMIT = 50
_LENGTH_LIMIT = 16_000

CATEGORIES = {
    "Letter": "L",
    "Uppercase_Letter": "Lu",
    "Lowercase_Letter": "Ll",
    "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm",
    "Other_Letter": "Lo",
    "Mark": "M",
    "Combining_Mark": "M",
    "Number": "N",
    "Decimal_Number": "Nd",
    "digit": "Nd",
    "Letter_Number": "Nl",
    "Other_Number": "No",
    "Punctuation": "P",
    "punct": "P",
    "Symbol": "S",
    "Separator": "Z",
    "Space_Separator": "Zs",
}
"""The long names of general categories in ``\\p{...}``; the short names are allowed, too."""


DIGITS: Ranges = ((0x30, 0x39),)
WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
# ECMA-262 has U+FEFF here, but neither U+0085 nor U+001C to U+001F, which Python's `\s` has.
WHITE_SPACE: Ranges = (
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
)
LINE_ENDS: Ranges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))

_SHORTHANDS = {"d": DIGITS, "w": WORD, "s": WHITE_SPACE}
_CONTROLS = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D, "0": 0x00}
_QUANTIFIER = re.compile(r"\{(\d{1,9})(,(\d{0,9}))?\}")
_BROKEN_QUANTIFIER = re.compile(r"\{,?\d*,?\d*\}")
_HEXADECIMAL = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\}")
_LOW_SURROGATE = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_PROPERTY = re.compile(r"\{(?:(?:General_Category|gc)=)?(\w+)\}")
_GROUP_NAME = re.compile(r"\?<[A-Za-z_$][\w$]*>")
_SHORT_CATEGORY = re.compile(r"L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?")


def parse_pattern(pattern: str, pointer: str) -> Node:
    """Return the tree of a pattern; `pointer` is its place, for errors.

    >>> parse_pattern("[^a]", "#/pattern").ranges
    ((0, 96), (98, 1114111))
    """
    if len(pattern) > _LENGTH_LIMIT:
        raise GrammarError(
            f"the pattern has more than {_LENGTH_LIMIT:,} characters",
            remedy="shorten it",
            pointer=pointer,
        )
    return _Reader(pattern, pointer).read()


@cached(maxsize=1024)
def read_pattern(pattern: str) -> Node:
    """Return the tree of a pattern, which is cached."""
    spend(5 * len(pattern))
    return parse_pattern(pattern, "")


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str, pointer: str) -> None:
        self._pattern = pattern
        self._pointer = pointer
        self._index = 0
        self._depth = 0

    def read(self) -> Node:
        node = self._alternatives()
        if self._index < len(self._pattern):
            raise self._error("a closing parenthesis without an opening one", "escape it as \\)")
        return node

    def _error(self, problem: str, remedy: str) -> GrammarError:
        return GrammarError(
            f"{problem} (character {self._index} of the pattern)",
            remedy=remedy,
            pointer=self._pointer,
        )

    def _take(self, text: str) -> bool:
        follows = self._pattern.startswith(text, self._index)
        self._index += len(text) if follows else 0
        return follows

    def _alternatives(self) -> Node:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._index < len(self._pattern) and self._pattern[self._index] not in "|)":
            parts.append(self._quantified(self._atom()))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _quantified(self, node: Node) -> Node:
        counts = self._counts()
        if counts is None:
            return node
        if isinstance(node, Edge):
            raise self._error("an anchor is repeated", "write it once")
        self._take("?")  # lazy: the same texts match
        if self._index < len(self._pattern) and self._pattern[self._index] in "*+?":
            raise self._error("a quantifier follows a quantifier", "put the first in a group")
        return Repeat(node, *counts)

    def _counts(self) -> tuple[int, int | None] | None:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return counts
        braces = _QUANTIFIER.match(self._pattern, self._index)
        if not braces:
            return None
        least = int(braces[1])
        most = None if braces[2] and not braces[3] else int(braces[3] or least)
        if max(least, most or 0) > REPEAT_LIMIT:
            raise self._error(
                f"a count of more than {REPEAT_LIMIT:,}", "use minLength or maxLength"
            )
        if most is not None and least > most:
            raise self._error("the first count is larger than the second", "swap them")
        self._index = braces.end()
        return least, most

    def _atom(self) -> Node:
        if self._take("("):
            return self._group()
        if self._take("^"):
            return Edge(start=True)
        if self._take("$"):
            return Edge(start=False)
        if self._take("["):
            return self._class()
        if self._take("."):
            return Characters(complement(LINE_ENDS))
        if self._take("\\"):
            escaped = self._escape(in_class=False)
            return escaped if isinstance(escaped, Characters) else _character(escaped)
        sign = self._pattern[self._index]
        if sign in "*+?":
            raise self._error(f"nothing to repeat before {sign}", f"escape it as \\{sign}")
        if _BROKEN_QUANTIFIER.match(self._pattern, self._index):
            raise self._error("braces that are not a quantifier", "write {0,n}, or escape them")
        self._index += 1
        return self._literal(sign)

    def _literal(self, sign: str) -> Characters:
        if "\ud800" <= sign <= "\udfff":
            raise self._error("half of a surrogate pair", "write the whole character")
        return _character(ord(sign))

    def _group(self) -> Node:
        self._depth += 1
        if self._depth > _GROUP_DEPTH_LIMIT:
            raise self._error(f"more than {_GROUP_DEPTH_LIMIT} nested groups", "flatten them")
        name = _GROUP_NAME.match(self._pattern, self._index)
        if name:
            self._index = name.end()
        elif not self._take("?:") and self._take("?"):
            sign = self._pattern[self._index : self._index + 1]
            if sign in ("=", "!", "<"):
                raise self._error(
                    "a look-around", "write the pattern without it, or check it afterwards"
                )
            raise self._error(f"a group that starts with (?{sign}", "write (?:...)")
        node = self._alternatives()
        if not self._take(")"):
            raise self._error("a parenthesis is not closed", "close it, or escape it as \\(")
        self._depth -= 1
        return node

    def _escape(self, in_class: bool) -> int | Characters:
        """Read what follows a backslash: a code point, or the characters of a class."""
        sign = self._pattern[self._index : self._index + 1]
        if not sign:
            raise self._error("a backslash ends the pattern", "write \\\\")
        hexadecimal = _HEXADECIMAL.match(self._pattern, self._index)
        if hexadecimal:
            self._index = hexadecimal.end()
            return self._code_point(int(hexadecimal[1] or hexadecimal[2] or hexadecimal[3], 16))
        self._index += 1
        following = self._pattern[self._index : self._index + 1]
        if sign.lower() in _SHORTHANDS:
            ranges = _SHORTHANDS[sign.lower()]
            return Characters(ranges if sign.islower() else complement(ranges))
        if sign in "pP":
            return self._property(negated=sign == "P")
        if sign == "b" and in_class:
            return 0x08
        # Before a digit, `\0` begins an octal escape, which only the older mode of ECMA-262 has.
        if sign in _CONTROLS and not (sign == "0" and following.isdecimal()):
            return _CONTROLS[sign]
        if sign == "c" and following.isascii() and following.isalpha():
            self._index += 1
            # The place of the letter in the alphabet, as in `\cA` for U+0001.
            return ord(following) % 32
        return self._identity(sign)

    def _identity(self, sign: str) -> int:
        if sign in "bB":
            raise self._error("a word boundary", "name the characters beside the word")
        if sign in "123456789k":
            raise self._error("a back reference", "write the alternatives out")
        if sign.isascii() and sign.isalnum():
            raise self._error(f"\\{sign} is not an escape of ECMA-262", "remove the backslash")
        return ord(sign)

    def _code_point(self, code: int) -> int:
        low = _LOW_SURROGATE.match(self._pattern, self._index)
        if 0xD800 <= code <= 0xDBFF and low:
            self._index = low.end()
            return 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00
        if 0xD800 <= code <= 0xDFFF or code > LAST:
            raise self._error("an escape that is not a character", "write the whole character")
        return code

    def _property(self, negated: bool) -> Characters:
        braces = _PROPERTY.match(self._pattern, self._index)
        name = CATEGORIES.get(braces[1], braces[1]) if braces else ""
        if not braces or not _SHORT_CATEGORY.fullmatch(name):
            raise self._error(
                "a \\p that does not name a general category of letters, marks, numbers or signs",
                "list the characters",
            )
        self._index = braces.end()
        return Characters((), (name,), negated)

    def _class(self) -> Characters:
        negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        categories: list[str] = []
        while not self._take("]"):
            item = self._class_item()
            if isinstance(item, Characters):
                if item.negated:
                    raise self._error("\\P in a class", "write \\P{...} beside the class")
                ranges += item.ranges
                categories += item.categories
                continue
            last = self._range_end(item)
            if last < item:
                raise self._error("the first end of a range is larger than the second", "swap them")
            ranges.append((item, last))
        if categories:
            return Characters(merged(ranges), tuple(categories), negated)
        union = merged(ranges)
        return Characters(complement(union) if negated else union)

    def _range_end(self, first: int) -> int:
        """Read ``-z`` if it follows; a hyphen before a bracket or a shorthand is itself."""
        start = self._index
        if not self._take("-") or self._pattern.startswith("]", self._index):
            self._index = start
            return first
        last = self._class_item()
        if isinstance(last, int):
            return last
        self._index = start
        return first

    def _class_item(self) -> int | Characters:
        if self._take("\\"):
            return self._escape(in_class=True)
        if self._index >= len(self._pattern):
            raise self._error("a class is not closed", "close it, or escape it as \\[")
        sign = self._pattern[self._index]
        self._index += 1
        return self._literal(sign).ranges[0][0]


def _character(code: int) -> Characters:
    return Characters(((code, code),))
