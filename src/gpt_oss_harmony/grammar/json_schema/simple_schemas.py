"""A fast path: what a schema says with keywords of one meaning is written as it stands.

The engine and the specification agree on most of what real schemas say. Only the parts with other
keywords (`oneOf` of objects, negations, patterns with counts) go through `disjunctive_form`, which
takes about twenty times as long. ::

    schema  →  frame, with an empty dict for each part  →  the parts' schemas are put in

A part is a schema whose meaning does not depend on what stands around it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError
from .bounds import LARGEST_NUMBER
from .constraints import TYPES, canonical, type_of
from .formats import FORMATS, REFUSED_FORMATS
from .keywords import COUNT_LIMIT, READ
from .pattern_automata import plain_patterns
from .patterns import needs_trial, text_keywords

_READ = READ - {"$defs", "definitions"}

_BOUNDING = frozenset({"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"})
_OF_OBJECTS = frozenset({"properties", "required", "additionalProperties"})
_KEYWORDS = _BOUNDING | _OF_OBJECTS | {"type", "format", "pattern", "items", "additionalItems"}
"""The simple keywords beside a type or without one."""

_ALL = frozenset(TYPES)
_TYPES = {name: frozenset({name}) for name in TYPES} | {"integer": frozenset({"number"})}

_BOUNDS = {
    "number": ("minimum", "maximum", -LARGEST_NUMBER, LARGEST_NUMBER),
    "string": ("minLength", "maxLength", 0, COUNT_LIMIT),
    "array": ("minItems", "maxItems", 0, COUNT_LIMIT),
}
"""The two bounds of each type, and the values that they may have."""

# Below the limits of the longer path, which are not checked here.
_LEVEL_LIMIT = 24
_SIZE_LIMIT = 1_000

_PLAIN_ADDRESS = re.compile(r"[\w:/.#-]*", re.ASCII)
_REFERENCE = re.compile(r"#/(definitions|\$defs|properties)/([^/~%]+)")


class _NotSimpleError(Exception):
    """The schema as a whole needs the longer path."""


@dataclass
class _Target:
    """What a reference leads to, and the places of the frame that refer to it."""

    schema: Schema
    height: int
    places: list[Schema] = field(default_factory=list)


class Frame:
    """A schema for the engine in which some parts are missing, and the parts.

    >>> Frame({"type": "integer", "minimum": 0, "title": "Count"}).filled([], {})
    {'type': 'integer', 'minimum': 0}
    >>> Frame({"items": {"not": {"type": "null"}}}).parts
    [{'not': {'type': 'null'}}]
    """

    def __init__(self, root: Schema | Literal[True]) -> None:
        self.root: Schema = {} if root is True else root
        self._dialect = str(self.root.get("$schema"))
        self._room = _SIZE_LIMIT
        self._deepest = 0
        self._has_names = False
        self._targets: dict[int, _Target] = {}
        self._open: set[int] = set()
        self._places: list[Schema] = []
        self.parts: list[Schema] = []
        """The parts that are missing; the schema itself if it has no frame."""
        try:
            self._written = self._write(self.root, 0)
            if self._room < 0 or (self._has_names and self._targets):
                raise _NotSimpleError  # a reference may lead into the schema of a name
        except _NotSimpleError:
            self.make_empty()

    def make_empty(self) -> None:
        """Make the schema as a whole the only part."""
        self._targets = {}
        self.parts, self._places = [], []
        self._written = self._part(self.root)

    @property
    def is_empty(self) -> bool:
        """Whether the schema as a whole is the only part."""
        return bool(self.parts) and self.parts[0] is self.root

    def filled(self, parts: list[Schema | bool], definitions: Schema) -> Schema | bool:
        """Return the schema with its parts, which refer to these definitions."""
        if self.is_empty and not isinstance(parts[0], dict):
            return parts[0]
        for place, part in zip(self._places, parts, strict=True):
            # Only True is no dict: where a part has no value, the frame itself is empty.
            place.update(part if isinstance(part, dict) else {})
        definitions = dict(definitions)
        for target in self._targets.values():  # those inside others come first
            schema = target.schema
            if len(target.places) > 1 and not _is_small(schema):
                name = str(len(definitions))
                definitions[name], schema = schema, {"$ref": f"#/$defs/{name}"}
            for place in target.places:
                place.update(schema)
        if definitions and isinstance(self._written, dict):
            return {"$defs": definitions, **self._written}
        return self._written

    def _part(self, schema: Schema) -> Schema:
        """Leave a place for a schema that is not simple."""
        self.parts.append(schema)
        self._places.append({})
        return self._places[-1]

    def _write(self, schema: JsonValue, level: int) -> Schema | bool:
        self._room -= 1
        self._deepest = max(self._deepest, level)
        if schema is True:
            return True
        if not isinstance(schema, dict) or level > _LEVEL_LIMIT or self._room < 0:
            raise _NotSimpleError
        self._note_name(schema)
        keywords = self._keywords(schema)
        if not keywords:
            return True
        if not self._is_simple(schema, keywords):
            return self._part(schema)
        if "$ref" in keywords:
            return self._reference(schema, level)
        if "allOf" in keywords:
            return self._write(_listed(schema["allOf"])[0], level + 1)
        if "enum" in keywords or "const" in keywords:
            values = _constants(schema)
            self._room -= len(values)
            return {"enum": values}
        for keyword in ("anyOf", "oneOf"):
            if keyword in keywords:
                options = [self._write(one, level + 1) for one in _listed(schema[keyword])]
                return options[0] if len(options) == 1 else {"anyOf": [*options]}
        return self._typed(schema, level)

    def _keywords(self, schema: Schema) -> set[str]:
        """Return the keywords of a schema that are read; older drafts read none beside `$ref`."""
        if "/draft-0" in self._dialect and isinstance(schema.get("$ref"), str):
            return {"$ref"}
        return schema.keys() & _READ

    def _note_name(self, schema: Schema) -> None:
        name = schema.get("$id", schema.get("id"))
        if isinstance(name, str):
            self._has_names |= schema is not self.root
            if not _PLAIN_ADDRESS.fullmatch(name):
                raise _NotSimpleError

    def _is_simple(self, schema: Schema, keywords: set[str]) -> bool:
        """Return whether all that a schema says itself is simple."""
        if "enum" in keywords or "const" in keywords:
            return self._lists_plain_values(schema, keywords)
        if len(keywords) == 1:
            if "$ref" in keywords:
                return self._target(schema) is not None
            if "allOf" in keywords:
                return isinstance(schema["allOf"], list) and len(schema["allOf"]) == 1
            if "anyOf" in keywords or "oneOf" in keywords:
                return self._are_plain_options(schema)
        return _is_plainly_typed(schema, keywords)

    def _lists_plain_values(self, schema: Schema, keywords: set[str]) -> bool:
        """Return whether a schema lists values of its types, which the engine can write."""
        # Drafts 3 and 4 do not know `const`; the longer path reads the draft.
        if not keywords <= {"enum", "type"} and (
            not keywords <= {"const", "type"} or "/draft-0" in self._dialect
        ):
            return False
        values, types = _constants(schema), _types(schema)
        if not values or types is None:
            return False
        texts = {canonical(value) for value in values if _is_plain_value(value)}
        return len(texts) == len(values) and types.issuperset(map(type_of, values))

    def _target(self, schema: Schema) -> Schema | None:
        """Return the target of a reference to a definition; None if it is not that or recursive."""
        reference = schema["$ref"]
        found = _REFERENCE.fullmatch(reference) if isinstance(reference, str) else None
        if found is None:
            return None
        named = self.root.get(found[1])
        target = named.get(found[2]) if isinstance(named, dict) else None
        return target if isinstance(target, dict) and id(target) not in self._open else None

    def _reference(self, schema: Schema, level: int) -> Schema | bool:
        target = self._target(schema)
        assert target is not None
        known = self._targets.get(id(target))
        if known is None:
            outer, self._deepest = self._deepest, level
            self._open.add(id(target))
            written = self._write(target, level + 1)
            self._open.remove(id(target))
            height, self._deepest = self._deepest - level, max(outer, self._deepest)
            if isinstance(written, bool):
                return written
            known = self._targets[id(target)] = _Target(written, height)
        elif level + known.height > _LEVEL_LIMIT:
            # It is written once, but it nests deeper here than where it was met first.
            raise _NotSimpleError
        known.places.append({})
        return known.places[-1]

    def _are_plain_options(self, schema: Schema) -> bool:
        """Return whether the schemas of an `anyOf` are simple, and those of a `oneOf` disjoint."""
        keyword = "anyOf" if "anyOf" in schema else "oneOf"
        listed = schema[keyword]
        if not isinstance(listed, list) or not listed:
            return False
        options: list[Schema] = []
        for option in listed:
            for _ in range(_LEVEL_LIMIT):
                if not isinstance(option, dict) or self._keywords(option) != {"$ref"}:
                    break
                option = self._target(option)
            if not isinstance(option, dict):
                return False
            keywords = self._keywords(option)
            if not keywords or "allOf" in keywords or not self._is_simple(option, keywords):
                return False
            options.append(option)
        # The longer path tries formats side by side in the engine.
        if sum(_has_format(option) for option in options) > 1:
            return False
        return keyword == "anyOf" or self._are_disjoint(options)

    def _are_disjoint(self, options: list[Schema]) -> bool:
        """Return whether no value satisfies two schemas: by types, or by a required constant."""
        if self._list_apart(options):
            return True
        of_options = [_allowed_types(option) for option in options]
        if sum(map(len, of_options)) == len(frozenset().union(*of_options)):
            return True
        first, *others = (set(map(str, _listed(option.get("required")))) for option in options)
        return all(types == {"object"} for types in of_options) and any(
            self._list_apart([_property(option, name) for option in options])
            for name in first.intersection(*others)
        )

    def _list_apart(self, schemas: Sequence[JsonValue]) -> bool:
        """Return whether each schema lists constants that no other lists."""
        seen: set[str] = set()
        for schema in schemas:
            texts = set(map(canonical, _constants(schema)))
            if not isinstance(schema, dict) or not seen.isdisjoint(texts):
                return False
            if not self._lists_plain_values(schema, self._keywords(schema)):
                return False
            seen |= texts
        return True

    def _typed(self, schema: Schema, level: int) -> Schema | bool:
        names = _names(schema)
        types = _types(schema) or frozenset()
        written: Schema = {}
        if "number" in types:
            written |= _bounds(schema, "number")
        if "string" in types:
            written |= _bounds(schema, "string")
            patterns = _patterns(schema)
            written |= text_keywords(patterns, 0, None, "") if patterns else {}
        if "array" in types:
            if "items" in schema:
                written["items"] = self._write(schema["items"], level + 1)
            written |= _bounds(schema, "array")
        if "object" in types:
            written |= self._object(schema, level)
        if isinstance(schema.get("type"), str):
            return {"type": schema["type"], **written}
        is_whole = "integer" in names and "number" not in names
        if len(types) == len(TYPES) and not is_whole:
            return written or True
        listed: list[JsonValue] = [
            "integer" if is_whole and name == "number" else name for name in TYPES if name in types
        ]
        return {"type": listed[0] if len(listed) == 1 else listed, **written}

    def _object(self, schema: Schema, level: int) -> Schema:
        properties, required = schema.get("properties"), _listed(schema.get("required", []))
        written: Schema = {}
        names: Schema = {
            name: self._write(inner, level + 1)
            for name, inner in (properties if isinstance(properties, dict) else {}).items()
        }
        others: Schema | bool | None = None
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            others = self._write(additional, level + 1)
        elif isinstance(additional, bool):
            others = additional
        for name in required:
            self._room -= 1
            names.setdefault(str(name), True if others is None else others)
        if names:
            written["properties"] = names
        if others is not None:
            written["additionalProperties"] = others
        if required:
            written["required"] = list(dict.fromkeys(map(str, required)))
        return written


def _is_small(schema: Schema) -> bool:
    return not any(
        isinstance(value, (dict, list)) for name, value in schema.items() if name != "type"
    )


def _listed(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _names(schema: Schema) -> list[JsonValue]:
    """Return the types that a schema names, or all."""
    names = schema.get("type", list(TYPES))
    return names if isinstance(names, list) else [names]


def _types(schema: Schema) -> frozenset[str] | None:
    """Return the types that a schema allows; None for one that does not exist."""
    kind = schema.get("type", _ALL)
    if isinstance(kind, str):
        return _TYPES.get(kind)
    names = {"number" if name == "integer" else str(name) for name in _names(schema)}
    return frozenset(names) if names and names <= _ALL else None


def _is_plainly_typed(schema: Schema, keywords: set[str]) -> bool:
    """Return whether a schema has only keywords of types, with plain values."""
    types = _types(schema)
    if types is None or not keywords <= _KEYWORDS:
        return False
    if not keywords.isdisjoint(_BOUNDING) and not all(
        _are_plain_bounds(schema, *bounds) for bounds in _BOUNDS.values()
    ):
        return False
    if "pattern" in keywords or ("format" in keywords and "string" in types):
        if not _is_plain_text(schema):
            return False
    elif "format" in keywords and not isinstance(schema["format"], str):
        return False
    if "items" in keywords and not (isinstance(schema["items"], dict) or schema["items"] is True):
        return False
    return keywords.isdisjoint(_OF_OBJECTS) or _is_plain_object(schema)


def _is_plain_object(schema: Schema) -> bool:
    """Return whether an object can have the properties that it requires."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    additional = schema.get("additionalProperties")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    if not all(isinstance(name, str) for name in required):
        return False
    if additional is False:
        return all(name in properties for name in required)
    return additional is None or additional is True or isinstance(additional, dict)


def _is_plain_text(schema: Schema) -> bool:
    """Return whether the texts of a schema have lengths, a pattern without counts or a format."""
    name, pattern = schema.get("format", ""), schema.get("pattern", "")
    if not isinstance(name, str) or not isinstance(pattern, str) or name in REFUSED_FORMATS:
        return False
    if "pattern" not in schema and name not in FORMATS:
        return True
    if "minLength" in schema or "maxLength" in schema or ("pattern" in schema and name in FORMATS):
        return False
    if "pattern" not in schema:
        return True
    try:
        if plain_patterns(pattern, "") != [pattern] or needs_trial(pattern):
            return False
        text_keywords([pattern], 0, None, "")
    except GrammarError:  # which the longer path reports
        return False
    return True


def _patterns(schema: Schema) -> list[str]:
    if "pattern" in schema:
        return [str(schema["pattern"])]
    text_format = FORMATS.get(str(schema.get("format")))
    return [] if text_format is None else list(text_format.patterns)


def _has_format(schema: Schema) -> bool:
    return "string" in (_types(schema) or ()) and schema.get("format") in FORMATS


def _allowed_types(option: Schema) -> frozenset[str]:
    if "enum" in option or "const" in option:
        return frozenset(map(type_of, _constants(option)))
    return _types(option) or frozenset()


def _property(schema: Schema, name: str) -> JsonValue:
    properties = schema.get("properties")
    return properties.get(name) if isinstance(properties, dict) else None


def _constants(schema: JsonValue) -> list[JsonValue]:
    if not isinstance(schema, dict):
        return []
    return [schema["const"]] if "const" in schema else _listed(schema.get("enum"))


def _is_plain_value(value: JsonValue) -> bool:
    if isinstance(value, str):
        # Others may need an escape that the grammar does not allow.
        return value.isprintable()
    return value is None or (isinstance(value, int) and abs(value) <= COUNT_LIMIT)


def _are_plain_bounds(schema: Schema, lowest: str, highest: str, least: int, most: int) -> bool:
    """Return whether two bounds are whole numbers between which there is a value."""
    before = least
    for keyword in (lowest, highest):
        bound = schema.get(keyword, before)
        # Not `isinstance`: for Python, `true` is an integer.
        if type(bound) is not int or not before <= bound <= most:
            return False
        before = bound
    return True


def _bounds(schema: Schema, name: str) -> Schema:
    """Return the two bounds of a type without a count from 0, which restricts nothing."""
    lowest, highest, least, _ = _BOUNDS[name]
    return {  # only counts have the least bound 0
        keyword: schema[keyword]
        for keyword in (lowest, highest)
        if keyword in schema and (keyword == highest or schema[keyword] or least)
    }
