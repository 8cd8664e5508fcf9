"""The two libraries that ours is compared with, each in a virtual environment of its own.

They have the same import name. The environments are made when they are first asked for
(``.venv-reference``, ``.venv-fork``), from PyPI; nothing is downloaded after that.
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import venv
from pathlib import Path

from gpt_oss_harmony.tokens.vocabulary import load_vocabulary

__all__ = ["PEERS", "ROOT", "peer_environment", "peer_python", "write_vocabulary"]

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS = {
    "reference": "openai-harmony==0.0.8",
    "fork": "oss-harmony==0.0.11",
}


def peer_python(name: str) -> Path | None:
    """Make the peer's virtual environment if it is not there; None when it cannot be had."""
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "--quiet", PEERS[name]]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return None
        write_vocabulary(folder / "o200k_base.tiktoken")
        (folder / "ready").touch()
    return python


def peer_environment(python: Path) -> dict[str, str]:
    """Environment variables that tell a peer's interpreter where its vocabulary lies.

    Without ``PYTHONPATH``, which could put our package in the place of the peer's.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "TIKTOKEN_ENCODINGS_BASE": str(python.parent.parent)}


def write_vocabulary(path: Path) -> None:
    """Write our vocabulary as the official file, which the peers would download."""
    vocabulary = load_vocabulary()
    lines = (
        base64.b64encode(vocabulary[rank]) + f" {rank}\n".encode()
        for rank in range(len(vocabulary))
    )
    official = b"".join(lines)
    digest = hashlib.sha256(official).hexdigest()
    assert digest.startswith("446a9538cb6c348e"), digest
    path.write_bytes(official)
