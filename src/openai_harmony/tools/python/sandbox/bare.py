"""Starts an attendant without a sandbox, for those who asked for it: it may do what the server may.

Its limits are those of each process, and it ends with the server; that is all.
"""

from __future__ import annotations

import os
import tempfile

from .launch import BOOTSTRAP, Launch, sandbox_environment
from .limits import Limits
from .python_environment import PythonEnvironment

__all__ = ["bare_launch"]


def bare_launch(python: PythonEnvironment, limits: Limits) -> Launch:
    """Write the command line, and make the folder that stands for ``/mnt/data``."""
    own = tempfile.TemporaryDirectory(prefix="notebook-", ignore_cleanup_errors=True)
    folder, temporary = os.path.join(own.name, "data"), os.path.join(own.name, "tmp")
    os.mkdir(folder)
    os.mkdir(temporary)
    path = f"{os.path.dirname(python.program)}:{os.environ.get('PATH', os.defpath)}"
    environment = {**sandbox_environment(limits, path), "HOME": temporary, "TMPDIR": temporary}
    command = (python.program, "-I", "-c", BOOTSTRAP)
    return Launch(command, environment, folder, own_folder=own)
