"""The two libraries that ours is compared with: openai-harmony and its fork.

Both are imported as `openai_harmony`, so a process can import one of them, beside ours. Each lies
in a folder of its own (``build/peers``), where it is installed from PyPI when it is first needed;
nothing is downloaded after that.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from gpt_oss_harmony.tokens.vocabulary import load_vocabulary

__all__ = ["PEERS", "ROOT", "import_peer", "peer_environment", "peer_folder", "write_vocabulary"]

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS = {
    "reference": "openai-harmony==0.0.8",
    "fork": "oss-harmony==0.0.11",
}


def peer_folder(name: str) -> Path | None:
    """Return the folder of a peer, installed if it is not there; None if it cannot be had."""
    folder = ROOT / "build" / "peers" / name
    if not (folder / "ready").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
        command += ["--target", str(folder), PEERS[name]]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return None
        write_vocabulary(folder / "o200k_base.tiktoken")
        (folder / "ready").touch()
    return folder


def peer_environment(name: str) -> dict[str, str]:
    """Return the variables with which an interpreter imports a peer, and finds its vocabulary."""
    folder = str(ROOT / "build" / "peers" / name)
    return {**os.environ, "PYTHONPATH": folder, "TIKTOKEN_ENCODINGS_BASE": folder}


def import_peer(name: str) -> ModuleType | None:
    """Import a peer into this process, where it stays; None if it cannot be had."""
    folder = peer_folder(name)
    if folder is None:
        return None
    os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(folder)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    peer = importlib.import_module("openai_harmony")
    if Path(str(peer.__file__)).parent.parent != folder:
        raise RuntimeError(f"{peer.__file__} is imported already; use a process for each peer")
    return peer


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
