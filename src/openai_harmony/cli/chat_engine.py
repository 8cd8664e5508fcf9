"""An engine as the one who answers in a chat: the prompt is rendered and parsed here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from ..apis.chat_messages import tool_from_chat
from ..config import RenderConversationConfig
from ..conversation.content import DeveloperContent, ReasoningEffort, SystemContent
from ..conversation.messages import Conversation, Message, Role
from ..engines import Completion, Engine, FinishReason, Sampling, stream_completion
from ..rendering.history import without_past_reasoning
from .chat_partner import CUT_OFF, Answer, Opening, Partner, Piece

__all__ = ["EnginePartner"]

# Past reasoning is left out here, and calls are spelled as they were sampled.
_CONFIG = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")


class EnginePartner(Partner):
    """Answers with an engine, which is closed with it."""

    def __init__(self, engine: Engine, sampling: Sampling) -> None:
        self._engine = engine
        self._sampling = sampling

    def answer(self, opening: Opening, messages: Sequence[Message]) -> Answer:
        """Begin an answer."""
        conversation = Conversation.from_messages(
            [*_first_messages(opening), *without_past_reasoning(messages)]
        )
        return _EngineAnswer(self._engine, self._sampling, conversation)

    async def close(self) -> None:
        """Close the engine."""
        await self._engine.close()


class _EngineAnswer(Answer):
    def __init__(self, engine: Engine, sampling: Sampling, conversation: Conversation) -> None:
        self._engine = engine
        self._sampling = sampling
        self._conversation = conversation
        self._completion: Completion | None = None

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        shown = -1
        steps = stream_completion(self._engine, self._conversation, self._sampling, config=_CONFIG)
        async with aclosing(steps):
            async for step in steps:
                self._completion = step.completion
                for at, text in step.deltas:
                    shown = at
                    yield _piece(step.completion, at, text)
        if self._completion is None:
            return
        last = len(self._completion.messages) - 1
        if last > shown and self._completion.messages[last].recipient is not None:
            yield _piece(self._completion, last, "")  # a call that says nothing
        if self._completion.finish_reason is FinishReason.LENGTH:
            self.problem = CUT_OFF

    def messages(self) -> list[Message]:
        if self._completion is None:
            return []
        if self._completion.finish_reason is None:
            self._completion.parser.process_eos()  # it was stopped
        return list(self._completion.messages)


def _piece(completion: Completion, at: int, text: str) -> Piece:
    parser = completion.parser
    if at < len(parser.messages):
        message = parser.messages[at]
        return Piece(at, message.channel or "final", message.recipient, text)
    return Piece(at, parser.current_channel or "final", parser.current_recipient, text)


def _first_messages(opening: Opening) -> list[Message]:
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
    return first
