"""The chunks of a completion to the whole one, as a client joins them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class CompletionsFold:
    """Joins the chunks of a stream; it has no usage if they have none."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self._usage: dict[str, Any] = {}

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Add a chunk."""
        if not self._head:
            self._head = {name: chunk[name] for name in chunk if name not in ("choices", "usage")}
        for addition in chunk["choices"]:
            choice = self._choices.setdefault(addition["index"], {})
            for name, value in addition.items():
                if name in _JOINED and value is not None:
                    choice.setdefault(name, []).append(value)
                else:
                    choice[name] = choice.get(name) if value is None else value
        if chunk.get("usage") is not None:
            self._usage = {"usage": chunk["usage"]}

    def whole(self) -> dict[str, Any]:
        """Return the completion."""
        choices = []
        for _, choice in sorted(self._choices.items()):
            joined = {
                name: _JOINED[name](value) if name in _JOINED and value is not None else value
                for name, value in choice.items()
            }
            choices.append(joined)
        return {**self._head, "choices": choices, **self._usage}


_JOINED: Mapping[str, Any] = {
    "text": "".join,
    "logprobs": lambda parts: {
        name: [entry for part in parts for entry in part[name]] for name in parts[0]
    },
    "token_ids": lambda parts: [token for part in parts for token in part],
}
