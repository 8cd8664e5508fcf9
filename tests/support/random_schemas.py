"""Random JSON Schemas, and values to try them with."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any, ClassVar

__all__ = ["VALUES", "ObjectMaker", "SchemaMaker", "orders"]

VALUES: list[Any] = [
    *(None, True, False, 0, 1, 2, 3, -1, 1.5, "", "a", "b", "ab", "bb", "abc"),
    *([], [1], ["a"], ["a", "a"], ["a", "b"], [1, "a"], [True], ["a", 2, 1], [2, 3, 2, "b"]),
    *({}, {"a": 1}, {"a": "a"}, {"b": 1}, {"b": "b"}, {"c": 1}, {"a": None}),
    *({"a": 1, "b": 2}, {"a": "a", "c": 1}, {"b": "b", "c": 3, "a": 2}),
]


def orders(value: Any) -> Iterator[Any]:
    """Yield a value with the names of an object in each order."""
    if isinstance(value, dict):
        yield from map(dict, permutations(value.items()))
    else:
        yield value


class SchemaMaker:
    """Makes random schemas of all keywords that a grammar can follow."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def document(self, levels: int) -> dict[str, Any]:
        """Make a schema whose references lead somewhere."""
        definitions = {"p": self.schema(1), "q": self.schema(levels)}
        made = self.schema(levels)
        return {**(made if isinstance(made, dict) else {"not": not made}), "$defs": definitions}

    def schema(self, levels: int) -> Any:
        pick = self.random
        if pick.random() < 0.06:
            return pick.random() < 0.5
        made: dict[str, Any] = {}
        if pick.random() < 0.5:
            made["type"] = pick.choice(
                ["string", "integer", "number", "object", "array", ["object", "null"]]
            )
        for keyword in pick.sample(sorted(self.keywords), pick.choice([1, 1, 2])):
            made[keyword] = self.keywords[keyword](self)
        for keyword in (
            pick.sample(sorted(self.joining), pick.choice([0, 1, 1, 2, 3])) if levels else ()
        ):
            made[keyword] = self.joining[keyword](self, levels - 1)
        return made

    def names(self) -> list[str]:
        return self.random.sample(["a", "b", "c"], self.random.choice([1, 1, 2]))

    def several(self, levels: int) -> list[Any]:
        return [self.schema(levels) for _ in range(self.random.choice([1, 2, 2, 3]))]

    keywords: ClassVar[dict[str, Callable[[SchemaMaker], Any]]] = {
        "$ref": lambda self: self.random.choice(["#", "#/$defs/p", "#/$defs/q"]),
        "const": lambda self: self.random.choice(VALUES),
        "enum": lambda self: self.random.sample(VALUES, 4),
        "minLength": lambda self: self.random.randint(0, 2),
        "maxLength": lambda self: self.random.randint(0, 2),
        "pattern": lambda self: self.random.choice(
            ["^a", "b$", "^[ab]*$", "b", "^(?!a)", "[^b]", "a.b", "^a|b$", '^[^"]*$', "\\d"]
        ),
        "minimum": lambda self: self.random.choice([-2, -1, 0, 0.5, 2]),
        "exclusiveMinimum": lambda self: self.random.choice([-1, 0, 0.5]),
        "maximum": lambda self: self.random.choice([0, 1, 2.5, 10]),
        "exclusiveMaximum": lambda self: self.random.randint(0, 3),
        "multipleOf": lambda self: self.random.choice([1, 2, 3, 0.5]),
        "required": names,
        "minProperties": lambda self: self.random.randint(0, 2),
        "maxProperties": lambda self: self.random.randint(0, 3),
        "propertyNames": lambda self: {"pattern": self.random.choice(["^a", "b", "^[ab]"])},
        "minItems": lambda self: self.random.randint(0, 2),
        "maxItems": lambda self: self.random.randint(0, 3),
        "uniqueItems": lambda self: True,
        "minContains": lambda self: self.random.randint(0, 2),
        "maxContains": lambda self: self.random.randint(0, 2),
        "dependentRequired": lambda self: {self.names()[0]: self.names()},
    }
    joining: ClassVar[dict[str, Callable[[SchemaMaker, int], Any]]] = {
        "not": schema,
        "allOf": several,
        "anyOf": several,
        "oneOf": several,
        "if": schema,
        "then": schema,
        "else": schema,
        "properties": lambda self, levels: {name: self.schema(levels) for name in self.names()},
        "additionalProperties": schema,
        "patternProperties": lambda self, levels: {
            pattern: self.schema(levels) for pattern in self.random.sample(["^a", "b", "a$"], 2)
        },
        "unevaluatedProperties": schema,
        "items": schema,
        "prefixItems": several,
        "contains": schema,
        "unevaluatedItems": schema,
        "dependentSchemas": lambda self, levels: {self.names()[0]: self.schema(levels)},
    }


class ObjectMaker:
    """Makes schemas of nested objects whose names are listed, matched and excluded at once."""

    NAMES = ("a", "b", "ab", "ba", "c", "")
    # Not the empty pattern: jsonschema forgets it beside `additionalProperties`.
    PATTERNS = ("^a", "b$", "a", "^[ab]+$", "^.b", "^c")
    LEAVES: ClassVar[list[Any]] = [
        *(True, False, {}, {"type": "integer"}, {"type": "string"}),
        *({"enum": [1, "x"]}, {"minimum": 1}, {"maxLength": 1}),
    ]

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def some(self, texts: tuple[str, ...]) -> list[str]:
        return self.random.sample(texts, self.random.choice([1, 1, 2]))

    def schema(self, levels: int, *, of_same_value: bool = False) -> Any:
        """Make a schema; one `of_same_value` is no reference, which would lead to itself."""
        pick = self.random
        kind = pick.random()
        if levels <= 0 or kind < 0.2:
            return pick.choice(self.LEAVES)
        if kind < 0.27 and not of_same_value:
            return {"$ref": "#"}
        if kind < 0.37:
            inner = [self.schema(levels - 1, of_same_value=True) for _ in self.some(self.NAMES)]
            return {pick.choice(["allOf", "anyOf"]): inner}
        made = {
            "type": "object",
            "properties": {name: self.schema(levels - 1) for name in self.some(self.NAMES)},
            "patternProperties": {
                text: self.schema(levels - 1) for text in self.some(self.PATTERNS)
            },
            "additionalProperties": pick.choice([False, self.schema(levels - 1)]),
            "propertyNames": pick.choice(
                [
                    *({"maxLength": 1}, {"minLength": 1}, {"not": {"const": "a"}}),
                    *({"pattern": pick.choice(self.PATTERNS)}, {"enum": self.some(self.NAMES)}),
                ]
            ),
            "required": self.some(self.NAMES),
            "unevaluatedProperties": False,
            "dependentSchemas": {
                pick.choice(self.NAMES): self.schema(levels - 1, of_same_value=True)
            },
        }
        often = zip(made, (0.6, 0.6, 0.5, 0.5, 0.3, 0.3, 0.15, 0.1), strict=True)
        return {keyword: made[keyword] for keyword, share in often if pick.random() < share}

    def value(self, levels: int) -> Any:
        pick = self.random
        if levels <= 0 or pick.random() < 0.3:
            return pick.choice([1, 2, 0, "x", "xx", "", None])
        names = pick.sample(self.NAMES, pick.randrange(3))
        return {name: self.value(levels - 1) for name in names}
