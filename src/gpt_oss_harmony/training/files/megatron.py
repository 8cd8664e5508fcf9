"""Prepared examples as Megatron's indexed data sets, one for the tokens and one for the labels.

A data set is a file with all tokens (``.bin``) and a file with the start of each example
(``.idx``), as `megatron.core.datasets.indexed_dataset.IndexedDataset` reads them. Example N of one
data set belongs to example N of the other.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from .sources import atomic_file

MEGATRON_COLUMNS = ("input_ids", "labels")

_MAGIC = b"MMIDIDX\x00\x00"
_VERSION = 1
_INT32 = 4  # the code of the type of tokens


def write_megatron(data: Path, target: Path) -> list[Path]:
    """Write the columns of all Parquet files in `data` to the folder `target`.

    Returns the paths without their suffixes, as Megatron expects them.
    """
    target.mkdir(parents=True, exist_ok=True)
    prefixes: list[Path] = []
    for column in MEGATRON_COLUMNS:
        prefix = target / column
        lengths: list[np.ndarray[tuple[int], np.dtype[np.int32]]] = [np.zeros(0, np.int32)]
        with atomic_file(prefix.with_suffix(".bin")) as path, path.open("wb") as file:
            for part in sorted(data.glob("*.parquet")):
                for batch in pq.ParquetFile(part).iter_batches(256, columns=[column]):
                    lists = batch.column(0)
                    # A batch may be a slice of a column, which `flatten` heeds and `values` does
                    # not.
                    file.write(lists.flatten().to_numpy().astype(np.int32).tobytes())
                    lengths.append(np.diff(lists.offsets.to_numpy()).astype(np.int32))
        counts = np.concatenate(lengths)
        pointers = np.zeros(len(counts), np.int64)
        np.cumsum(counts[:-1], out=pointers[1:])
        with atomic_file(prefix.with_suffix(".idx")) as path, path.open("wb") as file:
            file.write(
                _MAGIC + struct.pack("<QBQQ", _VERSION, _INT32, len(counts), len(counts) + 1)
            )
            file.write(counts.tobytes())
            file.write((pointers * 4).tobytes())
            # The borders of documents: each example is one.
            file.write(np.arange(len(counts) + 1, dtype=np.int64).tobytes())
        prefixes.append(prefix)
    return prefixes
