"""Data sets of any size to Parquet files for trainers. Needs the extra ``train``.

::

    sources              files and folders as chunks of rows
    report               counts of tokens, as text and as a picture
    duplicates           rows that repeat earlier ones, in any number of rows
    shards               a chunk to a shard: columns in Parquet, rejected rows, counts
    processes            shards made in processes of this machine
    output_lock          one preparation at a time in a folder
    preparation          all shards, resumed where they were interrupted; the files beside the data
    loading              prepared files for PyTorch, by rank
    megatron             the examples as Megatron's indexed data sets
    ray                  the same on a Ray cluster, and for rows that are in Ray already
"""

from ...installation import needing_extra

with needing_extra("training files need", "train"):
    from .megatron import write_megatron
    from .preparation import Preparation, Progress, Rejection, prepare
    from .processes import process_runner
    from .report import TokenReport
    from .shards import PrepareSettings, Shard, prepare_shard
    from .sources import Chunk, find_chunks, find_files

__all__ = [
    "Chunk",
    "Preparation",
    "PrepareSettings",
    "Progress",
    "Rejection",
    "Shard",
    "TokenReport",
    "find_chunks",
    "find_files",
    "prepare",
    "prepare_shard",
    "process_runner",
    "write_megatron",
]
