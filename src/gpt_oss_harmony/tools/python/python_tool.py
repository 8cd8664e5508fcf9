"""The built-in tool `python`: a stateful notebook for each conversation, in a sandbox.

The text of a call is code. The result is what a notebook would show; images, and files that the
code wrote, are attachments. docs/guides/python-tool.md lists what the sandbox prevents.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ...conversation.built_in_tools import read_code
from ...conversation.messages import Message
from ...conversation.tool_namespaces import ToolNamespaceConfig
from ..tool import Tool, ToolError, ToolMessage, tool_message
from .notebook import NotebookOutput
from .notebook_pool import NotebookPool
from .output import joined_output
from .sandbox import SandboxError
from .session import PythonSession
from .settings import PythonSettings


class PythonTool(Tool[PythonSession]):
    """The tool. `start` reports early what is missing; `close` ends all notebooks.

    ::

        async with PythonTool() as tool:
            session = tool.new_session()
            async for result in tool.call(message, session):
                ...
    """

    def __init__(self, settings: PythonSettings | None = None) -> None:
        self.settings = settings or PythonSettings()
        self._pool: NotebookPool | None = None
        self._runs: set[asyncio.Task[NotebookOutput]] = set()

    @property
    def namespace(self) -> ToolNamespaceConfig:
        """The declaration that the models were trained with."""
        return ToolNamespaceConfig.python()

    async def start(self) -> None:
        """Start a notebook for the first conversation.

        Raises `SandboxError`, which names the remedy, if no sandbox can be made.
        """
        await self._notebooks().start()

    async def close(self) -> None:
        """End all notebooks, and calls in progress with them."""
        if self._pool is not None:
            closing, self._pool = self._pool, None
            await closing.close()
        await asyncio.gather(*self._runs, return_exceptions=True)

    async def __aenter__(self) -> PythonTool:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def new_session(self) -> PythonSession:
        """Begin a conversation."""
        return PythonSession()

    def load_session(self, stored: str) -> PythonSession:
        """Read the JSON of a session; raises `ValueError` if it is invalid."""
        return PythonSession.from_json(stored)

    async def call(self, message: Message, session: PythonSession) -> AsyncIterator[ToolMessage]:
        """Run the code of a message, and yield one message.

        The code is interrupted when the caller is cancelled.
        """
        try:
            output = await self.run(read_code(message.text), session)
            result = tool_message(message, output.text, attachments=output.attachments)
        except (ToolError, SandboxError) as error:
            problem = f"[The code was not run: {error}]"
            text = joined_output(problem, 0, "", self.settings.output_characters)
            result = tool_message(message, text, is_error=True)
        yield result

    async def run(self, code: str, session: PythonSession) -> NotebookOutput:
        """Run code in the notebook of a session; calls of one session run one after the other.

        Raises `ToolError` if all notebooks are in use, and `SandboxError`.
        """
        stop = asyncio.Event()
        run = asyncio.create_task(self._notebooks().run(session, code, stop))
        self._runs.add(run)
        run.add_done_callback(self._forget)
        try:
            return await asyncio.shield(run)
        except asyncio.CancelledError:
            stop.set()  # the task continues until the code has ended
            raise

    def _forget(self, run: asyncio.Task[NotebookOutput]) -> None:
        self._runs.discard(run)
        if not run.cancelled():
            run.exception()  # retrieved, so that asyncio does not log it after a cancelled call

    def _notebooks(self) -> NotebookPool:
        if self._pool is None:
            self._pool = NotebookPool(self.settings)
        return self._pool
