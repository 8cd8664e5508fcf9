"""Compare the gradients of sampled tokens with those of the same messages, rendered again.

``make rl-rerendered`` prints a line for each temperature. The model, the episodes and their rewards
are the same on both sides; only the tokens differ.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import torch

from gpt_oss_harmony.engines.demo_model import demo_model_folder
from gpt_oss_harmony.training import TokenSequence

from .episodes import differing_tokens, rerendered
from .grpo import add_gradient
from .learn import load_policy, play_step

_TEMPERATURES = (1.0, 1.5, 1.75, 1.85, 2.0)


def _gradient(model: Any, groups: list[list[tuple[TokenSequence, float]]]) -> torch.Tensor | None:
    model.zero_grad()
    if add_gradient(model, groups) is None:
        return None
    grads = (parameter.grad for parameter in model.parameters())
    return torch.cat([grad.flatten() for grad in grads if grad is not None])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--temperatures", type=float, nargs="+", default=_TEMPERATURES)
    parser.add_argument("--questions", type=int, default=4)
    parser.add_argument("--episodes", type=int, default=6, help="of each question")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    parser.add_argument("--grammar", action="store_true", help="sample under the turn's grammar")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = load_policy()
    titles = ["Temperature", "Malformed", "Sampled tokens", "Differ", "In episodes"]
    titles += ["Cosine of gradients", "Norm of their difference"]
    print(f"| {' | '.join(titles)} |\n|{'--:|' * len(titles)}")
    for temperature in arguments.temperatures:
        groups = asyncio.run(
            play_step(demo_model_folder(), arguments, arguments.seed, temperature=temperature)
        )
        episodes = [episode for group in groups for episode in group]
        differing = [differing_tokens(e.sequence, rerendered(e.sequence)) for e in episodes]
        # The model's own log-probabilities on both sides: the ratio to the engine's is 1.
        sampled, again = (
            _gradient(model, [[(of(e.sequence), e.reward) for e in group] for group in groups])
            for of in (_without_logprobs, rerendered)
        )
        cells = [f"{temperature}", f"{sum(e.is_malformed for e in episodes)} of {len(episodes)}"]
        cells += [f"{sum(sum(e.sequence.sampled_mask()) for e in episodes):,}"]
        cells += [f"{sum(differing):,}", f"{sum(map(bool, differing))}"]
        if sampled is None or again is None:  # no episode was better than another
            cells += ["", ""]
        else:
            cells += [f"{torch.cosine_similarity(sampled, again, dim=0):.3f}"]
            cells += [f"{(sampled - again).norm() / sampled.norm():.0%}"]
        print(f"| {' | '.join(cells)} |", flush=True)


def _without_logprobs(sequence: TokenSequence) -> TokenSequence:
    return TokenSequence(sequence.input_ids, sequence.labels, [float("nan")] * len(sequence.labels))


if __name__ == "__main__":
    main()
