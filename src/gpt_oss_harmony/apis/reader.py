"""Sampled tokens to the items of a turn, without I/O: the one reader of all APIs.

`TurnReader` reads a turn of the model with the lenient parser, `TextReader` a raw completion, and
`item_events` messages that are already parsed.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

from ..conversation.messages import Message, Role, is_reasoning
from ..encoding import load_harmony_encoding
from ..engines.engine import FinishReason, SampledToken
from ..parsing.parser import StreamableParser
from ..parsing.recovery import WITHOUT_UNMARKED_CALLS
from ..parsing.state import ContentDelta, StreamState
from ..sampled_messages import with_sampled_tokens
from ..tokens.special_tokens import CALL, FIRST_SPECIAL, RETURN, SPECIAL_TEXTS
from .call_texts import body_text
from .items import (
    Ending,
    ItemBegun,
    ItemEnded,
    ItemEvent,
    ItemRules,
    ItemText,
    NewId,
    TokenLogprob,
    TurnEnded,
    Usage,
)
from .stop_texts import StopTexts
from .turn import TurnRequest

_LAST_TOKENS = (RETURN, CALL)


class TurnReader:
    """Reads one turn token by token; `is_over` is true after the last token or a stop text.

    Messages that the model wrote as another author, such as imagined results of tools, are left
    out. Calls that a client answers get an id from `new_id`, with the prefix of the API. Without
    `streams`, each item has its text at once, when it ends; with `mend_arguments`, each call. Its
    arguments are then mended (`mend_json`), unless they would not follow the tool's schema.

    >>> from gpt_oss_harmony import Conversation
    >>> encoding = load_harmony_encoding("HarmonyGptOss")
    >>> turn = TurnRequest(Conversation.from_messages([]))
    >>> text = "<|channel|>commentary to=functions.now<|message|><|call|>"
    >>> reader = TurnReader(turn, new_id=lambda prefix: f"{prefix}_1")
    >>> tokens = encoding.encode(text, allowed_special="all")
    >>> begun, added, ended, last = [event for token in tokens for event in reader.take(token)]
    >>> begun.name, begun.call_id, added.text, ended.is_complete, last.ending.name
    ('now', 'call_1', '{}', True, 'CALL')
    """

    def __init__(
        self,
        turn: TurnRequest,
        prompt_length: int = 0,
        *,
        new_id: NewId,
        id_prefix: str = "call",
        streams: bool = True,
        mend_arguments: bool = False,
    ) -> None:
        self.is_over = False
        self._encoding = load_harmony_encoding("HarmonyGptOss")
        self._parser = StreamableParser(
            self._encoding,
            Role.ASSISTANT,
            strict=False,
            tools=turn.tools,
            repairs=WITHOUT_UNMARKED_CALLS,
            mend_arguments=mend_arguments and partial(_may_be_mended, turn),
        )
        self._begun = 0  # tokens at the beginning of the first message, from the prompt
        self._prefix = ""  # their text
        if turn.continues:
            begun = turn.begun_tokens()
            self._parser.process_begun(begun)
            self._begun, self._prefix = len(begun), turn.conversation.messages[-1].text
        self._mends = mend_arguments
        self._rules = turn.item_rules
        self._new_id = new_id
        self._id_prefix = id_prefix
        self._streams = streams
        self._stop = turn.stop
        self._most_tokens = turn.sampling.max_tokens
        self._has_calls = False
        self._may_call = False  # if a client, or the server, may run the calls
        self._prompt_length = prompt_length
        self._body: _Body | None = None  # of the message that has begun and not ended
        self._waiting: list[SampledToken] = []  # of a message that has not begun
        self._ended = 0  # messages, including those that are left out
        self._emitted = 0  # messages, without those
        self._consumed = 0  # tokens of the messages that have ended
        self._reasoning_tokens = 0
        self._forced_tokens = 0

    def take(self, sampled: SampledToken | int) -> Iterable[ItemEvent]:
        """Read a token; emit all its events, so that no text waits unnecessarily.

        A bare id ends the turn if it is a stop token; if the tokens just end, call `end`.
        """
        if isinstance(sampled, int):
            reason = FinishReason.STOP if sampled in _LAST_TOKENS else None
            sampled = SampledToken(sampled, finish_reason=reason)
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
        return self._all_events(deltas, sampled.finish_reason, sampled.cached_tokens or 0)

    def end(self) -> Iterable[ItemEvent]:
        """End a turn whose tokens ended without a reason, as a limit on tokens would."""
        return () if self.is_over else self._all_events((), FinishReason.LENGTH, 0)

    def _all_events(
        self, deltas: Sequence[ContentDelta], finish: FinishReason | None, cached: int
    ) -> Iterator[ItemEvent]:
        """Emit the events of a token that may be more than text."""
        parser = self._parser
        if finish is not None:
            parser.process_eos()
        for position, text, *_ in deltas:
            yield from self._end_messages(before=position)
            if self.is_over:
                break
            yield from self._begin()
            if self._body is not None and not self._body.is_foreign:
                yield from self._emit(self._body, self._body.add(text))
        yield from self._end_messages(before=len(parser.messages))
        if parser.state is not StreamState.CONTENT:
            self._waiting.clear()
        elif not self.is_over and parser.current_recipient is not None:
            yield from self._begin()  # others wait for text: their header may be repeated
        if not self.is_over and finish is not None:
            ending = Ending.CALL if self._may_call else Ending.ANSWER
            if finish is FinishReason.LENGTH:
                most = self._most_tokens
                is_limit = most is not None and len(parser.tokens) - self._begun >= most
                ending = Ending.LIMIT if is_limit else Ending.CONTEXT
            yield self._end(ending, cached)

    def _begin(self) -> Iterator[ItemBegun]:
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
    ) -> Iterator[ItemBegun]:
        """Open the body of a message; stop texts apply only to text that the user reads."""
        is_own = role is Role.ASSISTANT
        new_id = self._new_id if is_own else None
        begun = self._rules.begin(
            self._emitted, channel, recipient, new_id, id_prefix=self._id_prefix
        )
        self._has_calls |= is_own and begun.kind.is_call
        self._body = _Body(
            begun,
            channel,
            self._stop if is_own and begun.kind.is_message else (),
            self._encoding.tokenizer.decode_bytes,
            is_foreign=not is_own,
            streams=self._streams,
            is_whole=self._mends and begun.kind.is_call,
            prefix=self._prefix,
        )
        self._prefix = ""
        for sampled in self._waiting:
            self._body.add_logprob(sampled)
        self._waiting.clear()
        if is_own:
            self._emitted += 1
            yield begun

    def _emit(self, body: _Body, added: ItemText | None) -> Iterator[ItemEvent]:
        """Emit text of the body; end the message and the turn at a stop text."""
        if added is not None:
            yield added
        if body.stop_text is not None:
            held = body.unsent()
            if held is not None:
                yield held
            message = Message.from_role_and_content(Role.ASSISTANT, body.prefix + body.text)
            message.channel, message.recipient = body.channel, body.begun.recipient
            yield ItemEnded(body.begun.position, body.text, message)
            yield self._end(Ending.STOP_TEXT, 0)._replace(stop_text=body.stop_text)

    def _end_messages(self, before: int) -> Iterator[ItemEvent]:
        """End the messages up to the one with the index `before`."""
        parser = self._parser
        while self._ended < before and not self.is_over:
            messages = parser.messages
            message, is_last = messages[self._ended], self._ended == len(messages) - 1
            yield from self._begin()
            is_own = message.author.role is Role.ASSISTANT
            if self._body is not None and self._body.is_foreign and is_own:
                # The message seemed to be by a tool; its last token shows that it is a call of it.
                yield from self._open(Role.ASSISTANT, message.channel, message.recipient)
            body, is_complete = self._body, not (is_last and parser.incomplete)
            if body is not None and not body.is_foreign:
                yield from self._emit(body, body.add_rest(message.text, is_complete=is_complete))
                if self.is_over:
                    return
            tokens = []
            if is_last:  # if several messages end with one token (repairs), the last gets it
                tokens = parser.tokens[self._consumed :]
                self._consumed += len(tokens)
            if is_reasoning(message.channel, message.recipient):
                self._reasoning_tokens += len(tokens)
            if body is not None and not body.is_foreign:
                (sampled,) = with_sampled_tokens(self._encoding, [message], tokens, [len(tokens)])
                self._may_call = self._has_calls and is_complete
                yield ItemEnded(body.begun.position, body.text, sampled, is_complete)
            self._body = None
            self._ended += 1

    def _end(self, ending: Ending, cached_tokens: int) -> TurnEnded:
        self.is_over = True
        parser = self._parser
        usage = Usage(
            self._prompt_length,
            cached_tokens,
            len(parser.tokens) - self._begun,
            self._reasoning_tokens,
            self._forced_tokens,
        )
        recoveries = [
            recovery._replace(position=recovery.position - self._begun)
            for recovery in parser.recoveries
            if recovery.position >= self._begun
        ]
        return TurnEnded(ending, usage, parser.tokens[self._begun :], recoveries)


class _Body:
    """The body of a message while it is sampled, with the log-probabilities of its tokens.

    Text that may be the beginning of a stop text is pending. All other text for clients is in
    `_chunks`, and those before `_sent` were emitted. A body is foreign if another author speaks.
    """

    def __init__(
        self,
        begun: ItemBegun,
        channel: str | None,
        stop: Sequence[str],
        bytes_of: Callable[[Collection[int]], bytes],
        *,
        is_foreign: bool,
        streams: bool,
        is_whole: bool,
        prefix: str,
    ) -> None:
        self.begun = begun
        self._is_whole = is_whole  # only the end shows the text
        self.channel = channel
        self.is_foreign = is_foreign
        self.prefix = prefix  # text of the prompt that the message begins with; it is left out
        self.is_plain = not (stop or is_foreign)
        """Whether no text ends the body."""
        self._stop = StopTexts(stop) if stop else None
        self._shown = body_text(begun)
        self._bytes_of = bytes_of
        self._streams = streams
        self._chunks: list[str] = []
        self._sent = 0
        self._received = len(prefix)  # characters
        self._released = len(prefix)  # of these, as far as they cannot belong to a stop text
        self._logprobs: deque[TokenLogprob] = deque()

    @property
    def text(self) -> str:
        """The text for clients so far."""
        return "".join(self._chunks)

    @property
    def stop_text(self) -> str | None:
        """The stop text that was found; the text does not contain it."""
        return None if self._stop is None else self._stop.text

    def add_logprob(self, sampled: SampledToken) -> None:
        """Store the log-probability of a token of the body."""
        if sampled.logprob is not None and sampled.token < FIRST_SPECIAL:
            self._logprobs.append(_logprob_of(sampled, self._bytes_of, self._received))

    def add(self, text: str) -> ItemText | None:
        """Take text; return the part in which no stop text can begin."""
        if self._is_whole:
            return None
        self._push(text)
        return self.unsent() if self._streams else None

    def add_rest(self, whole: str, *, is_complete: bool) -> ItemText | None:
        """Take the whole text of the message at its end; return all pending text."""
        self._push(whole[self._received :], is_last=True)
        if self._shown is not None:
            self._chunks.append(self._shown.rest(is_complete=is_complete))
        return self.unsent()

    def unsent(self) -> ItemText | None:
        """Return the text that was not emitted yet."""
        text = "".join(self._chunks[self._sent :])
        self._sent = len(self._chunks)
        if not text:
            return None
        logprobs = []
        while self._logprobs and self._logprobs[0].offset < self._released:
            logprobs.append(self._logprobs.popleft())
        return ItemText(self.begun.position, text, tuple(logprobs))

    def _push(self, text: str, *, is_last: bool = False) -> None:
        self._received += len(text)
        if self._stop is not None:
            text = self._stop.feed(text) + (self._stop.rest() if is_last else "")
        self._released += len(text)
        shown = text if self._shown is None else self._shown.feed(text)
        if shown:
            self._chunks.append(shown)


def _may_be_mended(turn: TurnRequest, message: Message) -> bool:
    """Whether a call has JSON, and its mended arguments are those that the schema allows."""
    from ..grammar import find_violations  # only to mend a call

    if message.recipient in {*turn.custom_tools, *turn.tool_texts}:
        return False
    return not find_violations([message], turn.conversation)


def _logprob_of(
    sampled: SampledToken, bytes_of: Callable[[Collection[int]], bytes], offset: int
) -> TokenLogprob:
    top = tuple(
        (token, bytes_of([token]), logprob) for token, logprob in sampled.top_logprobs or ()
    )
    data = bytes_of([sampled.token])
    return TokenLogprob(sampled.token, data, sampled.logprob, top, offset)


def item_events(
    messages: Iterable[Message], rules: ItemRules, new_id: NewId, *, is_cut: bool = False
) -> Iterator[ItemBegun | ItemText | ItemEnded]:
    """Make the events of parsed messages; with `is_cut`, the tokens ended inside the last one.

    >>> thought = Message.from_role_and_content("assistant", "Hm.").with_channel("analysis")
    >>> [type(event).__name__ for event in item_events([thought], ItemRules(), str)]
    ['ItemBegun', 'ItemText', 'ItemEnded']
    """
    messages = list(messages)
    for index, message in enumerate(messages):
        is_complete = not (is_cut and index == len(messages) - 1)
        begun = rules.begin(index, message.channel, message.recipient, new_id)
        shown, text = body_text(begun), message.text
        if shown is not None:
            text = shown.feed(text) + shown.rest(is_complete=is_complete)
        yield begun
        if text:
            yield ItemText(index, text)
        yield ItemEnded(index, text, message, is_complete)


# Raw completions

_new_decoder = codecs.getincrementaldecoder("utf-8")


class TextReader:
    """Reads a raw completion, whose tokens are one text without items.

    - `stop`: texts that end it. `shows_special`: whether the text has special tokens.
    - `has_logprobs`: whether texts have log-probabilities, of every token.
    - Without `streams`, the whole text comes at the end.

    >>> reader = TextReader()
    >>> [event.text for token in (17196, 24912) for event in reader.take(token)]
    ['final', 'hello']
    """

    def __init__(
        self,
        prompt_length: int = 0,
        *,
        stop: Sequence[str] = (),
        shows_special: bool = False,
        has_logprobs: bool = False,
        streams: bool = True,
    ) -> None:
        self.is_over = False
        self._prompt_length = prompt_length
        self._stop = StopTexts(stop) if stop else None
        self._shows_special = shows_special
        self._has_logprobs = has_logprobs
        self._streams = streams
        self._bytes_of = load_harmony_encoding("HarmonyGptOss").tokenizer.decode_bytes
        self._decoder = _new_decoder("replace")
        self._offset = 0
        self._forced_tokens = 0
        self._count = 0
        self._held: list[ItemText] = []
        self._echo: ItemText | None = None

    def echo(self, text: str, scored: Sequence[SampledToken]) -> None:
        """Begin with a text that repeats the prompt; `scored` are its tokens, if they were scored.

        It comes with the first token, as in other servers.
        """
        reader = TextReader(shows_special=self._shows_special, has_logprobs=True)
        logprobs: list[TokenLogprob] = []
        for sampled in scored:
            logprobs += reader._read(sampled, is_last=False).logprobs
        self._offset = len(text)
        self._echo = ItemText(0, text, tuple(logprobs))

    def take(self, sampled: SampledToken | int) -> Iterator[ItemText | TurnEnded]:
        """Read a token; a bare id ends the completion if it is one of the model's stop tokens."""
        if isinstance(sampled, int):
            reason = FinishReason.STOP if sampled in _LAST_TOKENS else None
            sampled = SampledToken(sampled, finish_reason=reason)
        self._count += 1
        self._forced_tokens += sampled.is_forced
        finish = sampled.finish_reason
        added = self._read(sampled, is_last=finish is not None)
        ending = None if finish is None else Ending.ANSWER
        if finish is FinishReason.LENGTH:
            ending = Ending.LIMIT
        if self._stop is not None:
            text = self._stop.feed(added.text)
            if self._stop.found:
                ending = Ending.STOP_TEXT
            elif ending is not None:
                text += self._stop.rest()
            added = added._replace(text=text)
        added = self._with_echo(added)
        if self._streams:
            yield added._replace(is_last=ending is not None)
        else:
            self._held.append(added)
        if ending is not None:
            yield from self.end(ending, sampled.cached_tokens or 0)

    def end(
        self, ending: Ending = Ending.LIMIT, cached_tokens: int = 0
    ) -> Iterator[ItemText | TurnEnded]:
        """End the completion."""
        if self.is_over:
            return
        self.is_over = True
        if self._echo is not None:
            self._held.append(self._with_echo(ItemText(0, "")))
        if self._held:
            yield ItemText(
                0,
                "".join(held.text for held in self._held),
                tuple(logprob for held in self._held for logprob in held.logprobs),
                tuple(token for held in self._held for token in held.tokens),
            )
        usage = Usage(
            self._prompt_length, cached_tokens, self._count, forced_tokens=self._forced_tokens
        )
        stop_text = None if self._stop is None else self._stop.text
        yield TurnEnded(ending, usage, stop_text=stop_text)

    def _with_echo(self, added: ItemText) -> ItemText:
        echo, self._echo = self._echo, None
        if echo is None:
            return added
        logprobs = echo.logprobs + added.logprobs
        return added._replace(text=echo.text + added.text, logprobs=logprobs)

    def _read(self, sampled: SampledToken, *, is_last: bool) -> ItemText:
        """Decode a token; the bytes of an incomplete character wait."""
        token = sampled.token
        logprobs: tuple[TokenLogprob, ...] = ()
        if self._has_logprobs:
            logprobs = (_logprob_of(sampled, self._bytes_of, self._offset),)
        special = SPECIAL_TEXTS.get(token)
        if special is None:
            text = self._decoder.decode(self._bytes_of([token]), is_last)
        else:
            text = self._decoder.decode(b"", True) + (special if self._shows_special else "")
        self._offset += len(text)
        return ItemText(0, text, logprobs, (token,))
