"""The events of an answer as clients read them: a name, if any, and JSON text.

UTF-8 cannot encode half a surrogate pair, but JSON can escape it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, to_json

PLACEHOLDER = "\0"
"""Stands for a text that is filled in later."""

_ESCAPED = json.JSONEncoder(separators=(",", ":"))


def json_text(value: Any) -> str:
    """Write JSON as text that UTF-8 can encode; if one character needs an escape, escape all."""
    try:
        return to_json(value).decode()
    except PydanticSerializationError:  # half a surrogate pair, or more than 255 levels
        return _ESCAPED.encode(value)


_PLACEHOLDER = json_text(PLACEHOLDER)


def json_around(value: Any) -> list[str]:
    """Write JSON and split it at each `PLACEHOLDER`; joined by the JSON of a text, it has the text.

    >>> json_text("é").join(json_around({"index": 0, "text": PLACEHOLDER}))
    '{"index":0,"text":"é"}'
    """
    return json_text(value).split(_PLACEHOLDER)


class Event(NamedTuple):
    """The name of an event, if any, and its data: JSON, or a text that is sent unchanged."""

    name: str | None
    data: str

    def fields(self) -> dict[str, Any]:
        """Return the data as a client reads them."""
        read: dict[str, Any] = json.loads(self.data)
        return read


def event_of(data: Mapping[str, Any], name: str | None = None) -> Event:
    """Make an event of JSON."""
    return Event(name, json_text(data))


def encode_events(events: Iterable[Event]) -> bytes:
    r"""Write events as a stream has them.

    >>> encode_events([event_of({"text": "é"}, "done")])
    b'event: done\ndata: {"text":"\xc3\xa9"}\n\n'
    """
    return "".join(
        [
            f"data: {data}\n\n" if name is None else f"event: {name}\ndata: {data}\n\n"
            for name, data in events
        ]
    ).encode()


class TextEvents:
    """Events that differ only in a text: the rest of their JSON is written once.

    >>> texts = TextEvents({"index": 0, "text": PLACEHOLDER})
    >>> texts.of("é")
    Event(name=None, data='{"index":0,"text":"é"}')
    """

    __slots__ = ("_around", "_name")

    def __init__(self, data: Mapping[str, Any], name: str | None = None) -> None:
        self._name = name
        self._around = json_around(data)

    def of(self, text: str) -> Event:
        """Make the event of a text, which stands in the place of each `PLACEHOLDER`."""
        return Event(self._name, json_text(text).join(self._around))
