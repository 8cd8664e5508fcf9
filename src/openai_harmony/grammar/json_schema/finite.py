"""Which states some finite value satisfies: a graph of states in, the satisfiable ones out.

A schema that needs itself without end has none, though each step of it can be written.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

from .pattern_overlap import never_both
from .patterns import lengths
from .states import Shape, State

__all__ = ["possible_types", "satisfiable_states", "step_of"]


def satisfiable_states(states: list[State]) -> set[State]:
    """Return the states that have an instance, found from the inside out."""
    leading_to: dict[State, list[State]] = {}
    for state in states:
        for inner in state.inside():
            leading_to.setdefault(inner, []).append(state)
    known: set[State] = set()
    waiting = list(states)  # the last ones were found last, so they are inside
    while waiting:
        state = waiting.pop()
        if state not in known and _has_instance(state, known):
            known.add(state)
            waiting += leading_to.get(state, ())
    return known


def possible_types(shape: Shape, known: set[State]) -> frozenset[str]:
    """Return the types of which a shape has values, as far as that is known."""
    possible = {"null", "boolean"} & shape.types
    if "number" in shape.types and _has_number(shape):
        possible.add("number")
    if "string" in shape.types and _has_text(shape):
        possible.add("string")
    if "array" in shape.types and _has_array(shape, known):
        possible.add("array")
    if "object" in shape.types and _has_object(shape, known):
        possible.add("object")
    return frozenset(possible)


def step_of(shape: Shape) -> Fraction | None:
    """Return the number of which all numbers of a shape are multiples."""
    if not shape.whole:
        return shape.multiple
    return Fraction((shape.multiple or Fraction(1)).numerator)


def _has_instance(state: State, known: set[State]) -> bool:
    if state.alternatives is not None:
        return any(alternative in known for alternative in state.alternatives)
    if state.shape is None:
        return False
    return bool(state.shape.values) or (
        state.shape.values is None and bool(possible_types(state.shape, known))
    )


def _has_text(shape: Shape) -> bool:
    """Whether nothing is known that excludes all texts: patterns are compared by their starts."""
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


def _has_array(shape: Shape, known: set[State]) -> bool:
    if shape.most_items is not None and shape.fewest_items > shape.most_items:
        return False
    if any(item not in known for item in shape.prefix[: shape.fewest_items]):
        return False
    beyond = shape.fewest_items > len(shape.prefix)
    return not beyond or shape.items is None or shape.items in known


def _has_object(shape: Shape, known: set[State]) -> bool:
    if any(shape.properties[name] not in known for name in shape.required):
        return False
    fewest = max(shape.fewest_properties, len(shape.required))
    if shape.most_properties is not None and fewest > shape.most_properties:
        return False
    is_open = shape.additional is None or shape.additional in known
    if is_open or any(state in known for state in shape.named_by_pattern.values()):
        return True
    return shape.fewest_properties <= sum(state in known for state in shape.properties.values())
