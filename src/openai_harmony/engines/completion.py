"""A conversation and an engine to the assistant's next messages, while they are sampled."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from ..config import RenderConversationConfig
from ..conversation.messages import Conversation, Message, Role, declared_tools
from ..encoding import load_harmony_encoding
from ..parsing.parser import StreamableParser
from ..parsing.state import ContentDelta
from .engine import Engine, FinishReason, SampledToken
from .errors import EngineError
from .sampling import Sampling

__all__ = ["Completion", "CompletionStep", "complete", "stream_completion"]


@dataclass
class Completion:
    """What was sampled: tokens, the messages that they mean, and why they ended.

    `parser` has the messages, and the recoveries where the model broke the format.
    """

    prompt: list[int]
    parser: StreamableParser
    sampled: list[SampledToken] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        """The ids, as they were sampled."""
        return [one.token for one in self.sampled]

    @property
    def messages(self) -> list[Message]:
        """The messages so far."""
        return self.parser.messages

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why it ended; None while it goes on."""
        return self.sampled[-1].finish_reason if self.sampled else None


@dataclass(frozen=True)
class CompletionStep:
    """One more token, the text that it added, and the completion so far."""

    sampled: SampledToken
    deltas: list[ContentDelta]
    completion: Completion


async def stream_completion(
    engine: Engine,
    conversation: Conversation,
    sampling: Sampling | None = None,
    *,
    config: RenderConversationConfig | None = None,
) -> AsyncGenerator[CompletionStep, None]:
    """Sample the assistant's next turn, token by token; broken output is read for what it means.

    Raises what `Engine.generate` raises.
    """
    encoding = load_harmony_encoding("HarmonyGptOss")
    prompt = encoding.render_conversation_for_completion(conversation, Role.ASSISTANT, config)
    tools = declared_tools(conversation.messages)
    parser = StreamableParser(encoding, Role.ASSISTANT, strict=False, tools=tools)
    completion = Completion(prompt, parser)
    stream = engine.generate(prompt, sampling)
    try:
        async for sampled in stream:
            completion.sampled.append(sampled)
            deltas = parser.process_many([sampled.token])
            if sampled.finish_reason is not None:
                parser.process_eos()
            yield CompletionStep(sampled, deltas, completion)
    finally:
        await stream.aclose()


async def complete(
    engine: Engine,
    conversation: Conversation,
    sampling: Sampling | None = None,
    *,
    config: RenderConversationConfig | None = None,
) -> Completion:
    """Sample the assistant's next turn."""
    completion = None
    async for step in stream_completion(engine, conversation, sampling, config=config):
        completion = step.completion
    if completion is None:
        raise EngineError("the engine sampled nothing")
    return completion
