"""Automata of patterns: intersections and complements of regular expressions.

A pattern becomes a graph whose nodes are called places and whose edges are characters.
`share_a_text` walks two graphs at once.
`select_texts` makes graphs deterministic, joins them, and turns the result into a pattern by
removing one place after the other.
"""

from __future__ import annotations

import unicodedata
from collections import deque
from collections.abc import Iterator
from functools import cache, cached_property
from itertools import chain, islice, pairwise
from math import inf
from typing import NamedTuple, TypeAlias

from ..errors import GrammarError
from .budget import cached, spend
from .pattern_parser import (
    LAST,
    Alternatives,
    Characters,
    Edge,
    Node,
    Ranges,
    Repeat,
    complement,
    merged,
    parse_pattern,
    read_pattern,
)
from .pattern_starts import start_apart

PLACE_LIMIT = 50_000
"""The most places of a pattern's graph."""

PAIR_LIMIT = 40_000
"""The most pairs of places that `share_a_text` visits."""

SET_LIMIT = 100
"""The most sets of places in the deterministic graph of `select_texts`."""

TEXT_LIMIT = 15_000
"""The most characters of the pattern that `select_texts` returns."""

_ANY = Characters(((0, LAST),))


class TooLargeError(Exception):
    """A graph has too many places, or characters that cannot be divided into ranges."""


class _Position(NamedTuple):
    """A place, whether characters came before it, and whether no more may follow."""

    place: int
    started: bool = False
    ended: bool = False


class _Graph:
    """A pattern as places; it accepts a text that leads from the first to the last place."""

    def __init__(self, pattern: str) -> None:
        self.steps: list[list[tuple[Characters, int]]] = []
        self.jumps: list[list[tuple[Edge | None, int]]] = []
        first = self._place()
        self.steps[first].append((_ANY, first))  # a pattern may match anywhere in a text
        self.last = self._add(read_pattern(pattern), first)
        if self.last == first:
            self.last = self._jump(first)
        self.steps[self.last].append((_ANY, self.last))

    def _place(self) -> int:
        if len(self.steps) > PLACE_LIMIT:
            raise TooLargeError
        self.steps.append([])
        self.jumps.append([])
        return len(self.steps) - 1

    def _jump(self, start: int, edge: Edge | None = None) -> int:
        place = self._place()
        self.jumps[start].append((edge, place))
        return place

    def _add(self, node: Node, start: int) -> int:
        """Add the places of a node, and return the last."""
        if isinstance(node, Characters):
            place = self._place()
            self.steps[start].append((node, place))
            return place
        if isinstance(node, Edge):
            return self._jump(start, node)
        if isinstance(node, Alternatives):
            end = self._place()
            for part in node.parts:
                self.jumps[self._add(part, self._jump(start))].append((None, end))
            return end
        if isinstance(node, Repeat):
            return self._repeat(node, start)
        for part in node.parts:
            start = self._add(part, start)
        return start

    def _repeat(self, node: Repeat, start: int) -> int:
        for _ in range(node.least):
            start = self._add(node.part, start)
        if node.most is None:
            loop = self._jump(start)
            self.jumps[self._add(node.part, loop)].append((None, loop))
            return self._jump(loop)
        ends = [start]
        for _ in range(node.most - node.least):
            ends.append(self._add(node.part, self._jump(ends[-1])))
        end = self._place()
        for place in ends:
            self.jumps[place].append((None, end))
        return end

    def jumped(self, position: _Position) -> list[_Position]:
        """Return the positions that can be reached without a character."""
        place, started, ended = position
        return [
            _Position(target, started, ended or (edge is not None and not edge.start))
            for edge, target in self.jumps[place]
            if edge is None or not edge.start or not started
        ]

    def start(self) -> frozenset[_Position]:
        """Return the positions before the first character."""
        return self.settled({_Position(_START)})

    def accepts(self, positions: frozenset[_Position]) -> bool:
        """Return whether the text that leads to these positions is accepted."""
        return any(position.place == self.last for position in positions)

    def least_rest(self, positions: frozenset[_Position]) -> float:
        """Return the fewest characters after the positions to an accepted text; inf without one."""
        distances = self._distances
        rests = (distances.get((place, ended), inf) for place, _, ended in positions)
        return min(rests, default=inf)

    @cached_property
    def _distances(self) -> dict[tuple[int, bool], int]:
        """The fewest characters to the last place, by place and whether the text has ended.

        Some of the text is read already, so no start anchor can be passed.
        """
        before: dict[tuple[int, bool], list[tuple[tuple[int, bool], int]]] = {}
        for place in range(len(self.steps)):
            for ended in (False, True):
                for target, _, end in self.jumped(_Position(place, True, ended)):
                    before.setdefault((target, end), []).append(((place, ended), 0))
            for _, target in self.steps[place]:
                before.setdefault((target, False), []).append(((place, False), 1))
        distances = dict.fromkeys(((self.last, False), (self.last, True)), 0)
        waiting = deque(distances)
        while waiting:
            reached = waiting.popleft()
            for earlier, characters in before.get(reached, ()):
                distance = distances[reached] + characters
                if distance < distances.get(earlier, inf):
                    distances[earlier] = distance
                    # What takes no character goes first: places are met in the order of distance.
                    (waiting.append if characters else waiting.appendleft)(earlier)
        return distances

    def next_characters(self, positions: frozenset[_Position]) -> set[Characters]:
        """Return what leads from the positions to others."""
        return {
            characters for position in positions for characters, _ in self.steps[position.place]
        }

    def borders(self, positions: frozenset[_Position]) -> set[int]:
        """Return the code points at which the next positions change."""
        following = self.next_characters(positions)
        if any(characters.categories for characters in following):
            raise TooLargeError  # a category cannot be divided into ranges
        return _borders(following)

    def step(self, positions: frozenset[_Position], code: int) -> frozenset[_Position]:
        """Return the positions after one more character."""
        return self.settled(
            {
                _Position(target, True)
                for place, _, ended in positions
                if not ended
                for characters, target in self.steps[place]
                if characters.include(chr(code))
            }
        )

    def settled(self, positions: set[_Position]) -> frozenset[_Position]:
        """Return all reachable positions; only the last one if the text is accepted."""
        reached = self.reached(positions)
        # From there, any characters lead to the last place again: all other positions add nothing.
        last = _Position(self.last, True)
        if any(place == self.last and not ended for place, _, ended in reached):
            return frozenset({last})
        return reached

    def reached(self, positions: set[_Position]) -> frozenset[_Position]:
        """Return the positions and all that they reach without a character."""
        reached, waiting = set(positions), list(positions)
        while waiting:
            for position in self.jumped(waiting.pop()):
                if position not in reached:
                    reached.add(position)
                    waiting.append(position)
        return frozenset(reached)


@cached(maxsize=256)
def pattern_graph(pattern: str) -> _Graph:
    """Return the graph of a pattern, which is cached."""
    graph = _Graph(pattern)
    spend(3 * len(graph.steps))
    return graph


@cached(maxsize=4096)
def share_a_text(left: str, right: str) -> bool:
    """Return False if it is certain that no text matches both patterns.

    >>> share_a_text("^a+$", "^a*b"), share_a_text("^[ab]+$", "^a*b")
    (False, True)
    """
    # Both orders have one entry in the cache.
    if left > right:
        return share_a_text(right, left)
    if start_apart(left, right):
        return False
    try:
        first, second = pattern_graph(left), pattern_graph(right)
    except TooLargeError:
        return True
    start = (_Position(0), _Position(0))
    visited, waiting = {start}, [start]
    while waiting:
        one, other = waiting.pop()
        if one.place == first.last and other.place == second.last:
            return True
        following = [(position, other) for position in first.jumped(one)]
        following += [(one, position) for position in second.jumped(other)]
        if not one.ended and not other.ended:
            following += [
                (_Position(target, True), _Position(goal, True))
                for characters, target in first.steps[one.place]
                for others, goal in second.steps[other.place]
                if not characters.exclude(others)
            ]
        spend(4 + 2 * len(following))
        fresh = set(following) - visited
        visited |= fresh
        waiting += fresh
        if len(visited) > PAIR_LIMIT:
            return True
    return False


@cached(maxsize=256)
def select_texts(wanted: tuple[str, ...], unwanted: tuple[str, ...] = ()) -> list[str] | None:
    """Return a pattern of all texts that match the first patterns and none of the others.

    The list is empty if there are no such texts. The result is None if the pattern is too large.

    >>> select_texts((), ("^a",))
    ['^(?:(?:|[^a](?:[^])*))$']
    >>> select_texts(("^a",), ("^a",))
    []
    """
    try:
        labels = _labels(
            [pattern_graph(pattern) for pattern in wanted], list(map(pattern_graph, unwanted))
        )
    except TooLargeError:
        return None
    while len(labels) > 1:
        place = min(
            (place for place in labels if place != _START),
            # The number of labels that removing the place adds.
            key=lambda place: len(labels[place]) * sum(place in to for to in labels.values()),
        )
        spend(3 * sum(map(len, labels.values())))
        outgoing = labels.pop(place)
        loop = _repeated(outgoing.pop(place, None))
        for targets in labels.values():
            if place in targets:
                before = targets.pop(place) + loop
                for target, label in outgoing.items():
                    written = before + label
                    earlier = targets.get(target)
                    targets[target] = written if earlier is None else f"(?:{earlier}|{written})"
                    if len(targets[target]) > TEXT_LIMIT:
                        return None
    if _END not in labels[_START]:
        return []
    selected = f"^(?:{_repeated(labels[_START].get(_START))}{labels[_START][_END]})$"
    try:
        parse_pattern(selected, "")
    except GrammarError:  # too long, or nested too deep
        return None
    return [selected]


def plain_patterns(pattern: str, pointer: str) -> list[str]:
    """Return patterns that together equal this one, without the look-aheads at its start.

    >>> plain_patterns("^(?=.*[0-9])(?!$)[a-z0-9]*$", "#/pattern")[:2]
    ['^(?:.*[0-9])', '^[a-z0-9]*$']
    """
    wanted: list[str] = []
    unwanted: list[str] = []
    index = 1
    while pattern[:1] == "^" and pattern.startswith(("(?=", "(?!"), index):
        end = _group_end(pattern, index)
        listed = wanted if pattern[index + 2] == "=" else unwanted
        listed.append(f"^(?:{pattern[index + 3 : end]})")
        index = end + 1
    # With a `|` outside of all groups, they are look-aheads of the first alternative only.
    if index == 1 or _group_end(f"({pattern[index:]}", 0, sign="|") <= len(pattern) - index:
        return [pattern]
    wanted.append(f"^{pattern[index:]}")
    try:
        selected = [select_texts((), (text,)) for text in unwanted]
    except GrammarError as error:
        raise GrammarError(error.problem, remedy=error.remedy, pointer=pointer) from None
    if None in selected:
        return [pattern]
    # `[]` matches nothing: the look-ahead excludes every text.
    return [*wanted, *(text for texts in selected for text in texts or ["[]"])]


def _group_end(pattern: str, start: int, sign: str = ")") -> int:
    """Return the index of a closing parenthesis, or of another sign directly inside the group."""
    depth, in_class, index = 0, False, start
    while index < len(pattern):
        character = pattern[index]
        if character == "\\":
            index += 1
        elif in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
        elif character == sign and depth == 1:
            return index
        elif character in "()":
            depth += 1 if character == "(" else -1
        index += 1
    return len(pattern) + 1


_TREE_DEPTH = 40
"""How many characters `texts_but` compares in nested groups, of which a pattern may have 50."""


@cached(maxsize=256)
def texts_but(texts: tuple[str, ...]) -> str:
    """Return a pattern of all texts except these.

    It is a tree: a character leads to one place, so the engine follows it at little cost.

    >>> texts_but(("ab", "ac"))
    '^(?:[^a][^]*|a(?:[^bc][^]*|b[^][^]*|c[^][^]*)?)?$'
    """
    spend(sum(map(len, texts)))
    listed = set(texts)
    following: dict[str, set[str]] = {text: set() for text in texts}
    for text in texts:
        for length, character in enumerate(text):
            following.setdefault(text[:length], set()).add(character)
    deep: dict[str, list[str]] = {}
    for start in sorted(following):
        if len(start) >= _TREE_DEPTH:
            deep.setdefault(start[:_TREE_DEPTH], []).append(start)

    def others(start: str) -> str:
        """Write what may follow a start."""
        codes = sorted(map(ord, following.get(start, ())))
        parts = [f"[^{''.join(map(_code, codes))}][^]*"]
        if len(start) < _TREE_DEPTH:
            parts += [_code(code) + others(start + chr(code)) for code in codes]
        elif len(start) == _TREE_DEPTH:
            parts += [
                "".join(map(_code, map(ord, longer[_TREE_DEPTH:]))) + others(longer)
                for longer in deep[start]
                if longer != start
            ]
        if start in listed:
            return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"
        return f"(?:{'|'.join(parts)})?"

    return f"^{others('')}$"


def _code(code: int) -> str:
    character = chr(code)
    return character if character.isascii() and character.isalnum() else f"\\u{{{code:x}}}"


def character_steps(graphs: list[_Graph], places: _Places) -> Iterator[tuple[str, _Places]]:
    """Yield characters that lead to different places in the graphs, plain ones if possible."""
    following = set[Characters]().union(*map(_Graph.next_characters, graphs, places))
    kinds = set[frozenset[Characters]]()
    for code in _likely_codes(following):
        kind = frozenset(one for one in following if one.include(chr(code)))
        if kind not in kinds:
            kinds.add(kind)
            yield chr(code), tuple(map(lambda graph, at: graph.step(at, code), graphs, places))


def _likely_codes(following: set[Characters]) -> Iterator[int]:
    if any(characters.categories for characters in following):
        yield from (*_PLAIN, *_one_of_each_category())
    for first, end in pairwise(sorted({0, LAST + 1} | _borders(following))):
        plain = (code for code in _PLAIN if first <= code < end)
        easy = (code for code in range(first, min(end, first + 64)) if _is_easy(code))
        yield from islice(chain(plain, easy), 1)


def _borders(following: set[Characters]) -> set[int]:
    """Return the code points at which ranges begin, and those behind their ends."""
    return {code for one in following for first, last in one.ranges for code in (first, last + 1)}


@cache
def _one_of_each_category() -> list[int]:
    """Return the first code point of each general category that a text may have."""
    codes = filter(_is_easy, range(0xFFFF, 0, -1))
    return [*{unicodedata.category(chr(code)): code for code in codes}.values()]


_PLAIN = (*map(ord, "a0A -_/."), *range(0x21, 0x7F))


def _is_easy(code: int) -> bool:
    return code > 0x20 and not 0x7F <= code <= 0xA0 and not 0xD800 <= code <= 0xDFFF


_START, _END = 0, -1

_Places: TypeAlias = tuple[frozenset[_Position], ...]
"""The positions in each graph to which one text leads."""


def _labels(wanted: list[_Graph], unwanted: list[_Graph]) -> dict[int, dict[int, str]]:
    """Return the characters on the edges of a graph of the selected texts."""
    graphs = [*wanted, *unwanted]
    start = tuple(graph.start() for graph in graphs)
    numbers: dict[_Places, int] = {start: _START}
    ranges: dict[int, dict[int, list[tuple[int, int]]]] = {}
    ends: set[int] = set()
    waiting = [start]
    while waiting:
        places = waiting.pop()
        number = numbers[places]
        targets = ranges.setdefault(number, {})
        accepting = [
            graph.accepts(positions) for graph, positions in zip(graphs, places, strict=True)
        ]
        if accepting == [True] * len(wanted) + [False] * len(unwanted):
            ends.add(number)
        borders = sorted({0, LAST + 1}.union(*map(_Graph.borders, graphs, places)))
        for first, end in pairwise(borders):
            spend(5 + 5 * sum(map(len, places)))
            following = tuple(
                graph.step(positions, first)
                for graph, positions in zip(graphs, places, strict=True)
            )
            if following not in numbers:
                if len(numbers) > SET_LIMIT:
                    raise TooLargeError
                numbers[following] = len(numbers)
                waiting.append(following)
            targets.setdefault(numbers[following], []).append((first, end - 1))
    # Places from which no end can be reached would only lengthen the pattern.
    useful = set(ends)
    while useful != (more := useful | {n for n in ranges if not useful.isdisjoint(ranges[n])}):
        useful = more
    labels: dict[int, dict[int, str]] = {_START: {}}
    for number in useful:
        targets = ranges[number]
        labels[number] = {n: _class(merged(targets[n])) for n in targets if n in useful}
        if number in ends:
            labels[number][_END] = ""
    return labels


def _class(ranges: Ranges) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _code(ranges[0][0])
    written = "[" + "".join(map(_range, ranges)) + "]"
    others = "[^" + "".join(map(_range, complement(ranges))) + "]"
    return min(written, others, key=len)


def _range(ends: tuple[int, int]) -> str:
    first, last = ends
    return _code(first) if first == last else f"{_code(first)}-{_code(last)}"


def _repeated(label: str | None) -> str:
    return f"(?:{label})*" if label else ""
