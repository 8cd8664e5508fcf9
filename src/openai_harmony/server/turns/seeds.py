"""Seeds of choices: the same seed gives the same choices, and each of them another text."""

from __future__ import annotations

from dataclasses import replace

from ...engines.sampling import Sampling

__all__ = ["with_seed_of"]

_SEEDS = 2**63


def with_seed_of(sampling: Sampling, index: int) -> Sampling:
    """Return the settings of the choice with this index.

    >>> with_seed_of(Sampling(seed=7), 2).seed, with_seed_of(Sampling(), 2).seed
    (9, None)
    """
    if sampling.seed is None or index == 0:
        return sampling
    return replace(sampling, seed=(sampling.seed + index) % _SEEDS)
