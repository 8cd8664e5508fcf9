"""JSON Schema, feature by feature: what each engine makes of schemas, valid and invalid texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xgrammar  # type: ignore[import-not-found,unused-ignore]
from llguidance import LLMatcher, LLTokenizer

from openai_harmony.grammar import GrammarError, enforceable_schema, loosened_schema
from openai_harmony.grammar.json_schema import JSON_OPTIONS
from openai_harmony.grammar.xgrammar_schema import xgrammar_schema

__all__ = [
    "ENGINES",
    "Accepts",
    "Refused",
    "Score",
    "in_llguidance",
    "in_our_grammar",
    "in_our_loosened_grammar",
    "in_xgrammar",
    "score",
]

ROOT = Path(__file__).resolve().parent.parent.parent
FEATURES = ROOT / "tests" / "data" / "grammar" / "features.json"

Accepts = Callable[[str], bool]


class Refused(Exception):
    """The engine, or `enforceable_schema`, refuses the schema."""


@dataclass
class Score:
    """Counts of schemas and of texts."""

    schemas: int = 0
    compiled: int = 0
    exact: int = 0
    too_open: int = 0
    too_strict: int = 0
    valid: int = 0
    valid_refused: int = 0
    invalid: int = 0
    invalid_accepted: int = 0

    def add(self, accepts: Accepts, valid: Iterable[str], invalid: Iterable[str]) -> None:
        """Count a schema that compiled, and its texts."""
        good, bad = list(valid), list(invalid)
        refused = sum(not accepts(text) for text in good)
        accepted = sum(accepts(text) for text in bad)
        self.compiled += 1
        self.valid += len(good)
        self.valid_refused += refused
        self.invalid += len(bad)
        self.invalid_accepted += accepted
        self.too_strict += refused > 0
        self.too_open += accepted > 0
        self.exact += not refused and not accepted


_BYTES = xgrammar.GrammarCompiler(
    xgrammar.TokenizerInfo([bytes([byte]) for byte in range(256)] + [b"</s>"], stop_token_ids=256),
    max_threads=1,
)
_TOKENIZER = LLTokenizer("byte")


def in_xgrammar(schema: Any) -> Accepts:
    """Compile a schema as a structural tag has it."""
    wanted = {"type": "json_schema", "json_schema": schema}
    try:
        compiled = _BYTES.compile_structural_tag({"type": "structural_tag", "format": wanted})
    except Exception as error:
        raise Refused from error

    def accepts(text: str) -> bool:
        matcher = xgrammar.GrammarMatcher(compiled)
        return bool(matcher.accept_string(text) and matcher.is_completed())

    return accepts


def enforced(schema: Any) -> Any:
    """Return what we hand to an engine."""
    try:
        return enforceable_schema(schema)
    except GrammarError as error:
        raise Refused from error


def in_our_tag(schema: Any) -> Accepts:
    """Compile a schema as our structural tag has it."""
    return in_xgrammar(xgrammar_schema(enforced(schema)))


def in_our_grammar(schema: Any) -> Accepts:
    """Compile a schema as our grammar has it."""
    return _in_our_options(enforced(schema))


def in_our_loosened_grammar(schema: Any) -> Accepts:
    """Compile a schema as our grammar has it, without the keywords that it cannot enforce."""
    try:
        return _in_our_options(loosened_schema(schema).schema)
    except GrammarError as error:
        raise Refused from error


def _in_our_options(schema: Any) -> Accepts:
    return in_llguidance(
        {"x-guidance": JSON_OPTIONS, **(schema if isinstance(schema, dict) else {})}
    )


def in_llguidance(schema: Any) -> Accepts:
    """Compile a schema as it is."""
    text = LLMatcher.grammar_from_json_schema(json.dumps(schema if schema is not True else {}))
    matcher = LLMatcher(_TOKENIZER, text, log_level=0)
    if matcher.is_error():
        raise Refused(matcher.get_error())

    def accepts(text: str) -> bool:
        matcher.reset()
        tokens = list(text.encode())
        return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()

    return accepts


ENGINES: dict[str, Callable[[Any], Accepts]] = {
    "`turn_grammar`, llguidance": in_our_grammar,
    "`structural_tag`, xgrammar": in_our_tag,
    "the schema itself, xgrammar": in_xgrammar,
}


def score(compile_schema: Callable[[Any], Accepts]) -> Score:
    """Run all features."""
    total = Score()
    for feature in json.loads(FEATURES.read_text(encoding="utf-8")):
        total.schemas += 1
        try:
            accepts = compile_schema(feature["schema"])
        except Refused:
            continue
        total.add(accepts, texts(feature, "valid"), texts(feature, "invalid"))
    return total


def texts(feature: dict[str, Any], kind: str) -> set[str]:
    """Return values as models write them, with spaces and compact, and what is given as text."""
    written = {
        json.dumps(value, ensure_ascii=False, separators=separators)
        for value in feature[kind]
        for separators in ((",", ":"), (", ", ": "))
    }
    return written | set(feature.get(f"{kind}_texts", []))
