"""Fields that an API does not have: those of the other APIs, and those that nobody has."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest

from support.chat_server import FINAL, HI
from support.responses_server import serving

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"messages": HI},
    "responses": {"input": "hi"},
    "messages": {"messages": HI},
}

MISPLACED: list[tuple[str, dict[str, Any], str]] = [
    ("responses", {"response_format": {"type": "json_object"}}, "send text.format"),
    ("responses", {"n": 2}, "send a request for each answer"),
    ("responses", {"max_completion_tokens": 9}, "send max_output_tokens"),
    ("responses", {"logprobs": True}, "send top_logprobs"),
    ("responses", {"stop_sequences": ["."]}, "send stop"),
    ("responses", {"system": "Be brief."}, "send instructions"),
    ("chat", {"text": {"format": {"type": "json_object"}}}, "send response_format"),
    ("chat", {"max_output_tokens": 9}, "send max_completion_tokens"),
    ("chat", {"input": "hi"}, "send messages"),
    ("chat", {"instructions": "Be brief."}, "send a message of the role developer"),
    ("chat", {"stop_sequences": ["."]}, "send stop"),
    ("messages", {"stop": "."}, "send stop_sequences"),
    ("messages", {"max_completion_tokens": 9}, "send max_tokens"),
    ("messages", {"response_format": {"type": "json_object"}}, "send output_config.format"),
]


@pytest.mark.parametrize(
    ("api", "fields", "remedy"),
    MISPLACED,
    ids=[f"{api} {next(iter(fields))}" for api, fields, _ in MISPLACED],
)
def test_fields_of_another_api(api: str, fields: dict[str, Any], remedy: str) -> None:
    with serving() as client:
        answer = client.post(PATHS[api], json={**BODIES[api], **fields})
    assert answer.status_code == 400
    error = answer.json()["error"]
    (field,) = fields
    assert error["message"].startswith(f"{field}: this API has no such field; {remedy}")
    if api != "messages":
        assert error["param"] == field


@pytest.mark.parametrize("api", PATHS)
def test_values_that_mean_nothing_pass(api: str) -> None:
    nothing: dict[str, Any] = {
        "n": 1,
        "stop_sequences": None,
        "logprobs": False,
        "text": {},
        "input": "",
    }
    with serving(FINAL) as client:
        body = {**BODIES[api], **{k: v for k, v in nothing.items() if k not in BODIES[api]}}
        answer = client.post(PATHS[api], json=body)
    assert answer.status_code == 200, answer.text


SENT: dict[str, Any] = {"temprature": 0, "a b": 1, "nothing": None}


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_unknown_fields_are_listed(
    api: str, caplog: pytest.LogCaptureFixture, *, is_streamed: bool
) -> None:
    caplog.set_level(logging.WARNING)
    body = {**BODIES[api], **SENT, "stream": is_streamed}
    with serving(*[FINAL] * 3) as client:
        answers = [client.post(PATHS[api], json=body) for _ in range(2)]
        plain = client.post(PATHS[api], json=BODIES[api])
        metrics = client.get("/metrics").text
    assert [answer.headers["harmony-ignored"] for answer in answers] == ["temprature, a%20b"] * 2
    assert "harmony-ignored" not in plain.headers
    assert 'harmony_ignored_fields_total{field="temprature"} 2.0' in metrics
    logged = [record for record in caplog.records if "unknown field" in record.message]
    assert len(logged) == len({"temprature", "a b"})


def test_fields_within_settings() -> None:
    body = {"input": "hi", "reasoning": {"effrot": "low"}, "text": {"verbsity": "low"}}
    with serving(FINAL) as client:
        answer = client.post(PATHS["responses"], json=body)
    assert answer.headers["harmony-ignored"] == "reasoning.effrot, text.verbsity"


def test_any_name_fits_into_a_header() -> None:
    with serving(FINAL) as client:
        answer = client.post(PATHS["chat"], json={**BODIES["chat"], "é\r\n": 1, "": 1})
    assert answer.headers["harmony-ignored"] == '%C3%A9%0D%0A, ""'


def test_names_are_bounded() -> None:
    many = {f"{'x' * 99}{index}": 1 for index in range(300)}
    with serving(*[FINAL] * 15) as client:
        answer = client.post(PATHS["chat"], json={**BODIES["chat"], **many})
        for start in range(0, 300, 20):
            some = {f"y{index}": 1 for index in range(start, start + 20)}
            client.post(PATHS["chat"], json={**BODIES["chat"], **some})
        metrics = client.get("/metrics").text
    assert len(answer.headers["harmony-ignored"]) < 2000
    assert metrics.count("harmony_ignored_fields_total{") <= 101
    assert 'harmony_ignored_fields_total{field="other"}' in metrics


def test_they_can_be_refused() -> None:
    with serving(FINAL, unknown_fields="refuse") as client:
        wrong = client.post(PATHS["chat"], json={**BODIES["chat"], **SENT})
        right = client.post(PATHS["chat"], json=BODIES["chat"])
    assert wrong.status_code == 400
    assert wrong.json()["error"] == {
        "message": "temprature: there is no such field; did you mean temperature?",
        "type": "invalid_request_error",
        "param": "temprature",
        "code": "unknown_parameter",
    }
    assert right.status_code == 200


FILE_PARTS: dict[str, Any] = {
    "chat": {"type": "file", "file": {}},
    "responses": {"type": "input_file"},
    "messages": {"type": "document", "source": {"type": "file"}},
}


@pytest.mark.parametrize("api", PATHS)
def test_the_id_of_a_file_is_read(api: str) -> None:
    with serving(FINAL, unknown_fields="refuse") as client:
        sent = {"file": ("a.txt", b"hello")}
        file = client.post("/v1/files", files=sent, data={"purpose": "user_data"}).json()
        part = copy.deepcopy(FILE_PARTS[api])
        part.get("file", part.get("source", part))["file_id"] = file["id"]
        messages = [{"role": "user", "content": [part]}]
        body = {next(iter(BODIES[api])): messages}
        answer = client.post(PATHS[api], json=body)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("path", ["/load_model", "/api/show"])
def test_of_what_names_a_model(path: str) -> None:
    with serving() as client:
        name = client.get("/v1/models").json()["data"][0]["id"]
        answer = client.post(path, json={"model": name, "temprature": 0})
    assert answer.headers["harmony-ignored"] == "temprature"


def test_over_a_websocket() -> None:
    with (
        serving(unknown_fields="refuse") as client,
        client.websocket_connect(PATHS["responses"]) as socket,
    ):
        event = {"type": "response.create", "generate": True, "input": "hi", "temprature": 0}
        socket.send_json(event)
        error = socket.receive_json()["error"]
    assert error["code"] == "unknown_parameter"
