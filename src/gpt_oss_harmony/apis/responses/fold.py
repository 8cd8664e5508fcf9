"""The events of a response to the whole one, as a client joins them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ResponseFold:
    """Joins the events of a stream: the last event has the whole response."""

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event."""
        self._response = event.get("response", self._response)

    def whole(self) -> dict[str, Any]:
        """Return the response."""
        return self._response
