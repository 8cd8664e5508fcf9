"""A conversation in every header style and schema dialect, and where the renderings differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import get_args

from typing_extensions import TypedDict  # of Python 3.12, which pydantic needs

from ..config import SchemaDialect
from ..conversation.messages import Conversation
from ..encoding import load_harmony_encoding
from .rendering import rendered_conversation
from .source import read_source
from .wire import RenderBody

_STYLES = ("guide", "reference", "oss-harmony")
_DIALECTS = get_args(SchemaDialect)

_PIECES = (re.compile(r"[^\n]*\n|[^\n]+"), re.compile(r"<\|\w+\|>|\w+|\s+|.", re.DOTALL))
"""Texts are compared line by line, and changed lines word by word."""

_LIMIT = 250_000
"""The most pairs of pieces to compare, which takes a tenth of a second; beyond it, all differ."""


class ComparedPart(TypedDict):
    """A part of a text; an empty part that differs marks a place where the other text has more."""

    text: str
    differs: bool


class ComparedRow(TypedDict):
    """A message, and its text in each column with the differences from the first column."""

    message: int
    cells: list[list[ComparedPart]]


class ComparedTable(TypedDict):
    """Columns with their numbers of tokens, and the messages that differ between them."""

    columns: list[str]
    totals: list[int]
    rows: list[ComparedRow]


class Comparison(TypedDict):
    """The effect of each choice, where the other choice stays as requested."""

    header_styles: ComparedTable
    schema_dialects: ComparedTable


def comparison(body: RenderBody) -> Comparison:
    """Compare renderings; raises `HarmonyError`, which names the field at fault."""
    conversation = read_source(body).conversation
    return {
        "header_styles": _table(conversation, body, "header_style", _STYLES),
        "schema_dialects": _table(conversation, body, "schema_dialect", _DIALECTS),
    }


def _table(
    conversation: Conversation, body: RenderBody, choice: str, columns: Sequence[str]
) -> ComparedTable:
    rendered = [
        rendered_conversation(conversation, body.model_copy(update={choice: column}))
        for column in columns
    ]
    messages = [
        {part.message: column.tokens[part.start : part.end] for part in column.parts}
        for column in rendered
    ]
    decode = load_harmony_encoding("HarmonyGptOss").decode
    rows: list[ComparedRow] = []
    for message, tokens in messages[0].items():
        others = [column[message] for column in messages[1:]]
        if any(other != tokens for other in others):
            first = decode(tokens)
            cells = [compared_parts(first, decode(other)) for other in others]
            rows.append(
                {"message": message, "cells": [[{"text": first, "differs": False}], *cells]}
            )
    totals = [len(column.tokens) for column in rendered]
    return {"columns": list(columns), "totals": totals, "rows": rows}


def compared_parts(first: str, text: str) -> list[ComparedPart]:
    """Split `text` into parts that `first` also has, and parts that it does not have.

    >>> compared_parts("to=f<|channel|>final", "to=g<|channel|>final")
    [{'text': 'to=', 'differs': False}, {'text': 'g', 'differs': True},
     {'text': '<|channel|>final', 'differs': False}]
    """
    parts: list[ComparedPart] = []
    for piece, differs in _marked(first, text, _PIECES):
        if parts and parts[-1]["differs"] == differs:
            parts[-1]["text"] += piece
        elif piece or differs:
            parts.append({"text": piece, "differs": differs})
    return parts


def _marked(
    first: str, text: str, patterns: Sequence[re.Pattern[str]]
) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of `text`, each with whether it differs from `first`."""
    if not patterns:
        yield text, True
        return
    pattern, *finer = patterns
    others, pieces = pattern.findall(first), pattern.findall(text)
    start = _equal_items(others, pieces)
    end = _equal_items(others[start:][::-1], pieces[start:][::-1])
    yield "".join(pieces[:start]), False
    middle, other_middle = pieces[start : len(pieces) - end], others[start : len(others) - end]
    if len(middle) * len(other_middle) > _LIMIT:
        yield "".join(middle), True
    else:
        matcher = SequenceMatcher(None, other_middle, middle, autojunk=False)
        for kind, other_from, other_to, own_from, own_to in matcher.get_opcodes():
            block = "".join(middle[own_from:own_to])
            if kind == "equal":
                yield block, False
            else:
                yield from _marked("".join(other_middle[other_from:other_to]), block, finer)
    yield "".join(pieces[len(pieces) - end :]), False


def _equal_items(first: Sequence[str], second: Sequence[str]) -> int:
    """Count the equal items at the start of both."""
    pairs = enumerate(zip(first, second, strict=False))
    shorter = min(len(first), len(second))
    return next((index for index, (item, other) in pairs if item != other), shorter)
