"""Threads of the Messages API, and the tools that its SDKs run in a loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic import beta_tool
from fastapi.testclient import TestClient

from gpt_oss_harmony.server import Settings, create_app
from support.chat_server import FINAL, THINK
from support.local_client import LocalClient
from support.responses_server import serving
from support.scripted_engine import ScriptedEngine
from support.served import serving as serving_socket

CALL = '<|channel|>commentary to=functions.now <|constrain|>json<|message|>{"zone":"UTC"}<|call|>'
NOW = {
    "name": "now",
    "input_schema": {"type": "object", "properties": {"zone": {"type": "string"}}},
}
HI: Any = {"role": "user", "content": "What time is it?"}
ASK: dict[str, Any] = {"model": "script", "max_tokens": 200}


def post(client: TestClient, **body: Any) -> dict[str, Any]:
    answer = client.post("/v1/messages", json={**ASK, **body})
    assert answer.status_code == 200, answer.text
    message: dict[str, Any] = answer.json()
    return message


def result_of(message: dict[str, Any]) -> dict[str, Any]:
    (use,) = [block for block in message["content"] if block["type"] == "tool_use"]
    block = {"type": "tool_result", "tool_use_id": use["id"], "content": "Noon."}
    return {"role": "user", "content": [block]}


def after(id: str) -> dict[str, Any]:
    return {"type": "continue", "previous_message_id": id}


def test_a_thread_has_the_prompt_of_all_messages() -> None:
    engine = ScriptedEngine(*[THINK + CALL, FINAL] * 2)
    opening = {"system": "Be brief.", "tools": [NOW]}
    with serving(engine=engine) as client:
        called = post(client, messages=[HI], **opening, thread={"type": "create"})
        result = result_of(called)
        post(client, messages=[result], thread=after(called["id"]))
        again = post(client, messages=[HI], **opening)
        said = {"role": "assistant", "content": again["content"]}
        post(client, messages=[HI, said, result_of(again)], **opening)
    assert engine.prompts[1] == engine.prompts[3]
    assert "Hm, hm." in engine.prompts[1]


def test_a_thread_is_continued_once_and_by_its_owner() -> None:
    keys = ("one", "two")
    engine = ScriptedEngine(*[FINAL] * 9)
    with serving(engine=engine, api_keys=keys) as client:

        def ask(key: str, thread: dict[str, Any]) -> Any:
            headers = {"x-api-key": key}
            body = {**ASK, "messages": [HI], "thread": thread}
            return client.post("/v1/messages", json=body, headers=headers)

        first = ask("one", {"type": "create"}).json()["id"]
        assert_lost(ask("two", after(first)))
        second = ask("one", after(first))
        assert second.status_code == 200
        assert_lost(ask("one", after(first)))
        assert ask("one", after(second.json()["id"])).status_code == 200


def assert_lost(answer: Any) -> None:
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["type"] == "not_found_error"
    assert error["details"] == {"error_code": "thread_not_found"}


def test_threads_expire_and_are_counted() -> None:
    with serving(FINAL, keep_days=0) as client:
        id = post(client, messages=[HI], thread={"type": "create"})["id"]
        answer = client.post("/v1/messages", json={**ASK, "messages": [HI], "thread": after(id)})
        assert_lost(answer)
    with serving(FINAL) as client:
        post(client, messages=[HI], thread={"type": "create"})
        assert client.get("/v1/usage").json()["stored"]["message_threads"] > 0


def test_another_server_continues_it(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'harmony.db'}")
    with LocalClient(create_app(ScriptedEngine(FINAL), settings)) as client:
        id = post(client, messages=[HI], thread={"type": "create"})["id"]
    engine = ScriptedEngine(FINAL)
    with LocalClient(create_app(engine, settings)) as client:
        post(client, messages=[{"role": "user", "content": "And now?"}], thread=after(id))
    assert "What time is it?" in engine.prompts[0]
    assert "Hello 🏰 there." in engine.prompts[0]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"thread": {"type": "continue"}}, "thread.previous_message_id"),
    ({"thread": {"type": "create", "previous_message_id": "msg_1"}}, "thread.previous_message_id"),
    ({"thread": {"type": "other"}}, "thread.type"),
]


@pytest.mark.parametrize(("fields", "place"), WRONG)
def test_wrong_threads(fields: dict[str, Any], place: str) -> None:
    with serving(FINAL) as client:
        answer = client.post("/v1/messages", json={**ASK, "messages": [HI], **fields})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(place)


def test_a_thread_keeps_its_system_and_tools() -> None:
    with serving(FINAL) as client:
        id = post(client, messages=[HI], system="Be brief.", thread={"type": "create"})["id"]
        body = {**ASK, "messages": [HI], "system": "Be long.", "thread": after(id)}
        answer = client.post("/v1/messages", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("system: the thread was created")


@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_tool_runner(*, is_streamed: bool) -> None:
    zones = []

    @beta_tool
    def now(zone: str) -> str:
        """Tell the time in a time zone."""
        zones.append(zone)
        return "Noon."

    engine = ScriptedEngine(THINK + CALL, CALL, FINAL)
    with serving_socket(engine, Settings()) as url:
        client = anthropic.Anthropic(
            base_url=url.removesuffix("/v1"), api_key="none", max_retries=0
        )
        hi: Any = HI
        runner: Any = client.beta.messages.tool_runner(
            model="script", max_tokens=200, tools=[now], messages=[hi], stream=is_streamed
        )
        last = runner.until_done()
        client.close()
    assert last.content[-1].text == "Hello 🏰 there."
    assert zones == ["UTC", "UTC"]
    assert engine.prompts[2].count("<|message|>Noon.<|end|>") == 2


CLIENT_TOOLS = {
    "bash_20250124": ("bash", "restart?: boolean"),
    "text_editor_20250124": ("str_replace_editor", '"undo_edit"'),
    "text_editor_20250728": ("str_replace_based_edit_tool", "insert_text?: string"),
    "memory_20250818": ("memory", '"rename"'),
}


@pytest.mark.parametrize("kind", CLIENT_TOOLS)
def test_tools_of_the_client_are_functions(kind: str) -> None:
    name, part = CLIENT_TOOLS[kind]
    arguments = '{"command":"view","path":"/memories"}'
    call = (
        f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>"
    )
    engine = ScriptedEngine(call)
    with serving(engine=engine) as client:
        message = post(client, messages=[HI], tools=[{"type": kind, "name": name}])
        body = {**ASK, "messages": [HI], "tools": [{"type": kind, "name": "other"}]}
        wrong = client.post("/v1/messages", json=body)
    assert message["content"][-1]["name"] == name
    assert message["content"][-1]["input"] == {"command": "view", "path": "/memories"}
    assert part in engine.prompts[0]
    assert wrong.status_code == 400
    assert wrong.json()["error"]["message"].startswith(f"tools[0].name: expected '{name}'")


def test_commands_of_the_memory_are_those_of_the_sdk() -> None:
    from typing import get_args

    from anthropic.types.beta import BetaMemoryTool20250818Command

    from gpt_oss_harmony.apis.client_tools import MESSAGES_TOOLS

    parameters = MESSAGES_TOOLS["memory_20250818"].parameters or {}
    models = get_args(get_args(BetaMemoryTool20250818Command)[0])
    commands = {get_args(model.model_fields["command"].annotation)[0] for model in models}
    fields = {name for model in models for name in model.model_fields}
    assert commands == set(parameters["properties"]["command"]["enum"])
    assert fields == parameters["properties"].keys()


def test_files_of_the_sdk() -> None:
    engine = ScriptedEngine(FINAL)
    with serving_socket(engine, Settings()) as url:
        client = anthropic.Anthropic(
            base_url=url.removesuffix("/v1"), api_key="none", max_retries=0
        )
        made = client.beta.files.upload(file=("notes.txt", b"Buy milk.", "text/plain"))
        assert (made.filename, made.mime_type, made.size_bytes) == ("notes.txt", "text/plain", 9)
        other = client.beta.files.upload(file=("b.txt", b"b"))
        assert client.beta.files.retrieve_metadata(made.id) == made
        assert [file.id for file in client.beta.files.list(limit=1)] == [other.id, made.id]
        assert client.beta.files.download(made.id).read() == b"Buy milk."
        document: Any = {"type": "document", "source": {"type": "file", "file_id": made.id}}
        client.beta.messages.create(**ASK, messages=[{"role": "user", "content": [document]}])
        assert client.beta.files.delete(made.id).type == "file_deleted"
        client.close()
    assert "[file: notes.txt]\nBuy milk." in engine.prompts[0]
