"""Teach the demo model what it gets wrong, with GRPO: ``make rl``.

Each step, an engine plays episodes with the weights of the step before, and the model takes one
step on their tokens. Prints a line for each step, and draws the rewards.
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

from openai_harmony.engines import open_engine
from openai_harmony.engines.demo_model import demo_model_folder

from .episodes import Episode, play_groups, questions, rerendered_differences
from .grpo import policy_step


async def _play(folder: Path, arguments: argparse.Namespace, step: int) -> list[list[Episode]]:
    engine = await open_engine(str(folder), dtype="float32")
    try:
        return await play_groups(
            engine,
            questions(Random(step), arguments.questions),
            arguments.episodes,
            seed=step,
            constrained=arguments.grammar,
        )
    finally:
        await engine.close()


def main() -> None:
    """Run the loop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--questions", type=int, default=4, help="of each step")
    parser.add_argument("--episodes", type=int, default=6, help="of each question")
    parser.add_argument("--learning-rate", type=float, default=2e-5)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    parser.add_argument("--grammar", action="store_true", help="sample under the turn's grammar")
    parser.add_argument("--plot", type=Path, help="an SVG file")
    parser.add_argument("--log", type=Path, help="a file for a line of JSON for each step")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    folder = demo_model_folder()
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, experts_implementation="eager"
    )
    model.get_input_embeddings().requires_grad_(False)  # 201,088 rows that need no change
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=arguments.learning_rate, weight_decay=0.0)
    lines: list[dict[str, Any]] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        for step in range(arguments.steps):
            groups = asyncio.run(_play(folder, arguments, step))
            episodes = [episode for group in groups for episode in group]
            difference = policy_step(
                model, optimizer, [[(e.sequence, e.reward) for e in group] for group in groups]
            )
            count = len(episodes)
            lines.append(
                {
                    "step": step,
                    "reward": sum(episode.reward for episode in episodes) / count,
                    "malformed": sum(episode.is_malformed for episode in episodes) / count,
                    "tokens": sum(sum(episode.sequence.sampled_mask()) for episode in episodes),
                    "rerendered": sum(map(rerendered_differences, episodes)),
                    "logprob_difference": difference,
                    "seconds": round(time.monotonic() - begun, 1),
                }
            )
            print(json.dumps(lines[-1]), flush=True)
            folder = Path(temporary) / "weights"
            model.save_pretrained(folder)
    if arguments.log:
        arguments.log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if arguments.plot:
        _plot(lines, arguments.plot)


def _plot(lines: list[dict[str, Any]], path: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    steps = [line["step"] for line in lines]
    axes.plot(steps, [line["reward"] for line in lines], color="#2f6f9f", label="mean reward")
    axes.plot(steps, [line["malformed"] for line in lines], color="#b0413e", label="malformed")
    axes.set_xlabel("step")
    axes.set_ylim(0, 1.02)
    axes.legend(frameon=False)
    with mpl.rc_context({"svg.hashsalt": "harmony", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
