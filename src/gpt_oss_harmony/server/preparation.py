"""A request as one turn of the model before it is sampled: its prompt and its grammar.

The response lists, in headers, what the grammar leaves out or narrows, and ignored fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple
from urllib.parse import quote

from ..apis.constraint import compiled_constraint
from ..apis.request_body import SamplingFields
from ..apis.turn import TurnRequest
from ..engines.engine import ContextLengthError, Sampling
from ..errors import PromptLengthError
from ..grammar import GrammarError
from .services import Services
from .unknown_fields import IGNORED_HEADER, shown_fields

_SHOWN_POINTERS = 20
_HEADER_LIMIT = 2_000


class PreparedTurn(NamedTuple):
    """The input of the engine, and the keywords that its grammar leaves out or narrows.

    `ignored` are the fields inside of the request that change nothing.
    """

    prompt: list[int]
    sampling: Sampling
    unenforced: tuple[GrammarError, ...] = ()
    narrowed: tuple[GrammarError, ...] = ()
    ignored: tuple[str, ...] = ()


def prepare_turn(request: TurnRequest, context_length: int | None = None) -> PreparedTurn:
    """Render the prompt; the sampling settings have no grammar yet.

    This takes less than a millisecond for a short chat (`SamplingFields.is_short_chat`). Anything
    else may take a while; render it in a thread. Raises `ConversationError`, and
    `ContextLengthError` for a prompt that leaves no room in `context_length` tokens.
    """
    try:
        # A completion needs room for one token.
        prompt = request.prompt(None if context_length is None else context_length - 1)
    except PromptLengthError as error:
        raise ContextLengthError(error.length, error.most_tokens + 1) from None
    return PreparedTurn(prompt, request.sampling, ignored=request.unread)


def counted_turn(request: TurnRequest) -> tuple[int, dict[str, str]]:
    """Count the tokens of a prompt; return also the headers that name ignored fields."""
    ignored = PreparedTurn([], request.sampling, ignored=request.unread)
    return request.prompt_length(), constraint_headers(ignored)


async def with_grammar(
    services: Services, owner: str, request: TurnRequest, prepared: PreparedTurn
) -> PreparedTurn:
    """Add a grammar if the request needs one. Raises `GrammarError`."""
    if not (services.settings.grammar and request.is_constrained):
        return prepared
    room = services.context_length - len(prepared.prompt)
    room = min(room, prepared.sampling.max_tokens or room)
    engine, settings = services.engine, services.settings
    compiled = partial(
        compiled_constraint,
        skips_forced=engine.skips_forced,
        counts_tokens=engine.counts_tokens,
        json_whitespace=settings.json_whitespace,
        schema_steps=settings.schema_steps,
    )
    try:
        constraint = await services.pools.grammar.run(owner, compiled, request, room)
    except GrammarError as error:
        services.note_refusal(error)
        raise
    sampling = replace(
        prepared.sampling,
        grammar=constraint.grammar,
        close_in_time=prepared.sampling.close_in_time
        or (settings.close_in_time and engine.closes_in_time),
    )
    return prepared._replace(
        sampling=sampling, unenforced=constraint.unenforced, narrowed=constraint.narrowed
    )


async def prepared_turn(
    services: Services, owner: str, body: SamplingFields, read: Callable[[], TurnRequest]
) -> tuple[TurnRequest, PreparedTurn]:
    """Read the turn of a request, render its prompt and compile its grammar, in threads.

    Reading and rendering are one job of a thread; a short chat needs none. Raises what `read`
    raises.
    """

    def prepare() -> tuple[TurnRequest, PreparedTurn]:
        request = read()
        return request, prepare_turn(request, services.context_length)

    with services.metrics.preparation.time():
        pool = services.pools.encoding
        request, prepared = prepare() if body.is_short_chat else await pool.run(owner, prepare)
        services.unknown_fields.check_turn(type(body), request, owner)
        return request, await with_grammar(services, owner, request, prepared)


def constraint_headers(prepared: PreparedTurn) -> dict[str, str]:
    """Return headers with what the grammar leaves out or narrows, and with the ignored fields.

    >>> left_out = GrammarError("", pointer="tools/functions.f#/uniqueItems")
    >>> constraint_headers(PreparedTurn([], Sampling(), (left_out,)))
    {'Harmony-Unenforced': 'tools/functions.f#/uniqueItems'}
    """
    headers = {"Harmony-Unenforced": prepared.unenforced, "Harmony-Narrowed": prepared.narrowed}
    shown = {name: _pointers(errors) for name, errors in headers.items() if errors}
    if prepared.ignored:
        shown[IGNORED_HEADER] = ", ".join(shown_fields(prepared.ignored))
    return shown


def told_headers(prepared: PreparedTurn, ignored: Sequence[str]) -> dict[str, str]:
    """Return the same for a client without headers, which also gets the fields `ignored` before."""
    headers = constraint_headers(prepared)
    names = [*ignored, *filter(None, [headers.get(IGNORED_HEADER)])]
    return {**headers, IGNORED_HEADER: ", ".join(names)} if names else headers


def _pointers(errors: Sequence[GrammarError]) -> str:
    pointers = [quote(error.pointer, safe="/#$~.") for error in errors]
    shown = pointers[:_SHOWN_POINTERS]
    if len(pointers) > len(shown):
        shown.append(f"... {len(pointers) - len(shown)} more")
    return ", ".join(shown)[:_HEADER_LIMIT]
