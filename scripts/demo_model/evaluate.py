"""How often the demo model is right on what training kept back: ``make demo-accuracy``.

    python -m demo_model.evaluate [--count N] [FOLDER]

The prompts have words, cities, pairs of numbers and templates that training never saw. The
completions are greedy, by Transformers, and counted three ways: those that are exactly the
expected one, those whose answer or call is, whatever was reasoned, and those that the strict
parser reads.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from gpt_oss_harmony import Message, Role, TokenError
from gpt_oss_harmony.engines.demo_model import demo_model_folder

from .conversations import KINDS, groups, render
from .example import Example
from .words import ENCODING

__all__ = ["Score", "complete", "evaluate", "held_out"]

_SEED = 7
_BATCH = 20
_LONGEST = 160
_PAD = 199_999
_STOPS = ENCODING.stop_tokens_for_assistant_actions()


@dataclass
class Score:
    """How many completions of a kind there were, and how good they were."""

    count: int = 0
    exact: int = 0
    answered: int = 0
    parsed: int = 0

    def add(self, example: Example, expected: list[int], sampled: list[int]) -> None:
        """Count one completion."""
        self.count += 1
        self.exact += sampled == expected
        messages = _parsed(sampled)
        self.parsed += messages is not None
        if messages:
            self.answered += _same(messages[-1], example.completion[-1])


def evaluate(folder: Path, count: int) -> dict[str, Score]:
    """Score `count` completions of each kind."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    scores: dict[str, Score] = defaultdict(Score)
    pending = [(example, render(example)) for example in held_out(count)]
    pending.sort(key=lambda pair: len(pair[1].opening) + len(pair[1].turns))
    for at in range(0, len(pending), _BATCH):
        batch = pending[at : at + _BATCH]
        prompts = [rendered.opening + rendered.turns for _, rendered in batch]
        for (example, rendered), sampled in zip(batch, complete(model, prompts), strict=True):
            scores[example.kind].add(example, rendered.completion, sampled)
    return dict(sorted(scores.items()))


def held_out(count: int) -> list[Example]:
    """Choose `count` examples of each kind."""
    found: dict[str, list[Example]] = defaultdict(list)
    for group in groups(_SEED, "test", 1):
        for example in group:
            if len(found[example.kind]) < count:
                found[example.kind].append(example)
        if sum(map(len, found.values())) == count * len(KINDS):
            break
    return [example for few in found.values() for example in few]


def complete(model: Any, prompts: list[list[int]]) -> list[list[int]]:
    """Complete prompts greedily, up to and with the stop token."""
    longest = max(map(len, prompts))
    padded = [[_PAD] * (longest - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    with torch.no_grad():
        sampled = model.generate(
            input_ids=torch.tensor(padded),
            attention_mask=torch.tensor(mask),
            max_new_tokens=_LONGEST,
            do_sample=False,
        )
    return [_until_stop(row[longest:].tolist()) for row in sampled]


def _until_stop(tokens: list[int]) -> list[int]:
    ends = [at for at, token in enumerate(tokens) if token in _STOPS]
    return tokens[: ends[0] + 1] if ends else tokens


def _parsed(sampled: list[int]) -> list[Message] | None:
    if not sampled or sampled[-1] not in _STOPS:
        return None
    try:
        return ENCODING.parse_messages_from_completion_tokens(sampled, Role.ASSISTANT)
    except TokenError:
        return None


def _same(sampled: Message, expected: Message) -> bool:
    fields = ("channel", "recipient", "content")
    return all(getattr(sampled, field) == getattr(expected, field) for field in fields)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="completions of each kind")
    parser.add_argument("folder", type=Path, nargs="?", help="a checkpoint; else the packaged one")
    arguments = parser.parse_args()
    scores = evaluate(arguments.folder or demo_model_folder(), arguments.count)
    print(f"| Kind | Held-out prompts | Exact | Answer or call | Parsed |\n|---|{'--:|' * 4}")
    for kind, score in scores.items():
        shares = (score.exact, score.answered, score.parsed)
        cells = " | ".join(f"{share / score.count:.0%}" for share in shares)
        print(f"| {kind} | {score.count} | {cells} |")


if __name__ == "__main__":
    main()
