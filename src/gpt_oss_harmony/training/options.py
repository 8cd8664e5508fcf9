"""The options for training examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ..config import HeaderStyle, RenderConversationConfig, SchemaDialect
from ..errors import wrong_type

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

    def __post_init__(self) -> None:
        if self.turns not in get_args(TrainedTurns):
            raise ValueError(f"turns must be 'all' or 'last', not {self.turns!r}")
        if isinstance(self.channels, str):  # a text would allow its parts, too
            remedy = f"write frozenset([{self.channels!r}])"
            raise wrong_type("channels", "a set of channels", self.channels, remedy)

    @classmethod
    def checked(cls, options: TrainingOptions | None) -> TrainingOptions:
        """Return the options, or the default ones; raise `TypeError` for anything else."""
        if options is None or isinstance(options, cls):
            return options or cls()
        raise wrong_type("options", "TrainingOptions", options, "write TrainingOptions(...)")

    def rendering(self) -> RenderConversationConfig:
        """Return a configuration that drops nothing, because the messages are already chosen."""
        return RenderConversationConfig(
            auto_drop_analysis=False,
            schema_dialect=self.schema_dialect,
            header_style=self.header_style,
        )
