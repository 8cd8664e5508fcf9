"""JSON of requests and responses: any text, and any size.

UTF-8 cannot encode half a surrogate pair, but JSON can escape it. Python's own reader and writer
block all other threads, including the event loop: for seconds, if a request consists of 16 MiB of
brackets. So large JSON is read and written in parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any, Generic, Literal, TypeVar

from starlette.responses import JSONResponse, Response
from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from ...apis.wire_events import json_text
from ...conversation.json_field import finite_number, refuse_constant, strict_json
from .errors import ApiError

_Listed = TypeVar("_Listed", bound=Mapping[str, Any])


class ListPage(TypedDict, Generic[_Listed]):
    """A page of a list; `first_id` and `last_id` are those of `data`, empty if `data` is empty."""

    object: Literal["list"]
    data: list[_Listed]
    first_id: str
    last_id: str
    has_more: bool


def list_json(data: list[_Listed], *, has_more: bool) -> ListPage[_Listed]:
    """Write a page of a list as clients read it.

    >>> list_json([{"id": "a"}, {"id": "b"}], has_more=True)["last_id"]
    'b'
    """
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else "",
        "last_id": data[-1]["id"] if data else "",
        "has_more": has_more,
    }


class JsonResponse(JSONResponse):
    r"""A JSON response that can contain any text.

    >>> JsonResponse({"text": chr(0xD83D)}).body
    b'{"text":"\\ud83d"}'
    """

    def render(self, content: Any) -> bytes:
        """Write JSON; `NaN` raises an error, as in every response of the framework."""
        try:
            return super().render(content)
        except UnicodeEncodeError:
            return json_text(content).encode()


# Large JSON

VALUE_LIMIT = 500_000
"""The most values in the JSON of a request. The garbage collector and pydantic also block all
threads, for longer if there are more values."""

_FEW = 100_000  # commas and brackets: the fast reader takes some 20 ms for them
_PIECE = 1024 * 1024  # bytes or characters that are counted at a time
_SLICE = 10_000  # numbers and texts that are written in one piece


class _CountingDecoder(json.JSONDecoder):
    """Reads arrays and objects in Python, which other threads can interrupt, and counts values."""

    def __init__(self) -> None:
        super().__init__(parse_constant=refuse_constant, parse_float=finite_number)
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

        # Only the scanner in Python calls these; the one in C has its own readers.
        self.parse_array = lambda start, _: read_array(start, scan)
        self.parse_object = lambda start, strict, _, *hooks: read_object(
            start, strict, scan, *hooks
        )
        self.scan_once = reader = py_make_scanner(self)


def read_json(data: bytes | str) -> Any:
    """Read JSON as `strict_json` does; read much JSON slowly, so that other threads can run.

    Raises `ApiError` for more than `VALUE_LIMIT` values, and `JSONDecodeError` also for bytes that
    are not UTF-8.

    >>> read_json(b'{"text": [1, null]}')
    {'text': [1, None]}
    """
    signs: Sequence[Any] = ",[{" if isinstance(data, str) else (b",", b"[", b"{")
    try:
        if _count(data, signs, _FEW) <= _FEW:
            return strict_json(data)
        text = data
        if isinstance(text, bytes):
            # As `json.loads` decodes bytes.
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        return _CountingDecoder().decode(text)
    except UnicodeDecodeError as error:
        problem = f"it is not UTF-8 (byte {error.start}); send UTF-8"
        raise json.JSONDecodeError(problem, "", 0) from None
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # a number that JSON does not have, or of more than 4,300 digits
        is_long = str(error).startswith("Exceeds")
        problem = "a number has too many digits" if is_long else str(error)
        raise json.JSONDecodeError(problem, "", 0) from None


def _count(data: bytes | str, signs: Iterable[Any], most: int) -> int:
    """Count signs, up to more than `most`, piece by piece: in between, other threads can run."""
    count = 0
    for start in range(0, len(data), _PIECE):
        count += sum(data.count(sign, start, start + _PIECE) for sign in signs)
        if count > most:
            break
    return count


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
