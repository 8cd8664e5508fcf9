"""Python values as the JSON values that the reference reads, and JSON text as it writes it.

The reference passes each schema through ``json.dumps`` and ``serde_json``, which change the types
of keys and containers, and numbers. This module makes the same changes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ..errors import SchemaError

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None

Schema: TypeAlias = dict[str, JsonValue]
"""A JSON Schema that is an object."""

NESTING_LIMIT = 120
"""The deepest nesting of containers that the reference reads: its parser stops at 128 levels, of
which the message around a schema takes some."""

CONTAINER_LIMIT = 1_000_000
"""The largest number of containers. YAML aliases can make a few objects contain each other so often
that their JSON would have more.
"""

_LARGEST_UNSIGNED = 2**64 - 1
_SMALLEST_SIGNED = -(2**63)
_LARGEST_POWER_OF_TEN = 308
_LARGEST_EXPONENT_OF_TWO = 1024
_TOO_LARGE = "a number is too large for a 64-bit float; write it as a string"
_SURROGATE = re.compile("[\ud800-\udfff]")
# Strings are matched whole, so that no exponent is found inside of one.
_STRING_OR_EXPONENT = re.compile(r'"(?:[^"\\]+|\\.)*"|(\d(?:\.\d+)?)e([+-]\d+)')


def json_value(value: object) -> JsonValue:
    """Return a copy of a Python value as the reference's JSON reader sees it.

    >>> json_value({1: (True, None), "big": 2**64})
    {'1': [True, None], 'big': 1.8446744073709552e+19}
    """
    return _Copier().copy(value, NESTING_LIMIT)


def compact_json(value: JsonValue) -> str:
    """Return JSON text without spaces, keys in their order, numbers as serde_json prints them.

    The value must come from `json_value`.

    >>> compact_json({"b": [1.0, 1e20, 1e-5], "a": "1e+20"})
    '{"b":[1.0,1e20,0.00001],"a":"1e+20"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _STRING_OR_EXPONENT.sub(_with_serde_exponent, text)


def _with_serde_exponent(match: re.Match[str]) -> str:
    """Write exponents as serde_json does: no plus sign, no leading zeros, from -6 (Python: -5)."""
    mantissa, exponent = match.groups()
    if mantissa is None:
        return match[0]
    if exponent == "-05":
        return "0.0000" + mantissa.replace(".", "")
    return f"{mantissa}e{int(exponent)}"


def quoted(text: str) -> str:
    r"""Return one JSON string, which is also one TypeScript string literal.

    U+2028 and U+2029 are escaped as well: in TypeScript comments they end the line.

    >>> quoted('say "hi"')
    '"say \\"hi\\""'
    """
    plain = json.dumps(text, ensure_ascii=False)
    return plain.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


class _Copier:
    """Copies values until they exceed the limits."""

    def __init__(self) -> None:
        self._containers_left = CONTAINER_LIMIT

    def copy(self, value: object, levels_left: int) -> JsonValue:
        if type(value) is str and value.isascii():  # most values of a schema
            return value
        if value is None or isinstance(value, (bool, int, float, str)):
            return _copy_scalar(value)
        if levels_left == 0:
            raise SchemaError(
                f"JSON is nested deeper than {NESTING_LIMIT} levels; flatten the schema"
            )
        self._containers_left -= 1
        if self._containers_left < 0:
            raise SchemaError(
                f"JSON contains more than {CONTAINER_LIMIT:,} objects and arrays; "
                "use a smaller schema"
            )
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
        # The text itself, also of a member of an enum, whose `str` may be its name.
        return _checked_text(str.__str__(value))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return _read_number(float(value))
    integer = int(value)
    if _SMALLEST_SIGNED <= integer <= _LARGEST_UNSIGNED:
        return integer
    return _read_number(integer)


def _key_text(key: object) -> str:
    if isinstance(key, str):
        return _checked_text(str.__str__(key))
    if isinstance(key, int) and key.bit_length() > _LARGEST_EXPONENT_OF_TWO:
        raise SchemaError(_TOO_LARGE)
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key)
    raise SchemaError(f"a JSON key must be text, not {type(key).__name__}")


def _checked_text(text: str) -> str:
    """Join surrogate pairs, as JSON's escapes do; raise an error for a lone surrogate."""
    if not _SURROGATE.search(text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise SchemaError(
            f"text contains a lone surrogate, which is no character: {text[:40]!a}"
        ) from None


def _read_number(number: int | float) -> float:
    """Read a number as serde_json does: digits that fit 64 bits, scaled by a power of ten.

    The result is not always the nearest float. Integers beyond 64 bits become floats.
    """
    if isinstance(number, int) and number.bit_length() > _LARGEST_EXPONENT_OF_TWO:
        raise SchemaError(_TOO_LARGE)
    if isinstance(number, float) and not math.isfinite(number):
        raise SchemaError(f"{number} is not a JSON number; use a finite number")
    text = repr(number)
    mantissa, _, exponent = text.lstrip("-").partition("e")
    integer, _, fraction = mantissa.partition(".")
    digits, power = int(integer + fraction), int(exponent or "0") - len(fraction)
    while digits > _LARGEST_UNSIGNED:
        digits //= 10
        power += 1
    scaled = float(digits)
    # As serde_json does it, whose table of powers ends at 1e308.
    if power < -_LARGEST_POWER_OF_TEN:
        scaled /= 1e308
        power += _LARGEST_POWER_OF_TEN
    if power < 0:
        scaled /= float(f"1e{-power}")
    else:
        scaled *= float(f"1e{power}")  # infinite beyond 1e308
    if not math.isfinite(scaled):
        raise SchemaError(_TOO_LARGE)
    return -scaled if text.startswith("-") else scaled
