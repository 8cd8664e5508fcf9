"""A turn that costs nothing to sample, served by ours or by the responses_api of gpt-oss.

``python serving_script.py ours PORT [WORKERS [DATABASE]]`` runs in our environment, ``... gpt-oss
PORT`` in one with the package gpt-oss. Both get the same tokens from a list, so that what is left
is the server. ``... bare PORT`` is a Starlette application that does nothing but stream the events
of such a response, ready-made: what is left is Starlette, uvicorn and the socket.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import AsyncGenerator
from typing import Any

try:
    from gpt_oss_harmony import HarmonyEncodingName, load_harmony_encoding
except ModuleNotFoundError:  # in the environment of gpt-oss, which has the reference
    from openai_harmony import HarmonyEncodingName, load_harmony_encoding

WORDS = int(os.environ.get("HARMONY_SCRIPT_WORDS", "512"))
TEXT = "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>"
RETURN = 200002


def script() -> list[int]:
    """The tokens of a turn with an answer of many words."""
    encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    words = " ".join(itertools.islice(itertools.cycle(("sun", "moon", "star", "sea")), WORDS))
    return [*encoding.encode(TEXT + words, allowed_special="all"), RETURN]


def serve_ours(port: int, database: str | None = None) -> None:
    """Run our server over an engine that reads the script."""
    import asyncio
    import signal
    import socket

    from gpt_oss_harmony.server import Settings, create_app, run_server

    engine, settings = script_engine(script()), Settings(max_running=64, database=database)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with socket.create_server(("127.0.0.1", port), backlog=2048) as listener:
        asyncio.run(run_server(create_app(engine, settings), settings, listener))


def script_engine(tokens: list[int], pause: float = 0) -> Any:
    """Make an engine that samples these tokens, and waits some seconds before each."""
    import asyncio

    from gpt_oss_harmony.engines import Engine, FinishReason, Health, SampledToken, Sampling

    class Script(Engine):
        model = "script"
        context_length = 100_000

        async def _generate(
            self, prompt: list[int], sampling: Sampling, max_tokens: int
        ) -> AsyncGenerator[SampledToken, None]:
            for token in tokens:
                await asyncio.sleep(pause)  # engines wait for each token; others go on meanwhile
                reason = FinishReason.STOP if token == RETURN else None
                yield SampledToken(token, finish_reason=reason)

        async def health(self) -> Health:
            return Health(True)

        async def close(self) -> None:
            pass

    return Script()


def serve_bare(port: int) -> None:
    """Stream ready-made events, one for each token."""
    import asyncio
    import json

    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, StreamingResponse
    from starlette.routing import Route

    name = "response.output_text.delta"
    place = {"item_id": f"msg_{'0' * 48}", "output_index": 1, "content_index": 0}
    events = []
    for number in range(len(script())):
        fields = {"sequence_number": number, **place, "delta": " moon", "logprobs": []}
        data = json.dumps({"type": name, **fields}, separators=(",", ":"))
        events.append(f"event: {name}\ndata: {data}\n\n".encode())

    async def stream() -> AsyncGenerator[bytes, None]:
        for event in events:
            await asyncio.sleep(0)
            yield event

    async def respond(_: Any) -> Any:
        return StreamingResponse(stream(), media_type="text/event-stream")

    async def document(_: Any) -> Any:
        return JSONResponse({})

    routes = [Route("/v1/responses", respond, methods=["POST"]), Route("/openapi.json", document)]
    uvicorn.run(Starlette(routes=routes), port=port, log_level="warning", backlog=2048)


def serve_gpt_oss(port: int) -> None:
    """Run the responses_api over a function that reads the script."""
    import uvicorn
    from gpt_oss.responses_api.api_server import (  # type: ignore[import-not-found]
        create_api_server,
    )

    tokens = script()
    ends: dict[int, int] = {}

    def infer_next_token(
        context: list[int], temperature: float = 0.0, new_request: bool = False
    ) -> int:
        # It hands over the whole context each time: what comes after the prompt was sampled.
        if new_request:
            ends[id(context)] = len(context)
        return tokens[len(context) - ends.get(id(context), len(context))]

    encoding: Any = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    uvicorn.run(create_api_server(infer_next_token, encoding), port=port, log_level="warning")


if __name__ == "__main__":
    if sys.argv[1] == "ours":
        serve_ours(int(sys.argv[2]), *sys.argv[3:])
    else:
        {"bare": serve_bare, "gpt-oss": serve_gpt_oss}[sys.argv[1]](int(sys.argv[2]))
