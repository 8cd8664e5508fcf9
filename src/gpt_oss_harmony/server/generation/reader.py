"""Sampled tokens to turn events, with the lenient parser."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from ...apis.items import item_kind, message_text
from ...apis.turn_request import TurnRequest
from ...conversation.messages import Message, Role
from ...encoding import load_harmony_encoding
from ...engines.engine import FinishReason, SampledToken
from ...parsing.parser import StreamableParser
from ...parsing.recovery import WITHOUT_UNMARKED_CALLS
from ...parsing.state import ContentDelta, StreamState
from ...sampled_messages import with_sampled_tokens
from ...tokens.special_tokens import FIRST_SPECIAL
from .events import (
    Ending,
    MessageBegun,
    MessageEnded,
    TextAdded,
    TokenLogprob,
    TurnEnded,
    TurnEvent,
    Usage,
)
from .stop_texts import StopTexts

__all__ = ["MessageBody", "TurnReader"]


class TurnReader:
    """Reads one turn token by token; `is_over` is true after the last token or a stop text.

    Messages that the model wrote as another author, such as imagined results of tools, are left
    out.
    """

    def __init__(self, request: TurnRequest, prompt_length: int) -> None:
        self.is_over = False
        self._encoding = load_harmony_encoding("HarmonyGptOss")
        self._parser = StreamableParser(
            self._encoding,
            Role.ASSISTANT,
            strict=False,
            tools=request.tools,
            repairs=WITHOUT_UNMARKED_CALLS,
        )
        self._stop = request.stop
        self._most_tokens = request.sampling.max_tokens
        self._has_calls = False
        self._may_call = False  # if a client, or the server, may run the calls
        self._prompt_length = prompt_length
        self._body: MessageBody | None = None  # of the message that has begun and not ended
        self._waiting: list[SampledToken] = []  # of a message that has not begun
        self._ended = 0  # messages, including those that are left out
        self._emitted = 0  # messages, without those
        self._consumed = 0  # tokens of the messages that have ended
        self._reasoning_tokens = 0
        self._forced_tokens = 0

    def take(self, sampled: SampledToken) -> Iterable[TurnEvent]:
        """Read a token; emit all its events, so that no text waits unnecessarily."""
        parser, body = self._parser, self._body
        self._forced_tokens += sampled.is_forced
        if body is not None:
            body.add_logprob(sampled)
        elif parser.state is StreamState.CONTENT:
            self._waiting.append(sampled)
        deltas = parser.process_many([sampled.token])
        if (
            len(deltas) == 1
            and body is not None
            and body.is_plain
            and sampled.finish_reason is None
            and parser.state is StreamState.CONTENT
            and deltas[0].message == self._ended == len(parser.messages)
        ):  # text inside a message, like most tokens
            added = body.add(deltas[0].text)
            return () if added is None else (added,)
        return self._all_events(sampled, deltas)

    def _all_events(
        self, sampled: SampledToken, deltas: Sequence[ContentDelta]
    ) -> Iterator[TurnEvent]:
        """Emit the events of a token that may be more than text."""
        parser = self._parser
        if sampled.finish_reason is not None:
            parser.process_eos()
        for position, text, *_ in deltas:
            yield from self._end_messages(before=position)
            if self.is_over:
                break
            yield from self._begin()
            if self._body is not None and not self._body.is_hidden:
                yield from self._emit(self._body, self._body.add(text))
        yield from self._end_messages(before=len(parser.messages))
        if parser.state is not StreamState.CONTENT:
            self._waiting.clear()
        elif not self.is_over and parser.current_recipient is not None:
            yield from self._begin()  # other headers may be repeated before there is text
        if not self.is_over and sampled.finish_reason is not None:
            ending = Ending.CALL if self._may_call else Ending.ANSWER
            if sampled.finish_reason is FinishReason.LENGTH:
                most = self._most_tokens
                is_limit = most is not None and len(parser.tokens) >= most
                ending = Ending.LIMIT if is_limit else Ending.CONTEXT
            yield self._end(ending, sampled.cached_tokens or 0)

    def _begin(self) -> Iterator[MessageBegun]:
        """Begin the next message, unless it has begun."""
        if self._body is not None:
            return
        parser = self._parser
        if self._ended < len(parser.messages):  # it began and ended with the same token
            message = parser.messages[self._ended]
            yield from self._open(message.author.role, message.channel, message.recipient)
        else:
            yield from self._open(
                parser.current_role, parser.current_channel, parser.current_recipient
            )

    def _open(
        self, role: Role | None, channel: str | None, recipient: str | None
    ) -> Iterator[MessageBegun]:
        """Open the body of a message; stop texts apply only to text that the user reads."""
        is_own, kind = role is Role.ASSISTANT, item_kind(channel, recipient)
        stop = self._stop if is_own and kind.is_message else ()
        self._has_calls |= is_own and kind.is_call
        self._body = MessageBody(
            MessageBegun(self._emitted, channel, recipient),
            stop,
            self._encoding.tokenizer.decode_bytes,
            is_hidden=not is_own,
        )
        for sampled in self._waiting:
            self._body.add_logprob(sampled)
        self._waiting.clear()
        if is_own:
            self._emitted += 1
            yield self._body.begun

    def _emit(self, body: MessageBody, added: TextAdded | None) -> Iterator[TurnEvent]:
        """Emit text of the body; end the message and the turn at a stop text."""
        if added is not None:
            yield added
        if body.has_stopped:
            message = Message.from_role_and_content(Role.ASSISTANT, body.text)
            message.channel, message.recipient = body.begun.channel, body.begun.recipient
            yield MessageEnded(body.begun.position, message, True)
            yield self._end(Ending.STOP_TEXT, 0)._replace(stop_text=body.stop_text)

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
            # The message seemed to be by a tool; its last token shows that it is a call of it.
            yield from self._open(Role.ASSISTANT, message.channel, message.recipient)
        body, is_last = self._body, self._ended == len(self._parser.messages) - 1
        if body is not None and not body.is_hidden:
            yield from self._emit(body, body.add_rest(message_text(message)))
            if self.is_over:
                return
        tokens = []
        if is_last:  # if several messages end with one token (repairs), the last gets it
            tokens = self._parser.tokens[self._consumed :]
            self._consumed = len(self._parser.tokens)
        if message.channel == "analysis" and message.recipient is None:
            self._reasoning_tokens += len(tokens)
        if body is not None and not body.is_hidden:
            (sampled,) = with_sampled_tokens(self._encoding, [message], tokens, [len(tokens)])
            is_complete = not (is_last and self._parser.incomplete)
            self._may_call = self._has_calls and is_complete
            yield MessageEnded(body.begun.position, sampled, is_complete)
        self._body = None
        self._ended += 1

    def _end(self, ending: Ending, cached_tokens: int) -> TurnEnded:
        self.is_over = True
        parser = self._parser
        usage = Usage(
            self._prompt_length,
            cached_tokens,
            len(parser.tokens),
            self._reasoning_tokens,
            self._forced_tokens,
        )
        return TurnEnded(ending, usage, parser.tokens, parser.recoveries)


class MessageBody:
    """The text of a message while it is sampled, with the log-probabilities of its tokens.

    Text that may be the beginning of a stop text is pending; `text` was emitted.
    """

    def __init__(
        self,
        begun: MessageBegun,
        stop: Sequence[str],
        bytes_of: Callable[[Collection[int]], bytes],
        *,
        is_hidden: bool = False,
    ) -> None:
        self.begun = begun
        self.is_hidden = is_hidden
        self._stop = StopTexts(stop) if stop else None
        self._bytes_of = bytes_of
        self._chunks: list[str] = []
        self._received = 0  # characters
        self._emitted = 0  # of these
        # Each with the number of characters before its token's own:
        self._logprobs: deque[tuple[int, TokenLogprob]] = deque()

    @property
    def is_plain(self) -> bool:
        """True if all text is emitted unchanged."""
        return self._stop is None and not self.is_hidden

    @property
    def text(self) -> str:
        """The emitted text so far."""
        return "".join(self._chunks)

    @property
    def has_stopped(self) -> bool:
        """True once a stop text was found; the text does not contain it."""
        return self._stop is not None and self._stop.found

    @property
    def stop_text(self) -> str | None:
        """The stop text that was found."""
        return None if self._stop is None else self._stop.text

    def add_logprob(self, sampled: SampledToken) -> None:
        """Store the log-probability of a token of the body."""
        if sampled.logprob is None or sampled.token >= FIRST_SPECIAL:
            return
        top = tuple(
            (self._bytes_of([token]), logprob) for token, logprob in sampled.top_logprobs or ()
        )
        logprob = TokenLogprob(self._bytes_of([sampled.token]), sampled.logprob, top)
        self._logprobs.append((self._received, logprob))

    def add(self, text: str) -> TextAdded | None:
        """Take text; return the part in which no stop text can begin."""
        self._received += len(text)
        return self._emit(text if self._stop is None else self._stop.feed(text))

    def add_rest(self, whole: str) -> TextAdded | None:
        """Take the whole text of the message at its end, and emit all pending text."""
        missing = whole[self._received :]
        self._received += len(missing)
        if self._stop is None:
            return self._emit(missing)
        text = self._stop.feed(missing)
        return self._emit(text + self._stop.rest())

    def _emit(self, text: str) -> TextAdded | None:
        if not text:
            return None
        self._chunks.append(text)
        self._emitted += len(text)
        logprobs = []
        while self._logprobs and self._logprobs[0][0] < self._emitted:
            logprobs.append(self._logprobs.popleft()[1])
        return TextAdded(self.begun.position, text, tuple(logprobs))
