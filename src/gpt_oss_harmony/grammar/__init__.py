"""Structured output for the whole assistant turn: conversations to grammars, grammars to masks.

::

    options                options of a turn: tool choice, calls, response formats
    json_schema            constraints on JSON values
    text_formats           constraints on texts: regular expressions, choices, Lark, GBNF
    rules                  the rules of a grammar as a tree, and their form for llguidance
    turn                   all constraints as one grammar
    structural_tag         its form for xgrammar, as far as xgrammar can express it
    gbnf                   its form for llama.cpp, as far as GBNF can express it
    matcher                applies a grammar token by token; finds the first mismatch
    closing                ends a turn within a number of tokens
    violations             finds violations of the parts that no grammar enforces
    logits_processor       applies a grammar inside `generate` of Hugging Face Transformers

Needs the extra ``grammar`` (llguidance); `logits_processor` also needs ``transformers``.
"""

from typing import TYPE_CHECKING, Any

from ..installation import needing_extra

with needing_extra("grammars need", "grammar"):
    from ..conversation.tool_choice import ToolChoice
    from .closing import ClosingMatcher, way_to_the_end
    from .errors import GrammarError, StepLimitError
    from .gbnf import turn_gbnf
    from .json_schema import LoosenedSchema, enforceable_schema, loosened_schema
    from .json_spelling import for_llguidance_1_0
    from .matcher import BITMASK_WORDS, Matcher, Mismatch, fill_bitmasks, find_mismatch
    from .options import Call, TurnOptions, declared_calls
    from .rules import TurnGrammar
    from .structural_tag import structural_tag
    from .text_formats import TextFormat
    from .token_table import with_token_ids
    from .turn import TurnConstraint, turn_constraint, turn_grammar
    from .violations import Violation, find_violations

if TYPE_CHECKING:
    from .logits_processor import GrammarLogitsProcessor as GrammarLogitsProcessor

__all__ = [
    "BITMASK_WORDS",
    "Call",
    "ClosingMatcher",
    "GrammarError",
    "LoosenedSchema",
    "Matcher",
    "Mismatch",
    "StepLimitError",
    "TextFormat",
    "ToolChoice",
    "TurnConstraint",
    "TurnGrammar",
    "TurnOptions",
    "Violation",
    "declared_calls",
    "enforceable_schema",
    "fill_bitmasks",
    "find_mismatch",
    "find_violations",
    "for_llguidance_1_0",
    "loosened_schema",
    "structural_tag",
    "turn_constraint",
    "turn_gbnf",
    "turn_grammar",
    "way_to_the_end",
    "with_token_ids",
]


def __getattr__(name: str) -> Any:
    """Import `GrammarLogitsProcessor` on first use, because it needs torch."""
    if name == "GrammarLogitsProcessor":
        from .logits_processor import GrammarLogitsProcessor

        return GrammarLogitsProcessor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
