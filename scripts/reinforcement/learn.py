"""Teach the demo model what it gets wrong, with GRPO: ``make rl``.

Each step, an engine plays episodes with the weights of the step before, and the model takes one
step on their tokens. Prints a line of JSON for each step, with the greedy score on questions that
are held out before the first step and after the last; at the end, a table of the rewards.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from gpt_oss_harmony.engines import open_engine
from gpt_oss_harmony.engines.demo_model import demo_model_folder

from .episodes import Episode, differing_tokens, play_groups, questions, rerendered
from .grpo import policy_step

__all__ = ["load_policy", "play_step"]


def load_policy() -> Any:
    """Load the demo model to learn: its layers, and not its 201,088 rows of tokens."""
    model: Any = AutoModelForCausalLM.from_pretrained(
        demo_model_folder(), dtype=torch.float32, experts_implementation="eager"
    )
    for part in (model.get_input_embeddings(), model.lm_head):
        part.requires_grad_(False)
    return model


async def play_step(
    folder: Path, arguments: argparse.Namespace, seed: int, *, temperature: float = 1.0
) -> list[list[Episode]]:
    """Play the episodes of a step; at a temperature of 0, one for each question held out."""
    is_trained_on = temperature > 0
    asked = questions(
        Random(seed),
        arguments.questions if is_trained_on else arguments.held_out,
        held_out=not is_trained_on,
    )
    size = arguments.episodes if is_trained_on else 1
    engine = await open_engine(
        str(folder), dtype="float32", max_requests=len(asked) * size, threads=arguments.threads
    )
    try:
        return await play_groups(
            engine,
            asked,
            size,
            seed=seed,
            temperature=temperature,
            constrained=arguments.grammar,
        )
    finally:
        await engine.close()


def _held_out_score(folder: Path, arguments: argparse.Namespace) -> float:
    groups = asyncio.run(play_step(folder, arguments, seed=0, temperature=0.0))
    return sum(group[0].reward for group in groups) / len(groups)


def _learn(seed: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    torch.manual_seed(seed)
    model = load_policy()
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=arguments.learning_rate, weight_decay=0.0)
    lines: list[dict[str, Any]] = []
    begun, begun_of_processor = time.monotonic(), time.process_time()
    folder = demo_model_folder()
    before = _held_out_score(folder, arguments)
    with tempfile.TemporaryDirectory() as temporary:
        for step in range(arguments.steps):
            groups = asyncio.run(play_step(folder, arguments, 1000 * seed + step))
            episodes = [episode for group in groups for episode in group]
            difference = policy_step(
                model, optimizer, [[(e.sequence, e.reward) for e in group] for group in groups]
            )
            folder = Path(temporary) / "weights"
            model.save_pretrained(folder)
            count = len(episodes)
            sequences = [episode.sequence for episode in episodes]
            line = {
                "seed": seed,
                "step": step,
                "reward": sum(episode.reward for episode in episodes) / count,
                "malformed": sum(episode.is_malformed for episode in episodes) / count,
                "tokens": sum(sum(sequence.sampled_mask()) for sequence in sequences),
                "differ": sum(
                    differing_tokens(e.sequence, rerendered(e.sequence)) for e in episodes
                ),
                "logprob_difference": difference,
            }
            if step == 0:
                line["held_out_before"] = before
            if step == arguments.steps - 1:
                line["held_out_after"] = _held_out_score(folder, arguments)
            line["seconds"] = round(time.monotonic() - begun, 1)
            line["seconds_of_processor"] = round(time.process_time() - begun_of_processor, 1)
            print(json.dumps(line), flush=True)
            lines.append(line)
    return lines


def main() -> None:
    """Run the loop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="a run for each")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--questions", type=int, default=4, help="of each step")
    parser.add_argument("--episodes", type=int, default=6, help="of each question")
    parser.add_argument("--held-out", type=int, default=32, help="questions for the score")
    parser.add_argument("--learning-rate", type=float, default=1e-5)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    parser.add_argument("--grammar", action="store_true", help="sample under the turn's grammar")
    parser.add_argument("--plot", type=Path, help="an SVG file")
    parser.add_argument("--log", type=Path, help="a file for the lines")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    runs = [_learn(seed, arguments) for seed in arguments.seeds]
    titles = ["Seed", "Held out, before", *(f"Step {step}" for step in range(arguments.steps))]
    titles += ["Held out, after", "Seconds", "Seconds of processor"]
    print(f"| {' | '.join(titles)} |\n|{'--:|' * len(titles)}")
    for run in runs:
        rewards = [line["reward"] for line in run]
        numbers = [run[0]["held_out_before"], *rewards, run[-1]["held_out_after"]]
        times = [run[-1][name] for name in ("seconds", "seconds_of_processor")]
        cells = [f"{number:.2f}" for number in numbers] + [f"{seconds:.0f}" for seconds in times]
        print(f"| {run[0]['seed']} | {' | '.join(cells)} |")
    if arguments.log:
        lines = (json.dumps(line) + "\n" for run in runs for line in run)
        arguments.log.write_text("".join(lines))
    if arguments.plot:
        _plot(runs, arguments.plot)


def _plot(runs: list[list[dict[str, Any]]], path: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    for run in runs:
        steps = [line["step"] for line in run]
        axes.plot(steps, [line["reward"] for line in run], label=f"seed {run[0]['seed']}")
    axes.set_xlabel("step")
    axes.set_ylabel("mean reward")
    axes.set_ylim(0, 1.02)
    axes.legend(frameon=False)
    with mpl.rc_context({"svg.hashsalt": "harmony", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
