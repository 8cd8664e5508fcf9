"""Open WebUI's own server in front of ours: models, chats, its tools, and the stop button.

The requests are those that its page sends. The model is a script; each of its completions must be
one that the grammar of its turn allows.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest

from gpt_oss_harmony.server import Settings
from support.agent_sessions import THOUGHT, check_script, use
from support.served import PROGRAM_PATIENCE, serving
from support.server_tools import RoomyEngine, answer

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv-open-webui"
MODEL = "gpt-oss"
QUESTION = "What time is it?"
CLOCK = '''
class Tools:
    def now(self) -> str:
        """Tells the time."""
        return "noon"
'''

T = TypeVar("T")


@pytest.fixture(scope="module")
def engine() -> RoomyEngine:
    return RoomyEngine(room=100_000)


@pytest.fixture(scope="module")
def page(engine: RoomyEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """Its server, with the key of its only user."""
    if not (FOLDER / ".installed").exists():
        pytest.skip("Open WebUI is missing; run: make open-webui")
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = str(found.getsockname()[1])
    folder = tmp_path_factory.mktemp("open-webui")
    with serving(engine, Settings(model_names=(MODEL,))) as url:
        settings = {
            "DATA_DIR": str(folder),
            "ENABLE_OLLAMA_API": "False",
            "HF_HUB_OFFLINE": "1",
            "HOME": str(folder),
            "OFFLINE_MODE": "True",
            "OPENAI_API_BASE_URL": url,
            # Its page has this choice, too. Reasoning is sent back to this kind of server alone.
            "OPENAI_API_CONFIGS": json.dumps({"0": {"provider": "llama.cpp"}}),
            "OPENAI_API_KEY": "none",
            "PYTHONPATH": "",
            "RAG_EMBEDDING_ENGINE": "openai",  # else it loads a model for documents
            "WEBUI_AUTH": "False",
            "WEBUI_SECRET_KEY": "secret",
        }
        command = [
            str(FOLDER / "bin" / "open-webui"),
            "serve",
            "--host",
            "127.0.0.1",
            "--port",
            port,
        ]
        with (
            (folder / "log").open("w") as log,
            subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **settings},
                stdout=log,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            try:
                with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                    until(lambda: is_up(client, process))
                    nobody = {"email": "", "password": ""}
                    user = client.post("/api/v1/auths/signin", json=nobody).json()
                    client.headers["Authorization"] = f"Bearer {user['token']}"
                    yield client
            finally:
                process.kill()


def is_up(client: httpx2.Client, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "Open WebUI has ended"
    try:
        return client.get("/health").is_success
    except httpx2.TransportError:
        return False


def until(found: Callable[[], T]) -> T:
    """Ask again until there is something."""
    for _ in range(10 * PROGRAM_PATIENCE):
        if value := found():
            return value
        time.sleep(0.1)
    raise AssertionError("it does not come")


def ask(page: httpx2.Client, **fields: Any) -> dict[str, Any]:
    """Ask as a program does, by its API."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], **fields}
    completion: dict[str, Any] = page.post("/api/chat/completions", json=body).json()
    return completion


class Chat:
    """A chat as the page makes it: a question, and a message that its server fills."""

    def __init__(self, page: httpx2.Client, **fields: Any) -> None:
        self.page = page
        asked, self.message_id = str(uuid.uuid4()), str(uuid.uuid4())
        question: dict[str, Any] = {
            "id": asked,
            "role": "user",
            "content": QUESTION,
            "models": [MODEL],
        }
        question |= {"parentId": None, "childrenIds": [self.message_id], "timestamp": 1}
        message: dict[str, Any] = {
            "id": self.message_id,
            "role": "assistant",
            "content": "",
            "model": MODEL,
        }
        message |= {"parentId": asked, "childrenIds": [], "timestamp": 1}
        messages = {asked: question, self.message_id: message}
        history = {"messages": messages, "currentId": self.message_id}
        chat = {"title": "Time", "models": [MODEL], "history": history}
        self.id = page.post("/api/v1/chats/new", json={"chat": chat}).json()["id"]
        started = ask(
            page,
            stream=True,
            chat_id=self.id,
            id=self.message_id,
            session_id="page",
            background_tasks={},
            **fields,
        )
        (self.task,) = started["task_ids"]

    @property
    def message(self) -> dict[str, Any]:
        """The message so far."""
        chat = self.page.get(f"/api/v1/chats/{self.id}").json()["chat"]
        message: dict[str, Any] = chat["history"]["messages"][self.message_id]
        return message


def play(engine: RoomyEngine, *completions: str) -> list[str]:
    engine.completions = [*completions]
    engine.prompts.clear()
    engine.samplings.clear()
    return [*completions]


def test_models(page: httpx2.Client) -> None:
    (model,) = page.get("/api/models").json()["data"]
    assert (model["id"], model["openai"]["owned_by"]) == (MODEL, "gpt-oss-harmony")


def test_chat(engine: RoomyEngine, page: httpx2.Client) -> None:
    """Whole, streamed, and with a tool of the client."""
    now = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
    script = play(engine, THOUGHT + answer("Noon."), use("now"))
    assert ask(page)["choices"][0]["message"]["content"] == "Noon."
    (call,) = ask(page, tools=[now])["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "now", "arguments": "{}"}
    check_script(engine, script)


def test_a_chat_of_the_page_with_a_tool(engine: RoomyEngine, page: httpx2.Client) -> None:
    """Its server runs the tool, and sends the result with the reasoning before the call."""
    tool = {"id": "clock", "name": "clock", "content": CLOCK, "meta": {"description": "time"}}
    assert page.post("/api/v1/tools/create", json=tool).is_success
    script = play(engine, use("now"), THOUGHT + answer("It is noon."))
    chat = Chat(page, tool_ids=["clock"], params={"function_calling": "native"})
    until(lambda: chat.message.get("done"))
    kinds = ["reasoning", "function_call", "function_call_output", "reasoning", "message"]
    assert [item["type"] for item in chat.message["output"]] == kinds
    assert chat.message["content"] == "It is noon."
    check_script(engine, script)
    assert engine.prompts[1].startswith(engine.prompts[0] + THOUGHT)
    assert "noon<|end|>" in engine.prompts[1]


def test_stop(engine: RoomyEngine, page: httpx2.Client) -> None:
    """The button ends the request, and the engine samples no more."""
    play(engine, "<|channel|>final<|message|>On and on ...")
    freed = engine.freed
    chat = Chat(page)
    until(lambda: engine.samplings)
    assert engine.freed == freed
    assert page.post(f"/api/tasks/stop/{chat.task}").is_success
    until(lambda: engine.freed > freed)
