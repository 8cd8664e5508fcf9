"""The header of a GGUF file: what model it holds, how it is stored, and how long it must be.

llama.cpp says only "failed to load model" where a file is cut short or holds another model. The
header has all that is needed for a better sentence, and for the memory of a model, without reading
its weights. Layout: the magic word, counts, entries of a key and a typed value, then a description
of each tensor; the tensors follow at an aligned offset.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple

from .batching_memory import ModelFigures
from .engine import EngineError

ARCHITECTURE = "gpt-oss"
OLLAMA_ARCHITECTURE = "gptoss"
"""What Ollama's published file calls it; see `gguf_conversion`."""

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)  # 1 had lengths of 32 bits
_STRING, _ARRAY = 8, 9
_NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_SCALARS = {kind: struct.Struct(f"<{letter}") for kind, letter in _NUMBERS.items()}
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_MOST_DIMENSIONS = 4
_FIRST_PART = re.compile(r"(.*)-00001-of-(\d{5})\.gguf", re.DOTALL)
_LONGEST_STRING = 2**26  # a chat template has some kilobytes; a damaged length has no limit

TENSOR_TYPES = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    39: ("MXFP4", 32, 17),
}
"""The name of a type of tensors, and how many bytes a block of so many weights takes."""


class TensorEntry(NamedTuple):
    """A tensor as the header describes it; `offset` counts from the start of the tensors."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int

    @property
    def weights(self) -> int:
        """How many weights it has."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def size(self) -> int:
        """Its bytes; 0 for a type that is not known."""
        _, block, size = TENSOR_TYPES.get(self.kind, ("", 1, 0))
        return self.weights // block * size


@dataclass
class GgufHeader:
    """What a file says of itself: its values by key, and only the lengths of its arrays."""

    file: Path
    values: dict[str, Any] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Where the type and the value of each entry begin and end."""
    tensors: list[TensorEntry] = field(default_factory=list)
    data_start: int = 0

    @property
    def architecture(self) -> str:
        """The architecture; ``gpt-oss``, or Ollama's ``gptoss``."""
        return str(self.values.get("general.architecture", ""))

    def number(self, key: str) -> int:
        """Return a size of the architecture; 0 if it is missing or differs by layer."""
        value = self.values.get(f"{self.architecture}.{key}", 0)
        return value if isinstance(value, int) else 0

    def figures(self) -> ModelFigures:
        """Return the sizes of the model, of an architecture of gpt-oss."""
        layers = self.number("block_count")
        return ModelFigures(
            kind="gpt_oss",
            layers=layers,
            full_layers=layers // 2,  # every second layer has a sliding window
            window=self.number("attention.sliding_window") or None,
            hidden=self.number("embedding_length"),
            heads=self.number("attention.head_count"),
            kv_heads=self.number("attention.head_count_kv"),
            head_size=self.number("attention.key_length"),
            vocabulary=self.lengths.get("tokenizer.ggml.tokens", 0),
            context=self.number("context_length"),
            experts=self.number("expert_count"),
            experts_per_token=self.number("expert_used_count"),
        )

    @property
    def weights(self) -> int:
        """How many weights the file has."""
        return sum(tensor.weights for tensor in self.tensors)

    @property
    def quantization(self) -> str:
        """The type in which most of the bytes are stored, such as ``MXFP4``."""
        sizes: Counter[int] = Counter()
        for tensor in self.tensors:
            sizes[tensor.kind] += tensor.size
        kinds = [kind for kind, size in sizes.most_common(1) if size]
        return TENSOR_TYPES[kinds[0]][0] if kinds else "unknown"

    @property
    def end(self) -> int:
        """How long the file must be: where its last tensor ends."""
        return max((self.data_start + t.offset + t.size for t in self.tensors), default=0)

    @property
    def is_split(self) -> bool:
        """Whether the file is one of several."""
        count = self.values.get("split.count")
        return isinstance(count, int) and count > 1

    def parts(self) -> list[Path]:
        """Return the files of a model that was split, this one first; only this one otherwise."""
        match = _FIRST_PART.fullmatch(self.file.name)
        if not match or not self.is_split:
            return [self.file]
        last = int(match[2])
        names = (f"{match[1]}-{part:05}-of-{match[2]}.gguf" for part in range(1, last + 1))
        return [self.file.with_name(name) for name in names]


def is_gguf(file: Path) -> bool:
    """Return whether a file begins as GGUF does; False if it cannot be read."""
    try:
        if not S_ISREG(file.stat().st_mode):
            return False
        with file.open("rb") as opened:
            return opened.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def read_gguf_header(file: Path) -> GgufHeader:
    """Read the header; raises `EngineError` for another file, and for one that is cut short."""
    try:
        # To open a pipe would wait for its writer.
        if not S_ISREG(file.stat().st_mode):
            raise EngineError(f"{file} is not a file")
        with file.open("rb") as opened:
            size = opened.seek(0, 2)
            # `mmap` refuses an empty file, in words that name no remedy.
            if not size:
                raise EngineError(f"{file} is empty; download it again")
            with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
                if data[: len(_MAGIC)] != _MAGIC:
                    raise EngineError(f"{file} is not a GGUF file: it does not begin with GGUF")
                try:
                    header = _read(file, _Reader(data, size))
                except (struct.error, UnicodeDecodeError, _DamagedError) as error:
                    raise EngineError(
                        f"the header of {file} is damaged or cut short ({error}); download it again"
                    ) from error
    except OSError as error:
        raise EngineError(f"{file} cannot be read: {error.strerror}") from error
    if header.end > size:
        raise EngineError(
            f"{file} is cut short: it has {size:,} of {header.end:,} bytes; download it again"
        )
    return header


class _DamagedError(Exception):
    """A length or a type that no file has."""


class _Reader:
    """Reads values one after the other."""

    def __init__(self, data: mmap.mmap, size: int) -> None:
        self._data = data
        self._size = size
        self.at = 0

    def number(self, form: struct.Struct) -> Any:
        (value,) = form.unpack_from(self._data, self.at)
        self.at += form.size
        return value

    def skip(self, length: int) -> None:
        if not 0 <= length <= self._size - self.at:
            raise _DamagedError(f"{length:,} bytes at {self.at:,} are beyond its end")
        self.at += length

    def text(self) -> str:
        length = self.number(_U64)
        start = self.at
        self.skip(length)
        if length > _LONGEST_STRING:
            raise _DamagedError(f"a text of {length:,} bytes at {start:,}")
        return self._data[start : self.at].decode()

    def skip_strings(self, count: int) -> None:
        data, at, size, unpack = self._data, self.at, self._size, _U64.unpack_from
        for _ in range(count):  # a vocabulary has hundreds of thousands
            at += 8 + unpack(data, at)[0]
            if at > size:
                raise _DamagedError("a text is longer than the file")
        self.at = at


def _read(file: Path, reader: _Reader) -> GgufHeader:
    header = GgufHeader(file)
    reader.skip(len(_MAGIC))
    version = reader.number(_U32)
    if version not in _VERSIONS:
        raise _DamagedError(f"version {version}; 2 and 3 are known")
    tensor_count, entry_count = reader.number(_U64), reader.number(_U64)
    for _ in range(entry_count):
        key, start = reader.text(), reader.at
        kind = reader.number(_U32)
        if kind == _ARRAY:
            header.lengths[key] = _skip_array(reader)
        else:
            header.values[key] = _scalar(reader, kind)
        header.places[key] = start, reader.at
    header.tensors = list(_tensors(reader, tensor_count))
    alignment = header.values.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise _DamagedError(f"the alignment {alignment!r}")
    header.data_start = -(-reader.at // alignment) * alignment
    named = _FIRST_PART.fullmatch(file.name)
    if named and header.is_split and header.values["split.count"] != int(named[2]):
        raise _DamagedError(f"it has {header.values['split.count']:,} parts, not those of its name")
    return header


def _scalar(reader: _Reader, kind: int) -> Any:
    if kind == _STRING:
        return reader.text()
    if kind not in _SCALARS:
        raise _DamagedError(f"the type {kind} of a value")
    return reader.number(_SCALARS[kind])


def _skip_array(reader: _Reader) -> int:
    kind, count = reader.number(_U32), int(reader.number(_U64))
    if kind == _STRING:
        reader.skip_strings(count)
    elif kind in _SCALARS:
        reader.skip(count * _SCALARS[kind].size)
    else:
        raise _DamagedError(f"the type {kind} of an array")
    return count


def _tensors(reader: _Reader, count: int) -> Iterator[TensorEntry]:
    for _ in range(count):
        name, dimensions = reader.text(), reader.number(_U32)
        if dimensions > _MOST_DIMENSIONS:
            raise _DamagedError(f"{name!r} has {dimensions} dimensions")
        shape = tuple(reader.number(_U64) for _ in range(dimensions))
        yield TensorEntry(name, shape, reader.number(_U32), reader.number(_U64))
