"""An engine that says what it is told to, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from openai_harmony import load_harmony_encoding
from openai_harmony.engines import Engine, EngineError, FinishReason, Health, SampledToken, Sampling

ENCODING = load_harmony_encoding("HarmonyGptOss")


class ScriptedEngine(Engine):
    """Samples its `completions`, marked-up texts, one after the other.

    A completion that ends in ``!`` breaks there; of one that ends in ``...`` there is no end but
    `close`.
    """

    def __init__(self, *completions: str) -> None:
        self.model = "script"
        self.context_length = 1000
        self.completions = list(completions)
        self.prompts: list[str] = []
        self.samplings: list[Sampling] = []
        self.freed = 0
        self.closed = False
        self._closing = asyncio.Event()

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        self.prompts.append(ENCODING.decode(prompt))
        self.samplings.append(sampling)
        text = self.completions.pop(0)
        tokens = ENCODING.encode(text.rstrip("!"), allowed_special="all")
        try:
            for at, token in enumerate(tokens[:max_tokens], start=1):
                await asyncio.sleep(0)
                reason = None
                if token in sampling.stop_tokens:
                    reason = FinishReason.STOP
                elif at == max_tokens:
                    reason = FinishReason.LENGTH
                yield SampledToken(token, finish_reason=reason)
            if text.endswith("!"):
                raise EngineError("the script breaks off", retryable=True)
            if text.endswith("..."):
                await self._closing.wait()
                raise EngineError("the engine was closed")
        finally:
            self.freed += 1

    async def health(self) -> Health:
        return Health(not self.closed)

    async def close(self) -> None:
        self.closed = True
        self._closing.set()
