"""The attention and the head for the CPU, beside those of Transformers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from gpt_oss_harmony.engines import SampledToken, Sampling, TransformersEngine
from gpt_oss_harmony.engines.cpu_model import FEW_ROWS, prepare_for_cpu
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
    async with TransformersEngine.load(folder, **options) as engine:

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


@pytest.mark.parametrize("stored", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("rows", [1, FEW_ROWS, FEW_ROWS + 1, 20])
def test_logits_are_as_exact_as_float32(stored: torch.dtype, rows: int) -> None:
    torch.manual_seed(0)
    head = nn.Linear(64, 1000, bias=False)
    head.weight = nn.Parameter(torch.randn(1000, 64).to(stored).float())
    assert prepare_for_cpu(
        SimpleNamespace(config=SimpleNamespace(model_type="gpt_oss"), lm_head=head), 16
    )
    hidden = torch.randn(1, rows, 64)
    with torch.no_grad():
        logits = head(hidden)
    exact = hidden.double() @ head.weight.detach().double().T
    assert logits.shape == exact.shape
    assert (logits - exact).abs().max() < 1e-4  # weights that float16 rounds would differ by 1e-3
