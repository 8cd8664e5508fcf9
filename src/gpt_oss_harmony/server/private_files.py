"""Files with conversations and secrets, which only their owner may read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def open_private(path: Path) -> int:
    """Open a file for reading and writing, and make it if it is missing; return its descriptor."""
    return os.open(path, os.O_CREAT | os.O_RDWR, 0o600)


def make_private(path: Path) -> None:
    """Remove all rights of other users from a file, if the file exists.

    Raises `OSError` if the file belongs to another user. Windows has no such rights.
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
