"""Starts an attendant in namespaces of its own, by bubblewrap.

It has no network, a file system of read-only parts and of folders in memory, no capabilities, a
system call filter, and no other process to see. Where the server runs as root, bubblewrap makes the
namespaces with root's rights and the attendant changes to a user that nobody else has; elsewhere,
all happens in a user namespace of its own.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterable

from .errors import SandboxError
from .launch import BOOTSTRAP, Launch, sandbox_environment
from .limits import Limits
from .python_environment import PythonEnvironment
from .system_calls import system_call_filter

__all__ = ["DATA_FOLDER", "bubblewrap_launch", "find_bubblewrap"]

DATA_FOLDER = "/mnt/data"
"""The folder of the notebook, as the model knows it."""

_OLDEST = (0, 8)
_SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_SYSTEM_FILES = ("/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/localtime")
_USER = 1000  # in a user namespace
_FIRST_USER, _USERS = 1_900_000_000, 1 << 24  # for root's sandboxes: no system gives these away

# Gives up root and all capabilities, then becomes the Python that reads its program.
_CHANGE_USER = (
    "import ctypes, os, sys; libc = ctypes.CDLL(None); user = int(sys.argv[1]); "
    "[libc.prctl(24, capability, 0, 0, 0) for capability in range(64)]; "  # PR_CAPBSET_DROP
    "os.setgroups([]); os.setresgid(user, user, user); os.setresuid(user, user, user); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
)


def find_bubblewrap() -> str | None:
    """Return the path of ``bwrap``; None where there is none, or only an old one."""
    program = shutil.which("bwrap")
    if program is None:
        return None
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"(\d+)\.(\d+)", told.stdout)
    if found is None or (int(found[1]), int(found[2])) < _OLDEST:
        return None
    return program


def bubblewrap_launch(
    program: str,
    python: PythonEnvironment,
    limits: Limits,
    *,
    readable: Iterable[str] = (),
    as_root: bool | None = None,
) -> Launch:
    """Write the command line; `readable` are folders to be seen besides those of Python.

    `as_root` says whether the server is root, which it finds out itself. Raises `SandboxError`.
    """
    as_root = os.geteuid() == 0 if as_root is None else as_root
    user = _FIRST_USER + secrets.randbelow(_USERS) if as_root else _USER
    seen = _outermost([*python.folders, *map(os.path.abspath, readable)])
    path = f"{os.path.dirname(python.program)}:/usr/local/bin:/usr/bin:/bin"
    open_files: list[int] = []
    command = [
        program,
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup"),
        *(_as_root() if as_root else _in_user_namespace()),
        *("--hostname", "notebook", "--die-with-parent", "--new-session", "--clearenv"),
        *_environment(sandbox_environment(limits, path)),
        *_system(),
        *_files(user, open_files),
        *_in_memory("/tmp", limits.temporary),
        *_read_only(seen),  # which may be in /tmp
        *("--proc", "/proc", "--dev", "/dev"),
        *_in_memory("/dev/shm", limits.temporary),
        *("--remount-ro", "/dev"),
        *_in_memory(DATA_FOLDER, limits.disk),
        *("--remount-ro", "/", "--chdir", DATA_FOLDER),
        *("--seccomp", str(_open_file(system_call_filter(), open_files)), "--"),
    ]
    start = [python.program, "-I", "-c"]
    if as_root:
        command += [*start, _CHANGE_USER, str(user), "-I", "-c", BOOTSTRAP]
    else:
        command += [*start, BOOTSTRAP]
    # What bwrap itself has in its environment, its child can read in /proc/1/environ.
    return Launch(tuple(command), {}, DATA_FOLDER, tuple(open_files), has_own_user=True)


def _as_root() -> list[str]:
    kept = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")  # to give them up
    return ["--cap-drop", "ALL", *(part for name in kept for part in ("--cap-add", name))]


def _in_user_namespace() -> list[str]:
    user = str(_USER)
    return ["--unshare-user", "--disable-userns", "--uid", user, "--gid", user]


def _environment(variables: dict[str, str]) -> list[str]:
    return [part for name, value in variables.items() for part in ("--setenv", name, value)]


def _system() -> list[str]:
    """Show the programs and libraries of the system, and none of its settings."""
    arguments = []
    for folder in _SYSTEM_FOLDERS:
        if os.path.islink(folder):
            arguments += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            arguments += ["--ro-bind", folder, folder]
    arguments += ["--perms", "0755", "--dir", "/etc"]
    for file in _SYSTEM_FILES:
        arguments += ["--ro-bind-try", file, file]
    return arguments


def _files(user: int, open_files: list[int]) -> list[str]:
    """Make the few files of /etc that programs ask for."""
    texts = {
        "/etc/passwd": f"notebook:x:{user}:{user}::/tmp:/bin/sh\n",
        "/etc/group": f"notebook:x:{user}:\n",
        "/etc/hosts": "127.0.0.1 localhost notebook\n::1 localhost\n",
    }
    arguments = []
    for name, text in texts.items():
        descriptor = _open_file(text.encode("ascii"), open_files)
        arguments += ["--perms", "0444", "--ro-bind-data", str(descriptor), name]
    return arguments


def _read_only(folders: Iterable[str]) -> list[str]:
    """Show folders where they are; the folders above them are empty but for them."""
    arguments: list[str] = []
    made = {"/tmp"}
    for folder in folders:
        if folder == "/usr" or folder.startswith("/usr/"):
            continue
        above = folder.split("/")[1:-1]
        for depth in range(1, len(above) + 1):
            outer = "/" + "/".join(above[:depth])
            if outer not in made:
                arguments += ["--perms", "0755", "--dir", outer]
                made.add(outer)
        arguments += ["--ro-bind", folder, folder]
    return arguments


def _outermost(folders: Iterable[str]) -> list[str]:
    found: list[str] = []
    for folder in sorted(set(folders)):
        if folder == "/" or not os.path.isdir(folder):
            raise SandboxError(f"{folder} is no folder that a notebook may see")
        if not any(folder.startswith(f"{outer}/") for outer in found):
            found.append(folder)
    return found


def _in_memory(folder: str, size: int) -> list[str]:
    return ["--perms", "1777", "--size", str(size), "--tmpfs", folder]


def _open_file(data: bytes, open_files: list[int]) -> int:
    """Hold bytes in a file without a name, at their start; the descriptor is added to the list."""
    descriptor = os.memfd_create("sandbox", os.MFD_CLOEXEC)
    open_files.append(descriptor)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
