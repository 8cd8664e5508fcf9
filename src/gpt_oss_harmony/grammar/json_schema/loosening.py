"""A schema to one that the engine enforces: other keywords are errors, or are left out and named.

`enforceable_schema` raises for a keyword that cannot be enforced. `loosened_schema` leaves it out
and returns the error, so that callers can name it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...typescript.json_text import Schema
from ..errors import GrammarError, Report, raise_error
from .budget import STEP_LIMIT, Budget, budget_of
from .disjointness import Disjointness
from .disjunctive_form import build_states
from .documents import Document, plain_schema
from .schema_writer import SchemaWriter
from .simple_schemas import Frame
from .states import State
from .terms import Overlap
from .witnesses import satisfiable_states


def enforceable_schema(
    schema: object, pointer: str = "#", *, steps: int = STEP_LIMIT
) -> Schema | bool:
    """Return an equivalent schema that the grammar engine enforces exactly.

    `schema` is JSON, a pydantic model or a `pydantic.TypeAdapter`. `pointer` is its place, for
    errors. Raises `GrammarError` for a keyword that cannot be enforced; none is ignored. It also
    raises if the work takes more than `steps`; a step is at most about a microsecond.

    >>> enforceable_schema({"type": "integer", "exclusiveMinimum": 0, "title": "Count"})
    {'type': 'integer', 'minimum': 1}
    >>> try:
    ...     enforceable_schema({"type": "array", "uniqueItems": True})
    ... except GrammarError as error:
    ...     print(error.pointer)
    #/uniqueItems
    """
    return narrowed_schema(schema, pointer, steps=steps).schema


class LoosenedSchema(NamedTuple):
    """A schema for the grammar engine, and the errors of the keywords that it leaves out.

    `narrowed` has the errors of keywords that allow fewer values than they should, such as integers
    beyond 64 bits.
    """

    schema: Schema | bool
    unenforced: tuple[GrammarError, ...] = ()
    narrowed: tuple[GrammarError, ...] = ()


def narrowed_schema(
    schema: object, pointer: str = "#", *, steps: int = STEP_LIMIT
) -> LoosenedSchema:
    """Return what `enforceable_schema` returns, with the keywords that allow too few values.

    >>> [error] = narrowed_schema({"type": "integer", "maximum": 2**64 - 1}).narrowed
    >>> error.pointer, error.problem.partition(" and ")[0]
    ('#/maximum', 'numbers between 9223372036854775807')
    """
    errors: dict[tuple[str, str], GrammarError] = {}

    def report(error: GrammarError) -> None:
        raise_error(error)
        errors.setdefault((error.pointer, error.problem), error)

    with budget_of(steps, pointer) as budget:
        enforced = _rewritten(plain_schema(schema, pointer), pointer, report, budget)
    return LoosenedSchema(enforced, narrowed=tuple(errors.values()))


def loosened_schema(
    schema: object, pointer: str = "#", *, steps: int = STEP_LIMIT
) -> LoosenedSchema:
    """Return what `enforceable_schema` returns, but leave out keywords that cannot be enforced.

    The result allows every value that the schema allows, and more. If it is impossible to leave out
    single keywords, or the work takes more than `steps`, the result keeps only types and property
    names. Raises `GrammarError` if `schema` is not a JSON Schema.

    >>> loosened = loosened_schema({"type": "array", "minItems": 2, "uniqueItems": True})
    >>> loosened.schema
    {'type': 'array', 'minItems': 2}
    >>> [error.pointer for error in loosened.unenforced]
    ['#/uniqueItems']
    """
    errors: dict[tuple[str, str], GrammarError] = {}

    def report(error: GrammarError) -> None:
        errors.setdefault((error.pointer, error.problem), error)

    for candidate, limit in ((schema, steps), *((one, _OUTLINE) for one in _outlines(schema))):
        try:
            with budget_of(limit, pointer) as budget:
                enforced = _rewritten(plain_schema(candidate, pointer), pointer, report, budget)
        except GrammarError as error:  # about the whole schema: a limit, or no value satisfies it
            report(error)
        else:
            unenforced = tuple(error for error in errors.values() if not error.narrows)
            narrowed = tuple(error for error in errors.values() if error.narrows)
            return LoosenedSchema(enforced, unenforced, narrowed)
    raise next(error for error in errors.values() if not error.narrows)


def outlined_schema(schema: object, pointer: str, error: GrammarError) -> LoosenedSchema:
    """Return only the types and property names of a schema, which `error` makes necessary."""
    outline = loosened_schema(next(iter(_outlines(schema)), schema), pointer)
    return LoosenedSchema(outline.schema, (error, *outline.unenforced), outline.narrowed)


_OUTLINE = 50_000
"""The most steps of an outline."""


def _outlines(schema: object) -> Iterator[Schema | bool]:
    """Yield weaker and weaker schemas; each allows everything that the schema allows."""
    if isinstance(schema, type) or hasattr(schema, "json_schema"):
        schema = plain_schema(schema, "#")
    if schema is False:
        yield True
    if not isinstance(schema, Mapping):
        return
    outline = {key: schema[key] for key in ("type", "required") if key in schema}
    names = schema.get("properties")
    if isinstance(names, Mapping):
        yield {**outline, "properties": dict.fromkeys(names, True)}
    yield outline
    yield {"type": outline.get("type", [])}
    yield True


def _rewritten(plain: Schema | bool, pointer: str, report: Report, budget: Budget) -> Schema | bool:
    unsatisfiable = GrammarError(
        "no finite value satisfies it",
        remedy="look for keywords that contradict each other, or a schema that requires itself",
        pointer=pointer,
    )
    if plain is False:
        raise unsatisfiable
    frame = Frame(plain)
    if not frame.parts:
        return frame.filled([], {})
    document = Document(frame.root, pointer)
    if document.has_scopes:
        frame.make_empty()
    roots = [document.root] if frame.is_empty else frame.parts
    states, satisfiable = _states(document, roots, report, budget)
    if not satisfiable.issuperset(states) and not frame.is_empty:
        frame.make_empty()  # whether the whole has a value depends on the part that has none
        states, satisfiable = _states(document, [document.root], report, budget)
    if not satisfiable.issuperset(states):
        raise unsatisfiable
    return frame.filled(*SchemaWriter(satisfiable, pointer, report, budget).write(states))


def _states(
    document: Document, roots: list[Schema], report: Report, budget: Budget
) -> tuple[list[State], set[State]]:
    """Return the states of some schemas of a document, and all states with a value."""
    form = build_states(document, roots, report)
    overlaps: dict[str, Overlap] = {}
    contexts: dict[str, set[frozenset[str]]] = {}
    # Each round splits the schemas of a `oneOf` that share values; their parts may share others.
    while True:
        satisfiable = satisfiable_states(form.states)
        possible = satisfiable
        if form.omits_values:
            possible = satisfiable_states(form.states, omitted=True)
        new_overlaps: dict[str, Overlap] = {}
        try:
            # Half of what is left. If comparing takes too long, the rest suffices for an anyOf.
            with budget.share(0.5):
                new_overlaps = _overlaps(form.states, possible)
                if not new_overlaps:
                    return form.roots, satisfiable
                overlaps |= new_overlaps
                contexts |= {where: form.contexts[where] for where in new_overlaps}
                apart = build_states(document, roots, report, overlaps)
                _check_contexts(contexts, apart.contexts)
        except GrammarError as error:
            compared = list(new_overlaps) or [
                state.exclusive for state in form.states if state.exclusive
            ]
            report(_overlap_error(error.pointer if error.pointer in compared else compared[0]))
            return form.roots, satisfiable
        form = apart


def _overlap_error(pointer: str) -> GrammarError:
    return GrammarError(
        "two of the schemas may be valid at once",
        remedy="use anyOf, or give each a required property with its own const",
        pointer=pointer,
    )


def _check_contexts(
    contexts: dict[str, set[frozenset[str]]], new_contexts: dict[str, set[frozenset[str]]]
) -> None:
    """Raise if a `oneOf` is also used with fewer schemas beside it than when it was compared."""
    for pointer, compared in contexts.items():
        for context in new_contexts.get(pointer, set()) - compared:
            if not any(context >= earlier for earlier in compared):
                raise _overlap_error(pointer)


def _overlaps(states: list[State], satisfiable: set[State]) -> dict[str, Overlap]:
    """Return the values that two schemas of a `oneOf` may share, by the pointer of the `oneOf`."""
    disjointness = Disjointness(satisfiable)
    overlaps: dict[str, Overlap] = {}
    for state in states:
        overlap = disjointness.overlap(state.alternatives or []) if state.exclusive else None
        if overlap is not None:
            earlier = overlaps.setdefault(state.exclusive, overlap)
            if earlier is not overlap:
                earlier.join(overlap)
    return overlaps
