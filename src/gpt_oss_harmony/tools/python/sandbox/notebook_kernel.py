"""The kernel in a sandbox: ipykernel that sends its streams in order and in small pieces.

This file runs inside the sandbox (the agent passes its text to ``python -c``), so it imports
nothing of this package. Its arguments are the path of a connection file, the CPU seconds that limit
each process of the notebook, and the folders that the notebook may write to, if only some.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import struct
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
        # The options of a context are those of all sockets that it makes from then on.
        context.sockopts.clear()


def pack(message: Any) -> bytes:
    """Encode a message as ASCII, the only encoding that keeps lone surrogates."""
    try:
        return json.dumps(message, default=json_default).encode("ascii")
    except (TypeError, ValueError):
        return bytes(json_packer(message))


# Landlock: its system calls, which have the same numbers on all architectures, and access rights.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_OLDEST_LANDLOCK = 2  # version 1 cannot allow to move files between folders
_WRITE_FILE, _MOVE, _TRUNCATE, _CONTROL_DEVICES = 1 << 1, 1 << 13, 1 << 14, 1 << 15
_CHANGE_FOLDERS = 0x1FF << 4  # remove and make files and folders of all kinds
_SIGNALS_AND_ABSTRACT_SOCKETS = 3


def restrict_writing(folders: list[str]) -> None:
    """Let this process and its children write below `folders` and to devices only, by Landlock.

    Then they can reach the memory of no process but each other, whatever its user. It does nothing
    where the kernel of the system lacks Landlock: the agent protects itself in any case.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    # The flag LANDLOCK_CREATE_RULESET_VERSION.
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < _OLDEST_LANDLOCK:
        return
    writing = _WRITE_FILE | _CHANGE_FOLDERS | _MOVE
    writing |= (_TRUNCATE if version >= 3 else 0) | (_CONTROL_DEVICES if version >= 5 else 0)
    scoped = _SIGNALS_AND_ABSTRACT_SOCKETS if version >= 6 else 0
    # An older Landlock may not know the other fields; the first one is in every version.
    ruleset = struct.pack("=QQQ", writing, 0, scoped)[: 24 if version >= 6 else 8]
    rules = called(libc, _CREATE_RULESET, ruleset, len(ruleset), 0)
    devices = writing & (_WRITE_FILE | _TRUNCATE | _CONTROL_DEVICES)
    for folder, rights in [*((folder, writing) for folder in folders), ("/dev", devices)]:
        if os.path.isdir(folder):
            descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            # A rule of the type LANDLOCK_RULE_PATH_BENEATH.
            called(libc, _ADD_RULE, rules, 1, struct.pack("=Qi", rights, descriptor), 0)
            os.close(descriptor)
    # Linux demands no_new_privs for this, which bubblewrap and the options of a container set.
    called(libc, _RESTRICT_SELF, rules, 0)
    os.close(rules)


def called(libc: ctypes.CDLL, *arguments: object) -> int:
    """Make a system call; raises `OSError` if it fails."""
    result = int(libc.syscall(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {errno.errorcode.get(number, number)}")
    return result


def import_from_folder() -> None:
    """Let cells import what is in the folder; until the first one, its modules do not run."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def main() -> None:
    """Run until the agent ends the process."""
    connection, cpu_seconds, *folders = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds), int(cpu_seconds)))
    if folders:
        restrict_writing(folders)
    colors = "nocolor" if IPython.version_info >= (9,) else "NoColor"
    app: Any = NotebookApp.instance(kernel_class=NotebookKernel)
    app.initialize(
        [
            f"--f={connection}",
            "--IPKernelApp.outstream_class=__main__.OrderedStream",
            f"--InteractiveShell.colors={colors}",
            "--HistoryManager.enabled=False",
        ]
    )
    app.session.pack = pack
    app.shell.history_manager.outputs = DiscardedOutputs()
    app.shell.events.register("pre_execute", import_from_folder)
    app.start()


if __name__ == "__main__":
    main()
