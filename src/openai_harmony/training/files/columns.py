"""Rows come in; out come the columns that trainers read, as an Arrow table.

Equal rows in equal order, with equal settings, give equal tables.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from ...errors import HarmonyError
from ..example import TrainingExample
from ..examples import read_examples
from ..packing import packed_places
from ..rows import read_row
from .settings import PrepareSettings
from .token_report import TokenReport

__all__ = ["Columns"]


class Columns:
    """The examples of some rows, column by column, as plain arrays."""

    def __init__(self, settings: PrepareSettings) -> None:
        self._settings = settings
        self._ids = array("i")
        self._labels = array("i")
        self._weights = array("f")
        self._lengths: list[int] = []

    def add_row(self, raw: object, report: TokenReport) -> str | None:
        """Add and count the examples of a row; return what is wrong with it, if anything is."""
        settings = self._settings
        try:
            form, conversation, weights = read_row(
                raw, form=settings.form, start_date=settings.start_date
            )
            examples, too_long = read_examples(conversation, settings.training, weights=weights)
        except HarmonyError as error:
            return str(error)
        except RecursionError:
            return "nested too deeply to be read"
        report.too_long += len(too_long)
        if not examples:
            limit = settings.training.context_length
            return f"nothing fits in {limit} tokens" if too_long else "nothing to learn"
        report.forms[form] += 1
        for example in examples:
            self._add(example)
            report.add_example(example, conversation.messages)
        return None

    def table(self) -> pa.Table:
        """Make the table: a row for each example, or each packed sequence."""
        ids = np.frombuffer(self._ids, dtype=np.int32)
        labels = np.frombuffer(self._labels, dtype=np.int32)
        values = {
            "input_ids": ids,
            "labels": labels,
            "assistant_masks": (ids == labels).astype(np.int8),
        }
        if self._settings.loss_weights:
            values["loss_weights"] = np.frombuffer(self._weights, dtype=np.float32)
        lengths = np.array(self._lengths, dtype=np.int64)
        if not self._settings.pack:
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            return pa.table({name: _lists(column, offsets) for name, column in values.items()})
        return self._packed(values, lengths)

    def _add(self, example: TrainingExample) -> None:
        self._ids.fromlist(example.input_ids)
        self._labels.fromlist(example.labels)
        if self._settings.loss_weights:
            self._weights.fromlist(example.loss_weights())
        self._lengths.append(len(example))

    def _packed(self, values: dict[str, Any], lengths: Any) -> pa.Table:
        """Put the examples in the order of their groups, and cut the columns there."""
        groups = packed_places(self._lengths, self._settings.training.context_length or 0)
        starts = np.cumsum(lengths) - lengths
        order = [at for group in groups for at in group]
        places = _places(starts, lengths, order)
        counts = np.cumsum([0, *map(len, groups)])
        ends = np.concatenate([[0], np.cumsum(lengths[order])])[counts] if order else counts
        columns = {name: _lists(column[places], ends) for name, column in values.items()}
        inner = (places - np.repeat(starts[order], lengths[order])).astype(np.int32)
        columns["position_ids"] = _lists(inner, ends)
        columns["seq_lengths"] = _lists(lengths[order], counts)
        return pa.table(columns)


def _places(starts: Any, lengths: Any, order: Sequence[int]) -> Any:
    """Where the values of the examples stand, in the order given."""
    if not order:
        return np.zeros(0, dtype=np.int64)
    return np.concatenate([np.arange(starts[at], starts[at] + lengths[at]) for at in order])


def _lists(values: Any, offsets: Any) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), pa.array(values))
