"""The parser's state and the few steps that change it; which token takes which step stands in
`strict` and `lenient`.

::

                    <|start|>                <|message|>
    EXPECT_START ───────────────▶ HEADER ────────────────▶ CONTENT
         ▲                                                    │
         └────────────────────────────────────────────────────┘
                  <|end|>   <|return|>   <|call|>
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from ..conversation.content import TextContent
from ..conversation.header import Header
from ..conversation.messages import Author, Message, Role
from ..tokens.special_tokens import FIRST_SPECIAL, SPECIAL_TEXTS
from ..tokens.tokenizer import ASSISTANT, Tokenizer, integer
from .recovery import Recovery, RecoveryKind

__all__ = [
    "Action",
    "ContentDelta",
    "ParserState",
    "StreamState",
    "SuspendedBody",
    "TokenKind",
    "Transitions",
    "spelling",
]


class StreamState(Enum):
    """What the parser expects next."""

    EXPECT_START = "ExpectStart"
    HEADER = "Header"
    CONTENT = "Content"

    __hash__ = object.__hash__  # states are looked up at every step; Enum's own is slow


class TokenKind(Enum):
    """Kinds of input that a rule may name besides a single special token."""

    TEXT = "ordinary token"
    SPECIAL = "any other special token"
    UNKNOWN = "id outside the vocabulary"
    EOS = "end of the tokens"

    __hash__ = object.__hash__


class ContentDelta(NamedTuple):
    """Text added to the message with the index `message`."""

    message: int
    text: str


class SuspendedBody(NamedTuple):
    """A body interrupted by what may be a header."""

    header: Header
    text: str


NO_TOKEN = -1
"""Stands for a token where an action is called at the end of the tokens."""

_new_decoder = codecs.getincrementaldecoder("utf-8")


class ParserState:
    """A parser without a transition table: where it stands, and the messages so far."""

    __slots__ = (
        "_decoder",
        "_integers",
        "_text",
        "_unread",
        "added",
        "body_start",
        "current_channel",
        "current_content_type",
        "current_recipient",
        "current_role",
        "given_role",
        "header",
        "header_tokens",
        "incomplete",
        "last_content_delta",
        "last_stop",
        "lookahead",
        "messages",
        "pending",
        "pending_ended",
        "received",
        "recoveries",
        "started",
        "state",
        "suspended",
        "texts",
        "tokenizer",
        "tools",
        "transitions",
    )

    def __init__(
        self,
        tokenizer: Tokenizer,
        transitions: Transitions,
        role: Role | None,
        tools: AbstractSet[str],
    ) -> None:
        self.tokenizer = tokenizer
        self.transitions = transitions
        self.tools = tools
        self.received: list[int] = []  # see tokens
        self._integers = 0  # how many of these are known to be plain integers
        self.messages: list[Message] = []
        self.recoveries: list[Recovery] = []
        self.state = StreamState.EXPECT_START if role is None else StreamState.HEADER
        self.given_role = role
        self.started = False  # whether <|start|> opened the header
        self.header_tokens: list[int] = []
        self.header: Header | None = None
        self.current_role = role
        self.current_channel: str | None = None
        self.current_recipient: str | None = None
        self.current_content_type: str | None = None
        self.last_content_delta: str | None = None
        self.texts = tokenizer.no_texts  # see in_plain_text
        self.incomplete = False
        self.body_start = 0  # index of the open body's first token
        self._decoder = _new_decoder("replace")
        self._text = ""  # of the open body, up to ...
        self._unread = 0  # ... this token; those after it are nothing but text
        self.added: list[ContentDelta] = []  # the text that the current step has added
        # Only the lenient transitions use these five:
        self.lookahead: list[int] = []  # tokens of a body that may yet be the start of a header
        self.pending: list[int] = []  # tokens between messages
        self.pending_ended = False  # whether <|end|> came after them
        self.suspended: SuspendedBody | None = None
        self.last_stop: int | None = None

    @property
    def tokens(self) -> list[int]:
        """All tokens so far, as plain integers."""
        received = self.received
        for at in range(self._integers, len(received)):
            if type(received[at]) is not int:  # of NumPy, say
                received[at] = integer(received[at])
        self._integers = len(received)
        return received

    @property
    def in_plain_text(self) -> bool:
        """Whether a body is open and no half character waits: then most tokens are just text.

        It is told by the table of texts, so that looking a token up says both.
        """
        return self.texts is self.tokenizer.body_texts

    @in_plain_text.setter
    def in_plain_text(self, value: bool) -> None:
        tokenizer = self.tokenizer
        self.texts = tokenizer.body_texts if value else tokenizer.no_texts

    @property
    def current_content(self) -> str:
        """The text of the open body so far."""
        end = len(self.received)
        if self._unread < end:
            self._read_up_to(end)
        return self._text

    def _read_up_to(self, end: int) -> None:
        """Append the text of tokens that the fast path has only counted."""
        start = self._unread
        if start >= end:
            return
        if start + 1 == end:
            more = self.texts[self.received[start]] or ""
        else:
            more = "".join(itemgetter(*self.received[start:end])(self.texts))
        text, self._text = self._text, ""  # lookahead by one variable: see _append
        text += more
        self._text = text
        self._unread = end

    def _append(self, more: str) -> None:
        # Python appends in place to a string that only one local variable holds, so that a text
        # which grows, and is read, token by token is not copied every time.
        text, self._text = self._text, ""
        text += more
        self._text = text

    def step(self, token: int) -> None:
        """Take the step that the transition table names for the last token in this state."""
        end = len(self.received)
        if self._unread < end - 1:
            self._read_up_to(end - 1)
        self._unread = end
        self.take(token)

    def take(self, token: int) -> None:
        """Take the step of a token, which may stand for others that were spelled out."""
        table = self.transitions[self.state]
        action = table.get(token)
        if action is None:
            action = table[_kind(token)]
        action(self, token)

    def end(self) -> None:
        """Take the step that the transition table names for the end of the tokens in this state."""
        self._read_up_to(len(self.received))
        self.transitions[self.state][TokenKind.EOS](self, NO_TOKEN)

    def take_added(self) -> list[ContentDelta]:
        """Hand over the text that was added since the last call, and set the delta from it."""
        added = self.added
        if added:
            self.added = []
        self.last_content_delta = "".join(delta.text for delta in added) or None
        return added

    def open_header(self, *, started: bool) -> None:
        """Enter the state HEADER."""
        self.state = StreamState.HEADER
        self.started = started
        self.header_tokens = []
        self.in_plain_text = False

    def open_body(self, header: Header) -> None:
        """Enter the state CONTENT."""
        self.state = StreamState.CONTENT
        self.header = header
        self.body_start = len(self.received)
        self.given_role = None
        self.current_role = header.role
        self.current_channel = header.channel
        self.current_recipient = header.recipient
        self.current_content_type = header.content_type
        self.in_plain_text = True

    def add_text(self, text: str) -> None:
        """Append text to the open body."""
        if text:
            self._append(text)
            self.added.append(ContentDelta(len(self.messages), text))

    def add_token(self, token: int) -> str:
        """Append a token's bytes to the open body, keeping back half a character."""
        if self.in_plain_text and (known := self.tokenizer.learn(token)) is not None:
            self.add_text(known)
            return known
        text = self._decoder.decode(self.tokenizer.pieces[token])
        self.add_text(text)
        self.in_plain_text = not self._decoder.getstate()[0]
        return text

    def read_run(self, run: Sequence[int]) -> str | None:
        """Read ordinary tokens at once; return their text, or None when they need single steps.

        This is a short cut: it comes to what all transitions do for each of these tokens.
        """
        if self.state is StreamState.HEADER:
            self.received += run
            self.header_tokens += run
            self._unread = len(self.received)
            return ""
        if not self.in_plain_text:
            return None
        if run[-1] == ASSISTANT:
            return None
        text = self.tokenizer.decode_body(run)
        if text is None:
            return None
        self._read_up_to(len(self.received))
        self.received += run
        self._append(text)
        self._unread = len(self.received)
        return text

    def flush_character(self) -> str:
        """Append U+FFFD for a character of which only some bytes came."""
        if self.in_plain_text:
            return ""
        text = self._decoder.decode(b"", final=True)
        self.add_text(text)
        return text

    def address_to_author(self) -> str:
        """Make the open body of a tool a call of that tool; return its name."""
        header = self._body_header()
        tool = header.name or ""
        self.header = header._replace(role=Role.ASSISTANT, name=None, recipient=tool)
        return tool

    def close_message(self) -> None:
        """Finish the open body as a message and enter the state EXPECT_START."""
        self.take_body()
        self.leave()

    def take_body(self) -> None:
        """Turn the open body into a message; an unfinished character becomes U+FFFD."""
        self.flush_character()
        self.add_message(self._body_header(), self._text)
        self.drop_body()

    def suspend_body(self) -> None:
        """Put the open body aside."""
        self.flush_character()
        self.suspended = SuspendedBody(self._body_header(), self._text)
        self.drop_body()

    def resume_body(self) -> None:
        """Open the body again that was put aside."""
        if self.suspended is not None:
            self.open_body(self.suspended.header)
            self._text = self.suspended.text
            self.suspended = None

    def _body_header(self) -> Header:
        if self.header is None:
            raise AssertionError("a body is open only after its header")
        return self.header

    def drop_body(self) -> None:
        """Forget the open body."""
        self._text = ""
        self.header = None

    def leave(self) -> None:
        """Enter the state EXPECT_START."""
        self.state = StreamState.EXPECT_START
        self.header_tokens = []
        self.given_role = None
        self.started = False
        self.in_plain_text = False
        self.current_role = None
        self.current_channel = self.current_recipient = self.current_content_type = None

    def add_message(self, header: Header, text: str) -> None:
        """Append a message to the result."""
        self.messages.append(
            Message(
                author=Author(role=header.role, name=header.name),
                content=[TextContent(text=text)],
                channel=header.channel,
                recipient=header.recipient,
                content_type=header.content_type,
            )
        )

    def recover(self, kind: RecoveryKind, text: str = "") -> None:
        """Note a repair at the current token."""
        self.recoveries.append(Recovery(kind, max(len(self.received) - 1, 0), text))


Action: TypeAlias = Callable[[ParserState, int], None]
Transitions: TypeAlias = Mapping[StreamState, Mapping["int | TokenKind", Action]]


def _kind(token: int) -> TokenKind:
    if 0 <= token < FIRST_SPECIAL:
        return TokenKind.TEXT
    return TokenKind.SPECIAL if token in SPECIAL_TEXTS else TokenKind.UNKNOWN


def spelling(token: int) -> str:
    """How an error or a record names a token: special ones by their text."""
    return SPECIAL_TEXTS.get(token, str(token))
