"""The optimizer Muon: momentum, made orthogonal, for matrices; all of a shape at once."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from .workers import Worker

__all__ = ["Muon"]

_STEPS = 5
_A, _B, _C = 3.4445, -4.7750, 2.0315  # of the iteration after Keller Jordan


class Muon:
    """Update matrices, or stacks of them; call `step` after the gradients are there."""

    def __init__(
        self, weights: Iterable[nn.Parameter], worker: Worker, momentum: float = 0.95
    ) -> None:
        self._weights = list(weights)
        self._worker = worker
        self._momentum = momentum
        self._averages = [torch.zeros_like(weight) for weight in self._weights]

    @torch.no_grad()
    def step(self, rate: float, decay: float) -> None:
        """Take one step of `rate`; weights shrink by `rate` times `decay`."""
        wanted: dict[tuple[int, int], list[tuple[nn.Parameter, Tensor, bool]]] = {}
        for weight, average in zip(self._weights, self._averages, strict=True):
            assert weight.grad is not None
            average.lerp_(weight.grad, 1 - self._momentum)
            ahead = weight.grad.lerp(average, self._momentum)
            turned = ahead.shape[-2] > ahead.shape[-1]
            ahead = (ahead.mT if turned else ahead).reshape(-1, *sorted(ahead.shape[-2:]))
            shape = (ahead.shape[-2], ahead.shape[-1])
            wanted.setdefault(shape, []).append((weight, ahead, turned))
        for group in wanted.values():
            steps = self._orthogonal(torch.cat([ahead for _, ahead, _ in group]))
            parts = torch.split(steps, [len(ahead) for _, ahead, _ in group])
            for (weight, _, turned), part in zip(group, parts, strict=True):
                update = (part.mT if turned else part).reshape(weight.shape)
                weight.mul_(1 - rate * decay).sub_(update, alpha=rate)

    def _orthogonal(self, x: Tensor) -> Tensor:
        """Every worker does a part, where the parts can be alike."""
        if len(x) % self._worker.count:
            return _orthogonal(x)
        mine = _orthogonal(x.chunk(self._worker.count)[self._worker.number])
        return self._worker.exchange(mine).flatten(0, 1)


def _orthogonal(x: Tensor) -> Tensor:
    """Bring all singular values near 1."""
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(_STEPS):
        square = x @ x.mT
        x = _A * x + (_B * square + _C * square @ square) @ x
    return x
