"""The model in a chat: the interface of backends, and an engine in this process as one.

A backend gets the whole conversation with each request, and remembers nothing of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..apis.chat.input import tool_from_chat
from ..config import RenderConversationConfig
from ..conversation.content import DeveloperContent, ReasoningEffort, SystemContent
from ..conversation.messages import Conversation, Message, Role
from ..engines import Completion, Engine, FinishReason, Sampling, stream_completion
from ..engines.repetition import RepetitionDetector
from ..rendering.history import without_past_reasoning
from .input import warn

if TYPE_CHECKING:
    from ..tools.tool import Tool

CUT_OFF = "incomplete: the limit of tokens was reached"
REPETITION = 512  # tokens, as `harmony serve` has it by default
IN_CIRCLES = "stopped: the model repeats itself"


@dataclass(frozen=True)
class Opening:
    """The settings before the conversation.

    `tools` are functions in the form of Chat Completions; `run_here` are tools that the chat runs
    itself. An `effort` of None means the model's default.
    """

    instructions: str | None = None
    tools: Sequence[dict[str, Any]] = ()
    effort: ReasoningEffort | None = None
    run_here: Sequence[Tool[Any]] = ()


class Piece(NamedTuple):
    """A piece of an answer: new text of the message with index `message`."""

    message: int
    channel: str
    recipient: str | None
    text: str


class Answer(ABC):
    """One answer, up to its end or to calls that need results."""

    problem: str | None = None
    """The problem of an answer that has ended, such as `CUT_OFF`."""

    @abstractmethod
    def pieces(self) -> AsyncGenerator[Piece, None]:
        """Yield the pieces; closing the generator stops the answer. Raises `HarmonyError`."""

    @abstractmethod
    def messages(self) -> list[Message]:
        """Return the messages so far; if the answer was stopped, the last may be incomplete."""


class Backend(ABC):
    """A model to chat with."""

    default_effort: ClassVar[str] = "medium"
    """How much the model reasons unless somebody says so, in words."""

    @abstractmethod
    def answer(self, opening: Opening, messages: Sequence[Message]) -> Answer:
        """Return an answer to the conversation so far; reading its pieces starts it."""

    @abstractmethod
    async def close(self) -> None:
        """Free the backend's resources."""


def opened_conversation(opening: Opening, messages: Iterable[Message]) -> Conversation:
    """Return a conversation, with the system and developer messages of its settings."""
    effort = opening.effort or ReasoningEffort.MEDIUM
    system = SystemContent.new().with_reasoning_effort(effort)
    for tool in opening.run_here:
        tool.declare(system)
    first = [Message.from_role_and_content(Role.SYSTEM, system)]
    developer = DeveloperContent()
    if opening.instructions:
        developer.with_instructions(opening.instructions)
    if opening.tools:
        developer.with_function_tools([tool_from_chat(tool) for tool in opening.tools])
    if developer != DeveloperContent():
        first.append(Message.from_role_and_content(Role.DEVELOPER, developer))
    return Conversation.from_messages([*first, *messages])


class EngineBackend(Backend):
    """Answers with an engine, and closes it.

    With a `grammar`, the default, calls are what their tools declare. What of a schema cannot be
    enforced is a warning, once. An answer ends when its last `repetition` tokens only repeat those
    before.
    """

    def __init__(
        self,
        engine: Engine,
        sampling: Sampling,
        *,
        grammar: bool = True,
        repetition: int = REPETITION,
    ) -> None:
        self._engine = engine
        self._sampling = sampling
        self._grammar = grammar
        self._repetition = repetition
        self._warnings: set[str] = set()

    def answer(self, opening: Opening, messages: Sequence[Message]) -> Answer:
        """Render the conversation for the engine."""
        conversation = opened_conversation(opening, without_past_reasoning(messages))
        sampling = self._sampling
        if self._grammar and (opening.tools or opening.run_here):
            from ..grammar import TurnOptions, turn_constraint  # every engine's extra brings it

            constraint = turn_constraint(conversation, TurnOptions(on_unsupported="loosen"))
            sampling = replace(sampling, grammar=constraint.grammar)
            for problem in map(str, (*constraint.unenforced, *constraint.narrowed)):
                if problem not in self._warnings:
                    self._warnings.add(problem)
                    warn(problem)
        detector = RepetitionDetector(self._repetition)
        return _EngineAnswer(self._engine, sampling, conversation, detector)

    async def close(self) -> None:
        """Close the engine."""
        await self._engine.close()


class _EngineAnswer(Answer):
    # The backend drops past reasoning itself. Headers of calls go back as the model sampled them.
    _CONFIG = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")

    def __init__(
        self,
        engine: Engine,
        sampling: Sampling,
        conversation: Conversation,
        detector: RepetitionDetector,
    ) -> None:
        self._engine = engine
        self._detector = detector
        self._sampling = sampling
        self._conversation = conversation
        self._completion: Completion | None = None

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        shown = -1
        steps = stream_completion(
            self._engine, self._conversation, self._sampling, config=self._CONFIG
        )
        async with aclosing(steps):
            async for step in steps:
                self._completion = step.completion
                for index, text, *_ in step.deltas:
                    shown = index
                    yield _piece(step.completion, index, text)
                if self._detector.take(step.sampled.token):
                    self.problem = IN_CIRCLES
                    return
        if self._completion is None:
            return
        last = len(self._completion.messages) - 1
        if last > shown and self._completion.messages[last].recipient is not None:
            yield _piece(self._completion, last, "")  # a call with an empty body
        if self._completion.finish_reason is FinishReason.LENGTH:
            self.problem = CUT_OFF

    def messages(self) -> list[Message]:
        if self._completion is None:
            return []
        if self._completion.finish_reason is None:
            self._completion.parser.process_eos()  # the answer was stopped
        return list(self._completion.messages)


def _piece(completion: Completion, index: int, text: str) -> Piece:
    parser = completion.parser
    if index < len(parser.messages):
        message = parser.messages[index]
        return Piece(index, message.channel or "final", message.recipient, text)
    return Piece(index, parser.current_channel or "final", parser.current_recipient, text)
