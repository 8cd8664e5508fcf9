"""An engine that counts for ever where it is asked to, and answers the same to all else."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator

from gpt_oss_harmony.engines import SampledToken, Sampling
from support.scripted_engine import ENCODING, ScriptedEngine

__all__ = ["COUNT", "CountingEngine"]

COUNT = "Count."


class CountingEngine(ScriptedEngine):
    """Reads the last message of the user."""

    def __init__(self, completion: str) -> None:
        super().__init__()
        self.context_length = 10**9
        self._completion = completion

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        asked = ENCODING.decode(prompt).rpartition("<|start|>user<|message|>")[2]
        if asked.startswith(COUNT):
            words = map("{} ".format, itertools.count())
            for text in itertools.chain(["<|channel|>final<|message|>"], words):
                for token in ENCODING.encode(text, allowed_special="all"):
                    await asyncio.sleep(0.001)
                    yield SampledToken(token)
        self.completions = [self._completion]
        async for sampled in super()._generate(prompt, sampling, max_tokens):
            yield sampled
