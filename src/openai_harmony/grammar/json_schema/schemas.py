"""JSON Schema to what the grammar engine enforces exactly: a schema in, a plainer schema out.

The engine (llguidance) reads most of JSON Schema, but some of it in another sense. So a schema is
taken apart into states (`conjunctions`) and written again with the few keywords that the engine and
the specification read alike. Schemas that cannot be written so raise `GrammarError`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUserError

from ...typescript.json_text import JsonValue
from ..errors import GrammarError
from .conjunctions import Conjunctions
from .instances import Exclusions, satisfiable_states
from .references import Document
from .schema_writer import SchemaWriter

__all__ = ["JSON_OPTIONS", "enforceable_schema", "plain_schema"]

JSON_OPTIONS: dict[str, Any] = {
    # One space, or a new line and its indent; never any amount, in which a model may get lost.
    "whitespace_pattern": "(?:[ \\t]|\\r?\\n[ \\t]{0,64})",
    # No \uXXXX: with it, a name that the schema knows could be written as one that it does not.
    "json_allowed_escapes": 'nrbtf\\"',
    "coerce_one_of": False,
    "lenient": False,
}
"""The ``x-guidance`` to pass with a schema from `enforceable_schema`."""


def enforceable_schema(schema: object, pointer: str = "#") -> dict[str, Any] | bool:
    """Return a schema for the grammar engine that allows what a JSON Schema allows.

    The schema is JSON, a pydantic model or a `pydantic.TypeAdapter`; `pointer` is where it stands,
    for errors. Raises `GrammarError` for what cannot be enforced.

    >>> enforceable_schema({"type": "integer", "exclusiveMinimum": 0, "title": "Count"})
    {'type': 'integer', 'minimum': 1}
    >>> try:
    ...     enforceable_schema({"type": "array", "uniqueItems": True})
    ... except GrammarError as error:
    ...     print(error.pointer)
    #/uniqueItems
    """
    plain = plain_schema(schema, pointer)
    if plain is True:
        return True
    if plain is False:
        raise _unsatisfiable(pointer)
    conjunctions = Conjunctions(Document(plain, pointer), plain)
    satisfiable = satisfiable_states(conjunctions.states)
    exclusions = Exclusions(satisfiable)
    for state in conjunctions.states:
        if state.exclusive and exclusions.overlap(state.alternatives or []):
            raise GrammarError(
                "two of the schemas may hold at once",
                remedy="use anyOf, or give each a required property with its own const",
                pointer=state.exclusive,
            )
    if conjunctions.root not in satisfiable:
        raise _unsatisfiable(pointer)
    return SchemaWriter(satisfiable, pointer).write(conjunctions.root)


def _unsatisfiable(pointer: str) -> GrammarError:
    return GrammarError(
        "no finite value satisfies it",
        remedy="look for keywords that contradict each other, or a schema that requires itself",
        pointer=pointer,
    )


# The schema as plain JSON


NESTING_LIMIT = 120
"""How deep objects and arrays of a schema may nest."""

SIZE_LIMIT = 200_000
"""The most values in a schema."""


def plain_schema(schema: object, pointer: str) -> dict[str, JsonValue] | bool:
    """Return the JSON of a schema.

    >>> plain_schema({"enum": (1, 2.0)}, "#")
    {'enum': [1, 2.0]}
    """
    copied = _Copier(pointer).copy(_dumped(schema, pointer), NESTING_LIMIT)
    if isinstance(copied, (dict, bool)):
        return copied
    raise GrammarError(
        f"a schema is an object or a boolean, not {type(schema).__name__}",
        remedy="pass a dict, a pydantic model or a TypeAdapter",
        pointer=pointer,
    )


def _dumped(schema: object, pointer: str) -> object:
    try:
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            return schema.model_json_schema()
        if isinstance(schema, TypeAdapter):
            return schema.json_schema()
    except PydanticUserError as error:
        raise GrammarError(
            f"pydantic has no JSON Schema for it: {error.message}",
            remedy="give the type a JSON Schema",
            pointer=pointer,
        ) from None
    return schema


class _Copier:
    """Copies values as far as there is room."""

    def __init__(self, pointer: str) -> None:
        self._pointer = pointer
        self._room = SIZE_LIMIT

    def copy(self, value: object, levels_left: int) -> JsonValue:
        self._room -= 1
        if levels_left < 0:
            raise self._error(f"it is nested deeper than {NESTING_LIMIT} levels", "flatten it")
        if self._room < 0:
            raise self._error(f"it holds more than {SIZE_LIMIT:,} values", "use a smaller schema")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise self._error(f"{value} is not a JSON number", "leave it out")
            return float(value)
        if isinstance(value, Mapping):
            return self._mapping(value, levels_left)
        if isinstance(value, (list, tuple)):
            return [self.copy(item, levels_left - 1) for item in value]
        raise self._error(f"{type(value).__name__} is not a JSON type", "convert it")

    def _mapping(self, mapping: Mapping[object, object], levels_left: int) -> JsonValue:
        copied: dict[str, JsonValue] = {}
        for key, item in mapping.items():
            if not isinstance(key, str):
                raise self._error(f"a key is {type(key).__name__}, not text", "use text")
            copied[self._text(key)] = self.copy(item, levels_left - 1)
        return copied

    def _text(self, text: str) -> str:
        plain = str.__str__(text)
        if not plain.isascii():
            try:
                return plain.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                raise self._error("a text holds a lone surrogate", "drop it") from None
        return plain

    def _error(self, problem: str, remedy: str) -> GrammarError:
        return GrammarError(problem, remedy=remedy, pointer=self._pointer)
