"""All notebooks of a server: a few wait to be used, no more than may run, none for ever."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from dataclasses import replace

from ..tool_error import ToolError
from .notebook import Notebook, NotebookOutput
from .sandbox import Sandbox, SandboxError, SandboxGone, SandboxMaker
from .session import PythonSession
from .settings import PythonSettings

__all__ = ["Notebooks"]

_NAMED_FILES = 10
_CLOSED = "the server is ending"
_ENDED = (
    "[The notebook that this conversation had is no longer there: all variables, functions and "
    "imports are gone; the files in /mnt/data are there again{}.]"
)
_RESTARTED = (
    "[The kernel was restarted after a call was cancelled: all variables, functions and imports "
    "are gone; the files in /mnt/data are still there.]"
)


class Notebooks:
    """Makes notebooks for sessions and ends them; used from one event loop."""

    def __init__(self, settings: PythonSettings) -> None:
        self._settings = settings
        self._maker = SandboxMaker(
            settings.limits,
            isolation=settings.isolation,
            container=settings.container,
            python=settings.python,
            readable=settings.readable,
        )
        self._notebooks: dict[str, Notebook] = {}
        self._waiting: list[Sandbox] = []  # started, and nobody's yet
        self._starting = 0
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._retiring: asyncio.Task[None] | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Start those that wait for conversations. Raises `SandboxError` where none can be made."""
        while len(self._waiting) < max(1, self._settings.prestarted):
            self._waiting.append(await self._maker.make())
        self._retiring = self._retiring or asyncio.create_task(self._retire())

    async def run(self, session: PythonSession, code: str, stop: asyncio.Event) -> NotebookOutput:
        """Run a cell in the notebook of a session, or in a new one with its files.

        Raises `ToolError` where all places are taken, and `SandboxError`.
        """
        async with session.lock:
            notebook = self._notebooks.get(session.notebook)
            if notebook is not None:
                async with notebook.lock:
                    if self._is_of(notebook, session):
                        return await self._run(notebook, session, code, stop, [])
            notes = [_ENDED.format(_but(session.files_left_out))] if session.cells else []
            notebook = await self._new()
            async with notebook.lock:
                session.begin(notebook.name)
                notebook.cells = session.cells
                return await self._run(notebook, session, code, stop, notes)

    def _is_of(self, notebook: Notebook, session: PythonSession) -> bool:
        """Whether its memory is what the session has seen: another branch may have gone on."""
        is_here = self._notebooks.get(notebook.name) is notebook and not notebook.has_ended
        return is_here and notebook.cells == session.cells

    async def _run(
        self,
        notebook: Notebook,
        session: PythonSession,
        code: str,
        stop: asyncio.Event,
        notes: list[str],
    ) -> NotebookOutput:
        try:
            notes = [*notes, *notebook.untold]
            notes += await notebook.put_files(session.take_new_files())
        except SandboxGone as error:
            await self._drop(notebook)
            raise SandboxError(str(error)) from error
        output = await notebook.run(code, stop, session)
        await self._tell_change()  # it may be given up from now on
        notebook.untold.clear()
        if not stop.is_set():
            session.cells += 1
            notebook.cells += 1
        elif not output.has_memory:  # and nobody has seen that
            notebook.untold.append(_RESTARTED)
        if not output.is_usable:
            await self._drop(notebook)
        return replace(output, text="\n".join([*notes, output.text]))

    async def _new(self) -> Notebook:
        """Make a notebook, once there is a place for it."""
        await self._wait_for_place()
        self._starting += 1
        try:
            sandbox = await self._take_waiting() or await self._maker.make()
        finally:
            self._starting -= 1
        if self._is_closed:
            await sandbox.close()
            raise ToolError(_CLOSED)
        notebook = Notebook(secrets.token_hex(16), sandbox, self._settings)
        self._notebooks[notebook.name] = notebook
        if self._retiring is None:
            self._retiring = asyncio.create_task(self._retire())
        task = asyncio.create_task(self._refill())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return notebook

    async def _take_waiting(self) -> Sandbox | None:
        while self._waiting:
            sandbox = self._waiting.pop()
            if not sandbox.has_ended:
                return sandbox
            await sandbox.close()
        return None

    async def _wait_for_place(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._settings.wait_seconds
        while len(self._notebooks) + self._starting >= self._settings.notebooks:
            unused = self._longest_unused()
            until = end if unused is None else unused.last_use + self._settings.settled_seconds
            now = loop.time()
            if unused is not None and until <= now:
                await self._drop(unused)
                continue
            if self._is_closed:
                raise ToolError(_CLOSED)
            if end <= now:
                raise ToolError(
                    f"all {self._settings.notebooks} notebooks are in use; try again in a while, "
                    "or go on without running code"
                )
            async with self._changed:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), min(until, end) - now)

    def _longest_unused(self) -> Notebook | None:
        free = [each for each in self._notebooks.values() if not each.lock.locked()]
        return min(free, key=lambda notebook: notebook.last_use, default=None)

    async def _refill(self) -> None:
        """Start a sandbox for the next conversation, where there is a place for one."""
        taken = len(self._notebooks) + self._starting + len(self._waiting)
        wanted = len(self._waiting) < self._settings.prestarted
        if not wanted or taken >= self._settings.notebooks or self._is_closed:
            return
        self._starting += 1
        try:
            sandbox = await self._maker.make()
            if self._is_closed:
                await sandbox.close()
            else:
                self._waiting.append(sandbox)
        except SandboxError:  # the next call will say so
            return
        finally:
            self._starting -= 1
            await self._tell_change()

    async def _drop(self, notebook: Notebook) -> None:
        if self._notebooks.pop(notebook.name, None) is not None:
            await notebook.close()
            await self._tell_change()

    async def _tell_change(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _retire(self) -> None:
        """End, again and again, the notebooks that nobody has used for long."""
        idle = self._settings.idle_seconds
        while True:
            await asyncio.sleep(min(60, idle / 4))
            long_ago = asyncio.get_running_loop().time() - idle
            for notebook in list(self._notebooks.values()):
                is_over = notebook.has_ended or notebook.last_use < long_ago
                if is_over and not notebook.lock.locked():
                    await self._drop(notebook)

    async def close(self) -> None:
        """End all; calls under way end, too."""
        self._is_closed = True
        await self._tell_change()
        if self._retiring is not None:
            self._retiring.cancel()
            await asyncio.gather(self._retiring, return_exceptions=True)
        await asyncio.gather(*self._tasks)
        for notebook in list(self._notebooks.values()):
            notebook.end(_CLOSED)
            async with notebook.lock:
                await self._drop(notebook)
        for sandbox in self._waiting:
            await sandbox.close()
        self._waiting.clear()


def _but(files: list[str]) -> str:
    if not files:
        return ""
    more = f" and {len(files) - _NAMED_FILES} more" if len(files) > _NAMED_FILES else ""
    return f", but for those that were too large: {', '.join(files[:_NAMED_FILES])}{more}"
