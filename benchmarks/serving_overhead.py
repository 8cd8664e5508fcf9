"""What a token costs in the engine besides the model: sampling, grammars, batching, delivery.

    python -m benchmarks.serving_overhead

The model is measured where it is called, and the rest is what remains of the whole. Both are the
time of the processor, with one thread for the model: so other programs change little.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from gpt_oss_harmony import Conversation, Message, Role, load_harmony_encoding
from gpt_oss_harmony.engines import Sampling, TransformersEngine
from gpt_oss_harmony.engines.demo_model import demo_model_folder
from gpt_oss_harmony.grammar import turn_grammar

__all__ = ["KINDS", "measure_overhead"]

TOKENS = 40
CHAT = Conversation.from_messages(
    [Message.from_role_and_content(Role.USER, "Tell me about the sea, the moon and the stars.")]
)
KINDS = {
    "temperature 0": Sampling(temperature=0),
    "temperature 1": Sampling(),
    "top_p 0.9": Sampling(top_p=0.9),
    "log-probabilities": Sampling(logprobs=5),
    "penalties": Sampling(repetition_penalty=1.1, frequency_penalty=0.5),
    "a grammar": Sampling(grammar=turn_grammar(CHAT)),
}


class _Stopwatch:
    """The processor's seconds within a function."""

    def __init__(self, function: Any) -> None:
        self._function = function
        # Transformers reads the arguments of the model's forward, and sends fewer to one without.
        functools.update_wrapper(self, function)
        self.seconds = 0.0

    def __call__(self, *given: Any, **named: Any) -> Any:
        begun = time.process_time()
        try:
            return self._function(*given, **named)
        finally:
            self.seconds += time.process_time() - begun


def measure_overhead(streams: Sequence[int], rounds: int = 3) -> list[dict[str, Any]]:
    """Return a row for each kind of request and number of streams: the best of some rounds."""
    torch.set_num_threads(1)  # several would spend time on waiting for each other
    return asyncio.run(_measured(streams, rounds))


async def _measured(streams: Sequence[int], rounds: int) -> list[dict[str, Any]]:
    prompt = load_harmony_encoding("HarmonyGptOss").render_conversation_for_completion(
        CHAT, Role.ASSISTANT
    )
    rows = []
    engine = TransformersEngine.load(demo_model_folder(), max_requests=max(streams))
    model = engine._model.forward = _Stopwatch(engine._model.forward)
    async with engine:

        async def completion(sampling: Sampling) -> int:
            return len([sampled async for sampled in engine.generate(prompt, sampling)])

        for kind, sampling in KINDS.items():
            for count in streams:
                best: tuple[float, float] = (float("inf"), 0)
                for _ in range(rounds + 1):  # the first compiles the grammar
                    model.seconds, begun = 0.0, time.process_time()
                    requests = [
                        # No request ends early: that would leave others alone.
                        replace(sampling, seed=seed, max_tokens=TOKENS, stop_tokens=frozenset())
                        for seed in range(count)
                    ]
                    tokens = sum(await asyncio.gather(*map(completion, requests)))
                    total = time.process_time() - begun
                    best = min(best, ((total - model.seconds) / tokens, total / tokens))
                rest, whole = best
                rows.append(
                    {
                        "request": kind,
                        "streams": count,
                        "per token, µs": 1e6 * whole,
                        "per token without the model, µs": 1e6 * rest,
                    }
                )
                print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    measure_overhead((1, 32))
