"""The Python that the notebook runs in: its program, and the folders it needs to see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

from .errors import SandboxError

__all__ = ["PythonEnvironment", "find_python"]

_SECONDS = 60
_PROBE = """
import importlib.util, json, os, sys
missing = [n for n in ("ipykernel", "jupyter_client") if importlib.util.find_spec(n) is None]
folders = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
print(json.dumps({"missing": missing, "folders": folders, "version": sys.version_info[:2]}))
"""


@dataclass(frozen=True)
class PythonEnvironment:
    """A Python with ipykernel; `folders` are to be seen in the sandbox, the outer ones first."""

    program: str
    folders: tuple[str, ...]


def find_python(program: str | None = None) -> PythonEnvironment:
    """Look at a Python; that of this process where none is named. Raises `SandboxError`.

    >>> find_python().program == os.path.abspath(sys.executable)
    True
    """
    program = os.path.abspath(program or sys.executable)
    try:
        done = subprocess.run(
            [program, "-I", "-c", _PROBE], capture_output=True, check=True, timeout=_SECONDS
        )
        found = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SandboxError(f"{program} is no Python that runs: {error}") from error
    if found["missing"]:
        raise SandboxError(
            f"the Python of the notebook, {program}, lacks {' and '.join(found['missing'])}: "
            f"run '{program} -m pip install ipykernel jupyter_client'"
        )
    real = os.path.realpath(program)
    folders = {*map(os.path.abspath, found["folders"]), os.path.dirname(os.path.dirname(real))}
    if "/" in folders:
        raise SandboxError(f"{program} is installed in /, which the notebook must not see")
    return PythonEnvironment(program, tuple(sorted(folders)))
