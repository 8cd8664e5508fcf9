"""The built-in tool `python`: a stateful notebook for each conversation, in a sandbox.

A call's text is code; the answer is what a notebook would show, with its images and the files that
the code wrote as attachments. See docs/python-tool.md for what the sandbox keeps away.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ...conversation.messages import Message
from ...conversation.tool_namespaces import ToolNamespaceConfig
from ..tool import Tool, call_text
from ..tool_error import ToolError
from ..tool_message import ToolMessage, tool_message
from .code import read_code
from .notebook import NotebookOutput
from .notebooks import Notebooks
from .sandbox import SandboxError
from .session import PythonSession
from .settings import PythonSettings

__all__ = ["PythonTool"]


class PythonTool(Tool[PythonSession]):
    """The tool; `start` it, so that what is missing is found early, and `close` it.

    ::

        async with PythonTool() as tool:
            session = tool.new_session()
            async for answer in tool.call(message, session):
                ...
    """

    def __init__(self, settings: PythonSettings | None = None) -> None:
        self.settings = settings or PythonSettings()
        self._notebooks: Notebooks | None = None
        self._calls: set[asyncio.Task[NotebookOutput]] = set()

    @property
    def namespace(self) -> ToolNamespaceConfig:
        """What the system message declares: the notebook that models were trained with."""
        return ToolNamespaceConfig.python()

    async def start(self) -> None:
        """Start a notebook for the first conversation.

        Raises `SandboxError`, which names the fix, where code cannot be run in a sandbox.
        """
        await self._all().start()

    async def close(self) -> None:
        """End all notebooks; calls under way end, too."""
        if self._notebooks is not None:
            closing, self._notebooks = self._notebooks, None
            await closing.close()
        await asyncio.gather(*self._calls, return_exceptions=True)

    async def __aenter__(self) -> PythonTool:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def new_session(self) -> PythonSession:
        """Begin a conversation."""
        return PythonSession()

    def load_session(self, stored: str) -> PythonSession:
        """Read the JSON of a session; raises `ValueError` where it is none."""
        return PythonSession.from_json(stored)

    async def call(self, message: Message, session: PythonSession) -> AsyncIterator[ToolMessage]:
        """Run the code of a message, and yield one message.

        Where the caller goes away, the code is interrupted.
        """
        try:
            output = await self.run(read_code(call_text(message)), session)
            answer = tool_message(message, output.text, attachments=output.attachments)
        except (ToolError, SandboxError) as error:
            answer = tool_message(message, f"[The code was not run: {error}]", is_error=True)
        yield answer

    async def run(self, code: str, session: PythonSession) -> NotebookOutput:
        """Run code in the notebook of a session; calls of one session wait for each other.

        Raises `ToolError` where all notebooks are in use, and `SandboxError`.
        """
        stop = asyncio.Event()
        task = asyncio.create_task(self._all().run(session, code, stop))
        self._calls.add(task)
        task.add_done_callback(self._forget)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            stop.set()  # the task goes on until the code has ended
            raise

    def _forget(self, task: asyncio.Task[NotebookOutput]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # which nobody may be there to see

    def _all(self) -> Notebooks:
        if self._notebooks is None:
            self._notebooks = Notebooks(self.settings)
        return self._notebooks
