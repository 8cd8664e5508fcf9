"""The safetensors format in NumPy, which has no bfloat16: its numbers are read as float32.

A file has the length of a header, the header in JSON, and the numbers of each tensor. The package
``safetensors`` reads it for PyTorch and MLX; this is for where neither is installed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .engine import EngineError

Array: TypeAlias = npt.NDArray[np.float32]

_LENGTH = 8  # bytes of the header's length
_TYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I32": "<i4"}


def read_safetensors(content: bytes | memoryview) -> dict[str, npt.NDArray[Any]]:
    """Return the tensors of a file's content by name; bfloat16 and float16 become float32.

    Raises `EngineError` for a damaged file, and for numbers of another type.
    """
    try:
        begin = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
        if begin > len(content):
            raise ValueError(f"it has {len(content)} bytes, but its header ends at {begin}")
        header = dict(json.loads(bytes(content[_LENGTH:begin])))
        header.pop("__metadata__", None)
        return {name: _tensor(name, entry, content[begin:]) for name, entry in header.items()}
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise EngineError(f"a file of weights is damaged: {error}") from error


def _tensor(name: str, entry: Mapping[str, Any], numbers: bytes | memoryview) -> npt.NDArray[Any]:
    kind = str(entry["dtype"])
    if kind not in _TYPES:
        raise EngineError(
            f"the weights {name} have the type {kind}; NumPy reads {', '.join(_TYPES)}"
        )
    start, end = offsets = entry["data_offsets"]
    shape = entry["shape"]
    if not all(type(number) is int and number >= 0 for number in (*offsets, *shape)):
        raise ValueError(f"{name} has the offsets {offsets} and the shape {shape}")
    if not start <= end <= len(numbers):
        raise ValueError(f"{name} has the offsets {offsets} in {len(numbers)} bytes")
    if end - start != np.dtype(_TYPES[kind]).itemsize * math.prod(shape):
        raise ValueError(f"{name} has {end - start} bytes for the shape {shape}")
    found: npt.NDArray[Any] = np.frombuffer(numbers[start:end], _TYPES[kind]).reshape(shape)
    if kind == "BF16":  # the upper half of a float32
        found = (found.astype(np.uint32) << 16).view(np.float32)
    return found.astype(np.float32) if kind == "F16" else found


def rounded_to_bfloat16(numbers: Array) -> Array:
    """Round to the nearest number of bfloat16; of two that are as near, to the even one."""
    bits = numbers.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


def write_bfloat16(file: Path, tensors: Mapping[str, Array]) -> None:
    """Write tensors whose numbers are those of bfloat16."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + 2 * tensor.size
        entry = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [start, end]}
        header[name] = entry
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _LENGTH)  # the numbers begin at a multiple of eight
    with file.open("wb") as output:
        output.write(len(text).to_bytes(_LENGTH, "little") + text)
        for tensor in tensors.values():
            bits = np.ascontiguousarray(tensor).view(np.uint32) >> 16
            output.write(bits.astype("<u2").tobytes())
