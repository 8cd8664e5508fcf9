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
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable
from hashlib import blake2b
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..tokens.special_tokens import FIRST_SPECIAL
from ..tokens.vocabulary import load_vocabulary
from .safetensors_file import Array, read_safetensors, rounded_to_bfloat16, write_bfloat16
from .tokenizer_files import tokenizer_config, tokenizer_json
from .user_cache import user_cache

# The rows of the embedding that are computed, not trained.
#
# A few hundred rows are trained. Every other token gets a vector for its kind (after a space,
# capitalised, ...). Common words also get a code: the word's hash, as signs, times a trained
# matrix. So the model can distinguish and copy words that it was not trained on, and it reads
# " Rome" and "Rome" as the same word.


_Signs: TypeAlias = npt.NDArray[np.float32]
_Places: TypeAlias = npt.NDArray[np.intp]

CODE_SIGNS = 64
"""The length of a word's code, in signs."""

MODEL_ROWS = 201_088
"""The rows of gpt-oss: the vocabulary without its last reserved token."""

KINDS = 14
"""The number of kinds: six by letters, six after a space, special tokens, parts of characters."""

_SPECIAL, _PART_OF_CHARACTER = 12, 13

_KINDS = (str.islower, str.istitle, str.isupper, str.isdecimal, str.isalpha)

_COMMON = 30_000
"""Words get a code if they occur, after a space, among this many most common tokens."""

_NEAREST = 30
"""The largest scalar product of two words' codes."""

_BLOCK = 256
"""The words that are compared with all others at once."""

_DIGIT_SIGNS = 24, 24, 16
"""The signs for the ones, the tens and the hundreds of a number."""

_WORD = re.compile(rb" [A-Za-z][a-z]{2,10}")
_NUMBER = re.compile(rb"[0-9]{1,3}")


def word_codes() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.intp]]:
    """Return the code of every token (1 and -1, or 0 for none) and its kind."""
    pieces = list(load_vocabulary())
    kinds = np.full(MODEL_ROWS, _SPECIAL, dtype=np.intp)
    kinds[:FIRST_SPECIAL] = [_kind(piece) for piece in pieces]
    # Numbers have a code, and common words that are tokens both with and without a space.
    tokens = {piece: token for token, piece in enumerate(pieces)}
    spaced = [p for p in pieces[:_COMMON] if _WORD.fullmatch(p) and p[1:] in tokens]
    numbers = filter(_NUMBER.fullmatch, pieces)
    coded = sorted(tokens[p] for p in (*spaced, *(word[1:] for word in spaced), *numbers))
    words = [pieces[token].strip().lower() for token in coded]
    signs = _signs({word for word in words if not word.isdigit()}, CODE_SIGNS, _NEAREST)
    digits = _digits()
    codes = np.zeros((MODEL_ROWS, CODE_SIGNS), dtype=np.float32)
    codes[coded] = [digits(word) if word.isdigit() else signs[word] for word in words]
    return codes, kinds


def _digits() -> Callable[[bytes], _Signs]:
    """Return a function from a number to its code: signs for its ones, tens and hundreds."""
    names = [b" ", *(b"%d" % digit for digit in range(10))]
    places = [
        _signs([b"%d %s" % (place, name) for name in names], size, size // 4)
        for place, size in enumerate(_DIGIT_SIGNS)
    ]

    def code(number: bytes) -> _Signs:
        digits = number.rjust(len(places))[::-1]
        return np.concatenate(
            [signs[b"%d %c" % (place, digits[place])] for place, signs in enumerate(places)]
        )

    return code


def _signs(words: Iterable[bytes], size: int, nearest: int) -> dict[bytes, _Signs]:
    """Hash each word to signs; hash again if the code is too close to another one."""
    words = sorted(words)
    codes = np.stack([_hash(word, size) for word in words])
    close = np.arange(len(words))
    attempt = 0
    while True:
        # In blocks: all products of 7,000 words at once would take 400 MB.
        blocks = [close[start : start + _BLOCK] for start in range(0, len(close), _BLOCK)]
        close = np.concatenate([block[_are_close(codes, block, nearest)] for block in blocks])
        if not len(close):
            return dict(zip(words, codes, strict=True))
        attempt += 1
        codes[close] = [_hash(b"%s %d" % (words[index], attempt), size) for index in close]


def _are_close(codes: _Signs, rows: _Places, nearest: int) -> npt.NDArray[np.bool_]:
    """Return for some rows of the codes whether another row is too close."""
    shared = codes[rows] @ codes.T
    shared[np.arange(len(rows)), rows] = 0
    are_close: npt.NDArray[np.bool_] = (np.abs(shared, out=shared) > nearest).any(axis=1)
    return are_close


def _hash(word: bytes, size: int) -> _Signs:
    digest = blake2b(word, digest_size=size // 8).digest()
    return np.unpackbits(np.frombuffer(digest, dtype=np.uint8)).astype(np.float32) * 2 - 1


def _kind(piece: bytes) -> int:
    is_spaced = piece[:1] == b" "
    try:
        text = piece[is_spaced:].decode()
    except UnicodeDecodeError:
        return _PART_OF_CHARACTER
    by_letters = 5
    for kind, is_kind in enumerate(_KINDS):
        if is_kind(text):
            by_letters = kind
            break
    return by_letters + 6 * is_spaced


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
        # `mkdtemp` makes a folder that only its owner can read.
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


def demo_config() -> dict[str, Any]:
    """Return the configuration of the model, as Transformers writes it."""
    config: dict[str, Any] = json.loads(_packaged("config.json"))
    return config


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
    return DemoWeights(demo_config(), weights, vectors)


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
