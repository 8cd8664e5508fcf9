"""Measure engines of this process beside the servers that they are made of: ``make local-speed``.

    python scripts/engines/local_speed.py (gguf | mlx) [--rounds 7] [--random]

The demo model, or one of 262 million random weights that takes its time for a token; one stream and
eight; all programs in turns, round by round, so that a busy machine slows them alike. Each
completion has as many tokens as the model writes for a question, 64 at most, at the temperature 0,
so all programs write the same. No question is asked twice, so no cached prompt answers it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import httpx2
from try_server import free_port, gguf_of, llama_cpp_command, started

from gpt_oss_harmony import Conversation, Message, Role, load_harmony_encoding
from gpt_oss_harmony.engines.demo_model import demo_model_folder
from support.served import server_process

STREAMS = (1, 8)
QUESTION = "What is {} + {}?"


class Program(NamedTuple):
    """A server: its command (None for `harmony serve`), and the name of its model."""

    name: str
    command: Callable[[int], Sequence[str]] | None
    arguments: Sequence[str] = ()
    model: str = "default_model"


def random_model(folder: Path) -> Path:
    """Write a model with the demo model's files, but larger and with random weights."""
    import torch
    from transformers import GptOssConfig, GptOssForCausalLM

    source = demo_model_folder()
    shutil.copytree(source, folder)
    sizes = json.loads((source / "config.json").read_text("utf-8")) | {
        "hidden_size": 512,
        "intermediate_size": 512,
        "num_hidden_layers": 12,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 6,
    }
    torch.manual_seed(1)
    model = GptOssForCausalLM(GptOssConfig(**sizes)).bfloat16()
    model.save_pretrained(folder)
    # As the demo model's, which the writer of GGUF files reads.
    (folder / "config.json").write_text(json.dumps(sizes), "utf-8")
    return folder


def programs(kind: str, folder: Path) -> list[Program]:
    if kind == "gguf":
        file = str(gguf_of(sys.executable, folder))
        return [
            Program("harmony serve FILE.gguf", None, (file, "--max-running", "8"), "demo"),
            Program(
                "llama-server", lambda port: [*llama_cpp_command(sys.executable, folder, port), "8"]
            ),
        ]
    server = str(Path(__file__).with_name("mlx_server.py"))
    return [
        Program(
            "harmony serve --engine mlx",
            None,
            (str(folder), "--engine", "mlx", "--max-running", "8"),
            "demo",
        ),
        Program(
            "mlx_lm.server",
            lambda port: [sys.executable, server, str(folder), str(port)],
            model=str(folder),
        ),
    ]


class Taken(NamedTuple):
    first: float
    tokens: int


async def completion(client: httpx2.AsyncClient, url: str, model: str, text: str) -> Taken:
    """Stream a completion; returns the seconds to its first text, and its tokens."""
    begin, first, tokens = time.perf_counter(), 0.0, 0
    body = {
        "model": model,
        "prompt": text,
        "max_tokens": 64,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    async with client.stream("POST", f"{url}/v1/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            first = first or time.perf_counter() - begin
            usage = json.loads(line[6:]).get("usage")
            if usage:
                tokens = usage["completion_tokens"]
    return Taken(first, tokens)


def prompt(turn: int, stream: int) -> str:
    """Return a prompt that no other stream has in any round."""
    question = QUESTION.format(10 + turn, 10 + stream)
    conversation = Conversation.from_messages([Message.from_role_and_content(Role.USER, question)])
    encoding = load_harmony_encoding("HarmonyGptOss")
    return encoding.decode(
        encoding.render_conversation_for_completion(conversation, Role.ASSISTANT)
    )


async def measure(
    url: str, model: str, texts: Sequence[str], *, is_random: bool
) -> tuple[float, float, int]:
    """Return the seconds to the first token, tokens a second of all streams, and of a stream."""
    async with httpx2.AsyncClient(timeout=300) as client:
        begin = time.perf_counter()
        taken = await asyncio.gather(*(completion(client, url, model, text) for text in texts))
        seconds = time.perf_counter() - begin
    assert is_random or all(one.tokens > 10 for one in taken), taken
    failed = sum(not one.tokens for one in taken)
    if failed:  # llama.cpp leaves out tokens that are no characters, which random weights sample
        print(f"{failed} of {len(taken)} streams of {url} ended in an error", file=sys.stderr)
    tokens = sum(one.tokens for one in taken)
    return statistics.median(one.first for one in taken), tokens / seconds, tokens // len(texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kind", choices=("gguf", "mlx"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--random", action="store_true", help="262 million random weights")
    arguments = parser.parse_args()
    found: dict[tuple[str, int], list[tuple[float, float, int]]] = {}
    with ExitStack() as opened:
        urls = {}
        folder = demo_model_folder()
        if arguments.random:
            written = Path(opened.enter_context(tempfile.TemporaryDirectory()))
            folder = random_model(written / "random-model")
        for program in programs(arguments.kind, folder):
            if program.command is None:
                state = Path(opened.enter_context(tempfile.TemporaryDirectory()))
                options = ("--served-model-name", "demo", "--port", "0")
                server = opened.enter_context(
                    server_process(
                        state, demo_model_folder().parents[1], *program.arguments, *options
                    )
                )
                urls[program] = server.url.removesuffix("/v1")
            else:
                port = free_port()
                urls[program] = f"http://127.0.0.1:{port}"
                opened.enter_context(started(program.command(port), {}, urls[program]))
        for turn in range(arguments.rounds + 1):
            for streams in STREAMS:
                # The streams of a round have other numbers than its one stream.
                texts = [prompt(turn, stream + streams) for stream in range(streams)]
                for program, url in urls.items():
                    measuring = measure(url, program.model, texts, is_random=arguments.random)
                    result = asyncio.run(measuring)
                    if turn:  # the first warms up
                        found.setdefault((program.name, streams), []).append(result)
    print("| Program | Streams | Tokens of each | First token, ms | Tokens a second |")
    print("|---|--:|--:|--:|--:|")
    for (name, streams), results in sorted(found.items(), key=lambda item: item[0][1]):
        first = statistics.median(result[0] for result in results)
        rate = statistics.median(result[1] for result in results)
        print(f"| {name} | {streams} | {results[0][2]} | {1000 * first:.0f} | {rate:.0f} |")


if __name__ == "__main__":
    main()
