"""Values of schemas: listed ones, any finite one, and those that two schemas share.

- `Instances` tests the few values that `enum` and `const` list.
- `satisfiable_states` finds the states that some finite value satisfies. A schema that needs itself
  without end has none, though each step of it can be written.
- `Exclusions` proves that two states have no value in common, so that a `oneOf` of them is an
  `anyOf`: by types, constants, bounds, or a property or item that both have.
"""

from __future__ import annotations

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError, Report, raise_error
from .constraints import Constraints, Shape, State, canonical
from .documents import Document, child_pointer
from .keywords import read_constraints

__all__ = ["Exclusions", "Instances", "possible_types", "satisfiable_states"]

TEST_LIMIT = 200_000
"""The most tests of listed values against schemas."""

_DEPTH_LIMIT = 200


class Instances:
    """Tests values against the schemas of a document."""

    def __init__(self, document: Document, report: Report = raise_error) -> None:
        self._document = document
        self._report = report
        self._is_loosened = False
        self._read: dict[int, Constraints] = {}
        self._tested: dict[tuple[int, int], bool] = {}
        self._depth = 0
        self._tests_left = TEST_LIMIT

    def satisfies(self, value: JsonValue, rule: Constraints) -> bool:
        """Return whether a value satisfies the keywords of one schema object."""
        self._tests_left -= 1
        if self._tests_left < 0:
            problem = f"listed values need more than {TEST_LIMIT:,} tests"
            remedy = "list fewer values, beside fewer other keywords"
            return self._loosened(GrammarError(problem, remedy=remedy, pointer=rule.pointer))
        for refusal in rule.refusals:
            if refusal.type in ("", type_of(value)):
                self._loosened(refusal.error(rule))
        if type_of(value) not in rule.types:
            return False
        if rule.values is not None and canonical(value) not in rule.value_texts:
            return False
        return rule.allows_itself(value) and all(
            self._valid(inner, schema, rule.pointer) for inner, schema in rule.inside(value)
        )

    def _loosened(self, error: GrammarError) -> bool:
        """Report what cannot be tested; every value passes then."""
        self._report(error)
        self._is_loosened = True
        return True

    def _valid(self, value: JsonValue, schema: JsonValue, pointer: str) -> bool:
        """Return whether a value satisfies a schema with all that it refers to."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict) or self._depth > _DEPTH_LIMIT:
            problem = "a listed value cannot be tested against it"
            return self._loosened(GrammarError(problem, remedy="correct it", pointer=pointer))
        pair = (id(value), id(schema))  # both stay: they are parts of the document
        if pair not in self._tested:
            self._depth += 1
            self._tested[pair] = self._valid_object(value, schema)
            self._depth -= 1
        return self._tested[pair]

    def _valid_object(self, value: JsonValue, schema: Schema) -> bool:
        pointer = self._document.pointer(schema)
        if "$ref" in schema:
            try:
                target = self._document.referred(schema)
            except GrammarError as error:
                target = self._loosened(error)
            if not self._valid(value, target, pointer):
                return False
        for keyword in ("allOf", "anyOf", "oneOf"):
            listed = schema.get(keyword)
            if isinstance(listed, list):
                list_pointer = child_pointer(pointer, keyword)
                valid = sum(self._valid(value, option, list_pointer) for option in listed)
                most = 1 if keyword == "oneOf" and not self._is_loosened else len(listed)
                if not (len(listed) if keyword == "allOf" else 1) <= valid <= most:
                    return False
        if id(schema) not in self._read:
            self._read[id(schema)] = read_constraints(schema, pointer, self._loosened)
        return self.satisfies(value, self._read[id(schema)])


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
        if state in satisfiable:
            continue
        if state.alternatives is not None:
            has_instance = any(option in satisfiable for option in state.alternatives)
        elif state.shape is None:
            has_instance = False
        elif state.shape.values is not None:
            has_instance = bool(state.shape.values)
        else:
            has_instance = bool(possible_types(state.shape, satisfiable))
        if has_instance:
            satisfiable.add(state)
            waiting += leading_to.get(state, ())
    return satisfiable


def possible_types(shape: Shape, satisfiable: set[State]) -> frozenset[str]:
    """Return the types of which a shape may have values."""
    possible = {"null", "boolean"} & shape.types
    if "number" in shape.types and shape.has_number():
        possible.add("number")
    if "string" in shape.types and shape.has_text():
        possible.add("string")
    if "array" in shape.types and _has_array(shape, satisfiable):
        possible.add("array")
    if "object" in shape.types and _has_object(shape, satisfiable):
        possible.add("object")
    return frozenset(possible)


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


_PAIR_DEPTH_LIMIT = 50
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
            not self._disjoint(left, right, 0)
            for index, left in enumerate(states)
            for right in states[:index]
        )

    def _disjoint(self, left: State, right: State, depth: int) -> bool:
        if left not in self._satisfiable or right not in self._satisfiable:
            return True
        pair = frozenset((left, right))
        if left is right or depth > _PAIR_DEPTH_LIMIT or len(self._disjoint_pairs) > PAIR_LIMIT:
            return False
        if pair not in self._disjoint_pairs:
            self._disjoint_pairs[pair] = (
                False  # during the comparison: recursive schemas meet the pair again
            )
            self._disjoint_pairs[pair] = self._compare(left, right, depth + 1)
        return self._disjoint_pairs[pair]

    def _compare(self, left: State, right: State, depth: int) -> bool:
        if left.alternatives is not None:
            return all(self._disjoint(state, right, depth) for state in left.alternatives)
        if right.alternatives is not None:
            return all(self._disjoint(left, state, depth) for state in right.alternatives)
        if left.shape is None or right.shape is None:
            return True
        return self._shapes_disjoint(left.shape, right.shape, depth)

    def _shapes_disjoint(self, left: Shape, right: Shape, depth: int) -> bool:
        if left.values is not None and right.values is not None:
            return set(map(canonical, left.values)).isdisjoint(map(canonical, right.values))
        for shape, listed in ((left, right.values), (right, left.values)):
            if listed is not None:
                return not any(type_of(value) in shape.types for value in listed)
        common = possible_types(left, self._satisfiable) & possible_types(right, self._satisfiable)
        return all(self._type_disjoint(name, left, right, depth) for name in common)

    def _type_disjoint(self, name: str, left: Shape, right: Shape, depth: int) -> bool:
        if name == "number":
            return _apart(left, right) or _apart(right, left)
        if name == "string":
            return _shorter(left.longest, right.shortest) or _shorter(right.longest, left.shortest)
        if name == "array":
            return self._arrays_disjoint(left, right, depth)
        if name != "object":
            return False
        for required in dict.fromkeys([*left.required, *right.required]):
            first, second = _property(left, required), _property(right, required)
            if first is not None and second is not None and self._disjoint(first, second, depth):
                return True
        return False

    def _arrays_disjoint(self, left: Shape, right: Shape, depth: int) -> bool:
        if _shorter(left.most_items, right.fewest_items):
            return True
        if _shorter(right.most_items, left.fewest_items):
            return True
        present = max(left.fewest_items, right.fewest_items)
        compared = min(present, 1 + max(len(left.prefix), len(right.prefix)))
        for index in range(compared):
            first, second = _item(left, index), _item(right, index)
            if first and second and self._disjoint(first, second, depth):
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
