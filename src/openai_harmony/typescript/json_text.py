"""Any Python value in; out, the JSON value that the reference reads from it, and its JSON text.

The reference sends each schema through ``json.dumps`` and reads it again with ``serde_json``.
This module owns what that trip changes: the types of keys and containers, and numbers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

from ..errors import SchemaError

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None

Schema: TypeAlias = dict[str, JsonValue]
"""A JSON Schema that is an object."""

NESTING_LIMIT = 120
"""How deep containers may nest: the reference reads a message no deeper than this."""

CONTAINER_LIMIT = 1_000_000
"""How many containers there may be. A value of a few objects that hold each other many times
(as YAML's aliases make them) has more as JSON.
"""

_LARGEST_UNSIGNED = 2**64 - 1
_SMALLEST_SIGNED = -(2**63)
_LARGEST_POWER_OF_TEN = 308
_LARGEST_EXPONENT_OF_TWO = 1024
_TOO_LARGE = "a number is too large for a 64-bit float; write it as a string"
_SURROGATE = re.compile("[\ud800-\udfff]")


def json_value(value: object) -> JsonValue:
    """Return a copy of a Python value as the reference's JSON reader sees it.

    >>> json_value({1: (True, None), "big": 2**64})
    {'1': [True, None], 'big': 1.8446744073709552e+19}
    """
    return _Copier().copy(value, NESTING_LIMIT)


def compact_json(value: JsonValue) -> str:
    """Return JSON text without spaces, keys in their order, numbers as serde_json prints them.

    For a value as `json_value` returns it; reading twice would move some floats twice.

    >>> compact_json({"b": [1.0, 1e20], "a": "é"})
    '{"b":[1.0,1e20],"a":"é"}'
    """
    pieces: list[str] = []
    _write(value, pieces)
    return "".join(pieces)


def quoted(text: str) -> str:
    r"""Return one JSON string, which is also one TypeScript string literal.

    U+2028 and U+2029 are escaped as well: in TypeScript comments they end the line.

    >>> quoted('say "hi"')
    '"say \\"hi\\""'
    """
    plain = json.dumps(text, ensure_ascii=False)
    return plain.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


class _Copier:
    """Copies a value as far as there is room."""

    def __init__(self) -> None:
        self._room = CONTAINER_LIMIT

    def copy(self, value: object, levels_left: int) -> JsonValue:
        if type(value) is str and value.isascii():  # most of a schema
            return value
        if value is None or isinstance(value, (bool, int, float, str)):
            return _copy_scalar(value)
        if levels_left == 0:
            raise SchemaError(
                f"JSON is nested deeper than {NESTING_LIMIT} levels; flatten the schema"
            )
        self._room -= 1
        if self._room < 0:
            raise SchemaError(f"JSON holds more than {CONTAINER_LIMIT:,} objects and arrays")
        if isinstance(value, Mapping):
            return self._copy_mapping(value, levels_left)
        if isinstance(value, (list, tuple)):
            listed: Sequence[object] = value
            items: list[JsonValue] = []
            for item in listed:
                items.append(self.copy(item, levels_left - 1))
            return items
        if callable(dump := getattr(value, "model_dump", None)):
            return self.copy(dump(exclude_none=True), levels_left - 1)
        raise SchemaError(f"{type(value).__name__} is not a JSON type; convert it before rendering")

    def _copy_mapping(
        self, mapping: Mapping[object, object], levels_left: int
    ) -> dict[str, JsonValue]:
        copied: dict[str, JsonValue] = {}
        for key, item in mapping.items():
            text = key if type(key) is str and key.isascii() else _key_text(key)
            if type(item) is str and item.isascii():  # as in copy, without a call
                copied[text] = item
            else:
                copied[text] = self.copy(item, levels_left - 1)
        return copied


def _copy_scalar(value: bool | int | float | str | None) -> JsonValue:
    if isinstance(value, str):
        return _checked_text(str.__str__(value))
    if isinstance(value, float):
        return _read_float(float(value))
    if value is None or isinstance(value, bool):
        return value
    return _read_integer(int(value))


def _key_text(key: object) -> str:
    if isinstance(key, str):
        return _checked_text(str.__str__(key))
    if isinstance(key, int) and key.bit_length() > _LARGEST_EXPONENT_OF_TWO:
        raise SchemaError(_TOO_LARGE)
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key)
    raise SchemaError(f"a JSON key must be text, not {type(key).__name__}")


def _checked_text(text: str) -> str:
    """Join surrogates that form a pair, as JSON's escapes do; refuse those that stand alone."""
    if not _SURROGATE.search(text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise SchemaError(f"text holds a lone surrogate: {text[:40]!a}") from None


def _read_integer(number: int) -> int | float:
    """Integers that fit no 64-bit type become floats."""
    if _SMALLEST_SIGNED <= number <= _LARGEST_UNSIGNED:
        return number
    if number.bit_length() > _LARGEST_EXPONENT_OF_TWO:
        raise SchemaError(_TOO_LARGE)
    significand, exponent = abs(number), 0
    # As many leading digits as fit 64 bits are read; the others count as powers of ten.
    while significand > _LARGEST_UNSIGNED:
        significand //= 10
        exponent += 1
    scaled = _scaled(float(significand), exponent)
    return scaled if number > 0 else -scaled


def _read_float(number: float) -> float:
    """Scale by a power of ten, as the reader does, though that may miss the nearest float."""
    if not math.isfinite(number):
        raise SchemaError(f"{number} is not a JSON number")
    mantissa, _, exponent = float.__repr__(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    scaled = _scaled(float(int(whole + fraction)), int(exponent or "0") - len(fraction))
    return math.copysign(scaled, number)


def _scaled(significand: float, exponent: int) -> float:
    if exponent < -_LARGEST_POWER_OF_TEN:
        significand /= 1e308
        exponent += _LARGEST_POWER_OF_TEN
    if exponent < 0:
        return significand / float(f"1e{-exponent}")
    scaled = math.inf
    if exponent <= _LARGEST_POWER_OF_TEN:
        scaled = significand * float(f"1e{exponent}")
    if math.isinf(scaled):
        raise SchemaError(_TOO_LARGE)
    return scaled


def _write(value: JsonValue, pieces: list[str]) -> None:
    if isinstance(value, dict):
        _write_object(value, pieces)
    elif isinstance(value, list):
        separator = "["
        for item in value:
            pieces.append(separator)
            _write(item, pieces)
            separator = ","
        pieces.append("]" if value else "[]")
    elif isinstance(value, float):
        pieces.append(_float_text(value))
    else:
        pieces.append(json.dumps(value, ensure_ascii=False))


def _write_object(value: dict[str, JsonValue], pieces: list[str]) -> None:
    separator = "{"
    for key, item in value.items():
        pieces += (separator, json.dumps(key, ensure_ascii=False), ":")
        _write(item, pieces)
        separator = ","
    pieces.append("}" if value else "{}")


def _float_text(number: float) -> str:
    """Return the shortest digits that read back; plain notation from 1e-5 up to 1e16."""
    if number == 0:
        return "-0.0" if math.copysign(1, number) < 0 else "0.0"
    sign = "-" if number < 0 else ""
    shortest = Decimal(repr(abs(number))).as_tuple()
    point = len(shortest.digits) + int(shortest.exponent)  # the value is 0.DIGITS * 10**point
    digits = "".join(map(str, shortest.digits)).rstrip("0")
    if 0 < point <= 16:
        padded = digits.ljust(point, "0")
        return f"{sign}{padded[:point]}.{padded[point:] or '0'}"
    if -5 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1}"
