"""The demo model of the package: its weights, and a folder with them that Transformers loads.

The package contains the weights of the layers and the trained rows of the embedding. The folder has
all 201,088 rows, once for the embedding and once for the head, as in gpt-oss, and the files of a
Hugging Face tokenizer that gives the same tokens as the encoding. It is written once to the user's
cache (114 MB). vLLM and Transformers load it; ``make demo-gguf`` converts it for llama.cpp. The
engine in NumPy needs no folder: it takes the rows that differ, some 15,000.
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
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .demo_embedding import CODE_SIGNS, word_codes
from .safetensors_file import Array, read_safetensors, rounded_to_bfloat16, write_bfloat16
from .tokenizer_files import tokenizer_config, tokenizer_json
from .user_cache import user_cache

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


class DemoWeights(NamedTuple):
    """The model: `vectors` has the row of each token in the embedding, which is also the head."""

    config: dict[str, Any]
    weights: dict[str, Array]
    vectors: npt.NDArray[np.intp]


def demo_weights() -> DemoWeights:
    """Return the weights in the package, in float32, with the names of Transformers."""
    packaged = read_safetensors(_packaged(_WEIGHTS))
    codes, kinds = word_codes()
    used = packaged["used_tokens"]
    # Tokens without a code of their own, and not trained, have the row of their kind.
    own: npt.NDArray[np.bool_] = np.any(codes, axis=1)
    own[used] = True
    vectors = np.where(own, len(packaged["kinds"]) - 1 + np.cumsum(own), kinds)
    coded = packaged["kinds"][kinds[own]] + codes[own] @ (packaged["projection"] / CODE_SIGNS**0.5)
    rows = rounded_to_bfloat16(np.concatenate([packaged["kinds"], coded]))
    rows[vectors[used]] = packaged["used_rows"]
    weights = {"model.embed_tokens.weight": rows}
    weights |= {f"model.{k}": v for k, v in packaged.items() if k not in _EMBEDDING_PARTS}
    return DemoWeights(json.loads(_packaged("config.json")), weights, vectors)


def _write(folder: Path) -> None:
    for name in _COPIED:
        (folder / name).write_bytes(_packaged(name))
    _, weights, vectors = demo_weights()
    # The head has its own copy of the rows, because llama.cpp and tensor parallelism do not tie it
    # to the embedding.
    embedding = weights["model.embed_tokens.weight"][vectors]
    weights |= {"model.embed_tokens.weight": embedding, "lm_head.weight": embedding}
    write_bfloat16(folder / "model.safetensors", weights)
    for name, content in (
        ("tokenizer.json", tokenizer_json()),
        ("tokenizer_config.json", tokenizer_config()),
    ):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
