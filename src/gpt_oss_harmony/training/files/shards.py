"""One chunk of rows to one shard: a Parquet file, the rows that were rejected, and counts.

Equal chunks and settings give equal bytes, whichever process or machine makes the shard.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from ...apis.current_date import TODAY, current_date
from ...conversation.messages import Message, Role
from ...errors import HarmonyError
from ..examples import TrainingExample
from ..options import TrainingOptions
from ..packing import BranchedSequence, branch, packed_groups
from ..row_checks import FINDINGS, REJECTED_FINDINGS, FindingKind
from ..row_forms import RowForm
from ..rows import ReadRow, RejectedRow, RowDates, RowExamples, row_examples
from .duplicates import SIMILARITY, DuplicateKind, RowKeys, ShardDuplicates, check_near
from .report import TokenReport
from .sources import (
    CHUNK_BYTES,
    ROW_BYTES,
    UNPACKED_BYTES,
    UNPACKED_RATIO,
    Chunk,
    SourceRow,
    atomic_file,
    read_chunk,
)

COLUMNS = ("labels", "assistant_masks", "attention_mask")
"""The optional columns; trainers support different ones."""


_SECONDS_BETWEEN_REPORTS = 0.1

_SEQUENCES_IN_CHUNK = 128
"""The packed sequences of a chunk. Its last sequences have room left: with 128, there are 0.6 to
0.8 % more of them than if all rows were packed together; with 8, there are 12 % more."""

_BYTES_OF_TOKEN = 4  # of text, about

_GROUP_TOKENS = 1 << 19  # in a row group of a file; memory grows with it


@dataclass(frozen=True)
class PrepareSettings:
    """The settings of `prepare`; equal settings make equal files.

    - `training`: the options of `training_examples`.
    - `form`: the form of the rows; None detects the form of each row.
    - `start_date`: the date in the system message of chats. The default is today in UTC, as in the
      server; None leaves it out. `RowDates.parse` reads other values.
    - `reject`: the kinds of `FINDINGS` for which a row is rejected; the others are counted.
    - `deduplicate`: reject rows with the same examples as an earlier row (``"exact"``), or also
      rows with nearly the same text (``"near"``); None keeps them.
    - `similarity`: the share of the runs of five tokens that near duplicates have in common, about.
    - `row_bytes`: the most bytes of a row; longer rows are rejected before they are parsed.
    - `unpacked_ratio`, `unpacked_bytes`: a compressed file is an error if it unpacks to more bytes
      than this, as a multiple of its size and in total.
    - `source_field`: the field of a row that names its source in the report; None for its file.
    - `pack`: put several examples in one sequence of `training.context_length` tokens.
    - `one_sequence`: write the examples of a row as one `BranchedSequence`, or several of
      `training.context_length` tokens.
    - `loss_weights`: write a column with the weights of messages.
    - `columns`: the columns from `COLUMNS` in addition to the tokens; None for labels and masks.
    - `megatron`: also write Megatron's indexed data sets of the tokens and the labels.
    """

    training: TrainingOptions = field(default_factory=TrainingOptions)
    form: RowForm | None = None
    start_date: str | None = TODAY
    reject: frozenset[FindingKind] = REJECTED_FINDINGS
    deduplicate: DuplicateKind | None = None
    similarity: float = SIMILARITY
    row_bytes: int = ROW_BYTES
    unpacked_ratio: int = UNPACKED_RATIO
    unpacked_bytes: int = UNPACKED_BYTES
    source_field: str | None = None
    pack: bool = False
    one_sequence: bool = False
    loss_weights: bool = False
    columns: tuple[str, ...] | None = None
    megatron: bool = False

    def __post_init__(self) -> None:
        if self.columns is not None and not set(self.columns) <= set(COLUMNS):
            raise ValueError(f"columns are some of {', '.join(COLUMNS)}, not {self.columns}")
        if not self.reject <= FINDINGS.keys():
            raise ValueError(f"findings are {', '.join(FINDINGS)}, not {sorted(self.reject)}")
        if self.megatron and "labels" not in (self.columns or ("labels",)):
            raise ValueError("Megatron's data sets need the column labels")
        if self.one_sequence and (self.megatron or "attention_mask" in (self.columns or ())):
            raise ValueError("one_sequence needs a mask that neither Megatron nor a column has")
        if self.pack and self.training.context_length is None:
            raise ValueError("packing needs a context_length: the length of the sequences")
        if not 0.1 <= self.similarity <= 1:
            raise ValueError(f"the similarity is from 0.1 to 1, not {self.similarity}")
        if self.start_date not in (TODAY, None):
            RowDates.parse(self.start_date)
        if self.deduplicate == "near":
            check_near()

    def chunk_bytes(self) -> int:
        """Return the bytes of a chunk: enough for packing to waste less than 1 %."""
        length = self.training.context_length if self.pack else None
        return max(CHUNK_BYTES, (length or 0) * _SEQUENCES_IN_CHUNK * _BYTES_OF_TOKEN)

    def dated(self, today: str | None = TODAY) -> PrepareSettings:
        """Return the settings with `today` (default: the current date) in place of `TODAY`."""
        return replace(self, start_date=current_date(today)) if self.start_date == TODAY else self

    def examples_of(self, raw: object) -> tuple[ReadRow, RowExamples]:
        """Read a row of parsed JSON, and make its examples; see `row_examples`."""
        return row_examples(
            raw,
            self.training,
            form=self.form,
            start_date=self.start_date,
            reject=self.reject,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the settings as JSON, for comparisons."""
        settings = asdict(self)
        channels = self.training.channels
        settings["reject"] = sorted(self.reject)
        settings["columns"] = None if self.columns is None else list(self.columns)
        settings["training"]["channels"] = None if channels is None else sorted(channels)
        return settings


class Columns:
    """The columns that trainers read, built from rows, as plain arrays.

    Equal rows in equal order, with equal settings, give equal tables.
    """

    def __init__(self, settings: PrepareSettings) -> None:
        self._settings = settings
        self._clear()

    def _clear(self) -> None:
        self._ids = array("i")
        self._labels = array("i")
        self._weights = array("f")
        self._positions = array("i")
        self._visible = array("i")
        self._lengths: list[int] = []

    @property
    def is_full(self) -> bool:
        """Whether the rows should be written before more are added; packing needs all of them."""
        return len(self._ids) >= _GROUP_TOKENS and not self._settings.pack

    def add_row(
        self,
        raw: object,
        report: TokenReport,
        source: str = "",
        on_examples: Callable[[Sequence[Message], Sequence[TrainingExample]], None] | None = None,
    ) -> str | None:
        """Add and count the examples of a row; return the problem if there are none.

        `source` names the source in the report, unless a field of the row does. `on_examples` is
        called with the messages and the examples.
        """
        settings = self._settings
        try:
            row, made = settings.examples_of(raw)
        except HarmonyError as error:
            if isinstance(error, RejectedRow):
                report.too_long += len(error.too_long)
            return str(error)
        report.too_long += len(made.too_long)
        report.forms[row.form] += 1
        report.unused.update(set(row.unused) - {settings.source_field})
        if not settings.loss_weights and any(example.weights for example in made.examples):
            report.unused["weights other than 0 and 1, without loss weights"] += 1
        report.findings.update({finding.kind for finding in made.findings})
        report.findings.update({f"rendered texts with the repair {kind}" for kind in row.repairs})
        if not any(m.author.role is Role.SYSTEM for m in row.conversation.messages):
            report.findings["no system message"] += 1
        if settings.source_field is not None and isinstance(raw, Mapping):
            source = str(raw.get(settings.source_field, source))
        report.add_to_source(
            source,
            list(map(len, made.examples)),
            sum(example.trainable_tokens for example in made.examples),
            len(made.too_long),
        )
        report.add_examples(made.examples, row.conversation.messages)
        self._add(made.examples, report)
        if on_examples is not None:
            on_examples(row.conversation.messages, made.examples)
        return None

    def _add(self, examples: Sequence[TrainingExample], report: TokenReport) -> None:
        """Add the examples of a row, each as a sequence, or all as one."""
        settings = self._settings
        sequences: Sequence[TrainingExample | BranchedSequence] = examples
        if settings.one_sequence:
            sequences = branched = branch(examples, settings.training.context_length)
            report.shared += sum(map(len, examples)) - sum(map(len, branched))
            for one in branched:
                self._positions.fromlist(one.position_ids())
                self._visible.fromlist(one.visible_until())
        for sequence in sequences:
            self._ids.fromlist(sequence.input_ids)
            self._labels.fromlist(sequence.labels)
            if settings.loss_weights:
                self._weights.fromlist(sequence.loss_weights())
            self._lengths.append(len(sequence))

    def take_table(self) -> pa.Table:
        """Make the table, a row for each example or each packed sequence, and begin anew."""
        table = self._table()
        self._clear()
        return table

    def _table(self) -> pa.Table:
        ids = np.frombuffer(self._ids, dtype=np.int32)
        labels = np.frombuffer(self._labels, dtype=np.int32)
        made = {
            "labels": labels,
            # The label of a token that is trained on is the token itself.
            "assistant_masks": (ids == labels).astype(np.int8),
            "attention_mask": np.ones(len(ids), dtype=np.int8),
        }
        chosen = self._settings.columns or ("labels", "assistant_masks")
        values = {"input_ids": ids, **{name: made[name] for name in chosen}}
        if self._settings.loss_weights:
            values["loss_weights"] = np.frombuffer(self._weights, dtype=np.float32)
        lengths = np.array(self._lengths, dtype=np.int64)
        if self._settings.one_sequence:
            values["position_ids"] = np.frombuffer(self._positions, dtype=np.int32)
            values["visible_until"] = np.frombuffer(self._visible, dtype=np.int32)
        if not self._settings.pack:
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            return pa.table({name: _lists(column, offsets) for name, column in values.items()})
        # Put the examples in the order of their groups, and cut the columns there.
        groups = packed_groups(self._lengths, self._settings.training.context_length or 0)
        starts = np.cumsum(lengths) - lengths
        order = np.array([index for group in groups for index in group], dtype=np.int64)
        # The empty range is for a chunk without examples: NumPy refuses to join no arrays.
        indices = np.concatenate(
            [np.arange(0), *(np.arange(starts[i], starts[i] + lengths[i]) for i in order)]
        )
        counts = np.cumsum([0, *map(len, groups)])
        ends = np.concatenate([[0], np.cumsum(lengths[order])])[counts]
        columns = {name: _lists(column[indices], ends) for name, column in values.items()}
        if self._settings.one_sequence:  # the indices count from the start of the packed sequence
            packed = np.cumsum(lengths[order]) - lengths[order]
            packed -= np.repeat(ends[:-1], np.diff(counts))
            moved = values["visible_until"][indices] + np.repeat(packed, lengths[order])
            columns["visible_until"] = _lists(moved.astype(np.int32), ends)
            return pa.table(columns)
        positions = (indices - np.repeat(starts[order], lengths[order])).astype(np.int32)
        columns["position_ids"] = _lists(positions, ends)
        columns["seq_lengths"] = _lists(lengths[order], counts)
        return pa.table(columns)


def _lists(values: Any, offsets: Any) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), pa.array(values))


@dataclass(frozen=True)
class Shard:
    """A finished shard: its number, the lines of its chunk, and counts.

    `duplicates` is the digest of the file with the duplicates that are left out.
    """

    number: int
    lines: int
    report: TokenReport
    duplicates: str | None = None


def prepare_shard(
    number: int,
    chunk: Chunk,
    settings: PrepareSettings,
    data: Path,
    state: Path,
    on_read: Callable[[int], None] | None = None,
    *,
    duplicates: ShardDuplicates | None = None,
    with_keys: bool = False,
) -> Shard:
    """Make the shard with this number: its Parquet file in `data`, its other files in `state`.

    The file that marks the shard as done is written last, so that no shard is half done. `on_read`
    is called after the first row, and then ten times a second, with the bytes read so far. The rows
    of `duplicates` are rejected. `with_keys` also writes the keys by which
    duplicates are found.
    """
    kind = settings.deduplicate if with_keys else None
    keys = None if kind is None else RowKeys(kind, settings.similarity, settings.loss_weights)
    skipped = {} if duplicates is None else duplicates.rows
    columns = Columns(settings)
    report = TokenReport()
    source = Path(chunk.path).name.removesuffix(".gz").removesuffix(".zst")
    lines = 0
    name = f"{number:05}"
    writer: Any = None
    with contextlib.ExitStack() as files:
        path = files.enter_context(atomic_file(state / f"{name}.rejected.jsonl"))
        rejected = files.enter_context(path.open("w", encoding="utf-8"))

        def write_group() -> None:
            nonlocal writer
            table = columns.take_table()
            report.sequences += table.num_rows
            if not table.num_rows:
                return  # some readers fail on a file without rows
            if writer is None:
                path = files.enter_context(atomic_file(data / f"train-{name}.parquet"))
                writer = pq.ParquetWriter(path, table.schema, compression="zstd")
                files.enter_context(writer)
            writer.write_table(table)

        for row in _reported(read_chunk(chunk, settings.row_bytes), on_read):
            lines = row.number + 1
            if row.is_blank:
                continue
            report.rows += 1
            duplicate = skipped.get(row.number)
            add = None if keys is None else functools.partial(keys.add, row.number)
            problem = (
                report.add_duplicate(duplicate)
                or row.problem
                or columns.add_row(row.raw, report, source, add)
            )
            if problem:
                report.add_rejected(problem)
                entry = {"file": chunk.path, "line": row.number, "reason": problem, "row": row.raw}
                more = {} if duplicate is None else {"duplicate_of": duplicate.place()}
                # Rows of tables may have values that JSON lacks, such as dates.
                rejected.write(json.dumps({**entry, **more}, default=str) + "\n")
            if columns.is_full:
                write_group()
        write_group()
    if writer is None:  # a shard that is made again may have had examples
        (data / f"train-{name}.parquet").unlink(missing_ok=True)
    if keys is not None:
        keys.write(state / f"{name}.keys.npz")
    shard = Shard(number, lines, report, None if duplicates is None else duplicates.digest)
    with atomic_file(state / f"{name}.json") as path:
        done = {"lines": lines, "report": report.as_json(), "duplicates": shard.duplicates}
        path.write_text(json.dumps(done))
    return shard


def _reported(
    rows: Iterable[SourceRow], on_read: Callable[[int], None] | None
) -> Iterator[SourceRow]:
    """Yield rows; call `on_read` for the first, and then ten times a second."""
    report_at = 0.0
    for row in rows:
        if on_read is not None and time.monotonic() >= report_at:
            on_read(row.end)
            report_at = time.monotonic() + _SECONDS_BETWEEN_REPORTS
        yield row


def read_shard(number: int, state: Path) -> Shard | None:
    """Read the counts of a finished shard; None if it is not finished."""
    try:
        raw = json.loads((state / f"{number:05}.json").read_text())
    except FileNotFoundError:
        return None
    report = TokenReport.from_json(raw["report"])
    return Shard(number, raw["lines"], report, raw["duplicates"])
