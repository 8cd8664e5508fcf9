"""What is made of the rows of a data set; equal settings make equal files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ..options import TrainingOptions
from ..rows import RowForm

__all__ = ["PrepareSettings"]


@dataclass(frozen=True)
class PrepareSettings:
    """Choices for `prepare`.

    - `training`: what is learned, and how it is rendered.
    - `form`: the form of the rows; None detects each row's.
    - `start_date`: the date that the system message of chats has.
    - `pack`: put several examples in one sequence of `training.context_length` tokens.
    - `loss_weights`: write a column with the weights of messages.
    """

    training: TrainingOptions = field(default_factory=TrainingOptions)
    form: RowForm | None = None
    start_date: str | None = None
    pack: bool = False
    loss_weights: bool = False

    def __post_init__(self) -> None:
        if self.pack and self.training.context_length is None:
            raise ValueError("packing needs a context_length: the length of the sequences")

    def as_json(self) -> dict[str, Any]:
        """The settings as JSON, to be compared."""
        found = asdict(self)
        channels = self.training.channels
        found["training"]["channels"] = None if channels is None else sorted(channels)
        return found
