"""Isolation by bubblewrap: the agent runs in namespaces of its own.

The sandbox has no network, a file system of read-only parts and of folders in memory, no
capabilities, a system call filter, and sees no other process.

- If the server runs as root, bubblewrap makes the namespaces with root's rights, and the agent
  changes to a user that nothing else has. Process 1 of the sandbox is of bubblewrap and of root.
- Otherwise everything happens in a new user namespace, and all processes have one user. The agent
  is process 1, because it protects itself, and bubblewrap's own process 1 does not.

The code cannot reach process 1 in either way. Everything ends with it, it ends with the bubblewrap
outside, and that ends with the server.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterable

from .launch import (
    BOOTSTRAP,
    DATA_FOLDER,
    WRITABLE_FOLDERS,
    Launch,
    PythonEnvironment,
    SandboxError,
    sandbox_environment,
)
from .limits import Limits
from .system_calls import system_call_filter

_OLDEST = (0, 8)
_SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_SYSTEM_FILES = ("/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/localtime")
_USER = 1000  # in a user namespace
_FIRST_USER, _USERS = 1_900_000_000, 1 << 24  # for root's sandboxes: systems assign lower ids

# Gives up root and all capabilities, then becomes the Python that reads its program.
_CHANGE_USER = (
    "import ctypes, os, sys; libc = ctypes.CDLL(None); user = int(sys.argv[1]); "
    # In this order: without root's user id, neither the capabilities nor the groups can change.
    "[libc.prctl(24, capability, 0, 0, 0) for capability in range(64)]; "  # PR_CAPBSET_DROP
    "os.setgroups([]); os.setresgid(user, user, user); os.setresuid(user, user, user); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
)


def find_bubblewrap() -> str | None:
    """Return the path of ``bwrap``; None if it is missing or too old."""
    program = shutil.which("bwrap")
    if program is None:
        return None
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    number = re.search(r"(\d+)\.(\d+)", version.stdout)
    if number is None or (int(number[1]), int(number[2])) < _OLDEST:
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
    """Write the command line; notebooks see the folders `readable` besides those of Python.

    `as_root` says whether the server is root, by default as the system says. Raises `SandboxError`.
    """
    as_root = os.geteuid() == 0 if as_root is None else as_root
    user = _FIRST_USER + secrets.randbelow(_USERS) if as_root else _USER
    _refuse_homes(python)
    visible = _outermost([*python.needed, *map(os.path.abspath, readable)])
    path = f"{os.path.dirname(python.program)}:/usr/local/bin:/usr/bin:/bin"
    variables = sandbox_environment(limits, path)
    if as_root:
        kept = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")  # which _CHANGE_USER gives up
        rights = ["--cap-drop", "ALL", *(part for name in kept for part in ("--cap-add", name))]
    else:
        ids = ("--uid", str(user), "--gid", str(user))
        rights = ["--as-pid-1", "--unshare-user", "--disable-userns", *ids]
    open_files: list[int] = []
    command = [
        program,
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup"),
        *rights,
        # Without a session of its own, code could type into the terminal of the server.
        *("--die-with-parent", "--new-session", "--hostname", "notebook", "--clearenv"),
        *(part for item in variables.items() for part in ("--setenv", *item)),
        *_system_folders(),
        *_etc_files(user, open_files),
        *_in_memory("/tmp", limits.temporary),
        *_read_only(visible),  # which may be in /tmp
        *("--proc", "/proc", "--dev", "/dev"),
        *_in_memory("/dev/shm", limits.temporary),
        # After /dev/shm, which is a mount of its own and stays writable.
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
    return Launch(
        tuple(command),
        {},
        DATA_FOLDER,
        tuple(open_files),
        writable=WRITABLE_FOLDERS,
        is_bubblewrap=True,
    )


def _system_folders() -> list[str]:
    """Show the programs and libraries of the system, without its settings."""
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


def _etc_files(user: int, open_files: list[int]) -> list[str]:
    """Make the few files of /etc that programs need."""
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


def _refuse_homes(python: PythonEnvironment) -> None:
    """Raise `SandboxError` if a Python is installed in the home folder of a person, or above it."""
    import pwd  # Linux has it, and the sandbox needs Linux

    own = (os.path.expanduser("~"), pwd.getpwuid(os.geteuid()).pw_dir, "/root")
    homes = {os.path.realpath(home) for home in own}
    for prefix in map(os.path.realpath, python.prefixes):
        is_shown = any(_is_below(prefix, folder) for folder in _SYSTEM_FOLDERS)
        is_home = "/home" in (prefix, os.path.dirname(prefix))
        if not is_shown and (is_home or any(_is_below(home, prefix) for home in homes)):
            raise SandboxError(
                f"{python.program} is installed in {prefix}, which a notebook must not see: make "
                f"an environment for notebooks ({python.program} -m venv /opt/notebook) with "
                "ipykernel and jupyter_client, and name its Python"
            )


def _is_below(path: str, folder: str) -> bool:
    """Return whether a path is a folder or below it."""
    return os.path.commonpath((path, folder)) == folder


def _read_only(paths: Iterable[str]) -> list[str]:
    """Show folders and files at their paths; the folders above them contain nothing else."""
    arguments: list[str] = []
    made = {"/tmp"}
    for path in paths:
        if any(_is_below(path, folder) for folder in _SYSTEM_FOLDERS):
            continue
        above = path.split("/")[1:-1]
        for depth in range(1, len(above) + 1):
            outer = "/" + "/".join(above[:depth])
            if outer not in made:
                arguments += ["--perms", "0755", "--dir", outer]
                made.add(outer)
        arguments += ["--ro-bind", path, path]
    return arguments


def _outermost(paths: Iterable[str]) -> list[str]:
    """Return the paths that are not inside of another one."""
    outermost: list[str] = []
    # In this order, a folder comes before what is inside of it.
    for path in sorted(set(paths)):
        if path == "/" or not os.path.exists(path):
            raise SandboxError(f"{path} is not a folder that a notebook may see")
        if not any(_is_below(path, outer) for outer in outermost):
            outermost.append(path)
    return outermost


def _in_memory(folder: str, size: int) -> list[str]:
    return ["--perms", "1777", "--size", str(size), "--tmpfs", folder]


def _open_file(data: bytes, open_files: list[int]) -> int:
    """Write bytes to a file in memory; add its descriptor, at the start, to the list."""
    descriptor = os.memfd_create("sandbox", os.MFD_CLOEXEC)
    open_files.append(descriptor)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
