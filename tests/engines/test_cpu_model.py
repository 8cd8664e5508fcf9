"""The attention for the CPU, beside that of Transformers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from openai_harmony.engines import SampledToken, Sampling, TransformersEngine
from support.engine_contract import PROMPT
from support.shared_model import write_model

WINDOW = 128  # tokens of the layer with a sliding window
PROMPTS = (
    PROMPT,
    PROMPT * (WINDOW // len(PROMPT)),
    PROMPT * (3 * WINDOW // len(PROMPT)),
    [5, 6, 7] * 40,
    [9],
)
LENGTH = 20

Completion = list[SampledToken]


async def complete_all(folder: Path, **options: Any) -> tuple[list[Completion], list[Completion]]:
    """Complete each prompt alone, and twice with all others."""
    sampling = Sampling(temperature=0, logprobs=0, max_tokens=LENGTH, stop_tokens=frozenset())
    async with TransformersEngine(folder, **options) as engine:

        async def complete(prompt: list[int]) -> Completion:
            return [sampled async for sampled in engine.generate(prompt, sampling)]

        alone = [await complete(prompt) for prompt in PROMPTS]
        return alone, await asyncio.gather(*map(complete, PROMPTS * 2))


def test_requests_attend_as_in_transformers(tmp_path: Path) -> None:
    write_model(tmp_path, tied=False)
    expected, _ = asyncio.run(complete_all(tmp_path, attn_implementation="eager"))
    alone, together = asyncio.run(complete_all(tmp_path))
    for theirs, completion in zip(expected * 3, alone + together, strict=True):
        assert [sampled.token for sampled in completion] == [sampled.token for sampled in theirs]
        assert [sampled.logprob for sampled in completion] == pytest.approx(
            [sampled.logprob for sampled in theirs], abs=1e-4
        )
