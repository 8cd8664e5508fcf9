"""Headers that do not follow the format, read for what the model meant.

Two questions are answered here, both without state: what does a damaged header say
(`recover_header`), and where does a header end that has no ``<|message|>`` (`split_unfinished`)?
A header that follows the format is never read differently, except for names that cannot be
meant: glued words, a channel that is nearly a known one, a recipient that is nearly a tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from ..conversation.header import ROLES, Header
from ..conversation.messages import Role
from ..tokens.special_tokens import CHANNEL, CONSTRAIN, CONSTRAIN_TEXT
from .old_header import HeaderError, Piece, read_header, split_words
from .recovery import RecoveryKind
from .tool_names import glued_tool, resolve_tool

__all__ = [
    "CHANNELS",
    "Note",
    "Unfinished",
    "recover_header",
    "split_plain_text",
    "split_unfinished",
]

Note: TypeAlias = tuple[RecoveryKind, str]
"""A repair and the text concerned."""

CHANNELS = ("analysis", "commentary", "final")
_CONTENT_TYPES = ("json", "code")
_KNOWN_WORDS = ("assistant", *CHANNELS, *_CONTENT_TYPES)
_KNOWN = "|".join(_KNOWN_WORDS)
_GLUED = re.compile(rf"({_KNOWN})(?={_KNOWN}|to=|$)")
_PLAIN_NAME = re.compile(r"[A-Za-z][\w+./-]*$")


def recover_header(
    pieces: Sequence[Piece], role: Role | None, tools: AbstractSet[str]
) -> tuple[Header, list[Note]]:
    """Read any header; `role` is the author when the header names none (default: assistant)."""
    try:
        header = read_header(pieces, role, tools)
    except HeaderError:
        header = None
    if header is not None and _is_plausible(header, tools):
        return header, []
    reading = _Reading(role, tools)
    reading.read(pieces)
    header = reading.header()
    if not reading.notes:
        reading.notes.append((RecoveryKind.HEADER_ORDER, ""))
    return header, reading.notes


def _is_plausible(header: Header, tools: AbstractSet[str]) -> bool:
    """Whether every name in a header that follows the format can be meant."""
    return (
        _is_plausible_channel(header.channel, tools)
        and _is_plausible_recipient(header, tools)
        and _is_plausible_type(header.content_type, tools)
    )


def _is_plausible_channel(channel: str | None, tools: AbstractSet[str]) -> bool:
    if channel is None or channel in CHANNELS:
        return True
    return (
        _PLAIN_NAME.match(channel) is not None
        and _nearest_channel(channel) is None
        and channel not in _CONTENT_TYPES
        and len(_unglue(channel)) == 1
        and resolve_tool(channel, tools) is None
    )


def _is_plausible_recipient(header: Header, tools: AbstractSet[str]) -> bool:
    name = header.recipient
    if header.role is Role.TOOL:  # only a role is ever answered by a tool
        author = header.name or ""
        glued = author in _KNOWN_WORDS or len(_unglue(author)) > 1
        if name is None:  # on a channel it is rather a call of that tool
            return not glued and (header.channel is None or author not in tools)
        return not glued and name in ROLES
    if name is None or (name and (name in tools or name in ROLES or name == "all")):
        return True
    if not name or name in _CONTENT_TYPES:
        return False
    return resolve_tool(name, tools) in (None, name) and glued_tool(name, tools) is None


def _is_plausible_type(content_type: str | None, tools: AbstractSet[str]) -> bool:
    if content_type is None:
        return True
    plain = content_type.removeprefix(CONSTRAIN_TEXT)
    return (
        _PLAIN_NAME.match(plain) is not None
        and len(_unglue(plain)) == 1
        and plain not in (*CHANNELS, *ROLES)
        and resolve_tool(plain, tools) is None
    )


def _nearest_channel(word: str) -> str | None:
    """Find the channel that a damaged name means: it holds the name, or begins it."""
    for channel in CHANNELS:
        if channel in word or (len(word) >= 5 and channel.startswith(word)):
            return channel
    return None


def _is_type(word: str, following: Sequence[str]) -> bool:
    """Whether a word after ``<|constrain|>`` is a type rather than the start of prose."""
    if word in _CONTENT_TYPES:
        return True
    alone = not following or following[0].startswith("to=")
    return alone and _PLAIN_NAME.match(word) is not None and word not in ROLES


def _unglue(word: str) -> list[str]:
    """Cut a word such as ``assistantcommentary`` or ``analysisto=python`` into its words."""
    parts: list[str] = []
    done = 0
    while match := _GLUED.match(word, done):
        parts.append(match[0])
        done = match.end()
    if done < len(word) or not parts:
        parts.append(word[done:])
    return parts


@dataclass
class _Reading:
    """The words of a damaged header, sorted by what they can mean."""

    given_role: Role | None
    tools: AbstractSet[str]
    role: Role | None = None
    author: str | None = None
    author_tool: str | None = None
    channels: list[str] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    content_types: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def read(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            words = list(self._words(piece.text))
            if piece.marker == CHANNEL:
                self._read_channel(words)
            elif piece.marker == CONSTRAIN:
                self._read_constraint(words)
            for word in words:
                self._read_word(word)

    def header(self) -> Header:
        recipient = self._take_recipient()
        role, name = self._take_author(recipient)
        if recipient is None and role is Role.ASSISTANT:
            recipient = self.author_tool  # it stood in place of the role
        content_type = self._take_content_type()
        channel = self._take_channel(role, recipient)
        if self.others:
            self._note(RecoveryKind.HEADER_TEXT, " ".join(self.others))
        return Header(role, name, channel, recipient, content_type)

    def _note(self, kind: RecoveryKind, text: str) -> None:
        self.notes.append((kind, text))

    def _words(self, text: str) -> Iterator[str]:
        for word in split_words(text):
            parts = _unglue(word)
            if len(parts) > 1:
                self._note(RecoveryKind.GLUED_WORDS, word)
            yield from parts

    def _read_channel(self, words: list[str]) -> None:
        """Take the channel's name from the front of `words`."""
        if not words or words[0].startswith("to="):
            self._note(RecoveryKind.EMPTY_CHANNEL, "")
            return
        first = words.pop(0)
        tool = resolve_tool(first, self.tools)
        if first in CHANNELS:
            self.channels.append(first)
        elif tool is not None:
            self._note(RecoveryKind.TOOL_AS_CHANNEL, first)
            self.recipients.append(tool)
        elif first in _CONTENT_TYPES:
            self._note(RecoveryKind.UNKNOWN_CHANNEL, first)
            self.content_types.append(first)
        elif (near := _nearest_channel(first)) is not None:
            self._note(RecoveryKind.UNKNOWN_CHANNEL, first)
            self.channels.append(near)
        elif _PLAIN_NAME.match(first) and not words:
            self.channels.append(first)
        else:
            self._note(RecoveryKind.UNKNOWN_CHANNEL, first)

    def _read_constraint(self, words: list[str]) -> None:
        """Take the content type, or what stands in its place, from the front of `words`."""
        if not words:
            return
        tool = resolve_tool(words[0].strip(":"), self.tools)
        if tool is not None:
            self._note(RecoveryKind.TOOL_AS_TYPE, words.pop(0))
            self.recipients.append(tool)
        elif words[0] in CHANNELS:
            self.channels.append(words.pop(0))
        elif _is_type(words[0], words[1:]):
            self.content_types.append(CONSTRAIN_TEXT + words.pop(0))

    def _read_word(self, word: str) -> None:
        if word.startswith("to="):
            self.recipients.append(word[3:])
        elif word in ROLES:
            self._read_role(word)
        elif word in CHANNELS and not self.others:
            self.channels.append(word)
        elif not self.others and (tool := resolve_tool(word, self.tools)) is not None:
            self._read_tool(word, tool)
        elif self._is_first(word):
            self.author = self.author_tool = word
        else:
            self.others.append(word)

    def _is_first(self, word: str) -> bool:
        """Whether a word stands where the author belongs, and can be one."""
        known = self.role or self.given_role or self.author or self.channels or self.others
        return not known and not self.recipients and word not in _CONTENT_TYPES

    def _read_role(self, word: str) -> None:
        if self.role is None:
            self.role = ROLES[word]
        else:
            self._note(RecoveryKind.REPEATED_ROLE, word)

    def _read_tool(self, word: str, tool: str) -> None:
        if self.role is None and self.given_role is None and not self.channels:
            self.author, self.author_tool = word, tool
        else:
            self.recipients.append(tool)

    def _take_recipient(self) -> str | None:
        """Choose one recipient: a declared tool rather than another, the last one of several."""
        names: dict[str, None] = {}
        by_tool = self.author is not None
        for name in self.recipients:
            if name == Role.ASSISTANT.value and not by_tool:  # the assistant answers to nobody
                self.others.append(f"to={name}")
                continue
            resolved = self._resolve_name(name)
            if resolved in names:
                self._note(RecoveryKind.REPEATED_RECIPIENT, name)
            elif resolved is not None:
                names[resolved] = None
        if not names:
            return None
        chosen = next((name for name in reversed(names) if name in self.tools), [*names][-1])
        for name in names:
            if name != chosen:
                self._note(RecoveryKind.REPEATED_RECIPIENT, name)
        return chosen

    def _resolve_name(self, name: str) -> str | None:
        """Find out what a recipient's name means: a tool, a tool and a type, only a type."""
        if not name:
            self._note(RecoveryKind.MISSING_RECIPIENT, "to=")
            return None
        if name in _CONTENT_TYPES and name not in self.tools:
            self._note(RecoveryKind.GLUED_WORDS, f"to={name}")
            self.content_types.append(name)
            return None
        tool = resolve_tool(name, self.tools)
        if tool is None and (cut := glued_tool(name, self.tools)) is not None:
            tool, content_type = cut
            self._note(RecoveryKind.GLUED_WORDS, name)
            self.content_types.append(content_type)
        elif tool is not None and tool != name:
            self._note(RecoveryKind.TOOL_NAME, name)
        return tool or name

    def _take_author(self, recipient: str | None) -> tuple[Role, str | None]:
        role = self.given_role or self.role
        if role is not None:
            if self.role is not None and self.role is not role:
                self._note(RecoveryKind.OTHER_ROLE, self.role.value)
            self._leave_out_author()
            return role, role.value if role is Role.TOOL else None
        if self.author is None:
            self._note(RecoveryKind.MISSING_ROLE, "")
            return Role.ASSISTANT, None
        if recipient in ROLES:  # only a tool answers to a role
            return Role.TOOL, self.author
        if recipient is not None:
            self._leave_out_author()
        elif self.channels:
            self._note(RecoveryKind.TOOL_AS_ROLE, self.author)
        else:
            self._note(RecoveryKind.UNKNOWN_ROLE, self.author)
            return Role.TOOL, self.author
        return Role.ASSISTANT, None

    def _leave_out_author(self) -> None:
        if self.author is not None:
            self.others.insert(0, self.author)
            self.author_tool = None

    def _take_content_type(self) -> str | None:
        if not self.content_types and self.others:
            single = len(self.others) == 1 and _PLAIN_NAME.match(self.others[0])
            plain = self.others[0] if single else None
            known = plain or next((word for word in self.others if word in _CONTENT_TYPES), None)
            if known is not None:
                self.others.remove(known)
                self.content_types.append(known)
        for extra in self.content_types[:-1]:
            self._note(RecoveryKind.HEADER_TEXT, extra)
        return self.content_types[-1] if self.content_types else None

    def _take_channel(self, role: Role, recipient: str | None) -> str | None:
        """Choose one channel: for a call ``commentary`` rather than another, else the last."""
        is_call = role is Role.ASSISTANT and recipient is not None and recipient not in ROLES
        channels = self.channels
        if not channels:
            if is_call:
                return "commentary"
            kinds = {kind for kind, _ in self.notes}
            lost = kinds & {RecoveryKind.EMPTY_CHANNEL, RecoveryKind.UNKNOWN_CHANNEL}
            return "final" if role is Role.ASSISTANT and (lost or self.others) else None
        chosen = "commentary" if is_call and "commentary" in channels else channels[-1]
        for at, name in enumerate(channels):
            if name != chosen or at != channels.index(chosen):
                self._note(RecoveryKind.REPEATED_CHANNEL, name)
        if is_call and chosen == "final":
            self._note(RecoveryKind.CALL_ON_FINAL, chosen)
            return "commentary"
        return chosen


@dataclass(frozen=True)
class Unfinished:
    """A header without ``<|message|>``: what it says, and the text that was meant as body."""

    header: Header
    body: str
    meant: bool
    """Whether it names a known channel or a recipient, so that it surely is a header."""


_ROLE_START = re.compile(rf"\s*({'|'.join(ROLES)})")
_CHANNEL_START = re.compile(rf"\s*({'|'.join(CHANNELS)})")
_NAME_START = re.compile(r"\s*([A-Za-z_][\w.-]*)")
_RECIPIENT_START = re.compile(r"\s*to=([\w.-]+)")
_TYPE_START = re.compile(rf"\s*({'|'.join(_CONTENT_TYPES)})(?=\s*(?:[\[{{\"]|$)|\s)")
_LOST_MARKERS = re.compile(rf"assistant(?={'|'.join(CHANNELS)})")
_LOST_CHANNEL = re.compile(rf"(?:{'|'.join(CHANNELS)})(?::\s|(?=[A-Z]|\s+to=))")
_HEADER_NOISE = re.compile(rf"(?:\s*(?:{'|'.join(CHANNELS)})?\s*\?+)+")
_JSON_START = re.compile(r"[\[{]")


def split_unfinished(
    pieces: Sequence[Piece], role: Role | None, tools: AbstractSet[str]
) -> Unfinished:
    """Take from a header without ``<|message|>`` what it says; the rest is the body.

    >>> split_unfinished([Piece(CHANNEL, "final I cannot help.")], Role.ASSISTANT, set()).body
    'I cannot help.'
    """
    header = Header(role or Role.ASSISTANT)
    body = ""
    for piece in pieces:
        text = piece.text
        if not body.strip():
            header, text = _take_header_words(header, piece, tools)
        body += text
    meant = header.channel is not None or header.recipient is not None
    if header.recipient is not None and header.channel is None:
        header = header._replace(channel="commentary")
    if match := _HEADER_NOISE.match(body):
        body = body[match.end() :]
    return Unfinished(header, body.lstrip(), meant)


def _take_header_words(header: Header, piece: Piece, tools: AbstractSet[str]) -> tuple[Header, str]:
    text = piece.text
    if piece.marker is None and (match := _ROLE_START.match(text)):
        role = ROLES[match[1]]
        name = match[1] if role is Role.TOOL else None
        header, text = header._replace(role=role, name=name), text[match.end() :]
    if header.channel is None and (match := _CHANNEL_START.match(text)):
        header, text = header._replace(channel=match[1]), text[match.end() :]
    elif piece.marker == CHANNEL and (match := _NAME_START.match(text)):
        tool = resolve_tool(match[1], tools)
        if tool is not None:
            header, text = header._replace(recipient=tool), text[match.end() :]
    if match := _RECIPIENT_START.match(text):
        name, content_type = match[1], header.content_type
        if (tool := resolve_tool(name, tools)) is not None:
            name = tool
        elif (cut := glued_tool(name, tools)) is not None:
            name, content_type = cut
        header = header._replace(recipient=name, content_type=content_type)
        text = text[match.end() :]
    constrained = piece.marker == CONSTRAIN
    if (constrained or header.recipient) and (match := _TYPE_START.match(text)):
        marker = CONSTRAIN_TEXT if constrained else ""
        header, text = header._replace(content_type=marker + match[1]), text[match.end() :]
    elif constrained:  # prose where a content type belongs; only data can follow it
        start = _JSON_START.search(text)
        text = text[start.start() :] if start else ""
    return header, text


def split_plain_text(
    text: str, tools: AbstractSet[str], default_channel: str
) -> list[tuple[Header, str]]:
    """Cut text that has lost its special tokens where the words of headers show.

    >>> text = "analysisEasy.assistantfinalHello!"
    >>> [(header.channel, body) for header, body in split_plain_text(text, set(), "final")]
    [('analysis', 'Easy.'), ('final', 'Hello!')]
    """
    cuts = [0, *(match.start() for match in _LOST_MARKERS.finditer(text) if match.start())]
    messages: list[tuple[Header, str]] = []
    for start, end in pairwise([*cuts, len(text)]):
        part = text[start:end]
        if _LOST_MARKERS.match(part) or _LOST_CHANNEL.match(part):
            unfinished = split_unfinished([Piece(None, part)], Role.ASSISTANT, tools)
            body = unfinished.body.removeprefix(":").lstrip()
            messages.append((unfinished.header, body if end == len(text) else body.rstrip()))
        elif end == len(text):
            messages.append((Header(Role.ASSISTANT, channel=default_channel), part))
        else:
            messages.append((Header(Role.ASSISTANT, channel="analysis"), part.rstrip()))
    return messages
