"""Turns that end in time: a matcher and a number of tokens in, masks that end the turn within it.

A limit on the tokens of a completion cuts a call or a JSON answer anywhere. `ClosingMatcher` knows
a short way from its state to the end of the turn. When the tokens that are left just suffice for
it, only this way is allowed. Shortly before that, no token is allowed that may lengthen the way too
much: one that begins a value, such as ``[{``, commits to everything which that value requires.

The way takes, in each state, a token that closes what is open. In a text with a pattern or a length
it takes the fewest characters that complete the text; `shortest` finds them in the automata.
"""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Iterable, Iterator, Sequence

from ..encoding import load_harmony_encoding
from ..tokens.special_tokens import CALL, END, FIRST_SPECIAL, MESSAGE, RETURN
from ..tokens.vocabulary import load_vocabulary
from .errors import GrammarError
from .matcher import BITMASK_WORDS, Matcher
from .number_limits import forbid, is_allowed, open_text
from .shortest import TextRule, needs_of

WAY_LIMIT = 1_000
"""The most tokens of a way."""

RESERVE = 24
"""The most tokens by which one token may lengthen the way to the end."""

_QUOTES = ('"}]}', '"}}', '"}]', '"]}', '"}', '"]', '"')
_BRACKETS = ("}}}", "}]}", "]}}", "}}", "}]", "]}", "]]", "}", "]")
_HEADERS = ("final", " to")
_VALUES = ('""', "[]", "{}", "comment", '":', ":", '":"')  # commentary is two tokens
_FILLERS = (
    *(",", "0", "1", "a", "@", "-", "/", ".", "\\\\", "\\", "n", " ", "_", "+", "T", "Z"),
    *("null", "true", "[", "{", '{"'),
)
_ALLOWED = re.compile(rb"[^\0]")
_DRAWN = 40
_TRIALS = 2_000  # of rests of values on one way; 700 tools need 203 at most
_SINGLE = [1 << bit for bit in range(8)]


def way_to_the_end(matcher: Matcher) -> list[int] | None:
    """Return a short way to the end of the turn; None if none of `WAY_LIMIT` tokens is found.

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
    short = _way(matcher, WAY_LIMIT, long_tokens=False)
    if short is not None and len(short) <= RESERVE:
        return short
    # Where a length is required, longer tokens than the fillers reach it in fewer.
    long = _way(matcher, WAY_LIMIT if short is None else len(short), long_tokens=True)
    return short if long is None else long


def _single(*texts: str) -> list[int]:
    """Return the texts that are one token."""
    encode = load_harmony_encoding("HarmonyGptOss").encode
    return [tokens[0] for text in texts if len(tokens := encode(text)) == 1]


@functools.cache
def _closers(*, in_text: bool) -> list[int]:
    """Return the tokens that close what is open: in a text only a quote, elsewhere no quote."""
    return [RETURN, CALL, END, *_single(*(_QUOTES if in_text else _BRACKETS))]


@functools.cache
def _preferred(*, in_text: bool) -> tuple[list[int], list[int]]:
    """Return the tokens that lead to the end, and those that are tried after them."""
    rest = _single(*(_BRACKETS if in_text else _QUOTES))
    others = [*_single(*_HEADERS), MESSAGE, *_single(*_VALUES)]
    others = [*rest, *others] if in_text else [*others, *rest]
    return [*_closers(in_text=in_text), *others], _single(*_FILLERS)


def _way(matcher: Matcher, most: int, *, long_tokens: bool) -> list[int] | None:
    state, way = matcher.copy(), list[int]()
    texts, trials = needs_of(matcher.grammar).texts, iter(range(_TRIALS))
    while len(way) <= most and not state.is_finished:
        forced = state.forced_tokens()
        if not forced:
            mask = state.bitmask()
            if not _can_close(mask):
                forced = _rest_of_text(state, texts) or _rest_of_value(state, mask, trials)
            forced = forced or [_closer(mask, way[-2:], long_tokens=long_tokens)]
        taken = state.accept_all(forced)
        if not taken:
            return None
        way += forced[:taken]
    return way if state.is_finished and len(way) <= most else None


def _can_close(mask: bytes) -> bool:
    """Return whether a token closes the text or the value, so that nothing is missing in it."""
    closers = _closers(in_text=_in_text(mask))
    return any(is_allowed(mask, token) for token in closers)


def _rest_of_text(state: Matcher, texts: Iterable[TextRule]) -> list[int]:
    """Return the fewest tokens that complete the JSON text at the end; none outside a text."""
    try:
        written = open_text(state.tokens)
        begun = None if written is None else json.loads(f'"{written}"')
    except ValueError:  # it ends inside a character or an escape
        return []
    if begun is None:
        return []
    encode = load_harmony_encoding("HarmonyGptOss").encode
    found: list[list[int]] = []
    for rule in texts:
        rest = rule.rest(begun)
        if rest is not None:
            # The tokenizer joins the quote with what follows, so it is added as a token.
            text = json.dumps(rest, ensure_ascii=False)[1:-1]
            tokens = [*encode(text), *encode('"')]
            if state.count_allowed(tokens) == len(tokens):
                found.append(tokens)
    return min(found, key=len, default=[])


@functools.cache
def _commas() -> list[int]:
    return _single(",", ',"')


@functools.lru_cache(maxsize=64)
def _rests(grammar: str, *, after_value: bool) -> list[list[int]]:
    encode = load_harmony_encoding("HarmonyGptOss").encode
    rests = (rest for rest in needs_of(grammar).rests if rest.startswith(",") == after_value)
    return sorted(map(encode, rests), key=len)


def _rest_of_value(state: Matcher, mask: bytes, trials: Iterator[int]) -> list[int]:
    """Return the fewest tokens that are a value, or end a begun object or array; maybe none."""
    after_value = not _in_text(mask) and any(is_allowed(mask, comma) for comma in _commas())
    ends = [*_commas(), *_closers(in_text=False)]
    rests = _rests(state.grammar, after_value=after_value)
    likely = (tokens for tokens in rests if is_allowed(mask, tokens[0]))
    for tokens, _ in zip(likely, trials, strict=False):
        if state.count_allowed(tokens) == len(tokens):
            after = state.copy()
            after.accept_all(tokens)
            next_mask = after.bitmask()
            # A number is a value only if it may end here: `1` begins 1577, too.
            if any(is_allowed(next_mask, end) for end in ends):
                return tokens
    return []


_OPENERS = re.compile(rb"[{\[,]")
_SIGNS = re.compile(rb'[{\[,"]')
_QUOTES_OF_A_STEP = 2  # one that ends a text, and one that begins the next
_MOST_OPENERS = 12


@functools.cache
def _openers() -> dict[int, int]:
    """Return how many values or texts a token may begin; without those that begin none."""
    counts = {
        token: len(_OPENERS.findall(text)) + max(0, text.count(b'"') - _QUOTES_OF_A_STEP)
        for token, text in enumerate(load_vocabulary())
        if _SIGNS.search(text)
    }
    return {token: count for token, count in counts.items() if count}


@functools.cache
def _with_openers(most: int) -> int:
    """Return the mask of the tokens that begin at most so many values."""
    mask = bytearray(b"\xff" * (4 * BITMASK_WORDS))
    for token, count in _openers().items():
        if count > most:
            forbid(mask, token)
    return int.from_bytes(mask, "little")


@functools.cache
def _signs_of_text() -> list[int]:
    """Return tokens that no JSON has outside a text."""
    return _single("a", "A", ")", "@", "_")


def _in_text(mask: bytes) -> bool:
    return any(is_allowed(mask, token) for token in _signs_of_text())


def _closer(mask: bytes, before: list[int], *, long_tokens: bool) -> int:
    """Return an allowed token that leads to the end, not the same one three times if possible."""
    closers, fillers = _preferred(in_text=_in_text(mask))
    for token in closers if long_tokens else [*closers, *fillers]:
        if is_allowed(mask, token) and before != [token, token]:
            return token
    vocabulary = load_vocabulary()
    drawn: list[int] = []
    step = FIRST_SPECIAL // 8 // _DRAWN  # one from each part of the vocabulary
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
    The mask then shows the shortest way that is known, or is that of the grammar. With a grammar of
    `turn_grammar`, a turn that can be closed at the start is closed at the end.

    >>> from gpt_oss_harmony import Conversation
    >>> from gpt_oss_harmony.grammar import TurnOptions, turn_grammar
    >>> encoding = load_harmony_encoding("HarmonyGptOss")
    >>> wanted = {"type": "json_schema", "schema": {"type": "array", "items": {"const": "word"}}}
    >>> options = TurnOptions(response_format=wanted, reasoning=False, canonical=True)
    >>> grammar = turn_grammar(Conversation.from_messages([]), options)
    >>> matcher, taken = ClosingMatcher(grammar, tokens=24, reserve=2), []
    >>> greedy = encoding.encode('<|channel|>final<|message|>' + '["word"' + 9 * ',"word"',
    ...     allowed_special="all")
    >>> while not matcher.is_finished:
    ...     wish = greedy[len(taken)]
    ...     taken.append(wish if matcher.allows(wish) else matcher.way[0])
    ...     _ = matcher.accept(taken[-1])
    >>> encoding.decode(taken), len(taken) <= 24
    ('<|channel|>final<|message|>["word","word","word","word","word"]<|return|>', True)
    """

    def __init__(self, grammar: str, tokens: int, *, reserve: int = RESERVE) -> None:
        if tokens < 1 or reserve < 1:
            raise GrammarError("tokens and reserve: expected positive integers")
        self._matcher = Matcher(grammar)
        self._reserve = reserve
        needs = needs_of(grammar)
        encode = load_harmony_encoding("HarmonyGptOss").encode
        self._value = len(encode(needs.value))
        self._text = needs.text // 2 + (4 if needs.value else 0)
        self._since = 0  # tokens since the way was found
        self._grown = 0  # the most tokens by which they may have lengthened it
        self._left = tokens
        self._in_header = True
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
        return len(self.way) > 0 and self._room() <= 0

    @property
    def _step(self) -> int:
        """The most tokens by which a token without openers may lengthen the way."""
        return max(self._reserve, self._text)

    def _room(self) -> int:
        """Return the tokens that remain beside the way and one more step."""
        return self._left - len(self.way) - self._grown - self._step

    def _openers(self) -> int:
        """Return how many values the next token may begin; look for the way again if it matters."""
        most = _MOST_OPENERS if self._value > 0 else 0
        if self._since and not self.is_finished and self._room() <= most * self._value:
            # The way may have stayed open beside it, and asking costs less than another search.
            if self._matcher.count_allowed(self.way) < len(self.way):
                self.way = way_to_the_end(self._matcher) or []
            self._since = self._grown = 0
            self.closes = 0 < len(self.way) <= self._left
        if not self.way or not self._value:
            return _MOST_OPENERS
        spare = self._room() + self._step - self._text
        return min(spare // self._value, _MOST_OPENERS)

    @property
    def plain(self) -> Matcher | None:
        """The matcher of the grammar; None if the turn is near its end, and the masks differ."""
        is_free = self._openers() >= _MOST_OPENERS and not self.is_closing
        return self._matcher.plain if is_free else None

    def allows(self, token: int) -> bool:
        """Return whether a token may come next."""
        return is_allowed(self.bitmask(), token)

    def forced_tokens(self) -> list[int]:
        """Return the tokens that must come next: the way to the end once the turn is closing."""
        openers = self._openers()
        if self.is_closing or (self._in_header and openers < 1 and self.way):
            return list(self.way)
        return self._matcher.forced_tokens()

    def bitmask(self) -> bytes:
        """Return a bit for each logit, as `Matcher.bitmask`; one bit once the turn is closing."""
        openers = self._openers()
        if openers >= _MOST_OPENERS and not self.is_closing:
            return self._matcher.bitmask()
        # The way's next token always stays: with it, the turn can still be ended in time.
        mask = 1 << self.way[0]
        if not self.is_closing and (openers >= 1 or not self._in_header):
            whole = int.from_bytes(self._matcher.bitmask(), "little")
            mask |= whole & _with_openers(max(openers, 0))
        return mask.to_bytes(4 * BITMASK_WORDS, "little")

    def accept(self, token: int) -> bool:
        """Take a token that the grammar allows; if it does not, change nothing and return False."""
        if not self._matcher.accept(token):
            return False
        self._left -= 1
        if self.way[:1] == [token] and not self._since:
            self.way = self.way[1:]
        else:
            self._since += 1
            # A token of a header may choose a call, and with it all that its schema requires.
            openers = max(_openers().get(token, 0), int(self._in_header))
            self._grown += openers * self._value + self._step
        if token >= FIRST_SPECIAL:
            self._in_header = token != MESSAGE
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
