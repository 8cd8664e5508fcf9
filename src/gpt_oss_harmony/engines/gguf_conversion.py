"""Ollama's published file of gpt-oss, copied once into the form that llama.cpp reads.

The weights are the same, byte by byte. The header differs, as Ollama's own loader documents
(``llama/compat`` in its repository): the architecture is ``gptoss``, three tensors have other
names, the width of an expert and the type of the rope's scaling are missing, and the splitting of
text before its tokens is named wrongly. So only the header is written anew.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path

from .engine import EngineError
from .gguf_header import (
    ARCHITECTURE,
    OLLAMA_ARCHITECTURE,
    GgufHeader,
    read_gguf_header,
)
from .user_cache import user_cache

_TENSOR_NAMES = {
    ".attn_out.": ".attn_output.",
    ".ffn_norm.": ".post_attention_norm.",
}
_SINKS, _SINKS_OF_LLAMA_CPP = ".attn_sinks", ".attn_sinks.weight"
_ALIGNMENT = 32
_CHUNK = 2**24  # bytes that are copied at once
_STRING, _U32 = 8, 4


def converted_file(blob: Path) -> Path:
    """Return where the copy of a file of Ollama's stands, or would stand."""
    key = hashlib.sha256(f"{blob.name} {blob.stat().st_size}".encode()).hexdigest()[:16]
    return user_cache() / "ollama" / f"gpt-oss-{key}.gguf"


def convert_ollama_gguf(blob: Path, progress: Callable[[int, int], None] | None = None) -> Path:
    """Copy a file, and return the copy; a copy that was interrupted goes on.

    `progress` gets the bytes that are written, and those of the whole file. Raises `EngineError` if
    the file is no gpt-oss of Ollama's, or cannot be copied.
    """
    header = read_gguf_header(blob)
    target = converted_file(blob)
    if target.is_file():
        return target
    begin = llama_cpp_header(header)
    unfinished = target.with_suffix(".part")
    source_size = blob.stat().st_size
    total = len(begin) + source_size - header.data_start
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with blob.open("rb") as source, unfinished.open("ab") as copy:
            done = copy.tell()
            if not _continues(unfinished, begin):
                copy.truncate(0)
                done = 0
            free = os.statvfs(target.parent) if hasattr(os, "statvfs") else None
            if free is not None and free.f_bavail * free.f_frsize < total - done:
                raise EngineError(
                    f"{target.parent} has no room for the copy: {total - done:,} bytes are needed; "
                    "set XDG_CACHE_HOME to a folder on another disk"
                )
            copy.seek(done)
            if done < len(begin):
                copy.write(begin[done:])
                done = len(begin)
            source.seek(header.data_start + done - len(begin))
            while chunk := source.read(_CHUNK):
                copy.write(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, total)
            copy.flush()
            os.fsync(copy.fileno())
        unfinished.replace(target)
    except OSError as error:
        raise EngineError(f"{blob} cannot be copied to {target}: {error.strerror}") from error
    return target


def _continues(unfinished: Path, begin: bytes) -> bool:
    """Return whether what was written is the beginning of this copy."""
    with unfinished.open("rb") as opened:
        written = opened.read(len(begin))
    return begin.startswith(written) if len(written) < len(begin) else written == begin


def llama_cpp_header(header: GgufHeader) -> bytes:
    """Write the header of Ollama's file as llama.cpp reads it."""
    if header.architecture != OLLAMA_ARCHITECTURE:
        raise EngineError(
            f"{header.file} is of the architecture {header.architecture!r}, not Ollama's "
            f"{OLLAMA_ARCHITECTURE!r}; it needs no copy, if it is a gpt-oss at all"
        )
    entries = [_changed(key, entry) for key, entry in _entries(header)]
    if f"{OLLAMA_ARCHITECTURE}.expert_feed_forward_length" not in header.values:
        gate = next((t for t in header.tensors if t.name == "blk.0.ffn_gate_exps.weight"), None)
        if gate is None or len(gate.shape) != 3:
            raise EngineError(f"{header.file} has no experts as gpt-oss does; pull it again")
        width = struct.pack("<II", _U32, gate.shape[1])
        entries.append(_text(f"{ARCHITECTURE}.expert_feed_forward_length") + width)
    if f"{OLLAMA_ARCHITECTURE}.rope.scaling.type" not in header.values:
        entries.append(_entry(f"{ARCHITECTURE}.rope.scaling.type", "yarn"))
    if "tokenizer.ggml.pre" not in header.values:
        entries.append(_entry("tokenizer.ggml.pre", "gpt-4o"))
    tensors = [
        _text(_tensor_name(tensor.name))
        + struct.pack(f"<I{len(tensor.shape)}QIQ", len(tensor.shape), *tensor.shape, *tensor[2:])
        for tensor in header.tensors
    ]
    counts = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(entries))
    written = counts + b"".join(entries) + b"".join(tensors)
    alignment = header.values.get("general.alignment", _ALIGNMENT)
    return written + bytes(-len(written) % alignment)


def _entries(header: GgufHeader) -> list[tuple[str, bytes]]:
    """Return the entries as they stand in the file: the key, then its type and value."""
    with (
        header.file.open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        return [(key, data[start:end]) for key, (start, end) in header.places.items()]


def _changed(key: str, value: bytes) -> bytes:
    if key == "general.architecture":
        return _entry(key, ARCHITECTURE)
    if key == "tokenizer.ggml.pre":
        return _entry(key, "gpt-4o")
    prefix = f"{OLLAMA_ARCHITECTURE}."
    if key.startswith(prefix):
        key = f"{ARCHITECTURE}.{key.removeprefix(prefix)}"
    return _text(key) + value


def _tensor_name(name: str) -> str:
    for old, new in _TENSOR_NAMES.items():
        name = name.replace(old, new)
    return name.replace(_SINKS, _SINKS_OF_LLAMA_CPP) if name.endswith(_SINKS) else name


def _entry(key: str, value: str) -> bytes:
    return _text(key) + struct.pack("<I", _STRING) + _text(value)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded
