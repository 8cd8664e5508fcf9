"""Random Chat Completions requests, as many clients write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

WORDS = [
    *("Tokyo", "naïve café", "日本", "a  b", "1,234", "\n\tif x:", "🙂", "{x}", "a <| b", "<|x|>"),
    *("x\r\n", "\u2028y", "\x85", " "),
]
NAMES = ["get", "put", "get.it", "python", "browser.open", "get_weather", "日本"]


class ChatMaker:
    """Makes random chats of all roles, in any order that the API takes.

    Assistants write preambles in messages of their own, and give several calls one id. Results
    come in any order. `extra` are further words that texts may have.
    """

    def __init__(self, chance: Random, extra: list[str] | None = None) -> None:
        self.chance = chance
        self.words = WORDS + (extra or [])
        self.names = chance.sample(NAMES, chance.randint(1, 3))
        self.ids = ["call_1", "call_2", "call_3", ""][: chance.randint(1, 4)]

    def text(self) -> str:
        return " ".join(self.chance.choices(self.words, k=self.chance.randint(1, 3)))

    def happens(self, share: float) -> bool:
        return self.chance.random() < share

    def chat(self) -> dict[str, Any]:
        """Make a request: its messages, its tools and its settings."""
        chat: dict[str, Any] = {"messages": self.messages()}
        if self.happens(0.5):
            tools = [self.tool(name) for name in self.names if self.happens(0.7)]
            # The same tool twice counts once.
            chat["tools"] = tools + (tools[:1] if self.happens(0.1) else [])
        if self.happens(0.3):
            chat["reasoning_effort"] = self.chance.choice(["low", "medium", "high", None])
        if self.happens(0.2):
            chat["response_format"] = self.response_format()
        return chat

    def messages(self) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        called: list[str] = []
        for _ in range(self.chance.randint(1, 9)):
            kind = self.chance.choice(
                ["user", "assistant", "assistant", "assistant", "tool", "tool"]
            )
            if self.happens(0.07):
                kind = self.chance.choice(["system", "developer"])
            if kind == "assistant":
                made.append(self.answer())
                called += [call["id"] for call in made[-1].get("tool_calls") or []]
            elif kind == "tool":
                if not called:
                    continue
                call_id = self.chance.choice(called)
                made.append({"role": "tool", "tool_call_id": call_id, "content": self.content()})
            else:
                is_listed = kind != "user" and self.happens(0.3)
                content = self.instructions() if is_listed else self.content()
                made.append({"role": kind, "content": content})
                if kind == "user" and self.happens(0.2):
                    made[-1]["name"] = self.chance.choice(["bob", "a.b-c_1", "B B", "", "x" * 65])
        return made or [{"role": "user", "content": self.text()}]

    def content(self) -> Any:
        text = "" if self.happens(0.1) else self.text()
        return text if self.happens(0.8) else [{"type": "text", "text": text}]

    def instructions(self) -> Any:
        """Make instructions, of any number of parts."""
        parts = [self.content() for _ in range(self.chance.randint(0, 3))]
        return [{"type": "text", "text": part} for part in parts if isinstance(part, str)]

    def answer(self) -> dict[str, Any]:
        """Make a message by the assistant: reasoning, text, a refusal, calls."""
        made: dict[str, Any] = {"role": "assistant"}
        if self.happens(0.4):
            made["tool_calls"] = [self.call() for _ in range(self.chance.choice([0, 1, 1, 2, 3]))]
        for name in ("reasoning", "reasoning_content", "thinking"):
            if self.happens(0.2):
                made[name] = self.chance.choice([None, "", self.text()])
        may_be_missing = made.get("tool_calls") or any(
            made.get(name) for name in ("reasoning", "reasoning_content", "thinking")
        )
        if self.happens(0.1):
            made |= {"content": self.chance.choice([None, ""]), "refusal": self.text()}
        elif may_be_missing and self.happens(0.5):
            made["content"] = None
        elif not (may_be_missing and self.happens(0.3)):
            made["content"] = self.content()
        return made

    def call(self) -> dict[str, Any]:
        arguments = json.dumps({"a": self.text()}) if self.happens(0.8) else self.text()
        function = {"name": self.chance.choice(self.names), "arguments": arguments}
        kind = {"type": "function"} if self.happens(0.9) else {}
        return {"id": self.chance.choice(self.ids), **kind, "function": function}

    def tool(self, name: str) -> dict[str, Any]:
        function: dict[str, Any] = {"name": name}
        if self.happens(0.7):
            function["description"] = self.chance.choice([None, "", self.text()])
        if self.happens(0.7):
            function["parameters"] = self.parameters()
        return {"type": "function", "function": function}

    def parameters(self) -> Any:
        if self.happens(0.2):
            return self.chance.choice([None, {}, True, False])
        fields = {name: {"type": "string"} for name in ("a", "b c")}
        return {"type": "object", "properties": fields, "required": ["a"]}

    def response_format(self) -> dict[str, Any]:
        schema = self.chance.choice(
            [{}, {"type": "object"}, {"const": [1, 0.5, None, self.text()]}]
        )
        wanted: dict[str, Any] = {"name": "list", "schema": schema}
        if self.happens(0.2):
            wanted["schema"] = None
        if self.happens(0.5):
            wanted["description"] = self.text()
        return self.chance.choice(
            [
                {"type": "text"},
                {"type": "json_object"},
                {"type": "json_schema", "json_schema": wanted},
                {"type": "json_schema", **wanted},
            ]
        )


class ToolSchemaMaker:
    """Makes random schemas of a tool's parameters: what the TypeScript shows, and junk."""

    def __init__(self, chance: Random, junk: float = 0.1) -> None:
        self.chance = chance
        self.junk = junk

    def happens(self, share: float) -> bool:
        return self.chance.random() < share

    def text(self) -> str:
        texts = [
            *("One.", "Two. ", " a", "", "a\nb", "\nx\n", "a\r\n b\u2028", '"q"', "x", "//", "é|"),
        ]
        return self.chance.choice(texts)

    def value(self) -> Any:
        values: list[Any] = [
            *(None, True, False, 0, 1, 2, -1.5, 2.0, 1e20, 1e-7, 2**64, "a", "b", "", "a\nb"),
            *([1, "a"], [], {}),
        ]
        return self.chance.choice([*values, {"a": [None, 1.5]}, self.text()])

    def kind(self) -> Any:
        kinds = ["string", "integer", "number", "boolean", "null", "object", "array"]
        if self.happens(0.3):
            return self.chance.sample(kinds, self.chance.randint(0, 3))
        return self.chance.choice([*kinds, "object"])

    def schema(self, levels: int) -> Any:
        """Make a schema; each keyword may also have any value."""
        if self.happens(0.04):
            return self.chance.choice([True, False])
        if self.happens(self.junk / 8):
            return self.value()
        made: dict[str, Any] = {}
        for keyword, (share, make) in _KEYWORDS.items():
            if self.happens(share) and (levels or keyword not in _JOINING):
                made[keyword] = self.value() if self.happens(self.junk) else make(self, levels - 1)
        pairs = list(made.items())
        self.chance.shuffle(pairs)
        return dict(pairs)

    def several(self, levels: int) -> list[Any]:
        return [self.schema(levels) for _ in range(self.chance.randint(0, 3))]

    def fields(self, levels: int) -> dict[str, Any]:
        names = self.chance.sample(["a", "b", "b c", "1", "日本", ""], self.chance.randint(0, 3))
        return {name: self.schema(levels) for name in names}


_JOINING = {"anyOf", "oneOf", "properties", "additionalProperties", "items", "allOf", "prefixItems"}
_KEYWORDS: dict[str, tuple[float, Callable[[ToolSchemaMaker, int], Any]]] = {
    "type": (0.6, lambda maker, _: maker.kind()),
    "description": (0.3, lambda maker, _: maker.text()),
    "title": (0.1, lambda maker, _: maker.text()),
    "default": (0.2, lambda maker, _: maker.value()),
    "examples": (0.1, lambda maker, _: [maker.value(), maker.text()]),
    "enum": (0.1, lambda maker, _: [maker.value() for _ in range(maker.chance.randint(0, 3))]),
    "const": (0.05, lambda maker, _: maker.value()),
    "nullable": (0.15, lambda maker, _: maker.happens(0.7)),
    "required": (0.2, lambda maker, _: ["a", "b c"]),
    "anyOf": (0.25, ToolSchemaMaker.several),
    "oneOf": (0.15, ToolSchemaMaker.several),
    "allOf": (0.02, ToolSchemaMaker.several),
    "prefixItems": (0.02, ToolSchemaMaker.several),
    "properties": (0.3, ToolSchemaMaker.fields),
    "additionalProperties": (0.15, ToolSchemaMaker.schema),
    "items": (0.2, ToolSchemaMaker.schema),
    "$ref": (0.01, lambda maker, _: "#"),
    "minimum": (0.1, lambda maker, _: 1),
}
