"""JSON values with their path, so that every error can name the wrong field."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..errors import ConversationError, closest


def refuse_constant(name: str) -> Any:
    """Raise `ValueError` for NaN and Infinity, as the `parse_constant` of `json.loads`."""
    raise ValueError(f"{name} is not JSON")


def finite_number(digits: str) -> float:
    """Read a number, as the `parse_float` of `json.loads`; raise `ValueError` for a huge one."""
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits:.20} is too large")
    return number


def strict_json(text: str | bytes, **hooks: Any) -> Any:
    """Read JSON as `json.loads` does, without what JSON has no words for: NaN and infinite numbers.

    What was read can be written as JSON again. `hooks` are those of `json.loads`.

    >>> strict_json("[1e400]")
    Traceback (most recent call last):
    ValueError: the number 1e400 is too large
    """
    return json.loads(text, parse_constant=refuse_constant, parse_float=finite_number, **hooks)


# `ReadObject` has a `get` of its own, which notes the reading.
_field_of = dict.get

_INDEX = re.compile(r"\[\d+\]")
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
    siblings: Collection[object] | None = None
    """The fields of the object that has this one, among which a misspelt name may be."""

    def __getitem__(self, key: str) -> JsonField:
        """Return a field of an object; a missing one is null."""
        fields = self.value
        if not isinstance(fields, dict):  # asked first, because a row reads some 200 fields
            fields = self.object()
        path = self.path
        return JsonField(fields.get(key), f"{path}.{key}" if path else key, fields)

    def peek(self, key: str) -> JsonField:
        """Return a field of an object without noting that it was read; see `ReadObject`."""
        fields = self.object()
        if isinstance(fields, ReadObject) and not isinstance(fields, RequestObject):
            value = _field_of(fields, key)
        else:
            value = fields.get(key)
        return JsonField(value, f"{self.path}.{key}" if self.path else key, fields)

    def unnoted(self, key: str) -> Any:
        """Return the value of a field without noting a reading, also of a request's.

        What is only looked at in this way is reported as ignored.
        """
        fields = self.object()
        return _field_of(fields, key) if isinstance(fields, dict) else fields.get(key)

    def accept(self, key: str, *values: Any) -> None:
        """Note a field of a request as read with all inside, if it has one of the values."""
        fields = self.object()
        if isinstance(fields, RequestObject) and (not values or self.unnoted(key) in values):
            fields.noted.add(key)

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

    def optional_object(self) -> JsonField:
        """Return an object as it is, and null as an empty one."""
        return JsonField({} if self.is_null else self.object(), self.path)

    def optional_items(self) -> Iterable[JsonField]:
        """Yield the items of the value, which must be a list or null."""
        return () if self.is_null else self.items()

    def optional_text(self) -> str | None:
        """Return the value, which must be text or null."""
        return None if self.is_null else self.text()

    def flag(self) -> bool:
        """Return the value, which must be true, false or null, as which it is false."""
        if not (self.is_null or isinstance(self.value, bool)):
            raise self.unexpected("true or false")
        return self.value is True

    def unexpected(self, expected: str) -> ConversationError:
        """Make the error for a value of the wrong type."""
        if self.is_null and not self.path.endswith("]"):
            name = self.path.rpartition(".")[2]
            # A model has a field of None where it was not given.
            missing = "the field is missing or null"
            if self.siblings is not None and name not in self.siblings:
                missing = missing_field(name, self.siblings)
            return self.error(f"{missing}; expected {expected}")
        return self.error(f"expected {expected}, found {_found(self.value)}")

    def error(self, problem: str) -> ConversationError:
        """Make an error with the path of this field."""
        return ConversationError(problem, field=self.path)


NOTHING: tuple[Any, ...] = (None, "", [], {})
"""Empty values, which say nothing."""


class ReadObject(dict[str, Any]):
    """A JSON object that notes which of its fields are read, so that a report can name the others.

    The objects inside it note their fields from the time they are read. A copy reads everything.

    >>> message = ReadObject({"role": "user", "content": [{"type": "text", "cache": 1}], "name": 7})
    >>> for part in JsonField(message)["content"].items():
    ...     kind = part["type"].text()
    >>> list(message.unread())
    ['role', 'content[].cache', 'name']
    """

    __slots__ = ("is_copied", "noted")

    def __init__(self, fields: Mapping[str, Any]) -> None:
        dict.__init__(self, fields)
        self.noted: set[str] = set()
        self.is_copied = False
        """Whether all fields were read at once, with all that is inside of them."""

    def get(self, key: str, default: Any = None) -> Any:
        """Read a field."""
        noted = self.noted
        if key in noted:
            return _field_of(self, key, default)
        noted.add(key)
        value = _field_of(self, key, default)
        if value.__class__ is dict or value.__class__ is list:
            value = self[key] = noting(value, self.__class__)
        return value

    def __getitem__(self, key: str) -> Any:
        if self.is_copied or key not in self:
            return super().__getitem__(key)
        return self.get(key)

    # Without a method of its own, dict() would copy the fields and call none of these.
    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """Return all names, as `dict` needs them for a copy."""
        self.is_copied = True
        return super().keys()

    def unread(self, path: str = "", *, indices: bool = False) -> Iterator[str]:
        """Yield the names of fields that were not read, unless they are empty."""
        if not self.is_copied:
            for name, value in self.items():
                if name not in self.noted:
                    if value not in NOTHING:
                        yield f"{path}{name}"
                else:
                    yield from unread_in(value, f"{path}{name}", indices=indices)


class RequestObject(ReadObject):
    """The same for requests to a server, for which a peek is a reading, too."""

    __slots__ = ()


def noting(value: Any, kind: type[ReadObject] = RequestObject) -> Any:
    """Let the objects of a JSON value note which of their fields are read."""
    if type(value) is dict:
        return kind(value)
    return [noting(item, kind) for item in value] if type(value) is list else value


def unread_in(value: Any, path: str, *, indices: bool = False) -> Iterator[str]:
    """Yield the names of the fields inside of a value that were not read.

    Each is named once for each item of a list, with its index or without.
    """
    if isinstance(value, ReadObject):
        yield from value.unread(f"{path}.", indices=indices)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from unread_in(item, f"{path}[{index if indices else ''}]", indices=indices)


def without_indices(path: str) -> str:
    """Return what the paths of equal fields in different items share.

    >>> without_indices("messages[12].content[0].cache")
    'messages[].content[].cache'
    """
    return _INDEX.sub("[]", path)


def missing_field(name: str, fields: Iterable[object]) -> str:
    """Say that a field is missing, and which of the object's first 50 fields may be meant.

    >>> missing_field("messages", {"message": []})
    "the field is missing, but there is 'message'"
    """
    first = [field for field in islice(fields, 50) if isinstance(field, str) and field != name]
    near = closest(name, first, _CLOSE)
    return "the field is missing" + (f", but there is {near!r}" if near else "")


_EXPECTED = {
    "string_type": "text",
    "string_unicode": "text without lone surrogates",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "none_required": "null",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "string_too_short": "text of {min_length} or more characters",
    "string_too_long": "text of up to {max_length} characters",
    "string_pattern_mismatch": "text that matches {pattern}",
    "too_short": "a list of {min_length} or more",
    "too_long": "a list of up to {max_length}",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number from {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number up to {le}",
    "multiple_of": "a multiple of {multiple_of}",
}
"""What pydantic expected, by the type of its error."""


def _found(value: object) -> str:
    return "null" if value is None else shown(value)


def invalid_value(error: Mapping[str, Any]) -> str:
    """Say what is wrong with a value that pydantic rejects or misses, as `JsonField` says it.

    >>> invalid_value({"type": "greater_than_equal", "ctx": {"ge": 1}, "input": 0})
    'expected a number from 1, found 0'
    """
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "missing":
        return missing_field(str(error["loc"][-1]), value if isinstance(value, Mapping) else ())
    if kind not in _EXPECTED:
        return str(error["msg"]).removeprefix("Value error, ")
    length = context.get("actual_length") if kind in ("too_short", "too_long") else None
    found = _found(value) if length is None else length
    return f"expected {_EXPECTED[kind].format_map(context)}, found {found}"


_JSON_PROBLEMS = {
    "Expecting property name enclosed in double quotes": "expected a field name in double quotes",
    "Illegal trailing comma before end of object": "remove the comma before }",
    "Illegal trailing comma before end of array": "remove the comma before ]",
    "Expecting ':' delimiter": "expected : after the field name",
    "Expecting ',' delimiter": "expected a comma, or the end of the list or object",
    "Expecting value": "expected a value",
    "Extra data": "there is text after the end of the JSON; write one value",
    "Unterminated string starting at": "the text that begins here has no closing quote",
    "Invalid control character at": "write {} in a text as {}",
}
"""What is wrong with a text that is no JSON, by the words of `json.JSONDecodeError`."""

_NO_JSON = {
    **dict.fromkeys("'‘’“”„«", 'write " around names and texts'),
    **dict.fromkeys("/#", "JSON has no comments"),
    **dict.fromkeys("TFN", "write true, false and null in small letters"),
}
"""What to do about a sign that other languages and word processors write, and JSON never does."""


class RepeatedFields:
    """Makes objects as `json.loads` does, and notes the names that one of them has twice.

    >>> repeated = RepeatedFields()
    >>> json.loads('{"a": 1, "a": 2}', object_pairs_hook=repeated), repeated.names
    ({'a': 2}, ['a'])
    """

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Make an object of its fields."""
        fields = dict(pairs)
        if len(fields) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            self.names += [name for name, count in counts.items() if count > 1]
        return fields


def json_problem(error: ValueError | RecursionError) -> str:
    """Say why `json.loads` cannot read a text, and where.

    >>> json_problem(json.JSONDecodeError("Expecting value", '{"a":}', 5))
    'not valid JSON (line 1, column 6): expected a value'
    """
    if isinstance(error, RecursionError):
        return "not valid JSON: nested too deeply to be read"
    if not isinstance(error, json.JSONDecodeError):
        return f"not valid JSON: {error}"
    place = f" (line {error.lineno}, column {error.colno})" if error.doc else ""
    words, sign = _JSON_PROBLEMS.get(error.msg, error.msg), error.doc[error.pos : error.pos + 1]
    if sign in ("]", "}") and error.doc[: error.pos].rstrip().endswith(","):
        words = f"remove the comma before {sign}"  # newer Pythons say so themselves
    elif error.msg == "Invalid control character at":
        name = "a line break" if sign in "\r\n" else "this character"
        words = words.format(name, json.dumps(sign)[1:-1])
    elif error.msg.startswith("Expecting"):
        words = _NO_JSON.get(sign, words)
    return f"not valid JSON{place}: {words}"


def shown(value: object, length: int = 80) -> str:
    """Return the beginning of a value's repr for an error message.

    >>> shown([1, 2, 3], length=5)
    '[1, 2'
    """
    try:
        return f"{value!r:.{length}}"
    except (RecursionError, ValueError):  # nested too deeply, or an integer of too many digits
        return f"a value ({type(value).__name__}) too large to show"
