"""Witnesses: which states have an instance, a finite value that satisfies them.

A schema that always requires itself has none, although each step of it can be written.
"""

from __future__ import annotations

from math import ceil, floor

from ...typescript.json_text import JsonValue
from .budget import spend
from .constraints import canonical
from .states import Shape, State

UNIQUE_LIMIT = 2_500
"""The most items in a list of all arrays whose items differ."""

_RANGE_LIMIT = 50


def satisfiable_states(states: list[State], *, omitted: bool = False) -> set[State]:
    """Return the states that have an instance, searching from the inside out.

    With `omitted`, instances that the grammar leaves out count too.
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
        if state in satisfiable or (state.omitted and not omitted):
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
        item = shape.item(length)
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
