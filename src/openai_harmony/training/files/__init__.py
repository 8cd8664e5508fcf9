"""Files to files: data sets of any size to Parquet that trainers read. Needs the extra ``train``.

::

    settings             what is made of the rows
    whole_file           files that are there wholly or not at all
    unpacked             compressed files, unpacked to be read in parts
    sources              files and folders as chunks of rows
    token_report         what the tokens are, counted
    columns              rows to the columns that trainers read
    part                 a chunk to a part: Parquet, rejected rows, counts
    preparation          all parts: resume, processes, what stands beside them
    ray_parts            the same on a Ray cluster
    ray_rows             rows that are in Ray already
    report_plot          the report as a picture
"""

from .part import Part, prepare_part
from .preparation import Preparation, prepare
from .settings import PrepareSettings
from .sources import Chunk, find_chunks, find_files
from .token_report import TokenReport

__all__ = [
    "Chunk",
    "Part",
    "Preparation",
    "PrepareSettings",
    "TokenReport",
    "find_chunks",
    "find_files",
    "prepare",
    "prepare_part",
]
