"""The sandbox agent: runs inside the sandbox, starts the kernel there, and speaks for it.

The server sends this file to a Python inside the sandbox, so it imports nothing of this package. It
reads requests from standard input and writes responses to standard output, in the frames of
`sandbox.py`. The server checks responses all the same.

The code of the notebook has the same user, but it cannot reach the memory and the files of this
process, which `protect` closes. As process 1 of a sandbox, which it is unless bubblewrap is, this
process also gets no signals of the code. It ends everything in the sandbox when standard input
ends, and the server does not have to be there to close it.

A request is an object with `id` and `op`. The response has the same `id`, and `error` if the
request failed; requests with the id 0 get none. The first request is `start`. Between two runs, all
other processes are stopped.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import json
import os
import resource
import secrets
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_START_SECONDS = 60
_STOP_SECONDS = 5
_REPLY_SECONDS = 2
_SCANNED_FILES = 10_000
_LISTED_FILES = 200
_IMAGES = 20
_LOG_BYTES = 2000
_NICENESS = 5
_IMAGE_TYPES = (
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/svg+xml",
    "application/pdf",
)
_SOURCES = ("text/markdown", "text/latex", "text/html", "application/json")


class KernelFailure(Exception):
    """The kernel did not start."""


class Piece:
    """A piece of the output: text, and the id of the display that shows it, if any."""

    def __init__(self, text: str, display: str | None = None) -> None:
        self.text = text
        self.display = display


class Output:
    """The output of a cell: the first and last `characters // 2` of its text, and its images."""

    def __init__(self, characters: int, image_bytes: int) -> None:
        self._half = characters // 2
        self._image_bytes = image_bytes
        self._clear()

    def _clear(self) -> None:
        self._first: list[Piece] = []
        self._first_size = 0
        self._last: deque[Piece] = deque()
        self._last_size = 0
        self._cut = 0
        self._at_line_start = True
        self._images: list[tuple[str, bytes, str | None]] = []
        self._images_left_out = 0
        self._clear_at_next = False

    def add_message(self, kind: str, content: dict[str, Any]) -> None:
        """Add the content of one message of the kernel's output channel."""
        if kind == "clear_output":
            if content.get("wait"):
                self._clear_at_next = True
            else:
                self._clear()
            return
        if kind not in ("stream", "error", "execute_result", "display_data", "update_display_data"):
            return
        if self._clear_at_next:
            self._clear()
        if kind == "stream":
            self._add(str(content.get("text", "")))
        elif kind == "error":
            self.add_block("\n".join(map(str, content.get("traceback", ()))))
        else:
            self._add_display(kind, content)

    def _add_display(self, kind: str, content: dict[str, Any]) -> None:
        data = content.get("data", {})
        display = content.get("transient", {}).get("display_id")
        text = shown_text(data)
        image = shown_image(data)
        if kind == "update_display_data":
            self._update(display, text, image)
            return
        if text:
            self.add_block(text, display)
        if image is not None:
            self._add_image(*image, display)

    def _update(self, display: object, text: str, image: tuple[str, bytes] | None) -> None:
        for piece in (*self._first, *self._last):
            if display is not None and piece.display == display:
                piece.text = _block(text[: self._half])
        for index, (_, _, shown) in enumerate(self._images):
            if image is not None and display is not None and shown == display:
                self._images[index] = (*image, shown)

    def _add_image(self, mime_type: str, data: bytes, display: str | None) -> None:
        size = sum(len(image) for _, image, _ in self._images) + len(data)
        if len(self._images) >= _IMAGES or size > self._image_bytes:
            self._images_left_out += 1
        else:
            self._images.append((mime_type, data, display))

    def add_block(self, text: str, display: str | None = None) -> None:
        """Add text on lines of its own."""
        self._add(_block(text) if self._at_line_start else "\n" + _block(text), display)

    def _add(self, text: str, display: str | None = None) -> None:
        if not text:
            return
        self._at_line_start = text.endswith("\n")
        room = self._half - self._first_size
        if room > 0:
            self._first.append(Piece(text[:room], display))
            self._first_size += len(text[:room])
            text = text[room:]
        if text:
            self._cut += max(0, len(text) - self._half)
            text = text[-self._half :]
            self._last.append(Piece(text, display))
            self._last_size += len(text)
        while self._last and self._last_size - len(self._last[0].text) >= self._half:
            gone = self._last.popleft()
            self._last_size -= len(gone.text)
            self._cut += len(gone.text)

    def response(self) -> tuple[dict[str, Any], bytes]:
        """Return the texts and the sizes of images as JSON, and the bytes of all images."""
        last = "".join(piece.text for piece in self._last)
        cut = self._cut + max(0, len(last) - self._half)
        return {
            "first": "".join(piece.text for piece in self._first)[: 2 * self._half],
            "cut": cut,
            "last": last[-self._half :] if last else "",
            "images": [{"type": kind, "size": len(data)} for kind, data, _ in self._images],
            "images_left_out": self._images_left_out,
        }, b"".join(data for _, data, _ in self._images)


def _block(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def shown_text(data: dict[str, Any]) -> str:
    """Choose the text of a display: written for people if possible, else as Python shows it."""
    plain = str(data.get("text/plain", ""))
    if plain and not plain.startswith("<IPython.core.display."):
        return plain
    source = next((data[kind] for kind in _SOURCES if kind in data), None)
    if source is None:
        return "" if shown_image(data) else plain
    return source if isinstance(source, str) else json.dumps(source)


def shown_image(data: dict[str, Any]) -> tuple[str, bytes] | None:
    """Return the type and the bytes of the image of a display, if there is one."""
    import binascii

    for kind in _IMAGE_TYPES:
        text = data.get(kind)
        if not isinstance(text, str):
            continue
        if kind == "image/svg+xml":
            return kind, text.encode("utf-8", "replace")
        try:
            return kind, binascii.a2b_base64(text)
        except ValueError:
            continue
    return None


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


class Kernel:
    """The kernel's process and the channels to it."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._source = str(start["kernel"])
        self._folder = str(start["folder"])
        self._arguments = [str(start["cpu_seconds"]), *map(str, start["writable"])]
        # Signals to all processes are safe only in a PID namespace other than the server's.
        of_server = start["pid_namespace"]
        self._alone = of_server is not None and _pid_namespace() not in (None, of_server)
        self._log = b""
        self._cell_begun = asyncio.Event()

    async def start(self) -> None:
        """Start it, and wait until it responds. Raises `KernelFailure`."""
        self._private = tempfile.TemporaryDirectory(prefix="kernel-", ignore_cleanup_errors=True)
        connection = os.path.join(self._private.name, "connection.json")
        info = _connection(os.path.join(self._private.name, "channel"))
        Path(connection).write_text(json.dumps(info))
        # Nothing that the code of an earlier kernel has written runs when a new one starts: -I
        # ignores modules in the folder, and the folder of IPython is new.
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-X", "frozen_modules=off", "-c"),
                *(self._source, connection, *self._arguments),
            ],
            cwd=self._folder,
            env=dict(
                os.environ,
                IPYTHONDIR=os.path.join(self._private.name, "ipython"),
                JPY_PARENT_PID=str(os.getpid()),  # 1 is not watched, and does not have to be
                PYDEVD_DISABLE_FILE_VALIDATION="1",
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = loop.create_future()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        self._reap()
        log = asyncio.StreamReader()
        self._pipe, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(log), self.process.stderr
        )
        self._reading = asyncio.create_task(self._read_log(log))
        from jupyter_client.asynchronous.client import AsyncKernelClient  # while the kernel starts

        self.client: Any = AsyncKernelClient()
        self.client.load_connection_info(info)
        self.client.session.pack = _pack
        self.client.start_channels(hb=False, stdin=False)
        ready = asyncio.create_task(self._wait_until_ready())
        ends: set[asyncio.Future[Any]] = {ready, self._ended}
        await asyncio.wait(ends, timeout=_START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done() or ready.exception() is not None:
            ready.cancel()
            self.signal_all(signal.SIGKILL)
            raise KernelFailure(f"the kernel did not start: {self._log.decode(errors='replace')}")

    @property
    def has_ended(self) -> bool:
        """True if the process has ended."""
        return self._ended.done()

    def _reap(self) -> None:
        """Take the exit codes of all children: process 1 is the parent of every orphan."""
        with suppress(ChildProcessError):
            while (child := os.waitpid(-1, os.WNOHANG))[0]:
                if child[0] == self.process.pid and not self._ended.done():
                    self.process.returncode = os.waitstatus_to_exitcode(child[1])
                    self._ended.set_result(self.process.returncode)

    async def _read_log(self, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(_LOG_BYTES):
            self._log = (self._log + data)[-_LOG_BYTES:]

    async def _wait_until_ready(self) -> None:
        """Wait until the kernel both replies to a request and publishes output."""
        output = asyncio.create_task(self.client.iopub_channel.get_msg())
        reply = None
        while reply is None or not output.done():
            ident = self.client.kernel_info()
            reply = await self._reply(ident, 0.25) or reply
            if reply is not None and not output.done():
                await asyncio.wait({output}, timeout=0.25)

    async def _reply(self, ident: str, seconds: float) -> dict[str, Any] | None:
        """Wait for the reply to a request; discard other replies."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0:
            try:
                message = await asyncio.wait_for(self.client.shell_channel.get_msg(), left)
                if message["parent_header"].get("msg_id") == ident:
                    return dict(message["content"])
            except (asyncio.TimeoutError, ValueError, KeyError):  # ValueError: not signed
                continue
        return None

    async def run(self, code: str, output: Output) -> dict[str, Any]:
        """Run a cell until it or the kernel ends; in that case return the kernel's `exit` code."""
        self._cell_begun.clear()
        ident = self.client.execute(code, allow_stdin=False, stop_on_error=False)
        listening = asyncio.create_task(self._listen(ident, output))
        try:
            ends: set[asyncio.Future[Any]] = {listening, self._ended}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not listening.done():
                await asyncio.wait({listening}, timeout=0.2)  # for its last output
                return {"status": "died", "exit": self._ended.result()}
        finally:
            listening.cancel()
        listening.result()
        reply = await self._reply(ident, _REPLY_SECONDS) or {}
        for payload in reply.get("payload", ()):
            if payload.get("source") == "page":
                output.add_block(str(payload.get("data", {}).get("text/plain", "")))
            elif payload.get("source") == "ask_exit":
                self.signal_all(signal.SIGKILL)
                await self._ended
                return {"status": "died", "exit": 0}
        return {"status": "error" if reply.get("status") == "error" else "ok"}

    async def _listen(self, ident: str, output: Output) -> None:
        while True:
            try:
                message = await self.client.iopub_channel.get_msg()
                kind, content = message["msg_type"], message["content"]
                if kind == "execute_input":
                    self._cell_begun.set()
                elif kind == "status":
                    is_own = message["parent_header"].get("msg_id") == ident
                    if is_own and content["execution_state"] == "idle":
                        return
                else:
                    output.add_message(kind, content)
            except (ValueError, TypeError, KeyError, AttributeError):
                continue  # a message that the code of the notebook has sent

    async def interrupt(self) -> None:
        """Interrupt the cell once it has begun: before that, the kernel ignores interrupts."""
        try:
            await asyncio.wait_for(self._cell_begun.wait(), _STOP_SECONDS)
        except asyncio.TimeoutError:
            return
        self.signal_cell(signal.SIGINT)

    def signal_cell(self, number: int) -> None:
        """Send a signal to the kernel and to the processes that it has started."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return

    def signal_all(self, number: int) -> None:
        """Send a signal to every other process of the sandbox, also to orphans."""
        if not self._alone:
            self.signal_cell(number)
            return
        try:
            os.kill(-1, number)
        except ProcessLookupError:
            return

    async def stop(self) -> None:
        """End the kernel and everything else that runs here."""
        self.signal_all(signal.SIGKILL)
        await self._ended
        for _ in range(100 * _STOP_SECONDS):
            try:
                os.kill(-1 if self._alone else self.process.pid, 0)
            except ProcessLookupError:
                break
            await asyncio.sleep(0.01)
        self._reading.cancel()
        self._pipe.close()
        self.client.stop_channels()
        self._private.cleanup()


def _connection(path: str) -> Any:
    """Make the connection of the kernel and its client; names of its sockets begin with `path`."""
    channels = ("shell", "iopub", "stdin", "control", "hb")
    return {
        "transport": "ipc",
        "ip": path,
        "key": secrets.token_hex(16),
        "signature_scheme": "hmac-sha256",
        "kernel_name": "python3",
        **{f"{name}_port": port for port, name in enumerate(channels, 1)},
    }


def _pack(message: Any) -> bytes:
    """Encode a message as ASCII, the only encoding that keeps lone surrogates."""
    return json.dumps(message, default=str).encode("ascii")


def _pid_namespace() -> str | None:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


class SandboxAgent:
    """Runs the requests of the server."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._start = start
        self.kernel = Kernel(start)
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
        self.kernel.signal_all(signal.SIGSTOP)

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
        self.kernel.signal_all(signal.SIGCONT)
        self._is_running = True
        try:
            outcome = await self.kernel.run(request["code"], output)
        finally:
            self._is_running = False
            self.kernel.signal_all(signal.SIGSTOP)
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
        self.kernel = Kernel(self._start)
        await self.start()

    async def interrupt(self, *_: object) -> tuple[dict[str, Any], bytes]:
        """Interrupt the cell that runs."""
        if self._is_running:  # else the next cell would be interrupted
            await self.kernel.interrupt()
        return {}, b""

    async def restart(self, *_: object) -> tuple[dict[str, Any], bytes]:
        """End the kernel; the response to the run in progress reports it."""
        self.kernel.signal_all(signal.SIGKILL)
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
    os.nice(_NICENESS)
    for name, value in limits.items():
        number = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (value, value))
    try:
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
            agent.kernel.signal_all(signal.SIGKILL)
            os._exit(0)

    await agent.start()
    send({"id": start["id"], "python": sys.version.split()[0]})
    threading.Thread(target=read, daemon=True).start()
    responding: set[asyncio.Task[None]] = set()
    while True:
        task = asyncio.create_task(agent.respond(*await requests.get()))
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
    limit(start["limits"])
    try:
        protect()
        asyncio.run(serve(start))
    except (KernelFailure, ImportError) as error:
        send({"id": start["id"], "error": str(error)})


if __name__ == "__main__":
    main()
