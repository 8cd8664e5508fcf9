"""Images and other files that the model cannot read: refused, or a note and a header."""

from __future__ import annotations

from typing import Any

import pytest

from support.chat_server import FINAL
from support.responses_server import serving
from support.scripted_engine import ScriptedEngine

URL = "data:image/png;base64,aGk="
TEXT = {"type": "text", "text": "What is this?"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}

SENT: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "chat image": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [TEXT, {"type": "image_url",
                                                          "image_url": {"url": URL}}]}]},
        "messages[0].content[1]",
        "image",
    ),
    "chat audio": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "input_audio",
                                                    "input_audio": {"data": "aGk="}}]}]},
        "messages[0].content[0]",
        "audio",
    ),
    "responses image": (
        "/v1/responses",
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": URL}]}]},
        "input[0].content[0]",
        "image",
    ),
    "responses file": (
        "/v1/responses",
        {"input": [{"role": "user", "content": [{"type": "input_file",
                                                 "file_url": "https://example.com/a"}]}]},
        "input[0].content[0]",
        "file",
    ),
    "messages image": (
        "/v1/messages",
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {
            "type": "base64", "media_type": "image/png", "data": "aGk="}}]}]},
        "messages[0].content[0]",
        "image",
    ),
    "messages document": (
        "/v1/messages",
        {"messages": [{"role": "user", "content": [{"type": "document", "source": {
            "type": "url", "url": "https://example.com/a"}}]}]},
        "messages[0].content[0]",
        "file",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SENT)
def test_they_are_refused(case: str) -> None:
    path, body, place, kind = SENT[case]
    with serving(FINAL) as client:
        answer = client.post(path, json=body)
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert f"cannot see the {kind}; leave it out" in message
    assert "--attachments note" in message
    assert place in (message.partition(":")[0], answer.json()["error"].get("param"))


@pytest.mark.parametrize("case", SENT)
def test_a_note_and_a_header(case: str) -> None:
    path, body, place, kind = SENT[case]
    engine = ScriptedEngine(FINAL)
    with serving(engine=engine, attachments="note") as client:
        answer = client.post(path, json=body)
    assert answer.status_code == 200
    assert f"[{kind}: not shown, this model reads text only]" in engine.prompts[0]
    named = answer.headers["harmony-ignored"]
    assert named.startswith(place.replace("[0]", "[]").replace("[1]", "[]") + ".")


RESULTS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1",
         "content": [{"type": "image_url", "image_url": {"url": URL}}]},
    ]}),
    ("/v1/responses", {"input": [
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "call_1", "name": "now", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1",
         "output": [{"type": "input_image", "image_url": URL}]},
    ]}),
    ("/v1/messages", {"messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant",
         "content": [{"type": "tool_use", "id": "call_1", "name": "now", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "call_1",
             "content": [{"type": "image", "source": {"type": "url", "url": URL}}]},
        ]},
    ]}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body"), RESULTS, ids=[path for path, _ in RESULTS])
def test_results_of_tools_have_a_note(path: str, body: dict[str, Any]) -> None:
    engine = ScriptedEngine(FINAL)
    with serving(engine=engine) as client:
        answer = client.post(path, json=body)
    assert answer.status_code == 200
    assert "[image: not shown" in engine.prompts[0]
    assert answer.headers["harmony-ignored"]
