"""The kernel of the notebook: its process, and the channels to it."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from .cell_output import Output
from .processes import Processes

_START_SECONDS = 60
_STOP_SECONDS = 5
_REPLY_SECONDS = 2
_LOG_BYTES = 2000


class KernelFailure(Exception):
    """The kernel did not start."""


class Kernel:
    """The kernel's process and the channels to it."""

    def __init__(self, start: dict[str, Any], processes: Processes) -> None:
        self._processes = processes
        self._source = str(start["kernel"])
        self._folder = str(start["folder"])
        self._arguments = [str(start["cpu_seconds"]), *map(str, start["writable"])]
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
                # Like the option above, so that the debugger does not warn of frozen modules.
                PYDEVD_DISABLE_FILE_VALIDATION="1",
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._processes.kernel = self.process.pid
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = loop.create_future()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        # It may have ended before there was a handler for the signal.
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
            self._processes.signal_all(signal.SIGKILL)
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
        # A subscription of ZeroMQ takes a moment, and what is published before is lost. So the
        # request is repeated until its output arrives.
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
                self._processes.signal_all(signal.SIGKILL)
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
        self._processes.signal_cell(signal.SIGINT)

    async def stop(self) -> None:
        """End the kernel and everything else that runs here."""
        self._processes.signal_all(signal.SIGKILL)
        await self._ended
        for _ in range(100 * _STOP_SECONDS):
            if not self._processes.exist():
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
