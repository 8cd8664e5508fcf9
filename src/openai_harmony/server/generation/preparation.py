"""One turn of the model before it is sampled: a request in, its prompt and its grammar out.

A schema may say what no grammar can check token by token. Where the client insists on it
(``strict``), the request is refused. Elsewhere such keywords are left out of the grammar; the
response names them in a header, and what was sampled is validated against the whole schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from ...apis.turn_request import TurnRequest
from ...config import RenderConversationConfig
from ...encoding import load_harmony_encoding
from ...engines.engine import Sampling
from ...grammar import GrammarError, Matcher, TurnConstraint, TurnOptions, turn_constraint
from ...sampled_messages import prompt_tokens

__all__ = [
    "RENDERING",
    "PreparedTurn",
    "compiled_constraint",
    "constraint_options",
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


def compiled_constraint(request: TurnRequest, *, skips_forced: bool = False) -> TurnConstraint:
    """Write the grammar of a request, and compile it for the engine, which shares what is compiled.

    It may take a while, too. Raises `GrammarError`.
    """
    options = constraint_options(request, skips_forced=skips_forced)
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
