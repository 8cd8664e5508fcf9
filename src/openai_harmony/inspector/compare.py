"""The same conversation under every header style, and under both schema dialects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from typing_extensions import TypedDict  # of Python 3.12, which tells pydantic more

from ..config import SchemaDialect
from ..conversation.messages import Conversation
from ..encoding import load_harmony_encoding
from .rendering import rendered_conversation
from .source import read_source
from .text_difference import ComparedPart, compared_parts
from .wire import RenderBody

__all__ = ["ComparedTable", "Comparison", "comparison"]

_STYLES = ("guide", "reference", "oss-harmony")
_DIALECTS = get_args(SchemaDialect)


class ComparedRow(TypedDict):
    """A message, and its text in each column with what differs from the first marked."""

    message: int
    cells: list[list[ComparedPart]]


class ComparedTable(TypedDict):
    """Columns with their numbers of tokens, and the messages that are not the same in all."""

    columns: list[str]
    totals: list[int]
    rows: list[ComparedRow]


class Comparison(TypedDict):
    """What each choice changes, where the other choice stays as it was asked for."""

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
    bodies = [body.model_copy(update={choice: column}) for column in columns]
    rendered = [rendered_conversation(conversation, one) for one in bodies]
    messages = [{part[0]: one.tokens[part[1] : part[4]] for part in one.parts} for one in rendered]
    return {
        "columns": list(columns),
        "totals": [len(one.tokens) for one in rendered],
        "rows": list(_rows(messages)),
    }


def _rows(columns: Sequence[Mapping[int, list[int]]]) -> Iterator[ComparedRow]:
    decode = load_harmony_encoding("HarmonyGptOss").decode
    for message, tokens in columns[0].items():
        others = [column[message] for column in columns[1:]]
        if any(other != tokens for other in others):
            first = decode(tokens)
            cells = [compared_parts(first, decode(other)) for other in others]
            yield {"message": message, "cells": [[{"text": first, "differs": False}], *cells]}
