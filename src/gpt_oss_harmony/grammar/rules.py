"""The rules of a turn's grammar, as a tree: what each engine's own language is printed from.

`turn` builds the tree. `TurnGrammar` prints it for llguidance, `gbnf` for llama.cpp and
`structural_tag` for xgrammar.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from ..tokens.special_tokens import SPECIAL_TEXTS
from .number_limits import NUMBERS_LINE
from .text_formats import TEXT_PATTERN


class Literal(NamedTuple):
    """A text that stands in the turn as it is."""

    text: str


class Special(NamedTuple):
    """A special token."""

    token: int


class RuleName(NamedTuple):
    """What another rule allows."""

    name: str


class Sequence(NamedTuple):
    """One part after the other; without parts, nothing."""

    parts: tuple[Part, ...]


class Choice(NamedTuple):
    """One of several parts."""

    options: tuple[Part, ...]


class Repeat(NamedTuple):
    """A part that occurs several times in a row; with ``most=None``, without end."""

    part: Part
    least: int = 0
    most: int | None = None


class Optional(NamedTuple):
    """A part that may be left out."""

    part: Part


class FreeText(NamedTuple):
    """Text that neither contains nor spells a special token, of at most so many tokens."""

    tokens: int | None = None


class JsonText(NamedTuple):
    """JSON that a schema allows; `schema` is JSON, with ``x-guidance`` for its white space."""

    schema: str


class ClientText(NamedTuple):
    """Text in a format of the client: a nested grammar of llguidance."""

    lark: str


Part: TypeAlias = Literal | Special | RuleName | Sequence | Choice | Repeat | Optional
Body: TypeAlias = Part | FreeText | JsonText | ClientText

Rules: TypeAlias = Mapping[str, Body]
"""The bodies of rules by name; the first is ``start``."""


class TurnGrammar(str):
    """A grammar in the Lark dialect of llguidance, and its `rules`, for other languages.

    >>> turn = Sequence((Special(200005), Literal("final"), Special(200008), RuleName("text")))
    >>> print(TurnGrammar({"start": turn, "text": FreeText(9)}).rpartition("TEXT: ")[0])
    start: <|channel|> "final" <|message|> text
    text[max_tokens=9]: TEXT
    <BLANKLINE>
    """

    rules: Rules

    def __new__(cls, rules: Rules, *, limits_numbers: bool = True) -> TurnGrammar:
        """Print the rules, one a line, and `NUMBERS_LINE` if the numbers of JSON are limited.

        In texts in a format of the client, what looks like a number may be anything.
        """
        text = "".join(f"{name}{_printed_body(body)}\n" for name, body in rules.items())
        bodies = rules.values()
        has_json = any(isinstance(body, JsonText) for body in bodies)
        is_limited = has_json and not any(isinstance(body, ClientText) for body in bodies)
        line = NUMBERS_LINE if limits_numbers and is_limited else ""
        grammar = super().__new__(cls, f"{text}TEXT: /{TEXT_PATTERN}/\n{line}")
        grammar.rules = rules
        return grammar

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy the rules; the text follows from them."""
        limits_numbers = self.endswith(NUMBERS_LINE)
        return partial(TurnGrammar, limits_numbers=limits_numbers), (self.rules,)


def _printed_body(body: Body) -> str:
    match body:
        case FreeText(tokens):
            return ": TEXT" if tokens is None else f"[max_tokens={tokens}]: TEXT"
        case JsonText(schema):
            return f": %json {schema}"
        case ClientText(lark):
            return f": {lark}"
        case Choice(options):
            return f": {' | '.join(map(_printed, options))}"
        case _:
            return f": {_printed(body)}"


def _printed(part: Part) -> str:
    match part:
        case Literal(text):
            return json.dumps(text)
        case Special(token):
            return SPECIAL_TEXTS[token]
        case RuleName(name):
            return name
        case Sequence(parts):
            return " ".join(map(_printed, parts))
        case Choice(options):
            return f"({' | '.join(map(_printed, options))})"
        case Optional(inner):
            return f"{_grouped(inner)}?"
        case Repeat(inner, least, most):
            counts = "*" if (least, most) == (0, None) else f"{{{least},{most}}}"
            return f"{_grouped(inner)}{counts}"


def _grouped(part: Part) -> str:
    return f"({_printed(part)})" if isinstance(part, Sequence) else _printed(part)
