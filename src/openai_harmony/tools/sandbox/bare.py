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
    folder = tempfile.TemporaryDirectory(prefix="notebook-", ignore_cleanup_errors=True)
    path = f"{os.path.dirname(python.program)}:{os.environ.get('PATH', os.defpath)}"
    command = (python.program, "-I", "-c", BOOTSTRAP)
    environment = sandbox_environment(limits, path)
    return Launch(command, environment, folder.name, own_folder=folder)
