"""Structured output for the whole assistant turn: a conversation to a grammar, a grammar to masks.

::

    calls, tool_choice, options   what a turn may do
    json_schema                   what a JSON value may be
    turn                          both as one grammar, in the Lark dialect of llguidance
    structural_tag                the same for xgrammar, as far as that can say it
    token_table → matcher         the grammar at work, token by token
    departure                     where a completion leaves it
    logits_processor              the same inside `generate` of Hugging Face Transformers

Needs the extra ``grammar`` (llguidance), and ``transformers`` for the last.
"""

from typing import TYPE_CHECKING, Any

from .calls import Call, declared_calls
from .departure import Departure, find_departure
from .errors import GrammarError
from .json_schema import enforceable_schema
from .matcher import BITMASK_WORDS, Matcher, fill_bitmasks
from .options import TurnOptions
from .structural_tag import structural_tag
from .tool_choice import ToolChoice
from .turn import turn_grammar

if TYPE_CHECKING:
    from .logits_processor import GrammarLogitsProcessor as GrammarLogitsProcessor

__all__ = [
    "BITMASK_WORDS",
    "Call",
    "Departure",
    "GrammarError",
    "Matcher",
    "ToolChoice",
    "TurnOptions",
    "declared_calls",
    "enforceable_schema",
    "fill_bitmasks",
    "find_departure",
    "structural_tag",
    "turn_grammar",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is asked for."""
    if name == "GrammarLogitsProcessor":
        from .logits_processor import GrammarLogitsProcessor

        return GrammarLogitsProcessor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
