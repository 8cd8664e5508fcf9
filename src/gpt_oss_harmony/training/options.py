"""The options for training examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..config import HeaderStyle, RenderConversationConfig, SchemaDialect

__all__ = ["TrainedTurns", "TrainingOptions"]

TrainedTurns: TypeAlias = Literal["all", "last"]
"""The turns to train on: all turns of the assistant, or only its last turn, which follows the last
message that is not by the assistant or a tool."""


@dataclass(frozen=True)
class TrainingOptions:
    """The options of `training_examples`.

    - `turns`: ``"all"`` turns are trained on, or only the ``"last"``.
    - `channels`: the assistant's channels that are trained on; None for all.
    - `keep_past_reasoning`: also render the reasoning of earlier turns. Each conversation is then
      one example, but prompts of inference do not contain that reasoning.
    - `context_length`: the most tokens of an example; None for no limit.
    - `header_style`: the spelling of headers. The default is the spelling of the models, and not
      that of the reference, which is the default of `RenderConversationConfig`.
    - `schema_dialect`: how a tool's parameters are written.
    """

    turns: TrainedTurns = "all"
    channels: frozenset[str] | None = None
    keep_past_reasoning: bool = False
    context_length: int | None = None
    header_style: HeaderStyle = "guide"
    schema_dialect: SchemaDialect = "typescript"

    def rendering(self) -> RenderConversationConfig:
        """Return a configuration that drops nothing, because the messages are already chosen."""
        return RenderConversationConfig(
            auto_drop_analysis=False,
            schema_dialect=self.schema_dialect,
            header_style=self.header_style,
        )
