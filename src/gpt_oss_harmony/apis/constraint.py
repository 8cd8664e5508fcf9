"""The grammar of a turn: what its request forbids the model, token by token.

A schema may have keywords that no grammar can check token by token. If the client requires them
(``strict``), the request is refused. Otherwise they are left out of the grammar, and the result
names them. This module needs the extra `grammar`.
"""

from __future__ import annotations

from ..grammar import (
    Matcher,
    TextFormat,
    TurnConstraint,
    TurnOptions,
    turn_constraint,
)
from ..grammar.json_schema import STEP_LIMIT
from ..grammar.turn import begun_answer
from .request_body import Whitespace
from .requested_reasoning import message_limits
from .turn import TurnRequest


def compiled_constraint(
    request: TurnRequest,
    room: int,
    *,
    skips_forced: bool = False,
    counts_tokens: bool = True,
    json_whitespace: Whitespace = "separators",
    schema_steps: int | None = None,
) -> TurnConstraint:
    """Write the grammar of a request and compile it for the engine, which reuses the result.

    `room` is the most tokens of the turn. If the engine does not count tokens, the grammar has only
    the limits in the request. `json_whitespace` and `schema_steps` are the server's; None is the
    default of `TurnOptions`. This may take a while; do not call it on the event loop. Raises
    `GrammarError`.
    """
    if request.continues:
        return begun_answer()
    limits = None
    if counts_tokens or request.reasoning_tokens is not None:
        limits = message_limits(room, request.effort, request.reasoning_tokens)
    options = constraint_options(
        request,
        limits=limits,
        skips_forced=skips_forced,
        json_whitespace=json_whitespace,
        schema_steps=schema_steps,
    )
    constraint = turn_constraint(request.conversation, options)
    Matcher(constraint.grammar)
    return constraint


def constraint_options(
    request: TurnRequest,
    *,
    limits: tuple[int, ...] | None = None,
    skips_forced: bool = False,
    json_whitespace: Whitespace = "separators",
    schema_steps: int | None = None,
) -> TurnOptions:
    """Return the options of a request's grammar; only strict schemas must be enforced in full.

    `limits` are those of the messages before the answer or call.
    If the engine skips forced tokens, a required call has only one spelling, to force more tokens.
    """
    response_format = request.response_format
    is_canonical = skips_forced and request.tool_choice.mode == "required"
    return TurnOptions(
        tool_choice=request.tool_choice,
        response_format=response_format,
        tool_texts={
            recipient: TextFormat("regex" if syntax == "regex" else "lark", definition)
            for recipient, (syntax, definition) in request.tool_texts.items()
        },
        message_limits=limits,
        # Clients read the text of an answer as JSON, and a preamble would be part of that text.
        preambles=response_format is None or response_format.get("type") == "text",
        on_unsupported="loosen",
        strict_tools=request.strict_tools,
        canonical=is_canonical and request.json_whitespace in (None, "compact"),
        whitespace=request.json_whitespace or json_whitespace,
        schema_steps=STEP_LIMIT if schema_steps is None else schema_steps,
    )
