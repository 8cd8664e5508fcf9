"""Turns that end in time: a matcher and a number of tokens in, masks that end the turn within it.

A limit on the tokens of a completion cuts a call or a JSON answer anywhere. `ClosingMatcher` knows
a short way from its state to the end of the turn. When the tokens that are left just suffice for
it, only this way is allowed. Before that, every token of the grammar is.

A way is found by trying, not proved to be the shortest: it takes, in each state, the first allowed
token of a list that closes what is open, or a long token where a text must have a certain length.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Sequence

from ..encoding import load_harmony_encoding
from ..tokens.special_tokens import CALL, END, FIRST_SPECIAL, MESSAGE, RETURN
from ..tokens.vocabulary import load_vocabulary
from .errors import GrammarError
from .matcher import BITMASK_WORDS, Matcher

__all__ = ["ClosingMatcher", "way_to_the_end"]

WAY_LIMIT = 1_000
"""The most tokens of a way."""

RESERVE = 24
"""The most tokens by which one token may lengthen the way to the end."""

_QUOTES = ('"}]}', '"}}', '"}]', '"]}', '"}', '"]', '"')
_BRACKETS = ("}}}", "}]}", "]}}", "}}", "}]", "]}", "]]", "}", "]")
_HEADERS = ("final", " to")
_VALUES = ('""', "[]", "{}", "commentary", '":', ":", '":"')
_FILLERS = (
    *(",", "0", "1", "a", "@", "-", "/", ".", "\\\\", "\\", "n", " ", "_", "+", "T", "Z"),
    *("null", "true", "[", "{", '{"'),
)
_ALLOWED = re.compile(rb"[^\0]")
_DRAWN = 40
_SINGLE = [1 << bit for bit in range(8)]


def way_to_the_end(matcher: Matcher, most: int = WAY_LIMIT) -> list[int] | None:
    """Return a short way to the end of the turn; None if none of `most` tokens is found.

    The matcher stays where it is.

    >>> from gpt_oss_harmony import Conversation
    >>> from gpt_oss_harmony.grammar import TurnOptions, turn_grammar
    >>> encoding = load_harmony_encoding("HarmonyGptOss")
    >>> options = TurnOptions(response_format={"type": "json_object"})
    >>> matcher = Matcher(turn_grammar(Conversation.from_messages([]), options))
    >>> begun = '<|channel|>final<|message|>{"a": [1, {"b": "c'
    >>> _ = matcher.accept_all(encoding.encode(begun, allowed_special="all"))
    >>> encoding.decode(way_to_the_end(matcher))
    '"}]}<|return|>'
    """
    short = _way(matcher, most, long_tokens=False)
    if short is not None and len(short) <= RESERVE:
        return short
    long = _way(matcher, most if short is None else len(short), long_tokens=True)
    return short if long is None else long


@functools.cache
def _preferred(*, in_text: bool) -> tuple[list[int], list[int]]:
    """Return the tokens that close what is open, and those that are tried after them.

    In a text, only a quote closes something; elsewhere, a quote opens a text.
    """
    encode = load_harmony_encoding("HarmonyGptOss").encode
    quotes, brackets, headers, values, fillers = (
        [tokens[0] for text in texts if len(tokens := encode(text)) == 1]
        for texts in (_QUOTES, _BRACKETS, _HEADERS, _VALUES, _FILLERS)
    )
    others = [*headers, MESSAGE, *values]
    if in_text:
        return [RETURN, CALL, END, *quotes, *brackets, *others], fillers
    return [RETURN, CALL, END, *brackets, *others, *quotes], fillers


def _way(matcher: Matcher, most: int, *, long_tokens: bool) -> list[int] | None:
    state, way = matcher.copy(), list[int]()
    while len(way) <= most and not state.is_finished:
        forced = state.forced_tokens()
        if not forced:
            forced = [_closer(state.bitmask(), way[-2:], long_tokens=long_tokens)]
        taken = state.accept_all(forced)
        if not taken:
            return None
        way += forced[:taken]
    return way if state.is_finished and len(way) <= most else None


@functools.cache
def _letter() -> int:
    return load_harmony_encoding("HarmonyGptOss").encode("a")[0]


def _allows(mask: bytes, token: int) -> bool:
    return token >> 3 < len(mask) and bool(mask[token >> 3] >> (token & 7) & 1)


def _closer(mask: bytes, before: list[int], *, long_tokens: bool) -> int:
    """Return an allowed token that leads to the end, not the same one three times if possible."""
    closers, fillers = _preferred(in_text=_allows(mask, _letter()))
    for token in closers if long_tokens else [*closers, *fillers]:
        if _allows(mask, token) and before != [token, token]:
            return token
    vocabulary = load_vocabulary()
    drawn: list[int] = []
    step = FIRST_SPECIAL // 8 // _DRAWN
    for start in range(0, FIRST_SPECIAL // 8, step):
        place = _ALLOWED.search(mask, start, start + step)
        if place is not None:
            byte = mask[place.start()]
            drawn.append(8 * place.start() + (byte & -byte).bit_length() - 1)
    texts = [token for token in drawn if token < FIRST_SPECIAL]
    return max(texts or drawn, key=lambda token: len(vocabulary[token]) if texts else 0)


class ClosingMatcher:
    """A matcher that ends the turn within `tokens` tokens.

    It has the members of `Matcher` that a sampler needs. `closes` is False if no way to the end is
    found that is short enough, for example because the schema requires more than `tokens` tokens.
    The mask then shows the shortest way that is known, or is that of the grammar. A token that
    lengthens the way by more than `reserve` tokens may make it False later.

    >>> from gpt_oss_harmony import Conversation
    >>> from gpt_oss_harmony.grammar import TurnOptions, turn_grammar
    >>> encoding = load_harmony_encoding("HarmonyGptOss")
    >>> wanted = {"type": "json_schema", "schema": {"type": "array", "items": {"const": "word"}}}
    >>> options = TurnOptions(response_format=wanted, reasoning=False, canonical=True)
    >>> grammar = turn_grammar(Conversation.from_messages([]), options)
    >>> matcher, taken = ClosingMatcher(grammar, tokens=12, reserve=2), []
    >>> greedy = encoding.encode('<|channel|>final<|message|>' + '["word"' + 9 * ',"word"',
    ...     allowed_special="all")
    >>> while not matcher.is_finished:
    ...     wish = greedy[len(taken)]
    ...     taken.append(wish if matcher.allows(wish) else matcher.way[0])
    ...     _ = matcher.accept(taken[-1])
    >>> encoding.decode(taken), len(taken) <= 12
    ('<|channel|>final<|message|>["word","word","word"]<|return|>', True)
    """

    def __init__(self, grammar: str, tokens: int, *, reserve: int = RESERVE) -> None:
        if tokens < 1 or reserve < 1:
            raise GrammarError("tokens and reserve: expected positive integers")
        self._matcher = Matcher(grammar)
        self._reserve = reserve
        self._since = 0  # tokens since the way was found
        self._left = tokens
        self.way: list[int] = way_to_the_end(self._matcher) or []
        """The last way to the end that was found."""
        self.closes = 0 < len(self.way) <= tokens
        """False if the turn cannot be ended in time, as far as is known."""

    @property
    def is_finished(self) -> bool:
        """True after the turn's stop token."""
        return self._matcher.is_finished

    @property
    def is_closing(self) -> bool:
        """True if only the way to the end is allowed."""
        self._look_ahead()
        return len(self.way) > 0 and self._left <= len(self.way) + self._reserve

    def _look_ahead(self) -> None:
        """Find the way again if it may have become too long since the last time."""
        if not self._since or self.is_finished:
            return
        if self._left > len(self.way) + self._reserve * (self._since + 1):
            return
        self.way = way_to_the_end(self._matcher) or []
        self._since = 0
        self.closes = 0 < len(self.way) <= self._left

    @property
    def plain(self) -> Matcher | None:
        """The matcher of the grammar; None once the turn is closing, and the masks differ."""
        return None if self.is_closing else self._matcher

    def allows(self, token: int) -> bool:
        """Return whether a token may come next."""
        return _allows(self.bitmask(), token)

    def forced_tokens(self) -> list[int]:
        """Return the tokens that must come next: the way to the end once the turn is closing."""
        return list(self.way) if self.is_closing else self._matcher.forced_tokens()

    def bitmask(self) -> bytes:
        """Return a bit for each logit, as `Matcher.bitmask`; one bit once the turn is closing."""
        if not self.is_closing:
            return self._matcher.bitmask()
        mask = bytearray(4 * BITMASK_WORDS)
        mask[self.way[0] >> 3] = _SINGLE[self.way[0] & 7]
        return bytes(mask)

    def accept(self, token: int) -> bool:
        """Take a token that the grammar allows; if it does not, change nothing and return False."""
        if not self._matcher.accept(token):
            return False
        self._left -= 1
        if self.way[:1] == [token] and not self._since:
            self.way = self.way[1:]
        else:
            self._since += 1
        return True

    def accept_all(self, tokens: Sequence[int]) -> int:
        """Take tokens up to the first that is not allowed; return how many were taken."""
        for taken, token in enumerate(tokens):
            if not self.accept(token):
                return taken
        return len(tokens)

    def copy(self) -> ClosingMatcher:
        """Return another matcher in the same state."""
        twin = copy.copy(self)
        twin._matcher = self._matcher.copy()
        return twin

    def check(self) -> None:
        """Raise `GrammarError` if the engine failed; see `Matcher.check`."""
        self._matcher.check()
