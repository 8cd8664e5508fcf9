"""The kernel in a sandbox: ipykernel, whose streams come in order and in small pieces.

This file runs inside the sandbox (the attendant passes its text to ``python -c``), so it imports
nothing of this package. It takes the path of a connection file; `CPU_SECONDS` in the environment
limits each process of the notebook.
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
_QUEUED = 32  # messages that wait for the attendant, at most; then the code waits
_NO_INPUT = "nobody can answer here: put the value into the code instead of asking for it"


class OrderedStream(OutStream):
    """Standard output or error: what was written first is sent first, whichever it was."""

    _latest: ClassVar[Any] = None
    _unsent = 0

    def write(self, string: str) -> int | None:  # type: ignore[override]
        """Take text; wait for the attendant where it comes faster than it can be sent."""
        if not isinstance(string, str):
            return super().write(string)  # which names the mistake
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
    """The kernel; ``input`` says what to do instead."""

    def raw_input(self, prompt: object = "") -> str:
        """Stand for ``input``."""
        raise StdinNotImplementedError(_NO_INPUT)

    def getpass(self, *_: object, **__: object) -> str:
        """Stand for ``getpass.getpass``."""
        raise StdinNotImplementedError(_NO_INPUT)


class NothingKept(defaultdict[int, list[Any]]):
    """Takes what cells have shown, and forgets it: IPython would keep every line for ever."""

    def __missing__(self, _: int) -> list[Any]:
        """Return a list that nobody reads."""
        return []


class NotebookApp(IPKernelApp):
    """The application; output that is not read makes the code wait, instead of being lost."""

    def init_iopub(self, context: Any) -> None:
        """Bind the socket of the output."""
        context.sndhwm = _QUEUED
        context.xpub_nodrop = 1
        super().init_iopub(context)  # type: ignore[no-untyped-call]
        context.sockopts.clear()


def pack(message: Any) -> bytes:
    """Write a message as ASCII: lone surrogates, which code may print, have no other form."""
    try:
        return json.dumps(message, default=json_default).encode("ascii")
    except (TypeError, ValueError):
        return bytes(json_packer(message))


def main() -> None:
    """Run until the attendant ends the process."""
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
    app.shell.history_manager.outputs = NothingKept()
    app.start()


if __name__ == "__main__":
    main()
