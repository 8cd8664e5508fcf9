"""The parser's state and the few steps that change it; which token takes which step stands in
`strict_rules` and `lenient_rules`.

::

                    <|start|>                <|message|>
    EXPECT_START ───────────────▶ HEADER ────────────────▶ CONTENT
         ▲                                                    │
         └────────────────────────────────────────────────────┘
                  <|end|>   <|return|>   <|call|>
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import NamedTuple, TypeAlias

from .content import TextContent
from .header import Header
from .messages import Author, Message, Role
from .recovery import Recovery, RecoveryKind
from .special_tokens import FIRST_SPECIAL, SPECIAL_TEXTS
from .tokenizer import Tokenizer

__all__ = [
    "Action",
    "ContentDelta",
    "Kind",
    "Machine",
    "Rules",
    "StreamState",
    "Suspended",
    "spelling",
]


class StreamState(Enum):
    """What the parser expects next."""

    EXPECT_START = "ExpectStart"
    HEADER = "Header"
    CONTENT = "Content"


class Kind(Enum):
    """Kinds of input that a rule may name besides a single special token."""

    TEXT = "ordinary token"
    SPECIAL = "any other special token"
    UNKNOWN = "id outside the vocabulary"
    EOS = "end of the tokens"


class ContentDelta(NamedTuple):
    """Text added to the message with the index `message`."""

    message: int
    text: str


class Suspended(NamedTuple):
    """A body interrupted by what may be a header."""

    header: Header
    text: str


NO_TOKEN = -1
"""Stands for a token where an action is called at the end of the tokens."""

_new_decoder = codecs.getincrementaldecoder("utf-8")


class Machine:
    """A parser without rules: where it stands, and the messages so far."""

    __slots__ = (
        "_decoder",
        "_parts",
        "_text",
        "added",
        "body_start",
        "current_channel",
        "current_content_type",
        "current_recipient",
        "current_role",
        "given_role",
        "header",
        "header_tokens",
        "held",
        "in_plain_text",
        "incomplete",
        "last_content_delta",
        "last_stop",
        "messages",
        "recoveries",
        "rules",
        "started",
        "state",
        "stray",
        "stray_ended",
        "suspended",
        "tokenizer",
        "tokens",
        "tools",
    )

    def __init__(
        self, tokenizer: Tokenizer, rules: Rules, role: Role | None, tools: AbstractSet[str]
    ) -> None:
        self.tokenizer = tokenizer
        self.rules = rules
        self.tools = tools
        self.tokens: list[int] = []
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
        self.in_plain_text = False  # in a body, with no half character waiting
        self.incomplete = False
        self.body_start = 0  # index of the open body's first token
        self._decoder = _new_decoder("replace")
        self._parts: list[str] = []
        self._text = ""
        self.added: list[ContentDelta] = []  # the text that the current step has added
        # Only the lenient rules use these five:
        self.held: list[int] = []  # tokens of a body that may yet be the start of a header
        self.stray: list[int] = []  # tokens between messages
        self.stray_ended = False  # whether <|end|> came after them
        self.suspended: Suspended | None = None
        self.last_stop: int | None = None

    @property
    def current_content(self) -> str:
        """The text of the open body so far."""
        if self._parts:
            self._text += "".join(self._parts)
            self._parts.clear()
        return self._text

    def step(self, token: int) -> None:
        """Take the step that the rules name for `token` in this state."""
        table = self.rules[self.state]
        action = table.get(token)
        if action is None:
            action = table[_kind(token)]
        action(self, token)

    def end(self) -> None:
        """Take the step that the rules name for the end of the tokens in this state."""
        self.rules[self.state][Kind.EOS](self, NO_TOKEN)

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
        self.body_start = len(self.tokens)
        self.given_role = None
        self.current_role = header.role
        self.current_channel = header.channel
        self.current_recipient = header.recipient
        self.current_content_type = header.content_type
        self.in_plain_text = True

    def add_text(self, text: str) -> None:
        """Append text to the open body."""
        if text:
            self._parts.append(text)
            self.added.append(ContentDelta(len(self.messages), text))

    def add_token(self, token: int) -> str:
        """Append a token's bytes to the open body, keeping back half a character."""
        text = self._decoder.decode(self.tokenizer.pieces[token])
        self.add_text(text)
        self.in_plain_text = not self._decoder.getstate()[0]
        return text

    def flush_character(self) -> str:
        """Append U+FFFD for a character of which only some bytes came."""
        text = self._decoder.decode(b"", final=True)
        self.add_text(text)
        return text

    def close_message(self) -> None:
        """Finish the open body as a message and enter the state EXPECT_START."""
        self.take_body()
        self.leave()

    def take_body(self) -> None:
        """Turn the open body into a message; an unfinished character becomes U+FFFD."""
        self.flush_character()
        self.add_message(self._open_header(), self.current_content)
        self.drop_body()

    def suspend_body(self) -> Suspended:
        """Put the open body aside."""
        self.flush_character()
        suspended = Suspended(self._open_header(), self.current_content)
        self.drop_body()
        return suspended

    def resume_body(self, suspended: Suspended) -> None:
        """Open a body again that was put aside."""
        self.open_body(suspended.header)
        self._text = suspended.text

    def _open_header(self) -> Header:
        if self.header is None:
            raise AssertionError("a body is open only after its header")
        return self.header

    def drop_body(self) -> None:
        """Forget the open body."""
        self._text = ""
        self._parts.clear()
        self._decoder.reset()
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
        author = Author.model_construct(role=header.role, name=header.name)
        self.messages.append(
            Message.model_construct(
                author=author,
                content=[TextContent.model_construct(text=text)],
                channel=header.channel,
                recipient=header.recipient,
                content_type=header.content_type,
            )
        )

    def recover(self, kind: RecoveryKind, text: str = "", *, back: int = 0) -> None:
        """Note a repair at the current token, or `back` tokens before it."""
        self.recoveries.append(Recovery(kind, max(len(self.tokens) - 1 - back, 0), text))


Action: TypeAlias = Callable[[Machine, int], None]
Rules: TypeAlias = Mapping[StreamState, Mapping["int | Kind", Action]]


def _kind(token: int) -> Kind:
    if 0 <= token < FIRST_SPECIAL:
        return Kind.TEXT
    return Kind.SPECIAL if token in SPECIAL_TEXTS else Kind.UNKNOWN


def spelling(token: int) -> str:
    """How an error or a record names a token: special ones by their text."""
    return SPECIAL_TEXTS.get(token, str(token))
