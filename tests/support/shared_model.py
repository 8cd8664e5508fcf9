"""A model among several processes: ``python -m support.shared_model FOLDER...`` in each.

Rank 0 prints the tokens of `completions` as JSON, a line for each folder with a model.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import torch
from transformers import GptOssConfig, GptOssForCausalLM

from gpt_oss_harmony.engines import Sampling, TransformersEngine

from .engine_contract import PROMPT, SHORT_TURN

OPTIONS: dict[str, Any] = {"context_length": 400, "max_requests": 8}
# Sums of two processes round otherwise: among 200,000 tokens of like probability, another would be
# chosen now and then. So there are few to choose from.
SAMPLINGS = (
    Sampling(temperature=0, max_tokens=20),
    Sampling(seed=1, max_tokens=20, top_k=20),
    Sampling(seed=2, max_tokens=20, top_k=20, top_p=0.5, logprobs=1, repetition_penalty=1.1),
    Sampling(seed=3, max_tokens=30, top_k=20, grammar=SHORT_TURN),  # has forced tokens
)


def write_model(folder: Path, *, tied: bool) -> None:
    """Write a small model with random weights, and a head that is the embedding if `tied`."""
    torch.manual_seed(0)
    config = GptOssConfig(
        num_hidden_layers=2,
        hidden_size=32,
        intermediate_size=32,
        num_local_experts=4,
        num_experts_per_tok=2,
        head_dim=16,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=201_088,
        layer_types=["sliding_attention", "full_attention"],
        max_position_embeddings=512,
        tie_word_embeddings=tied,
    )
    GptOssForCausalLM(config).save_pretrained(folder)


async def completions(engine: TransformersEngine) -> list[list[int]]:
    """Return the tokens of some requests at once, and one more after others were left early."""

    async def completed(sampling: Sampling) -> list[int]:
        return [sampled.token async for sampled in engine.generate(PROMPT, sampling)]

    async def left() -> None:
        async with aclosing(engine.generate(PROMPT, Sampling(max_tokens=300))) as completion:
            await anext(completion)

    results = await asyncio.gather(*map(completed, SAMPLINGS), left())
    return [*filter(None, results), await completed(SAMPLINGS[1])]


def main() -> None:
    """Print the completions in rank 0; follow it in the others."""

    async def run(engine: TransformersEngine) -> None:
        async with engine:
            print(json.dumps(await completions(engine)))

    for folder in sys.argv[1:]:
        engine = TransformersEngine.load(folder, **OPTIONS)
        if engine.is_follower:
            engine.follow()
        else:
            asyncio.run(run(engine))


if __name__ == "__main__":
    main()
