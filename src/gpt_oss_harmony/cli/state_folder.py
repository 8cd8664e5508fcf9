"""Where commands keep files: the database of the server, its keys, questions of the chat."""

from __future__ import annotations

import os
from pathlib import Path

from .input import InputError


def state_folder(*, make: bool = True) -> Path:
    """Return the user's state folder; `make` it, for the user alone, if it is missing."""
    root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(root) / "gpt-oss-harmony"
    if make:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
        except OSError as error:
            raise InputError(
                f"the folder {folder} cannot be used: {error.strerror}; name another in "
                "XDG_STATE_HOME"
            ) from error
    return folder


def default_database() -> Path:
    """Return the SQLite file of `harmony serve` without ``--database``."""
    return state_folder(make=False) / "responses.db"
