"""The parser's state and the few steps that change it.

The transition tables of `strict` and `lenient` define which token takes which step. Everybody sees
three states (`StreamState`)::

                    <|start|>                <|message|>
    EXPECT_START ───────────────▶ HEADER ────────────────▶ CONTENT
         ▲                                                    │
         └────────────────────────────────────────────────────┘
                  <|end|>   <|return|>   <|call|>

The tables have a row for each `Phase` of these states. Strict parsing needs BETWEEN, HEADER (or
BARE_HEADER) and BODY. The others are places where damage makes lenient parsing wait::

    EXPECT_START       HEADER               CONTENT

    BETWEEN ─────────▶ HEADER ────────────▶ BODY ─ assistant ─▶ BODY_ROLE
     │ text  ────────▶ BARE_HEADER ───────▶  │                   │
     ▼      │                                │ <|channel|>       │ <|channel|>
    TEXT ───┤          HEADER_IN_BODY ◀──────┴───────────────────┘
     │ <|end|>          │
     ▼      │           └── no header: the body goes on
    ENDED_TEXT

A special token inside the open JSON of a call leads from BODY to OPEN_CALL, where tokens wait until
the JSON is closed: they are then text of the call. Inside the code of a call it leads to OPEN_CODE,
where tokens wait for `<|call|>` or for the next message. A new body of the assistant begins in
FIRST_WORDS, which the first token leaves for BODY unless it may be a word of the header.
"""

from __future__ import annotations

import re
from codecs import utf_8_decode
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from ..conversation.content import TextContent
from ..conversation.messages import ROLES, Author, Header, Message, Role
from ..tokens.special_tokens import FIRST_SPECIAL, SPECIAL_TEXTS
from ..tokens.tokenizer import ASSISTANT, Tokenizer
from .recovery import DamagedHeader, Recovery, RecoveryKind


class StreamState(Enum):
    """The part of a message that the parser expects next: its start, its header or its body."""

    EXPECT_START = "ExpectStart"
    HEADER = "Header"
    CONTENT = "Content"

    __hash__ = object.__hash__  # states are looked up at every step; Enum's own is slow


class Phase(Enum):
    """The places where the parser waits, each with its state for everybody else."""

    BETWEEN = ("the next message", StreamState.EXPECT_START)
    TEXT = ("what text between messages will be", StreamState.EXPECT_START)
    ENDED_TEXT = ("what text that `<|end|>` ended will be", StreamState.EXPECT_START)
    HEADER = ("the rest of a header after `<|start|>`", StreamState.HEADER)
    BARE_HEADER = ("the rest of a header without `<|start|>`", StreamState.HEADER)
    HEADER_IN_BODY = ("the rest of what may be a header inside a body", StreamState.HEADER)
    FIRST_WORDS = ("whether a body begins with words of its header", StreamState.CONTENT)
    BODY = ("the rest of a body", StreamState.CONTENT)
    BODY_ROLE = ("whether `assistant` in a body begins a header", StreamState.CONTENT)
    OPEN_CALL = ("whether a call whose JSON is open goes on", StreamState.CONTENT)
    OPEN_CODE = ("whether `<|call|>` ends a call with code", StreamState.CONTENT)

    def __init__(self, _awaited: str, state: StreamState) -> None:
        self.state = state

    __hash__ = object.__hash__


class TokenKind(Enum):
    """Kinds of input in a transition table, besides single special tokens."""

    TEXT = "ordinary token"
    SPECIAL = "any other special token"
    UNKNOWN = "id outside the vocabulary"
    EOS = "end of the tokens"

    __hash__ = object.__hash__


class ContentDelta(NamedTuple):
    """Text that was added to the message with the index `message`, and where it belongs.

    The index is that of the message in `StreamableParser.messages`, once the message has ended.
    """

    message: int
    text: str
    channel: str | None = None
    recipient: str | None = None


class SuspendedBody(NamedTuple):
    """A body that was interrupted by a possible header."""

    header: Header
    text: str
    begun: int = 0
    """How many tokens of the possible header are the body's own header, which ended too early."""


class OpenJson(NamedTuple):
    """What is open after so many characters of JSON; the JSON itself may be wrong."""

    length: int = 0
    depth: int = 0
    in_string: bool = False
    is_escaped: bool = False
    """Whether the last character escapes the next one."""

    def read(self, text: str) -> OpenJson:
        """Read more text.

        >>> OpenJson().read('{"a": ["b').depth, OpenJson().read('{"\\\\').read('"').in_string
        (2, True)
        """
        length, depth, in_string, is_escaped = self
        # The text before ended in a backslash, so the first character is escaped, even a quote.
        end = start = 1 if is_escaped and text else 0
        for found in _JSON_SIGNS.finditer(text, start):
            sign, end = found[0], found.end()
            if sign == '"':
                in_string = not in_string
            elif not in_string and len(sign) == 1:
                depth += 1 if sign in "{[" else -1
        is_escaped = text[end:].endswith("\\") if text else is_escaped
        return OpenJson(length + len(text), depth, in_string, is_escaped)


_JSON_SIGNS = re.compile(r'\\.|["{}\[\]]', re.DOTALL)


class OpenCode(NamedTuple):
    """What is open after so many characters of code, by the quotes and comments of Python."""

    length: int = 0
    depth: int = 0
    begun: str = ""
    """The quotes of an open string, or ``#`` in a comment."""

    @property
    def in_string(self) -> bool:
        """Whether the code ends in a string."""
        return self.begun not in ("", "#")

    @property
    def in_comment(self) -> bool:
        """Whether the code ends in a comment."""
        return self.begun == "#"

    def read(self, text: str) -> OpenCode:
        r"""Read more text.

        >>> OpenCode().read("f('''a\n").begun, OpenCode().read("[1] # don't\n(").depth
        ("'''", 1)
        """
        # An open string begins again with its quotes, so that the expression finds its end.
        depth, begun, whole = self.depth, "", self.begun + text
        for found in _CODE_SIGNS.finditer(whole):
            sign = found[0]
            if sign in "([{":
                depth += 1
            elif sign in ")]}":
                depth -= 1
            # A backslash at the end of an open string may be forgotten: what is read next begins
            # with the `<` of a marker, which no backslash changes.
            elif found.end() == len(whole) and not (found["end"] or found["close"]):
                begun = found["quotes"] or found["quote"] or "#"
        return OpenCode(self.length + len(text), depth, begun)


# A string that nothing closes takes the rest of the code or of its line, so that no text is looked
# at twice.
_CODE_SIGNS = re.compile(
    r"(?P<quotes>\"{3}|'{3})(?:\\.|[^\\])*?(?:(?P<end>(?P=quotes))|\\?\Z)"
    r"|(?P<quote>['\"])(?:\\.|(?!(?P=quote))[^\\\n])*(?:(?P<close>(?P=quote))|\\?\Z|(?=\n))"
    r"|\#[^\n]*|[()\[\]{}]",
    re.DOTALL,
)


class SplitTokens(dict[int, "tuple[str | None, list[str | None], SplitTokens]"]):
    """The effects of tokens after the bytes `partial` of an incomplete character.

    A token leads to the text that it completes, and to the two tables that apply after it. Only
    tokens that have occurred, and that are valid UTF-8 here, have an entry.
    """

    __slots__ = ("partial",)

    entries = 0
    """The number of entries in all tables."""

    def __init__(self, partial: bytes) -> None:
        super().__init__()
        self.partial = partial


NO_SPLIT_TOKENS = SplitTokens(b"")
"""Always empty; for states in which each token needs a step."""

MOST_SPLIT_TOKENS = 100_000
"""The most entries in all tables, so that no input fills the memory."""

_split_tokens: dict[bytes, SplitTokens] = {}
"""The tables by the bytes of the incomplete character; there are some 20,000 of these."""

NO_TOKEN = -1
"""The token with which an action is called at the end of the tokens."""


@dataclass(slots=True, eq=False, repr=False)
class ParserState:
    """The state of a parser, and the messages so far."""

    tokenizer: Tokenizer
    transitions: Transitions
    given_role: Role | None
    tools: AbstractSet[str]
    strict: bool
    repairs: AbstractSet[RecoveryKind]
    mends: MendCheck | None = None

    received: list[int] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """The number of tokens at the end of each message."""
    recoveries: list[Recovery] = field(default_factory=list)
    refuses: bool = False
    """Whether a repair since the last message, or its missing end, is not allowed in a call."""
    damaged: list[DamagedHeader] = field(default_factory=list)
    phase: Phase = field(init=False)
    header_tokens: list[int] = field(default_factory=list)
    header: Header | None = None
    role: Role | None = field(init=False)
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None
    delta: str | None = None
    texts: list[str | None] = field(init=False)
    """The texts of the tokens that are only text in the current state; None for others."""
    splits: SplitTokens = field(init=False)
    """The tokens that begin, continue or end a character of several tokens in an open body."""
    incomplete: bool = False
    body_start: int = 0
    """The index of the open body's first token."""
    text: str = ""
    """The text of the open body, without `partial` and the tokens that are not read."""
    partial: bytes = b""
    """The bytes of an incomplete character after it."""
    _unread: int = 0
    """The index from which on the tokens are only text, and not in `text` yet."""
    added: list[ContentDelta] = field(default_factory=list)
    """The text that the current step has added."""

    # Only the lenient transitions use these:
    held: list[int] = field(default_factory=list)
    """The tokens of the phases that wait, but for headers."""
    opening: list[int] = field(default_factory=list)
    """The header of the body that is in FIRST_WORDS."""
    json: OpenJson = field(default_factory=OpenJson)
    """What is open in the JSON of the open body, as far as it was read."""
    held_json: OpenJson = field(default_factory=OpenJson)
    """The same after the tokens that wait in OPEN_CALL."""
    holds_calls: bool = True
    """False once the end of the tokens has shown that a call was cut."""
    suspended: SuspendedBody | None = None
    last_stop: int | None = None
    last_json: tuple[int, bool | None] = (0, None)
    """A cache of `damaged_calls`: the number of messages, and whether the last one is whole JSON;
    None if it has no JSON."""
    cut_header: list[int] = field(default_factory=list)
    """The last header, if ``<|end|>`` came before its body."""

    def __post_init__(self) -> None:
        role = self.role = self.given_role
        self.phase = Phase.BETWEEN if role is None else Phase.BARE_HEADER
        self.texts = self.tokenizer.no_texts
        self.splits = NO_SPLIT_TOKENS

    def __getstate__(self) -> dict[str, Any]:
        # Tokens that were only counted have left their incomplete character in `splits`.
        self.read_counted()
        values = {name: getattr(self, name) for name in ParserState.__slots__}
        # These tables are shared by all parsers of a process: a copy looks them up again.
        del values["texts"], values["splits"]
        return {**values, "_expects_text": self.splits is not NO_SPLIT_TOKENS}

    def __setstate__(self, values: dict[str, Any]) -> None:
        expects_text = values.pop("_expects_text")
        for name, value in values.items():
            setattr(self, name, value)
        self.expect_anything()
        if expects_text:
            self.expect_text()

    def copy(self) -> ParserState:
        """Return a state that further tokens change independently."""
        # Only lists change in place. Messages, headers and texts are replaced, so they are shared.
        values = self.__getstate__()
        for name, value in values.items():
            if isinstance(value, list):
                values[name] = value.copy()
        copied = object.__new__(type(self))
        copied.__setstate__(values)
        return copied

    @property
    def state(self) -> StreamState:
        """The state that everybody sees."""
        return self.phase.state

    # Tokens

    def step(self, token: int) -> None:
        """Take any token and set the delta."""
        self.receive(token)
        is_text = 0 <= token < FIRST_SPECIAL and token != ASSISTANT
        if is_text and self.splits is not NO_SPLIT_TOKENS:
            # All transitions do this; looking it up in their table would cost more than the step.
            self.delta = self._decode(token) or None
        else:
            self.take(token)
            self.take_added()

    def receive(self, token: int) -> None:
        """Count a token that is not only text, after the tokens before it were read."""
        self.read_counted()
        self.received.append(token)
        self._unread += 1

    def take(self, token: int) -> None:
        """Take the step of a token; it may replace tokens that spelled it."""
        table = self.transitions[self.phase]
        action = table.get(token)
        if action is None:
            if 0 <= token < FIRST_SPECIAL:
                kind = TokenKind.TEXT
            else:
                kind = TokenKind.SPECIAL if token in SPECIAL_TEXTS else TokenKind.UNKNOWN
            action = table[kind]
        action(self, token)

    def take_again(self, token: int) -> None:
        """Take the step of a token, or of the end of the tokens, in the phase that is new now."""
        if token == NO_TOKEN:
            self.end()
        else:
            self.take(token)

    def end(self) -> None:
        """Take the transition table's step for the end of the tokens."""
        self.read_counted()
        self.transitions[self.phase][TokenKind.EOS](self, NO_TOKEN)

    def take_added(self) -> list[ContentDelta]:
        """Return the text that was added since the last call, and set the delta from it."""
        added = self.added
        if added:
            self.added = []
        self.delta = "".join(delta.text for delta in added) or None
        return added

    def read_run(self, run: Sequence[int]) -> str | None:
        """Read ordinary tokens at once; return their text, or None if they need single steps.

        This is a short cut with the same result as the transitions of the single tokens.
        """
        self.read_counted()
        if self.phase.state is StreamState.HEADER:
            self.header_tokens += run
            text = ""
        # Ordinary tokens follow an `assistant` in the middle of a run, so it is text there. Behind
        # the last token a marker may follow, which makes the word a header (BODY_ROLE).
        elif self.splits is NO_SPLIT_TOKENS or (not self.strict and run[-1] == ASSISTANT):
            return None
        else:
            text, partial = decode_next(self.partial, self.tokenizer.decode_bytes(run))
            if not self.strict and "\ufffd" in text:
                return None  # each repair is noted with its position
            self._append(text)
            self.partial = partial
            self.expect_text()
        self.received += run
        self._unread = len(self.received)
        return text

    # The text of the open body

    def read_counted(self) -> None:
        """Append the text of the tokens that were only counted because they are only text."""
        count = len(self.received) - self._unread
        if count == 0:
            return
        self._unread += count
        if count == 1:  # the last token, whose text is the delta
            self.partial = self.splits.partial
            if self.delta is not None:
                text, self.text = self.text, ""  # `_append` without a call: this is run per token
                text += self.delta
                self.text = text
        else:
            tokens = self.received[-count:]
            more, self.partial = decode_next(self.partial, self.tokenizer.decode_bytes(tokens))
            self._append(more)

    def _append(self, more: str) -> None:
        # Python appends in place to a string that only one local variable refers to. So a text that
        # grows token by token, and is read after each, is not copied every time.
        text, self.text = self.text, ""
        text += more
        self.text = text

    def add_text(self, text: str) -> None:
        """Append text to the open body."""
        if text:
            self._append(text)
            self._note_added(text)

    def add_token(self, token: int) -> None:
        """Append the bytes of a token to the open body; an incomplete character waits."""
        text = self._decode(token)
        if text:
            self._note_added(text)

    def _note_added(self, text: str) -> None:
        self.added.append(ContentDelta(len(self.messages), text, self.channel, self.recipient))

    def _decode(self, token: int) -> str:
        """Append the characters that this token completes, and return them."""
        tokenizer, splits = self.tokenizer, self.splits
        partial = self.partial
        text, self.partial = decode_next(partial, tokenizer.pieces[token])
        is_whole = not partial and not self.partial
        self._append(text)
        if splits is not NO_SPLIT_TOKENS:
            self.expect_text()
        if "\ufffd" in text:
            # A model may also write U+FFFD itself: the vocabulary has tokens for it.
            if not self.strict and "\ufffd" not in tokenizer.decode((token,), "ignore"):
                self.recover(RecoveryKind.INVALID_UTF8, text)
        elif token < FIRST_SPECIAL and token != ASSISTANT:
            # Parsers of both modes share these tables. So `assistant` and special tokens, which
            # are text in strict mode only, have no entry.
            if is_whole:
                tokenizer.body_texts[token] = text
            elif splits is not NO_SPLIT_TOKENS and SplitTokens.entries < MOST_SPLIT_TOKENS:
                SplitTokens.entries += 1
                splits[token] = (text or None, self.texts, self.splits)
        return text

    def expect_text(self) -> None:
        """Only count tokens that are only text, from now on."""
        splits = _split_tokens.get(self.partial)
        if splits is None:
            splits = _split_tokens[self.partial] = SplitTokens(self.partial)
        self.splits = splits
        self.texts = self.tokenizer.no_texts if self.partial else self.tokenizer.body_texts

    def expect_anything(self) -> None:
        """Take the transition table's step for each token, from now on."""
        self.splits = NO_SPLIT_TOKENS
        self.texts = self.tokenizer.no_texts

    def release_held(self) -> None:
        """Add the words that waited because they could belong to a header to the body."""
        held, self.held = self.held, []
        for token in held:
            self.add_token(token)
        self.phase = Phase.BODY
        self.expect_text()

    def flush_character(self) -> str:
        """Append U+FFFD for an incomplete character."""
        if not self.partial:
            return ""
        text = self.partial.decode("utf-8", "replace")
        self.partial = b""
        self.expect_text()
        self.add_text(text)
        return text

    # Headers and messages

    def begin_header(self, phase: Phase) -> None:
        """Enter a phase of the state HEADER."""
        self.phase = phase
        self.header_tokens = []
        self.cut_header = []
        self.expect_anything()

    def open_body(self, header: Header) -> None:
        """Enter the state CONTENT."""
        header = self.permitted(header)
        self.phase = Phase.BODY
        self.header = header
        self.header_tokens = []
        self.body_start = len(self.received)
        self.json = OpenJson()
        self.given_role = None
        self.role, _, self.channel, self.recipient, self.content_type = header
        self.expect_text()

    def close_message(self) -> None:
        """Finish the open body as a message and enter the state EXPECT_START."""
        self.flush_character()
        self.add_message(self._header_of_body(), self.text)
        self.leave()

    def suspend_body(self, begun: int = 0) -> None:
        """Put the open body aside: a header may begin inside it (`SuspendedBody.begun`)."""
        self.flush_character()
        self.suspended = SuspendedBody(self._header_of_body(), self.text, begun)
        self.text, self.header = "", None

    def resume_body(self) -> None:
        """Open the suspended body again."""
        if self.suspended is not None:
            start = self.body_start
            self.open_body(self.suspended.header)
            self.body_start, self.text = start, self.suspended.text
            self.suspended = None

    def leave(self) -> None:
        """Enter the state EXPECT_START without a message."""
        self.text, self.header = "", None
        self.phase = Phase.BETWEEN
        self.header_tokens = []
        self.held = []
        self.expect_anything()
        self.given_role = self.role = None
        self.channel = self.recipient = self.content_type = None

    def _header_of_body(self) -> Header:
        if self.header is None:
            raise AssertionError("a body is open only after its header")
        return self.header

    def add_message(self, header: Header, text: str) -> None:
        """Append a message to the result."""
        # Asked again, because a repair in the body or at its end counts as well.
        header = self.permitted(header)
        self.ends.append(len(self.received))
        self.messages.append(message_of(header, text))
        last = self.recoveries[-1] if self.recoveries else None
        lacked_end = last is not None and last[:2] == (RecoveryKind.MISSING_END, self._position)
        # A missing end is a repair of the message after it, too.
        self.refuses = lacked_end and RecoveryKind.MISSING_END not in self.repairs

    def permitted(self, header: Header, *more: RecoveryKind) -> Header:
        """Take the recipient from a call if a repair since the last message is not allowed."""
        if not is_call(header) or not (self.refuses or set(more) - self.repairs):
            return header
        self.recover(RecoveryKind.REFUSED_CALL, header.recipient or "")
        return header._replace(recipient=None)

    @property
    def _position(self) -> int:
        return max(len(self.received) - 1, 0)

    def recover(self, kind: RecoveryKind, text: str = "") -> None:
        """Note a repair at the current token."""
        self.recoveries.append(Recovery(kind, self._position, text))
        self.refuses |= kind not in self.repairs


def is_call(header: Header) -> bool:
    """Whether the assistant addresses a tool in a header: `to=user` is no call."""
    addressed = header.recipient is not None and header.recipient not in ROLES
    return addressed and header.role is Role.ASSISTANT


MendCheck: TypeAlias = Callable[[Message], bool]
"""Whether a call may have its mended arguments."""

Action: TypeAlias = Callable[[ParserState, int], None]
Row: TypeAlias = Mapping["int | TokenKind", Action]
Transitions: TypeAlias = Mapping[Phase, Row]


def message_of(header: Header, text: str) -> Message:
    """Return the message with this header and body."""
    return Message(
        author=Author(role=header.role, name=header.name),
        content=[TextContent(text=text)],
        channel=header.channel,
        recipient=header.recipient,
        content_type=header.content_type,
    )


def decode_next(partial: bytes, data: bytes) -> tuple[str, bytes]:
    """Decode UTF-8 after the bytes of an incomplete character.

    Returns the text, with U+FFFD for invalid bytes, and the bytes of a new incomplete character.
    """
    data = partial + data
    # Not final: an incomplete character at the end is left for the next bytes.
    text, used = utf_8_decode(data, "replace", False)
    return text, data[used:]


def spelling(token: int) -> str:
    """Return the name of a token for errors and records: the text of a special token, or the id."""
    return SPECIAL_TEXTS.get(token, str(token))
