"""Responses and lists in JSON, which can contain any text.

UTF-8 cannot encode half a surrogate pair, but JSON can escape it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Literal, TypeVar

from starlette.responses import JSONResponse
from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from ..json_text import json_text

__all__ = ["JsonResponse", "ListPage", "json_bytes", "list_json"]


def json_bytes(value: Any) -> bytes:
    r"""Write JSON in UTF-8; if one character needs an escape, escape all that are not ASCII.

    >>> json_bytes({"text": "é"}), json_bytes([chr(0xD83D)])
    (b'{"text":"\xc3\xa9"}', b'["\\ud83d"]')
    """
    return json_text(value).encode()


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
            return json_bytes(content)
