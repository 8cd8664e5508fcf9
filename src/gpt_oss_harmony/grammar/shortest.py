"""The shortest values of schemas: what a turn needs at least, and the rest of a begun text.

It reads schemas as `enforceable_schema` writes them, with few keywords. `closing` uses the results
as proposals; the engine has the last word on each.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from math import inf
from typing import Any, NamedTuple

from .errors import GrammarError
from .json_schema.keywords import read_constraints
from .json_schema.pattern_automata import TooLargeError, character_steps, pattern_graph
from .json_schema.pattern_parser import Alternatives, Characters, Edge, Node, Repeat, read_pattern
from .json_schema.patterns import node_lengths

_JSON_RULE = re.compile(r"^\w+: %json (\{.*\})$", re.MULTILINE)
_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")
_NEAR = (-1, 0, 1)  # steps from a bound, or from 0
_SETS = 600
_ROUNDS = 40
_LONGEST = 4_000
_RESTS = 2_000


class TextRule(NamedTuple):
    """What a schema asks of a text: patterns, which all match, and a length."""

    patterns: tuple[str, ...]
    shortest: int
    longest: int | None

    def rest(self, begun: str) -> str | None:
        """Return the fewest characters that complete a begun text; None if none are found."""
        return _rest(self, begun)


class Needs(NamedTuple):
    """The texts of a grammar's schemas, and the most characters to which one choice commits.

    `value` is for a begun value, such as an object with its required properties; `text` is for a
    character inside a text. `rests` are the shortest values, and what ends a begun object or array
    that lacks something: the shortest first.
    """

    texts: tuple[TextRule, ...] = ()
    value: str = ""
    text: int = 0
    rests: tuple[str, ...] = ()


@functools.lru_cache(maxsize=64)
def needs_of(grammar: str) -> Needs:
    """Return the needs of all schemas of a grammar; in its text, each is a rule of its own."""
    found = [_needs(schema) for schema in _JSON_RULE.findall(grammar)]
    texts = dict.fromkeys(text for one in found for text in one.texts)
    value = max((one.value for one in found), key=len, default="")
    rests = sorted(dict.fromkeys(rest for one in found for rest in one.rests), key=len)
    text = max((one.text for one in found), default=0)
    return Needs(tuple(texts), value, text, tuple(rests[:_RESTS]))


@functools.lru_cache(maxsize=256)
def _needs(schema: str) -> Needs:
    reader = _Reader(json.loads(schema))
    return Needs(tuple(reader.texts), reader.largest, reader.commitment, tuple(reader.rests))


class _Reader:
    """Finds the shortest value of each schema in a document."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._definitions: dict[str, Any] = root.get("$defs", {})
        self._named: dict[str, str | None] = dict.fromkeys(self._definitions)
        self.texts: dict[TextRule, None] = {}
        self.rests: dict[str, None] = {}
        self.largest = ""
        self.commitment = 0
        for _ in range(_ROUNDS):  # a recursive schema is known once those inside it are
            before = dict(self._named)
            for name, schema in self._definitions.items():
                self._named[name] = self.value(schema)
            if self._named == before:
                break
        self.value(root)

    def value(self, schema: Any) -> str | None:
        """Return the shortest value; None if it is not known yet."""
        found = self._value(schema)
        if found is not None and len(found) <= _LONGEST:
            self._commit(found)
            self.rests[found] = None
        return found

    def _commit(self, written: str) -> None:
        if len(self.largest) < len(written) <= _LONGEST:
            self.largest = written

    def _value(self, schema: Any) -> str | None:
        if schema is True:
            return "0"
        if not isinstance(schema, dict):
            return None
        if "$ref" in schema:
            return self._named.get(schema["$ref"].rpartition("/")[2])
        if "anyOf" in schema:
            return _shortest(map(self.value, schema["anyOf"]))
        if "enum" in schema:
            written = [json.dumps(one, ensure_ascii=False) for one in schema["enum"]]
            self.commitment = max(self.commitment, *map(len, written))
            return min(written, key=len)
        types = schema.get("type", ["number", "string", "array", "object"])
        names = [types] if isinstance(types, str) else types
        # All of them, because the model may begin any.
        return _shortest([self._of_type(name, schema) for name in names])

    def _of_type(self, name: str, schema: dict[str, Any]) -> str | None:
        if name in ("null", "boolean"):
            return "null" if name == "null" else "true"
        if name in ("number", "integer"):
            return self._number(schema)
        if name == "string":
            return self._text(schema)
        return self._array(schema) if name == "array" else self._object(schema)

    def _number(self, schema: dict[str, Any]) -> str:
        given = {name: schema[name] for name in _BOUNDS if name in schema}
        rule, written = read_constraints(given, "#"), [*map(json.dumps, given.values())]
        self.commitment = max(self.commitment, *map(len, written), 2)
        step = rule.multiple or Fraction(1)
        bounds = [bound for bound, _ in filter(None, (rule.lowest, rule.highest))]
        near = [step * (place // step + more) for place in (Fraction(0), *bounds) for more in _NEAR]
        numbers = [int(one) if one.denominator == 1 else float(one) for one in (*near, *bounds)]
        texts = [json.dumps(number) for number in numbers if rule.allow_number(number)]
        return min(texts, key=len, default=max(written, key=len, default="0"))

    def _text(self, schema: dict[str, Any]) -> str:
        joined = [schema, *schema.get("allOf", ())]
        patterns = tuple(one["pattern"] for one in joined if "pattern" in one)
        rule = TextRule(patterns, schema.get("minLength", 0), schema.get("maxLength"))
        self.texts[rule] = None
        rest = rule.rest("")
        self.commitment = max(
            self.commitment, rule.shortest, *(_commitment(pattern) for pattern in patterns)
        )
        return json.dumps("a" * rule.shortest if rest is None else rest, ensure_ascii=False)

    def _array(self, schema: dict[str, Any]) -> str | None:
        prefix, others = schema.get("prefixItems", []), self.value(schema.get("items", True))
        listed = [self.value(item) for item in prefix]
        fewest = schema.get("minItems", 0)
        # `minItems` may be a million; longer values than _LONGEST are not kept anyway.
        items = [*listed[:fewest], *[others] * min(fewest - len(prefix), _LONGEST)]
        return self._joined("[", items, "]")

    def _joined(self, opening: str, parts: Sequence[str | None], closing: str) -> str | None:
        """Write a container; its rests are what follows each part, or the quote of a name."""
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        rest = closing
        for count, part in enumerate(reversed(known)):
            rest = f"{part},{rest}" if count else part + rest
            if len(rest) > _LONGEST:
                break
            self.rests.update(dict.fromkeys((rest, f",{rest}", rest.removeprefix('"'))))
        return opening + ",".join(known) + closing

    def _object(self, schema: dict[str, Any]) -> str | None:
        required = schema.get("required", [])
        properties = schema.get("properties", {})
        for inner in (*schema.get("patternProperties", {}).values(), True):
            self.value(inner)
        for pattern in schema.get("patternProperties", {}):
            self.texts[TextRule((pattern,), 0, None)] = None
            self.commitment = max(self.commitment, _commitment(pattern))
        other = self.value(schema.get("additionalProperties", True))
        members = dict[str, str | None]()
        for name, inner in properties.items():
            value = self.value(inner)
            members[name] = None if value is None else f"{json.dumps(name)}:{value}"
            begun = json.dumps(f",{name}:{value}")  # a comma may commit to this member
            self.commitment = max(self.commitment, len(begun))
            self._commit(begun)
        listed = [name for name in properties if name in required]  # as the grammar orders them
        others = [f"{json.dumps(name)}:{other}" for name in required if name not in properties]
        return self._joined("{", [*map(members.get, listed), *others], "}")


def _shortest(values: Iterable[str | None]) -> str | None:
    return min((value for value in values if value is not None), key=len, default=None)


def _readable(pattern: str) -> str:
    r"""Return a pattern of the engine as ECMA-262 writes it; the two differ in ``\x{...}``."""
    return pattern.replace(r"\x{", r"\u{")


@functools.lru_cache(maxsize=4096)
def _rest(rule: TextRule, begun: str) -> str | None:
    """Walk the automata of all patterns at once, first where the least is missing to the end."""
    try:
        graphs = [pattern_graph(_readable(pattern)) for pattern in rule.patterns]
        places = tuple(graph.start() for graph in graphs)
        for character in begun:
            places = tuple(
                graph.step(place, ord(character))
                for graph, place in zip(graphs, places, strict=True)
            )
        first = places, min(len(begun), rule.shortest)
        origins: dict[Any, tuple[Any, str] | None] = {first: None}
        waiting: list[tuple[float, int, int, Any]] = [(0, 0, 0, first)]
        while waiting and len(origins) < _SETS:
            _, taken, _, state = heappop(waiting)
            places, length = state
            is_accepted = all(map(lambda graph, place: graph.accepts(place), graphs, places))
            if is_accepted and length == rule.shortest:
                return "".join(_path(origins, state))
            longer = min(length + 1, rule.shortest)
            for character, following in character_steps(graphs, places):
                after = following, longer
                rests = map(lambda graph, place: graph.least_rest(place), graphs, following)
                missing = max([rule.shortest - longer, *rests])
                if after not in origins and missing < inf:
                    origins[after] = state, character
                    # By the length of the whole rest; of equal ones the furthest first. The count
                    # comes before the state because sets have no order.
                    heappush(waiting, (missing - taken + 1, taken - 1, len(origins), after))
    except (TooLargeError, GrammarError):
        return None
    return None


def _path(origins: dict[Any, tuple[Any, str] | None], state: Any) -> Iterator[str]:
    characters: list[str] = []
    while (origin := origins[state]) is not None:
        state, character = origin
        characters.append(character)
    yield from reversed(characters)


@functools.lru_cache(maxsize=1024)
def _commitment(pattern: str) -> int:
    """Return the most characters that may be needed after one character of the pattern."""
    try:
        return _most_needed(read_pattern(_readable(pattern)))
    except GrammarError:
        return len(pattern)


def _most_needed(node: Node) -> int:
    if isinstance(node, Characters):
        return 1
    if isinstance(node, Edge):
        return 0
    if isinstance(node, Repeat):
        return _most_needed(node.part) + max(0, node.least - 1) * node_lengths(node.part)[0]
    if isinstance(node, Alternatives):
        return max(map(_most_needed, node.parts), default=0)
    most = after = 0
    for part in reversed(node.parts):
        most = max(most, _most_needed(part) + after)
        after += node_lengths(part)[0]
    return most
