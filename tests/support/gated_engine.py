"""A scripted engine that stops at a gate, for tests that look at what is under way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator

from openai_harmony.engines import SampledToken, Sampling
from support.scripted_engine import ScriptedEngine

PATIENCE = 60  # seconds


class GatedEngine(ScriptedEngine):
    """Samples `before_gate` tokens of each completion, and the rest when `open` was called.

    The server may run in another thread than the test.
    """

    def __init__(self, *completions: str, before_gate: int) -> None:
        super().__init__(*completions)
        self.before_gate = before_gate
        self.at_gate = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self._gate = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def wait_at_gate(self) -> None:
        """Wait until a completion has come to the gate."""
        assert self.at_gate.acquire(timeout=PATIENCE), "no completion came to the gate"

    def wait_for_end(self) -> None:
        """Wait until a completion has ended, however it did."""
        assert self.ended.acquire(timeout=PATIENCE), "no completion ended"

    def open(self) -> None:
        """Let all completions go on."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._gate.set)

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        self._loop = asyncio.get_running_loop()
        source = super()._generate(prompt, sampling, max_tokens)
        try:
            for number in range(max_tokens):
                if number == self.before_gate:
                    self.at_gate.release()
                    await self._gate.wait()
                sampled = await anext(source, None)
                if sampled is None:
                    return
                yield sampled
        finally:
            await source.aclose()
            self.ended.release()
