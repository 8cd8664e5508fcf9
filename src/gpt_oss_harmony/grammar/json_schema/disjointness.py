"""Disjointness: a proof that two states have no value in common.

If the schemas of a `oneOf` are disjoint, it equals an `anyOf`. The proof uses types, constants,
bounds, or a property or item that both have.
"""

from __future__ import annotations

from .budget import spend
from .constraints import TYPES, Constraints, canonical, type_of
from .formats import NARROW_PATTERNS
from .pattern_automata import share_a_text
from .states import Shape, State
from .terms import Overlap
from .witnesses import possible_types

_PAIR_DEPTH_LIMIT = 50
PAIR_LIMIT = 20_000
"""The most pairs of states that are compared."""


class Disjointness:
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
                # These leave out some valid texts, so they prove nothing about the format.
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
        # Behind both prefixes, all items have the same two states: one place stands for all.
        compared = min(present, 1 + max(len(left.prefix), len(right.prefix)))
        for index in range(compared):
            first, second = left.item(index), right.item(index)
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


def _property(shape: Shape, name: str) -> State | None:
    """Return the state of a name; None if its value is unrestricted or depends on a pattern."""
    if name in shape.properties:
        return shape.properties[name]
    return None if shape.named_by_pattern else shape.additional
