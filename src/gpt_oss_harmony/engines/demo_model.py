"""The demo model of the package, written as a folder that Transformers loads.

The package contains the weights of the layers and the trained rows of the embedding. The folder has
all 201,088 rows, once for the embedding and once for the head, as in gpt-oss, and the files of a
Hugging Face tokenizer that gives the same tokens as the encoding. It is written once to the user's
cache (114 MB). vLLM and Transformers load it; ``make demo-gguf`` converts it for llama.cpp.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import shutil
import tempfile
from importlib import resources
from pathlib import Path

import torch
from safetensors.torch import load, save_file

from .demo_embedding import CODE_SIGNS, word_codes
from .tokenizer_files import tokenizer_config, tokenizer_json
from .user_cache import user_cache

__all__ = ["demo_model_folder"]

_LOG = logging.getLogger(__name__)

_EDITION = 3
"""Increase this number if the module writes other files from the same package data."""

_COPIED = ("README.md", "chat_template.jinja", "config.json", "generation_config.json")
_WEIGHTS = "weights.safetensors"
_EMBEDDING_PARTS = ("used_rows", "used_tokens", "kinds", "projection")


def demo_model_folder(cache: Path | None = None) -> Path:
    """Return the folder of the demo model; the first call writes it (114 MB).

    `cache` is the parent folder, by default ``XDG_CACHE_HOME`` or the user's cache. Several
    processes may call this function at once. Raises `OSError` if the folder cannot be written.
    """
    root = user_cache(cache)
    folder = root / f"demo-model-{_edition()}"
    if folder.is_dir():
        return folder
    _LOG.info("writing the demo model that comes with the package to %s, once", folder)
    root.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=root))
    try:
        _write(unfinished)
        unfinished.chmod(0o755)
        with contextlib.suppress(OSError):  # another process was faster
            unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    if not folder.is_dir():
        raise OSError(f"cannot make {folder}; pass another cache, or set XDG_CACHE_HOME")
    return folder


def _packaged(name: str) -> bytes:
    return (resources.files("gpt_oss_harmony") / "data" / "demo_model" / name).read_bytes()


@functools.cache
def _edition() -> str:
    """A name that changes with the contents of the folder."""
    digest = hashlib.sha256(str(_EDITION).encode())
    for name in (*_COPIED, _WEIGHTS):
        digest.update(_packaged(name))
    return digest.hexdigest()[:12]


def _write(folder: Path) -> None:
    for name in _COPIED:
        (folder / name).write_bytes(_packaged(name))
    packaged = load(_packaged(_WEIGHTS))
    codes, kinds = word_codes()
    projection = packaged["projection"].float() / CODE_SIGNS**0.5
    by_kind = packaged["kinds"].float()[torch.from_numpy(kinds)]
    rows = torch.addmm(by_kind, torch.from_numpy(codes), projection).to(torch.bfloat16)
    rows[packaged["used_tokens"].long()] = packaged["used_rows"]
    # The names are those of Transformers. The head has its own copy of the rows, because llama.cpp
    # and tensor parallelism do not tie it to the embedding.
    weights = {"model.embed_tokens.weight": rows, "lm_head.weight": rows.clone()}
    weights |= {f"model.{k}": v for k, v in packaged.items() if k not in _EMBEDDING_PARTS}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    for name, content in (
        ("tokenizer.json", tokenizer_json()),
        ("tokenizer_config.json", tokenizer_config()),
    ):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
