"""Values of schemas: listed values, finite values, and values that two schemas share.

- `Instances` tests the values that `enum` and `const` list.
- `satisfiable_states` finds the states that some finite value satisfies. A schema that always
  requires itself has no such value, although each step of it can be written.
- `Exclusions` proves that two states have no value in common, so a `oneOf` of them equals an
  `anyOf`. The proof uses types, constants, bounds, or a property or item that both have.
"""

from __future__ import annotations

from math import ceil, floor

from ...typescript.json_text import JsonValue, Schema
from ..errors import GrammarError, Report, raise_error
from .budget import spend
from .constraints import TYPES, Constraints, Overlap, Shape, State, canonical, type_of
from .documents import REFERENCES, Document, child_pointer
from .formats import NARROW_PATTERNS
from .keywords import dependents, read_constraints
from .pattern_automata import share_a_text

__all__ = [
    "UNIQUE_LIMIT",
    "Exclusions",
    "Instances",
    "distinct_arrays",
    "possible_types",
    "satisfiable_states",
]

UNIQUE_LIMIT = 2_500
"""The most items in a list of all arrays whose items differ."""

_RANGE_LIMIT = 50

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
        spend(10)
        self._tests_left -= 1
        if self._tests_left < 0:
            problem = f"listed values need more than {TEST_LIMIT:,} tests"
            remedy = "list fewer values, or use fewer keywords beside them"
            return self._loosened(GrammarError(problem, remedy=remedy, pointer=rule.pointer))
        for refusal in rule.refusals:
            if refusal.type in ("", type_of(value)):
                self._loosened(refusal.error(rule))
        if type_of(value) not in rule.types:
            return False
        if rule.values is not None and canonical(value) not in rule.value_texts:
            return False
        if not rule.allows_itself(value) or not all(
            self._valid(inner, schema, rule.pointer) for inner, schema in rule.inside(value)
        ):
            return False
        if rule.contains is None or not isinstance(value, list):
            return True
        matches = sum(self._valid(item, rule.contains, rule.pointer) for item in value)
        is_enough = matches >= rule.fewest_matches
        return is_enough and (
            self._is_loosened or rule.most_matches is None or matches <= rule.most_matches
        )

    def _loosened(self, error: GrammarError) -> bool:
        """Report a schema that cannot be tested; every value passes it."""
        self._report(error)
        self._is_loosened = True
        return True

    def _valid(self, value: JsonValue, schema: JsonValue, pointer: str) -> bool:
        """Return whether a value satisfies a schema and everything that the schema refers to."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict) or self._depth > _DEPTH_LIMIT:
            problem = "a listed value cannot be tested against it"
            return self._loosened(GrammarError(problem, remedy="correct it", pointer=pointer))
        pair = (id(value), id(schema))  # ids stay valid: both objects are parts of the document
        spend(2)
        if pair not in self._tested:
            self._depth += 1
            self._tested[pair] = self._valid_object(value, schema)
            self._depth -= 1
        return self._tested[pair]

    def _valid_object(self, value: JsonValue, schema: Schema) -> bool:
        pointer = self._document.pointer(schema)
        for keyword in [keyword for keyword in REFERENCES if keyword in schema]:
            try:
                target = self._document.referred(schema, keyword)
            except GrammarError as error:
                target = self._loosened(error)
            if not self._valid(value, target, pointer):
                return False
        if not self._cases_hold(value, schema, pointer):
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
            self._read[id(schema)] = read_constraints(
                schema, pointer, self._loosened, is_old=self._document.is_old
            )
        return self.satisfies(value, self._read[id(schema)])

    def _cases_hold(self, value: JsonValue, schema: Schema, pointer: str) -> bool:
        """Return whether a value satisfies `not`, `if` and dependencies."""
        if "not" in schema and self._valid(value, schema["not"], pointer):
            return self._is_loosened
        if "if" in schema and not self._is_loosened:
            keyword = "then" if self._valid(value, schema["if"], pointer) else "else"
            if not self._is_loosened and not self._valid(value, schema.get(keyword, True), pointer):
                return False
        for name, _, dependent in dependents(schema):
            if isinstance(value, dict) and name in value:
                if isinstance(dependent, list):
                    if not value.keys() >= set(map(str, dependent)):
                        return False
                elif not self._valid(value, dependent, pointer):
                    return False
        return True


# States that some finite value satisfies


def satisfiable_states(states: list[State], *, unwritten: bool = False) -> set[State]:
    """Return the states that have an instance, searching from the inside out.

    With `unwritten`, instances that the grammar leaves out count too.
    """
    leading_to: dict[State, list[State]] = {}
    for state in states:
        for inner in state.inside():
            leading_to.setdefault(inner, []).append(state)
    satisfiable: set[State] = set()
    waiting = list(states)  # inner states come last and are tried first
    while waiting:
        state = waiting.pop()
        spend(3)
        if state in satisfiable or (state.unwritten and not unwritten):
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
    """Return the types of the values that a shape may have."""
    spend(10 + len(shape.properties))
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


def distinct_arrays(shape: Shape, satisfiable: set[State]) -> list[list[JsonValue]] | None:
    """Return the arrays whose items differ; None if they cannot be listed or are too many."""
    arrays: list[list[JsonValue]] = []
    longest: list[list[JsonValue]] = [[]]
    size = 0
    while longest and size <= UNIQUE_LIMIT:
        length = len(longest[0])
        if length >= shape.fewest_items:
            arrays += longest
        if length == shape.most_items:
            return arrays
        item = _item(shape, length)
        values = None if item is None else _listable_values(item, satisfiable)
        if values is None:
            return None
        texts = {canonical(value): value for value in values}
        longer = []
        for array in longest:
            present = set(map(canonical, array))
            spend(2 * len(texts))
            longer += [[*array, value] for text, value in texts.items() if text not in present]
            if len(longer) * (length + 1) > UNIQUE_LIMIT:
                return None
        longest = longer
        size += len(longest) * (length + 1)
    return None if longest else arrays


def _listable_values(state: State, satisfiable: set[State]) -> list[JsonValue] | None:
    if state not in satisfiable:
        return []
    if state.alternatives is not None:
        listed = [_listable_values(inner, satisfiable) for inner in state.alternatives]
        if any(values is None for values in listed):
            return None
        return [value for values in listed for value in values or ()]
    shape = state.shape
    if shape is None or shape.values is not None:
        return [] if shape is None else shape.values
    if shape.types <= {"null", "boolean"}:
        names: dict[str, list[JsonValue]] = {"null": [None], "boolean": [True, False]}
        return [value for name in names if name in shape.types for value in names[name]]
    if shape.types == {"number"} and shape.step and shape.lowest and shape.highest:
        first, last = ceil(shape.lowest[0] / shape.step), floor(shape.highest[0] / shape.step)
        if shape.step.denominator == 1 and last - first <= _RANGE_LIMIT:
            multiples = [shape.step * number for number in range(first, last + 1)]
            return [int(number) for number in multiples if shape.has_in_bounds(number)]
    return None


def _has_array(shape: Shape, satisfiable: set[State]) -> bool:
    if shape.unique and distinct_arrays(shape, satisfiable) == []:
        return False
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
        self._shared: dict[frozenset[State], frozenset[str]] = {}

    def overlap(self, states: list[State]) -> Overlap | None:
        """Return the types of the values that two of the states may share, if any."""
        possible = [state for state in states if state in self._satisfiable]
        if _have_distinct_constants(possible):
            return None
        overlap = Overlap()
        for index, right in enumerate(states):
            for other, left in enumerate(states[:index]):
                shared = self.shared_types(left, right)
                if shared:
                    overlap.types[other, index] = shared
        if not overlap.types:
            return None
        if all(types == {"object"} for types in overlap.types.values()):
            overlap.tag = _default_tag(possible)
        return overlap

    def shared_types(self, left: State, right: State, depth: int = 0) -> frozenset[str]:
        """Return the types of the values that both states may have."""
        spend(3)
        if left not in self._satisfiable or right not in self._satisfiable:
            return frozenset()
        pair = frozenset((left, right))
        if left is right or depth > _PAIR_DEPTH_LIMIT or len(self._shared) > PAIR_LIMIT:
            return frozenset(TYPES)
        if pair not in self._shared:
            self._shared[pair] = frozenset(TYPES)  # for recursive schemas, which
            self._shared[pair] = self._compare(left, right, depth + 1)  # compare the pair again
        return self._shared[pair]

    def all_differ(self, shape: Shape) -> bool:
        """Return whether no two items of an array can be equal."""
        most = shape.most_items
        if most is None or most > len(shape.prefix):
            if shape.items is None or shape.items in self._satisfiable:
                return most is not None and most < 2
            most = len(shape.prefix)
        items = shape.prefix[:most]
        return not any(
            self.shared_types(left, right)
            for index, right in enumerate(items)
            for left in items[:index]
        )

    def _disjoint(self, left: State, right: State, depth: int) -> bool:
        return not self.shared_types(left, right, depth)

    def _compare(self, left: State, right: State, depth: int) -> frozenset[str]:
        for state, other in ((left, right), (right, left)):
            if state.alternatives is not None:
                shared = (self.shared_types(inner, other, depth) for inner in state.alternatives)
                return frozenset().union(*shared)
        if left.shape is None or right.shape is None:
            return frozenset()
        return self._compare_shapes(left.shape, right.shape, depth)

    def _compare_shapes(self, left: Shape, right: Shape, depth: int) -> frozenset[str]:
        if left.values is not None and right.values is not None:
            texts = set(map(canonical, left.values))
            return frozenset(type_of(value) for value in right.values if canonical(value) in texts)
        for shape, listed in ((left, right.values), (right, left.values)):
            if listed is not None:
                return frozenset(type_of(value) for value in listed if shape.may_have(value))
        spend(20)
        common = possible_types(left, self._satisfiable) & possible_types(right, self._satisfiable)
        return frozenset(
            name for name in common if not self._type_disjoint(name, left, right, depth)
        )

    def _type_disjoint(self, name: str, left: Shape, right: Shape, depth: int) -> bool:
        if name == "number":
            return _apart(left, right) or _apart(right, left)
        if name == "string":
            if _shorter(left.longest, right.shortest) or _shorter(right.longest, left.shortest):
                return True
            return not all(
                share_a_text(first, second)
                for first in left.patterns
                for second in right.patterns
                if NARROW_PATTERNS.isdisjoint((first, second))
            )
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
    """Return whether each state, or a required property of it, has constants of its own."""
    shapes = [state.shape for state in states]
    if _list_distinct_values(shapes):
        return True
    first = shapes[0] if shapes else None
    for name in first.required if first is not None else ():
        spend(3 * len(shapes))
        inner: list[Shape | None] = []
        for shape in shapes:
            if shape is None or shape.types != {"object"} or shape.values is not None:
                return False
            inner.append(shape.properties[name].shape if name in shape.required else None)
        if _list_distinct_values(inner):
            return True
    return False


def _default_tag(states: list[State]) -> str | None:
    """Return a property whose constants differ in each state and are also its default.

    A value may omit this property, and then nothing distinguishes the states. pydantic writes such
    schemas.
    """
    shapes = [state.shape for state in states if state.shape is not None]
    if len(shapes) < len(states) or any(shape.types != {"object"} for shape in shapes):
        return None
    for name in shapes[0].properties:
        spend(3 * len(shapes))
        tags = [shape.properties[name] for shape in shapes if name in shape.properties]
        if len(tags) < len(shapes) or not _list_distinct_values([tag.shape for tag in tags]):
            continue
        if all(
            name in shape.required or "default" in _keywords(tag)
            for shape, tag in zip(shapes, tags, strict=True)
        ):
            return name
    return None


def _keywords(state: State) -> frozenset[str]:
    rules = (atom.keywords for atom in state.atoms if isinstance(atom, Constraints))
    return frozenset().union(*rules)


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
    """Return the state of a name; None if its value is unrestricted or depends on a pattern."""
    if name in shape.properties:
        return shape.properties[name]
    return None if shape.named_by_pattern else shape.additional
