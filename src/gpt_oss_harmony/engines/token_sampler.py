"""The state of one completion in this process: its settings, its tokens so far, its grammar.

A completion is sampled in the thread of its model, and read in an event loop.

An engine computes logits and chooses a token; everything else about the token is decided here. A
completion depends only on its seed, not on the requests beside it: the random number of a token is
a hash of the seed and the token's position. So forced tokens can be taken without the model, and
the tokens after them stay the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import HarmonyError
from .engine import EngineError, FinishReason, SampledToken, Sampling

if TYPE_CHECKING:
    from ..grammar import ClosingMatcher, Matcher


class TokenSampler:
    """The state of one completion: its settings, its tokens so far, and its grammar.

    The tokens of a `script` are taken instead of sampled ones, for their log-probabilities.
    """

    def __init__(
        self,
        prompt: Iterable[int],
        sampling: Sampling,
        max_tokens: int,
        vocabulary_size: int,
        script: Sequence[int] = (),
    ) -> None:
        self._script = script
        self.sampling = sampling
        self.is_finished = False
        self.counts = dict.fromkeys(prompt, 0) if sampling.repetition_penalty != 1 else {}
        """The count of each token in the completion; 0 for tokens that only the prompt has."""
        self.matcher: Matcher | ClosingMatcher | None = None
        self._max_tokens = max_tokens
        self._vocabulary_size = vocabulary_size
        self._seed = secrets.randbits(64) if sampling.seed is None else sampling.seed
        self._length = 0
        if sampling.grammar is not None:
            from ..grammar import ClosingMatcher, Matcher  # need another extra

            if sampling.close_in_time:
                self.matcher = ClosingMatcher(sampling.grammar, max_tokens)
            else:
                self.matcher = Matcher(sampling.grammar)

    @property
    def has_penalties(self) -> bool:
        """Return whether earlier tokens change the scores of the next token."""
        sampling = self.sampling
        penalties = sampling.frequency_penalty or sampling.presence_penalty
        return bool(self.counts) and bool(penalties or sampling.repetition_penalty != 1)

    @property
    def length(self) -> int:
        """How many tokens the completion has."""
        return self._length

    def scripted(self, ahead: int = 0) -> int | None:
        """The next token of the script, or the one `ahead` of it; None after its end."""
        at = self._length + ahead
        return self._script[at] if at < len(self._script) else None

    def random(self, ahead: int = 0) -> float:
        """Return the random number of the next token, or of the one `ahead` of it, from 0 to 1."""
        key = b"%d %d" % (self._seed, self._length + ahead)
        digest = hashlib.blake2b(key, digest_size=8).digest()
        # A float has 53 bits. With all 64, it would be rounded, and sometimes to 1.
        return float((int.from_bytes(digest, "big") >> 11) / 2**53)

    def take(
        self,
        token: int,
        logprob: float | None = None,
        top_logprobs: tuple[tuple[int, float], ...] | None = None,
    ) -> list[SampledToken]:
        """Add a token and the tokens that it forces to the completion; return all of them."""
        if self.matcher is not None and not self.matcher.accept(token):
            raise EngineError(f"the token {token} was sampled against the grammar")
        return [self._add(SampledToken(token, logprob, top_logprobs)), *self.take_forced()]

    def take_forced(self) -> list[SampledToken]:
        """Add the tokens that must come next, up to the first with a choice.

        If log-probabilities are requested, no token is forced: only the model computes them.
        """
        if self.matcher is None or self.is_finished or self.sampling.logprobs is not None:
            return []
        forced = []
        for token in () if self.matcher.is_finished else self.matcher.forced_tokens():
            if token >= self._vocabulary_size or not self.matcher.accept(token):
                break
            forced.append(self._add(SampledToken(token, is_forced=True)))
            if self.is_finished:
                break
        return forced

    def _add(self, sampled: SampledToken) -> SampledToken:
        self._length += 1
        self.counts[sampled.token] = self.counts.get(sampled.token, 0) + 1
        grammar_ended = self.matcher is not None and self.matcher.is_finished
        if sampled.token in self.sampling.stop_tokens or grammar_ended:
            sampled = sampled._replace(finish_reason=FinishReason.STOP)
        elif self._length == self._max_tokens:
            sampled = sampled._replace(finish_reason=FinishReason.LENGTH)
        self.is_finished = sampled.finish_reason is not None
        return sampled


def allowed_tokens(
    matchers: Mapping[int, Matcher | ClosingMatcher],
) -> tuple[npt.NDArray[np.uint8], dict[int, HarmonyError]]:
    """Return a row of ones and zeros for each matcher: the tokens that its grammar allows now.

    Also returns the errors of matchers that failed, by their keys; their rows are to be ignored.
    """
    from ..grammar import BITMASK_WORDS, fill_bitmasks

    bitmasks = np.zeros((len(matchers), BITMASK_WORDS), np.int32)
    problems: dict[int, HarmonyError] = {}
    try:
        fill_bitmasks(enumerate(matchers.values()), bitmasks)
    except HarmonyError:  # about the first matcher that failed; the others are filled
        for row, matcher in matchers.items():
            try:
                matcher.check()
            except HarmonyError as error:
                problems[row] = error
    return np.unpackbits(bitmasks.view(np.uint8), axis=1, bitorder="little"), problems


def allowed_row(matcher: Matcher | ClosingMatcher, width: int) -> npt.NDArray[np.bool_]:
    """Return which of a model's `width` tokens a grammar allows now; raise an error for none."""
    allowed, problems = allowed_tokens({0: matcher})
    if problems:
        raise problems[0]
    row = np.zeros(width, np.bool_)
    row[: allowed.shape[1]] = allowed[0, :width]
    if not row.any():
        raise EngineError("the grammar allows no token of the model")
    return row


# Requests while they run


class RunningRequest:
    """A running request: its sampler, and the queue of its event loop that gets its tokens.

    Either side may end it by setting `is_finished`: the thread when it delivers the last token, the
    event loop when nobody reads the request any more.
    """

    cached_tokens: int | None = None
    """How many tokens of the prompt came from a cache, if the batching reports it by request."""

    def __init__(self, sampler: TokenSampler, first: Iterable[SampledToken]) -> None:
        self.sampler = sampler
        self.loop = asyncio.get_running_loop()
        self.items: asyncio.Queue[SampledToken | EngineError] = asyncio.Queue()
        self.is_finished = sampler.is_finished
        for sampled in first:
            self.items.put_nowait(sampled)

    def fail(self, problem: str) -> None:
        """End the request with an error."""
        if not self.is_finished:
            deliver([self], [EngineError(problem)])


def deliver(
    requests: Sequence[RunningRequest], chosen: Sequence[list[SampledToken] | EngineError]
) -> list[list[int]]:
    """Put the tokens of a step into the queues of their requests; each event loop is woken once.

    Returns the tokens by request. A request that failed has none, and like one that got its last
    token, it is finished.
    """
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Queue[Any], Any]]] = {}
    tokens: list[list[int]] = []
    for request, sampled in zip(requests, chosen, strict=True):
        puts = by_loop.setdefault(request.loop, [])
        if isinstance(sampled, EngineError):
            request.is_finished = True
            puts.append((request.items, sampled))
            tokens.append([])
        else:
            request.is_finished |= sampled[-1].finish_reason is not None
            puts += ((request.items, item) for item in sampled)
            tokens.append([item.token for item in sampled])
    for loop, puts in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing reads the queue
            loop.call_soon_threadsafe(_put_all, puts)
    return tokens


def _put_all(puts: list[tuple[asyncio.Queue[Any], Any]]) -> None:
    for queue, item in puts:
        queue.put_nowait(item)
