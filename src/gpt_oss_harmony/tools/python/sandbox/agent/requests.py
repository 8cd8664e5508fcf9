"""The requests of the server, and the program that runs them inside the sandbox.

It reads requests from standard input and writes responses to standard output, in the frames of
`sandbox.py`. The server checks responses all the same.

The code of the notebook has the same user, but it cannot reach the memory and the files of this
process, which `protect` closes. As process 1 of a sandbox, which it is unless bubblewrap is, this
process also gets no signals of the code. It ends everything in the sandbox when standard input
ends, and the server does not have to be there to close it.

A request is an object with `id` and `op`. The response has the same `id`, and `error` if the
request failed; requests with the id 0 get none. The first request is `start`. Between two runs, all
other processes are stopped. If one of them runs on, this process sends a last frame, `RAN_ON`, and
ends everything.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import json
import os
import signal
import stat
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from .cell_output import Output
from .kernel import Kernel, KernelFailure
from .processes import Processes

_SCANNED_FILES = 10_000
_LISTED_FILES = 200


class Folder:
    """The folder of the notebook; it never follows symbolic links."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._states: dict[str, tuple[int, ...]] = {}

    def scan(self) -> dict[str, tuple[int, ...]]:
        """Return the state of each plain file: any change alters it; its last item is the size."""
        states: dict[str, tuple[int, ...]] = {}
        for name in self._names():
            try:
                status = os.stat(os.path.join(self.path, name), follow_symlinks=False)
            except OSError:  # a process has deleted it, or its path is too long
                continue
            if stat.S_ISREG(status.st_mode):
                states[name] = (
                    status.st_ino,
                    status.st_mtime_ns,
                    # Code can set the other time, but not this one.
                    status.st_ctime_ns,
                    status.st_size,
                )
        return states

    def _names(self) -> Iterator[str]:
        seen = 0
        for top, folders, files in os.walk(self.path):
            seen += len(folders) + len(files)
            if seen > _SCANNED_FILES:
                return
            for name in sorted(files):
                yield os.path.relpath(os.path.join(top, name), self.path)

    def changes(self) -> dict[str, Any]:
        """Return what is new, changed or gone since the last call; the rest comes with the next."""
        states = self.scan()
        changed = [name for name, state in states.items() if self._states.get(name) != state]
        gone = [name for name in self._states if name not in states]
        for name in changed[:_LISTED_FILES]:
            self._states[name] = states[name]
        for name in gone[:_LISTED_FILES]:
            del self._states[name]
        listed = [
            {"path": _readable_name(name), "size": states[name][-1]}
            for name in changed[:_LISTED_FILES]
        ]
        return {
            "files": listed,
            "files_left_out": len(changed) - len(listed),
            "files_gone": [_readable_name(name) for name in gone[:_LISTED_FILES]],
        }

    def read(self, path: str, offset: int, size: int) -> tuple[bytes, int]:
        """Read at most `size` bytes of a plain file; also return its whole size."""
        # To open a named pipe would otherwise wait until somebody writes to it.
        flags = os.O_RDONLY | os.O_NONBLOCK
        with os.fdopen(self._open(path, flags), "rb") as file:
            file.seek(offset)
            return file.read(size), os.fstat(file.fileno()).st_size

    def write(self, path: str, offset: int, data: bytes) -> None:
        """Write to a file, and empty it first if `offset` is 0; it does not count as changed."""
        flags = os.O_WRONLY | os.O_CREAT | (0 if offset else os.O_TRUNC)
        with os.fdopen(self._open(path, flags, make=True), "wb") as file:
            file.seek(offset)
            file.write(data)
        state = self.scan().get(path)
        if state is not None:
            self._states[path] = state

    def _open(self, path: str, flags: int, *, make: bool = False) -> int:
        parts = path.split("/")
        folder = self._open_folder(parts[:-1], make=make)
        try:
            flags |= os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(parts[-1], flags, 0o666, dir_fd=folder)
        finally:
            os.close(folder)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(errno.EINVAL, "not a plain file")
        return file

    def _open_folder(self, parts: list[str], *, make: bool) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(self.path, flags)
        # One after the other: O_NOFOLLOW looks only at the last part of a path.
        for part in parts:
            try:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                inner = os.open(part, flags, dir_fd=folder)
            finally:
                os.close(folder)
            folder = inner
        return folder


def _readable_name(name: str) -> str:
    """Return the name of a file as text; if it is not UTF-8, the text names no file."""
    return os.fsencode(name).decode("utf-8", "replace")


RAN_ON = {"id": 0, "ran_on": True}
"""The frame that says that a process ran between two runs."""


# The requests

_NICENESS = 5
_LOOK_SECONDS = 0.25


class SandboxAgent:
    """Runs the requests of the server."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._start = start
        self.processes = Processes(start["pid_namespace"])
        self.kernel = Kernel(start, self.processes)
        self._folder = Folder(str(start["folder"]))
        self._is_running = False
        self._renewing: asyncio.Task[None] | None = None
        self._operations: dict[str, Callable[..., Any]] = {
            "ready": self.ready,
            "run": self.run,
            "interrupt": self.interrupt,
            "restart": self.restart,
            "get": self.get,
            "put": self.put,
        }

    async def start(self) -> None:
        """Start the kernel, and stop it until it is needed."""
        await self.kernel.start()
        self.processes.signal_all(signal.SIGSTOP)

    async def watch(self) -> None:
        """End everything if a process runs between two runs, seen in two looks one after another.

        Not every Linux, or what looks like one, says exactly what a process is about to do.
        """
        seen = False
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            runs = bool(self.processes.running_on())
            if runs and seen:
                send(RAN_ON)
                self.processes.signal_all(signal.SIGKILL)
                os._exit(1)
            seen = runs

    async def respond(self, request: dict[str, Any], data: bytes) -> None:
        """Run a request, and send the response."""
        try:
            done, sent = await self._operations[request["op"]](request, data)
        except (OSError, KernelFailure) as error:
            done, sent = {"error": str(error)}, b""
        if request["id"]:
            send({"id": request["id"], **done}, sent)

    async def ready(self, *_: object) -> tuple[dict[str, Any], bytes]:
        """Wait for the kernel; start a new one if it has ended."""
        renewed = self._renewing is None and self.kernel.has_ended  # which no response has reported
        if renewed:
            self._renew()
        if self._renewing is not None:
            try:
                await self._renewing
            finally:
                self._renewing = None
        return {"renewed": renewed}, b""

    async def run(self, request: dict[str, Any], _: bytes) -> tuple[dict[str, Any], bytes]:
        """Run a cell, and return its output and the changes of the folder."""
        output = Output(request["characters"], request["image_bytes"])
        self.processes.signal_all(signal.SIGCONT)
        self._is_running = True
        try:
            outcome = await self.kernel.run(request["code"], output)
        finally:
            self._is_running = False
            self.processes.signal_all(signal.SIGSTOP)
        texts, images = output.response()
        changes = self._folder.changes()
        if outcome["status"] == "died":
            self._renew()
        return {**outcome, **texts, **changes}, images

    def _renew(self) -> None:
        """Begin to start a new kernel; `ready` waits for it."""
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._start_anew())

    async def _start_anew(self) -> None:
        await self.kernel.stop()
        self.kernel = Kernel(self._start, self.processes)
        await self.start()

    async def interrupt(self, *_: object) -> tuple[dict[str, Any], bytes]:
        """Interrupt the cell that runs."""
        if self._is_running:  # else the next cell would be interrupted
            await self.kernel.interrupt()
        return {}, b""

    async def restart(self, *_: object) -> tuple[dict[str, Any], bytes]:
        """End the kernel; the response to the run in progress reports it."""
        self.processes.signal_all(signal.SIGKILL)
        return {}, b""

    async def get(self, request: dict[str, Any], _: bytes) -> tuple[dict[str, Any], bytes]:
        """Read a part of a file."""
        data, size = self._folder.read(request["path"], request["offset"], request["size"])
        return {"size": size}, data

    async def put(self, request: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        """Write a part of a file."""
        self._folder.write(request["path"], request["offset"], data)
        return {}, b""


def send(response: dict[str, Any], data: bytes = b"") -> None:
    """Write one frame to standard output."""
    text = json.dumps(response, ensure_ascii=False).encode("utf-8", "surrogatepass")
    left = memoryview(struct.pack(">II", len(text), len(data)) + text + data)
    while left:
        # A pipe may take only a part.
        left = left[os.write(1, left) :]


def receive() -> tuple[dict[str, Any], bytes] | None:
    """Read one frame from standard input; None at its end."""
    head = sys.stdin.buffer.read(8)
    if len(head) < 8:
        return None
    text_size, data_size = struct.unpack(">II", head)
    text = sys.stdin.buffer.read(text_size)
    data = sys.stdin.buffer.read(data_size)
    return json.loads(text.decode("utf-8", "surrogatepass")), data


def protect() -> None:
    """Close the memory and the open files of this process to others of the same user.

    A process that has another memory map after ``exec``, such as the kernel, is not protected.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(4, 0, 0, 0, 0):  # PR_SET_DUMPABLE
        raise KernelFailure("the agent of the sandbox cannot be protected")


def limit(limits: dict[str, int]) -> None:
    """Limit this process and all that it starts, and lower their priority."""
    import resource  # only where POSIX is; the server imports this file everywhere

    os.nice(_NICENESS)
    for name, value in limits.items():
        number = getattr(resource, f"RLIMIT_{name}")
        # Only root may raise a hard limit.
        hard = resource.getrlimit(number)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (value, value))
    try:
        # Where memory is short, Linux ends the processes of a sandbox first.
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        return  # elsewhere than on Linux


async def serve(start: dict[str, Any]) -> None:
    """Run requests; end this process, and all others of the sandbox, when standard input ends."""
    loop = asyncio.get_running_loop()
    requests: asyncio.Queue[tuple[dict[str, Any], bytes]] = asyncio.Queue()
    agent = SandboxAgent(start)

    def read() -> None:
        try:
            while (frame := receive()) is not None:
                loop.call_soon_threadsafe(requests.put_nowait, frame)
        finally:
            agent.processes.signal_all(signal.SIGKILL)
            # In this thread, `sys.exit` would end nothing else.
            os._exit(0)

    await agent.start()
    send({"id": start["id"], "python": sys.version.split()[0]})
    threading.Thread(target=read, daemon=True).start()
    responding = {asyncio.create_task(agent.watch())}
    while True:
        task = asyncio.create_task(agent.respond(*await requests.get()))
        # The event loop itself keeps only weak references to tasks.
        responding.add(task)
        task.add_done_callback(responding.discard)


def main() -> None:
    """Read the first request and serve the others."""
    first = receive()
    if first is None:
        return
    start = first[0]
    os.umask(0o022)
    os.chdir(start["folder"])
    # Before `protect`: then `/proc/self` belongs to root, and its files cannot be written any more.
    limit(start["limits"])
    try:
        protect()
        asyncio.run(serve(start))
    except (KernelFailure, ImportError) as error:
        send({"id": start["id"], "error": str(error)})
