"""Starting a sandbox: its Python, its environment, and the command that starts its agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import resources

from ....errors import HarmonyError
from ....installation import requirement
from .agent import MODULES
from .limits import Limits

DATA_FOLDER = "/mnt/data"
"""The folder of the notebook in the prompt of the tool."""

WRITABLE_FOLDERS = (DATA_FOLDER, "/tmp", "/dev/shm")
"""The folders of a sandbox that code can write to; each is a file system in memory."""

_PROBE_SECONDS = 60
# The interpreter lists what it needs. Environments (venv, conda) contain nothing else; other
# prefixes, such as ~/.local, may.
_PROBE = """
import importlib.util, json, os, sys, sysconfig
missing = [n for n in ("ipykernel", "jupyter_client") if importlib.util.find_spec(n) is None]
prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
needed = [sys.executable, os.path.realpath(sys.executable)]
for prefix in prefixes:
    if any(os.path.exists(os.path.join(prefix, mark)) for mark in ("pyvenv.cfg", "conda-meta")):
        needed.append(prefix)
    else:
        needed += [os.path.join(prefix, part) for part in ("bin", "lib", "lib64")]
needed += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
try:
    with open("/proc/self/maps") as maps:
        needed += {line.split(None, 5)[5].rstrip() for line in maps if ".so" in line}
except OSError:
    pass
print(json.dumps({"missing": missing, "program": sys.executable, "prefixes": list(prefixes),
                  "needed": [path for path in needed if os.path.exists(path)]}))
"""


class SandboxError(HarmonyError):
    """A sandbox cannot be made; the message names what to install or to set."""


class SandboxGone(HarmonyError):
    """The sandbox has ended, or does not answer; `why` is the end of a sentence about it."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the sandbox is gone: {why}")
        self.why = why


@dataclass(frozen=True)
class PythonEnvironment:
    """A Python with ipykernel, and the folders and files that it needs, sorted."""

    program: str
    needed: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    """The folders in which it is installed: they may contain more than Python."""


def find_python(program: str | None = None) -> PythonEnvironment:
    """Inspect a Python, by default the one of this process. Raises `SandboxError`.

    `program` may be a script that runs a Python: the notebook gets only that Python.

    >>> find_python().program == os.path.abspath(sys.executable)
    True
    """
    program = os.path.abspath(os.path.expanduser(program or sys.executable))
    try:
        done = subprocess.run(
            [program, "-I", "-c", _PROBE], capture_output=True, check=True, timeout=_PROBE_SECONDS
        )
        probed = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SandboxError(f"{program} is not a Python that runs: {error}") from error
    if probed["missing"]:
        is_ours = program == os.path.abspath(sys.executable)
        packages = requirement("tools") if is_ours else "ipykernel jupyter_client"
        raise SandboxError(
            f"the Python of the notebook, {program}, lacks {' and '.join(probed['missing'])}: "
            f"run: {program} -m pip install {packages}"
        )
    needed = {os.path.abspath(path) for path in probed["needed"]}
    needed |= {os.path.realpath(path) for path in needed}
    return PythonEnvironment(
        os.path.abspath(probed["program"]), tuple(sorted(needed)), tuple(probed["prefixes"])
    )


BOOTSTRAP = """
import json, sys, types
def module(name):
    sys.modules[name] = made = types.ModuleType(name)
    made.__package__ = "agent"
    return made
module("agent").__path__ = []
for name, source in json.loads(sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))):
    exec(compile(source, name, "exec"), module("agent." + name).__dict__)
sys.modules["agent.requests"].main()
"""
"""Code for ``python -c``: it reads the agent from standard input, after a line with its size."""


def agent_source() -> bytes:
    """Return what `BOOTSTRAP` reads: the modules of the agent, after a line with their size."""
    files = resources.files(f"{__package__}.agent")
    modules = [(name, files.joinpath(f"{name}.py").read_text("utf-8")) for name in MODULES]
    text = json.dumps(modules).encode("ascii")
    return b"%d\n" % len(text) + text


@dataclass(frozen=True)
class Launch:
    """A command that starts a sandbox agent. It can run once; `close` it afterwards."""

    command: tuple[str, ...]
    environment: dict[str, str]
    folder: str
    """The path of the notebook's folder inside the sandbox."""
    open_files: tuple[int, ...] = ()
    """Descriptors that the command inherits."""
    end_command: tuple[str, ...] = ()
    """The command that ends the sandbox where killing its process is not enough."""
    own_folder: tempfile.TemporaryDirectory[str] | None = None
    """The notebook's folder, if it is in the file system of the server."""
    writable: tuple[str, ...] = ()
    """The only folders that the code may write to; empty if there is no sandbox."""
    is_bubblewrap: bool = False
    """True if the child of the process is process 1 of a sandbox whose user nothing else has: then
    the server can limit the number of its processes and files."""

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in self.open_files:
            os.close(descriptor)


def sandbox_environment(limits: Limits, path: str) -> dict[str, str]:
    """Return the environment of the notebook; it contains nothing of the server's."""
    threads = str(min(limits.threads, os.cpu_count() or 1))
    return {
        "PATH": path,
        "HOME": "/tmp",
        "USER": "notebook",
        "LOGNAME": "notebook",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "MALLOC_ARENA_MAX": "2",  # each arena takes 64 MiB of the address space
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "NUMEXPR_MAX_THREADS": threads,
        "MPLCONFIGDIR": "/tmp/matplotlib",
        "JUPYTER_RUNTIME_DIR": "/tmp/jupyter",
    }
