"""JSON Schema to what the grammar engine enforces exactly: a schema in, a plainer schema out.

The engine (llguidance) reads most of JSON Schema, but some of it in another sense. So a schema is
taken apart into states (`conjunctions`) and written again with the few keywords that the engine and
the specification read alike. What cannot be written is refused by a `GrammarError`.
"""

from __future__ import annotations

from typing import Any

from ..errors import GrammarError
from .conjunctions import Conjunctions
from .disjoint import Exclusions
from .finite import satisfiable_states
from .plain_schema import plain_schema
from .references import Document
from .schema_writer import SchemaWriter
from .states import State

__all__ = ["JSON_OPTIONS", "enforceable_schema"]

JSON_OPTIONS: dict[str, Any] = {
    # One space, or a new line and its indent; never any amount, in which a model may get lost.
    "whitespace_pattern": "(?:[ \\t]|\\r?\\n[ \\t]{0,64})",
    # No \uXXXX: with it, a name that the schema knows could be written as one that it does not.
    "json_allowed_escapes": 'nrbtf\\"',
    "coerce_one_of": False,
    "lenient": False,
}
"""What to pass with a schema from `enforceable_schema`, as its ``x-guidance``."""


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
    known = satisfiable_states(conjunctions.states)
    _check_choices(conjunctions.states, known)
    if conjunctions.root not in known:
        raise _unsatisfiable(pointer)
    return SchemaWriter(known, pointer).write(conjunctions.root)


def _unsatisfiable(pointer: str) -> GrammarError:
    return GrammarError(
        "no finite value satisfies it",
        remedy="look for keywords that contradict each other, or a schema that requires itself",
        pointer=pointer,
    )


def _check_choices(states: list[State], known: set[State]) -> None:
    exclusions = Exclusions(known)
    for state in states:
        if state.exclusive and exclusions.overlap(state.alternatives or []):
            raise GrammarError(
                "two of the schemas may hold at once",
                remedy="use anyOf, or give each a required property with its own const",
                pointer=state.exclusive,
            )
