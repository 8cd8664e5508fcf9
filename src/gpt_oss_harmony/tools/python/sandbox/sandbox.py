"""A running sandbox, seen from the server: requests to its agent go in, responses come out.

Both travel in frames. A frame is two lengths (big-endian, 4 bytes each), a JSON object and bytes.
The model's code may have sent whatever comes out of a sandbox, so the sizes and the form of each
frame are checked.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import resources
from typing import Any

import anyio

from .agent.requests import RAN_ON
from .launch import Launch, SandboxError, SandboxGone, agent_source
from .limits import ControlGroup, Limits, breach, count_files, process_tree

MAX_TEXT = 4 << 20
"""The most bytes of the JSON of a frame."""
MAX_DATA = 32 << 20
"""The most bytes that follow it."""

_LENGTHS = struct.Struct(">II")
_START_SECONDS = 90  # longer than the agent waits for a kernel, so that its error arrives
_RESPONSE_SECONDS = 30.0
_LOG_BYTES = 2000
_DISCARDED = 1 << 16  # bytes at a time
_WATCH_SECONDS = 0.5
_ERROR_CHARACTERS = 300

# Measuring must not wait for other blocking work of the server.
_MEASURING = ThreadPoolExecutor(2, thread_name_prefix="sandbox-memory")


class FrameError(ValueError):
    """The bytes are not a frame."""


def pack_frame(request: Mapping[str, Any], data: bytes = b"") -> bytes:
    """Encode a frame.

    >>> pack_frame({"op": "run"}).hex(" ", 4)
    '0000000c 00000000 7b226f70 223a2272 756e227d'
    """
    text = json.dumps(request, separators=(",", ":")).encode("ascii")
    return _LENGTHS.pack(len(text), len(data)) + text + data


async def read_frame(stream: asyncio.StreamReader) -> tuple[dict[str, Any], bytes]:
    """Read a frame. Raises `FrameError`, and `EOFError` at the end of the stream."""
    text_size, data_size = _LENGTHS.unpack(await stream.readexactly(_LENGTHS.size))
    if text_size > MAX_TEXT or data_size > MAX_DATA:
        raise FrameError("the frame is too large")
    text = await stream.readexactly(text_size)
    data = await stream.readexactly(data_size)
    try:
        content = json.loads(text.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise FrameError("the frame is not JSON") from error
    if not isinstance(content, dict):
        raise FrameError("the frame is not a JSON object")
    return content, data


class Sandbox:
    """A started agent with its kernel. `start` makes it, `close` ends it.

    It also ends, with everything in it, when this process ends for any reason.
    """

    def __init__(self, process: asyncio.subprocess.Process, launch: Launch, limits: Limits) -> None:
        self._process = process
        self._launch = launch
        self._limits = limits
        self._responses: dict[int, asyncio.Future[tuple[dict[str, Any], bytes]]] = {}
        self._count = 0
        self._log = b""
        self.why_ended = "its sandbox was ended from inside"
        """Why it has ended, as the end of a sentence."""
        self._group: ControlGroup | None = None
        self._watching: asyncio.Task[None] | None = None
        self._reading = asyncio.create_task(self._read())
        self._logging = asyncio.create_task(self._read_log())

    @classmethod
    async def start(cls, launch: Launch, limits: Limits) -> Sandbox:
        """Start an agent and its kernel; this uses up the launch. Raises `SandboxError`.

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
            with anyio.fail_after(_START_SECONDS):
                await sandbox._greet(launch)
        except BaseException as error:
            log = await sandbox._end()
            if isinstance(error, (TimeoutError, SandboxGone, SandboxError)):
                raise SandboxError(_not_started(launch, error, log)) from error
            raise
        return sandbox

    async def _greet(self, launch: Launch) -> None:
        """Send the agent's program and the first request, and wait for the response."""
        rlimits = self._limits.rlimits()
        if not launch.is_bubblewrap:
            del rlimits["NPROC"]  # it would count other processes, too
        self._write(agent_source())
        await self.request(
            "start",
            seconds=None,
            limits=rlimits,
            cpu_seconds=self._limits.cpu_seconds,
            folder=launch.folder,
            writable=launch.writable,
            kernel=resources.files(__package__).joinpath("notebook_kernel.py").read_text("utf-8"),
            pid_namespace=os.readlink("/proc/self/ns/pid") if os.path.isdir("/proc/self") else None,
        )
        # All its processes exist now, and none has run any code but ours.
        self._group = ControlGroup.make(process_tree(self._process.pid), self._limits)
        if launch.is_bubblewrap and not self._count_files():
            raise SandboxError(
                "the number of files in a sandbox cannot be limited here: let the server look into "
                "its own sandboxes (as root, it needs the capability CAP_SYS_PTRACE)"
            )
        self._watching = asyncio.create_task(self._watch())

    @property
    def has_ended(self) -> bool:
        """True if it takes no more requests."""
        return self._reading.done()

    async def request(
        self,
        op: str,
        *,
        data: bytes = b"",
        seconds: float | None = _RESPONSE_SECONDS,
        **fields: Any,
    ) -> dict[str, Any]:
        """Send a request, and return the response; its bytes are in the field `data`.

        Raises `SandboxGone`, also if there is no response after `seconds`, and `OSError` if the
        agent reports an error.
        """
        if self.has_ended:
            raise SandboxGone(self.why_ended)
        self._count += 1
        ident = self._count
        waiting = self._responses[ident] = asyncio.get_running_loop().create_future()
        if self._group is not None:  # frozen between requests, so that no code runs on meanwhile
            self._group.freeze(False)
        try:
            self._write(pack_frame({"id": ident, "op": op, **fields}, data))
            with anyio.fail_after(seconds):
                response, received = await waiting
        except TimeoutError:
            self.kill("it did not answer")
            raise SandboxGone(self.why_ended) from None
        except asyncio.CancelledError:
            # `_read` ends the sandbox anyway at a response that no request waits for.
            self.kill("it did not answer in time")
            raise
        finally:
            del self._responses[ident]
            if self._group is not None and not self._responses:
                self._group.freeze(True)
        if "error" in response:
            problem = str(response["error"])[:_ERROR_CHARACTERS]
            raise SandboxError(problem) if op == "start" else OSError(problem)
        return {**response, "data": received}

    def notify(self, op: str) -> None:
        """Send a request without waiting for the response."""
        self._write(pack_frame({"id": 0, "op": op}))

    async def run(self, **fields: Any) -> dict[str, Any]:
        """Run a cell, as `request` does."""
        return await self.request("run", seconds=None, **fields)

    async def _watch(self) -> None:
        """End the sandbox if it takes too much, during runs and between them."""
        loop = asyncio.get_running_loop()
        folders = self._launch.writable if self._launch.is_bubblewrap else None
        measure = partial(breach, self._process.pid, self._limits, folders)
        while not self.has_ended:
            await asyncio.sleep(_WATCH_SECONDS)
            why = await loop.run_in_executor(_MEASURING, measure)
            if why is not None:
                self.kill(why)

    def _count_files(self) -> int:
        """Return the number of files in the sandbox; 0 if they are not counted."""
        if not self._launch.is_bubblewrap:
            return 0
        try:
            return count_files(process_tree(self._process.pid)[1], self._launch.writable)
        except (OSError, IndexError):  # it has ended
            return 0

    def kill(self, why: str) -> None:
        """End it at once; pending requests raise `SandboxGone` with this reason."""
        if not self.has_ended:
            self.why_ended = why
            self._reading.cancel()
        if self._process.returncode is None:
            for member in process_tree(self._process.pid):
                try:
                    os.kill(member, signal.SIGKILL)
                except ProcessLookupError:
                    continue

    async def close(self) -> None:
        """End it, and wait until all its processes and files are gone."""
        await self._end()

    async def _end(self) -> str:
        """End it; return the end of its standard error."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self.kill("it was closed")
        await asyncio.gather(self._process.wait(), self._logging)
        if self._watching is not None:
            self._watching.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        stream = self._process.stdout
        while stream is not None and await stream.read(_DISCARDED):
            continue  # the pipe closes only when it was read to its end
        if self._group is not None:
            await self._group.remove()
            self._group = None
        if self._launch.end_command:
            ending = await asyncio.create_subprocess_exec(
                *self._launch.end_command,
                env=self._launch.environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
            await ending.wait()  # it fails if the sandbox has already ended
        if self._launch.own_folder is not None:
            self._launch.own_folder.cleanup()
        return self._log.decode("utf-8", "replace").strip()

    def _write(self, data: bytes) -> None:
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(data)

    async def _read(self) -> None:
        """Hand responses to the requests that wait for them, until the stream ends."""
        stream = self._process.stdout
        assert stream is not None
        try:
            while True:
                response, data = await read_frame(stream)
                if response == RAN_ON:
                    self.why_ended = "its code ran on between two calls"
                    return
                ident = response.get("id")
                waiting = self._responses.get(ident) if isinstance(ident, int) else None
                if waiting is None or waiting.done():
                    raise FrameError("no request waits for this response")
                waiting.set_result((response, data))
        except FrameError as error:
            self.why_ended = f"it spoke out of turn ({error})"
        except (EOFError, OSError):
            pass
        finally:
            for waiting in self._responses.values():
                if not waiting.done():
                    waiting.set_exception(SandboxGone(self.why_ended))
            if self._process.returncode is None:
                self.kill(self.why_ended)

    async def _read_log(self) -> None:
        stream = self._process.stderr
        while stream is not None and (data := await stream.read(_LOG_BYTES)):
            self._log = (self._log + data)[-_LOG_BYTES:]


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
