"""The lines of an answer to the whole one, as a client joins them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LISTS = ("tool_calls", "logprobs")
_TEXTS = ("content", "response", "thinking")


class OllamaFold:
    """Joins the lines of a stream; the last has everything but the text."""

    def __init__(self) -> None:
        self._said: dict[str, list[Any]] = {}
        self._last: dict[str, Any] = {}

    def add(self, line: Mapping[str, Any]) -> None:
        """Add a line."""
        for name, value in {**line, **line.get("message", {})}.items():
            if name in _TEXTS:
                self._said.setdefault(name, []).append(value)
            elif name in _LISTS:
                self._said.setdefault(name, []).extend(value)
        self._last = dict(line)

    def whole(self) -> dict[str, Any]:
        """Return the answer."""
        joined: dict[str, Any] = {
            name: value if name in _LISTS else "".join(value) for name, value in self._said.items()
        }
        logprobs = {"logprobs": joined.pop("logprobs")} if "logprobs" in joined else {}
        if "message" in self._last:
            joined = {"message": {"role": "assistant", **joined}}
        return {**self._last, **joined, **logprobs}
