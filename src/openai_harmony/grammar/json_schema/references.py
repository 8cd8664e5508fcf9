"""The places of a schema document: a `$ref` in, the schema that it means out.

Each subschema has a pointer and a base address; `$id` and `$anchor` give names to some. Nothing
outside of the document is ever read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urldefrag, urljoin

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError

__all__ = ["Document", "child_pointer"]

_ONE = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_MANY = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_NAMED = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"},
)
_INDEX = re.compile(r"0|[1-9]\d{0,8}", re.ASCII)


def child_pointer(pointer: str, *steps: str | int) -> str:
    """Return the pointer of something inside.

    >>> child_pointer("#/$defs", "a/b", 0)
    '#/$defs/a~1b/0'
    """
    for step in steps:
        pointer += "/" + str(step).replace("~", "~0").replace("/", "~1")
    return pointer


class Document:
    """A whole schema, and where everything in it is."""

    def __init__(self, root: Schema, pointer: str) -> None:
        self._pointers: dict[int, str] = {}
        self._bases: dict[int, str] = {}
        self._named: dict[str, Schema] = {}
        self._resources: dict[str, Schema] = {"": root}
        self._register(root, pointer, "")

    def pointer(self, schema: Schema) -> str:
        """Return the pointer of a subschema."""
        return self._pointers[id(schema)]

    def referred(self, schema: Schema, keyword: str = "$ref") -> Schema | bool:
        """Return what the reference of a subschema means."""
        place = child_pointer(self.pointer(schema), keyword)
        reference = schema[keyword]
        if not isinstance(reference, str):
            raise GrammarError("a reference is text", remedy="write #/$defs/NAME", pointer=place)
        base = self._bases[id(schema)]
        try:
            address, fragment = urldefrag(urljoin(base, reference) if base else reference)
        except ValueError:
            address, fragment = reference, ""
        target = self._target(address, unquote(fragment))
        if isinstance(target, bool):
            return target
        if not isinstance(target, dict):
            raise GrammarError(
                f"{reference!r} leads to no schema of this document",
                remedy="put the schema under $defs and refer to #/$defs/NAME",
                pointer=place,
            )
        return target

    def _target(self, address: str, fragment: str) -> JsonValue:
        resource = self._resources.get(address)
        if resource is None:
            return None
        if not fragment:
            return resource
        if not fragment.startswith("/"):
            return self._named.get(f"{address}#{fragment}")
        found: JsonValue = resource
        pointer = self._pointers[id(resource)]
        for token in fragment[1:].split("/"):
            key = token.replace("~1", "/").replace("~0", "~")
            pointer = child_pointer(pointer, key)
            if isinstance(found, dict):
                found = found.get(key)
            elif isinstance(found, list) and _INDEX.fullmatch(key) and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        if isinstance(found, dict) and id(found) not in self._pointers:
            self._register(found, pointer, address)  # below a keyword that holds no schemas
        return found

    def _register(self, root: Schema, pointer: str, base: str) -> None:
        """Note the place of each subschema; not what merely looks like one in an enum."""
        waiting = [(root, pointer, base)]
        while waiting:
            schema, place, address = waiting.pop()
            if id(schema) in self._pointers:
                continue
            name = schema.get("$id")
            if isinstance(name, str):
                address = self._joined(address, name, place)
                self._resources.setdefault(address, schema)
            self._pointers[id(schema)] = place
            self._bases[id(schema)] = address
            for keyword in ("$anchor", "$dynamicAnchor"):
                anchor = schema.get(keyword)
                if isinstance(anchor, str):
                    self._named.setdefault(f"{address}#{anchor}", schema)
            waiting += [(child, below, address) for child, below in _children(schema, place)]

    def _joined(self, base: str, name: str, place: str) -> str:
        try:
            return urldefrag(urljoin(base, name))[0]
        except ValueError:
            problem = "it is no address"
            where = child_pointer(place, "$id")
            raise GrammarError(problem, remedy="leave it out", pointer=where) from None


def _children(schema: Schema, pointer: str) -> Iterator[tuple[Schema, str]]:
    for keyword, value in schema.items():
        if isinstance(value, dict):
            if keyword in _ONE:
                yield value, child_pointer(pointer, keyword)
            elif keyword in _NAMED:
                for name, child in value.items():
                    if isinstance(child, dict):
                        yield child, child_pointer(pointer, keyword, name)
        elif isinstance(value, list) and keyword in _MANY:
            for index, child in enumerate(value):
                if isinstance(child, dict):
                    yield child, child_pointer(pointer, keyword, index)
