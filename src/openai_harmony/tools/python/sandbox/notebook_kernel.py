"""The kernel in a sandbox: ipykernel that sends its streams in order and in small pieces.

This file runs inside the sandbox (the agent passes its text to ``python -c``), so it imports
nothing of this package. Its argument is the path of a connection file; `CPU_SECONDS` in the
environment limits each process of the notebook.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections import defaultdict
from typing import Any, ClassVar

import IPython
from ipykernel.iostream import OutStream
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from IPython.core.error import StdinNotImplementedError
from jupyter_client.jsonutil import json_default
from jupyter_client.session import json_packer

_PIECE = 1 << 18  # characters of one message
_QUEUED = 32  # most messages that wait for the agent; then the code waits
_NO_INPUT = "nobody can answer here: put the value into the code instead of asking for it"


class OrderedStream(OutStream):
    """Standard output or error; their texts are sent in the order in which they were written."""

    _latest: ClassVar[Any] = None
    _unsent = 0

    def write(self, string: str) -> int | None:  # type: ignore[override]
        """Write text; wait for the agent if it reads more slowly."""
        if not isinstance(string, str):
            return super().write(string)  # which raises the error
        latest, OrderedStream._latest = OrderedStream._latest, self
        if latest is not None and latest is not self:
            latest.flush()
        for start in range(0, len(string), _PIECE):
            piece = string[start : start + _PIECE]
            super().write(piece)
            self._unsent += len(piece)
            if self._unsent >= _PIECE:
                self._unsent = 0
                self.flush()  # type: ignore[no-untyped-call]
        return len(string)


class NotebookKernel(IPythonKernel):
    """The kernel; ``input`` raises an error that names the remedy."""

    def raw_input(self, prompt: object = "") -> str:
        """Replace ``input``."""
        raise StdinNotImplementedError(_NO_INPUT)

    def getpass(self, *_: object, **__: object) -> str:
        """Replace ``getpass.getpass``."""
        raise StdinNotImplementedError(_NO_INPUT)


class DiscardedOutputs(defaultdict[int, list[Any]]):
    """Discards the outputs of cells: IPython would store every line forever."""

    def __missing__(self, _: int) -> list[Any]:
        """Return a list that is never read."""
        return []


class NotebookApp(IPKernelApp):
    """The application; unread output makes the code wait instead of being lost."""

    def init_iopub(self, context: Any) -> None:
        """Bind the socket of the output."""
        context.sndhwm = _QUEUED
        context.xpub_nodrop = 1
        super().init_iopub(context)  # type: ignore[no-untyped-call]
        context.sockopts.clear()


def pack(message: Any) -> bytes:
    """Encode a message as ASCII, the only encoding that keeps lone surrogates."""
    try:
        return json.dumps(message, default=json_default).encode("ascii")
    except (TypeError, ValueError):
        return bytes(json_packer(message))


def main() -> None:
    """Run until the agent ends the process."""
    seconds = int(os.environ.pop("CPU_SECONDS"))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    colors = "nocolor" if IPython.version_info >= (9,) else "NoColor"
    app: Any = NotebookApp.instance(kernel_class=NotebookKernel)
    app.initialize(
        [
            f"--f={sys.argv[1]}",
            "--IPKernelApp.outstream_class=__main__.OrderedStream",
            f"--InteractiveShell.colors={colors}",
            "--HistoryManager.enabled=False",
        ]
    )
    app.session.pack = pack
    app.shell.history_manager.outputs = DiscardedOutputs()
    app.start()


if __name__ == "__main__":
    main()
