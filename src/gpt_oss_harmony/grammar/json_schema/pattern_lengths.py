"""Patterns with a length in them: `minLength` as counts of what repeats in the pattern.

The engine joins a pattern with a length and searches for a text that satisfies both. For
``^[ab].*[ab]$`` it gives up from 20 characters on. ``^[ab].{18,}[ab]$`` needs no search.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Parts
from itertools import islice

from ..errors import GrammarError
from .budget import cached, spend
from .pattern_parser import Alternatives, Characters, Edge, Node, Repeat, Sequence
from .patterns import WRITABLE, writable_pattern, written_pattern

ALTERNATIVE_LIMIT = 1_000
"""The most alternatives of a pattern; two places that repeat need one for each character."""

TEXT_LIMIT = 40_000
"""The most characters of the pattern."""

_OPTIONAL_LIMIT = 32


class _TooComplex(Exception):
    """The lengths of a pattern's texts depend on more than counts of characters."""


@cached(maxsize=256)
def pattern_with_length(pattern: str, shortest: int, longest: int | None) -> str | None:
    """Return one pattern of the texts that match `pattern` and have a length; None if impossible.

    >>> pattern_with_length("^[a-z]+x$", 20, None)
    '^[a-z]{19,}x$'
    >>> pattern_with_length("^a+b?$", 3, 4)
    '^(?:a{2,2}b{1,1}|a{3,3}b?|a{4,4}b{0,0})$'
    >>> pattern_with_length("^(a+b)*$", 20, None)
    """
    try:
        found = [
            spread
            for parts in _flat(_anchored(writable_pattern(pattern)))
            for spread in islice(_spread(parts, shortest, longest), ALTERNATIVE_LIMIT)
        ]
        if not 0 < len(found) < ALTERNATIVE_LIMIT:
            return None
        spend(10 * sum(map(len, found)))
        options = tuple(Sequence(tuple(parts)) for parts in found)
        middle = options[0].parts if len(options) == 1 else (Alternatives(options),)
        written = written_pattern(Sequence((Edge(start=True), *middle, Edge(start=False))))
        return written if len(written) <= TEXT_LIMIT else None
    except (_TooComplex, GrammarError):
        return None


def least_length(pattern: str) -> int:
    """Return a number of characters that each text which matches a pattern has at least.

    >>> least_length("^(?:[a-z0-9]+[.]){1,4}[a-z]{2,}$"), least_length("^(?=.*x)a?$")
    (4, 0)
    """
    try:
        return _fewest(writable_pattern(pattern))
    except GrammarError:
        return 0


def _fewest(node: Node) -> int:
    if isinstance(node, Characters):
        return 1
    if isinstance(node, Repeat):
        return node.least * _fewest(node.part) if node.least else 0
    if isinstance(node, Sequence):
        return sum(map(_fewest, node.parts))
    return min(map(_fewest, node.parts), default=0) if isinstance(node, Alternatives) else 0


def _anchored(tree: Node) -> Iterator[list[Node]]:
    """Yield the alternatives of a pattern for whole texts."""
    anything = Repeat(WRITABLE, 0, None)
    for option in tree.parts if isinstance(tree, Alternatives) else (tree,):
        parts = list(option.parts) if isinstance(option, Sequence) else [option]
        starts = parts[:1] == [Edge(start=True)]
        ends = parts[-1:] == [Edge(start=False)]
        parts = parts[starts : len(parts) - ends]
        yield [*([] if starts else [anything]), *parts, *([] if ends else [anything])]


def _flat(options: Iterator[list[Node]]) -> list[list[Node]]:
    """Return alternatives without groups inside: characters, and repeated characters."""
    waiting, flat = list(options)[::-1], list[list[Node]]()
    while waiting:
        parts = waiting.pop()
        index = next((i for i, part in enumerate(parts) if _width(part) is None), None)
        if index is None:
            flat.append(parts)
        else:
            before, part, after = parts[:index], parts[index], parts[index + 1 :]
            waiting += [[*before, *inside, *after] for inside in reversed(_inside(part))]
        if len(flat) + len(waiting) > _OPTIONAL_LIMIT:
            raise _TooComplex
    return flat


def _width(part: Node) -> int | None:
    """Return the characters of one occurrence; None if that is not a fixed number."""
    if isinstance(part, Characters):
        return 1
    if isinstance(part, Repeat):
        return _fixed(part.part)
    return None


def _fixed(node: Node) -> int | None:
    if isinstance(node, Characters):
        return 1
    if isinstance(node, Repeat):
        width = _fixed(node.part)
        return width * node.least if width and node.least == node.most else None
    if isinstance(node, (Sequence, Alternatives)):
        widths = [_fixed(part) for part in node.parts]
        if None in widths or not widths or (isinstance(node, Alternatives) and len({*widths}) > 1):
            return None
        return widths[0] if isinstance(node, Alternatives) else sum(width or 0 for width in widths)
    return None


def _inside(part: Node) -> list[list[Node]]:
    """Return the alternatives of a group."""
    if isinstance(part, Sequence):
        return [list(part.parts)]
    if isinstance(part, Alternatives):
        return [[option] for option in part.parts]
    if isinstance(part, Repeat) and part.most is not None and part.most <= _OPTIONAL_LIMIT:
        return [[part.part] * count for count in range(part.least, part.most + 1)]
    raise _TooComplex


def _spread(parts: Parts[Node], shortest: int, longest: int | None) -> Iterator[list[Node]]:
    """Yield alternatives of flat parts that together have all their texts of a length."""
    own = sum((_width(part) or 0) * _least(part) for part in parts)
    yield from _widened(parts, shortest - own, None if longest is None else longest - own)


def _least(part: Node) -> int:
    return part.least if isinstance(part, Repeat) else 1


def _widened(parts: Parts[Node], missing: int, room: int | None) -> Iterator[list[Node]]:
    """Yield the parts with at least `missing` and at most `room` characters beyond the fewest."""
    spend(5 + len(parts))
    if room is not None and room < max(missing, 0):
        return
    if missing <= 0 and room is None:
        yield list(parts)
        return
    places = [i for i, part in enumerate(parts) if isinstance(part, Repeat) and _grows(part)]
    if not places:
        if missing <= 0:
            yield list(parts)
        return
    place = places[0]
    part = parts[place]
    assert isinstance(part, Repeat)
    width = _width(part) or 0
    before, after = [*parts[:place]], parts[place + 1 :]
    enough = max(0, -(-missing // width))
    if len(places) == 1:
        bounds = [part.most] if part.most is not None else []
        bounds += [part.least + room // width] if room is not None else []
        most = min(bounds, default=None)
        if most is None or part.least + enough <= most:
            yield [*before, Repeat(part.part, part.least + enough, most), *after]
        return
    last = enough if room is None else room // width
    if part.most is not None:
        last = min(last, part.most - part.least)
    for more in range(last + 1):
        # With this count, the part alone has all that is missing, so the count is only a least one.
        is_open = room is None and more == enough
        count = part.least + more
        repeated = Repeat(part.part, count, part.most if is_open else count)
        left = None if room is None else room - more * width
        for rest in _widened(after, missing - more * width, left):
            yield [*before, repeated, *rest]


def _grows(part: Repeat) -> bool:
    return part.most is None or part.most > part.least
