"""Samplers of noise: one with the settings of the engines, and one of any token of the masks."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gpt_oss_harmony.engines.llama_cpp_engine import text_of
from gpt_oss_harmony.grammar import ClosingMatcher, Matcher
from gpt_oss_harmony.tokens.special_tokens import FIRST_SPECIAL

CANDIDATES = 40  # tokens that get any probability


class Step(NamedTuple):
    """A sampled token, and the model's log-probabilities, the likeliest first."""

    token: int
    logprob: float
    tops: list[tuple[int, float]]
    reason: str | None = None


@dataclass
class Settings:
    """What both protocols say, under one name."""

    prompt: list[int]
    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    frequency: float
    presence: float
    repetition: float
    seed: int | None
    stops: frozenset[int]
    logprobs: int | None
    grammar: str | None


class Noise:
    """Samples a completion from logits that depend on the tokens so far, and nothing else."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._random = random.Random(settings.seed)
        self._matcher = Matcher(settings.grammar) if settings.grammar is not None else None
        self._tokens: list[int] = []

    def __iter__(self) -> Iterator[Step]:
        settings = self._settings
        while True:
            logits = self._logits()
            token = self._choose(self._penalised(logits))
            self._tokens.append(token)
            if self._matcher is not None:
                assert self._matcher.accept(token)
            total = math.log(sum(map(math.exp, logits.values())))
            ordered = sorted(logits.items(), key=lambda item: -item[1])
            tops = [(one, logit - total) for one, logit in ordered]
            reason = None
            if token in settings.stops:
                reason = "stop"
            elif len(self._tokens) == settings.max_tokens:
                reason = "length"
            yield Step(token, logits[token] - total, tops, reason)
            if reason is not None:
                return

    def _logits(self) -> dict[int, float]:
        text = json.dumps([self._settings.prompt, self._tokens])
        noise = random.Random(hashlib.sha256(text.encode()).digest())
        known = noise.sample(whole_tokens(), CANDIDATES)
        if self._matcher is not None:
            mask = self._matcher.bitmask()
            ends = range(FIRST_SPECIAL, 8 * len(mask))
            known = [one for one in (*known, *ends) if mask[one // 8] >> one % 8 & 1]
            known = known or [noise.choice(self._matcher.allowed_tokens())]
        again = [token for token in self._tokens[-8:] if self._matcher is None]
        candidates = {*known, *again}
        return {token: noise.gauss(0, 2) for token in sorted(candidates)}

    def _penalised(self, logits: dict[int, float]) -> dict[int, float]:
        settings, scores = self._settings, dict(logits)
        for token in scores:
            if token in self._tokens or token in settings.prompt:
                factor = settings.repetition
                scores[token] *= 1 / factor if scores[token] > 0 else factor
            if token in self._tokens:
                scores[token] -= settings.presence
                scores[token] -= settings.frequency * self._tokens.count(token)
        return scores

    def _choose(self, scores: dict[int, float]) -> int:
        settings = self._settings
        ordered = sorted(scores, key=lambda token: -scores[token])
        if settings.temperature == 0:
            return ordered[0]
        best = scores[ordered[0]]
        weights = [math.exp((scores[token] - best) / settings.temperature) for token in ordered]
        kept = [weight for weight in weights if weight >= settings.min_p]
        if settings.top_k:
            kept = kept[: settings.top_k]
        total, sofar, count = sum(kept), 0.0, 0
        while count < len(kept) and (not count or sofar < settings.top_p * total):
            sofar += kept[count]
            count += 1
        return self._random.choices(ordered[:count], kept[:count])[0]


@functools.cache
def whole_tokens() -> list[int]:
    """Return the ordinary tokens that are text by themselves."""
    return [token for token in range(FIRST_SPECIAL) if is_text(text_of(token))]


def is_text(spelled: bytes) -> bool:
    try:
        spelled.decode()
    except UnicodeDecodeError:
        return False
    return True


def sampled(matcher: ClosingMatcher, seed: int) -> list[int]:
    """Sample a turn whose tokens are random ones of the masks."""
    choices, tokens = random.Random(seed), list[int]()
    while not matcher.is_finished:
        mask = matcher.bitmask()
        byte = choices.choice([index for index, bits in enumerate(mask) if bits])
        bit = choices.choice([bit for bit in range(8) if mask[byte] >> bit & 1])
        tokens.append(8 * byte + bit)
        assert matcher.allows(tokens[-1])
        assert matcher.accept(tokens[-1])
    return tokens
