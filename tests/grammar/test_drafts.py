"""Drafts and forced tokens, beside a slow oracle: one mask and one token at a time."""

from __future__ import annotations

import random

import numpy as np
import pytest
from llguidance import LLMatcher

from gpt_oss_harmony.grammar import BITMASK_WORDS, Matcher, TurnOptions, turn_grammar
from gpt_oss_harmony.grammar.token_table import token_table
from gpt_oss_harmony.tokens.special_tokens import FIRST_SPECIAL
from gpt_oss_harmony.tokens.vocabulary import load_vocabulary
from support.strategies import tokens_of
from support.turns import ENCODING, FORMAT, PLAIN, TOOLS

VOCABULARY = load_vocabulary()
GRAMMARS = {
    "free": turn_grammar(PLAIN),
    "bounded": turn_grammar(PLAIN, TurnOptions(reasoning_tokens=5, text_tokens=3)),
    "JSON after reasoning": turn_grammar(
        FORMAT, TurnOptions(reasoning_tokens=1, reasoning_messages=2, preambles=False)
    ),
    "a call": turn_grammar(TOOLS, TurnOptions(tool_choice="required")),
    "a canonical call": turn_grammar(
        TOOLS, TurnOptions(tool_choice="required", reasoning_tokens=2, canonical=True)
    ),
}


class Oracle:
    """A completion of which each token is looked up in the mask before it, by a new matcher."""

    def __init__(self, grammar: str, tokens: list[int]) -> None:
        self.matcher = Matcher(grammar)
        for token in tokens:
            assert self.take(token)

    def allowed(self) -> list[int]:
        if self.matcher.is_finished:
            return []
        bits = np.unpackbits(np.frombuffer(self.matcher.bitmask(), np.uint8), bitorder="little")
        allowed: list[int] = np.flatnonzero(bits).tolist()
        return allowed

    def take(self, token: int) -> bool:
        mask = b"" if self.matcher.is_finished else self.matcher.bitmask()
        is_allowed = token // 8 < len(mask) and mask[token // 8] >> token % 8 & 1
        return bool(is_allowed) and self.matcher.accept(token)


def drafted(oracle: Oracle, choices: random.Random) -> tuple[list[int], int, list[bytes]]:
    """Write a draft that may go wrong; return how much of it is allowed, and the masks."""
    draft: list[int] = []
    masks: list[bytes] = []
    count = 0
    is_right = True
    for _ in range(choices.randrange(1, 9)):
        allowed = oracle.allowed() if is_right else []
        special = [token for token in allowed if token >= FIRST_SPECIAL]
        if not allowed or choices.random() < 0.1:
            token = choices.randrange(FIRST_SPECIAL + 20)
        else:
            token = choices.choice(special if special and choices.random() < 0.4 else allowed)
        if is_right and not oracle.matcher.is_finished:
            masks.append(oracle.matcher.bitmask())
        draft.append(token)
        is_right = is_right and oracle.take(token)
        count += is_right
    if is_right and not oracle.matcher.is_finished:
        masks.append(oracle.matcher.bitmask())
    return draft, count, masks


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", GRAMMARS)
def test_drafts_are_judged_token_by_token(name: str, seed: int) -> None:
    grammar, choices = GRAMMARS[name], random.Random(f"{name} {seed}")
    matcher, taken = Matcher(grammar), list[int]()
    for _ in range(12):
        draft, count, masks = drafted(Oracle(grammar, taken), choices)
        bitmasks = np.full((len(draft) + 1, BITMASK_WORDS), 7, dtype=np.int32)
        assert matcher.count_allowed(draft) == count
        assert matcher.fill_draft(draft, bitmasks) == count
        assert [row.tobytes() for row in bitmasks[: len(masks)]] == masks
        assert (bitmasks[len(masks) :] == 7).all()
        assert matcher.accept_all(draft) == count
        taken += draft[:count]
        back = choices.randrange(min(len(taken), 6) + 1)
        matcher.rollback(back)
        del taken[len(taken) - back :]
        if not matcher.is_finished:
            assert matcher.bitmask() == Oracle(grammar, taken).matcher.bitmask()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", GRAMMARS)
def test_nothing_else_could_come_than_what_is_forced(name: str, seed: int) -> None:
    grammar, choices = GRAMMARS[name], random.Random(f"{name} {seed}")
    matcher = Matcher(grammar)
    oracle = Oracle(grammar, [])
    for _ in range(25):
        forced = matcher.forced_tokens()
        allowed = oracle.allowed()
        if len(allowed) == 1:
            assert forced[:1] == allowed
        for position, token in enumerate(forced):
            rest = forced[position:]
            assert all(is_beginning(other, rest) for other in oracle.allowed())
            assert oracle.take(token)
        assert matcher.accept_all(forced) == len(forced)
        if matcher.is_finished:
            break
        allowed = oracle.allowed()
        special = [token for token in allowed if token >= FIRST_SPECIAL]
        token = choices.choice(special or allowed)
        assert matcher.accept(token)
        assert oracle.take(token)


def is_beginning(token: int, forced: list[int]) -> bool:
    """Whether a token spells the beginning of what is forced, or more than that."""
    if token >= FIRST_SPECIAL or forced[0] >= FIRST_SPECIAL:
        return token == forced[0]
    special = [place for place, other in enumerate(forced) if other >= FIRST_SPECIAL]
    text = b"".join(VOCABULARY[other] for other in forced[: special[0] if special else None])
    spelled = VOCABULARY[token]
    return text.startswith(spelled) or (not special and spelled.startswith(text))


@pytest.mark.parametrize("taken", range(6))
def test_a_draft_ends_where_the_bound_does(taken: int) -> None:
    matcher = Matcher(turn_grammar(PLAIN, TurnOptions(reasoning_tokens=5)))
    assert matcher.accept_all(tokens_of("<|channel|>analysis<|message|>")) == 3
    draft = ENCODING.encode(" one two three four five six seven eight")
    assert matcher.accept_all(draft[:taken]) == taken
    bitmasks = np.zeros((9 - taken, BITMASK_WORDS), dtype=np.int32)
    for count in (matcher.count_allowed, lambda rest: matcher.fill_draft(rest, bitmasks)):
        assert count(draft[taken:]) == 5 - taken
    assert matcher.accept_all(draft[taken:]) == 5 - taken
    assert ENCODING.decode(matcher.forced_tokens()) == "<|end|><|start|>assistant<|channel|>"


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 150, 299, 300])
def test_many_tokens_that_count_can_be_taken_back(count: int) -> None:
    grammar = turn_grammar(PLAIN, TurnOptions(text_tokens=300))
    matcher, start = Matcher(grammar), tokens_of("<|channel|>final<|message|>")
    word = ENCODING.encode(" a")
    assert matcher.accept_all(start) == len(start)
    for _ in range(300):
        assert matcher.accept_all(word) == 1
    twin = matcher.copy()
    assert matcher.accept_all(word) == 0
    matcher.rollback(count)
    assert matcher.count_allowed(word * 301) == count
    assert matcher.accept_all(word * 301) == count
    assert twin.accept_all(word) == 0


@pytest.mark.parametrize(("name", "goes_back"), [("free", True), ("bounded", False)])
def test_llguidance_alone_takes_tokens_back_that_it_does_not_count(
    name: str, goes_back: bool
) -> None:
    engine = LLMatcher(token_table(), GRAMMARS[name], log_level=0)  # as vLLM uses it
    mask = engine.compute_bitmask()
    for token in tokens_of("<|channel|>analysis<|message|>"):
        assert engine.consume_token(token)
    assert engine.rollback(3) == goes_back
    assert engine.is_error() == (not goes_back)
    assert not goes_back or engine.compute_bitmask() == mask


def test_a_draft_needs_room() -> None:
    matcher = Matcher(GRAMMARS["free"])
    with pytest.raises(ValueError, match="a draft of 2 tokens needs 3 rows, not 2"):
        matcher.fill_draft([1, 2], np.zeros((2, BITMASK_WORDS), dtype=np.int32))
    with pytest.raises(ValueError, match="must have the shape"):
        matcher.fill_draft([], np.zeros((1, 5), dtype=np.int32))
