"""What the tests of the python tool share: a tool with a real kernel in the real sandbox."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import ipykernel  # noqa: F401 - what notebooks run; without it their tests are skipped
import pytest

from gpt_oss_harmony import Message, Role
from gpt_oss_harmony.tools.python.notebook import NotebookOutput
from gpt_oss_harmony.tools.python.python_tool import PythonTool
from gpt_oss_harmony.tools.python.sandbox import Limits
from gpt_oss_harmony.tools.python.sandbox.bubblewrap import find_bubblewrap
from gpt_oss_harmony.tools.python.sandbox.launch import Launch
from gpt_oss_harmony.tools.python.session import PythonSession
from gpt_oss_harmony.tools.python.settings import PythonSettings

_Found = TypeVar("_Found")

MIB = 1 << 20
PATIENCE = 600
"""Seconds for what takes a few, and in a sandbox, which has the lowest priority, many."""

SETTINGS = PythonSettings(
    seconds=60,
    grace_seconds=20,
    output_characters=2000,
    attachment_bytes=100_000,
    prestarted=0,
    limits=Limits(memory=1024 * MIB, disk=8 * MIB, temporary=4 * MIB, processes=64),
)


def _missing() -> str:
    program = find_bubblewrap()
    if program is None:
        return "bubblewrap 0.8 or newer is not installed"
    done = subprocess.run(
        [program, "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"bubblewrap does not work here: {done.stderr}" if done.returncode else ""


_set = object.__setattr__  # also where a data class is frozen

_MISSING = _missing()
needs_bubblewrap = pytest.mark.skipif(bool(_MISSING), reason=_MISSING)


class Conversation:
    """A session of a tool, driven from tests that are not asynchronous."""

    def __init__(self, settings: PythonSettings) -> None:
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self.tool = PythonTool(settings)
        self.session = PythonSession()

    def wait(self, doing: Awaitable[_Found]) -> _Found:
        """Run the loop until something is done."""
        return self._loop.run_until_complete(doing)

    def run(self, code: str, seconds: float | None = None) -> NotebookOutput:
        """Run a cell; `seconds` limits this one, so that others have time on a busy machine."""
        usual = self._settings.seconds
        _set(self._settings, "seconds", usual if seconds is None else seconds)
        try:
            return self.wait(self.tool.run(code, self.session))
        finally:
            _set(self._settings, "seconds", usual)

    def text(self, code: str, seconds: float | None = None) -> str:
        """Run a cell and return its text."""
        return self.run(code, seconds).text

    def close(self) -> None:
        """End the tool and the loop."""
        self.wait(self.tool.close())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


def false_agent(program: str) -> Launch:
    """Start a program in the agent's place; `answer` writes a frame, `ask` reads one."""
    start = (
        "import json, os, struct, sys\n"
        "def answer(text, data=b''):\n"
        "    os.write(1, struct.pack('>II', len(text), len(data)) + text + data)\n"
        "def ask():\n"
        "    sizes = struct.unpack('>II', sys.stdin.buffer.read(8))\n"
        "    return json.loads(sys.stdin.buffer.read(sizes[0])), sys.stdin.buffer.read(sizes[1])\n"
        "sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))\n"
    )
    return Launch((sys.executable, "-c", start + program), {}, "/")


@contextmanager
def conversation(**changes: object) -> Iterator[Conversation]:
    """Begin a conversation with a tool of its own, with these changes to the usual settings."""
    begun = Conversation(replace(SETTINGS, **changes))  # type: ignore[arg-type]
    try:
        yield begun
    finally:
        begun.close()


def call(code: str, recipient: str = "python", channel: str = "analysis") -> Message:
    """Make a call as the model does."""
    message = Message.from_role_and_content(Role.ASSISTANT, code)
    return message.with_recipient(recipient).with_channel(channel)
