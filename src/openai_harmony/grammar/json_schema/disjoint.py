"""Whether two states exclude each other, so that a `oneOf` of them is an `anyOf`.

Only what is proved counts: by types, constants, bounds, or a property or item that both have.
"""

from __future__ import annotations

from .finite import possible_types
from .instances import type_of
from .json_values import canonical
from .states import Shape, State

__all__ = ["Exclusions"]

_DEPTH_LIMIT = 50
PAIR_LIMIT = 20_000
"""How many pairs of states are compared."""


class Exclusions:
    """Compares states; remembers what it found."""

    def __init__(self, known: set[State]) -> None:
        self._known = known
        self._found: dict[frozenset[State], bool] = {}

    def overlap(self, states: list[State]) -> bool:
        """Whether two of the states may have a value in common."""
        states = [state for state in states if state in self._known]
        if _told_apart(states):
            return False
        return any(
            not self._disjoint(one, other, 0)
            for index, one in enumerate(states)
            for other in states[:index]
        )

    def _disjoint(self, one: State, other: State, depth: int) -> bool:
        if one not in self._known or other not in self._known:
            return True
        pair = frozenset((one, other))
        if one is other or depth > _DEPTH_LIMIT or len(self._found) > PAIR_LIMIT:
            return False
        if pair not in self._found:
            self._found[pair] = False  # while it is being found out, as recursive schemas need
            self._found[pair] = self._compare(one, other, depth + 1)
        return self._found[pair]

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
                return not any(_may_have(shape, type_of(value)) for value in listed)
        common = possible_types(one, self._known) & possible_types(other, self._known)
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


def _told_apart(states: list[State]) -> bool:
    """Whether each state has constants of its own, or a required name that has: mostly so."""
    shapes = [state.shape for state in states]
    if _all_apart(shapes):
        return True
    first = shapes[0] if shapes else None
    for name in first.required if first is not None else ():
        inner: list[Shape | None] = []
        for shape in shapes:
            if shape is None or shape.types != {"object"} or shape.values is not None:
                return False
            inner.append(shape.properties[name].shape if name in shape.required else None)
        if _all_apart(inner):
            return True
    return False


def _all_apart(shapes: list[Shape | None]) -> bool:
    """Whether each shape lists values, and no value is listed twice."""
    seen: set[str] = set()
    for shape in shapes:
        if shape is None or shape.values is None:
            return False
        texts = set(map(canonical, shape.values))
        if not seen.isdisjoint(texts):
            return False
        seen |= texts
    return True


def _may_have(shape: Shape, name: str) -> bool:
    return name in shape.types


def _apart(low: Shape, high: Shape) -> bool:
    """Whether all numbers of one shape are below those of another."""
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
    """Return the state of a name; None when it is anything, or hangs on a pattern."""
    if name in shape.properties:
        return shape.properties[name]
    return None if shape.named_by_pattern else shape.additional
