"""A server with tools of its own, for tests: a browser over a folder, a pretended python."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from gpt_oss_harmony import Message, ToolNamespaceConfig
from gpt_oss_harmony.engines import Engine
from gpt_oss_harmony.server import Settings, create_app
from gpt_oss_harmony.tools.browser import Browser, LocalIndex
from gpt_oss_harmony.tools.tool import Attachment, Tool, ToolMessage, tool_message
from support.local_client import LocalClient
from support.scripted_engine import ScriptedEngine

SEARCH = {"type": "web_search"}
COMPUTE = {"type": "code_interpreter", "container": {"type": "auto"}}
NEXT = "<|end|><|start|>assistant"
PAGES = {
    "animals.md": "# Animals\n\nArmadillos live in the [Americas](places.md).\n",
    "places.md": "# Places\n\nThe Americas are two continents.\n",
}


def browse(function: str, **arguments: Any) -> str:
    """A call of the browser as a model samples it."""
    header = f"<|channel|>analysis to=browser.{function} code<|message|>"
    return f"{header}{json.dumps(arguments)}<|call|>"


def compute(code: str) -> str:
    """A call of python as a model samples it."""
    return f"<|channel|>analysis to=python code<|message|>{code}<|call|>"


def answer(text: str) -> str:
    """An answer as a model samples it."""
    return f"<|channel|>final<|message|>{text}<|return|>"


class RoomyEngine(ScriptedEngine):
    """Has room for what tools say."""

    def __init__(self, *completions: str, room: int = 20_000) -> None:
        super().__init__(*completions)
        self.context_length = room


class _Memory:
    """What the pretended notebook knows."""

    def __init__(self, cells: Sequence[str] = ()) -> None:
        self.cells = list(cells)

    def to_json(self) -> str:
        return json.dumps(self.cells)


class PretendedPython(Tool[_Memory]):
    """Says what it was asked before; ``write NAME TEXT`` writes a file, ``hang`` and ``raise`` do.

    `hanging` is released when a call hangs, and `cancelled` when it was ended.
    """

    def __init__(self) -> None:
        self.hanging = threading.Semaphore(0)
        self.cancelled = threading.Semaphore(0)

    @property
    def namespace(self) -> ToolNamespaceConfig:
        return ToolNamespaceConfig.python()

    def new_session(self) -> _Memory:
        return _Memory()

    def load_session(self, stored: str) -> _Memory:
        return _Memory(json.loads(stored))

    async def call(self, message: Message, session: _Memory) -> AsyncIterator[ToolMessage]:
        code = message.text
        session.cells.append(code)
        if code == "raise":
            raise RuntimeError("a bug")
        if code == "hang":
            self.hanging.release()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.release()
        files: tuple[Attachment, ...] = ()
        if code.startswith("write "):
            _, name, text = code.split(" ", 2)
            files = (Attachment.of_file(name, text.encode()),)
        yield tool_message(message, f"after {session.cells}", attachments=files)

    async def close(self) -> None:
        pass


@contextmanager
def serving_tools(
    engine: Engine,
    *tools: Tool[Any],
    folder: Path | None = None,
    **settings: Any,
) -> Iterator[TestClient]:
    """Serve with these tools, and with a browser over a folder, which gets its pages."""
    all_tools: list[Tool[Any]] = [*tools]
    if folder is not None:
        for name, text in PAGES.items():
            (folder / name).write_text(text)
        index = LocalIndex(folder, name="guide")
        index.update()
        all_tools.append(Browser(search=index, pages=[index]))
    app = create_app(engine, Settings(**settings), all_tools)
    with LocalClient(app, raise_server_exceptions=False) as client:
        try:
            yield client
        finally:
            assert client.portal is not None
            for tool in all_tools:
                client.portal.call(tool.close)
