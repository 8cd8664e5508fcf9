"""One sandbox, seen from the server: requests go in, answers come out, nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
from importlib import resources
from typing import Any

from .control_group import ControlGroup
from .errors import SandboxError, SandboxGone
from .frames import FrameError, pack_frame, read_frame
from .launch import Launch
from .limits import Limits
from .memory_watch import process_tree, used_memory

__all__ = ["Sandbox"]

_START_SECONDS = 90
_ANSWER_SECONDS = 30.0
_LOG_BYTES = 2000
_THROWN_AWAY = 1 << 16  # bytes at a time
_WATCH_SECONDS = 0.5


class Sandbox:
    """A started attendant with its kernel; made by `start`, ended by `close`.

    It ends by itself, with everything in it, when this process ends in whatever way.
    """

    def __init__(self, process: asyncio.subprocess.Process, launch: Launch, limits: Limits) -> None:
        self._process = process
        self._launch = launch
        self._limits = limits
        self._answers: dict[int, asyncio.Future[tuple[dict[str, Any], bytes]]] = {}
        self._count = 0
        self._log = b""
        self._why = "its sandbox was ended from inside"
        self._group: ControlGroup | None = None
        self._reading = asyncio.create_task(self._read())
        self._logging = asyncio.create_task(self._read_log())

    @classmethod
    async def start(cls, launch: Launch, limits: Limits) -> Sandbox:
        """Start an attendant and its kernel; the launch is used up. Raises `SandboxError`.

        Call it in the thread of the event loop: the sandbox ends with the thread that started it.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *launch.command,
                env=launch.environment,
                pass_fds=launch.open_files,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                cwd="/",
            )
        except OSError as error:
            raise SandboxError(f"{launch.command[0]} cannot be run: {error}") from error
        finally:
            launch.close()
        sandbox = cls(process, launch, limits)
        try:
            await asyncio.wait_for(sandbox._greet(launch), _START_SECONDS)
        except BaseException as error:
            log = await sandbox._end()
            if isinstance(error, (asyncio.TimeoutError, SandboxGone, SandboxError)):
                raise SandboxError(_not_started(launch, error, log)) from error
            raise
        return sandbox

    async def _greet(self, launch: Launch) -> None:
        """Send the attendant's program and the first request, and wait for its answer."""
        rlimits = self._limits.rlimits()
        if not launch.has_own_user:
            del rlimits["NPROC"]  # it would count other processes, too
        attendant = _source("attendant.py")
        self._write(b"%d\n" % len(attendant) + attendant)
        await self.request(
            "start",
            seconds=None,
            limits=rlimits,
            cpu_seconds=self._limits.cpu_seconds,
            folder=launch.folder,
            kernel=_source("notebook_kernel.py").decode("utf-8"),
            pid_namespace=os.readlink("/proc/self/ns/pid") if os.path.isdir("/proc/self") else None,
        )
        # All its processes are there now, and none has run anything but our code.
        self._group = ControlGroup.make(process_tree(self._process.pid), self._limits)

    @property
    def has_ended(self) -> bool:
        """Whether nothing can be asked of it any more."""
        return self._reading.done()

    async def request(
        self, op: str, *, data: bytes = b"", seconds: float | None = _ANSWER_SECONDS, **fields: Any
    ) -> dict[str, Any]:
        """Ask, and return the answer, in which `data` is what came as bytes.

        Raises `SandboxGone`, also after `seconds` without an answer; `OSError` where the attendant
        could not do it.
        """
        if self.has_ended:
            raise SandboxGone(f"the sandbox is gone: {self._why}")
        self._count += 1
        ident = self._count
        answer = self._answers[ident] = asyncio.get_running_loop().create_future()
        try:
            self._write(pack_frame({"id": ident, "op": op, **fields}, data))
            found, received = await asyncio.wait_for(answer, seconds)
        except asyncio.TimeoutError:
            self.kill("it did not answer")
            raise SandboxGone(f"the sandbox is gone: {self._why}") from None
        finally:
            del self._answers[ident]
        if "error" in found:
            problem = str(found["error"])
            raise SandboxError(problem) if op == "start" else OSError(problem)
        return {**found, "data": received}

    def tell(self, op: str) -> None:
        """Ask, and do not wait for an answer."""
        self._write(pack_frame({"id": 0, "op": op}))

    async def run(self, **fields: Any) -> dict[str, Any]:
        """Run a cell, as `request` does, and end the sandbox where it takes too much memory."""
        watching = asyncio.create_task(self._watch_memory())
        try:
            return await self.request("run", seconds=None, **fields)
        finally:
            watching.cancel()

    async def _watch_memory(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            used = await asyncio.to_thread(used_memory, self._process.pid, self._limits.memory)
            if used > self._limits.memory:
                self.kill(f"its processes took more than {self._limits.memory >> 20} MiB of memory")

    def kill(self, why: str) -> None:
        """End it at once; what waits for an answer gets `SandboxGone` with this reason."""
        if not self.has_ended:
            self._why = why
            self._reading.cancel()
        if self._process.returncode is None:
            for member in process_tree(self._process.pid):
                try:
                    os.kill(member, signal.SIGKILL)
                except ProcessLookupError:
                    continue

    async def close(self) -> None:
        """End it, and wait until nothing of it is left."""
        await self._end()

    async def _end(self) -> str:
        """End it; return the end of what it wrote to standard error."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self.kill("it was closed")
        await asyncio.gather(self._process.wait(), self._logging)
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._read_to_end()
        if self._group is not None:
            await self._group.remove()
            self._group = None
        if self._launch.end_command:
            await _run(self._launch.end_command, self._launch.environment)
        if self._launch.own_folder is not None:
            self._launch.own_folder.cleanup()
        return self._log.decode("utf-8", "replace").strip()

    def _write(self, data: bytes) -> None:
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(data)

    async def _read(self) -> None:
        """Give the answers to those who wait for them, until there are no more."""
        stream = self._process.stdout
        assert stream is not None
        try:
            while True:
                answer, data = await read_frame(stream)
                waiting = self._answers.get(answer.get("id", 0))
                if waiting is not None and not waiting.done():
                    waiting.set_result((answer, data))
        except FrameError as error:
            self._why = f"it spoke out of turn ({error})"
        except (EOFError, OSError, TypeError):
            pass
        finally:
            for waiting in self._answers.values():
                if not waiting.done():
                    waiting.set_exception(SandboxGone(f"the sandbox is gone: {self._why}"))
            if self._process.returncode is None:
                self.kill(self._why)

    async def _read_to_end(self) -> None:
        """Throw away what nobody has read: the pipe is closed at its end."""
        stream = self._process.stdout
        while stream is not None and await stream.read(_THROWN_AWAY):
            continue

    async def _read_log(self) -> None:
        stream = self._process.stderr
        while stream is not None and (data := await stream.read(_LOG_BYTES)):
            self._log = (self._log + data)[-_LOG_BYTES:]


async def _run(command: tuple[str, ...], environment: dict[str, str]) -> None:
    """Run a command whose outcome does not matter: most often there is nothing left to end."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await process.wait()


def _source(name: str) -> bytes:
    return resources.files(__package__).joinpath(name).read_bytes()


def _not_started(launch: Launch, error: BaseException, log: str) -> str:
    name = os.path.basename(launch.command[0])
    why = log or str(error) or f"it took more than {_START_SECONDS} seconds"
    text = f"the notebook's sandbox did not start: {name}: {why}"
    if (name == "bwrap" and "namespace" in log.lower()) or "uid map" in log:
        text += (
            "; let the server's user make user namespaces (sysctl "
            "kernel.unprivileged_userns_clone=1, or an AppArmor profile for bwrap), or set a "
            "command that runs containers"
        )
    return text
