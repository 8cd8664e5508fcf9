"""The intersection of constraints: several schema objects in, one shape that satisfies all out.

Bounds become the stricter bound. Each item and each property gets one state, which joins the
schemas that the constraints have for it. Patterns of names are divided into regions without common
names, so each name has one state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from math import gcd, lcm
from typing import TypeAlias

from ...typescript.json_text import JsonValue
from ..errors import GrammarError, Report
from .budget import spend
from .constraints import Constraints, higher, lower
from .pattern_automata import select_texts, share_a_text, texts_but
from .patterns import pattern_accepts
from .states import Shape, State

PROPERTY_LIMIT = 1_000
"""The most names of an object: the engine's time grows with the square of their number."""

NAME_PATTERN_LIMIT = 50
"""The most patterns for the names of an object."""

Join: TypeAlias = Callable[[Iterable[JsonValue], str], State]
"""A function that returns the state that requires several schemas; the pointer is for errors."""


def intersection(constraints: list[Constraints], types: frozenset[str]) -> Shape:
    """Return the shape of constraints, without items and properties."""
    shape = Shape(constraints[-1].pointer if constraints else "#", types)
    for rule in constraints:
        shape.whole |= rule.whole
        shape.lowest = higher(shape.lowest, rule.lowest)
        shape.highest = lower(shape.highest, rule.highest)
        if shape.multiple is None or rule.multiple is None:
            shape.multiple = shape.multiple or rule.multiple
        else:
            shape.multiple = Fraction(
                lcm(shape.multiple.numerator, rule.multiple.numerator),
                gcd(shape.multiple.denominator, rule.multiple.denominator),
            )
        shape.shortest = max(shape.shortest, rule.shortest)
        shape.longest = _smaller(shape.longest, rule.longest)
        shape.patterns += [text for text in rule.patterns if text not in shape.patterns]
        shape.fewest_items = max(shape.fewest_items, rule.fewest_items)
        shape.most_items = _smaller(shape.most_items, rule.most_items)
        shape.fewest_properties = max(shape.fewest_properties, rule.fewest_properties)
        shape.most_properties = _smaller(shape.most_properties, rule.most_properties)
        shape.unique |= rule.unique
    other_than = frozenset[str]().union(*(rule.other_than for rule in constraints))
    if other_than:
        shape.patterns.append(texts_but(tuple(sorted(other_than))))
    if shape.multiple is not None and shape.multiple.denominator == 1:
        # llguidance panics at the mask after the 0 of a `number` that is a multiple of 2.
        shape.whole = True
    return shape


def _smaller(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)


def add_items(shape: Shape, constraints: list[Constraints], join: Join) -> None:
    """Give a shape the states of its items."""
    if "array" not in shape.types:
        return
    rules = [rule for rule in constraints if rule.prefix or rule.items is not None]
    for index in range(max((len(rule.prefix) for rule in rules), default=0)):
        spend(2 + len(rules))
        schemas = [
            rule.prefix[index] if index < len(rule.prefix) else rule.items
            for rule in rules
            if index < len(rule.prefix) or rule.items is not None
        ]
        shape.prefix.append(join(schemas, shape.pointer))
    items = [rule.items for rule in rules if rule.items is not None]
    shape.items = join(items, shape.pointer) if items else None


def add_properties(
    shape: Shape, constraints: list[Constraints], join: Join, report: Report
) -> None:
    """Give a shape the states of its properties."""
    if "object" not in shape.types:
        return
    rules = [
        rule
        for rule in constraints
        if rule.properties or rule.named_by_pattern or rule.additional is not None
    ]
    shape.required = list(dict.fromkeys(name for rule in constraints for name in rule.required))
    names = dict.fromkeys(name for rule in rules for name in rule.properties)
    names.update(dict.fromkeys(shape.required))
    if len(names) > PROPERTY_LIMIT:
        raise GrammarError(
            f"an object has more than {PROPERTY_LIMIT:,} names",
            remedy="split it into several objects",
            pointer=shape.pointer,
        )
    patterns = list(dict.fromkeys(text for rule in rules for text in rule.named_by_pattern))
    if len(patterns) > NAME_PATTERN_LIMIT:
        raise GrammarError(
            f"an object has more than {NAME_PATTERN_LIMIT} patterns for names",
            remedy="use fewer",
            pointer=shape.pointer,
        )
    regions = _regions(patterns, rules, report)
    spend(len(names) * (2 + len(rules)))
    for name in names:
        schemas = [schema for rule in rules for schema in rule.schemas_of(name)]
        shape.properties[name] = join(schemas, shape.pointer)
    for region, members in regions.items():
        schemas = []
        for rule in rules:
            named = [
                rule.named_by_pattern[text] for text in members if text in rule.named_by_pattern
            ]
            schemas += named or ([] if rule.additional is None else [rule.additional])
        for text in _unlisted(region, members, names, rules):
            shape.named_by_pattern[text] = join(schemas, shape.pointer)
    others = [rule.additional for rule in rules if rule.additional is not None]
    shape.additional = join(others, shape.pointer) if others else None


_Regions: TypeAlias = dict[str, tuple[str, ...]]
"""Patterns of names that exclude each other, with the patterns that each implies."""


def _regions(patterns: list[str], rules: list[Constraints], report: Report) -> _Regions:
    """Divide patterns into regions; report a pattern that cannot be divided, and leave it out."""
    regions: _Regions = {}
    for pattern in patterns:
        divided = _divided(regions, pattern)
        if divided is not None:
            regions = divided
            continue
        owners = [rule for rule in rules if pattern in rule.named_by_pattern]
        overlapping = next(
            (text for texts in regions.values() for text in texts if share_a_text(text, pattern)),
            patterns[0],
        )
        report(
            GrammarError(
                f"a name may match {overlapping!r} as well",
                remedy="start the patterns with ^ and different letters",
                pointer=owners[0].pointer_to("patternProperties", pattern),
            )
        )
        for rule in owners:
            rule.widen_additional([rule.named_by_pattern.pop(pattern)])
    return regions


def _divided(regions: _Regions, pattern: str) -> _Regions | None:
    """Return the regions divided by one more pattern; None if a region would be too large."""
    divided: _Regions = {}
    rest = [pattern]
    for region, members in regions.items():
        # What excludes its own patterns excludes a region, which may be too large to tell.
        if not rest or not all(share_a_text(text, rest[0]) for text in (region, *members)):
            divided[region] = members
            continue
        shared = select_texts((region, rest[0]))
        others = select_texts((region,), (rest[0],))
        left = select_texts((rest[0],), (region,))
        if shared is None or others is None or left is None:
            return None
        divided |= dict.fromkeys(shared, (*members, pattern))
        divided |= dict.fromkeys(others, members)
        rest = left
    return divided | dict.fromkeys(rest, (pattern,))


def _unlisted(
    region: str, members: tuple[str, ...], names: Iterable[str], rules: list[Constraints]
) -> list[str]:
    """Return the region without the names listed by a schema that is closed for other names."""
    closing = [
        rule
        for rule in rules
        if rule.additional is not None and rule.named_by_pattern.keys().isdisjoint(members)
    ]
    listed = [
        name
        for name in names
        if any(name in rule.properties for rule in closing) and pattern_accepts(region, name)
    ]
    unlisted = select_texts((region, texts_but(tuple(listed)))) if listed else None
    return [region] if unlisted is None else unlisted
