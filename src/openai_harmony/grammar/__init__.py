"""Structured output for the whole assistant turn: a conversation to a grammar, a grammar to masks.

::

    options                what a turn may do: tool choice, calls, response formats
    json_schema            what a JSON value may be
    turn                   both as one grammar, in the Lark dialect of llguidance
    structural_tag         the same for xgrammar, as far as that can express it
    matcher                the grammar at work, token by token; the first mismatch of a completion
    logits_processor       the same inside `generate` of Hugging Face Transformers

Needs the extra ``grammar`` (llguidance), and ``transformers`` for the last.
"""

from typing import TYPE_CHECKING, Any

from .errors import GrammarError
from .json_schema import enforceable_schema
from .matcher import BITMASK_WORDS, Matcher, Mismatch, fill_bitmasks, find_mismatch
from .options import Call, ToolChoice, TurnOptions, declared_calls
from .structural_tag import structural_tag
from .turn import turn_grammar

if TYPE_CHECKING:
    from .logits_processor import GrammarLogitsProcessor as GrammarLogitsProcessor

__all__ = [
    "BITMASK_WORDS",
    "Call",
    "GrammarError",
    "Matcher",
    "Mismatch",
    "ToolChoice",
    "TurnOptions",
    "declared_calls",
    "enforceable_schema",
    "fill_bitmasks",
    "find_mismatch",
    "structural_tag",
    "turn_grammar",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is asked for."""
    if name == "GrammarLogitsProcessor":
        from .logits_processor import GrammarLogitsProcessor

        return GrammarLogitsProcessor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
