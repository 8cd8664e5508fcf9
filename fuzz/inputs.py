"""Bytes in; out, the inputs that a fuzzer or Hypothesis chose with them: tokens, schemas, ...

Every byte string gives an input, and bytes that run out count as zeros, so that inputs end. What
comes out is JSON data: a case can be kept as it is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.tokens.special_tokens import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    MESSAGE,
    RETURN,
    START,
    VOCABULARY_SIZE,
)

__all__ = ["Choices", "read_conversation", "read_header", "read_schema", "read_text", "read_tokens"]

_Item = TypeVar("_Item")

_ENCODING = load_harmony_encoding("HarmonyGptOss")
_MARKERS = (START, END, MESSAGE, CHANNEL, CONSTRAIN, RETURN, CALL)
_WORDS = (
    "assistant", "user", "system", "developer", "tool", "analysis", "commentary", "final", "json",
    "code", " to=", "functions.f", "functions", ".", "f", "python", "browser.search", " ", "\n",
    "\t", "?", "??", ":", "{", '"', "x", "X", " assistant", " to", "=", "all", "<|", "|>",
    "<|end|>", "<|start|>assistant", "<|channel|>", "<|message|>", "<|constrain|>", "🏰", "é",
    "\u2028", "\x1c", "Hello", " world", "null", "to=functions.f json", "assistantfinal",
    "analysisassistant",
)  # fmt: skip
_PIECES: tuple[list[int], ...] = (
    *([token] for token in _MARKERS),
    *(_ENCODING.encode(word, disallowed_special=()) for word in _WORDS),
    [_ENCODING.encode("🏰")[0]],  # half a character
    [END - 1],  # a special token that means nothing
)
_TOOLS: tuple[list[str], ...] = ([], ["functions.f"], ["functions.f", "python", "json"])
_ROLES = (None, "assistant", "user", "tool")

_CHARACTERS = (
    "a", "A", "é", "ʰ", "ǅ", "日", "\u0301", "1", "١", "²", " ", "\n", "\r", "\t", "\x0b", "\x0c",
    "\x1c", "\x1f", "\x85", "\xa0", "\u180e", "\u2003", "\u2028", "\u200d", "\ufeff", "'", "s",
    "'ll", "!", "/", "<|", "|>", "\x1f<|separator|>", "\x1e", "🏰", "🏳️‍🌈", "\ud83c",
    "\udff0", "\ufffd", "\x00", "<|end|>", "<|start|>", "  ", "\n\n",
)  # fmt: skip

_LONGEST_RUN = 32  # longer ones show nothing new, and a fuzzer prefers what runs long

_KEYWORDS = (
    "type", "properties", "items", "required", "enum", "const", "anyOf", "oneOf", "allOf", "$ref",
    "$defs", "definitions", "description", "title", "default", "examples", "nullable",
    "additionalProperties", "patternProperties", "prefixItems", "additionalItems", "name", "a",
)  # fmt: skip
_SCHEMA_WORDS = (
    "string", "number", "integer", "boolean", "null", "object", "array", "#", "#/$defs/a",
    "#/$defs", "#/properties/a", "#/$defs/a/items", "#/anyOf/0", "nowhere", "", "a", "two\nlines",
    "*/", "//", "\u2028", '"', "}", "\ud800", "é.json",
)  # fmt: skip
_NUMBERS: tuple[Any, ...] = (0, 1, -1, 1.5, 1e300, 2**63, 2**64, 10**400, float("nan"), True, None)

_FIELDS = (
    "messages", "role", "name", "content", "channel", "recipient", "content_type", "author", "type",
    "text", "instructions", "tools", "response_formats", "json_schema", "parameters", "description",
    "model_identity", "reasoning_effort", "channel_config", "valid_channels", "channel_required",
    "functions",
)  # fmt: skip
_VALUES = (
    "user", "assistant", "system", "developer", "tool", "text", "system_content",
    "developer_content", "", "hi", "analysis", "final", "functions", "<|constrain|>json", "High",
    "\ud800",
)  # fmt: skip

_CONVERSATION: list[dict[str, Any]] = [
    {
        "role": "system",
        "content": [
            {
                "type": "system_content",
                "model_identity": "You are.",
                "reasoning_effort": "Low",
                "conversation_start_date": "2025-06-28",
                "knowledge_cutoff": "2024-06",
                "channel_config": {"valid_channels": ["analysis"], "channel_required": True},
                "tools": {"python": {"name": "python", "description": "Runs.", "tools": []}},
            }
        ],
    },
    {
        "role": "developer",
        "content": [
            {
                "type": "developer_content",
                "instructions": "Be.",
                "tools": {
                    "functions": {
                        "name": "functions",
                        "description": None,
                        "tools": [
                            {"name": "f", "description": "Does.", "parameters": {"type": "object"}}
                        ],
                    }
                },
                "response_formats": {
                    "r": {"name": "r", "description": "As.", "json_schema": {"type": "object"}}
                },
            }
        ],
    },
    {"role": "user", "name": "bob", "content": "hi"},
    {
        "role": "assistant",
        "channel": "commentary",
        "recipient": "functions.f",
        "content_type": "<|constrain|>json",
        "content": [{"type": "text", "text": "{}"}],
    },
    {"role": "tool", "name": "functions.f", "recipient": "assistant", "content": []},
]


class Choices:
    """Choices that follow from bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def number(self) -> int:
        """Take one byte."""
        number = self._data[self._at] if self else 0
        self._at += 1
        return number

    def one_of(self, items: Sequence[_Item]) -> _Item:
        """Take one of a few items."""
        return items[self.number() % len(items)]


def read_tokens(choices: Choices) -> dict[str, Any]:
    """Tokens that look like harmony messages, with what a parser is told beside them."""
    tokens: list[int] = []
    case = {"role": choices.one_of(_ROLES), "tools": _read_tools(choices), "tokens": tokens}
    while choices:
        kind = choices.number()
        if kind < 250:
            tokens += _PIECES[kind % len(_PIECES)]
        elif kind < 254:
            tokens.append((choices.number() << 8 | choices.number()) % VOCABULARY_SIZE)
        else:
            tokens.append(choices.one_of((-1, VOCABULARY_SIZE, 2**31, 2**32, 2**64)))
    return case


def _read_tools(choices: Choices) -> list[str]:
    """Names of tools as people declare them, or any texts: whoever asks chooses them."""
    kind = choices.number()
    if kind < 200:
        return _TOOLS[kind % len(_TOOLS)]
    lengths = [choices.number() % 4 for _ in range(kind % 4)]
    return ["".join(choices.one_of(_CHARACTERS) for _ in range(length)) for length in lengths]


def read_header(choices: Choices) -> dict[str, Any]:
    """Tokens of one header, before a body."""
    case = read_tokens(choices)
    inside = [token for token in case["tokens"] if token not in (START, MESSAGE, END, RETURN, CALL)]
    start = [] if case["role"] else [START]
    return {**case, "tokens": [*start, *inside, MESSAGE, *_PIECES[-3], END]}


def read_text(choices: Choices) -> list[str]:
    """Some texts, of characters that the encoder's pattern tells apart."""
    texts = [""]
    while choices:
        kind = choices.number()
        if kind < 16:
            texts.append("")
        elif kind < 48:
            texts[-1] += choices.one_of(_CHARACTERS) * (choices.number() % _LONGEST_RUN)
        else:
            texts[-1] += _CHARACTERS[kind % len(_CHARACTERS)]
    return texts


def read_schema(choices: Choices) -> Any:
    """A JSON value that resembles a JSON Schema."""
    return {"type": "object", **_object(choices, _KEYWORDS, _SCHEMA_WORDS, 12)}


def read_conversation(choices: Choices) -> str:
    """JSON text that resembles a conversation, or only the beginning of one."""
    end = choices.number()
    shape = choices.number()
    if shape >= 128:
        messages = _edited(choices, choices.one_of([_CONVERSATION, _CONVERSATION[:2]]))
        return json.dumps({"messages": messages})
    value = _value(choices, _FIELDS, _VALUES, 10)
    if shape % 4:
        fields = _object(choices, _FIELDS, _VALUES, 10)
        value = [{"role": choices.one_of(_VALUES[:5]), "content": value, **fields}]
    text = json.dumps({"messages": value} if shape % 8 else value)
    return text[: end * 2] if end % 16 == 15 else text


def _edited(choices: Choices, value: Any) -> Any:
    """Copy a JSON value, perhaps with other values or keys in some places."""
    kind = choices.number()
    if kind >= 250:
        return _value(choices, _FIELDS, _VALUES, 3)
    if isinstance(value, dict):
        edited = {key: _edited(choices, item) for key, item in value.items()}
        if kind >= 240:
            edited.pop(choices.one_of([*edited, ""]), None)
        elif kind >= 230:
            edited[choices.one_of(_FIELDS)] = _value(choices, _FIELDS, _VALUES, 3)
        return edited
    if isinstance(value, list):
        return [_edited(choices, item) for item in value for _ in range(2 if kind >= 240 else 1)]
    return choices.one_of(_VALUES) if kind >= 240 else value


def _value(choices: Choices, keys: Sequence[str], words: Sequence[str], depth: int) -> Any:
    kind = choices.number() % 8
    if kind < 2 and depth:
        return _object(choices, keys, words, depth - 1)
    if kind < 4 and depth:
        count = choices.number() % 4
        return [_value(choices, keys, words, depth - 1) for _ in range(count)]
    if kind == 4:
        return choices.one_of(_NUMBERS)
    return choices.one_of(words)


def _object(
    choices: Choices, keys: Sequence[str], words: Sequence[str], depth: int
) -> dict[str, Any]:
    count = choices.number() % 5
    return {
        choices.one_of(keys): _value(choices, keys, words, max(depth - 1, 0)) for _ in range(count)
    }
