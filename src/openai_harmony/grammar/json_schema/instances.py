"""Values of schemas: listed ones, any finite one, and those that two schemas share.

- `Instances` tests the few values that `enum` and `const` list.
- `satisfiable_states` finds the states that some finite value satisfies. A schema that needs itself
  without end has none, though each step of it can be written.
- `Exclusions` proves that two states have no value in common, so that a `oneOf` of them is an
  `anyOf`: by types, constants, bounds, or a property or item that both have.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError
from .constraints import Constraints, Shape, State, canonical
from .keywords import read_constraints
from .patterns import lengths, never_both
from .references import Document, child_pointer

__all__ = ["Exclusions", "Instances", "possible_types", "satisfiable_states", "step_of"]

TEST_LIMIT = 200_000
"""The most tests of listed values against schemas."""

_DEPTH_LIMIT = 200


class Instances:
    """Tests values against the schemas of a document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._read: dict[int, Constraints] = {}
        self._tested: dict[tuple[int, int], bool] = {}
        self._depth = 0
        self._tests_left = TEST_LIMIT

    def satisfies(self, value: JsonValue, rule: Constraints) -> bool:
        """Return whether a value satisfies the keywords of one schema object."""
        self._tests_left -= 1
        if self._tests_left < 0:
            raise GrammarError(
                f"listed values need more than {TEST_LIMIT:,} tests",
                remedy="list fewer values, beside fewer other keywords",
                pointer=rule.pointer,
            )
        for refusal in rule.refusals:
            if refusal.type in ("", type_of(value)):
                raise GrammarError(
                    refusal.problem, remedy=refusal.remedy, pointer=rule.pointer_to(refusal.keyword)
                )
        if type_of(value) not in rule.types:
            return False
        if rule.values is not None and canonical(value) not in rule.value_texts:
            return False
        if isinstance(value, str):
            return rule.allow_text(value)
        if isinstance(value, list):
            return self._satisfies_items(value, rule)
        if isinstance(value, dict):
            return self._satisfies_properties(value, rule)
        if isinstance(value, bool) or value is None:
            return True
        return rule.allow_number(value)

    def _valid(self, value: JsonValue, schema: JsonValue, pointer: str) -> bool:
        """Return whether a value satisfies a schema with all that it refers to."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict) or self._depth > _DEPTH_LIMIT:
            problem = "a listed value cannot be tested against it"
            raise GrammarError(problem, remedy="correct it", pointer=pointer)
        pair = (id(value), id(schema))  # both stay: they are parts of the document
        if pair not in self._tested:
            self._depth += 1
            self._tested[pair] = self._valid_object(value, schema)
            self._depth -= 1
        return self._tested[pair]

    def _valid_object(self, value: JsonValue, schema: Schema) -> bool:
        pointer = self._document.pointer(schema)
        if "$ref" in schema and not self._valid(value, self._document.referred(schema), pointer):
            return False
        for keyword in ("allOf", "anyOf", "oneOf"):
            listed = schema.get(keyword)
            if isinstance(listed, list):
                place = child_pointer(pointer, keyword)
                valid = sum(self._valid(value, one, place) for one in listed)
                if not {"allOf": valid == len(listed), "anyOf": valid > 0}.get(keyword, valid == 1):
                    return False
        if id(schema) not in self._read:
            self._read[id(schema)] = read_constraints(schema, pointer)
        return self.satisfies(value, self._read[id(schema)])

    def _satisfies_items(self, items: list[JsonValue], rule: Constraints) -> bool:
        if not _count_fits(len(items), rule.fewest_items, rule.most_items):
            return False
        for index, item in enumerate(items):
            schema = rule.prefix[index] if index < len(rule.prefix) else rule.items
            if schema is not None and not self._valid(item, schema, rule.pointer):
                return False
        return True

    def _satisfies_properties(self, value: dict[str, JsonValue], rule: Constraints) -> bool:
        if not _count_fits(len(value), rule.fewest_properties, rule.most_properties):
            return False
        if not value.keys() >= set(rule.required):
            return False
        for name, item in value.items():
            if not all(self._valid(item, schema, rule.pointer) for schema in rule.schemas_of(name)):
                return False
        return True


def type_of(value: JsonValue) -> str:
    """Return the type of a value as JSON Schema names it; a whole number is a number."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "number"


def _count_fits(count: int, fewest: int, most: int | None) -> bool:
    return fewest <= count and (most is None or count <= most)


# States that some finite value satisfies


def satisfiable_states(states: list[State]) -> set[State]:
    """Return the states that have an instance, found from the inside out."""
    leading_to: dict[State, list[State]] = {}
    for state in states:
        for inner in state.inside():
            leading_to.setdefault(inner, []).append(state)
    satisfiable: set[State] = set()
    waiting = list(states)  # inner states come last, and are tried first
    while waiting:
        state = waiting.pop()
        if state not in satisfiable and _has_instance(state, satisfiable):
            satisfiable.add(state)
            waiting += leading_to.get(state, ())
    return satisfiable


def possible_types(shape: Shape, satisfiable: set[State]) -> frozenset[str]:
    """Return the types of which a shape may have values."""
    possible = {"null", "boolean"} & shape.types
    if "number" in shape.types and _has_number(shape):
        possible.add("number")
    if "string" in shape.types and _has_text(shape):
        possible.add("string")
    if "array" in shape.types and _has_array(shape, satisfiable):
        possible.add("array")
    if "object" in shape.types and _has_object(shape, satisfiable):
        possible.add("object")
    return frozenset(possible)


def step_of(shape: Shape) -> Fraction | None:
    """Return the number of which all numbers of a shape are multiples."""
    if not shape.whole:
        return shape.multiple
    return Fraction((shape.multiple or Fraction(1)).numerator)


def _has_instance(state: State, satisfiable: set[State]) -> bool:
    if state.alternatives is not None:
        return any(alternative in satisfiable for alternative in state.alternatives)
    if state.shape is None:
        return False
    return bool(state.shape.values) or (
        state.shape.values is None and bool(possible_types(state.shape, satisfiable))
    )


def _has_text(shape: Shape) -> bool:
    """Return False if the constraints exclude all texts; patterns are compared by their starts."""
    shortest, longest = shape.shortest, shape.longest
    for index, pattern in enumerate(shape.patterns):
        least, most = lengths(pattern)
        shortest = max(shortest, least)
        if most is not None:
            longest = most if longest is None else min(longest, most)
        if any(never_both(pattern, other) for other in shape.patterns[:index]):
            return False
    return longest is None or shortest <= longest


def _has_number(shape: Shape) -> bool:
    if shape.lowest is None or shape.highest is None:
        return True
    lowest, highest = shape.lowest[0], shape.highest[0]
    step = step_of(shape)
    if step is None:
        open_end = shape.lowest[1] or shape.highest[1]
        return lowest < highest or (lowest == highest and not open_end)
    first, last = ceil(lowest / step), floor(highest / step)
    if shape.lowest[1] and first * step == lowest:
        first += 1
    if shape.highest[1] and last * step == highest:
        last -= 1
    return first <= last


def _has_array(shape: Shape, satisfiable: set[State]) -> bool:
    if shape.most_items is not None and shape.fewest_items > shape.most_items:
        return False
    if any(item not in satisfiable for item in shape.prefix[: shape.fewest_items]):
        return False
    beyond = shape.fewest_items > len(shape.prefix)
    return not beyond or shape.items is None or shape.items in satisfiable


def _has_object(shape: Shape, satisfiable: set[State]) -> bool:
    if any(shape.properties[name] not in satisfiable for name in shape.required):
        return False
    fewest = max(shape.fewest_properties, len(shape.required))
    if shape.most_properties is not None and fewest > shape.most_properties:
        return False
    is_open = shape.additional is None or shape.additional in satisfiable
    if is_open or any(state in satisfiable for state in shape.named_by_pattern.values()):
        return True
    return shape.fewest_properties <= sum(
        state in satisfiable for state in shape.properties.values()
    )


# States that exclude each other


_DEPTH_LIMIT = 50
PAIR_LIMIT = 20_000
"""The most pairs of states that are compared."""


class Exclusions:
    """Compares states, and stores the results."""

    def __init__(self, satisfiable: set[State]) -> None:
        self._satisfiable = satisfiable
        self._disjoint_pairs: dict[frozenset[State], bool] = {}

    def overlap(self, states: list[State]) -> bool:
        """Return whether two of the states may have a value in common."""
        states = [state for state in states if state in self._satisfiable]
        if _have_distinct_constants(states):
            return False
        return any(
            not self._disjoint(one, other, 0)
            for index, one in enumerate(states)
            for other in states[:index]
        )

    def _disjoint(self, one: State, other: State, depth: int) -> bool:
        if one not in self._satisfiable or other not in self._satisfiable:
            return True
        pair = frozenset((one, other))
        if one is other or depth > _DEPTH_LIMIT or len(self._disjoint_pairs) > PAIR_LIMIT:
            return False
        if pair not in self._disjoint_pairs:
            self._disjoint_pairs[pair] = (
                False  # during the comparison: recursive schemas meet the pair again
            )
            self._disjoint_pairs[pair] = self._compare(one, other, depth + 1)
        return self._disjoint_pairs[pair]

    def _compare(self, one: State, other: State, depth: int) -> bool:
        if one.alternatives is not None:
            return all(self._disjoint(state, other, depth) for state in one.alternatives)
        if other.alternatives is not None:
            return all(self._disjoint(one, state, depth) for state in other.alternatives)
        if one.shape is None or other.shape is None:
            return True
        return self._shapes_disjoint(one.shape, other.shape, depth)

    def _shapes_disjoint(self, one: Shape, other: Shape, depth: int) -> bool:
        if one.values is not None and other.values is not None:
            return set(map(canonical, one.values)).isdisjoint(map(canonical, other.values))
        for shape, listed in ((one, other.values), (other, one.values)):
            if listed is not None:
                return not any(type_of(value) in shape.types for value in listed)
        common = possible_types(one, self._satisfiable) & possible_types(other, self._satisfiable)
        return all(self._type_disjoint(name, one, other, depth) for name in common)

    def _type_disjoint(self, name: str, one: Shape, other: Shape, depth: int) -> bool:
        if name == "number":
            return _apart(one, other) or _apart(other, one)
        if name == "string":
            return _shorter(one.longest, other.shortest) or _shorter(other.longest, one.shortest)
        if name == "array":
            return self._arrays_disjoint(one, other, depth)
        return name == "object" and self._objects_disjoint(one, other, depth)

    def _arrays_disjoint(self, one: Shape, other: Shape, depth: int) -> bool:
        if _shorter(one.most_items, other.fewest_items):
            return True
        if _shorter(other.most_items, one.fewest_items):
            return True
        present = max(one.fewest_items, other.fewest_items)
        compared = min(present, 1 + max(len(one.prefix), len(other.prefix)))
        for index in range(compared):
            first, second = _item(one, index), _item(other, index)
            if first and second and self._disjoint(first, second, depth):
                return True
        return False

    def _objects_disjoint(self, one: Shape, other: Shape, depth: int) -> bool:
        for name in dict.fromkeys([*one.required, *other.required]):
            first, second = _property(one, name), _property(other, name)
            if first is None or second is None:
                continue
            if self._disjoint(first, second, depth):
                return True
        return False


def _have_distinct_constants(states: list[State]) -> bool:
    """Return whether each state has constants of its own, or a required property that has."""
    shapes = [state.shape for state in states]
    if _list_distinct_values(shapes):
        return True
    first = shapes[0] if shapes else None
    for name in first.required if first is not None else ():
        inner: list[Shape | None] = []
        for shape in shapes:
            if shape is None or shape.types != {"object"} or shape.values is not None:
                return False
            inner.append(shape.properties[name].shape if name in shape.required else None)
        if _list_distinct_values(inner):
            return True
    return False


def _list_distinct_values(shapes: list[Shape | None]) -> bool:
    """Return whether each shape lists values, and no value is listed twice."""
    seen: set[str] = set()
    for shape in shapes:
        if shape is None or shape.values is None:
            return False
        texts = set(map(canonical, shape.values))
        if not seen.isdisjoint(texts):
            return False
        seen |= texts
    return True


def _apart(low: Shape, high: Shape) -> bool:
    """Return whether all numbers of one shape are below those of another."""
    if low.highest is None or high.lowest is None:
        return False
    if low.highest[0] == high.lowest[0]:
        return low.highest[1] or high.lowest[1]
    return low.highest[0] < high.lowest[0]


def _shorter(most: int | None, fewest: int) -> bool:
    return most is not None and most < fewest


def _item(shape: Shape, index: int) -> State | None:
    return shape.prefix[index] if index < len(shape.prefix) else shape.items


def _property(shape: Shape, name: str) -> State | None:
    """Return the state of a name; None when it is anything, or depends on a pattern."""
    if name in shape.properties:
        return shape.properties[name]
    return None if shape.named_by_pattern else shape.additional
