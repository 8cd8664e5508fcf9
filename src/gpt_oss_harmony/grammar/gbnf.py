"""A grammar of `turn_grammar` as GBNF, which every llama.cpp server reads.

GBNF expresses less than llguidance: limits on tokens and most keywords of JSON Schema raise
`GrammarError`. Two things differ from the other forms:

- Objects with declared properties have no other properties, and white space is at most one space.
- llama.cpp allows a stop token exactly where the grammar is complete. The model chooses which one.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from ..tokens.special_tokens import CALL, RETURN
from .errors import GrammarError
from .rules import (
    Choice,
    ClientText,
    FreeText,
    JsonText,
    Literal,
    Optional,
    Part,
    Repeat,
    RuleName,
    Sequence,
    Special,
    TurnGrammar,
)
from .text_formats import TEXT_PATTERN

_PATTERN_PART = re.compile(r"\[(?:[^\]\\]|\\.)*\]|\\?.")
_OPERATORS = frozenset("()|*+?")
_MOST_REPEATED = 1_000  # llama.cpp rejects 2,000

# Each integer of 18 digits has 64 bits, and below 10**18 an exponent of 289 stays finite as a
# double.
_JSON_RULES = r"""json-char ::= [^"\\\x00-\x1F\x7F] | "\\" ["\\bfnrt]
json-string ::= "\"" json-char* "\""
json-integer ::= "-"? ("0" | [1-9] [0-9]{0,17})
json-number ::= json-integer ("." [0-9]{1,17})? ([eE] ("-" [0-9]{1,3} | "+"? ([0-9]{1,2} | "1" [0-9]{2} | "2" [0-8] [0-9])))?
json-comma ::= "," " "?
json-colon ::= ":" " "?
json-array ::= "[" (json-value (json-comma json-value)*)? "]"
json-object ::= "{" (json-string json-colon json-value (json-comma json-string json-colon json-value)*)? "}"
json-value ::= json-object | json-array | json-string | json-number | "true" | "false" | "null"
"""  # noqa: E501

_ANNOTATIONS = {
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
}
_ANNOTATIONS |= {"$comment", "$defs", "$schema", "x-guidance"}
_KEYWORDS = {
    "array": {"items", "minItems", "maxItems"},
    "boolean": set(),
    "integer": set(),
    "null": set(),
    "number": set(),
    "object": {"properties", "required", "additionalProperties"},
    "string": {"minLength", "maxLength"},
}


def turn_gbnf(grammar: str) -> str:
    """Return a grammar of `turn_grammar` as GBNF for llama.cpp, with the ids of special tokens.

    Raises `GrammarError` for what GBNF cannot express, and for text that `turn_grammar` did not
    return.

    >>> from gpt_oss_harmony import Conversation
    >>> from gpt_oss_harmony.grammar import TurnOptions, turn_grammar
    >>> options = TurnOptions(reasoning=False, preambles=False)
    >>> grammar = turn_grammar(Conversation.from_messages([]), options)
    >>> print(turn_gbnf(grammar).partition("TEXT")[0])
    root ::= answer
    answer ::= <[200005]> "final" <[200008]> text
    text ::=
    """
    if not isinstance(grammar, TurnGrammar):
        raise GrammarError(
            "only a grammar of turn_grammar has a form in GBNF",
            remedy="pass what turn_grammar returned, not a copy of its text",
        )
    lines: list[str] = []
    json_rules = _JSON_RULES
    for rule, body in grammar.rules.items():
        name = _renamed(rule)
        match body:
            case JsonText(text):
                schema = json.loads(text)
                if "whitespace_pattern" in schema["x-guidance"]:
                    raise _cannot_express("JSON with white space anywhere", "")
                if schema["x-guidance"]["item_separator"] == ",":
                    json_rules = _JSON_RULES.replace(' " "?', "")
                lines += _Schema(name, schema).rules()
            case FreeText(tokens):
                if tokens is not None:
                    raise _cannot_express("limits on tokens", "")
                lines.append(f"{name} ::= TEXT")
            case ClientText():
                raise _cannot_express("formats of text", "")
            case _:
                lines.append(f"{name} ::= {_written(body)}")
    lines.append(f"TEXT ::= {' '.join(_pattern(TEXT_PATTERN))}")
    text = "\n".join(lines) + "\n"
    return text + json_rules if "json-" in text else text


def _cannot_express(what: str, pointer: str) -> GrammarError:
    return GrammarError(
        f"llama.cpp's own grammars (GBNF) cannot express {what}",
        pointer=pointer,
        remedy="build the server with -DLLAMA_LLGUIDANCE=ON",
    )


def _renamed(name: str) -> str:
    return "root" if name == "start" else name.replace("_", "-")


def _written(part: Part) -> str:
    match part:
        case Literal(text):
            return _quoted(text)
        case Special(token):
            # llama.cpp ends a completion at these itself, once the grammar is complete.
            return "" if token in (RETURN, CALL) else f"<[{token}]>"
        case RuleName(name):
            return _renamed(name)
        case Sequence(parts):
            return " ".join(filter(None, map(_written, parts)))
        case Choice(options):
            return f"({' | '.join(map(_written, options))})"
        case Optional(inner):
            return f"({_written(inner)})?"
        case Repeat(inner, least, most):
            counts = "*" if (least, most) == (0, None) else f"{{{least},{most}}}"
            return f"({_written(inner)}){counts}"


def _pattern(pattern: str) -> Iterator[str]:
    """Yield the parts of a regular expression of letters, classes, groups and repetitions."""
    for part in _PATTERN_PART.findall(pattern):
        is_plain = part in _OPERATORS or part.startswith("[")
        yield part if is_plain else _quoted(part.removeprefix("\\"))


def _quoted(text: str) -> str:
    """Write a literal; GBNF escapes control characters in another way than JSON."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f]", lambda match: f"\\x{ord(match[0]):02X}", escaped) + '"'


def _repeated(item: str, separator: str, least: int, most: int | None, pointer: str) -> str:
    """Write a list of items with a `separator`, which may be empty."""
    if max(least, most or 0) > _MOST_REPEATED:
        raise _cannot_express(f"more than {_MOST_REPEATED:,} repetitions", pointer)
    if most == 0:
        return ""
    if not separator:
        return f"{item}{{{least},{'' if most is None else most}}}"
    rest = f"{max(least - 1, 0)},{'' if most is None else most - 1}"
    items = f"{item} ({separator} {item}){{{rest}}}"
    return items if least else f"({items})?"


class _Schema:
    """Writes the rules of one schema; all names begin with the name of the first rule."""

    def __init__(self, name: str, schema: Any) -> None:
        self._name = name
        self._definitions = schema.get("$defs", {})
        self._numbers = itertools.count()
        self._rules: dict[str, str] = {}
        self._rules[name] = self._value(schema, "#")

    def rules(self) -> Iterator[str]:
        """Yield the lines."""
        for name, body in self._rules.items():
            yield f"{name} ::= {body}"

    def _value(self, schema: Any, pointer: str) -> str:
        if schema is False:
            raise _cannot_express("a schema that allows nothing", pointer)
        asserted = {} if schema is True else {k: schema[k] for k in schema.keys() - _ANNOTATIONS}
        if not asserted:
            return "json-value"
        for keyword in ("$ref", "anyOf", "enum", "const"):
            if keyword in asserted:
                if len(asserted) > 1:
                    raise _cannot_express(f"{keyword} beside other keywords", pointer)
                return self._choice(keyword, asserted[keyword], pointer)
        types = asserted.pop("type", list(_KEYWORDS))
        types = [types] if isinstance(types, str) else types
        known = set().union(*(_KEYWORDS[kind] for kind in types))
        if unknown := sorted(asserted.keys() - known):
            raise _cannot_express(unknown[0], f"{pointer}/{unknown[0]}")
        written = [self._of_type(kind, asserted, pointer) for kind in types]
        return f"({' | '.join(written)})" if len(written) > 1 else written[0]

    def _choice(self, keyword: str, value: Any, pointer: str) -> str:
        if keyword == "$ref":
            key = value.removeprefix("#/$defs/")
            if key not in self._definitions:
                raise _cannot_express(f"the reference {value}", pointer)
            name = f"{self._name}-d{list(self._definitions).index(key)}"
            if name not in self._rules:
                self._rules[name] = ""  # because it may refer to itself
                self._rules[name] = self._value(self._definitions[key], value)
            return name
        if keyword == "anyOf":
            options = [
                self._value(option, f"{pointer}/anyOf/{i}") for i, option in enumerate(value)
            ]
        else:
            options = [
                _quoted(json.dumps(option, ensure_ascii=False, separators=(",", ":")))
                for option in (value if keyword == "enum" else [value])
            ]
        return f"({' | '.join(options)})"

    def _of_type(self, kind: str, schema: dict[str, Any], pointer: str) -> str:
        if kind in ("boolean", "null"):
            return '("true" | "false")' if kind == "boolean" else '"null"'
        if not schema.keys() & _KEYWORDS[kind]:
            return f"json-{kind}"
        if kind == "string":
            least, most = schema.get("minLength", 0), schema.get("maxLength")
            return rf'"\"" {_repeated("json-char", "", least, most, pointer)} "\""'
        if kind == "array":
            item = self._value(schema.get("items", True), f"{pointer}/items")
            least, most = schema.get("minItems", 0), schema.get("maxItems")
            return f'"[" {_repeated(item, "json-comma", least, most, pointer)} "]"'
        return self._object(schema, pointer)

    def _object(self, schema: dict[str, Any], pointer: str) -> str:
        properties, required = schema.get("properties", {}), set(schema.get("required", ()))
        if missing := sorted(required - properties.keys()):
            raise _cannot_express(f"the required name {missing[0]}", f"{pointer}/required")
        others = schema.get("additionalProperties", True)
        if not properties:
            if others is False:
                return '"{" "}"'
            value = self._value(others, f"{pointer}/additionalProperties")
            members = _repeated(f"json-string json-colon {value}", "json-comma", 0, None, pointer)
            return f'"{{" {members} "}}"'
        # The rest after a property has two rules: one with a member before it, one without.
        first = rest = '""'
        number = next(self._numbers)
        for index, (key, value) in reversed(list(enumerate(properties.items()))):
            written = self._value(value, f"{pointer}/properties/{key}")
            member = f"{_quoted(json.dumps(key, ensure_ascii=False))} json-colon {written}"
            name = f"{self._name}-p{number}-{index}"
            is_required = key in required
            self._rules[f"{name}-rest"] = f"json-comma {member} {rest}" + (
                "" if is_required else f" | {rest}"
            )
            self._rules[f"{name}-first"] = f"{member} {rest}" + (
                "" if is_required else f" | {first}"
            )
            first, rest = f"{name}-first", f"{name}-rest"
        return f'"{{" {first} "}}"'
