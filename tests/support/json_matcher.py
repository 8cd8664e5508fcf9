"""The grammar engine over single bytes: an enforced schema in, what it accepts out."""

from __future__ import annotations

import json
from typing import Any

from llguidance import LLMatcher, LLTokenizer

from gpt_oss_harmony.grammar.json_schema import JSON_OPTIONS

__all__ = ["accepts_text", "accepts_value", "json_matcher"]

_TOKENIZER = LLTokenizer("byte")


def json_matcher(enforced: object) -> LLMatcher:
    """Compile a schema that `enforceable_schema` or `loosened_schema` returned."""
    schema: dict[str, Any] = enforced if isinstance(enforced, dict) else {}
    grammar = LLMatcher.grammar_from_json_schema(json.dumps({**schema, "x-guidance": JSON_OPTIONS}))
    made = LLMatcher(_TOKENIZER, grammar, log_level=0)
    assert not made.is_error(), made.get_error()
    return made


def accepts_text(made: LLMatcher, text: str) -> bool:
    made.reset()
    tokens = list(text.encode())
    return made.try_consume_tokens(tokens) == len(tokens) and made.is_accepting()


def accepts_value(made: LLMatcher, value: Any) -> bool:
    return accepts_text(made, json.dumps(value, ensure_ascii=False))
