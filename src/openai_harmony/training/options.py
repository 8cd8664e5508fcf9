"""Choices of the messages to train on, and of how they are rendered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..config import HeaderStyle, RenderConversationConfig, SchemaDialect

__all__ = ["TrainedTurns", "TrainingOptions"]

TrainedTurns: TypeAlias = Literal["all", "last"]
"""Every turn of the assistant, or what it said after the last message by anyone else but a tool."""


@dataclass(frozen=True)
class TrainingOptions:
    """Choices for `training_examples`.

    - `turns`: which turns are trained on.
    - `channels`: which of the assistant's channels are trained on; None for all.
    - `keep_past_reasoning`: render the reasoning of earlier turns as well. A conversation is one
      example then, but no prompt of inference has that reasoning.
    - `context_length`: tokens that an example has at most; None for no limit.
    - `header_style`: the spelling of headers. The default is what the models write, not the
      default of `RenderConversationConfig`, which is what the reference writes.
    - `schema_dialect`: how a tool's parameters are written.
    """

    turns: TrainedTurns = "all"
    channels: frozenset[str] | None = None
    keep_past_reasoning: bool = False
    context_length: int | None = None
    header_style: HeaderStyle = "guide"
    schema_dialect: SchemaDialect = "typescript"

    def rendering(self) -> RenderConversationConfig:
        """Return how to render messages that were chosen before: nothing is dropped."""
        return RenderConversationConfig(
            auto_drop_analysis=False,
            schema_dialect=self.schema_dialect,
            header_style=self.header_style,
        )
