"""An engine that always has something to say, broken things too."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Sequence

from openai_harmony.engines import SampledToken, Sampling
from support.scripted_engine import ScriptedEngine

START = "<|start|>assistant"
SAID = (
    f"<|channel|>analysis<|message|>Hm.<|end|>{START}<|channel|>final<|message|>Four.<|return|>",
    '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a":1}<|call|>',
    '<|channel|>analysis to=python code<|message|>print("no json")<|call|>',
    "words that belong to no message at all<|return|>",
    f"<|channel|>final<|message|>{{}}<|end|>{START}<|channel|><|channel|>odd<|message|>\ufffd<|return|>",
    "<|channel|>final<|message|>🙈<|return|>",
)


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
