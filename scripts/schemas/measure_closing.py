"""Measure how closing a turn in time changes what the demo model writes.

::

    python scripts/schemas/measure_closing.py [--seeds N]

Each prompt is completed with the same seed and the same limit of tokens, with the limit alone and
with `close_in_time`. A whole turn ends with its stop token; a changed turn was whole without
closing and has other tokens with it.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from time import process_time
from typing import Any

from gpt_oss_harmony import (
    Conversation,
    DeveloperContent,
    Message,
    Role,
    SystemContent,
    ToolDescription,
    load_harmony_encoding,
)
from gpt_oss_harmony.engines import Engine, FinishReason, Sampling, open_engine
from gpt_oss_harmony.grammar import TurnOptions, turn_grammar
from gpt_oss_harmony.sampled_messages import prompt_tokens

LIMITS = (24, 32, 48, 64, 96, 128)
_WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}},
    "required": ["city"],
}
_REPORT = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "note": {"type": "string"},
        "days": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["city", "note", "days"],
    "additionalProperties": False,
}
TURNS: dict[str, tuple[str, dict[str, Any]]] = {
    "call": ("What is the weather in Tokyo?", {"tool_choice": "required"}),
    "answer": (
        "What is the weather in Paris?",
        {"tool_choice": "none", "response_format": {"type": "json_schema", "schema": _REPORT}},
    ),
}


def prompt_of(question: str) -> Conversation:
    """Return a conversation with a tool and a question."""
    tool = ToolDescription.new("get_weather", "Get the weather.", _WEATHER)
    developer = DeveloperContent.new().with_function_tools([tool])
    return Conversation.from_messages(
        [
            Message.from_role_and_content(Role.SYSTEM, SystemContent.new()),
            Message.from_role_and_content(Role.DEVELOPER, developer),
            Message.from_role_and_content(Role.USER, question),
        ]
    )


async def completion(
    engine: Engine, prompt: list[int], sampling: Sampling
) -> tuple[list[int], bool]:
    """Return the tokens of a turn, and whether it is whole."""
    sampled = [token async for token in engine.generate(prompt, sampling)]
    return [one.token for one in sampled], sampled[-1].finish_reason is FinishReason.STOP


async def measure(seeds: int) -> None:
    """Print a row for each kind of turn and limit."""
    encoding = load_harmony_encoding("HarmonyGptOss")
    print("| turn | tokens | whole | whole in time | changed | seconds | seconds in time |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    async with await open_engine("demo") as engine:
        for name, (question, options) in TURNS.items():
            conversation = prompt_of(question)
            grammar = turn_grammar(conversation, TurnOptions(preambles=False, **options))
            prompt = prompt_tokens(encoding, conversation)
            for limit in LIMITS:
                plain = Sampling(max_tokens=limit, grammar=grammar)
                whole = closed = changed = 0
                seconds = [0.0, 0.0]
                for seed in range(seeds):
                    before = process_time()
                    tokens, is_whole = await completion(engine, prompt, replace(plain, seed=seed))
                    between = process_time()
                    closing = replace(plain, seed=seed, close_in_time=True)
                    in_time, is_closed = await completion(engine, prompt, closing)
                    seconds[0] += between - before
                    seconds[1] += process_time() - between
                    whole += is_whole
                    closed += is_closed
                    changed += is_whole and tokens != in_time
                counts = " | ".join(f"{count}/{seeds}" for count in (whole, closed, changed))
                print(f"| {name} | {limit} | {counts} | {seconds[0]:.2f} | {seconds[1]:.2f} |")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=12)
    asyncio.run(measure(parser.parse_args().seeds))


if __name__ == "__main__":
    main()
