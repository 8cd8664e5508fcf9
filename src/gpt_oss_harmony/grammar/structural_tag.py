"""The turn as a structural tag of xgrammar, for engines that cannot use the grammar of `turn`.

The tag accepts everything that `turn_grammar` accepts, except some spellings of JSON, and more. A
structural tag cannot express these restrictions:

- The stop token of the turn. xgrammar allows any stop token of the engine after a complete tag:
  ``<|call|>`` may end an answer, and ``<|return|>`` a call.
- No special tokens in a JSON string (it may spell one). Only the engine's stop tokens are
  forbidden there.
- No text that looks like ``<|word|>``. A text neither contains nor spells a special token; it
  cannot contain ``<|reserved_``, with which most of them begin.
- The amount of white space in JSON.
- The keywords of a schema that `xgrammar_schema` leaves out and xgrammar ignores.
  docs/guides/structural-tag.md lists them, and the values that xgrammar rejects.

Written for xgrammar 0.2.8, which has ``token``, ``repeat`` and ``max_tokens``.
"""

from __future__ import annotations

import json
from typing import Any

from ..conversation.messages import Conversation
from ..tokens.special_tokens import CALL, RETURN, SPECIAL_TEXTS
from .errors import GrammarError
from .options import TurnOptions
from .rules import (
    Body,
    Choice,
    ClientText,
    FreeText,
    JsonText,
    Literal,
    Optional,
    Part,
    Repeat,
    RuleName,
    Rules,
    Sequence,
    Special,
    TurnGrammar,
)
from .turn import turn_grammar
from .xgrammar_schema import xgrammar_schema

Format = dict[str, Any]
"""A format object of xgrammar."""

# A text must not contain these: the named special tokens, and the beginning of the reserved ones.
# If each reserved token were listed, a mask would take ten times longer.
_RESERVED = "<|reserved_"
_SPELLED = [
    *(text for text in SPECIAL_TEXTS.values() if not text.startswith(_RESERVED)),
    _RESERVED,
]


def structural_tag(
    conversation: Conversation, options: TurnOptions | None = None
) -> dict[str, Any]:
    """Return xgrammar's structural tag for the next turn of the assistant, as JSON data.

    Raises `GrammarError` for what `turn_grammar` cannot enforce, and for formats of text.

    >>> from gpt_oss_harmony import Message, Role
    >>> hi = Conversation.from_messages([Message.from_role_and_content(Role.USER, "hi")])
    >>> tag = structural_tag(hi, TurnOptions(reasoning=False, preambles=False))
    >>> tag["format"]["elements"][:2]
    [{'type': 'token', 'token': 200005}, {'type': 'const_string', 'value': 'final'}]
    """
    return tag_of_grammar(turn_grammar(conversation, options))


def tag_of_grammar(grammar: TurnGrammar) -> dict[str, Any]:
    """Return the structural tag of a grammar that `turn_grammar` wrote."""
    return {"type": "structural_tag", "format": _body(grammar.rules["start"], grammar.rules)}


def _body(body: Body, rules: Rules) -> Format:
    match body:
        case FreeText(tokens):
            # The pattern of `turn_grammar` is more exact, but its masks take 0.2 s each here.
            bound = {} if tokens is None else {"max_tokens": tokens}
            return {"type": "any_text", "excludes": _SPELLED, **bound}
        case JsonText(text):
            schema = json.loads(text)
            del schema["x-guidance"]
            return {"type": "json_schema", "json_schema": xgrammar_schema(schema or True)}
        case ClientText():
            raise GrammarError("xgrammar cannot enforce formats of text", remedy="use turn_grammar")
        case _:
            return _format(body, rules)


def _format(part: Part, rules: Rules) -> Format:
    match part:
        case Literal(text):
            return {"type": "const_string", "value": text}
        case Special(token):
            named: Format = {"type": "token", "token": token}
            # For engines that do not stop at it; others allow their stop tokens after the tag.
            return _optional(named) if token in (RETURN, CALL) else named
        case RuleName(name):
            return _body(rules[name], rules)
        case Sequence(parts):
            return _sequence(*(_format(inner, rules) for inner in parts))
        case Choice(options):
            elements = [_format(option, rules) for option in options]
            return elements[0] if len(elements) == 1 else {"type": "or", "elements": elements}
        case Optional(inner):
            return _optional(_format(inner, rules))
        case Repeat(inner, least, most):
            content = _format(inner, rules)
            if most is None:
                return {"type": "star", "content": content}
            return {"type": "repeat", "min": least, "max": most, "content": content}


def _optional(content: Format) -> Format:
    return {"type": "optional", "content": content}


def _sequence(*elements: Format) -> Format:
    """Write a sequence of formats, flattened."""
    flat: list[Format] = []
    for element in elements:
        flat += element["elements"] if element["type"] == "sequence" else [element]
    return flat[0] if len(flat) == 1 else {"type": "sequence", "elements": flat}
