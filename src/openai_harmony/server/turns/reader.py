"""Sampled tokens to turn events, by the recovering parser."""

from __future__ import annotations

from collections.abc import Iterator

from ...apis.item_kind import what_kind
from ...apis.output_items import message_text
from ...apis.turn_request import TurnRequest
from ...conversation.messages import Message, Role
from ...encoding import load_harmony_encoding
from ...engines.engine import FinishReason, SampledToken
from ...parsing.parser import StreamableParser
from ...parsing.state import StreamState
from ...sampled_messages import with_sampled_tokens
from .body import TurnBody
from .events import MessageBegun, MessageEnded, TextAdded, TurnEnded, TurnEvent, Usage

__all__ = ["TurnReader"]


class TurnReader:
    """Follows one turn from token to token; `is_over` after the last one, or at a stop text.

    What the model wrote in the name of others, such as an imagined result of a tool, is left out.
    """

    def __init__(self, request: TurnRequest, prompt_length: int) -> None:
        self.is_over = False
        self._encoding = load_harmony_encoding("HarmonyGptOss")
        self._parser = StreamableParser(
            self._encoding, Role.ASSISTANT, strict=False, tools=request.tools
        )
        self._stop = request.stop
        self._prompt_length = prompt_length
        self._body: TurnBody | None = None  # of the message that has begun and not ended
        self._ended = 0  # messages, those that are left out included
        self._told = 0  # messages, without these
        self._read = 0  # tokens of the messages that have ended
        self._reasoning = 0

    def take(self, sampled: SampledToken) -> Iterator[TurnEvent]:
        """Read a token; what it means is complete, so that nothing is held back without need."""
        parser = self._parser
        if self._body is not None:
            self._body.note(sampled)
        deltas = parser.process_many([sampled.token])
        if sampled.finish_reason is not None:
            parser.process_eos()
        for at, text in deltas:
            yield from self._end_messages(before=at)
            yield from self._add(text)
        yield from self._end_messages(before=len(parser.messages))
        if not self.is_over and parser.state is StreamState.CONTENT:
            yield from self._begin()
        if not self.is_over and sampled.finish_reason is not None:
            yield self._end(sampled.finish_reason, sampled.cached_tokens or 0)

    def _begin(self) -> Iterator[MessageBegun]:
        """Tell of the next message, unless that was done."""
        if self._body is not None:
            return
        parser = self._parser
        if self._ended < len(parser.messages):  # it ended with the token that it began with
            message = parser.messages[self._ended]
            yield from self._open(message.author.role, message.channel, message.recipient)
        else:
            yield from self._open(
                parser.current_role, parser.current_channel, parser.current_recipient
            )

    def _open(
        self, role: Role | None, channel: str | None, recipient: str | None
    ) -> Iterator[MessageBegun]:
        """Open the body of a message; the stop texts are for what the user reads."""
        is_own = role is Role.ASSISTANT
        stop = self._stop if is_own and what_kind(channel, recipient).is_message else ()
        self._body = TurnBody(
            self._told, channel, stop, self._encoding.tokenizer.decode_bytes, is_hidden=not is_own
        )
        if is_own:
            self._told += 1
            yield MessageBegun(self._body.at, channel, recipient)

    def _add(self, text: str) -> Iterator[TurnEvent]:
        if self.is_over:
            return
        yield from self._begin()
        if self._body is not None and not self._body.is_hidden:
            yield from self._pass_on(self._body, self._body.add(text))

    def _pass_on(self, body: TurnBody, added: TextAdded | None) -> Iterator[TurnEvent]:
        if added is not None:
            yield added
        if body.has_stopped:
            message = Message.from_role_and_content(Role.ASSISTANT, body.text)
            message.channel = body.channel
            yield MessageEnded(body.at, message, True)
            yield self._end(FinishReason.STOP, 0)

    def _end_messages(self, before: int) -> Iterator[TurnEvent]:
        while self._ended < before and not self.is_over:
            yield from self._end_message(self._parser.messages[self._ended])

    def _end_message(self, message: Message) -> Iterator[TurnEvent]:
        yield from self._begin()
        if (
            self._body is not None
            and self._body.is_hidden
            and message.author.role is Role.ASSISTANT
        ):
            # What seemed to be said by a tool was a call of it, as its last token shows.
            yield from self._open(Role.ASSISTANT, message.channel, message.recipient)
        body, is_last = self._body, self._ended == len(self._parser.messages) - 1
        if body is not None and not body.is_hidden:
            yield from self._pass_on(body, body.add_rest(message_text(message)))
            if self.is_over:
                return
        # Of messages that end with the same token, which happens in repairs, the last gets it.
        tokens = self._take_tokens() if is_last else []
        if message.channel == "analysis" and message.recipient is None:
            self._reasoning += len(tokens)
        if body is not None and not body.is_hidden:
            (known,) = with_sampled_tokens(self._encoding, [message], tokens, [len(tokens)])
            yield MessageEnded(body.at, known, not (is_last and self._parser.incomplete))
        self._body = None
        self._ended += 1

    def _take_tokens(self) -> list[int]:
        start, self._read = self._read, len(self._parser.tokens)
        return self._parser.tokens[start:]

    def _end(self, reason: FinishReason, cached: int) -> TurnEnded:
        self.is_over = True
        parser = self._parser
        usage = Usage(self._prompt_length, cached, len(parser.tokens), self._reasoning)
        return TurnEnded(reason, usage, parser.tokens, parser.recoveries)
