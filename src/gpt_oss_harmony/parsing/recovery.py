"""The repairs of the lenient parser: their kinds and their record."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class RecoveryKind(str, Enum):
    """Kinds of damage in the model's tokens, and how the lenient parser reads each."""

    MISSING_START = "missing-start"
    """A header lacks ``<|start|>``. It is read anyway."""
    DOUBLED_START = "doubled-start"
    """A header begins twice, or after a message without text. The last beginning counts."""
    MISSING_MESSAGE = "missing-message"
    """A header lacks ``<|message|>``. The body begins after the last word of the header."""
    MISSING_END = "missing-end"
    """A header begins inside a body. The body ends there."""
    EXTRA_STOP = "extra-stop"
    """A stop token comes when no message is open. It is left out."""
    NO_MARKUP = "no-markup"
    """Text has no header. It becomes a message on ``final``."""
    UNMARKED_CALL = "unmarked-call"
    """Text without any special token spells a call. It is read as one."""
    REFUSED_CALL = "refused-call"
    """A call needed a repair that `repairs` does not allow. It has no recipient."""
    SPELLED_MARKER = "spelled-marker"
    """Text between messages spells special tokens. They are read as special tokens."""
    STRAY_TEXT = "stray-text"
    """There is text between messages. It is left out."""
    TEXT_AFTER_STOP = "text-after-stop"
    """There is text after ``<|return|>`` or ``<|call|>``. It is left out."""
    HEADER_TEXT = "header-text"
    """A header contains meaningless words or invisible characters. They are left out."""
    HEADER_ORDER = "header-order"
    """The parts of a header are in the wrong order, or the recipient is at the end of the body
    before, or the damage has no kind of its own, such as a channel without its marker. They are
    read anyway; such a body stays as it is."""
    CALL_ON_FINAL = "call-on-final"
    """A damaged header puts a call on ``final``. The call is read on ``commentary``."""
    CUT_HEADER = "cut-header"
    """A header ends before its message begins. It is left out."""
    REPEATED_ROLE = "repeated-role"
    """A header has a role twice, or ``tool`` before a tool's name. It is read once."""
    UNKNOWN_ROLE = "unknown-role"
    """The word in the role's place is not a role. It is read as the role that it resembles, as the
    name of a tool that answers, or it is left out; it never becomes a call."""
    OTHER_ROLE = "other-role"
    """The role in the header is not the given role. The given role counts."""
    MISSING_ROLE = "missing-role"
    """A header has no role. The message is by the assistant."""
    REPEATED_CHANNEL = "repeated-channel"
    """A header has several channels. The last one counts."""
    EMPTY_CHANNEL = "empty-channel"
    """No name follows ``<|channel|>``. The message has no channel."""
    UNKNOWN_CHANNEL = "unknown-channel"
    """The name after ``<|channel|>`` is not a known channel. It is read as the one that it
    resembles; a word in another script is read as ``analysis``."""
    REPEATED_RECIPIENT = "repeated-recipient"
    """A header has several recipients. A declared one counts, else the last one."""
    MISSING_RECIPIENT = "missing-recipient"
    """``<|call|>`` ends a message without a recipient, or one by ``tool``. It is kept as it is."""
    TOOL_AS_CHANNEL = "tool-as-channel"
    """A tool's name follows ``<|channel|>``. It is the recipient."""
    TOOL_AS_TYPE = "tool-as-type"
    """A tool's name follows ``<|constrain|>``. It is the recipient."""
    TOOL_AS_ROLE = "tool-as-role"
    """A tool's name, or ``tool``, is in place of the role. It is a call by the assistant."""
    TOOL_NAME = "tool-name"
    """A recipient is not a declared tool but clearly means one, has signs behind it, or its name
    contains a space."""
    GLUED_WORDS = "glued-words"
    """Words of a header lack the space between them. They are split. ``to=final`` is read as a
    channel, and ``to=json`` as a content type."""
    SPECIAL_TOKEN = "special-token"
    """A special token has no meaning at its place. It is left out."""
    UNKNOWN_TOKEN = "unknown-token"
    """A token id is outside the vocabulary. It is left out."""
    MENDED_ARGUMENTS = "mended-arguments"
    """The arguments of a call are nearly JSON, and mending was requested. They are JSON now; the
    record has them as they were written."""
    INVALID_UTF8 = "invalid-utf8"
    """Bytes are not UTF-8. They are replaced by U+FFFD, as in strict mode."""


WITHOUT_UNMARKED_CALLS = frozenset(RecoveryKind) - {RecoveryKind.UNMARKED_CALL}
"""The repairs of programs that run calls: text without any special token is never a call, because
a model may only repeat what it has read."""


class Recovery(NamedTuple):
    """One repair: its kind, the index of the token at which it was made, and the repaired text."""

    kind: RecoveryKind
    position: int
    text: str


class DamagedHeader(NamedTuple):
    """A header that was read by least cost, and how sure the reading is."""

    position: int
    """The index of the token that ended the header."""
    text: str
    cost: float
    """The cost of its damage; the larger, the less the header looks like one."""
    margin: float
    """The cost of the next best reading, less this one's; at 0 only the safer one was taken."""
