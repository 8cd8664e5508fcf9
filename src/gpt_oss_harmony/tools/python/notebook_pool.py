"""The pool of notebooks of a server: some start early, their number is limited, idle ones end.

A place goes to the owner with the fewest notebooks, and among equals to the one that waits longest.
An idle notebook of an owner with more gives way to it at once; its files stay in its session.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from ..tool import ToolError
from .notebook import Notebook, NotebookOutput
from .output import listed
from .sandbox import Sandbox, SandboxError, SandboxGone, SandboxMaker
from .session import PythonSession
from .settings import PythonSettings

_CLOSED = "the server is ending"
_ENDED = (
    "[The notebook that this conversation had {}: all variables, functions and imports are gone; "
    "the files in /mnt/data are there again{}.]"
)
_WAITED = "[This call waited {:.0f} seconds for a free notebook.]"
_RESTARTED = (
    "[The kernel was restarted after a call was cancelled: all variables, functions and imports "
    "are gone; the files in /mnt/data are still there.]"
)


class NotebookPool:
    """Makes notebooks for sessions and ends them; it belongs to one event loop."""

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
        self._spare: list[Sandbox] = []  # started, without a conversation yet
        self._starting: list[str] = []  # the owners of those; "" for a spare one
        self._waiting: dict[object, str] = {}  # calls without a place, in their order: the owners
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._retiring: asyncio.Task[None] | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Start the spare notebooks. Raises `SandboxError` if none can be made."""
        while len(self._spare) < max(1, self._settings.prestarted):
            self._spare.append(await self._maker.make())
        self._retiring = self._retiring or asyncio.create_task(self._retire())

    async def run(self, session: PythonSession, code: str, stop: asyncio.Event) -> NotebookOutput:
        """Run a cell in the notebook of a session, or in a new one with its files.

        Raises `ToolError` if all notebooks are in use, and `SandboxError`.
        """
        async with session.lock:
            notebook = self._notebooks.get(session.notebook)
            if notebook is not None:
                async with notebook.lock:
                    # It may have been dropped while this call waited for the lock.
                    is_here = self._notebooks.get(notebook.name) is notebook
                    is_here = is_here and not notebook.has_ended
                    if is_here and notebook.cells == session.cells:  # else a branch has used it
                        return await self._run(notebook, session, code, stop, [])
            notes = []
            if session.cells:
                lost = listed(session.files_left_out)
                lost = f", but for those that were too large: {lost}" if lost else ""
                why = "is no longer there"
                if notebook is not None and notebook.has_ended:
                    why = f"has ended, because {notebook.why_ended}"
                notes.append(_ENDED.format(why, lost))
            asked = asyncio.get_running_loop().time()
            await self._wait_for_place(session.owner, stop)
            waited = asyncio.get_running_loop().time() - asked
            if waited >= 1:
                notes.append(_WAITED.format(waited))
            notebook = await self._new(session.owner)
            async with notebook.lock:
                session.begin(notebook.name)
                notebook.cells = session.cells
                return await self._run(notebook, session, code, stop, notes)

    async def _run(
        self,
        notebook: Notebook,
        session: PythonSession,
        code: str,
        stop: asyncio.Event,
        notes: list[str],
    ) -> NotebookOutput:
        try:
            notes = [*notes, *notebook.pending_notes]
            notes += await notebook.put_files(session.take_new_files())
        except SandboxGone as error:
            await self._drop(notebook)
            raise SandboxError(str(error)) from error
        output = await notebook.run(code, stop, session, notes)
        await self._notify()  # it may be dropped from now on
        notebook.pending_notes.clear()
        if not stop.is_set():
            session.cells += 1
            notebook.cells += 1
        elif not output.has_memory:  # the caller is gone, so the next call reports it
            notebook.pending_notes.append(_RESTARTED)
        if not output.is_usable:
            await self._drop(notebook)
        return output

    async def _new(self, owner: str) -> Notebook:
        """Make a notebook for an owner; there is a place."""
        with self._starts(owner):
            await self._notify()  # another call is the next one now
            sandbox = await self._take_spare() or await self._maker.make()
        if self._is_closed:
            await sandbox.close()
            raise ToolError(_CLOSED)
        notebook = Notebook(secrets.token_hex(16), sandbox, self._settings, owner)
        self._notebooks[notebook.name] = notebook
        if self._retiring is None:
            self._retiring = asyncio.create_task(self._retire())
        task = asyncio.create_task(self._refill())
        # The event loop itself keeps only a weak reference to a task.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return notebook

    async def _take_spare(self) -> Sandbox | None:
        while self._spare:
            sandbox = self._spare.pop()
            if not sandbox.has_ended:
                return sandbox
            await sandbox.close()
        return None

    @contextmanager
    def _starts(self, owner: str) -> Iterator[None]:
        self._starting.append(owner)
        try:
            yield
        finally:
            self._starting.remove(owner)

    def _counts(self) -> Counter[str]:
        """Count the notebooks of each owner, with those that are starting."""
        owners = [notebook.owner for notebook in self._notebooks.values()]
        return Counter([*owners, *self._starting])

    async def _wait_for_place(self, owner: str, stop: asyncio.Event) -> None:
        """Wait for a place, which `_new` takes at once.

        An owner without a notebook waits as long as a call may last. Raises `ToolError` if none
        gets free, and if `stop` is set: its caller is gone.
        """
        settings, loop = self._settings, asyncio.get_running_loop()
        wait = settings.wait_seconds
        if not self._counts()[owner]:
            wait = max(wait, settings.seconds + settings.grace_seconds)
        end = loop.time() + wait
        call = object()
        self._waiting[call] = owner
        try:
            while not self._is_next(call):
                if stop.is_set():
                    raise ToolError("the call was cancelled while it waited for a notebook")
                now, (until, unused) = loop.time(), self._displaced(owner, end)
                if unused is not None and until <= now:
                    await self._drop(unused)
                    continue
                if self._is_closed:
                    raise ToolError(_CLOSED)
                if end <= now:
                    await self._notify()
                    raise ToolError(
                        f"all {settings.notebooks} notebooks are in use, and none got free within "
                        f"{wait:g} seconds; try again in a while, or go on without running code"
                    )
                async with self._changed:
                    with anyio.move_on_after(min(until, end) - now):
                        await self._changed.wait()
        finally:
            del self._waiting[call]

    def _is_next(self, call: object) -> bool:
        """Return whether a waiting call may have a place now."""
        counts = self._counts()
        if counts.total() >= self._settings.notebooks:
            return False
        return min(self._waiting, key=lambda waiting: counts[self._waiting[waiting]]) is call

    def _displaced(self, owner: str, end: float) -> tuple[float, Notebook | None]:
        """Return the notebook that gives way to an owner, and the time when it does."""
        counts = self._counts()
        if counts.total() < self._settings.notebooks:  # another call has the turn
            return end, None
        # At once only from an owner who keeps at least as many notebooks as the other then has.
        until = {
            notebook: notebook.last_use
            + (counts[notebook.owner] <= counts[owner] + 1) * self._settings.settled_seconds
            for notebook in self._notebooks.values()
            if not notebook.lock.locked()
        }
        unused = min(until, key=until.__getitem__, default=None)
        return (end, None) if unused is None else (until[unused], unused)

    async def _refill(self) -> None:
        """Start a spare sandbox for the next conversation, unless there are enough notebooks."""
        taken = self._counts().total() + len(self._spare)
        has_spare = len(self._spare) >= self._settings.prestarted
        if has_spare or taken >= self._settings.notebooks or self._is_closed:
            return
        try:
            with self._starts(""):
                sandbox = await self._maker.make()
            if self._is_closed:
                await sandbox.close()
            else:
                self._spare.append(sandbox)
        except SandboxError:  # the next call will say so
            return
        finally:
            await self._notify()

    async def _drop(self, notebook: Notebook) -> None:
        if self._notebooks.pop(notebook.name, None) is not None:
            await notebook.close()
            await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _retire(self) -> None:
        """Drop idle notebooks, periodically."""
        idle = self._settings.idle_seconds
        while True:
            await asyncio.sleep(min(60, idle / 4))
            long_ago = asyncio.get_running_loop().time() - idle
            for notebook in list(self._notebooks.values()):
                is_over = notebook.has_ended or notebook.last_use < long_ago
                if is_over and not notebook.lock.locked():
                    await self._drop(notebook)

    async def close(self) -> None:
        """End all notebooks, and calls in progress with them."""
        self._is_closed = True
        await self._notify()
        if self._retiring is not None:
            self._retiring.cancel()
            await asyncio.gather(self._retiring, return_exceptions=True)
        await asyncio.gather(*self._tasks)
        for notebook in list(self._notebooks.values()):
            # First, so that a call in progress gives its lock up.
            notebook.end(_CLOSED)
            async with notebook.lock:
                await self._drop(notebook)
        for sandbox in self._spare:
            await sandbox.close()
        self._spare.clear()
