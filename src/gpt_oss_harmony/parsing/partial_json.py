"""JSON while it is written: pieces of text in, the value so far and what was added out.

Each character is read once, so a piece costs time in proportion to its own length, however long the
value already is. jiter, which reads partial JSON too, parses the text from its beginning each time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from ..errors import HarmonyError
from .mended_json import Mend, mend_json
from .state import ContentDelta

Path: TypeAlias = tuple[str | int, ...]
"""The names and indices that lead from the whole value to one inside it."""

LEVEL_LIMIT = 500
"""The deepest nesting; Python's own parser fails at about twice as much."""

_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_NUMBER_PART = re.compile(r"[-+.eE0-9]+")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}


class JsonTextError(HarmonyError, ValueError):
    """A text is not JSON; `position` is the index of the first wrong character."""

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.position = position

    def __str__(self) -> str:
        return f"character {self.position}: {self.problem}"


class JsonDelta(NamedTuple):
    """A change of the value at `path`.

    `value` is the text that a string gained. For other values, which appear when they are complete,
    it is the value itself.
    """

    path: Path
    value: Any
    is_complete: bool


class PartialJson:
    r"""Reads JSON while it is written.

    >>> reader = PartialJson()
    >>> reader.feed('{"city": "To')
    [JsonDelta(path=('city',), value='To', is_complete=False)]
    >>> reader.value, reader.open_path
    ({'city': 'To'}, ('city',))
    >>> reader.feed('kyo", "days": [1, 2')
    [JsonDelta(path=('city',), value='kyo', is_complete=True),
     JsonDelta(path=('days', 0), value=1, is_complete=True)]
    >>> reader.value, reader.open_path
    ({'city': 'Tokyo', 'days': [1]}, ('days', 1))
    >>> [delta.path for delta in reader.feed("]}")]
    [('days', 1), ('days',), ()]
    >>> reader.finish()
    {'city': 'Tokyo', 'days': [1, 2]}

    With `mends`, text that is not JSON raises no error before `finish`, which mends it if it has
    one meaning (`mend_json`); `mended` lists how. `value` stays as it was until then.

    >>> reader = PartialJson(mends=True)
    >>> _ = reader.feed("{'a': 1}")
    >>> reader.finish(), [mend.value for mend in reader.mended]
    ({'a': 1}, ['quotes'])
    """

    def __init__(self, *, mends: bool = False) -> None:
        self.mended: tuple[Mend, ...] = ()
        """The mends of the whole value, after `finish`."""
        self._whole: list[str] | None = [] if mends else None
        self.is_complete = False
        """True once the value has its last character; a number needs `finish`."""
        self.problem: JsonTextError | None = None
        """Why the text is not JSON, once it is not."""
        self._position = 0
        self._root: Any = None
        self._containers: list[dict[str, Any] | list[Any]] = []
        self._keys: list[str | int] = []  # of the value that each container has last
        self._read = self._read_value
        self._may_close = False  # the container has no value yet
        self._is_key = False
        self._text: list[str] = []  # the string that is open
        self._gained: list[str] = []  # what it gained since the last delta
        self._pending = ""  # an escape, a word or a number that is not complete
        self._high = ""  # the first half of a surrogate pair

    @property
    def value(self) -> Any:
        """The value so far; None before it begins. Do not change it, but copy it to keep it.

        Strings show the characters so far. Numbers, `true`, `false`, `null` and names appear when
        they are complete. This joins the pieces of an open string; all else is ready.
        """
        if self._read in (self._read_text, self._read_escape) and not self._is_key:
            self._text = ["".join(self._text)]
            self._put(self._text[0])
        return self._root

    @property
    def open_path(self) -> Path | None:
        """The path of the innermost value that is being written or comes next; None at the end.

        All values are complete but this one and those that contain it.
        """
        if self.is_complete:
            return None
        is_inside = self._read not in (self._read_key, self._read_comma) and not self._is_key
        return tuple(self._keys if is_inside else self._keys[:-1])

    def feed(self, text: str) -> list[JsonDelta]:
        """Read a piece of the text; return what it adds, in order.

        Raises `JsonTextError` for a text that is not JSON: `value` stays as it was before the wrong
        character, and nothing more can be read.
        """
        if self._whole is not None:
            self._whole.append(text)
            if self.problem is not None:
                return []
        self._check()
        deltas: list[JsonDelta] = []
        at = 0
        while at < len(text):
            try:
                at = self._read(text, at, deltas)
            except JsonTextError as error:
                # The reading methods count from the beginning of their piece.
                error.position += self._position
                # A whole value with something behind it is no JSON after all.
                self.is_complete = False
                self.problem = error
                if self._whole is None:
                    raise
                return deltas
        self._position += len(text)
        gained = self._take_gained()
        if gained and not self._is_key:
            deltas.append(JsonDelta(tuple(self._keys), gained, is_complete=False))
        return deltas

    def finish(self) -> Any:
        """Return the whole value. Raises `JsonTextError` if it is not complete; nothing changes."""
        if self.problem is not None and self._whole is not None:
            mended = mend_json("".join(self._whole))
            if mended is not None:
                self.mended = mended.mends
                self._root, self.problem, self._whole = json.loads(mended.text), None, None
                self.is_complete, self._read = True, self._read_end
                self._containers, self._keys, self._text = [], [], []
                return self._root
        self._check()
        if self._read == self._read_number and not self._containers:
            # `_end_number` takes the digits. They must come back if the number is not complete yet,
            # because more text may follow.
            digits = list(self._text)
            try:
                self._end_number(self._position, [])
            except JsonTextError:
                self._text = digits
                raise
        if not self.is_complete:
            raise JsonTextError("the value is not complete", self._position)
        return self._root

    def _check(self) -> None:
        if self.problem is not None:
            raise self.problem

    # Reading; each method reads from a position and returns the next one

    def _read_value(self, text: str, at: int, deltas: list[JsonDelta]) -> int:
        at = _after_space(text, at)
        if at == len(text):
            return at
        character = text[at]
        if self._may_close and character == "]":
            self._close(deltas)
            return at + 1
        self._may_close = False
        if character in "{[":
            if len(self._containers) == LEVEL_LIMIT:
                raise JsonTextError(f"values nest deeper than {LEVEL_LIMIT} levels", at)
            container: dict[str, Any] | list[Any] = {} if character == "{" else []
            self._put(container)
            self._containers.append(container)
            # The type of the last key says what the innermost container is: an index is that of a
            # list.
            self._keys.append("" if character == "{" else 0)
            self._may_close = True
            self._read = self._read_key if character == "{" else self._read_value
        elif character == '"':
            self._put("")
            self._read = self._read_text
        elif character in _WORDS:
            self._read = self._read_word
            return at
        elif character in "-0123456789":
            self._read = self._read_number
            return at
        else:
            raise _unexpected(text, at, "a value")
        return at + 1

    def _read_key(self, text: str, at: int, deltas: list[JsonDelta]) -> int:
        at = _after_space(text, at)
        if at == len(text):
            return at
        if self._may_close and text[at] == "}":
            self._close(deltas)
            return at + 1
        if text[at] != '"':
            raise _unexpected(text, at, "a name in quotes")
        self._may_close = False
        self._is_key = True
        self._read = self._read_text
        return at + 1

    def _read_text(self, text: str, at: int, deltas: list[JsonDelta]) -> int:
        plain = _PLAIN.match(text, at)
        if plain is not None:
            self._add(plain[0])
            return plain.end()
        if text[at] == "\\":
            self._read = self._read_escape
            return at + 1
        if text[at] != '"':
            raise _unexpected(text, at, "a character, or an escape such as \\n")
        self._add("")  # half of a surrogate pair may wait for the other one, which never came
        whole, self._text = "".join(self._text), []
        if self._is_key:
            self._is_key = False
            self._keys[-1] = whole
            self._take_gained()
            self._read = self._read_colon
            return at + 1
        self._put(whole)
        self._end_value(self._take_gained(), deltas)
        return at + 1

    def _read_escape(self, text: str, at: int, deltas: list[JsonDelta]) -> int:
        self._pending += text[at]
        escape = self._pending
        if escape[0] != "u":
            if escape not in _ESCAPES:
                raise _unexpected(text, at, "an escape such as \\n")
            self._add(_ESCAPES[escape])
        elif len(escape) > 1 and escape[-1] not in "0123456789abcdefABCDEF":
            raise _unexpected(text, at, "a hexadecimal digit")
        elif len(escape) < 5:
            return at + 1
        else:
            self._add_unit(int(escape[1:], 16))
        self._pending = ""
        self._read = self._read_text
        return at + 1

    def _read_word(self, text: str, at: int, deltas: list[JsonDelta]) -> int:
        word, value = _WORDS[(self._pending or text[at])[0]]
        if text[at] != word[len(self._pending)]:
            raise _unexpected(text, at, word)
        self._pending += text[at]
        if self._pending == word:
            self._pending = ""
            self._put(value)
            self._end_value(value, deltas)
        return at + 1

    def _read_number(self, text: str, at: int, deltas: list[JsonDelta]) -> int:
        part = _NUMBER_PART.match(text, at)
        if part is not None:
            self._text.append(part[0])
            return part.end()
        # What ends a number is no part of it: the next method reads that character again.
        self._end_number(at, deltas)
        return at

    def _end_number(self, at: int, deltas: list[JsonDelta]) -> None:
        digits, self._text = "".join(self._text), []
        if not _NUMBER.fullmatch(digits):
            raise JsonTextError(f"{digits[:40]!r} is no number", at)
        try:
            value = json.loads(digits)
        except ValueError:  # Python reads integers of at most 4,300 digits
            raise JsonTextError(f"the number has {len(digits):,} digits", at) from None
        self._put(value)
        self._end_value(value, deltas)

    def _read_colon(self, text: str, at: int, deltas: list[JsonDelta]) -> int:
        at = _after_space(text, at)
        if at < len(text) and text[at] != ":":
            raise _unexpected(text, at, "a colon")
        # At the end of a piece, the position returned is one too far, which only ends `feed`'s
        # loop.
        self._read = self._read_value if at < len(text) else self._read_colon
        return at + 1

    def _read_comma(self, text: str, at: int, deltas: list[JsonDelta]) -> int:
        at = _after_space(text, at)
        if at == len(text):
            return at
        key = self._keys[-1]
        if text[at] == ",":
            self._read = self._read_key
            if isinstance(key, int):
                self._keys[-1] = key + 1
                self._read = self._read_value
            return at + 1
        if text[at] != ("]" if isinstance(key, int) else "}"):
            raise _unexpected(text, at, "a comma or the end of the list or object")
        self._close(deltas)
        return at + 1

    def _read_end(self, text: str, at: int, deltas: list[JsonDelta]) -> int:
        at = _after_space(text, at)
        if at < len(text):
            raise _unexpected(text, at, "nothing after the value")
        return at

    # The value

    def _put(self, value: Any) -> None:
        """Set the value that is being written."""
        if not self._containers:
            self._root = value
            return
        container, key = self._containers[-1], self._keys[-1]
        if isinstance(container, dict):
            container[str(key)] = value
        # An open string of a list is put again whenever somebody reads `value`.
        elif isinstance(key, int) and key < len(container):
            container[key] = value
        else:
            container.append(value)

    def _end_value(self, value: Any, deltas: list[JsonDelta]) -> None:
        deltas.append(JsonDelta(tuple(self._keys), value, is_complete=True))
        self.is_complete = not self._containers
        self._read = self._read_end if self.is_complete else self._read_comma

    def _close(self, deltas: list[JsonDelta]) -> None:
        self._may_close = False
        self._keys.pop()
        self._end_value(self._containers.pop(), deltas)

    def _add(self, text: str) -> None:
        """Add characters to the open string."""
        text, self._high = self._high + text, ""
        if text:
            self._text.append(text)
            self._gained.append(text)

    def _add_unit(self, unit: int) -> None:
        """Add a unit of UTF-16; the first half of a pair waits for the second."""
        if self._high and 0xDC00 <= unit < 0xE000:
            high, self._high = ord(self._high), ""
            self._add(chr(0x10000 + ((high - 0xD800) << 10) + unit - 0xDC00))
        elif 0xD800 <= unit < 0xDC00:
            self._add("")  # a half before this one, to which it does not belong
            self._high = chr(unit)
        else:
            self._add(chr(unit))

    def _take_gained(self) -> str:
        gained, self._gained = "".join(self._gained), []
        return gained


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _unexpected(text: str, at: int, expected: str) -> JsonTextError:
    return JsonTextError(f"expected {expected}, found {text[at]!r}", at)


class JsonBody:
    """The JSON in the body of a message: `reader` has its value, `problem` why it is not JSON.

    `deltas` are the changes by the last tokens.
    """

    def __init__(self, delta: ContentDelta) -> None:
        self.message = delta.message
        self.channel = delta.channel
        self.recipient = delta.recipient
        self.reader = PartialJson()
        self.problem: JsonTextError | None = None
        self.deltas: list[JsonDelta] = []


class JsonBodies:
    """The calls and answers of a stream as values while they are written, beside a parser.

    Reasoning and preambles are left out. A body that is not JSON, such as code or plain text, gets
    a `problem` at its first wrong character and is not read further.

    >>> from gpt_oss_harmony import Role, StreamableParser, load_harmony_encoding
    >>> encoding = load_harmony_encoding("HarmonyGptOss")
    >>> parser, bodies = StreamableParser(encoding, Role.ASSISTANT), JsonBodies()
    >>> text = '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"city": "To'
    >>> for token in encoding.encode(text, allowed_special="all"):
    ...     for body in bodies.take(parser.process_many([token])):
    ...         print(body.recipient, body.reader.value)
    functions.f {}
    functions.f {}
    functions.f {}
    functions.f {'city': ''}
    functions.f {'city': 'To'}
    """

    def __init__(self) -> None:
        self.bodies: dict[int, JsonBody] = {}
        """The bodies by the index of their message."""

    def take(self, deltas: Iterable[ContentDelta]) -> list[JsonBody]:
        """Read the text that messages gained; return the bodies that are JSON so far."""
        changed: list[JsonBody] = []
        for delta in deltas:
            if delta.recipient is None and delta.channel != "final":
                continue
            body = self.bodies.get(delta.message)
            if body is None:
                body = self.bodies[delta.message] = JsonBody(delta)
            if body.problem is not None:
                continue
            try:
                body.deltas = body.reader.feed(delta.text)
            except JsonTextError as error:
                body.problem, body.deltas = error, []
            else:
                changed.append(body)
        return changed
