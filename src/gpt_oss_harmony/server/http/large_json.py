"""Reading and writing large JSON so that other threads can run in between.

Python's own reader and writer block all other threads, including the event loop: for seconds, if a
request consists of 16 MiB of brackets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

from starlette.responses import Response

from ..json_text import json_text
from .errors import ApiError

__all__ = ["json_parts", "large_json_response", "read_json"]

VALUE_LIMIT = 500_000
"""The most values in the JSON of a request. The garbage collector and pydantic also block all
threads, for longer if there are more values."""

_FEW = 100_000  # commas and brackets: the fast reader takes some 20 ms for them
_SLICE = 10_000  # numbers and texts that are written in one piece


class _CountingDecoder(json.JSONDecoder):
    """Reads arrays and objects in Python, which other threads can interrupt, and counts values."""

    def __init__(self) -> None:
        super().__init__()
        read_array, read_object = self.parse_array, self.parse_object  # type: ignore[has-type]
        values = 0
        reader: Any

        def scan(text: str, at: int) -> Any:
            nonlocal values
            values += 1
            if values > VALUE_LIMIT:
                raise ApiError(
                    413,
                    f"the request has more than {VALUE_LIMIT:,} values; send fewer",
                    code="request_too_large",
                )
            return reader(text, at)

        self.parse_array = lambda start, _: read_array(start, scan)
        self.parse_object = lambda start, strict, _, *hooks: read_object(
            start, strict, scan, *hooks
        )
        self.scan_once = reader = py_make_scanner(self)


def read_json(data: bytes) -> Any:
    """Read JSON as `json.loads` does; read much JSON slowly, so that other threads can run.

    Raises `ApiError` for more than `VALUE_LIMIT` values.

    >>> read_json(b'{"text": [1, null]}')
    {'text': [1, None]}
    """
    if data.count(b",") + data.count(b"[") + data.count(b"{") <= _FEW:
        return json.loads(data)
    return _CountingDecoder().decode(data.decode(json.detect_encoding(data), "surrogatepass"))


def large_json_response(content: Any) -> Response:
    """Write a response that may be large, and let other threads run between its parts."""
    parts = [part.encode() for part in json_parts(content)]
    return Response(b"".join(parts), media_type="application/json")


def json_parts(value: Any) -> Iterator[str]:
    """Write JSON as `json_text` does, part by part.

    >>> "".join(json_parts({"a": [1, [2]], "b": "é", "c": {}}))
    '{"a":[1,[2]],"b":"é","c":{}}'
    """
    if isinstance(value, dict):
        for index, (name, item) in enumerate(value.items()):
            yield f"{',' if index else '{'}{json_text(name)}:"
            yield from json_parts(item)
        yield "}" if value else "{}"
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        for index, item in enumerate(value):
            yield "," if index else "["
            yield from json_parts(item)
        yield "]"
    elif isinstance(value, list) and len(value) > _SLICE:
        for start in range(0, len(value), _SLICE):
            yield "," if start else "["
            yield json_text(value[start : start + _SLICE])[1:-1]
        yield "]"
    else:
        yield json_text(value)
