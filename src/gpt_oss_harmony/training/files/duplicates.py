"""Rows that repeat earlier rows: with the same examples, or with nearly the same text.

Each shard leaves keys of its rows (`RowKeys`). `find_duplicates` compares the keys of all shards in
the order of the rows, and writes for each shard which of its rows repeat which earlier row. These
shards are then made again without them. The result depends on the rows and their order only.

- **Exact**: the examples are equal, but for the date in the system message.
- **Near**: the texts share most of their runs of five tokens. The share (the Jaccard index) is
  estimated from 128 hashes, which rensa makes (MinHash). Rows that agree in a whole band of hashes
  are compared. A row is rejected if an earlier row that is kept is similar enough.

The files of the comparison are on the disk, and read in blocks, so that the memory stays bounded
with any number of rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ...conversation.content import SystemContent
from ...conversation.messages import Message, Role
from ...installation import needing_extra
from ..examples import TrainingExample
from .sources import atomic_file

DuplicateKind: TypeAlias = Literal["exact", "near"]

SIMILARITY = 0.8
"""The similarity from which on rows are near duplicates."""

HASHES = 128
"""The hashes of a row. The standard error of a similarity of 0.8 is 0.035."""

_SHINGLE = 5  # tokens
_SEED = 1
_RECALL = 0.99  # of the pairs with just the similarity that is asked for
_SORTED_ROWS = 1 << 21  # at once
_READ_ROWS = 1 << 16  # at once
_COMPARED = 1000  # rows of a bucket
_MISSING = -1


class Duplicate(NamedTuple):
    """The earlier row that a row repeats: its file and line, and the similarity from 0 to 1.

    An exact duplicate has no similarity.
    """

    file: str
    line: int
    similarity: float | None = None

    @property
    def kind(self) -> DuplicateKind:
        """Whether the examples are the same, or nearly."""
        return "exact" if self.similarity is None else "near"

    def place(self) -> dict[str, Any]:
        """Return the file and the line as JSON."""
        return {"file": self.file, "line": self.line}

    @property
    def reason(self) -> str:
        """The reason for which the row is rejected."""
        place = f"{self.file}:{self.line}"
        if self.similarity is None:
            return f"the row gives the same examples as an earlier row; it is {place}"
        alike = f"their similarity is about {self.similarity:.2f}"
        return f"the row is nearly the same as an earlier row; it is {place}, and {alike}"


def check_near() -> str:
    """Return rensa's version; raises `ModuleNotFoundError` with the remedy if it is missing."""
    with needing_extra("near duplicates need", "dedup"):
        import rensa  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401
    from importlib.metadata import version

    return version("rensa")


def bands_of(similarity: float) -> tuple[int, int]:
    """Return the number of bands and of hashes in a band for pairs of a similarity.

    The bands are as long as 99 % of such pairs allow: longer bands mean fewer comparisons.

    >>> bands_of(0.8), bands_of(0.5)
    ((21, 6), (42, 3))
    """
    for length in range(HASHES, 1, -1):
        count = HASHES // length
        if 1 - (1 - similarity**length) ** count >= _RECALL:
            return count, length
    return HASHES, 1


# In a worker


class RowKeys:
    """The keys of the rows of a shard that have examples.

    The file that `write` makes has the arrays `row` (numbers of the rows in the chunk), `exact`
    (n × 2) and, for near duplicates, `bands` (n × bands) and `sketch` (n × 128).
    """

    def __init__(self, kind: DuplicateKind, similarity: float, with_weights: bool) -> None:
        self._bands = bands_of(similarity) if kind == "near" else None
        self._with_weights = with_weights
        self._rows = array("i")
        self._exact = bytearray()
        self._hashes: list[Any] = []

    def add(
        self, number: int, messages: Sequence[Message], examples: Sequence[TrainingExample]
    ) -> None:
        """Add the keys of a row from its examples."""
        self._rows.append(number)
        self._exact += _digest(messages, examples, self._with_weights)
        if self._bands is not None:
            self._hashes.append(_hashes(messages, examples))

    def write(self, path: Path) -> None:
        """Write the keys, equal bytes for equal rows."""
        count = len(self._rows)
        arrays: dict[str, Any] = {
            "row": np.array(self._rows, dtype=np.int32),
            "exact": np.frombuffer(bytes(self._exact), dtype=np.uint64).reshape(count, 2),
        }
        if self._bands is not None:
            hashes = np.array(self._hashes, dtype=np.uint32).reshape(count, HASHES)
            bands, length = self._bands
            keys = np.zeros((count, bands), dtype=np.uint64)
            for part in range(length):  # FNV-1a, of words of 32 bits
                keys ^= hashes[:, part : bands * length : length]
                keys *= np.uint64(0x100000001B3)
            arrays["bands"] = keys ^ (keys >> np.uint64(32))
            # A byte of each hash is enough to compare rows; `find_near` allows for chance.
            arrays["sketch"] = (hashes & 0xFF).astype(np.uint8)
        with atomic_file(path) as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)


def _digest(
    messages: Sequence[Message], examples: Sequence[TrainingExample], with_weights: bool
) -> bytes:
    """Hash the tokens and labels of examples, but for the date of the system message."""
    digest = hashlib.blake2b(digest_size=16)
    for example in examples:
        ids, labels = array("i", example.input_ids), array("i", example.labels)
        weights = array("f", example.loss_weights()) if with_weights else array("f")
        for part in example.messages:
            system = _undated(messages[part.message])
            if system is not None:
                digest.update(system)
                continue
            digest.update(ids[part.start : part.end].tobytes())
            digest.update(labels[part.start : part.end].tobytes())
            digest.update(weights[part.start : part.end].tobytes())
        # Otherwise two examples would equal one with the tokens of both.
        digest.update(b"end of the example")
    return digest.digest()


def _undated(message: Message) -> bytes | None:
    """Return the content of a system message without its date; None for other messages."""
    content = message.content[0] if message.content else None
    if message.author.role is not Role.SYSTEM or not isinstance(content, SystemContent):
        return None
    return content.model_copy(update={"conversation_start_date": None}).model_dump_json().encode()


def _hashes(messages: Sequence[Message], examples: Sequence[TrainingExample]) -> list[int]:
    """Hash the bodies of all messages but instructions, in runs of five tokens."""
    import rensa  # type: ignore[import-not-found,import-untyped,unused-ignore]

    bodies: dict[int, list[int]] = {}
    for example in examples:
        for part in example.messages:
            role = messages[part.message].author.role
            # Rows of a set share their instructions, which would make other rows alike.
            if part.message not in bodies and role not in (Role.SYSTEM, Role.DEVELOPER):
                bodies[part.message] = example.input_ids[part.body : part.end - 1]
    tokens = array("i", (token for index in sorted(bodies) for token in bodies[index]))
    size = tokens.itemsize
    text, length = tokens.tobytes(), _SHINGLE * size
    # A text of fewer tokens is one run.
    ends = range(min(length, len(text)), len(text) + 1, size)
    minhash = rensa.RMinHash(HASHES, _SEED)
    minhash.update([text[max(0, end - length) : end] for end in ends])
    hashes: list[int] = minhash.digest()
    return hashes


class ShardDuplicates(NamedTuple):
    """The duplicates of a shard by the number of the row, and a digest of them."""

    digest: str
    rows: Mapping[int, Duplicate]

    @classmethod
    def read(cls, digest: str, lines: Iterable[bytes]) -> ShardDuplicates:
        """Read what `find_duplicates` wrote."""
        found = {}
        for line in lines:
            entry = json.loads(line)
            found[entry["row"]] = Duplicate(entry["file"], entry["line"], entry["similarity"])
        return cls(digest, found)


# In the process that has all shards


@dataclass(frozen=True)
class ShardRows:
    """A shard: its keys, the file of its rows, and the lines of that file before it."""

    number: int
    keys: Path
    file: str
    lines_before: int


def find_duplicates(
    shards: Sequence[ShardRows],
    out: Path,
    similarity: float | None = None,
    *,
    sorted_rows: int = _SORTED_ROWS,
) -> Mapping[int, str]:
    """Write ``NNNNN.duplicates.jsonl`` into `out` for each shard with rows that repeat others.

    Return a digest of each of these files by the number of the shard. With a `similarity`, near
    duplicates are found, too. About `sorted_rows` rows are sorted at once; the memory depends on
    that.
    """
    folder = out / "index"
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    folder.mkdir()
    try:
        rows = _Rows(shards, folder, similarity, sorted_rows)
        rows.find_exact()
        if similarity is not None:
            rows.find_near(similarity)
        return dict(rows.write(out))
    finally:
        shutil.rmtree(folder)


class _Rows:
    """The rows of all shards in their order, as files of the same order.

    `earlier` has the row that a row repeats, or -1. `similarity` has the similarity of the two if
    they are near duplicates, or -1.
    """

    def __init__(
        self, shards: Sequence[ShardRows], folder: Path, similarity: float | None, sorted_rows: int
    ) -> None:
        self._shards = shards
        self._folder = folder
        self._sorted = sorted_rows
        self._bands = bands_of(similarity)[0] if similarity is not None else 0
        counts = self._gather()
        self._offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self._count = int(self._offsets[-1])
        self._earlier = self._new("earlier", np.int64, self._count)
        self._similarity = self._new("similarity", np.float32, self._count)

    def _gather(self) -> list[int]:
        """Write each key of all shards into one file; return the rows of each shard."""
        counts: list[int] = []
        with contextlib.ExitStack() as opened:

            def file(name: str) -> Any:
                return opened.enter_context((self._folder / name).open("wb"))

            lines, exact = file("line"), file("exact")
            sketch = file("sketch") if self._bands else None
            bands = [file(f"band{index}") for index in range(self._bands)]
            for shard in self._shards:
                with np.load(shard.keys) as keys:
                    numbers = keys["row"]
                    counts.append(len(numbers))
                    lines.write((numbers + np.int64(shard.lines_before + 1)).tobytes())
                    exact.write(keys["exact"].tobytes())
                    if sketch is not None:
                        sketch.write(keys["sketch"].tobytes())
                        of_bands = keys["bands"]
                        for index, band in enumerate(bands):
                            band.write(of_bands[:, index].tobytes())
        return counts

    def _new(self, name: str, dtype: Any, count: int, value: int = _MISSING) -> Any:
        """Make a file of numbers that all have a value."""
        with (self._folder / name).open("wb") as file:
            for start in range(0, count, _READ_ROWS):
                file.write(np.full(min(_READ_ROWS, count - start), value, dtype).tobytes())
        return self._mapped(name, dtype, (count,), "r+")

    def _mapped(self, name: str, dtype: Any, shape: tuple[int, ...], mode: Any = "r") -> Any:
        if 0 in shape:
            return np.empty(shape, dtype)  # an empty file cannot be mapped
        return np.memmap(self._folder / name, dtype, mode, shape=shape)

    def _parts(self, name: str, words: int, *, unique: bool) -> Iterator[tuple[Any, Any]]:
        """Yield rows and their keys (n × words), sorted by key and row.

        Equal keys are in the same part. Rows that repeat others can be left out.
        """
        parts = -(-self._count // self._sorted)
        for part in range(parts):
            rows, keys = [], []
            for start in range(0, self._count, _READ_ROWS):
                end = min(self._count, start + _READ_ROWS)
                read = np.fromfile(
                    self._folder / name, np.uint64, (end - start) * words, offset=start * words * 8
                ).reshape(-1, words)
                chosen = read[:, 0] % np.uint64(parts) == part
                if unique:
                    chosen &= self._earlier[start:end] == _MISSING
                rows.append(np.flatnonzero(chosen) + start)
                keys.append(read[chosen])
            key, row = np.concatenate(keys), np.concatenate(rows)
            # `lexsort` sorts by its last array first.
            order = np.lexsort((row, *key.T[::-1]))
            yield row[order], key[order]

    def find_exact(self) -> None:
        """Find the rows with the key of an earlier row."""
        for row, key in self._parts("exact", 2, unique=False):
            starts = np.flatnonzero(_begins(key))
            first = np.repeat(row[starts], np.diff(np.append(starts, len(row))))
            is_repeated = first != row
            self._earlier[row[is_repeated]] = first[is_repeated]

    def find_near(self, similarity: float) -> None:
        """Find the rows that are similar to an earlier row, unless that row repeats another."""
        places = [self._buckets(band) for band in range(self._bands)]
        sketch = self._mapped("sketch", np.uint8, (self._count, HASHES))
        is_kept = self._new("kept", np.int8, self._count, 0)
        members = [
            self._mapped(
                f"members{band}",
                np.int64,
                ((self._folder / f"members{band}").stat().st_size // 8,),
            )
            for band in range(self._bands)
        ]
        for start in range(0, self._count, _READ_ROWS):
            end = min(self._count, start + _READ_ROWS)
            place = np.stack([at[start:end] for at in places], axis=1)
            is_kept[start:end] = self._earlier[start:end] == _MISSING
            for index in np.flatnonzero((place != _MISSING).any(axis=1)):
                row = start + int(index)
                found = [
                    _before(members[band], int(place[index, band]), row)
                    for band in np.flatnonzero(place[index] != _MISSING)
                ]
                others = np.unique(np.concatenate(found))
                others = others[is_kept[others] == 1]
                if not len(others):
                    continue
                equal = (sketch[others] == sketch[row]).mean(axis=1)
                alike = (equal - 1 / 256) / (1 - 1 / 256)  # bytes are also equal by chance
                best = int(alike.argmax())
                if alike[best] >= similarity:
                    is_kept[row] = 0
                    self._earlier[row] = others[best]
                    self._similarity[row] = alike[best]

    def _buckets(self, band: int) -> Any:
        """Write the rows of each bucket with several rows; return where the bucket of a row is.

        The rows of a bucket are in their order, and after the last bucket follows nothing.
        """
        place = self._new(f"place{band}", np.int64, self._count)
        written = 0
        with (self._folder / f"members{band}").open("wb") as file:
            for row, key in self._parts(f"band{band}", 1, unique=True):
                starts = np.flatnonzero(_begins(key))
                sizes = np.diff(np.append(starts, len(row)))
                chosen = np.repeat(sizes > 1, sizes)
                sizes = sizes[sizes > 1]
                rows = row[chosen]
                file.write(rows.tobytes())
                place[rows] = np.repeat(written + np.cumsum(sizes) - sizes, sizes)
                written += len(rows)
        (self._folder / f"band{band}").unlink()
        return place

    def write(self, out: Path) -> Iterator[tuple[int, str]]:
        """Write the duplicates of each shard that has some."""
        line = self._mapped("line", np.int64, (self._count,))
        for index, shard in enumerate(self._shards):
            start, end = self._offsets[index : index + 2]
            repeated = start + np.flatnonzero(self._earlier[start:end] != _MISSING)
            if not len(repeated):
                continue
            first = self._earlier[repeated]
            places = np.searchsorted(self._offsets, first, "right") - 1
            digest = hashlib.blake2b(digest_size=16)
            with (
                atomic_file(out / f"{shard.number:05}.duplicates.jsonl") as path,
                path.open("wb") as file,
            ):
                for row, other, at in zip(repeated, first, places, strict=True):
                    alike = float(self._similarity[row])
                    entry = {
                        "row": int(line[row]) - shard.lines_before - 1,
                        "file": self._shards[at].file,
                        "line": int(line[other]),
                        "similarity": None if alike == _MISSING else round(alike, 4),
                    }
                    text = json.dumps(entry).encode() + b"\n"
                    digest.update(text)
                    file.write(text)
            yield shard.number, digest.hexdigest()


def _begins(key: Any) -> Any:
    """Return at which of the sorted keys another key begins."""
    begins = np.ones(len(key), dtype=bool)
    begins[1:] = (key[1:] != key[:-1]).any(axis=1)
    return begins


def _before(members: Any, start: int, row: int) -> Any:
    """Return the rows of a bucket before a row, at most the first thousand."""
    others = members[start : start + _COMPARED]
    later = np.flatnonzero(others >= row)
    return others[: later[0]] if len(later) else others
