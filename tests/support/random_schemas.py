"""Random JSON Schemas, and values to try them with."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any, ClassVar

__all__ = ["VALUES", "SchemaMaker", "orders"]

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
