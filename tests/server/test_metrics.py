"""Health, models and metrics."""

from __future__ import annotations

import json

import pytest
from fastapi.testclient import TestClient
from openai.types import Model

from gpt_oss_harmony.engines import Health
from gpt_oss_harmony.server import create_app
from gpt_oss_harmony.server.metrics import NAMES, Metrics
from support.chat_server import CALL, FINAL, HI, NOW, THINK, TellingEngine, chat, chunks
from support.local_client import LocalClient
from support.responses_server import serving
from support.scripted_engine import ENCODING, ScriptedEngine


def metrics(client: TestClient) -> dict[str, float]:
    """All numbers that are not 0, by their names with labels."""
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    found = dict(line.rsplit(" ", 1) for line in lines)
    return {name: float(value) for name, value in found.items() if float(value)}


def count(text: str) -> int:
    return len(ENCODING.encode(text, allowed_special="all"))


def test_the_size_of_the_database_is_known_from_the_start() -> None:
    with serving(FINAL) as client:
        assert metrics(client)["harmony_database_bytes"] >= 4096


def test_completions_are_counted() -> None:
    engine = TellingEngine(THINK + FINAL, CALL.replace("<|message|>", " "), FINAL, "!")
    with serving(engine=engine) as client:
        chat(client)
        chunks(client, tools=[NOW])
        chat(client, max_tokens=5)
        client.post("/v1/chat/completions", json={"messages": HI})
        found = metrics(client)
    assert found['harmony_completions_total{reason="stop"}'] == 2
    assert found['harmony_completions_total{reason="length"}'] == 1
    assert found['harmony_completions_total{reason="error"}'] == 1
    assert found["harmony_completion_tokens_total"] == count(THINK + FINAL) + 5 + count(
        CALL.replace("<|message|>", " ")
    )
    prompts = [count(prompt) for prompt in engine.prompts[:3]]
    assert found["harmony_prompt_tokens_total"] == sum(prompts)
    assert found["harmony_cached_tokens_total"] == sum(length // 2 for length in prompts)
    assert found["harmony_reasoning_tokens_total"] == count(THINK) - count("<|start|>assistant")
    assert found['harmony_recoveries_total{kind="missing-message"}'] == 1
    assert found["harmony_time_to_first_token_seconds_count"] == 3
    assert found["harmony_time_per_output_token_seconds_count"] == 3
    assert found["harmony_queue_seconds_count"] == 4
    assert found["harmony_prefill_seconds_count"] == found["harmony_decode_seconds_count"] == 3
    assert found["harmony_preparation_seconds_count"] == 4
    assert "harmony_running" not in found
    assert "harmony_waiting" not in found


def test_requests_are_counted_by_route_and_status() -> None:
    with serving(FINAL) as client:
        chat(client)
        client.post("/v1/chat/completions", json={})
        client.get("/v1/models/a")
        client.get("/v1/models/b")
        client.get("/a/place/that/is/not")
        client.request("BREW", "/health")
        found = metrics(client)
    requests = {name: value for name, value in found.items() if "harmony_requests_total" in name}
    assert requests == {
        _request("POST", "/v1/chat/completions", 200): 1,
        _request("POST", "/v1/chat/completions", 400): 1,
        _request("GET", "/v1/models/{name:path}", 404): 2,
        _request("GET", "other", 404): 1,
        _request("other", "/health", 405): 1,
    }


def _request(method: str, route: str, status: int) -> str:
    labels = f'method="{method}",route="{route}",status="{status}"'
    return f"harmony_requests_total{{{labels}}}"


def test_each_application_has_its_own_numbers() -> None:
    for _ in range(2):
        with serving(FINAL) as client:
            chat(client)
            assert metrics(client)['harmony_completions_total{reason="stop"}'] == 1


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_health_tells_whether_the_engine_answers(path: str) -> None:
    class Ill(ScriptedEngine):
        async def health(self) -> Health:
            return Health(False, detail="the model has stopped")

    with serving() as client:
        assert client.get(path).json() == {
            "status": "ok",
            "model": "script",
            "running": 0,
            "waiting": 0,
        }
    with serving(engine=Ill()) as client:
        answer = client.get(path)
    assert answer.status_code == 503
    assert "the model has stopped" in answer.json()["error"]["message"]


def test_a_server_that_shuts_down_is_alive_but_not_ready() -> None:
    app = create_app(ScriptedEngine())
    with LocalClient(app) as client:
        assert client.portal is not None
        client.portal.call(app.state.services.shut_down)
        assert client.get("/health").status_code == 200
        answer = client.get("/ready")
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "server_shutting_down"
        asked = client.post("/v1/chat/completions", json={"messages": HI})
        assert asked.status_code == 503


def test_models_are_listed_by_all_their_names() -> None:
    with serving(model_names=("openai/gpt-oss-20b", "small")) as client:
        listed = client.get("/v1/models").json()
        assert [Model.model_validate(model).id for model in listed["data"]] == [
            "openai/gpt-oss-20b",
            "small",
        ]
        one = client.get("/v1/models/openai/gpt-oss-20b").json()
        assert one == listed["data"][0]
        assert one["max_model_len"] == 1000
        missing = client.get("/v1/models/gpt-5")
    assert missing.status_code == 404
    assert "use openai/gpt-oss-20b or small" in missing.json()["error"]["message"]


def test_transformers_chat_hears_that_the_model_is_loaded() -> None:
    """Its client reads lines until one has the status `ready`."""
    with serving(model_names=("openai/gpt-oss-20b",)) as client:
        loaded = client.post("/load_model", json={"model": "openai/gpt-oss-20b"})
        assert loaded.headers["content-type"].startswith("text/event-stream")
        line, *empty = loaded.text.splitlines()
        assert json.loads(line.removeprefix("data: ")) == {
            "status": "ready",
            "model": "openai/gpt-oss-20b",
            "cached": True,
        }
        assert not any(empty)
        assert client.post("/load_model", json={"model": "gpt-5"}).status_code == 404
        assert client.post("/load_model", json={}).status_code == 400


def test_models_need_a_key_and_health_does_not() -> None:
    with serving(api_keys=("secret",)) as client:
        assert client.get("/v1/models").status_code == 401
        for path in ("/health", "/ready", "/metrics"):
            assert client.get(path).status_code == 200


def test_the_names_of_vllm() -> None:
    with serving(THINK + FINAL, vllm_metrics=True, model_names=("oss",)) as client:
        chat(client, model="oss")
        found = metrics(client)
    same = {
        "vllm:prompt_tokens_total": "harmony_prompt_tokens_total",
        "vllm:generation_tokens_total": "harmony_completion_tokens_total",
        "vllm:time_to_first_token_seconds_count": "harmony_time_to_first_token_seconds_count",
        "vllm:time_to_first_token_seconds_sum": "harmony_time_to_first_token_seconds_sum",
        "vllm:e2e_request_latency_seconds_count": "harmony_completion_seconds_count",
        "vllm:request_prompt_tokens_sum": "harmony_completion_prompt_tokens_sum",
    }
    for name, own in same.items():
        assert found[f'{name}{{model_name="oss"}}'] == found[own], name
    assert found['vllm:request_success_total{finished_reason="stop",model_name="oss"}'] == 1
    bucket = 'vllm:time_to_first_token_seconds_bucket{le="+Inf",model_name="oss"}'
    assert found[bucket] == 1
    names = {name for names in NAMES.values() for name in names}
    with serving(FINAL) as client:
        assert "vllm:" not in client.get("/metrics").text
    assert len(names) == sum(map(len, NAMES.values()))


# What the panels of vLLM's own dashboard ask for (examples, prometheus_grafana/grafana.json).
VLLM_DASHBOARD = """
e2e_request_latency_seconds_bucket e2e_request_latency_seconds_count generation_tokens_total
e2e_request_latency_seconds_sum num_requests_running num_requests_waiting prompt_tokens_total
request_decode_time_seconds_sum request_generation_tokens_bucket request_prefill_time_seconds_sum
request_max_num_generation_tokens_sum request_prompt_tokens_bucket request_queue_time_seconds_sum
request_success_total time_per_output_token_seconds_bucket time_per_output_token_seconds_count
time_per_output_token_seconds_sum time_to_first_token_seconds_bucket
time_to_first_token_seconds_count time_to_first_token_seconds_sum gpu_cache_usage_perc
"""


def test_the_dashboard_of_vllm_finds_its_metrics() -> None:
    with serving(THINK + FINAL, vllm_metrics=True) as client:
        chat(client)
        lines = client.get("/metrics").text.splitlines()
    served = {line.partition("{")[0] for line in lines if 'model_name="script"' in line}
    missing = {name for name in VLLM_DASHBOARD.split() if f"vllm:{name}" not in served}
    assert missing == {"gpu_cache_usage_perc"}  # only the engine knows it


def test_each_name_of_vllm_is_one_of_a_metric() -> None:
    families = {family.name for family in Metrics()._registry.collect()}
    assert NAMES.keys() <= families
