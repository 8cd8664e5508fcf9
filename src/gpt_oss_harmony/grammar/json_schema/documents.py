"""A schema document: the schema as plain JSON, and the targets of its `$ref`s.

Each subschema has a pointer and a base address; `$id` and `$anchor` name some subschemas. Nothing
outside the document is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUserError

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError
from .budget import spend

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
    {
        "$defs",
        "definitions",
        "dependencies",
        "dependentSchemas",
        "patternProperties",
        "properties",
    }
)
_SINCE = {
    "6": ("const", "contains", "propertyNames"),
    "7": ("if", "then", "else", "contentEncoding", "contentMediaType"),
    "later": (
        *("$dynamicRef", "$recursiveRef", "dependentRequired", "dependentSchemas", "maxContains"),
        *("minContains", "prefixItems", "unevaluatedItems", "unevaluatedProperties"),
    ),
}
"""The keywords that assert something only since a draft; in older ones they are unknown words."""
_BOUNDS = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
_DEFINING = frozenset({"$defs", "definitions"})
_OLD_DRAFT = re.compile(r"json-schema\.org/draft-0([3-7])/")
_INDEX = re.compile(r"0|[1-9]\d{0,8}", re.ASCII)


def child_pointer(pointer: str, *steps: str | int) -> str:
    """Return the pointer of a child.

    >>> child_pointer("#/$defs", "a/b", 0)
    '#/$defs/a~1b/0'
    """
    for step in steps:
        pointer += "/" + str(step).replace("~", "~0").replace("/", "~1")
    return pointer


REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
"""The keywords that refer to a schema elsewhere."""

KEYWORDS = frozenset(
    {
        *_ONE,
        *_MANY,
        *_NAMED,
        *REFERENCES,
        *("$anchor", "$dynamicAnchor", "$recursiveAnchor"),
        *(keyword for keywords in _SINCE.values() for keyword in keywords),
    }
)
"""The keywords that contain schemas, refer to them or name them."""

COPY_LIMIT = 5_000
"""The most schemas that are copied because dynamic references have other targets in them."""

_Scope: TypeAlias = dict[str, Schema]
"""The targets of dynamic references by their anchor's name: the outermost such anchor."""


class Document:
    """A whole schema, and the pointers of everything in it.

    `is_old` is true if the schema names draft 7 or an older one. Then keywords beside a `$ref` and
    those of newer drafts are ignored, and a `$id` of ``#name`` is an anchor. In draft 4 and before,
    `exclusiveMinimum` and `exclusiveMaximum` are booleans. `is_2019` is true if the schema names
    draft 2019-09.
    """

    def __init__(self, root: Schema, pointer: str) -> None:
        self._pointers: dict[int, str] = {}
        self._bases: dict[int, str] = {}
        self._named: dict[str, Schema] = {}
        self._dynamic: dict[str, _Scope] = {}
        self._scopes: dict[int, _Scope] = {}
        self._scoped: dict[tuple[int, tuple[int, ...]], Schema] = {}
        self._copies = 0
        self._added: dict[int, Schema] = {}
        self._whole: dict[int, Schema] = {}
        draft = _OLD_DRAFT.search(str(root.get("$schema")))
        self.is_old = draft is not None
        self._is_draft_4 = draft is not None and draft[1] in "34"
        self._unknown = [
            keyword
            for since, keywords in _SINCE.items()
            if draft is not None and draft[1] < since  # a digit sorts before "later"
            for keyword in keywords
        ]
        self.is_2019 = "/draft/2019-09/" in str(root.get("$schema"))
        self._definitions = "definitions" if self.is_old else "$defs"
        self._resources: dict[str, Schema] = {"": root}
        self._register(root, pointer, "")
        anchors = [anchor for anchors in self._dynamic.values() for anchor in anchors]
        self._ambiguous = sorted({anchor for anchor in anchors if anchors.count(anchor) > 1})
        self.root = self._in_scope(root, {})

    @property
    def has_scopes(self) -> bool:
        """Whether the targets of some dynamic references depend on where they are used."""
        return bool(self._ambiguous)

    def pointer(self, schema: Schema) -> str:
        """Return the pointer of a subschema."""
        return self._pointers[id(schema)]

    def add(self, schema: Schema, pointer: str) -> Schema:
        """Give a pointer to a schema that is not in the document, and return the schema."""
        waiting = [schema]
        while waiting:
            added = waiting.pop()
            if id(added) not in self._pointers:
                spend(5)
                self._added[id(added)] = added  # kept, so that no other object gets its id
                self._pointers[id(added)] = pointer
                self._bases[id(added)] = ""
                waiting += [child for child, _ in _children(added, "")]
        return schema

    def has(self, schema: Schema) -> bool:
        """Return whether a schema is in the document; False if it was added."""
        return id(schema) not in self._added

    def referred(self, schema: Schema, keyword: str = "$ref") -> Schema | bool:
        """Return the target of a subschema's reference."""
        pointer = child_pointer(self.pointer(schema), keyword)
        reference = schema[keyword]
        if not isinstance(reference, str):
            remedy = f"write #/{self._definitions}/NAME"
            raise GrammarError("a reference must be text", remedy=remedy, pointer=pointer)
        base = self._bases[id(schema)]
        try:
            inside = reference.startswith("#")  # urljoin does not support fragments of a URN
            joined = base + reference if inside else urljoin(base, reference)
            address, fragment = urldefrag(joined)
        except ValueError:
            address, fragment = reference, ""
        target = self._target(address, unquote(fragment))
        if isinstance(target, bool):
            return target
        scope = self._scopes.get(id(schema), {})
        if isinstance(target, dict):
            dynamic = keyword == "$dynamicRef" and target.get("$dynamicAnchor") == fragment
            if dynamic or (keyword == "$recursiveRef" and target.get("$recursiveAnchor") is True):
                target = scope.get(fragment, target)
            return self._in_scope(target, scope)
        definitions = self._definitions
        raise GrammarError(
            f"{reference!r} leads to no schema of this document",
            remedy=f"put the schema under {definitions} and refer to #/{definitions}/NAME",
            pointer=pointer,
        )

    def _in_scope(self, schema: Schema, scope: _Scope) -> Schema:
        """Return a schema in a scope: a copy if its dynamic references may have other targets."""
        if not self._ambiguous:
            return schema
        scope = {**self._dynamic.get(self._bases[id(schema)], {}), **scope}
        key = id(schema), tuple(id(scope.get(anchor)) for anchor in self._ambiguous)
        if key not in self._scoped:
            self._scoped[key] = self._copied(schema, scope)
        return self._scoped[key]

    def _copied(self, schema: Schema, scope: _Scope) -> Schema:
        spend(10 + len(schema))
        self._copies += 1
        if self._copies > COPY_LIMIT:
            raise GrammarError(
                f"$dynamicRef and $recursiveRef stand for more than {COPY_LIMIT:,} schemas",
                remedy="use $ref",
                pointer=self._pointers[id(schema)],
            )
        base = self._bases[id(schema)]
        scope = {**self._dynamic.get(base, {}), **scope}
        copied: Schema = {}
        for keyword, value in schema.items():
            if isinstance(value, dict) and keyword in _ONE:
                copied[keyword] = self._copied(value, scope)
            elif isinstance(value, dict) and keyword in _NAMED - _DEFINING:
                copied[keyword] = {
                    name: self._copied(child, scope) if isinstance(child, dict) else child
                    for name, child in value.items()
                }
            elif isinstance(value, list) and keyword in _MANY:
                copied[keyword] = [
                    self._copied(child, scope) if isinstance(child, dict) else child
                    for child in value
                ]
            else:
                copied[keyword] = value
        self._pointers[id(copied)] = self._pointers[id(schema)]
        self._bases[id(copied)], self._scopes[id(copied)] = base, scope
        return copied

    def _target(self, address: str, fragment: str) -> JsonValue:
        resource = self._resources.get(address)
        if resource is None:
            return None
        if not fragment:
            return resource
        if not fragment.startswith("/"):
            return self._named.get(f"{address}#{fragment}")
        target: JsonValue = resource
        pointer = self._pointers[id(resource)]
        for token in fragment[1:].split("/"):
            key = token.replace("~1", "/").replace("~0", "~")
            pointer = child_pointer(pointer, key)
            if isinstance(target, dict):
                target = self._whole.get(id(target), target).get(key)
            elif isinstance(target, list) and _INDEX.fullmatch(key) and int(key) < len(target):
                target = target[int(key)]
            else:
                return None
        if isinstance(target, dict) and id(target) not in self._pointers:
            self._register(target, pointer, address)  # below a keyword that contains no schemas
        return target

    def _register(self, root: Schema, pointer: str, base: str) -> None:
        """Store the pointer of each subschema, but not of values in an enum that look like one."""
        waiting = [(root, pointer, base)]
        while waiting:
            schema, pointer, base = waiting.pop()
            if id(schema) in self._pointers:
                continue
            spend(10 + len(schema))
            # Before the keywords beside a `$ref` are deleted: references may lead into their
            # definitions.
            children = list(_children(schema, pointer))
            if self.is_old and isinstance(schema.get("$ref"), str):
                # For pointers into the keywords that this draft ignores.
                self._whole[id(schema)] = dict(schema)
                for keyword in schema.keys() - {"$ref"}:
                    del schema[keyword]
            if self.is_old:
                self._modernize(schema)
            base = self._named_base(schema, pointer, base)
            self._pointers[id(schema)] = pointer
            self._bases[id(schema)] = base
            for keyword in ("$anchor", "$dynamicAnchor"):
                anchor = schema.get(keyword)
                if isinstance(anchor, str):
                    self._named.setdefault(f"{base}#{anchor}", schema)
                    if keyword == "$dynamicAnchor":
                        self._dynamic.setdefault(base, {}).setdefault(anchor, schema)
            # Draft 2019-09 defines the keyword only at the root of a resource.
            if schema.get("$recursiveAnchor") is True and schema is self._resources.get(base):
                self._dynamic.setdefault(base, {}).setdefault("", schema)
            waiting += [(child, below, base) for child, below in children]

    def _modernize(self, schema: Schema) -> None:
        """Drop keywords that an old draft does not define; translate those with another meaning."""
        for keyword in self._unknown:
            schema.pop(keyword, None)
        for bound, exclusive in _BOUNDS if self._is_draft_4 else ():
            if isinstance(schema.get(exclusive), bool):
                is_exclusive = schema.pop(exclusive)
                if is_exclusive and bound in schema:
                    schema[exclusive] = schema.pop(bound)

    def _named_base(self, schema: Schema, pointer: str, base: str) -> str:
        """Return the base address inside a schema, and store the schema's own name."""
        name = schema.get("id" if self._is_draft_4 and "$id" not in schema else "$id")
        if not isinstance(name, str):
            return base
        if self.is_old and name.startswith("#"):
            self._named.setdefault(f"{base}{name}", schema)
            return base
        try:
            base = urldefrag(urljoin(base, name))[0]
        except ValueError:
            raise GrammarError(
                "it is not a URI", remedy="leave it out", pointer=child_pointer(pointer, "$id")
            ) from None
        self._resources.setdefault(base, schema)
        return base


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


# The schema as plain JSON

NESTING_LIMIT = 120
"""The deepest nesting of a schema's objects and arrays."""

SIZE_LIMIT = 200_000
"""The most values in a schema."""


def plain_schema(schema: object, pointer: str) -> dict[str, JsonValue] | bool:
    """Return the JSON of a schema.

    >>> plain_schema({"enum": (1, 2.0)}, "#")
    {'enum': [1, 2.0]}
    """
    data: object = schema
    try:
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            data = schema.model_json_schema()
        elif isinstance(schema, TypeAdapter):
            data = schema.json_schema()
    except PydanticUserError as error:
        raise GrammarError(
            f"pydantic has no JSON Schema for it: {error.message}",
            remedy="give the type a JSON Schema",
            pointer=pointer,
        ) from None
    copier = _Copier(pointer)
    copied = copier.copy(data, NESTING_LIMIT)
    spend(copier.size)
    if isinstance(copied, (dict, bool)):
        return copied
    raise GrammarError(
        f"a schema must be an object or a boolean, not {type(schema).__name__}",
        remedy="pass a dict, a pydantic model or a TypeAdapter",
        pointer=pointer,
    )


class _Copier:
    """Copies values up to the limits of depth and size."""

    def __init__(self, pointer: str) -> None:
        self._pointer = pointer
        self._room = SIZE_LIMIT

    @property
    def size(self) -> int:
        """The number of values that were copied."""
        return SIZE_LIMIT - self._room

    def copy(self, value: object, levels_left: int) -> JsonValue:
        self._room -= 1
        if levels_left < 0:
            raise self._error(f"it is nested deeper than {NESTING_LIMIT} levels", "flatten it")
        if self._room < 0:
            raise self._error(
                f"it contains more than {SIZE_LIMIT:,} values", "use a smaller schema"
            )
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise self._error(f"{value} is not a JSON number", "leave it out")
            return float(value)
        if isinstance(value, (dict, Mapping)):  # dict first, because Mapping takes long to check
            return self._mapping(value, levels_left)
        if isinstance(value, (list, tuple)):
            return [self.copy(item, levels_left - 1) for item in value]
        raise self._error(f"{type(value).__name__} is not a JSON type", "convert it")

    def _mapping(self, mapping: Mapping[object, object], levels_left: int) -> JsonValue:
        copied: dict[str, JsonValue] = {}
        for key, item in mapping.items():
            if not isinstance(key, str):
                raise self._error(f"a key is {type(key).__name__}, not text", "use text")
            copied[self._text(key)] = self.copy(item, levels_left - 1)
        return copied

    def _text(self, text: str) -> str:
        # The text itself, also of a member of an enum, whose `str` may be its name.
        plain = str.__str__(text)
        if not plain.isascii():
            try:
                # Two halves of a pair become one character, as JSON's escapes do.
                return plain.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                raise self._error("a text contains a lone surrogate", "remove it") from None
        return plain

    def _error(self, problem: str, remedy: str) -> GrammarError:
        return GrammarError(problem, remedy=remedy, pointer=self._pointer)
