"""Train the demo model and pack its weights: ``make demo-model``.

    python -m demo_model.train [--steps N] [--seed N] [--out FOLDER]

It runs on one core: threads would wait for each other more than they help. The same seed and steps
give the same weights on the same machine.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import nn

from openai_harmony.engines.demo_rows import MODEL_ROWS, word_codes

from .muon import Muon
from .network import Network, Shape
from .package import pack
from .rows import Row, rows
from .words import ENCODING

__all__ = ["train"]

STEPS = 4500
ROWS_PER_STEP = 6
PACKAGED = Path(__file__).parents[2] / "src/openai_harmony/data/demo_model"

SAMPLE = 512
"""Logits of other tokens that are computed for a row."""

LARGE_SAMPLE = 4096
"""The same for words that are copied, once the rates fall: more wrong words are told apart."""

_MATRIX_RATE = 0.02
_MATRIX_DECAY = 0.1
_ROW_RATE = 3e-3
_WARM_UP = 50
_RATES = (0.42, 1.0), (0.5625, 0.5), (1.0, 0.0)
"""Shares of the steps, and the share of the rates then; straight lines between them."""

_BALANCE = 0.01
_NUMBERS = 200
"""Numbers below this have learned rows, rare ones, too."""

_COUNTED_ROWS = 3_000
_OFTEN = 20
_TWICE = 2


class Learner:
    """A network and what makes it better."""

    def __init__(self, network: Network) -> None:
        self.network = network
        matrices: list[nn.Parameter] = []
        others: list[nn.Parameter] = []
        for name, weight in network.named_parameters():
            in_layer = name.startswith("layers.") and "router" not in name
            is_matrix = weight.dim() > 1 and not name.endswith("bias")
            (matrices if in_layer and is_matrix else others).append(weight)
        self._muon = Muon(matrices)
        self._adam = torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.01)

    def step(self, batch: list[Row], share: float, sampled: int) -> float:
        """Learn from a batch, at a share of the full rates; return the loss."""
        spoken = sum(len(row.targets) for row in batch)
        self.network.zero_grad()
        heard = 0.0
        for row in batch:
            states, even = self.network(row.tokens, row.lengths)
            near = torch.unique(torch.cat([row.tokens, row.targets]))
            sample = self.network.words[torch.randperm(len(self.network.words))[:sampled]]
            asked = states[row.asked]
            # Copied words are chosen from all there are, so they meet the whole sample.
            copied = ~torch.isin(row.targets, self.network.used)
            loss = torch.zeros(())
            for which, few in ((copied, sample), (~copied, sample[:SAMPLE])):
                if which.any():
                    losses = self.network.loss(asked[which], row.targets[which], near, few)
                    loss = loss + losses.sum() / spoken
            (loss + _BALANCE * even / len(batch)).backward()
            heard += loss.item()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self._muon.step(share * _MATRIX_RATE, _MATRIX_DECAY)
        for group in self._adam.param_groups:
            group["lr"] = share * _ROW_RATE
        self._adam.step()
        return heard


def train(seed: int, steps: int, out: Path) -> Network:
    """Train from nothing; print what happens."""
    torch.manual_seed(seed)
    learner = Learner(Network(Shape(), used_tokens(seed)))
    network = learner.network
    count = sum(weight.numel() for weight in network.parameters())
    print(f"{count:,} weights, {len(network.used)} learned rows")
    stream = rows(seed, "train")
    started = time.monotonic()
    heard: list[float] = []
    for step in range(steps):
        share = share_of_rate(step, steps)
        sampled = SAMPLE if share > _RATES[1][1] else LARGE_SAMPLE
        heard.append(learner.step(list(islice(stream, ROWS_PER_STEP)), share, sampled))
        if (step + 1) % 50 == 0:
            mean = sum(heard[-50:]) / 50
            print(
                f"step {step + 1}: loss {mean:.4f}, {time.monotonic() - started:.0f} s", flush=True
            )
        if (step + 1) % 500 == 0 or step + 1 == steps:
            pack(network, out)
            report(network, 24 if step + 1 < steps else 100)
    return network


def share_of_rate(step: int, steps: int) -> float:
    """Rates rise for some steps, stay, and fall to nothing."""
    if step < _WARM_UP:
        return (step + 1) / (_WARM_UP + 1)
    places, shares = zip(*_RATES, strict=True)
    return float(np.interp(step / steps, places, shares))


def used_tokens(seed: int) -> list[int]:
    """The tokens that come often, those without a code that come at all, and small numbers."""
    counts: Counter[int] = Counter()
    for row in islice(rows(seed + 1, "train"), _COUNTED_ROWS):
        counts.update(set(row.tokens.tolist()))
        counts.update(set(row.targets.tolist()))
    numbers = {ENCODING.encode(str(number))[0] for number in range(_NUMBERS)}
    coded = set(torch.from_numpy(word_codes()[0]).any(dim=1).nonzero().flatten().tolist())
    often = {t for t, times in counts.items() if times >= (_OFTEN if t in coded else _TWICE)}
    return sorted(numbers | often)


@torch.no_grad()
def report(network: Network, count: int) -> None:
    """Print the share of held-out examples whose greedy completion is exact, by kind."""
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    everything = network.rows(torch.arange(MODEL_ROWS))
    for row in islice(rows(0, "test"), count):
        states, _ = network(row.tokens, row.lengths)
        chosen = (states[row.asked] @ everything.T).argmax(dim=-1)
        wrong = set(row.examples[chosen != row.targets].tolist())
        total.update(row.kinds)
        right.update(kind for at, kind in enumerate(row.kinds) if at not in wrong)
    shares = (f"{kind} {right[kind]}/{total[kind]}" for kind in sorted(total))
    print("exact on held-out: " + ", ".join(shares), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=PACKAGED, help="a folder for the weights")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train(arguments.seed, arguments.steps, arguments.out)


if __name__ == "__main__":
    main()
