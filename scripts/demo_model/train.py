"""Train the demo model and pack its weights: ``make demo-model``.

    python -m demo_model.train [--steps N] [--seed N] [--out FOLDER]

It runs in two processes of one thread each: threads would wait for each other more than they help.
The same seed and steps give the same weights on the same machine.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from gpt_oss_harmony.engines.demo_model import word_codes

from .learner import Learner
from .network import Network, Shape
from .package import pack
from .rows import Batch, rows
from .words import ENCODING
from .workers import Worker, run_workers

__all__ = ["train"]

STEPS = 8000
WORKERS = 2
"""The same on every machine, as other workers give other weights."""

ROWS_PER_WORKER = 1
PACKAGED = Path(__file__).parents[2] / "src/gpt_oss_harmony/data/demo_model"

_WARM_UP = 50
_RATES = (0.2, 1.0), (1.0, 0.0)
"""Shares of the steps, and the share of the rates then; straight lines between them."""

_NUMBERS = 200
"""Numbers below this have learned rows, rare ones, too."""

_COUNTED_ROWS = 1_000
_OFTEN = 15
_TWICE = 2


def train(worker: Worker, seed: int, steps: int, out: Path) -> None:
    """Train from nothing; the first worker prints what happens and packs the weights."""
    leads = worker.number == 0
    started = time.monotonic()
    torch.manual_seed(seed)
    network = Network(Shape(), used_tokens(seed))
    learner = Learner(network, worker)
    torch.manual_seed(seed + worker.number)
    if leads:
        count = sum(weight.numel() for weight in network.parameters())
        print(f"{count:,} weights, {len(network.used)} learned rows")
    stream = rows(f"{seed} {worker.number}", "train")
    heard: list[float] = []
    for step in range(steps):
        batch = Batch(list(islice(stream, ROWS_PER_WORKER)))
        heard.append(learner.step(batch, share_of_rate(step, steps)))
        if (step + 1) % 50 == 0:
            loss, cores = _all_heard(worker, heard[-50:])
            if leads:
                took = f"{time.monotonic() - started:.0f} s, {cores:.0f} s of all cores"
                print(f"step {step + 1}: loss {loss:.4f}, {took}", flush=True)
        if leads and ((step + 1) % 500 == 0 or step + 1 == steps):
            pack(network, out)
            report(network, 24 if step + 1 < steps else 100)


def _all_heard(worker: Worker, losses: list[float]) -> tuple[float, float]:
    """The mean loss, and the seconds of processor time, of all workers."""
    mine = torch.tensor([sum(losses) / len(losses), time.process_time()])
    everyone = worker.exchange(mine)
    return everyone[:, 0].mean().item(), everyone[:, 1].sum().item()


def share_of_rate(step: int, steps: int) -> float:
    """Rates rise for some steps, stay, and fall to nothing."""
    if step < _WARM_UP:
        return (step + 1) / (_WARM_UP + 1)
    places, shares = zip(*_RATES, strict=True)
    return float(np.interp(step / steps, places, shares))


def used_tokens(seed: int) -> list[int]:
    """The tokens that come often, those without a code that come at all, and small numbers."""
    counts: Counter[int] = Counter()
    for row in islice(rows(f"{seed} rows", "train"), _COUNTED_ROWS):
        counts.update({*row.tokens, *row.targets})
    numbers = {ENCODING.encode(str(number))[0] for number in range(_NUMBERS)}
    coded = set(torch.from_numpy(word_codes()[0]).any(dim=1).nonzero().flatten().tolist())
    often = {t for t, times in counts.items() if times >= (_OFTEN if t in coded else _TWICE)}
    return sorted(numbers | often)


@torch.no_grad()
def report(network: Network, count: int) -> None:
    """Print the share of held-out examples whose greedy completion is exact, by kind."""
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    chosen_from = network.told_apart()
    everything = network.rows(chosen_from)
    for row in islice(rows("0", "test"), count):
        batch = Batch([row])
        states, _ = network(batch.tokens, batch.lengths, batch.asked)
        chosen = chosen_from[(states @ everything.T).argmax(dim=-1)]
        right_tokens = (chosen == batch.targets).tolist()
        wrong = {at for at, fine in zip(row.examples, right_tokens, strict=True) if not fine}
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
    run_workers(WORKERS, train, arguments.seed, arguments.steps, arguments.out)


if __name__ == "__main__":
    main()
