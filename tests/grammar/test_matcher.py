"""Matchers: taking tokens, taking them back, masks of one and of many."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from llguidance import LLMatcher

from gpt_oss_harmony import Conversation, load_harmony_encoding
from gpt_oss_harmony.grammar import (
    BITMASK_WORDS,
    GrammarError,
    Matcher,
    TurnOptions,
    fill_bitmasks,
    matcher,
    turn_grammar,
)
from gpt_oss_harmony.rendering.cache import SharedCache

ENCODING = load_harmony_encoding("HarmonyGptOss")
NOTHING = Conversation.from_messages([])
PLAIN = turn_grammar(NOTHING)
COUNTED = turn_grammar(NOTHING, TurnOptions(text_tokens=5, reasoning_tokens=5))
TURN = ENCODING.encode(
    "<|channel|>analysis<|message|>one two<|end|><|start|>assistant"
    "<|channel|>final<|message|>three four<|return|>",
    allowed_special="all",
)


def at(grammar: str, count: int) -> Matcher:
    found = Matcher(grammar)
    assert found.accept_all(TURN[:count]) == count
    return found


@pytest.mark.parametrize("token", [201_088, 999_999, -1, -(10**30), 10**30, 1])
def test_what_is_not_allowed_changes_nothing(token: int) -> None:
    found = at(PLAIN, 0)
    before = found.bitmask()
    assert not found.accept(token)
    assert found.accept_all([token, *TURN]) == 0
    assert found.count_allowed([token, *TURN]) == 0
    assert not found.is_finished
    assert found.bitmask() == before
    assert found.accept_all([*TURN[:2], token, *TURN[2:]]) == 2
    assert found.accept_all(TURN[2:]) == len(TURN) - 2
    assert found.is_finished


@pytest.mark.parametrize("grammar", [PLAIN, COUNTED], ids=["plain", "counted"])
def test_tokens_can_be_taken_back(grammar: str) -> None:
    found = at(grammar, 5)
    before = found.bitmask()
    for count in (0, 1, 3):
        assert found.accept_all(TURN[5 : 5 + count]) == count
        found.rollback(count)
        assert found.bitmask() == before
    found.rollback(5)
    assert found.accept_all(TURN) == len(TURN)
    found.rollback(1)
    assert not found.is_finished
    assert found.accept(TURN[-1])
    found.reset()
    assert found.bitmask() == Matcher(grammar).bitmask()
    for wrong in (1, -1):
        with pytest.raises(ValueError, match="cannot take back"):
            found.rollback(wrong)


@pytest.mark.parametrize("grammar", [PLAIN, COUNTED], ids=["plain", "counted"])
def test_copies_go_their_own_ways(grammar: str) -> None:
    one = at(grammar, 5)
    other = one.copy()
    assert one.accept_all(TURN[5:]) == len(TURN) - 5
    assert other.bitmask() == at(grammar, 5).bitmask()
    other.rollback(2)
    assert other.accept_all(TURN[3:]) == len(TURN) - 3
    assert one.is_finished


def test_forced_tokens_and_drafts() -> None:
    found = Matcher(turn_grammar(NOTHING, TurnOptions(reasoning=False, preambles=False)))
    assert found.forced_tokens() == TURN[8:11]
    assert found.count_allowed([*TURN[8:11], 5, 200_006]) == 4
    assert found.accept_all(TURN[8:]) == len(TURN) - 8
    assert found.forced_tokens() == []


@pytest.mark.parametrize("count", range(len(TURN)))
def test_masks_allow_what_is_accepted(count: int) -> None:
    found = at(PLAIN, count)
    allowed = found.allowed_tokens()
    assert TURN[count] in allowed
    bits = np.unpackbits(np.frombuffer(found.bitmask(), np.uint8), bitorder="little")
    assert bits.nonzero()[0].tolist() == allowed
    some = allowed[:: max(len(allowed) // 50, 1)]
    assert all(found.count_allowed([token]) == 1 for token in some)
    others = sorted({*range(0, 201_088, 997), *range(199_998, 200_020)} - set(allowed))
    assert not any(found.count_allowed([token]) for token in others)


def test_masks_of_a_batch() -> None:
    matchers = [at(PLAIN, count) for count in range(len(TURN) + 1)]
    bitmasks = np.full((len(TURN) + 3, BITMASK_WORDS), 7, dtype=np.int32)
    fill_bitmasks(enumerate(matchers), bitmasks)
    for row, one in enumerate(matchers[:-1]):
        assert bitmasks[row].tobytes() == one.bitmask()
    assert (bitmasks[len(TURN) :] == 7).all()  # finished, and not named
    wrong_ones: list[Any] = [bitmasks[:, 1:], bitmasks.astype(np.int64), bitmasks[0]]
    for wrong in wrong_ones:
        with pytest.raises(ValueError, match="must have the shape"):
            fill_bitmasks([], wrong)
    with pytest.raises(ValueError, match="contiguous"):
        fill_bitmasks([], np.zeros((BITMASK_WORDS, 4), dtype=np.int32).T)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")
def test_masks_of_a_batch_in_a_process_that_was_forked() -> None:
    """A pool of threads, as an engine has one, is not there in the child, which waited for ever."""
    program = (
        "import os, numpy as np\n"
        "from gpt_oss_harmony import Conversation\n"
        "from gpt_oss_harmony.grammar import *\n"
        "matcher = Matcher(turn_grammar(Conversation.from_messages([])))\n"
        "masks = np.zeros((2, BITMASK_WORDS), dtype=np.int32)\n"
        "fill_bitmasks([(0, matcher)], masks)\n"
        "if child := os.fork():\n"
        "    raise SystemExit(os.waitpid(child, 0)[1])\n"
        "fill_bitmasks([(1, matcher)], masks)\n"
        "os._exit(not (masks[0] == masks[1]).all())\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", program]
    assert subprocess.run(command, timeout=60).returncode == 0


def test_equal_grammars_are_compiled_once() -> None:
    with patch.object(matcher, "LLMatcher", wraps=LLMatcher) as compile_one:
        grammar = turn_grammar(NOTHING, TurnOptions(text_tokens=77))
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: Matcher(grammar).accept_all(TURN), range(40)))
        assert compile_one.call_count == 1
    assert found == [len(TURN)] * 40


def test_an_error_is_raised_where_others_wait_and_is_not_kept() -> None:
    cache = SharedCache[str, bytes](limit=1000, size=len)
    entered, leave = threading.Event(), threading.Event()
    made = []

    def fail() -> bytes:
        made.append(1)
        entered.set()
        assert leave.wait(60)
        raise GrammarError("no grammar")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get_or_make, "a", fail)
        assert entered.wait(60)
        second = pool.submit(cache.get_or_make, "a", lambda: b"value")
        leave.set()
        assert isinstance(first.exception(), GrammarError)
        # The second waited for the first, or came after it had ended.
        assert second.exception() in (first.exception(), None)
    assert made == [1]
    assert cache.get_or_make("a", lambda: b"value") == b"value"


def test_a_grammar_that_is_none_is_refused() -> None:
    for wrong in ("", "start: nothing", "start: /(/", 'start: %json {"type": 5}'):
        with pytest.raises(GrammarError, match=re.escape("the grammar does not compile: ")):
            Matcher(wrong)


# Bounds on tokens


@pytest.mark.parametrize("taken", range(6))
def test_a_draft_is_counted_under_bounds(taken: int) -> None:
    bounded = turn_grammar(Conversation.from_messages([]), TurnOptions(reasoning_tokens=5))
    matcher = Matcher(bounded)
    header = ENCODING.encode("<|channel|>analysis<|message|>", allowed_special="all")
    draft = ENCODING.encode(" one two three four five six seven eight")
    assert matcher.accept_all(header) == len(header)
    assert matcher.accept_all(draft[:taken]) == taken
    rest = draft[taken:]
    assert matcher.count_allowed(rest) == 5 - taken
    assert matcher.copy().accept_all(rest) == 5 - taken
    assert matcher.accept_all(rest) == 5 - taken
    matcher.rollback(5 - taken)
    assert matcher.count_allowed(rest) == 5 - taken


def test_the_end_of_a_bounded_text_is_forced() -> None:
    matcher = Matcher(
        turn_grammar(
            Conversation.from_messages([]),
            TurnOptions(reasoning_tokens=2, reasoning_messages=1, preambles=False, text_tokens=1),
        )
    )
    text = "<|channel|>analysis<|message|> one"
    assert matcher.accept_all(ENCODING.encode(text, allowed_special="all")) == 4
    assert matcher.forced_tokens() == []
    assert matcher.accept_all(ENCODING.encode(" two")) == 1
    forced = matcher.forced_tokens()
    expected = "<|end|><|start|>assistant<|channel|>final<|message|>"
    assert ENCODING.decode(forced) == expected
    assert matcher.count_allowed(forced) == len(forced) == matcher.accept_all(forced)
    assert matcher.accept_all(ENCODING.encode(" Yes no")) == 1
    assert ENCODING.decode(matcher.forced_tokens()) == "<|return|>"
