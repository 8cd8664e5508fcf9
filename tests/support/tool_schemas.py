"""Random schemas as people write them: tools and answers with texts, numbers, lists and records."""

from __future__ import annotations

import random
from typing import Any

__all__ = ["PATTERNS", "tool_schema"]

PATTERNS = [
    *(r"^v\d+\.\d+\.\d+$", r"^.*\.json$", r"\.git$", "xyz", r"^arn:aws:[a-z]+:.*:\d{12}:.+$"),
    *("^[^a-z]+@[^0-9]+$", r"^\S.*\S$", "https?://.*", "a", "^[A-Z]{2,4}-[0-9]{3,6}$"),
    *(r"^#[0-9a-fA-F]{6}$", r"^[a-z][a-z0-9_]*$", r"^\+?[1-9]\d{1,14}$", "^(GET|POST|PUT)$"),
    *(r"^[\w.+-]+@[\w-]+\.[\w.]+$", r"^\d{4}-\d{2}$", "^s3://[a-z0-9.-]{3,63}/.+", "[aeiou]{2}"),
    *(r"^(?!-)[a-z0-9-]+$", "^/([^/]+/)*[^/]*$", r"^\s*\S+\s*$", "^[ -~]+$", r"\d", "^x{40}$"),
]
"""Patterns of texts, some of published tools."""

_FORMATS = [
    *("date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"),
    *("uri", "uri-reference", "json-pointer", "int32", "password"),
]
_NAMES = [
    *("name", "path", "query", "limit", "offset", "tags", "owner", "repo", "message", "content"),
    *("start", "end", "filter", "sort", "ids", "options", "config", "labels", "url", "mode"),
]


class _Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self) -> dict[str, Any]:
        pick, made = self.random, dict[str, Any](type="string")
        kind = pick.random()
        if kind < 0.2:
            return {"enum": pick.sample(["asc", "desc", "open", "closed", "all", "a b", "日本"], 3)}
        if kind < 0.4:
            made["pattern"] = pick.choice(PATTERNS)
        elif kind < 0.55:
            made["format"] = pick.choice(_FORMATS)
        if pick.random() < 0.25:
            made["minLength"] = pick.choice([1, 1, 2, 3, 8, 20, 50])
        if pick.random() < 0.25:
            made["maxLength"] = made.get("minLength", 0) + pick.choice([4, 10, 60, 255, 1000])
        if pick.random() < 0.5:
            made["description"] = "A text."
        return made

    def number(self) -> dict[str, Any]:
        pick = self.random
        made: dict[str, Any] = {"type": pick.choice(["integer", "integer", "number"])}
        if pick.random() < 0.5:
            made["minimum"] = pick.choice([0, 1, -10, 0.5, 100, 1_577_836_800_000])
        if pick.random() < 0.4:
            made["maximum"] = made.get("minimum", 0) + pick.choice([9, 100, 65_535, 10**12, 2.5])
        if pick.random() < 0.1:
            made["multipleOf"] = pick.choice([2, 5, 0.25, 10])
        if pick.random() < 0.1:
            made["default"] = 10
        return made

    def record(self, levels: int) -> dict[str, Any]:
        pick = self.random
        names = pick.sample(_NAMES, pick.choice([0, 1, 2, 3, 4, 6]))
        made: dict[str, Any] = {
            "type": "object",
            "properties": {name: self.schema(levels - 1) for name in names},
        }
        if names and pick.random() < 0.8:
            made["required"] = pick.sample(names, pick.randint(1, len(names)))
        if pick.random() < 0.4:
            made["additionalProperties"] = pick.choice([False, False, {"type": "string"}])
        if pick.random() < 0.06:
            made["patternProperties"] = {"^x-": self.schema(0)}
        return made

    def array(self, levels: int) -> dict[str, Any]:
        pick, made = self.random, dict[str, Any](type="array", items=self.schema(levels - 1))
        if pick.random() < 0.4:
            made["minItems"] = pick.choice([1, 1, 2, 3])
        if pick.random() < 0.3:
            made["maxItems"] = made.get("minItems", 0) + pick.choice([0, 1, 5, 100])
        return made

    def schema(self, levels: int) -> Any:
        pick = self.random
        kind = pick.random()
        if levels > 0 and kind < 0.25:
            return self.record(levels)
        if levels > 0 and kind < 0.4:
            return self.array(levels)
        if levels > 0 and kind < 0.47:
            return {"anyOf": [self.schema(levels - 1), {"type": "null"}]}
        if kind < 0.5:
            return pick.choice(
                [{}, {"type": ["string", "null"]}, {"const": "fixed"}, {"type": "boolean"}]
            )
        if kind < 0.58:
            return {"type": "boolean"}
        return self.text() if kind < 0.85 else self.number()


def tool_schema(seed: int) -> dict[str, Any]:
    """Return the parameters of a tool; equal seeds have equal schemas."""
    maker = _Maker(seed)
    made = maker.record(3)
    if maker.random.random() < 0.1:
        names = list(made["properties"])
        if names:
            made["$defs"] = {"node": {**maker.record(1), "description": "A node."}}
            made["$defs"]["node"]["properties"]["next"] = {"$ref": "#/$defs/node"}
            made["properties"][names[0]] = {"$ref": "#/$defs/node"}
    return made
