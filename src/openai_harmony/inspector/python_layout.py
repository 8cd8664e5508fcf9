r"""Python expressions laid out on lines, as formatters do it.

>>> print(laid_out(Call("f", [(None, [1, "a"]), ("name", {"b": None})]), width=24))
f(
    [1, "a"],
    name={"b": None},
)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Call", "Chain", "Expression", "Name", "laid_out", "quoted"]

_INDENT = 4


@dataclass(frozen=True)
class Call:
    """A name, called with arguments: each a pair of its keyword, or None, and an expression."""

    name: str
    arguments: Sequence[tuple[str | None, Expression]]


@dataclass(frozen=True)
class Chain:
    """An expression, and methods that are called on it one after the other."""

    start: Call
    methods: Sequence[Call]


@dataclass(frozen=True)
class Name:
    """A name that stands for itself, such as ``Role.USER``."""

    name: str


Expression: TypeAlias = (
    "Call | Chain | Name | list[Any] | dict[str, Any] | str | int | float | None"
)
"""What can be written; lists and dicts hold expressions."""


def laid_out(expression: Expression, *, width: int = 88) -> str:
    """Write an expression so that its lines have at most `width` characters, where they can."""
    return _Layout(width).written(expression, 0, width)


def quoted(text: str) -> str:
    """Write a text in double quotes, unless there are some in it.

    >>> print(quoted("it's"), quoted('"a"'), quoted("\\n"), quoted(chr(0xD83D)))
    "it's" '"a"' "\\n" "\\ud83d"
    """
    written = repr(text)
    return f'"{written[1:-1]}"' if written[0] == "'" and '"' not in text + written else written


class _Layout:
    """Writes expressions in lines of `width` characters."""

    def __init__(self, width: int) -> None:
        self._width = width

    def written(self, value: Expression, indent: int, room: int) -> str:
        """Write what begins in a line that is indented so far, and has room for so much more."""
        flat = _flat(value, room)
        if flat is not None:
            return flat
        if isinstance(value, Chain):
            methods = (f".{self.written(one, indent, room - 1)}" for one in value.methods)
            start = self.written(value.start, indent, room)
            return f"\n{' ' * indent}".join([start, *methods])
        if isinstance(value, Call):
            items = [(f"{key}=" if key else "", item) for key, item in value.arguments]
            return self._block(f"{value.name}(", items, ")", indent)
        if isinstance(value, list):
            return self._block("[", [("", item) for item in value], "]", indent)
        if isinstance(value, dict):
            named = [(f"{quoted(key)}: ", item) for key, item in value.items()]
            return self._block("{", named, "}", indent)
        return self._text(value, indent) if isinstance(value, str) else "".join(_pieces(value))

    def _block(
        self, start: str, items: Sequence[tuple[str, Expression]], end: str, indent: int
    ) -> str:
        """Write a line for each item; `items` have what stands before them in it."""
        inner = indent + _INDENT
        lines = [start]
        for before, item in items:
            room = self._width - inner - len(before) - len(",")
            lines.append(f"{' ' * inner}{before}{self.written(item, inner, room)},")
        return "\n".join([*lines, " " * indent + end])

    def _text(self, text: str, indent: int) -> str:
        """Write a long text, a line of it in each line."""
        lines = text.splitlines(keepends=True)
        if len(lines) < 2:
            return quoted(text)
        inner = " " * (indent + _INDENT)
        return "\n".join(["(", *(inner + quoted(line) for line in lines), f"{' ' * indent})"])


def _flat(value: Expression, room: int) -> str | None:
    """Write all in one line; None where it needs more room."""
    pieces: list[str] = []
    for piece in _pieces(value):
        room -= len(piece)
        if room < 0:
            return None
        pieces.append(piece)
    return "".join(pieces)


def _pieces(value: Expression) -> Iterator[str]:
    if isinstance(value, Call):
        yield f"{value.name}("
        yield from _joined((f"{key}=" if key else "", item) for key, item in value.arguments)
        yield ")"
    elif isinstance(value, Chain):
        yield from _pieces(value.start)
        for method in value.methods:
            yield "."
            yield from _pieces(method)
    elif isinstance(value, list):
        yield "["
        yield from _joined(("", item) for item in value)
        yield "]"
    elif isinstance(value, dict):
        yield "{"
        yield from _joined((f"{quoted(key)}: ", item) for key, item in value.items())
        yield "}"
    elif isinstance(value, Name):
        yield value.name
    else:
        yield quoted(value) if isinstance(value, str) else repr(value)


def _joined(items: Iterable[tuple[str, Expression]]) -> Iterator[str]:
    separator = ""
    for before, item in items:
        yield separator + before
        yield from _pieces(item)
        separator = ", "
