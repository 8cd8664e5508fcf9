"""JSON values that know where they stand, so that every error can name the place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ConversationError

__all__ = ["JsonField"]


@dataclass(slots=True)  # not frozen: long histories make many, and that would take longer
class JsonField:
    """A value of a request, and its path; reading it as what it is not raises `ConversationError`.

    >>> [message["role"].text() for message in JsonField({"messages": [{}]})["messages"].items()]
    Traceback (most recent call last):
    openai_harmony.errors.ConversationError: messages[0].role: the field is missing; expected text
    """

    value: Any
    place: str = ""

    def __getitem__(self, key: str) -> JsonField:
        """Return a field of an object; null when it is missing."""
        return JsonField(self.object().get(key), f"{self.place}.{key}" if self.place else key)

    @property
    def is_null(self) -> bool:
        """Whether it is null, or missing."""
        return self.value is None

    def object(self) -> Mapping[str, Any]:
        """Read an object."""
        if isinstance(self.value, (dict, Mapping)):
            return self.value
        raise self.unexpected("an object")

    def items(self) -> Iterator[JsonField]:
        """Read a list."""
        if not isinstance(self.value, list):
            raise self.unexpected("a list")
        for at, item in enumerate(self.value):
            yield JsonField(item, f"{self.place}[{at}]")

    def text(self) -> str:
        """Read a text."""
        if not isinstance(self.value, str):
            raise self.unexpected("text")
        return self.value

    def optional_items(self) -> Iterable[JsonField]:
        """Read a list; null is an empty one."""
        return () if self.is_null else self.items()

    def optional_text(self) -> str | None:
        """Read a text or null."""
        return None if self.is_null else self.text()

    def unexpected(self, expected: str) -> ConversationError:
        """Make the error that says what was expected here."""
        if self.is_null:
            return self.error(f"the field is missing; expected {expected}")
        return self.error(f"expected {expected}, found {_shown(self.value)}")

    def error(self, problem: str) -> ConversationError:
        """Make an error about this field."""
        return ConversationError(problem, field=self.place)


def _shown(value: object) -> str:
    """Show the beginning of a value; one that is nested too deeply has none."""
    try:
        return f"{value!r:.80}"
    except RecursionError:
        return f"a value ({type(value).__name__}) too large to show"
