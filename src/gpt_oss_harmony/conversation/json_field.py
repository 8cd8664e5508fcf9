"""JSON values with their path, so that every error can name the wrong field."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..errors import ConversationError

__all__ = ["JsonField", "missing_field", "shown"]

_CLOSE = 0.8  # "typ" is "type", "test" is not "text"


@dataclass(slots=True)  # not frozen: frozen objects are slower to make, and histories need many
class JsonField:
    """A value of a request and its path; reading it as the wrong type raises `ConversationError`.

    >>> [message["role"].text() for message in JsonField({"messages": [{}]})["messages"].items()]
    Traceback (most recent call last):
    gpt_oss_harmony.errors.ConversationError: messages[0].role: the field is missing; expected text
    """

    value: Any
    path: str = ""
    siblings: Iterable[object] = ()
    """The fields of the object that has this one, among which a misspelt name may be."""

    def __getitem__(self, key: str) -> JsonField:
        """Return a field of an object; a missing one is null."""
        fields = self.object()
        return JsonField(fields.get(key), f"{self.path}.{key}" if self.path else key, fields)

    @property
    def is_null(self) -> bool:
        """Return whether the value is null or missing."""
        return self.value is None

    def object(self) -> Mapping[str, Any]:
        """Return the value, which must be an object."""
        if isinstance(self.value, (dict, Mapping)):
            return self.value
        raise self.unexpected("an object")

    def items(self) -> Iterator[JsonField]:
        """Yield the items of the value, which must be a list."""
        if not isinstance(self.value, list):
            raise self.unexpected("a list")
        for index, item in enumerate(self.value):
            yield JsonField(item, f"{self.path}[{index}]")

    def text(self) -> str:
        """Return the value, which must be text."""
        if not isinstance(self.value, str):
            raise self.unexpected("text")
        return self.value

    def optional_items(self) -> Iterable[JsonField]:
        """Yield the items of the value, which must be a list or null."""
        return () if self.is_null else self.items()

    def optional_text(self) -> str | None:
        """Return the value, which must be text or null."""
        return None if self.is_null else self.text()

    def unexpected(self, expected: str) -> ConversationError:
        """Make the error for a value of the wrong type."""
        if self.is_null:
            missing = missing_field(self.path.rpartition(".")[2], self.siblings)
            return self.error(f"{missing}; expected {expected}")
        return self.error(f"expected {expected}, found {shown(self.value)}")

    def error(self, problem: str) -> ConversationError:
        """Make an error with the path of this field."""
        return ConversationError(problem, field=self.path)


def missing_field(name: str, fields: Iterable[object]) -> str:
    """Say that a field is missing, and which of the object's first 50 fields may be meant.

    >>> missing_field("messages", {"message": []})
    "the field is missing, but there is 'message'"
    """
    first = [field for field in islice(fields, 50) if isinstance(field, str) and field != name]
    near = difflib.get_close_matches(name, first, 1, _CLOSE)
    return "the field is missing" + (f", but there is {near[0]!r}" if near else "")


def shown(value: object, length: int = 80) -> str:
    """Return the beginning of a value's repr for an error message.

    >>> shown([1, 2, 3], length=5)
    '[1, 2'
    """
    try:
        return f"{value!r:.{length}}"
    except (RecursionError, ValueError):  # nested too deeply, or an integer of too many digits
        return f"a value ({type(value).__name__}) too large to show"
