"""Who answers in a chat: what it is asked, and how its answer comes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..conversation.content import ReasoningEffort
from ..conversation.messages import Message

if TYPE_CHECKING:
    from ..tools.tool import Tool

__all__ = ["CUT_OFF", "Answer", "Opening", "Partner", "Piece"]

CUT_OFF = "incomplete: the limit of tokens was reached"


@dataclass(frozen=True)
class Opening:
    """What stands before the conversation.

    `tools` are functions as Chat Completions declares them, `run_here` tools that the chat runs
    itself; an `effort` of None leaves it to the model.
    """

    instructions: str | None = None
    tools: Sequence[dict[str, Any]] = ()
    effort: ReasoningEffort | None = None
    run_here: Sequence[Tool[Any]] = ()


class Piece(NamedTuple):
    """A piece of an answer: text of its message number `message`, on a channel, to a recipient."""

    message: int
    channel: str
    recipient: str | None
    text: str


class Answer(ABC):
    """One answer, up to its end or to the calls whose results it waits for."""

    problem: str | None = None
    """What is wrong with an answer that has ended, such as `CUT_OFF`."""

    @abstractmethod
    def pieces(self) -> AsyncGenerator[Piece, None]:
        """Yield it as it comes; closing the generator stops it. Raises `HarmonyError`."""

    @abstractmethod
    def messages(self) -> list[Message]:
        """Return what has been said so far; of an answer that was stopped, the last may be cut."""


class Partner(ABC):
    """A model to talk with; it remembers nothing of the conversation."""

    @abstractmethod
    def answer(self, opening: Opening, messages: Sequence[Message]) -> Answer:
        """Begin an answer to the conversation so far; it comes with its pieces."""

    @abstractmethod
    async def close(self) -> None:
        """Give back what it holds."""
