"""One chunk of rows to one part: a Parquet file, the rows that were rejected, and counts.

Equal chunks and settings give equal bytes, whichever process or machine makes the part.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from .columns import Columns
from .settings import PrepareSettings
from .sources import Chunk, SourceRow, read_chunk
from .token_report import TokenReport
from .whole_file import whole_file

__all__ = ["Part", "prepare_part", "read_part"]


@dataclass(frozen=True)
class Part:
    """What is known of a part that was made: its place, the lines of its chunk, and counts."""

    number: int
    lines: int
    report: TokenReport


def prepare_part(
    number: int, chunk: Chunk, settings: PrepareSettings, data: Path, state: Path
) -> Part:
    """Make the part with that number: its Parquet in `data`, what else there is in `state`.

    The file that says that the part is done is written last, so that a part is there wholly or
    not at all.
    """
    columns = Columns(settings)
    report = TokenReport()
    lines = 0
    name = f"{number:05}"
    with (
        whole_file(state / f"{name}.rejected.jsonl") as path,
        open(path, "w", encoding="utf-8") as bad,
    ):
        for row in read_chunk(chunk):
            lines = row.number + 1
            if row.raw is None:
                continue  # an empty line
            report.rows += 1
            problem = row.problem or columns.add_row(row.raw, report)
            if problem:
                report.rejected += 1
                bad.write(_rejected(chunk, row, problem))
    table = columns.table()
    report.sequences = table.num_rows
    if table.num_rows:  # not every reader takes a file without rows
        with whole_file(data / f"train-{name}.parquet") as path:
            pq.write_table(table, path, compression="zstd")
    with whole_file(state / f"{name}.json") as path:
        path.write_text(json.dumps({"lines": lines, "report": report.as_json()}))
    return Part(number, lines, report)


def read_part(number: int, state: Path) -> Part | None:
    """Read what is known of a part; None where it was not made."""
    try:
        raw = json.loads((state / f"{number:05}.json").read_text())
    except FileNotFoundError:
        return None
    return Part(number, raw["lines"], TokenReport.from_json(raw["report"]))


def _rejected(chunk: Chunk, row: SourceRow, problem: str) -> str:
    entry = {"file": chunk.path, "line": row.number, "reason": problem, "row": row.raw}
    return json.dumps(entry, default=str) + "\n"
