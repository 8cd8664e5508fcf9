"""Large JSON, read and written so that other threads can run in between.

Python's own reader and writer keep all other threads waiting while they work, the event loop among
them: for seconds, where a request of 16 MiB is nothing but brackets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

from starlette.responses import Response

from .errors import ApiError
from .json import json_text

__all__ = ["json_parts", "large_json_response", "read_json"]

CONTAINER_LIMIT = 250_000
"""The most arrays and objects in a request. Python's garbage collector, too, keeps all threads
waiting, for longer the more of them there are."""

_FEW = 100_000  # commas and brackets: the fast reader takes some 20 ms for them
_SLICE = 10_000  # numbers and texts that are written in one piece


class _CountingDecoder(json.JSONDecoder):
    """Reads arrays and objects in Python, which other threads can interrupt, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        read_array, read_object = self.parse_array, self.parse_object  # type: ignore[has-type]
        self._containers = 0

        def counted_array(*arguments: Any) -> Any:
            self._count()
            return read_array(*arguments)

        def counted_object(*arguments: Any) -> Any:
            self._count()
            return read_object(*arguments)

        self.parse_array, self.parse_object = counted_array, counted_object
        self.scan_once = py_make_scanner(self)

    def _count(self) -> None:
        self._containers += 1
        if self._containers > CONTAINER_LIMIT:
            raise ApiError(
                413,
                f"the request holds more than {CONTAINER_LIMIT:,} arrays and objects; send less",
                code="request_too_large",
            )


def read_json(data: bytes) -> Any:
    """Read JSON as `json.loads` does; much of it slowly, so that other threads can run.

    Raises `ApiError` for more than `CONTAINER_LIMIT` arrays and objects.

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
