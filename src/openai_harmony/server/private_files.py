"""Files that hold conversations and secrets: their owner alone may read them."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

__all__ = ["make_private", "open_private"]


def open_private(path: Path) -> int:
    """Open a file to read and write, and make it where there is none; return its descriptor."""
    return os.open(path, os.O_CREAT | os.O_RDWR, 0o600)


def make_private(path: Path) -> None:
    """Take the rights of all but its owner from a file; do nothing where there is none.

    Raises `OSError` where it belongs to another user. Windows has no such rights.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if os.name == "posix" and mode & 0o077:
            path.chmod(mode & 0o700)
    except FileNotFoundError:
        return
    except PermissionError as error:
        problem = "other users can read it, and it belongs to one of them"
        raise PermissionError(errno.EPERM, problem, str(path)) from error
