"""JSON values as JSON Schema compares them, and whether a grammar can have them written."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

from ...typescript.json_text import JsonValue
from ..errors import GrammarError
from .patterns import unwritable

__all__ = ["canonical", "check_writable", "plain_number"]

LARGEST_NUMBER = 2**53 - 1
"""Up to here a 64-bit float tells all whole numbers apart; the engine counts in those."""

SMALLEST_NUMBER = Fraction(1, 10**9)
"""The number next to 0: below, the engine's patterns nest too deep."""

_DIGITS_LIMIT = 17
_NESTING_LIMIT = 40


def canonical(value: JsonValue) -> str:
    """Return a text that equal values share: 1 and 1.0 are equal, the order of names is none.

    >>> canonical({"b": 1.0, "a": True})
    '{"a": true, "b": 1}'
    """
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: JsonValue) -> JsonValue:
    if isinstance(value, float):
        return int(value) if value == int(value) else value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def plain_number(number: Fraction, pointer: str) -> int | float:
    """Return a number as the engine reads it without losing a digit."""
    if abs(number) > LARGEST_NUMBER:
        raise GrammarError(
            "a number is beyond ±(2**53 - 1), where the engine loses digits",
            remedy="use a smaller one, or text",
            pointer=pointer,
        )
    if number.denominator == 1:
        return int(number)
    written = float(number)
    if abs(number) < SMALLEST_NUMBER or Fraction(repr(written)) != number:
        raise GrammarError(
            "a number is too close to 0 or has too many digits",
            remedy="round it",
            pointer=pointer,
        )
    if len(Decimal(repr(written)).as_tuple().digits) > _DIGITS_LIMIT:
        raise GrammarError("a number has too many digits", remedy="round it", pointer=pointer)
    return written


def check_writable(value: JsonValue, pointer: str, levels_left: int = _NESTING_LIMIT) -> JsonValue:
    """Return a constant as the engine has it written, or raise a `GrammarError`."""
    if levels_left < 0:
        raise GrammarError(
            f"a value is nested deeper than {_NESTING_LIMIT} levels",
            remedy="describe it with properties",
            pointer=pointer,
        )
    if isinstance(value, str):
        missing = unwritable(value)
        if missing:
            raise GrammarError(
                f"a text has U+{ord(missing):04X}, which needs a \\u escape",
                remedy="leave the character out",
                pointer=pointer,
            )
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        exact = Fraction(value) if isinstance(value, int) else Fraction(repr(value))
        return plain_number(exact, pointer)
    elif isinstance(value, list):
        return [check_writable(item, pointer, levels_left - 1) for item in value]
    elif isinstance(value, dict):
        return {
            name: check_writable(item, pointer, levels_left - 1) for name, item in value.items()
        }
    return value
