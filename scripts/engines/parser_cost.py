"""Time vLLM's parser per token, with 64 streams at once; run by the Python of vLLM's environment.

    parser_cost.py ROUNDS < TOKENS

Reads the tokens of a turn as a JSON array, and writes one line of JSON: the processor time in
microseconds per token, by what is called. With the plugin in the environment it is the plugin's
parser.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeAlias

from vllm.entrypoints.openai.chat_completion.protocol import (  # type: ignore[import-not-found]
    ChatCompletionRequest,
)
from vllm.parser.parser_manager import ParserManager  # type: ignore[import-not-found]
from vllm.plugins import load_general_plugins  # type: ignore[import-not-found]

STREAMS = 64

REQUEST = ChatCompletionRequest(
    messages=[{"role": "user", "content": "x"}],
    tools=[{"type": "function", "function": {"name": "get_weather", "parameters": {}}}],
)

Parsers: TypeAlias = list[Any]


def chat_streamed(parsers: Parsers, tokens: list[int]) -> None:
    last = len(tokens) - 1
    for index, token in enumerate(tokens):
        for parser in parsers:
            parser.parse_delta("", [token], REQUEST, finished=index == last)


def responses_streamed(parsers: Parsers, tokens: list[int]) -> None:
    for token in tokens:
        for parser in parsers:
            parser.process_chunk([token])
    for parser in parsers:
        parser.flush()


def chat_whole(parsers: Parsers, tokens: list[int]) -> None:
    for parser in parsers:
        parser.parse("", REQUEST, True, tokens)


CALLS: dict[str, Callable[[Parsers, list[int]], None]] = {
    "Chat Completions, streamed": chat_streamed,
    "Responses": responses_streamed,
    "Chat Completions": chat_whole,
}


def main() -> None:
    load_general_plugins()
    parser_class = ParserManager.get_parser(
        tool_parser_name="openai",
        reasoning_parser_name="openai_gptoss",
        enable_auto_tools=True,
        is_harmony=True,
    )
    tokens = json.load(sys.stdin)
    costs = dict.fromkeys(CALLS, float("inf"))
    for _ in range(1 + int(sys.argv[1])):  # the first one fills the caches, and is never the best
        for name, call in CALLS.items():
            parsers = [parser_class(SimpleNamespace(), REQUEST.tools) for _ in range(STREAMS)]
            start = time.process_time()
            call(parsers, tokens)
            seconds = time.process_time() - start
            costs[name] = min(costs[name], seconds * 1e6 / STREAMS / len(tokens))
    print(json.dumps(costs))


if __name__ == "__main__":
    main()
