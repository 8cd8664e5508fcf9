"""One turn of the model before it is sampled: a request in, its prompt and its grammar out.

A schema may say what no grammar can check token by token. Where the client insists on it
(``strict``), the request is refused. Elsewhere such keywords are left out of the grammar; the
response names them in a header, and what was sampled is validated against the whole schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote

from ...apis.turn_request import TurnRequest
from ...config import RenderConversationConfig
from ...conversation.content import ReasoningEffort
from ...encoding import load_harmony_encoding
from ...engines.engine import Sampling
from ...grammar import (
    GrammarError,
    Matcher,
    TextFormat,
    TurnConstraint,
    TurnOptions,
    turn_constraint,
)
from ...sampled_messages import prompt_tokens

__all__ = [
    "RENDERING",
    "PreparedTurn",
    "compiled_constraint",
    "constraint_options",
    "message_limits",
    "prepare_turn",
    "unenforced_header",
]

RENDERING = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")
"""How the server renders: a request has left past reasoning out; calls keep their tokens."""

_SHOWN_POINTERS = 20
_HEADER_LIMIT = 2_000


class PreparedTurn(NamedTuple):
    """The input of the engine, and the keywords of schemas that its grammar leaves out."""

    prompt: list[int]
    sampling: Sampling
    unenforced: tuple[GrammarError, ...] = ()


def prepare_turn(request: TurnRequest) -> PreparedTurn:
    """Render the prompt; the sampling has no grammar yet.

    It may take a while: call it off the event loop. Raises `ConversationError`.
    """
    encoding = load_harmony_encoding("HarmonyGptOss")
    return PreparedTurn(prompt_tokens(encoding, request.conversation, RENDERING), request.sampling)


_SHARES = (12, 2, 1, 1)  # of the messages of a turn, in sixteenths of its budget


def message_limits(request: TurnRequest, room: int) -> tuple[int, ...]:
    """Return the tokens of each message before the answer or the call, of the `room` for a turn.

    All together have a quarter of the room with low effort, a half with medium and three quarters
    with high, so that there is always room for the call or the answer. A request may name another
    number, up to three quarters; 0 allows no such message. The room is rounded down to three binary
    digits, so that requests share their grammars.

    >>> from openai_harmony import Conversation
    >>> message_limits(TurnRequest(Conversation.from_messages([])), 5000)
    (1536, 256, 128, 128)
    """
    rounded = room - room % (1 << max(room.bit_length() - 3, 0))
    most = rounded * 3 // 4
    effort = request.effort or ReasoningEffort.MEDIUM
    budget = {ReasoningEffort.LOW: rounded // 4, ReasoningEffort.HIGH: most}.get(
        effort, rounded // 2
    )
    if request.reasoning_tokens is not None:
        budget = min(request.reasoning_tokens, most)
    limits = (budget * share // sum(_SHARES) for share in _SHARES)
    return tuple(limit for limit in limits if limit)


def compiled_constraint(
    request: TurnRequest, room: int, *, skips_forced: bool = False, counts_tokens: bool = True
) -> TurnConstraint:
    """Write the grammar of a request, and compile it for the engine, which shares what is compiled.

    `room` is how many tokens the turn may have. Where the engine does not count tokens, only a
    limit that the request names goes into the grammar. It may take a while, too. Raises
    `GrammarError`.
    """
    options = constraint_options(request, skips_forced=skips_forced)
    if counts_tokens or request.reasoning_tokens is not None:
        options = replace(options, message_limits=message_limits(request, room))
    constraint = turn_constraint(request.conversation, options)
    Matcher(constraint.grammar)
    return constraint


def constraint_options(request: TurnRequest, *, skips_forced: bool = False) -> TurnOptions:
    """Return what the grammar of a request allows; only strict schemas must be enforced in full.

    Where the engine skips forced tokens, a required call has one spelling, which forces the most.
    """
    response_format = request.response_format
    return TurnOptions(
        tool_choice=request.tool_choice,
        response_format=response_format,
        tool_texts={
            recipient: TextFormat("regex" if syntax == "regex" else "lark", definition)
            for recipient, (syntax, definition) in request.tool_texts.items()
        },
        # Clients read the text of an answer as JSON; a preamble before it would be a part of it.
        preambles=response_format is None or response_format.get("type") == "text",
        on_unsupported="loosen",
        strict_tools=request.strict_tools,
        canonical=skips_forced and request.tool_choice.mode == "required",
    )


def unenforced_header(unenforced: Sequence[GrammarError]) -> dict[str, str]:
    """Return a header that lists the keywords that the grammar leaves out, by their pointers.

    >>> unenforced_header([GrammarError("", pointer="tools/functions.f#/uniqueItems")])
    {'Harmony-Unenforced': 'tools/functions.f#/uniqueItems'}
    """
    pointers = [quote(error.pointer, safe="/#$~.") for error in unenforced]
    shown = pointers[:_SHOWN_POINTERS]
    if len(pointers) > len(shown):
        shown.append(f"... {len(pointers) - len(shown)} more")
    return {"Harmony-Unenforced": ", ".join(shown)[:_HEADER_LIMIT]} if shown else {}
