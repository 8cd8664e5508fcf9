"""`minProperties` and `maxProperties` of an object: counts in, the ways to meet them out.

The engine counts names as they are written, so that a name which comes twice would count twice.
What is returned needs no more than one name that the schema does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

from ..errors import GrammarError

__all__ = ["PropertyChoice", "property_choices"]

CHOICE_LIMIT = 64
"""The most ways."""


@dataclass(frozen=True)
class PropertyChoice:
    """Names that are there, names that may be there, and how many more of those unknown."""

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
    places: dict[str, str],
) -> list[PropertyChoice]:
    """Return the ways to have that many properties; `others` says that any name is allowed.

    `places` are the pointers of the two keywords.

    >>> for choice in property_choices([], ["a", "b"], 1, None, others=False, places={}):
    ...     print(choice.required)
    ('a',)
    ('b',)
    """
    always = tuple(required)
    count = len(required)
    needed = max(0, fewest - count)
    if most == count:
        return [PropertyChoice(always, (), others=False)]
    if not others:
        return _closed(always, tuple(optional), needed, most, places)
    if needed == 0 and most is None:
        return [PropertyChoice(always, tuple(optional), others=True)]
    if needed > 1:
        raise _uncounted("minProperties", "list that many names as required", places)
    if not optional:
        return [PropertyChoice(always, (), True, fewest if needed else 0, most)]
    if most is not None:
        raise _uncounted("maxProperties", "set additionalProperties to false", places)
    if len(optional) >= CHOICE_LIMIT:
        raise _uncounted("minProperties", "list a name as required", places)
    choices = [
        PropertyChoice(
            (*always, name), tuple(other for other in optional if other != name), others=True
        )
        for name in optional
    ]
    return [*choices, PropertyChoice(always, (), True, fewest)]


def _closed(
    required: tuple[str, ...],
    optional: tuple[str, ...],
    needed: int,
    most: int | None,
    places: dict[str, str],
) -> list[PropertyChoice]:
    room = len(optional) if most is None else min(len(optional), most - len(required))
    if needed == 0 and room == len(optional):
        return [PropertyChoice(required, optional, others=False)]
    if room == len(optional):
        # All of some must be there; the others may.
        if comb(len(optional), needed) <= CHOICE_LIMIT:
            return [
                PropertyChoice(
                    (*required, *chosen),
                    tuple(name for name in optional if name not in chosen),
                    others=False,
                )
                for chosen in combinations(optional, needed)
            ]
    elif sum(comb(len(optional), count) for count in range(needed, room + 1)) <= CHOICE_LIMIT:
        return [
            PropertyChoice((*required, *chosen), (), others=False)
            for count in range(needed, room + 1)
            for chosen in combinations(optional, count)
        ]
    keyword = "minProperties" if needed else "maxProperties"
    raise _uncounted(keyword, "use anyOf of objects that require their names", places)


def _uncounted(keyword: str, remedy: str, places: dict[str, str]) -> GrammarError:
    return GrammarError(
        "the names that count cannot all be foreseen",
        remedy=remedy,
        pointer=places.get(keyword, ""),
    )
