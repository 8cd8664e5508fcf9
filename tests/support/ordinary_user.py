"""Sandboxes of a server that runs as a real ordinary user, also when the tests run as root."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import gpt_oss_harmony
from gpt_oss_harmony.tools.python.sandbox.limits import process_tree

USER = 65534  # nobody, which has no files and no other processes
_SOURCE = str(Path(gpt_oss_harmony.__file__).parents[1])

# A server in short: it answers each line, a cell as JSON, with its text as JSON.
_SERVER = """
import asyncio, json, sys
from dataclasses import replace
from gpt_oss_harmony.tools.python.sandbox import Limits, Sandbox
from gpt_oss_harmony.tools.python.sandbox.bubblewrap import bubblewrap_launch, find_bubblewrap
from gpt_oss_harmony.tools.python.sandbox.launch import find_python

async def main():
    limits = Limits(memory=1 << 30, disk=8 << 20, temporary=4 << 20, processes=64)
    launch = bubblewrap_launch(find_bubblewrap(), find_python(), limits)
    sandbox = await Sandbox.start(replace(launch, **json.loads(sys.argv[1])), limits)
    print(json.dumps("started"), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        answer = await sandbox.run(code=json.loads(line), characters=10_000, image_bytes=0)
        print(json.dumps(answer["first"] + answer["last"]), flush=True)
    await sandbox.close()

asyncio.run(main())
"""


def _as_ordinary_user(command: list[str]) -> list[str]:
    """Return the command that an ordinary user runs.

    If that is not who runs the tests, it gets a view of the file system in which the folders of
    Python can be read, although they may be below the home folder of root.
    """
    if os.geteuid() != 0:
        return command
    hidden: dict[Path, list[str]] = defaultdict(list)
    for folder in {sys.prefix, sys.base_prefix, _SOURCE}:
        closed = next(
            (above for above in Path(folder).parents[::-1] if not above.stat().st_mode & 0o001),
            None,
        )
        if closed is not None:
            hidden[closed].append(folder)
    steps = ["set -e"]
    for closed, folders in hidden.items():
        for number, folder in enumerate(folders):
            steps += [f"mkdir -p /dev/shm/{number}", f"mount --bind {folder} /dev/shm/{number}"]
        steps.append(f"mount -t tmpfs -o mode=755 tmpfs {closed}")
        for number, folder in enumerate(folders):
            steps += [f"mkdir -p {folder}", f"mount --move /dev/shm/{number} {folder}"]
    user = f"setpriv --reuid {USER} --regid {USER} --clear-groups"
    steps.append(f"exec {user} {shlex.join(command)}")
    # The folders for moving are made in a file system of this command alone.
    steps.insert(1, "mount -t tmpfs tmpfs /dev/shm")
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(steps)]


def _missing() -> str:
    command = ["bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "true"]
    try:
        done = subprocess.run(
            _as_ordinary_user(command), capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        return f"there is no way to become an ordinary user here: {error}"
    return f"an ordinary user cannot make sandboxes here: {done.stderr}" if done.returncode else ""


_MISSING = _missing()
needs_ordinary_user = pytest.mark.skipif(bool(_MISSING), reason=_MISSING)


class OrdinaryServer:
    """A server of an ordinary user with one sandbox; `changes` are those of its launch."""

    def __init__(self, **changes: object) -> None:
        program = [sys.executable, "-c", _SERVER, json.dumps(changes)]
        self.process = subprocess.Popen(
            _as_ordinary_user(["env", f"PYTHONPATH={_SOURCE}", *program]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        assert self._answer() == "started"

    def send(self, code: str) -> None:
        """Send a cell."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()

    def text(self, code: str) -> str:
        """Run a cell and return its text."""
        self.send(code)
        return str(self._answer()).rstrip("\n")

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def sandboxed(self) -> list[int]:
        """Return the processes of the sandbox, with bubblewrap and the agent first."""
        return process_tree(self.process.pid)[1:]

    def close(self) -> None:
        """Kill the server."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
