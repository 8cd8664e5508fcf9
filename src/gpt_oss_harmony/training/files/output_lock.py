"""The lock of an output folder: two preparations at once would destroy each other's shards.

The operating system holds the lock, and releases it when the process ends, even if it is killed. So
the file may stay behind, but the lock does not. The file has the number of the process and the name
of its machine. Outputs at addresses, such as ``s3://``, have no lock; on Windows, it holds only
inside of a process.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from .addresses import OutputError, OutputFolderError

LOCK_FILE = ".harmony.lock"

_held: set[Path] = set()  # the system's locks do not hold between threads of one process
_holding = threading.Lock()


@contextlib.contextmanager
def output_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made; raise `OutputFolderError` if another has it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name, output_lock(Path(name)):  # doctest: +ELLIPSIS
    ...     with output_lock(Path(name)):
    ...         pass
    Traceback (most recent call last):
    gpt_oss_harmony.training.files.addresses.OutputFolderError: ...: another preparation ...
    """
    is_new = not folder.exists()
    path = folder.resolve() / LOCK_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = _locked(path)
    except OutputFolderError:
        raise
    except OSError as error:
        problem = f"{folder}: {error.strerror}; give a folder that can be made and written"
        raise OutputError(error.errno, problem) from error
    try:
        yield
    finally:
        if file is not None:
            path.unlink(missing_ok=True)  # before the lock is given up: the next makes its own
            os.close(file)
        with _holding:
            _held.discard(path)
        if is_new and not any(folder.iterdir()):
            folder.rmdir()  # nothing was made


def _locked(path: Path) -> int | None:
    """Open the file and lock it; return its descriptor, or None on Windows, without such locks."""
    try:
        import fcntl
    except ImportError:
        fcntl = None  # type: ignore[assignment]
    with _holding:
        if path in _held:
            raise _in_use(path, f"this process ({os.getpid()})")
        while fcntl is not None:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                owner = os.read(file, 300).decode("utf-8", "replace").strip()
                os.close(file)
                raise _in_use(path, owner or "a process that is just starting") from None
            # The last owner may have removed the file between the two calls.
            if _is_same(path, file):
                os.truncate(file, 0)
                os.write(file, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
                _held.add(path)
                return file
            os.close(file)
        _held.add(path)
        return None


def _is_same(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _in_use(path: Path, owner: str) -> OutputFolderError:
    return OutputFolderError(
        f"{path.parent}: another preparation writes here ({owner}); wait for its end, or give "
        "another folder for the output"
    )
