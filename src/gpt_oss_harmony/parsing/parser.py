"""The public parser: tokens go in, one by one or many at once; messages come out."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from operator import index
from typing import Any, Protocol, TypeAlias

from ..conversation.messages import Message, Role, is_reasoning
from ..tokens.special_tokens import CALL, END, FIRST_SPECIAL, RETURN, VOCABULARY_SIZE
from ..tokens.tokenizer import (
    ASSISTANT,
    Tokenizer,
    advice,
    collection_of_ids,
    id_array,
    integer,
    special_positions,
)
from .recovery import DamagedHeader, Recovery, RecoveryKind
from .state import (
    NO_SPLIT_TOKENS,
    ContentDelta,
    MendCheck,
    ParserState,
    Phase,
    StreamState,
    decode_next,
)
from .strict import STRICT_TRANSITIONS

ALL_REPAIRS = frozenset(RecoveryKind)


@functools.lru_cache(maxsize=16)  # programs give the same ones to each parser
def _known_repairs(repairs: frozenset[RecoveryKind]) -> frozenset[RecoveryKind]:
    """Return the kinds of repairs; raise `ValueError` for one that does not exist."""
    return frozenset(map(RecoveryKind, repairs))


_STOPS: dict[int | None, str] = {RETURN: "return", CALL: "call", END: "end"}

_Place: TypeAlias = tuple[int, str | None, str | None]
"""The index of a message, its channel and its recipient."""


class Encoding(Protocol):
    """The part of a `HarmonyEncoding` that a parser needs."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer whose ids the parser reads."""


class StreamableParser:
    """Parse tokens while the model samples them.

    - `role` is the author of the first message if the prompt ended in ``<|start|>`` and this role.
      With None, the tokens begin with ``<|start|>`` and a role, as in a whole prompt.
    - `strict` chooses the mode. In strict mode the parser does what openai-harmony 0.0.8 does,
      token by token (``docs/reference/divergences.md`` lists the few differences). In lenient
      mode no token id raises an error; `recoveries` lists what was repaired or left out.
    - `tools` are the recipients that the conversation declares, such as ``functions.get_weather``.
    - `repairs` are the kinds of repairs after which a message may still be a call (default: all),
      from the end of the message before to its own end. A call with another repair has no
      recipient, and is recorded as ``refused-call``.
    - With `mend_arguments`, arguments that are nearly JSON become JSON when their call ends
      (`mend_json`); deltas have them as they were written. A function decides for each message with
      mended arguments whether it may have them. It needs lenient mode.

    All properties can be read after every token. `messages`, `tokens` and `recoveries` are copies.
    A parser can be copied and pickled at any token; the copy and the original go on independently.

    >>> from gpt_oss_harmony import load_harmony_encoding
    >>> encoding = load_harmony_encoding("HarmonyGptOss")
    >>> parser = StreamableParser(encoding, Role.ASSISTANT)
    >>> text = "<|channel|>final<|message|>2 + 2 = 4.<|return|>"
    >>> for token in encoding.encode(text, allowed_special="all"):
    ...     _ = parser.process(token)
    >>> parser.messages[0].channel, parser.messages[0].content[0].text
    ('final', '2 + 2 = 4.')
    """

    __slots__ = ("__dict__", "__weakref__", "_body_tokens", "_state")  # slots are read faster

    def __init__(
        self,
        encoding: Encoding,
        role: Role | str | None,
        *,
        strict: bool = True,
        tools: Collection[str] | None = None,
        repairs: Collection[RecoveryKind] | None = None,
        mend_arguments: bool | MendCheck = False,
    ) -> None:
        if strict and mend_arguments:
            raise ValueError("mend_arguments repairs what the model wrote: it needs strict=False")
        if not isinstance(getattr(encoding, "tokenizer", None), Tokenizer):
            raise TypeError(
                f"encoding must be a HarmonyEncoding, not {type(encoding).__name__}; "
                'get it from load_harmony_encoding("HarmonyGptOss")'
            )
        if isinstance(tools, str):
            raise TypeError(
                f'tools must be a list of recipients, such as ["{tools:.60}"], not a str'
            )
        transitions = STRICT_TRANSITIONS
        if not strict:
            # Imported on first use, which saves programs that parse strictly 10 ms at their start.
            from .lenient import LENIENT_TRANSITIONS

            transitions = LENIENT_TRANSITIONS
        self._state = ParserState(
            encoding.tokenizer,
            transitions,
            None if role is None else Role(role),
            frozenset(filter(None, tools or ())),  # nothing is called by an empty name
            strict=strict,
            repairs=ALL_REPAIRS if repairs is None else _known_repairs(frozenset(repairs)),
            mends=_accept if mend_arguments is True else mend_arguments or None,
        )
        self._body_tokens = _EncodedBody()

    def __copy__(self) -> StreamableParser:
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        copied._state = self._state.copy()
        copied._body_tokens = _EncodedBody()  # not shared: each copy goes on with other tokens
        return copied

    def process(self, token: int) -> StreamableParser:
        """Take one token. In strict mode, raise `TokenError` if it does not follow the format.

        A value that is not a token id raises an error and changes nothing: `TypeError` or
        `OverflowError` in strict mode, `VocabularyError` in lenient mode.
        """
        state = self._state
        try:
            # The table is twice as long as the vocabulary, so that -1 finds None.
            text = state.texts[token]
            if text is not None:
                state.received.append(token)
                state.delta = text
                return self
            split = state.splits.get(token)
            if split is not None:
                state.received.append(token)
                state.delta, state.texts, state.splits = split
                return self
        except (TypeError, IndexError):
            pass  # not a plain integer, or one outside the table
        state.step(_token_id(token, strict=state.strict))
        return self

    def process_many(self, tokens: Iterable[int]) -> list[ContentDelta]:
        """Take several tokens at once; return the text that they add, joined per message.

        After an error, the parser has taken the tokens before the wrong one.
        """
        state = self._state
        if type(tokens) is list and len(tokens) == 1 and state.splits is not NO_SPLIT_TOKENS:
            (token,) = tokens  # by far the most calls when a model streams
            if type(token) is int and 0 <= token < FIRST_SPECIAL and token != ASSISTANT:
                self.process(token)  # it only adds text to the open body
                if not state.delta:
                    return []
                place = len(state.messages)
                return [ContentDelta(place, state.delta, state.channel, state.recipient)]
        return self._process_all(tokens, check_first=False)

    def _process_all(self, tokens: Iterable[int], *, check_first: bool) -> list[ContentDelta]:
        state = self._state
        state.read_counted()  # before the delta of the last token is replaced
        joined: dict[_Place, list[str]] = {}
        ids: Sequence[int]
        positions: Iterable[int]
        if type(tokens) is list and len(tokens) == 1:  # most calls when a model streams
            ids, positions = tokens, (0,)  # looking would take longer than the step
        else:
            ids, positions = _split_points(tokens, check=check_first)
        done = 0
        for position in positions:
            if position > done:
                self._process_run(ids[done:position], joined)
            self._process_single(ids[position], joined)
            done = position + 1
        if done < len(ids):
            self._process_run(ids[done:], joined)
        deltas = [
            ContentDelta(message, "".join(texts), channel, recipient)
            for (message, channel, recipient), texts in joined.items()
        ]
        state.delta = "".join(delta.text for delta in deltas) or None
        return deltas

    def _process_run(self, run: Sequence[int], joined: dict[_Place, list[str]]) -> None:
        state = self._state
        begun = 0
        # Most often one token leaves this phase; the rest of the run is then read at once.
        while begun < len(run) and state.phase is Phase.FIRST_WORDS:
            self._process_single(run[begun], joined)
            begun += 1
        run = run[begun:] if begun else run
        text = state.read_run(run) if run else ""
        if text:
            place = (len(state.messages), state.channel, state.recipient)
            joined.setdefault(place, []).append(text)
        elif text is None:
            for token in run:
                self._process_single(token, joined)

    def _process_single(self, token: int, joined: dict[_Place, list[str]]) -> None:
        state = self._state
        token = _token_id(token, strict=state.strict)
        state.receive(token)
        state.take(token)
        if state.added:
            for message, text, channel, recipient in state.take_added():
                joined.setdefault((message, channel, recipient), []).append(text)

    def process_begun(self, tokens: Iterable[int]) -> StreamableParser:
        """Take the header and the first text of a message that the prompt has begun.

        The model did not write this text, so that no repair reads words of a header in it.
        """
        state = self._state
        for token in tokens:
            if state.phase is Phase.FIRST_WORDS:
                state.release_held()
            self.process(token)
        if state.phase is Phase.BODY_ROLE:
            state.release_held()
            state.take_added()
        return self

    def process_eos(self) -> StreamableParser:
        """End the tokens. An open body becomes a message.

        In strict mode an open header raises `TokenError`.
        """
        self._state.end()
        self._state.take_added()
        return self

    @property
    def state(self) -> StreamState:
        """The part of a message that the parser expects next."""
        return self._state.phase.state  # servers read it after each token: no second property

    @property
    def current_role(self) -> Role | None:
        """The role of the open message's author, or the given role before the first header ends."""
        return self._state.role

    @property
    def current_channel(self) -> str | None:
        """The channel of the open message."""
        return self._state.channel

    @property
    def current_recipient(self) -> str | None:
        """The recipient of the open message."""
        return self._state.recipient

    @property
    def current_content_type(self) -> str | None:
        """The content type of the open message."""
        return self._state.content_type

    @property
    def current_content(self) -> str:
        """The text of the open body so far."""
        state = self._state
        state.read_counted()
        return state.text

    @property
    def last_content_delta(self) -> str | None:
        """The text that the last token completed, or None."""
        return self._state.delta

    @property
    def messages(self) -> list[Message]:
        """The messages that have ended."""
        return self._state.messages.copy()

    @property
    def tokens(self) -> list[int]:
        """The tokens so far, as plain integers."""
        # The fast path of `process` keeps a token as it was given, such as an integer of NumPy.
        return [*map(int, self._state.received)]

    @property
    def token_counts(self) -> list[int]:
        """The numbers of tokens of the messages that have ended, with their headers and stops.

        If several messages end with one token, which only repairs do, the last one has it.
        """
        return [end - start for start, end in pairwise([0, *self._state.ends])]

    @property
    def reasoning_tokens(self) -> int:
        """The number of tokens of the messages on `analysis` that are no calls."""
        counted = zip(self._state.messages, self.token_counts, strict=True)
        return sum(
            count for message, count in counted if is_reasoning(message.channel, message.recipient)
        )

    @property
    def recoveries(self) -> list[Recovery]:
        """The repairs so far; always empty in strict mode."""
        return self._state.recoveries.copy()

    @property
    def damaged_headers(self) -> list[DamagedHeader]:
        """The damaged headers so far, each with its cost and the margin of its reading."""
        return self._state.damaged.copy()

    @property
    def incomplete(self) -> bool:
        """Whether the tokens ended inside a message; set by `process_eos`."""
        return self._state.incomplete

    @property
    def stop(self) -> str | None:
        """Why the last message ended: ``"return"``, ``"call"``, ``"end"``, or ``"cut"``.

        ``"cut"`` means that the tokens ended inside it. None if no message has ended.
        """
        state = self._state
        if state.incomplete:
            return "cut"
        return _STOPS.get(state.last_stop) if state.messages else None

    @property
    def state_data(self) -> dict[str, Any]:
        """The state as plain data.

        In a header, ``header_tokens`` are its tokens. In a body, ``header`` has the fields of the
        header, and ``content_tokens`` are the body's tokens. In strict mode each body token is
        decoded and encoded again, as in the reference. In lenient mode, text that was in a header
        has no tokens here.
        """
        state = self._state
        data: dict[str, Any] = {"state": state.state.value}
        if state.state is StreamState.HEADER:
            data["header_tokens"] = list(state.header_tokens)
        elif state.state is StreamState.CONTENT and state.header is not None:
            header = state.header
            author = {"role": header.role.value}
            if header.name is not None:
                author["name"] = header.name
            data["header"] = {
                "author": author,
                "recipient": header.recipient,
                "channel": header.channel,
                "content_type": header.content_type,
            }
            data["content_tokens"] = (
                self._body_tokens.up_to_now(state)
                if state.strict
                else state.received[state.body_start :]
            )
        return data


_NO_TEXT = b"\xff"
"""The bytes of an id outside the vocabulary, which are not UTF-8."""


class _EncodedBody:
    """The tokens of a body, each decoded and encoded again; continues where the last call ended."""

    def __init__(self) -> None:
        self._start = self._end = -1
        self._partial = b""
        self._tokens: list[int] = []

    def up_to_now(self, state: ParserState) -> list[int]:
        """Return a copy of the tokens of the open body so far."""
        if self._start != state.body_start:
            self._start = self._end = state.body_start
            self._partial, self._tokens = b"", []
        for token in state.received[self._end :]:
            known = token < VOCABULARY_SIZE
            data = state.tokenizer.pieces[token] if known else _NO_TEXT
            text, self._partial = decode_next(self._partial, data)
            self._tokens += _encoded(state.tokenizer, text)
        self._end = len(state.received)
        return self._tokens.copy()


@functools.lru_cache(maxsize=4096)
def _encoded(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode_ordinary(text))


def parse_messages(parser: StreamableParser, tokens: Iterable[int]) -> list[Message]:
    """Parse a whole completion, or a whole prompt, into its messages."""
    parser._process_all(tokens, check_first=parser._state.strict)
    return parser.process_eos().messages


def _accept(_message: Message) -> bool:  # with a name, because parsers are pickled
    return True


def _token_id(token: object, *, strict: bool) -> int:
    """Return a token as a plain integer; in strict mode, raise the errors of the reference."""
    if not strict:
        return integer(token)
    try:
        number = int(index(token))  # type: ignore[arg-type]
    except TypeError as error:
        raise TypeError(f"argument 'token': {error}{advice(token)}") from None
    if not 0 <= number < 1 << 32:
        raise OverflowError("out of range integral type conversion attempted: a token has 32 bits")
    return number


def _split_points(tokens: Iterable[int], *, check: bool) -> tuple[Sequence[int], Iterable[int]]:
    """Return the tokens, and the positions of those that need a separate step.

    With `check`, a value that is not a token raises an error before any token is parsed, as in the
    reference.
    """
    ids = collection_of_ids(tokens)
    try:
        plain = id_array(ids)
    except (TypeError, OverflowError, ValueError):  # each one is checked in its own step
        listed = [_token_id(token, strict=True) for token in ids] if check else list(ids)
        return listed, range(len(listed))
    # A list that begins and ends with plain integers is assumed to contain only plain integers.
    if isinstance(ids, list) and ids and type(ids[0]) is type(ids[-1]) is int:
        return ids, special_positions(plain)
    return plain.tolist(), special_positions(plain)
