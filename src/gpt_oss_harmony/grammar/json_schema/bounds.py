"""Bounds of numbers and counts of properties, in a form that the engine enforces.

Numbers are exact: a float stands for its shortest digits. The engine misreads some ranges and
misses some numbers; the functions here correct that. The engine counts the names of properties as
they are written, so it would count a repeated name twice. That is why `property_choices` uses at
most one name that the schema does not list.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from math import ceil, comb, floor, gcd, inf, lcm, nextafter
from typing import TypeAlias

from ...typescript.json_text import JsonValue
from ..errors import GrammarError
from .constraints import exact
from .patterns import unwritable
from .states import Shape

Bound: TypeAlias = tuple[Fraction, bool]
"""A number, and whether it is excluded."""

_DECIMALS = 9
_DIGITS = 15


def safe_bounds(shape: Shape) -> tuple[Bound | None, Bound | None]:
    """Return bounds that the engine reads with the same meaning, or stricter ones.

    The engine includes an excluded whole number if the range ends before the next one
    (``0 < x <= 0.5``); the bound then becomes the next number with nine decimals. The engine reads
    bounds as 64-bit floats and their digits as 64-bit integers, so it loses numbers next to a bound
    beyond `LARGEST_NUMBER`, and numbers beyond 64 bits.
    """
    lowest, highest = shape.lowest, shape.highest
    if shape.whole and lowest is not None:
        lowest = Fraction(floor(lowest[0]) + 1 if lowest[1] else ceil(lowest[0])), False
    if shape.whole and highest is not None:
        highest = Fraction(ceil(highest[0]) - 1 if highest[1] else floor(highest[0])), False
    lowest, highest = _readable_bounds(lowest, highest, whole=shape.whole)
    if shape.whole:
        return lowest, highest
    if lowest is None or highest is None:
        return lowest, highest
    if _misread(lowest, highest[0]):
        lowest = lowest[0] + _tiny(lowest[0]), False
    elif _misread((-highest[0], highest[1]), -lowest[0]):
        highest = highest[0] - _tiny(highest[0]), False
    return lowest, highest


def missed_numbers(shape: Shape) -> list[float]:
    """Return the numbers in range that the engine misses: a bound cut after some decimals.

    For ``x <= 1.96`` the engine allows 1.90, but not 1.9.
    """
    if shape.whole:
        return []
    missed: list[float] = []
    for bound, sign in ((shape.highest, 1), (shape.lowest, -1)):
        if bound is None or bound[0] * sign <= 0:
            continue
        for decimals in range(1, 2 * _DECIMALS):
            scale = 10**decimals
            cut = Fraction(sign * floor(abs(bound[0]) * scale), scale)
            if cut == bound[0]:
                break
            if cut.denominator != 1 and shape.has_in_bounds(cut):
                missed.append(float(cut))
    return missed


def coarser_steps(shape: Shape) -> list[Fraction]:
    """Return steps with fewer decimals, for the multiples that the engine misses.

    For multiples of 0.25 the engine allows 0.50, but not 0.5.
    """
    step = shape.multiple
    if step is None or shape.whole:
        return []
    steps: list[Fraction] = []
    unit = Fraction(1, 10)
    while (step / unit).denominator != 1:
        coarser = Fraction(
            lcm(step.numerator, unit.numerator), gcd(step.denominator, unit.denominator)
        )
        if coarser not in steps:
            steps.append(coarser)
        unit /= 10
    return steps


def _readable_bounds(
    lowest: Bound | None, highest: Bound | None, *, whole: bool
) -> tuple[Bound | None, Bound | None]:
    least = Fraction(0) if lowest is None else lowest[0]
    if least > LARGEST_INTEGER or (highest is not None and highest[0] < -LARGEST_INTEGER):
        return lowest, highest  # the engine can write no number in this range
    if highest is None and lowest is not None and lowest[0] >= _OPEN_LIMIT:
        highest = Fraction(2**63), False
    if lowest is None and highest is not None and highest[0] <= -_OPEN_LIMIT:
        lowest = Fraction(-(2**63)), False
    if highest is not None:
        highest = _readable_below(highest, whole=whole)
    if lowest is not None:
        number, excluded = _readable_below((-lowest[0], lowest[1]), whole=whole, up=True)
        lowest = -number, excluded
    return lowest, highest


def _readable_below(bound: Bound, *, whole: bool, up: bool = False) -> Bound:
    """Return the largest bound up to this one that fits a 64-bit float and a 64-bit integer.

    With `up`, the bound is a negated lower bound.
    """
    number = bound[0]
    # The engine reads the shortest digits of a number, followed by zeros.
    most = _LARGEST_FLOAT if whole else _LARGEST_ROUND_FLOAT
    if abs(number) <= LARGEST_NUMBER or number < -most:
        return bound
    if whole and not up and number >= LARGEST_INTEGER:
        return Fraction(LARGEST_INTEGER), False
    nearest = float(min(number, most))
    while (read := Fraction(nearest) if whole else Fraction(repr(nearest))) > number:
        nearest = nextafter(nearest, -inf)
    return bound if read == number else (read, False)


def _misread(bound: Bound, end: Fraction) -> bool:
    """Return whether a whole bound is excluded, and the range ends before the next whole number."""
    number, excluded = bound
    return excluded and number >= 0 and number.denominator == 1 and number < end < number + 1


def _tiny(number: Fraction) -> Fraction:
    """Return the smallest number that a float can add to this one without losing digits."""
    decimals = min(_DECIMALS, max(1, _DIGITS - len(str(abs(number.numerator)))))
    return Fraction(1, 10**decimals)


# The spelling of numbers and values


LARGEST_NUMBER = 2**53 - 1
"""The largest number up to which 64-bit floats, which the engine uses, are exact integers."""

SMALLEST_NUMBER = Fraction(1, 10**9)
"""The smallest positive number: for smaller ones the engine's patterns nest too deep."""

LARGEST_INTEGER = 2**63 - 1
"""The largest bound of an integer. The engine reads it as the float 2**63 and subtracts one."""

_LARGEST_FLOAT = Fraction(2**63 - 1024)
_LARGEST_ROUND_FLOAT = Fraction(9 * 10**18)
_OPEN_LIMIT = 10**17
"""The number from which on there must be a second bound: for the engine from 10**18 - 1000, and for
the limit of numbers (`number_limits`) where not each number of 18 digits is in range."""

LARGEST_MULTIPLE = 9 * 10**18
"""The largest multiple without a bound. With a bound, the engine writes no beginning of a number
whose multiples all need more digits than the limit of numbers leaves."""

_DIGITS_LIMIT = 17
_NESTING_LIMIT = 40


def plain_bound(number: Fraction, pointer: str, *, whole: bool) -> int | float:
    """Return a bound from `safe_bounds` as the engine reads it."""
    most = _LARGEST_FLOAT if whole else _LARGEST_ROUND_FLOAT
    if LARGEST_NUMBER < abs(number) <= most or (whole and number == LARGEST_INTEGER):
        return int(number)
    if abs(number) > LARGEST_NUMBER:
        problem = "the engine cannot enforce a bound beyond 64 bits"
        raise GrammarError(problem, remedy="use a smaller one, or text", pointer=pointer)
    return plain_number(number, pointer)


def plain_number(number: Fraction, pointer: str) -> int | float:
    """Return a number as the engine reads it without losing a digit."""
    if abs(number) > LARGEST_NUMBER:
        raise GrammarError(
            "a number is beyond ±(2**53 - 1), so the engine would lose digits",
            remedy="use a smaller one, or text",
            pointer=pointer,
        )
    if number.denominator == 1:
        return int(number)
    written = float(number)
    if abs(number) < SMALLEST_NUMBER or Fraction(repr(written)) != number:
        raise GrammarError(
            "a number is too close to 0 or has too many digits",
            remedy="round it",
            pointer=pointer,
        )
    if len(Decimal(repr(written)).as_tuple().digits) > _DIGITS_LIMIT:
        raise GrammarError("a number has too many digits", remedy="round it", pointer=pointer)
    return written


def check_writable(value: JsonValue, pointer: str, levels_left: int = _NESTING_LIMIT) -> JsonValue:
    """Return a constant that the engine can write, or raise `GrammarError`."""
    if levels_left < 0:
        raise GrammarError(
            f"a value is nested deeper than {_NESTING_LIMIT} levels",
            remedy="describe it with properties",
            pointer=pointer,
        )
    if isinstance(value, str):
        missing = unwritable(value)
        if missing:
            raise GrammarError(
                f"a text has U+{ord(missing):04X}, which needs a \\u escape",
                remedy="leave the character out",
                pointer=pointer,
            )
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        return plain_number(exact(value), pointer)
    elif isinstance(value, list):
        return [check_writable(item, pointer, levels_left - 1) for item in value]
    elif isinstance(value, dict):
        return {
            name: check_writable(item, pointer, levels_left - 1) for name, item in value.items()
        }
    return value


# Counts of properties


CHOICE_LIMIT = 64
"""The largest number of choices."""


@dataclass(frozen=True)
class PropertyChoice:
    """Required names, optional names, and the number of other names."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    others: bool
    fewest: int = 0
    most: int | None = None


def property_choices(
    required: list[str],
    optional: list[str],
    fewest: int,
    most: int | None,
    *,
    others: bool,
    pointers: dict[str, str],
) -> list[PropertyChoice]:
    """Return the ways to have the given number of properties.

    If `others` is true, any name is allowed. `pointers` has the pointers of the two keywords.

    >>> for choice in property_choices([], ["a", "b"], 1, None, others=False, pointers={}):
    ...     print(choice.required)
    ('a',)
    ('b',)
    """
    always = tuple(required)
    needed = max(0, fewest - len(required))
    if most == len(required):
        return [PropertyChoice(always, (), others=False)]
    if not others:
        keyword = "minProperties" if needed else "maxProperties"
        most_optional = len(optional) if most is None else min(len(optional), most - len(required))
        choices = _closed_choices(always, tuple(optional), needed, most_optional)
        if choices is None:
            raise _uncounted(keyword, "use anyOf of objects that require their names", pointers)
        return choices
    if needed == 0 and most is None:
        return [PropertyChoice(always, tuple(optional), others=True)]
    if needed > 1:
        raise _uncounted("minProperties", "list that many names as required", pointers)
    if not optional:
        return [PropertyChoice(always, (), True, fewest if needed else 0, most)]
    if most is not None:
        raise _uncounted("maxProperties", "set additionalProperties to false", pointers)
    if len(optional) >= CHOICE_LIMIT:
        raise _uncounted("minProperties", "list a name as required", pointers)
    choices = [
        PropertyChoice(
            (*always, name), tuple(other for other in optional if other != name), others=True
        )
        for name in optional
    ]
    return [*choices, PropertyChoice(always, (), True, fewest)]


def _closed_choices(
    required: tuple[str, ...], optional: tuple[str, ...], needed: int, most: int
) -> list[PropertyChoice] | None:
    """Return the ways to have `needed` to `most` optional names; None if there are too many."""
    if needed == 0 and most == len(optional):
        return [PropertyChoice(required, optional, others=False)]
    # If all names fit, some are required and the others optional; otherwise each way is listed.
    counts = [needed] if most == len(optional) else range(needed, most + 1)
    if sum(comb(len(optional), count) for count in counts) > CHOICE_LIMIT:
        return None
    return [
        PropertyChoice(
            (*required, *chosen),
            tuple(name for name in optional if name not in chosen) if most == len(optional) else (),
            others=False,
        )
        for count in counts
        for chosen in combinations(optional, count)
    ]


def _uncounted(keyword: str, remedy: str, pointers: dict[str, str]) -> GrammarError:
    return GrammarError(
        "not all names that count are listed",
        remedy=remedy,
        pointer=pointers.get(keyword, ""),
    )
