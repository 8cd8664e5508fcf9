r"""The patterns of JSON Schema in the form that the grammar engine reads.

The engine itself quotes a pattern for JSON. Characters that need a ``\uXXXX`` escape (see
`UNWRITABLE`) are removed from each class: the model cannot write them, and the engine would add the
quote and the backslash to a class with all control characters.
"""

from __future__ import annotations

from itertools import dropwhile, pairwise

from ...typescript.json_text import Schema
from ..errors import GrammarError
from .budget import cached, spend
from .formats import ENGINE_PATTERNS
from .pattern_parser import (
    LAST,
    Alternatives,
    Characters,
    Edge,
    Node,
    Ranges,
    Repeat,
    Sequence,
    complement,
    merged,
    read_pattern,
)

UNWRITABLE: Ranges = ((0x00, 0x07), (0x0B, 0x0B), (0x0E, 0x1F), (0x7F, 0x7F), (0xD800, 0xDFFF))
"""Code points that the grammar does not allow: JSON needs ``\\uXXXX`` for most of them."""

WRITABLE = Characters(complement(UNWRITABLE))
"""All other characters."""

SIZE_LIMIT = 20_000
"""The most characters of a pattern with its repetitions written out."""

# Without the surrogates, which are no characters in Rust: a class with them does not compile.
_UNWRITABLE_RANGES = "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in UNWRITABLE[:4])
_LONG = 400
_NAME_LENGTH = 100
# Characters, for which the engine has 2**8 states at most (`has_counts`).
_SMALL = 8
_PLACES = 2_000
_NOTHING = Alternatives(())
_EMPTY = Sequence(())


def rust_pattern(pattern: str, pointer: str) -> str:
    """Return the pattern that the engine enforces with the same meaning.

    >>> rust_pattern("^\\\\d+$", "#/pattern")
    '^[0-9]+$'
    """
    if pattern in ENGINE_PATTERNS:
        return ENGINE_PATTERNS[pattern]
    try:
        # Cached for all schemas, so its error has no pointer yet.
        return _rust_pattern(pattern)
    except GrammarError as error:
        raise GrammarError(error.problem, remedy=error.remedy, pointer=pointer) from None


@cached(maxsize=256)
def _rust_pattern(pattern: str) -> str:
    return written_pattern(writable_pattern(pattern))


def writable_pattern(pattern: str) -> Node:
    """Return the tree of a pattern without what the grammar does not allow or need."""
    spend(10 * len(pattern))
    node = _without_free_ends(_writable(read_pattern(pattern)))
    if node == _NOTHING:
        raise GrammarError(
            "every text that matches it needs \\uXXXX escapes",
            remedy="allow another character",
        )
    return node


def written_pattern(node: Node) -> str:
    """Write a tree for the engine; raise `GrammarError` if that is impossible."""
    _check_anchors(node, at_start=True, at_end=True)
    if _size(node) > SIZE_LIMIT:
        raise GrammarError(
            f"with its repetitions written out it has more than {SIZE_LIMIT:,} characters",
            remedy="use smaller counts",
        )
    return _text(node)


def unwritable(text: str) -> str:
    """Return the first character of a text that the grammar does not allow, or an empty text."""
    if text.isprintable():
        return ""
    for character in text:
        if any(first <= ord(character) <= last for first, last in UNWRITABLE):
            return character
    return ""


def pattern_accepts(pattern: str, text: str) -> bool:
    """Return whether the pattern matches somewhere in the text, in polynomial time.

    >>> pattern_accepts("^(a+)+$", "aaab")
    False
    """
    return (_accepts_name if len(text) <= _NAME_LENGTH else _accepts)(pattern, text)


def _accepts(pattern: str, text: str) -> bool:
    return bool(_ends(read_pattern(pattern), text, set(range(len(text) + 1))))


# The same names of properties meet the same patterns in many states. Longer texts are not cached,
# because they would fill memory.
_accepts_name = cached(maxsize=4096)(_accepts)


@cached(maxsize=4096)
def lengths(pattern: str) -> tuple[int, int | None]:
    """Return the fewest and the most characters of a text that the grammar and the pattern allow.

    >>> lengths("^ab?$"), lengths("a+"), lengths("^(a|\\\\x07b)$")
    ((1, 2), (1, None), (1, 1))
    """
    least, most, starts, ends = node_lengths(_writable(read_pattern(pattern)))
    return least, most if starts and ends else None


def text_keywords(patterns: list[str], shortest: int, longest: int | None, pointer: str) -> Schema:
    """Return the keywords of a text for the engine, without lengths that its pattern has anyway."""
    written: Schema = {}
    if shortest or longest is not None:
        least, most = lengths(patterns[0]) if len(patterns) == 1 else (0, None)
        if shortest > least:
            written["minLength"] = shortest
        if longest is not None and (most is None or longest < most):
            written["maxLength"] = longest
    of_engine = [rust_pattern(pattern, pointer) for pattern in patterns]
    if len(of_engine) == 1:
        written["pattern"] = of_engine[0]
    elif of_engine:
        written["allOf"] = [{"pattern": pattern} for pattern in of_engine]
    return written


def _writable(node: Node) -> Node:
    """Remove characters that the grammar does not allow, and nodes that need them."""
    if isinstance(node, Characters):
        if node.categories:
            return node
        ranges = complement(merged([*complement(node.ranges), *UNWRITABLE]))
        return Characters(ranges) if ranges else _NOTHING
    if isinstance(node, Sequence):
        parts = tuple(_writable(part) for part in node.parts)
        return _NOTHING if _NOTHING in parts else Sequence(parts)
    if isinstance(node, Alternatives):
        kept = tuple(part for part in map(_writable, node.parts) if part != _NOTHING)
        return kept[0] if len(kept) == 1 else Alternatives(kept)
    if isinstance(node, Repeat):
        part = _writable(node.part)
        if part != _NOTHING:
            return Repeat(part, node.least, node.most)
        return _NOTHING if node.least else _EMPTY
    return node


def _without_free_ends(node: Node) -> Node:
    """Remove optional parts at an unanchored end, where any text may follow or precede.

    ``[a-z]{1,100}`` matches in the same texts as ``[a-z]``, which the engine follows much faster.
    """
    if isinstance(node, Alternatives):
        return Alternatives(tuple(map(_without_free_ends, node.parts)))
    parts: list[Node] = list(node.parts) if isinstance(node, Sequence) else [node]
    for end in (0, -1):
        while parts and isinstance(repeat := parts[end], Repeat):
            parts.pop(end)
            if repeat.least:
                part = Repeat(repeat.part, repeat.least, repeat.least)
                parts.insert(0 if end == 0 else len(parts), repeat.part if part.most == 1 else part)
                break
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts))


@cached(maxsize=4096)
def has_counts(pattern: str) -> bool:
    """Return whether a pattern counts repetitions, or is long; False if it is small.

    The engine has at most 2**n states for n characters after the first ones, which do not repeat.

    >>> has_counts("^[a-z]+$"), has_counts("^a.*z.{5}$"), has_counts("^([a-z]+ ){0,99}$")
    (False, False, True)
    """
    node = _without_free_ends(read_pattern(pattern))
    spend(len(pattern))
    if len(pattern) > _LONG:
        return True
    if not _has_counts(node):
        return False
    parts = node.parts if isinstance(node, Sequence) else (node,)
    rest = dropwhile(lambda part: isinstance(part, (Characters, Edge)), parts)
    return sum(_size(part) for part in rest if not isinstance(part, Edge)) > _SMALL


@cached(maxsize=4096)
def needs_trial(pattern: str) -> bool:
    """Return whether only a trial shows that the engine can follow a pattern alone.

    It needs none without counts, and none if each character leads to one place of the pattern: then
    the engine has no more states than the pattern has places.

    >>> needs_trial("^[a-z]{1,99}-[0-9]{9}$"), needs_trial("^[a-z]{1,99}z$")
    (False, True)
    """
    if not has_counts(pattern):
        return False
    node = _without_free_ends(read_pattern(pattern))
    spend(len(pattern))
    parts = node.parts if isinstance(node, Sequence) else (node,)
    if parts[:1] != (Edge(start=True),) or _size(node) > _PLACES:
        return True
    is_open = parts[-1:] != (Edge(start=False),)
    inner = Sequence(parts[1:] if is_open else parts[1:-1])
    return not _OneWay().leads(inner, [(0, LAST)] if is_open else [])


class _OneWay:
    """Finds whether each character leads to one place of a pattern."""

    def __init__(self) -> None:
        # By identity, because the hash of a node is computed from all nodes inside of it.
        self._starts: dict[int, tuple[list[tuple[int, int]], bool]] = {}

    def leads(self, node: Node, following: list[tuple[int, int]]) -> bool:
        """Return whether it does inside a node; `following` are the characters after it."""
        if isinstance(node, Characters):
            return not node.categories
        if isinstance(node, Edge):
            return False
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                if not self.leads(part, following):
                    return False
                starts, is_optional = self._start(part)
                following = [*starts, *following] if is_optional else starts
            return True
        starts, is_optional = self._start(node)
        if isinstance(node, Alternatives):
            beside = following if is_optional else []
            return _are_apart([*starts, *beside]) and all(
                self.leads(part, following) for part in node.parts
            )
        if self._start(node.part)[1]:
            return False
        if node.least != node.most and not _are_apart([*starts, *following]):
            return False
        return self.leads(node.part, following if node.most == 1 else [*starts, *following])

    def _start(self, node: Node) -> tuple[list[tuple[int, int]], bool]:
        """Return the first characters of a node, and whether it accepts the empty text."""
        found = self._starts.get(id(node))
        if found is not None:
            return found
        spend(2)
        starts: list[tuple[int, int]] = []
        is_optional = isinstance(node, (Edge, Sequence))
        if isinstance(node, Characters):
            starts += node.ranges
        elif isinstance(node, Repeat):
            starts, is_optional = self._start(node.part)
            is_optional = is_optional or node.least == 0
        elif not isinstance(node, Edge):
            for part in node.parts:
                of_part = self._start(part)
                starts += of_part[0]
                if isinstance(node, Alternatives):
                    is_optional = is_optional or of_part[1]
                elif not of_part[1]:
                    is_optional = False
                    break
        self._starts[id(node)] = starts, is_optional
        return starts, is_optional


def _are_apart(ranges: list[tuple[int, int]]) -> bool:
    """Return whether no two ranges share a character."""
    ordered = sorted(ranges)
    return all(first[1] < second[0] for first, second in pairwise(ordered))


def _has_counts(node: Node) -> bool:
    if isinstance(node, Repeat):
        return max(node.least, node.most or 0) > 1 or _has_counts(node.part)
    return isinstance(node, (Sequence, Alternatives)) and any(map(_has_counts, node.parts))


def _check_anchors(node: Node, at_start: bool, at_end: bool) -> None:
    """Raise if ``^`` or ``$`` is inside the pattern, because the engine cannot read it there."""
    if isinstance(node, Edge):
        if not (at_start if node.start else at_end):
            raise GrammarError(
                f"{'^' if node.start else '$'} inside the pattern",
                remedy="put it at the start or end of the pattern, or of an alternative there",
            )
    elif isinstance(node, Alternatives):
        for part in node.parts:
            _check_anchors(part, at_start, at_end)
    elif isinstance(node, Repeat):
        _check_anchors(node.part, at_start=False, at_end=False)
    elif isinstance(node, Sequence):
        # Among the parts, start anchors come first and end anchors last.
        edges = [isinstance(part, Edge) and part.start for part in node.parts]
        starts = edges.index(False) if False in edges else len(edges)
        reverse_edges = [isinstance(part, Edge) and not part.start for part in node.parts[::-1]]
        ends = reverse_edges.index(False) if False in reverse_edges else len(edges)
        for index, part in enumerate(node.parts):
            _check_anchors(
                part,
                at_start=at_start and index <= starts,
                at_end=at_end and index >= len(node.parts) - 1 - ends,
            )


def _size(node: Node) -> int:
    if isinstance(node, Repeat):
        return _size(node.part) * max(1, node.most or node.least)
    if isinstance(node, (Sequence, Alternatives)):
        return 1 + sum(map(_size, node.parts))
    return 1


def node_lengths(node: Node) -> tuple[int, int | None, bool, bool]:
    """Return the fewest and the most characters, and whether it has an anchor at start and end."""
    if isinstance(node, Characters):
        return 1, 1, False, False
    if isinstance(node, Edge):
        return 0, 0, node.start, not node.start
    if isinstance(node, Repeat):
        if node.most == 0:
            return 0, 0, False, False
        least, most, _, _ = node_lengths(node.part)
        endless = most is None or (node.most is None and most > 0)
        return least * node.least, None if endless else (most or 0) * (node.most or 0), False, False
    parts = [node_lengths(part) for part in node.parts] or [(0, 0, False, False)]
    mosts = [most for _, most, _, _ in parts if most is not None]
    is_bounded = len(mosts) == len(parts)
    if isinstance(node, Sequence):
        starts, ends = any(part[2] for part in parts), any(part[3] for part in parts)
        return sum(part[0] for part in parts), sum(mosts) if is_bounded else None, starts, ends
    starts, ends = all(part[2] for part in parts), all(part[3] for part in parts)
    return min(part[0] for part in parts), max(mosts) if is_bounded else None, starts, ends


def _text(node: Node) -> str:
    if isinstance(node, Characters):
        return _class_text(node)
    if isinstance(node, Edge):
        return "^" if node.start else "$"
    if isinstance(node, Sequence):
        kept: list[Node] = []
        for element in node.parts:
            if not (isinstance(element, Edge) and element in kept):  # the engine reads only one
                kept.append(element)
        return "".join(map(_text, kept))
    if isinstance(node, Alternatives):
        return "(?:" + "|".join(map(_text, node.parts)) + ")"
    part = _text(node.part)
    if not isinstance(node.part, (Characters, Alternatives)):
        part = f"(?:{part})"
    counts = (node.least, node.most)
    braces = f"{{{node.least},{'' if node.most is None else node.most}}}"
    return part + {(0, None): "*", (1, None): "+", (0, 1): "?"}.get(counts, braces)


def _class_text(node: Characters) -> str:
    categories = "".join(f"\\p{{{name}}}" for name in node.categories)
    ranges = "".join(
        _code_text(first) if first == last else f"{_code_text(first)}-{_code_text(last)}"
        for first, last in node.ranges
    )
    if node.negated:
        return f"[^{categories}{ranges}{_UNWRITABLE_RANGES}]"
    single = len(node.ranges) == 1 and node.ranges[0][0] == node.ranges[0][1]
    return ranges if single and not categories else f"[{categories}{ranges}]"


def _code_text(code: int) -> str:
    character = chr(code)
    if character.isascii() and character.isalnum():
        return character
    return f"\\x{{{code:x}}}"


def _ends(node: Node, text: str, starts: set[int]) -> set[int]:
    """Return the places where the node can end if it starts at one of `starts`."""
    spend(1 + len(starts) // 2)
    if isinstance(node, Characters):
        return {start + 1 for start in starts if start < len(text) and node.include(text[start])}
    if isinstance(node, Edge):
        return starts & {0 if node.start else len(text)}
    if isinstance(node, Sequence):
        for part in node.parts:
            if not starts:  # most texts differ from a long pattern in their first characters
                break
            starts = _ends(part, text, starts)
        return starts
    if isinstance(node, Alternatives):
        ends: set[int] = set()
        for part in node.parts:
            ends |= _ends(part, text, starts)
        return ends
    return _repeated_ends(node, text, starts)


def _repeated_ends(node: Repeat, text: str, starts: set[int]) -> set[int]:
    for _ in range(node.least):
        following = _ends(node.part, text, starts)
        # From the same places, each further repetition leads to the same places.
        if following == starts or not following:
            starts = following
            break
        starts = following
    ends, new_ends, count = set(starts), starts, node.least
    while new_ends and (node.most is None or count < node.most):
        new_ends = _ends(node.part, text, new_ends) - ends
        ends |= new_ends
        count += 1
    return ends
