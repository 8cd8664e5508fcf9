"""How values that a database would refuse or change are written."""

from __future__ import annotations

import json
import sys
from array import array
from typing import Any

from sqlalchemy import Dialect, LargeBinary, Text
from sqlalchemy.types import TypeDecorator

from ..readable_json import readable_json

__all__ = ["AnyText", "JsonText", "TokenIds"]


class AnyText(TypeDecorator[str]):
    """Any string. PostgreSQL keeps no NUL, and neither database half a surrogate pair.

    What is not printable ASCII is written as Python's escapes, which no two strings share.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape."""
        return None if value is None else value.encode("unicode_escape").decode("ascii")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Undo the escapes."""
        return None if value is None else value.encode("ascii").decode("unicode_escape")


class JsonText(TypeDecorator[Any]):
    """JSON as text: it comes back as it was, key order and ``NaN`` included."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        """Write JSON, readable where the text can be."""
        return readable_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Read JSON."""
        return json.loads(value or "null")


class TokenIds(TypeDecorator[tuple[int, ...]]):
    """Token ids, four bytes each, the lowest first."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: tuple[int, ...] | None, dialect: Dialect) -> bytes | None:
        """Pack."""
        return None if value is None else _little_endian(array("I", value)).tobytes()

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> tuple[int, ...] | None:
        """Unpack."""
        return None if value is None else tuple(_little_endian(array("I", value)))


def _little_endian(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
