"""Reading documents in processes of their own, whose time and memory are bounded."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

from ..tool_error import ToolError
from .page_reading import ReadPage

__all__ = ["ReadingProcesses"]

# Isolated: neither the current folder nor the environment may say what is imported. The paths are
# those of this process; `page_reading` is imported without its parents, which take far longer.
_PROGRAM = (
    "import runpy, sys; sys.path += sys.argv[1:]; "
    "runpy.run_module('page_reading', run_name='__main__', alter_sys=True)"
)


class ReadingProcesses:
    """Reads one document in each process, `at_once` of them at most.

    `seconds` is the time that one may take, `memory` the bytes of its address space.
    """

    def __init__(self, *, seconds: int, memory: int, at_once: int) -> None:
        self._seconds = seconds
        self._memory = memory
        self._places = asyncio.Semaphore(at_once)

    async def read(
        self, body: bytes, *, content_type: str, address: str, limit: int, source: bool, cut: bool
    ) -> ReadPage:
        """Read a document as `read_body` does; all errors are `ToolError`."""
        request = {
            "content_type": content_type,
            "address": address,
            "limit": limit,
            "source": source,
            "cut": cut,
            "seconds": self._seconds,
            "memory": self._memory,
        }
        async with self._places:
            answer = await self._run(json.dumps(request).encode() + b"\n" + body, address)
        if "error" in answer:
            raise ToolError(f"cannot show {address}: {answer['error']}")
        return ReadPage(**answer["page"])

    async def _run(self, sent: bytes, address: str) -> dict[str, Any]:
        paths = [path for path in sys.path if path]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-c", _PROGRAM, *paths, str(Path(__file__).parent)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env={},
        )
        try:
            answer, _ = await asyncio.wait_for(process.communicate(sent), self._seconds)
        except asyncio.TimeoutError:
            raise ToolError(
                f"cannot show {address}: reading it takes longer than {self._seconds} seconds"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise ToolError(f"cannot show {address}: it takes too long to read, or is too large")
        found: dict[str, Any] = json.loads(answer)
        return found
