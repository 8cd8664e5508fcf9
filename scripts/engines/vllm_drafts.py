"""Calls a second in vLLM with forced tokens as drafts, and without, on the CPU.

    vllm_drafts.py PYTHON SITE [--calls 8] [--layers 2] [--update-docs]

PYTHON and SITE are those of `vllm_plugin`. The model has the width, heads and vocabulary of
gpt-oss-20b, some of its layers and experts, and random weights. It samples required calls under a
grammar, one after the other and four at once; the best round counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import sys
import tempfile
import time
import urllib.request
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from try_server import ENGINES, described

from gpt_oss_harmony import (
    Conversation,
    DeveloperContent,
    Message,
    Role,
    ToolDescription,
    load_harmony_encoding,
)
from gpt_oss_harmony.engines.demo_model import demo_model_folder
from gpt_oss_harmony.grammar import TurnOptions, turn_grammar
from gpt_oss_harmony.sampled_messages import prompt_tokens
from gpt_oss_harmony.tokens.special_tokens import CALL
from vllm_plugin import update_docs, vllm_server

SHAPE = {
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 4,
    "tie_word_embeddings": True,  # so that two servers fit into a small machine
    "dtype": "bfloat16",
}
AIRPORT = {"type": "string", "pattern": "^[A-Z]{3}$"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "origin": AIRPORT,
        "destination": AIRPORT,
        "departure_date": {"type": "string", "format": "date"},
        "passengers": {"type": "integer", "minimum": 1, "maximum": 9},
        "cabin": {"enum": ["economy", "premium_economy", "business", "first"]},
        "flexible_dates": {"type": "boolean"},
    },
    "required": [
        "origin",
        "destination",
        "departure_date",
        "passengers",
        "cabin",
        "flexible_dates",
    ],
    "additionalProperties": False,
}
DRAFTS = {
    "method": "custom_class",
    "model": "gpt_oss_harmony_vllm.drafts.ForcedTokens",
    "num_speculative_tokens": 8,
}
ROUNDS = 2


def request() -> tuple[list[int], dict[str, str]]:
    """Return a prompt and the grammars of a required call in any spelling and in one."""
    tool = ToolDescription.new("search_flights", "Search flights.", SCHEMA)
    developer = DeveloperContent.new().with_function_tools([tool])
    conversation = Conversation.from_messages(
        [
            Message.from_role_and_content(Role.DEVELOPER, developer),
            Message.from_role_and_content(Role.USER, "Find me a flight to Tokyo."),
        ]
    )
    plain = TurnOptions("required", reasoning=False, preambles=False)
    grammars = {
        name: str(turn_grammar(conversation, replace(plain, canonical=canonical)))
        for name, canonical in (("any spelling", False), ("`canonical`", True))
    }
    return prompt_tokens(load_harmony_encoding("HarmonyGptOss"), conversation), grammars


async def calls_a_second(
    url: str, calls: int, at_once: int, prompt: list[int], grammar: str
) -> tuple[float, int]:
    """Sample calls; return how many a second, and their tokens."""
    room = asyncio.Semaphore(at_once)
    async with AsyncOpenAI(
        base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=600
    ) as client:

        async def one() -> int:
            extra: dict[str, Any] = {
                "structured_outputs": {"grammar": grammar},
                "stop_token_ids": [CALL],
            }
            async with room:
                answer = await client.completions.create(
                    model="demo", prompt=prompt, max_tokens=250, temperature=1, extra_body=extra
                )
            assert answer.choices[0].finish_reason == "stop", answer
            assert answer.usage is not None
            return answer.usage.completion_tokens

        before = time.perf_counter()
        tokens = await asyncio.gather(*(one() for _ in range(calls)))
        return calls / (time.perf_counter() - before), sum(tokens)


def accepted(url: str) -> int:
    """Return how many tokens of drafts vLLM has accepted."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found = re.findall(
        r"^vllm:spec_decode_num_accepted_tokens_total\{.*\} (\S+)$", text, re.MULTILINE
    )
    return int(sum(map(float, found)))


def model_folder(folder: Path, layers: int) -> None:
    """Write a model without weights: its configuration, and the tokenizer of the demo model."""
    shutil.copytree(
        demo_model_folder(),
        folder,
        ignore=shutil.ignore_patterns("*.safetensors"),
        dirs_exist_ok=True,
    )
    file = folder / "config.json"
    config = json.loads(file.read_text("utf-8"))
    kinds = ["sliding_attention", "full_attention"] * layers
    config |= {**SHAPE, "num_hidden_layers": layers, "layer_types": kinds[:layers]}
    file.write_text(json.dumps(config), "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("python", help="the Python of the environment with vLLM")
    parser.add_argument("site", help="the folder with this library")
    parser.add_argument("--calls", type=int, default=8)
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--update-docs", action="store_true", help="write docs/guides/vllm.md, too")
    arguments = parser.parse_args()
    prompt, grammars = request()
    lines = [
        "| Calls a second | Grammar | Without drafts | With drafts | Tokens of drafts taken |",
        "|---|---|--:|--:|--:|",
    ]
    speeds: dict[tuple[int, str], dict[str, float]] = {}
    shares: dict[tuple[int, str], float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model_folder(folder, arguments.layers)
        common = ("--load-format", "dummy", "--dtype", "bfloat16")
        options = {"without": (), "with": ("--speculative-config", json.dumps(DRAFTS))}
        for drafts, more in options.items():  # one after the other, as a model may fill the memory
            with vllm_server(arguments.python, arguments.site, *common, *more, model=folder) as url:
                for grammar in grammars.values():  # compiled once
                    asyncio.run(calls_a_second(url, 1, 1, prompt, grammar))
                for row in product(arguments.at_once, grammars):
                    at_once, label = row
                    before, sampled = accepted(url), 0
                    for _ in range(ROUNDS):
                        speed, tokens = asyncio.run(
                            calls_a_second(url, arguments.calls, at_once, prompt, grammars[label])
                        )
                        best = speeds.setdefault(row, {})
                        best[drafts] = max(speed, best.get(drafts, 0))
                        sampled += tokens
                        print(*row, drafts, f"{speed:.3f}", tokens, file=sys.stderr)
                    shares[row] = (accepted(url) - before) / sampled
    for (at_once, label), best in speeds.items():
        cells = f"{best['without']:.3f} | {best['with']:.3f} | {shares[at_once, label]:.0%}"
        lines.append(f"| {at_once} at once | {label} | {cells} |")
    text = described(ENGINES["vllm"], arguments.python) + "\n" + "\n".join(lines) + "\n"
    print(text)
    if arguments.update_docs:
        update_docs("vllm-drafts", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
