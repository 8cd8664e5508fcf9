"""The built playground for tests: skip without it, or fail where `make test-playground` runs."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "site"
NODE_PROGRAM = ROOT / "scripts" / "playground" / "node.mjs"


def _missing(problem: str) -> None:
    if os.environ.get("HARMONY_TEST_PLAYGROUND"):
        pytest.fail(problem)
    pytest.skip(problem)


def built_playground() -> Path:
    """Return the folder of the site with a playground in it."""
    if not (SITE / "playground" / "index.html").exists():
        _missing("there is no playground; run: make playground")
    return SITE


def node_command(program: Path) -> list[str]:
    """Return the command that runs a Python program in the playground's Python."""
    built_playground()
    node = shutil.which("node")
    if node is None:
        _missing("Node is not installed")
        raise AssertionError
    return [node, str(NODE_PROGRAM), str(program)]


class _Files(http.server.SimpleHTTPRequestHandler):
    """A plain file server, which sends no policy and does not compress."""

    protocol_version = "HTTP/1.1"

    def guess_type(self, path: Any) -> str:
        """Name the types of scripts as every server should, whatever this machine has noted."""
        ending = str(path).rpartition(".")[2]
        types = {"js": "text/javascript", "mjs": "text/javascript", "wasm": "application/wasm"}
        return types.get(ending) or super().guess_type(path)

    def send_head(self) -> Any:
        """Note the path."""
        cast("FileServer", self.server).sent.append(self.path)
        return super().send_head()

    def log_message(self, *_: object) -> None:
        pass


class FileServer(http.server.ThreadingHTTPServer):
    """Serves a folder, and notes the paths that it was asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), functools.partial(_Files, directory=str(folder)))
        self.sent: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


@contextmanager
def file_server(folder: Path) -> Iterator[FileServer]:
    """Serve a folder."""
    server = FileServer(folder)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
