"""The parser that people use: tokens go in one by one, or many at once; messages come out."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol

from ..conversation.messages import Message, Role
from ..tokens.tokenizer import Tokenizer, collection_of_ids, integer, special_positions
from .state import ContentDelta, ParserState, StreamState, Transitions
from .strict import STRICT_TRANSITIONS

__all__ = ["ContentDelta", "StreamableParser", "parse_messages"]


class Encoding(Protocol):
    """What a parser needs of a `HarmonyEncoding`."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The vocabulary."""


class StreamableParser(ParserState):
    """Parse tokens while the model samples them.

    All state can be read after every token at no cost: ``state``, ``current_role``,
    ``current_channel``, ``current_recipient``, ``current_content_type``,
    ``last_content_delta`` (None when the token completed no text), ``messages`` and
    ``tokens``. The last two are the parser's own growing lists: copy them to keep a snapshot.

    `role` is the author of the first message when its ``<|start|>`` and role were part of the
    prompt. `tools` are the recipients that the conversation declares, such as
    ``functions.get_weather``. With ``strict=False`` no token raises an error; what was
    repaired or left out stands in ``recoveries``. ``incomplete`` tells, after `process_eos`,
    that the tokens ended inside a message.

    >>> from openai_harmony import load_harmony_encoding
    >>> encoding = load_harmony_encoding("HarmonyGptOss")
    >>> parser = StreamableParser(encoding, Role.ASSISTANT)
    >>> text = "<|channel|>final<|message|>2 + 2 = 4.<|return|>"
    >>> for token in encoding.encode(text, allowed_special="all"):
    ...     _ = parser.process(token)
    >>> parser.messages[0].channel, parser.messages[0].content[0].text
    ('final', '2 + 2 = 4.')
    """

    __slots__ = ()

    def __init__(
        self,
        encoding: Encoding,
        role: Role | str | None,
        *,
        strict: bool = True,
        tools: Collection[str] = (),
    ) -> None:
        transitions = STRICT_TRANSITIONS if strict else _lenient_transitions()
        known_role = None if role is None else Role(role)
        super().__init__(encoding.tokenizer, transitions, known_role, frozenset(tools))

    def process(self, token: int) -> StreamableParser:
        """Take one token; raise `TokenError` in strict mode when it does not fit.

        An id outside the vocabulary raises `VocabularyError` and changes nothing.
        """
        try:
            text = self.texts[token]
            if text is not None:
                self.received.append(token)
                self.last_content_delta = text
                return self
        except (TypeError, IndexError):
            pass  # no plain integer, or one beyond the table
        token = integer(token)
        self.received.append(token)
        self.step(token)
        self.take_added()
        return self

    def process_many(self, tokens: Iterable[int]) -> list[ContentDelta]:
        """Take several tokens at once; return the text they add, joined per message."""
        joined: dict[int, list[str]] = {}
        plain, positions = _special_positions(tokens)
        done = 0
        for at in positions:
            if at > done:
                self._process_run(plain[done:at], joined)
            self._process_single(plain[at], joined)
            done = at + 1
        if done < len(plain):
            self._process_run(plain[done:], joined)
        deltas = [ContentDelta(message, "".join(texts)) for message, texts in joined.items()]
        self.last_content_delta = "".join(delta.text for delta in deltas) or None
        return deltas

    def _process_run(self, run: Sequence[int], joined: dict[int, list[str]]) -> None:
        text = self.read_run(run)
        if text:
            joined.setdefault(len(self.messages), []).append(text)
        elif text is None:
            for token in run:
                self._process_single(token, joined)

    def _process_single(self, token: int, joined: dict[int, list[str]]) -> None:
        self.received.append(token)
        self.step(token)
        if self.added:
            for message, text in self.take_added():
                joined.setdefault(message, []).append(text)

    def process_eos(self) -> StreamableParser:
        """End the tokens: an open body becomes a message; strict mode refuses an open header."""
        self.end()
        self.take_added()
        return self

    @property
    def state_data(self) -> dict[str, Any]:
        """The state with what belongs to it, as plain data; ``content_tokens`` as received."""
        data: dict[str, Any] = {"state": self.state.value}
        if self.state is StreamState.HEADER:
            data["header_tokens"] = list(self.header_tokens)
        elif self.state is StreamState.CONTENT and self.header is not None:
            header = self.header
            author = {"role": header.role.value}
            if header.name is not None:
                author["name"] = header.name
            data["header"] = {
                "author": author,
                "recipient": header.recipient,
                "channel": header.channel,
                "content_type": header.content_type,
            }
            data["content_tokens"] = self.received[self.body_start :]
        return data


def parse_messages(
    encoding: Encoding,
    tokens: Iterable[int],
    role: Role | str | None,
    *,
    strict: bool,
    tools: Collection[str],
) -> list[Message]:
    """Parse a whole completion, or a whole prompt, into its messages."""
    parser = StreamableParser(encoding, role, strict=strict, tools=tools)
    parser.process_many(tokens)
    return parser.process_eos().messages


def _lenient_transitions() -> Transitions:
    # Imported when first needed: strict programs are spared 10 ms at their start.
    from .lenient import LENIENT_TRANSITIONS

    return LENIENT_TRANSITIONS


def _special_positions(tokens: Iterable[int]) -> tuple[Sequence[int], Iterable[int]]:
    """Return the tokens as plain ones, and where those stand that need a step of their own."""
    known = collection_of_ids(tokens)
    try:
        ids = array("I", known)
    except (TypeError, OverflowError, ValueError):  # there are ids that only a rule can judge
        plain = [integer(token) for token in known]
        return plain, range(len(plain))
    # A list that begins and ends with plain integers is taken to hold nothing else.
    if isinstance(known, list) and known and type(known[0]) is type(known[-1]) is int:
        return known, special_positions(ids)
    return ids.tolist(), special_positions(ids)
