"""Engines without a model: one samples a script, one stops at a gate, one talks without end."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncGenerator, Sequence

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.engines import (
    Engine,
    EngineError,
    FinishReason,
    Health,
    SampledToken,
    Sampling,
)

ENCODING = load_harmony_encoding("HarmonyGptOss")

PATIENCE = 60  # seconds

START = "<|start|>assistant"
SAID = (
    f"<|channel|>analysis<|message|>Hm.<|end|>{START}<|channel|>final<|message|>Four.<|return|>",
    '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a":1}<|call|>',
    '<|channel|>analysis to=python code<|message|>print("no json")<|call|>',
    "words that belong to no message at all<|return|>",
    f"<|channel|>final<|message|>{{}}<|end|>{START}<|channel|><|channel|>odd<|message|>\ufffd<|return|>",
    "<|channel|>final<|message|>🙈<|return|>",
)


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


class TalkingEngine(ScriptedEngine):
    """Says all kinds of things in turn, whatever it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self._more = itertools.cycle(SAID)

    def generate(
        self, prompt: Sequence[int], sampling: Sampling | None = None
    ) -> AsyncGenerator[SampledToken, None]:
        self.completions = [next(self._more)]
        return super().generate(prompt, sampling)
