"""What masks are computed along, and what is compiled: completions, and tools never seen."""

from __future__ import annotations

import json
import random
from typing import Any

from benchmarks.workloads import ENCODING, prose
from gpt_oss_harmony import Conversation, DeveloperContent, Message, Role, ToolDescription

__all__ = ["COMPLETIONS", "tools"]

_CODE = """\
template <typename T> std::vector<T> sorted(const std::map<int, T>& from) {
    for (int i = 0; i < size && values[i] <= limit; ++i) { out << values[i] << "\\n"; }
    if (a < b || c <d) return <html><body class="x">{items.map(i => <li>{i}</li>)}</body></html>;
}
"""
_FINAL = "<|channel|>final<|message|>"
_CALL = "<|channel|>commentary to=functions.tool_0 <|constrain|>json<|message|>"


def tools(seed: int, count: int, *, closed: bool = True) -> Conversation:
    """Declare that many tools, with other names and enums for each seed."""
    rng = random.Random(seed)
    declared = [
        ToolDescription.new(f"tool_{at}", prose(rng, 14), _parameters(rng, closed))
        for at in range(count)
    ]
    content = DeveloperContent.new().with_function_tools(declared)
    return Conversation.from_messages([Message.from_role_and_content(Role.DEVELOPER, content)])


def _parameters(rng: random.Random, closed: bool) -> dict[str, Any]:
    def described(schema: dict[str, Any]) -> dict[str, Any]:
        return {**schema, "description": prose(rng, 8)}

    def closed_object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
        found = {"type": "object", "properties": properties, "required": required}
        return {**found, "additionalProperties": False} if closed else found

    number = rng.randrange(10**6)
    units = [f"unit_{rng.randrange(10**6)}" for _ in range(4)]
    filters = closed_object(
        {"field": {"type": "string"}, "equals": {"type": ["string", "number", "null"]}},
        ["field"],
    )
    properties = {
        "text": described({"type": "string"}),
        f"limit_{number}": described({"type": "integer", "minimum": 1, "maximum": 100}),
        f"unit_{number}": described({"type": "string", "enum": units}),
        f"tags_{number}": described({"type": "array", "items": {"type": "string"}}),
        f"filters_{number}": described({"type": "array", "items": filters}),
        f"exact_{number}": described({"type": "boolean"}),
    }
    return closed_object(properties, ["text"])


def _tokens(completion: str) -> list[int]:
    return ENCODING.encode(completion, allowed_special="all")


def _arguments() -> str:
    """Write a call of the first tool of seed 0."""
    content = tools(0, 1).messages[0].content[0]
    assert isinstance(content, DeveloperContent)
    declared = (content.tools or {})["functions"].tools[0].parameters
    assert declared is not None
    text, limit, unit, tags, filters, exact = declared["properties"]
    arguments = {
        text: prose(random.Random(3), 12),
        limit: 20,
        unit: declared["properties"][unit]["enum"][1],
        tags: ["weather", "trains", "mountains"],
        filters: [{"field": "city", "equals": "Tokyo"}, {"field": "year", "equals": 2024}],
        exact: True,
    }
    return json.dumps(arguments)


COMPLETIONS: dict[str, list[int]] = {
    "prose": _tokens(f"{_FINAL}{prose(random.Random(1), 700)}<|return|>"),
    "code with <": _tokens(f"{_FINAL}{_CODE * 8}<|return|>"),
    "a tool call": _tokens(f"{_CALL}{_arguments()}<|call|>"),
    "a long JSON string": _tokens(
        f"{_CALL}{json.dumps({'text': (_CODE + prose(random.Random(2), 60)) * 6})}<|call|>"
    ),
}
"""Completions under the tools of seed 0."""
