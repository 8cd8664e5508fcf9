"""Samples a token from a row of logits, by the settings of one request."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from .engine import EngineError, FinishReason, SampledToken, Sampling

__all__ = ["TokenSampler"]


class TokenSampler:
    """Samples one completion; it remembers the earlier tokens, so each request has its own."""

    def __init__(
        self, prompt: Iterable[int], sampling: Sampling, max_tokens: int, device: torch.device
    ) -> None:
        self._sampling = sampling
        self._left = max_tokens
        self._seen = set(prompt) if sampling.repetition_penalty != 1 else set()
        self._counts: dict[int, int] = {}
        self._generator = torch.Generator(device)
        if sampling.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(sampling.seed % 2**63)
        self._matcher = None
        if sampling.grammar is not None:
            from ..grammar import Matcher  # an extra of its own

            self._matcher = Matcher(sampling.grammar)

    def choose(self, logits: torch.Tensor) -> SampledToken:
        """Sample a token from the model's logits, which have the shape (vocabulary,)."""
        logits = logits.float()
        scores = self._penalised(logits)
        if self._matcher is not None:
            mask = np.frombuffer(self._matcher.bitmask(), np.uint8)
            bits = np.unpackbits(mask, bitorder="little")
            allowed = torch.zeros_like(scores, dtype=torch.bool)
            shared = min(len(bits), len(scores))
            allowed[:shared] = torch.from_numpy(bits[:shared].astype(bool)).to(scores.device)
            scores = scores.masked_fill(~allowed, -torch.inf)
        token = self._sampled(scores)
        self._counts[token] = self._counts.get(token, 0) + 1
        if self._sampling.repetition_penalty != 1:
            self._seen.add(token)
        if self._matcher is not None and not self._matcher.accept(token):
            raise EngineError(f"the token {token} was sampled against the grammar")
        self._left -= 1
        stops = token in self._sampling.stop_tokens
        reason = FinishReason.STOP if stops else None if self._left else FinishReason.LENGTH
        count = self._sampling.logprobs
        if count is None:
            return SampledToken(token, finish_reason=reason)
        logprobs = logits.log_softmax(-1)
        best = logprobs.topk(min(count, len(logprobs))) if count else None
        top = () if best is None else zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return SampledToken(token, float(logprobs[token]), tuple(top), reason)

    def _penalised(self, logits: torch.Tensor) -> torch.Tensor:
        sampling = self._sampling
        scores = logits.clone()
        if sampling.repetition_penalty != 1 and self._seen:
            seen = torch.tensor(sorted(self._seen), device=logits.device)
            old, penalty = scores[seen], sampling.repetition_penalty
            scores[seen] = torch.where(old > 0, old / penalty, old * penalty)
        if self._counts and (sampling.frequency_penalty or sampling.presence_penalty):
            ids = torch.tensor(list(self._counts), device=logits.device)
            counts = torch.tensor(list(self._counts.values()), device=logits.device)
            scores[ids] -= sampling.frequency_penalty * counts + sampling.presence_penalty
        return scores

    def _sampled(self, scores: torch.Tensor) -> int:
        sampling = self._sampling
        if sampling.temperature == 0:
            return int(scores.argmax())
        scores = scores / sampling.temperature
        if 0 < sampling.top_k < len(scores):
            scores[scores < scores.topk(sampling.top_k).values[-1]] = -torch.inf
        probabilities = scores.softmax(-1)
        if sampling.min_p > 0:
            probabilities[probabilities < sampling.min_p * probabilities.max()] = 0
        if sampling.top_p < 1:
            ordered, ids = probabilities.sort(descending=True)
            before = ordered.cumsum(-1) - ordered
            probabilities[ids[before >= sampling.top_p]] = 0
            if sampling.top_p == 0:
                return int(ids[0])
        return int(torch.multinomial(probabilities, 1, generator=self._generator))
