"""Sampled tokens to turn events, by the recovering parser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..apis.turn_request import TurnRequest
from ..encoding import load_harmony_encoding
from ..engines.engine import FinishReason, SampledToken
from ..machine import StreamState
from ..messages import Message, Role
from ..parser import StreamableParser
from ..sampled_messages import with_sampled_tokens
from ..special_tokens import FIRST_SPECIAL
from ..tokenizer import Tokenizer
from .stop_texts import StopTexts
from .turn_events import (
    MessageBegun,
    MessageEnded,
    TextAdded,
    TokenLogprob,
    TurnEnded,
    TurnEvent,
    Usage,
)

__all__ = ["TurnReader"]


class TurnReader:
    """Follows one turn from token to token; `is_over` after the last one, or at a stop text."""

    def __init__(self, request: TurnRequest, prompt_length: int) -> None:
        self.is_over = False
        self._encoding = load_harmony_encoding("HarmonyGptOss")
        self._parser = StreamableParser(
            self._encoding, Role.ASSISTANT, strict=False, tools=request.tools
        )
        self._stop = request.stop
        self._prompt_length = prompt_length
        self._body: _Body | None = None  # of the message that has begun and not ended
        self._ended = 0  # messages
        self._read = 0  # tokens of these messages
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
            if not self.is_over:
                yield from self._add(text)
        if not self.is_over:
            yield from self._end_messages(before=len(parser.messages))
            if parser.state is StreamState.CONTENT:
                yield from self._begin()
        if sampled.finish_reason is not None and not self.is_over:
            yield self._end(sampled.finish_reason, sampled.cached_tokens or 0)

    def _begin(self) -> Iterator[TurnEvent]:
        """Tell of the next message, unless that was done."""
        if self._body is not None:
            return
        parser = self._parser
        if self._ended < len(parser.messages):  # it ended with the token that it began with
            message = parser.messages[self._ended]
            channel, recipient = message.channel, message.recipient
        else:
            channel, recipient = parser.current_channel, parser.current_recipient
        is_answer = recipient is None and channel != "analysis"
        self._body = _Body(parser.tokenizer, self._stop if is_answer else ())
        yield MessageBegun(self._ended, channel, recipient)

    def _add(self, text: str) -> Iterator[TurnEvent]:
        yield from self._begin()
        body = self._body
        if body is None:
            return
        yield from body.add(self._ended, text)
        if body.has_stopped:
            yield from self._stop_here(body)

    def _end_messages(self, before: int) -> Iterator[TurnEvent]:
        messages = self._parser.messages
        while self._ended < before:
            yield from self._begin()
            if self._body is not None:
                yield from self._body.add_rest(self._ended)
            message = messages[self._ended]
            # Of messages that end with the same token, which happens in repairs, the last gets it.
            is_last = self._ended == len(messages) - 1
            tokens = self._take_tokens() if is_last else []
            if message.channel == "analysis" and message.recipient is None:
                self._reasoning += len(tokens)
            (known,) = with_sampled_tokens(self._encoding, [message], tokens, [len(tokens)])
            yield MessageEnded(self._ended, known, not (is_last and self._parser.incomplete))
            self._body = None
            self._ended += 1

    def _take_tokens(self) -> list[int]:
        start, self._read = self._read, len(self._parser.tokens)
        return self._parser.tokens[start:]

    def _stop_here(self, body: _Body) -> Iterator[TurnEvent]:
        """End the turn at a stop text: the message is what was passed on."""
        message = Message.from_role_and_content(Role.ASSISTANT, body.text)
        message.channel = self._parser.current_channel or "final"
        yield MessageEnded(self._ended, message, True)
        yield self._end(FinishReason.STOP, 0)

    def _end(self, reason: FinishReason, cached: int) -> TurnEnded:
        self.is_over = True
        parser = self._parser
        usage = Usage(self._prompt_length, cached, len(parser.tokens), self._reasoning)
        return TurnEnded(reason, usage, parser.tokens, parser.recoveries)


class _Body:
    """The text of a message, as far as it was passed on."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str]) -> None:
        self._bytes_of = tokenizer.decode_bytes
        self._stop = StopTexts(stop) if stop else None
        self._parts: list[str] = []
        self._logprobs: list[TokenLogprob] = []

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def has_stopped(self) -> bool:
        return self._stop is not None and self._stop.found

    def note(self, sampled: SampledToken) -> None:
        """Keep the log-probability of a token of the body."""
        if sampled.logprob is None or sampled.token >= FIRST_SPECIAL:
            return
        top = tuple((self._bytes_of([one]), logprob) for one, logprob in sampled.top_logprobs or ())
        data = self._bytes_of([sampled.token])
        self._logprobs.append(TokenLogprob(data, sampled.logprob, top))

    def add(self, at: int, text: str) -> Iterator[TextAdded]:
        """Take text; pass on what no stop text can begin in."""
        yield from self._pass_on(at, text if self._stop is None else self._stop.feed(text))

    def add_rest(self, at: int) -> Iterator[TextAdded]:
        """Pass on what was held back for a stop text that did not come."""
        if self._stop is not None:
            yield from self._pass_on(at, self._stop.rest())

    def _pass_on(self, at: int, text: str) -> Iterator[TextAdded]:
        if text:
            self._parts.append(text)
            logprobs, self._logprobs = tuple(self._logprobs), []
            yield TextAdded(at, text, logprobs)
