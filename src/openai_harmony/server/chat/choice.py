"""One choice of a chat completion, once as a whole and once as chunks."""

from __future__ import annotations

from collections.abc import Iterator

from ...apis.chat_message import chat_message_of
from ...apis.item_kind import what_kind
from ...apis.turn_request import TurnRequest
from ...conversation.messages import Message
from ...engines.engine import FinishReason
from ..identifiers import new_id
from ..turns.events import MessageBegun, MessageEnded, TextAdded, TokenLogprob, TurnEnded, TurnEvent
from .answer import (
    ChatChoice,
    ChunkChoice,
    chat_logprobs,
    chunk_choice,
    finish_reason,
)
from .deltas import ChatDelta, ChatDeltas

__all__ = ["StreamedChoice", "WholeChoice"]


class WholeChoice:
    """Collects what is sampled."""

    def __init__(self, turn: TurnRequest) -> None:
        self._custom_tools = turn.custom_tools
        self._messages: list[Message] = []
        self._logprobs: list[TokenLogprob] | None = None if turn.sampling.logprobs is None else []
        self._in_content = False
        self._reason = FinishReason.STOP

    def take(self, event: TurnEvent) -> None:
        """Read what happens."""
        if isinstance(event, MessageBegun):
            self._in_content = what_kind(event.channel, event.recipient).is_message
        elif isinstance(event, TextAdded):
            if self._in_content and self._logprobs is not None:
                self._logprobs += event.logprobs
        elif isinstance(event, MessageEnded):
            self._messages.append(event.message)
        else:
            self._reason = event.reason

    def as_json(self, index: int) -> ChatChoice:
        """Write the choice."""
        message = chat_message_of(self._messages, new_id, custom_tools=self._custom_tools)
        return {
            "index": index,
            "message": message,
            "logprobs": None if self._logprobs is None else chat_logprobs(self._logprobs),
            "finish_reason": finish_reason(self._reason, has_calls="tool_calls" in message),
        }


class StreamedChoice:
    """Writes what is sampled, with the role at the start, and why it ended at the end."""

    def __init__(self, turn: TurnRequest, index: int) -> None:
        self._index = index
        self._has_logprobs = turn.sampling.logprobs is not None
        self._deltas = ChatDeltas(new_id, turn.custom_tools)
        self._has_begun = False

    def take(self, event: TurnEvent) -> Iterator[ChunkChoice]:
        """Write what happens."""
        if not self._has_begun:
            self._has_begun = True
            yield self._chunk(ChatDelta({"role": "assistant", "content": ""}))
        if isinstance(event, TurnEnded):
            reason = finish_reason(event.reason, has_calls=self._deltas.calls > 0)
            yield {**self._chunk(ChatDelta({})), "finish_reason": reason}
        else:
            yield from map(self._chunk, self._deltas.take(event))

    def _chunk(self, delta: ChatDelta) -> ChunkChoice:
        return chunk_choice(self._index, delta, has_logprobs=self._has_logprobs)
