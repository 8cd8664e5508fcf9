"""A conversation and an engine to the assistant's next messages, while they are sampled."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from ..config import RenderConversationConfig
from ..conversation.messages import Conversation, Message, Role, declared_tools
from ..encoding import load_harmony_encoding
from ..parsing.parser import StreamableParser
from ..parsing.state import ContentDelta
from .engine import Engine, EngineError, FinishReason, SampledToken, Sampling


@dataclass
class Completion:
    """A turn of the assistant: its sampled tokens, its messages, and the reason for its end.

    `parser` has the repairs of damaged tokens (`StreamableParser.recoveries`).
    """

    prompt: list[int]
    parser: StreamableParser
    sampled: list[SampledToken] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        """The sampled token ids."""
        return [sampled.token for sampled in self.sampled]

    @property
    def messages(self) -> list[Message]:
        """The messages so far."""
        return self.parser.messages

    @property
    def finish_reason(self) -> FinishReason | None:
        """The reason for the end of the completion; None while it runs."""
        return self.sampled[-1].finish_reason if self.sampled else None


@dataclass(frozen=True)
class CompletionStep:
    """A new token, the text that it adds, and the completion so far."""

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
    """Sample the assistant's next turn, token by token, and parse it leniently.

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
        raise EngineError("the engine sampled no token; try again, or look at its log")
    return completion
