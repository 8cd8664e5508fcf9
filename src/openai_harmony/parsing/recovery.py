"""The record of what the lenient parser repaired: kinds and entries."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["Recovery", "RecoveryKind"]


class RecoveryKind(str, Enum):
    """Kinds of damage in the model's tokens; the text below each says how it is read."""

    MISSING_START = "missing-start"
    """A header without ``<|start|>``: read all the same."""
    DOUBLED_START = "doubled-start"
    """A header begun again, or a message without text before it: the last beginning counts."""
    MISSING_MESSAGE = "missing-message"
    """A header that runs into its body without ``<|message|>``: cut where the header ends."""
    MISSING_END = "missing-end"
    """A new header inside a body: the body ends there."""
    EXTRA_STOP = "extra-stop"
    """A stop token where no message is open: left out."""
    NO_MARKUP = "no-markup"
    """Text without a header: a message on ``final``."""
    SPELLED_MARKER = "spelled-marker"
    """Special tokens written as plain text between messages: read as special tokens."""
    STRAY_TEXT = "stray-text"
    """Text between messages: left out."""
    TEXT_AFTER_STOP = "text-after-stop"
    """Text after ``<|return|>`` or ``<|call|>``: left out."""
    HEADER_TEXT = "header-text"
    """Words in a header that mean nothing there, and invisible characters: left out."""
    HEADER_ORDER = "header-order"
    """The parts of a header in another order than the format's: read all the same. So is a
    recipient at the end of the body before, which stays there too."""
    CALL_ON_FINAL = "call-on-final"
    """A damaged header of a call on ``final``: it is on ``commentary``."""
    CUT_HEADER = "cut-header"
    """A header that ends before its message begins: left out."""
    REPEATED_ROLE = "repeated-role"
    """A role given twice: read once. So is ``tool`` before the name of a tool."""
    UNKNOWN_ROLE = "unknown-role"
    """A name that is no role, on no channel: a tool's answer."""
    OTHER_ROLE = "other-role"
    """A role in the header, but another one was given: the given one counts."""
    MISSING_ROLE = "missing-role"
    """A header without a role: the assistant's."""
    REPEATED_CHANNEL = "repeated-channel"
    """A channel given twice: the last one counts."""
    EMPTY_CHANNEL = "empty-channel"
    """``<|channel|>`` without a name."""
    UNKNOWN_CHANNEL = "unknown-channel"
    """Something that names no channel after ``<|channel|>``."""
    REPEATED_RECIPIENT = "repeated-recipient"
    """A recipient given twice: the declared one, else the last, counts."""
    MISSING_RECIPIENT = "missing-recipient"
    """``<|call|>`` on a message to nobody, or by ``tool``: kept as it is."""
    TOOL_AS_CHANNEL = "tool-as-channel"
    """A tool's name after ``<|channel|>``: it is the recipient."""
    TOOL_AS_TYPE = "tool-as-type"
    """A tool's name after ``<|constrain|>``: it is the recipient."""
    TOOL_AS_ROLE = "tool-as-role"
    """A tool's name in place of the role, or ``tool`` itself: a call by the assistant."""
    TOOL_NAME = "tool-name"
    """A recipient that is no declared tool, but clearly means one; a name with a space."""
    GLUED_WORDS = "glued-words"
    """Words of a header without the space between them: read apart. ``to=final`` is a channel,
    ``to=json`` a type."""
    SPECIAL_TOKEN = "special-token"
    """A special token where it means nothing: left out."""
    UNKNOWN_TOKEN = "unknown-token"
    """A token id outside the vocabulary: left out."""
    INVALID_UTF8 = "invalid-utf8"
    """Bytes that are no UTF-8: replaced by U+FFFD, as in strict mode."""


class Recovery(NamedTuple):
    """One repair: its kind, the index of the token where it was made, the text concerned."""

    kind: RecoveryKind
    position: int
    text: str
