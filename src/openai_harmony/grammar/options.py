"""What a caller may ask of a turn beside its tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import GrammarError
from .tool_choice import ToolChoice

__all__ = ["TurnOptions"]


@dataclass(frozen=True)
class TurnOptions:
    """How a turn is restricted.

    - `tool_choice`: as the APIs have it: ``"none"``, ``"auto"``, ``"required"``, a tool's name as
      an object, or allowed tools.
    - `response_format`: as Chat Completions has it, instead of what the conversation asks for;
      None leaves that as it is.
    - `reasoning`: whether the turn may hold ``analysis`` messages to everyone.
    - `reasoning_tokens`: tokens in each of them at most, without its header.
    - `reasoning_messages`: how many there may be at most.
    - `preambles`: whether the turn may hold ``commentary`` messages to everyone.
    - `text_tokens`: tokens at most in each other body that is free text: preambles, code, and an
      answer without a format.
    """

    tool_choice: ToolChoice | str | Mapping[str, Any] | None = None
    response_format: Mapping[str, Any] | None = None
    reasoning: bool = True
    reasoning_tokens: int | None = None
    reasoning_messages: int | None = None
    preambles: bool = True
    text_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("reasoning_tokens", "reasoning_messages", "text_tokens"):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise GrammarError(f"{name}: expected a positive integer, found {value!r}")
