"""What clients read about an engine that fails: the cause, but no address of its server."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator

import pytest

from gpt_oss_harmony.engines import EngineError, Health, SampledToken, Sampling
from support.responses_server import serving
from support.scripted_engine import ScriptedEngine

PROBLEM = "cannot connect to http://10.0.0.7:8000/v1/x: refused by ('10.0.0.7', 8000)"
HIDDEN = "cannot connect to its server: refused by its server"


class GoneEngine(ScriptedEngine):
    """An engine whose server is gone."""

    def __init__(self, *, retryable: bool) -> None:
        super().__init__()
        self.retryable = retryable

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        raise EngineError(PROBLEM, retryable=self.retryable)
        yield SampledToken(0)

    async def health(self) -> Health:
        return Health(False, 0, PROBLEM)


@pytest.mark.parametrize(("retryable", "status"), [(True, 503), (False, 500)])
def test_the_address_is_only_in_the_log(
    retryable: bool, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    request = {"model": "script", "messages": [{"role": "user", "content": "Hi"}]}
    with (
        caplog.at_level(logging.WARNING),
        serving(engine=GoneEngine(retryable=retryable)) as client,
    ):
        answer = client.post("/v1/chat/completions", json=request)
        ready = client.get("/ready")
    assert (answer.status_code, answer.json()["error"]["message"]) == (status, HIDDEN)
    assert ready.status_code == 503
    assert ready.json()["error"]["message"] == f"the engine is not ready: {HIDDEN}"
    assert PROBLEM in caplog.text
