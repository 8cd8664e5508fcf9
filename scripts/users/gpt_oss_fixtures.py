"""The fixtures of gpt-oss's tests of its server, which its source distribution lacks."""

from __future__ import annotations

import importlib
import time
from typing import Any

import pytest

COMPLETION = (
    "<|channel|>analysis<|message|>A greeting.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Hello!<|return|>"
)


class Timer:
    def start(self) -> None:
        self.started = time.perf_counter()

    def stop(self) -> float:
        return time.perf_counter() - self.started


@pytest.fixture
def performance_timer() -> Timer:
    return Timer()


@pytest.fixture
def sample_request_data() -> dict[str, Any]:
    return {"model": "gpt-oss-120b", "input": "Hello, how are you today?", "stream": False}


@pytest.fixture
def api_client() -> Any:
    """Return a client of the server, over a model that always gives one completion."""
    from fastapi.testclient import TestClient

    from gpt_oss_harmony import HarmonyEncodingName, load_harmony_encoding

    server = importlib.import_module("gpt_oss.responses_api.api_server")
    encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    completion = encoding.encode(COMPLETION, allowed_special="all")
    position = -1

    def next_token(tokens: list[int], temperature: float = 0.0, new_request: bool = False) -> int:
        nonlocal position
        position = 0 if new_request else (position + 1) % len(completion)
        return completion[position]

    return TestClient(server.create_api_server(infer_next_token=next_token, encoding=encoding))
