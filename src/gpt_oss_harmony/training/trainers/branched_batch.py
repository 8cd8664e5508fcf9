"""Branched sequences as batches for Transformers, with the masks that its attention adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..examples import IGNORED


@dataclass(frozen=True)
class BranchedCollator:
    """Make a batch of rows that ``harmony prepare --one-sequence`` wrote.

    The model must use eager attention, which adds the masks; other kinds of attention make their
    own, or ignore them. `window` is the `sliding_window` of its configuration, and `dtype` the type
    of its weights. The memory for the masks, as for eager attention, grows with the square of the
    longest sequence.
    """

    window: int
    dtype: Any = None

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Pad the rows; return the arguments of the model.

        Raises `ValueError` for a column ``loss_weights``, which the loss of Transformers ignores.
        """
        if any("loss_weights" in row for row in rows):
            raise ValueError(
                "the rows have loss_weights, which the loss of Transformers ignores; prepare "
                "without --loss-weights (weights of 0 still count), or remove the column and "
                "compute a loss with it"
            )
        import torch

        longest = max(len(row["input_ids"]) for row in rows)

        def column(name: str, padding: int) -> torch.Tensor:
            lists = [list(row[name]) for row in rows]
            return torch.tensor([ids + [padding] * (longest - len(ids)) for ids in lists])

        positions = column("position_ids", 0)
        until = column("visible_until", 0)[:, None, :]
        index = torch.arange(longest)
        asking, asked = index[None, :, None], index[None, None, :]
        visible = ((asked < asking) & (asking < until)) | (asked == asking)
        distance = positions[:, :, None] - positions[:, None, :]
        dtype = self.dtype or torch.float32
        hidden = torch.finfo(dtype).min

        def mask(seen: torch.Tensor) -> torch.Tensor:
            return torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, hidden)[:, None]

        return {
            "input_ids": column("input_ids", 0),
            "labels": column("labels", IGNORED),
            "position_ids": positions,
            "attention_mask": {
                "full_attention": mask(visible),
                "sliding_attention": mask(visible & (distance < self.window)),
            },
        }
