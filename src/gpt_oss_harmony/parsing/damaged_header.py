"""Message headers as lenient parsing reads them: tokens in, a `Header` and the repairs out.

Every header is read in the same steps, whether it follows the format or not:

1. `split_header` cuts it at its special tokens. Without a ``<|message|>``,
   `unfinished_header.split_body` finds the place where the body begins.
2. `WORD_RULES` gives each word a meaning, by its look and its place.
3. If several words have the same meaning, the ``_choose`` methods choose one.
4. If the header follows the format, it is read as it is written, unless a word in it is clearly an
   error: glued words, a channel that is nearly a known one, a recipient that is nearly a tool.

docs/reference/recoveries.md shows the rules of steps 2 and 3 as tables.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import TypeAlias

from ..conversation.built_in_tools import BUILT_IN_TOOLS, built_in_recipients
from ..conversation.header import INVISIBLE_RUN, ROLES, Header
from ..conversation.messages import Role
from ..tokens.special_tokens import CHANNEL, CONSTRAIN, CONSTRAIN_TEXT
from .header_words import (
    CHANNELS,
    CONTENT_TYPES,
    KNOWN_TYPES,
    KNOWN_WORDS,
    LONGEST_NAME,
    NAMESPACE,
    PLAIN_NAME,
    QUOTES,
    WORD_RULES,
    Piece,
    Place,
    Slot,
    Word,
    nearest_channel,
    split_words,
    type_in_garble,
    unglue,
)
from .recovery import RecoveryKind

__all__ = ["HeaderReading", "Note", "read_header", "resolve_tool"]

Note: TypeAlias = tuple[RecoveryKind, str]
"""A repair and the repaired text."""

# Names of tools

_QUALIFIED_NAME = re.compile(r"(\w+)\.[\w.-]+$")
_GLUED_TYPE = re.compile(r"(?:<\|constrain\|>|commentary|analysis|json|code)+$")


def resolve_tool(name: str, tools: AbstractSet[str]) -> str | None:
    """Find the tool that a name means: a declared one, or a name that only a tool can have.

    >>> resolve_tool("shell", {"functions.shell"}), resolve_tool("shell", set())
    ('functions.shell', None)
    >>> resolve_tool("functions.browser.search", {"browser.search"})
    'browser.search'
    """
    if len(name) > LONGEST_NAME:
        return None
    name = " ".join(name.strip(QUOTES).split())
    bare = NAMESPACE.sub("", name, count=1)
    middle = len(bare) // 2
    first, second = bare[:middle], bare[-middle:]
    written_twice = first == second and bare[middle:-middle] in ("", ".")
    for candidate in (name, bare, first) if written_twice else (name, bare):
        for declared in (candidate, f"functions.{candidate}"):
            if declared in tools:
                return declared
    if name in built_in_recipients():
        return name
    qualified = None if tools else _QUALIFIED_NAME.match(name)
    if qualified is None:
        return None
    namespace = qualified[1]
    # A namespace without functions, such as python, has no qualified names.
    has_functions = namespace in BUILT_IN_TOOLS and bool(BUILT_IN_TOOLS[namespace].namespace.tools)
    return name if namespace == "functions" or has_functions else None


def _split_glued_type(name: str, tools: AbstractSet[str]) -> tuple[str, str] | None:
    """Split a declared tool's name from the content type that follows it without a space.

    >>> _split_glued_type("functions.shelljson", {"functions.shell"})
    ('functions.shell', 'json')
    """
    match = _GLUED_TYPE.search(name) if len(name) <= LONGEST_NAME else None
    while match is not None:
        tool = resolve_tool(name[: match.start()], tools)
        if tool in tools and tool is not None:
            suffix = match[0]
            content_type = next(t for t in (*CONTENT_TYPES, suffix) if suffix.endswith(t))
            marked = suffix.endswith(f"{CONSTRAIN_TEXT}{content_type}")
            return tool, f"{CONSTRAIN_TEXT}{content_type}" if marked else content_type
        match = _GLUED_TYPE.search(name, match.start() + 1)
    return None


# The words of a header

_NOT_MEANT = frozenset(
    {
        RecoveryKind.GLUED_WORDS,
        RecoveryKind.MISSING_RECIPIENT,
        RecoveryKind.MISSING_ROLE,
        RecoveryKind.REPEATED_CHANNEL,
        RecoveryKind.REPEATED_ROLE,
        RecoveryKind.TOOL_AS_CHANNEL,
        RecoveryKind.TOOL_AS_TYPE,
        RecoveryKind.TOOL_NAME,
        RecoveryKind.UNKNOWN_CHANNEL,
    }
)
"""Repairs which show that a header is not meant as it is written."""


class HeaderReading:
    """The words of a header, sorted by what they mean."""

    def __init__(self, role: Role | None, tools: AbstractSet[str]) -> None:
        self.given_role = role
        self.tools = tools
        self.words: dict[Slot, list[str]] = {slot: [] for slot in Slot}
        self.name: str | None = None  # of an author that is not a tool
        self.notes: list[Note] = []
        self.is_meant = True  # whether a header that follows the format is meant as it is written

    def read(self, pieces: Sequence[Piece]) -> Header:
        """Sort the words of all pieces, then choose one word for each meaning."""
        for piece in pieces:
            words: list[str] = []
            for word in split_words(piece.text, self.tools):
                parts = unglue(word)
                if len(parts) > 1:
                    self._note(RecoveryKind.GLUED_WORDS, word)
                words += parts
            if piece.marker == CHANNEL and not words:
                self._note(RecoveryKind.EMPTY_CHANNEL, "")
            for index, (word, following) in enumerate(pairwise([*words, ""])):
                self._read_word(word, following, None if index else piece.marker)
        recipient = self._choose_recipient()
        role, name, recipient = self._choose_author(recipient)
        content_type = self._choose_type(recipient)
        channel = self._choose_channel(role, recipient)
        if text := self.words[Slot.TEXT]:
            self.is_meant &= all(word.startswith("to=") for word in text)
            self._note(RecoveryKind.HEADER_TEXT, " ".join(text))
        return Header(role, name or self.name, channel, recipient, content_type)

    def _note(self, kind: RecoveryKind, text: str) -> None:
        self.notes.append((kind, text))
        if kind in _NOT_MEANT:
            self.is_meant = False

    # What a word means

    def _read_word(self, word: str, following: str, marker: int | None) -> None:
        place = self._place(marker)
        if place is Place.FIRST and (named := _read_named_role(word)):
            role, self.name = named
            self.words[Slot.ROLE].append(role.value)
            return
        look = self._look(word, place, following)
        rules = WORD_RULES[look]
        slot, noted_as = rules.get(place) or rules[Place.LATER]
        text = self.words[Slot.TEXT]
        if text and place is Place.LATER and look in (Word.CHANNEL, Word.TOOL):
            slot = Slot.TEXT
        if noted_as is not None:
            self._note(noted_as, word)
        if " " in word:  # it is one name only because a tool of this name is declared
            self._note(RecoveryKind.TOOL_NAME, word)
        out_of_place = {
            Slot.ROLE: any(self.words.values()),
            Slot.CHANNEL: place is not Place.CHANNEL,
            Slot.RECIPIENT: look is not Word.RECIPIENT and word not in self.tools,
        }
        self.is_meant &= not out_of_place.get(slot, False)
        if slot is Slot.RECIPIENT:
            word = word[3:] if look is Word.RECIPIENT else resolve_tool(word, self.tools) or word
        elif slot is Slot.CHANNEL:
            word = nearest_channel(word) or word
        elif slot is Slot.TYPE and place is Place.CONSTRAIN:
            word = CONSTRAIN_TEXT + word
        self.words[slot].append(word)

    def _place(self, marker: int | None) -> Place:
        """Return the place of the next word; `marker` is the special token before it, if any."""
        if marker in (CHANNEL, CONSTRAIN):
            return Place.CHANNEL if marker == CHANNEL else Place.CONSTRAIN
        if any(words for slot, words in self.words.items() if slot is not Slot.ROLE):
            return Place.LATER
        roles = self.words[Slot.ROLE]
        role = self.given_role or (ROLES[roles[0]] if roles else None)
        if role is None:
            return Place.FIRST
        return Place.AFTER_TOOL if role is Role.TOOL else Place.LATER

    def _look(self, word: str, place: Place, following: str) -> Word:
        if word.startswith("to="):
            return Word.RECIPIENT
        if (known := KNOWN_WORDS.get(word)) is not None:
            return known
        if resolve_tool(word, self.tools) is not None:
            return Word.TOOL
        if place is Place.CHANNEL and nearest_channel(word) is not None:
            return Word.NEARLY_CHANNEL
        begins_prose = following not in ("", *CONTENT_TYPES) and not following.startswith("to=")
        return Word.NAME if PLAIN_NAME.match(word) and not begins_prose else Word.OTHER

    # Which word counts

    def _choose_recipient(self) -> str | None:
        """Choose a declared tool rather than another name, else the last one."""
        names: dict[str, None] = {}
        is_answer = bool(self.words[Slot.AUTHOR])
        for name in self.words[Slot.RECIPIENT]:
            if name == Role.ASSISTANT.value and not is_answer:  # the assistant calls no assistant
                self.words[Slot.TEXT].append(f"to={name}")
                continue
            resolved = self._resolve_recipient(name)
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

    def _resolve_recipient(self, name: str) -> str | None:
        """Return the recipient that ``to=name`` means; None if the name is a channel or a type."""
        if not name:
            self._note(RecoveryKind.MISSING_RECIPIENT, "to=")
        elif name in ROLES or name in self.tools:
            return name
        elif name in CHANNELS or name in CONTENT_TYPES:
            self._note(RecoveryKind.GLUED_WORDS, f"to={name}")
            self.words[Slot.CHANNEL if name in CHANNELS else Slot.TYPE].append(name)
        elif (tool := resolve_tool(name, self.tools)) is not None:
            if tool != name and " " not in name:
                self._note(RecoveryKind.TOOL_NAME, name)
            return tool
        elif (cut := _split_glued_type(name, self.tools)) is not None:
            tool, content_type = cut
            self._note(RecoveryKind.GLUED_WORDS, name)
            self.words[Slot.TYPE].append(content_type)
            return tool
        else:
            return name
        return None

    def _choose_role(self) -> Role | None:
        """Choose the given role, else the first one."""
        role = self.given_role
        for index, word in enumerate(self.words[Slot.ROLE]):
            if index:
                self._note(RecoveryKind.REPEATED_ROLE, word)
            elif role is None:
                role = ROLES[word]
            elif ROLES[word] is not role:
                self._note(RecoveryKind.OTHER_ROLE, word)
        return role

    def _choose_author(self, recipient: str | None) -> tuple[Role, str | None, str | None]:
        """Choose the role, a tool's name and the recipient: only a tool's recipient is a role."""
        role = self._choose_role()
        author = next(iter(self.words[Slot.AUTHOR]), None)
        tool = author and (resolve_tool(author, self.tools) or author)
        if role is Role.TOOL:
            is_call = recipient not in ROLES and resolve_tool(recipient or "", self.tools)
            if not is_call or self.given_role is Role.TOOL:
                if tool is not None:
                    self._note(RecoveryKind.REPEATED_ROLE, role.value)
                return role, tool or role.value, recipient
            self._note(RecoveryKind.TOOL_AS_ROLE, role.value)
            self.is_meant = False
            role = Role.ASSISTANT
        elif role is None and author is not None:
            if recipient in ROLES:
                return Role.TOOL, author, recipient
            if recipient is None and self.words[Slot.CHANNEL]:
                self._note(RecoveryKind.TOOL_AS_ROLE, author)
                self.is_meant &= author not in self.tools
                return Role.ASSISTANT, None, tool
            if recipient is None:
                self._note(RecoveryKind.UNKNOWN_ROLE, author)
                return Role.TOOL, author, None
        if author is not None:
            self.words[Slot.TEXT].insert(0, author)
        elif role is None:
            self._note(RecoveryKind.MISSING_ROLE, "")
        return role or Role.ASSISTANT, None, recipient

    def _choose_type(self, recipient: str | None) -> str | None:
        """Choose a known type that is marked, else a type in the text, else the last marked one."""
        types, text = self.words[Slot.TYPE], self.words[Slot.TEXT]
        chosen = next((word for word in reversed(types) if word in KNOWN_TYPES), None)
        if chosen is None:
            chosen = next((word for word in text if word in KNOWN_TYPES), None)
            if chosen is None and not types and len(text) == 1 and PLAIN_NAME.match(text[0]):
                chosen = text[0]
            if chosen is not None:
                text.remove(chosen)
            elif recipient is not None:
                chosen = next(filter(None, map(type_in_garble, reversed(text))), None)
        if chosen is None and types:
            chosen = types[-1]
        if chosen in types:
            types.remove(chosen)
        for word in types:
            self._note(RecoveryKind.HEADER_TEXT, word)
        return chosen

    def _choose_channel(self, role: Role, recipient: str | None) -> str | None:
        """Choose ``commentary`` for a call rather than another channel, else the last one."""
        is_call = role is Role.ASSISTANT and recipient is not None and recipient not in ROLES
        channels = self.words[Slot.CHANNEL]
        if not channels:
            kinds = {kind for kind, _ in self.notes}
            is_lost = (
                kinds & {RecoveryKind.EMPTY_CHANNEL, RecoveryKind.UNKNOWN_CHANNEL}
                or self.words[Slot.TEXT]
            )
            if role is not Role.ASSISTANT or not (is_call or is_lost):
                return None
            return "commentary" if is_call else "final"
        chosen = "commentary" if is_call and "commentary" in channels else channels[-1]
        repeated = channels.copy()
        repeated.remove(chosen)
        for name in repeated:
            self._note(RecoveryKind.REPEATED_CHANNEL, name)
        if is_call and chosen == "final":
            self._note(RecoveryKind.CALL_ON_FINAL, chosen)
            return "commentary"
        return chosen


# Headers with <|message|>


def read_header(
    pieces: Sequence[Piece], role: Role | None, tools: AbstractSet[str]
) -> tuple[Header, list[Note]]:
    """Read any header; `role` is the author if the header names none (default: assistant).

    >>> header, notes = read_header(
    ...     [Piece(CHANNEL, "commentary"), Piece(CONSTRAIN, "json to=f")], None, {"functions.f"}
    ... )
    >>> header.recipient, header.content_type, [kind.value for kind, _ in notes]
    ('functions.f', '<|constrain|>json', ['tool-name', 'missing-role'])
    """
    if sum(len(text) for _, text in pieces) > LONGEST_NAME:
        header, notes = _read_header.__wrapped__(tuple(pieces), role, frozenset(tools))
    else:
        header, notes = _read_header(tuple(pieces), role, frozenset(tools))
    return header, [*notes]


@functools.lru_cache(maxsize=1024)
def _read_header(
    pieces: Sequence[Piece], role: Role | None, tools: frozenset[str]
) -> tuple[Header, Sequence[Note]]:
    """Read a header; cached, because the same few headers occur again and again."""
    notes: list[Note] = []
    if invisible := "".join(INVISIBLE_RUN.findall("".join(text for _, text in pieces))):
        notes.append((RecoveryKind.HEADER_TEXT, invisible))
        pieces = [Piece(marker, INVISIBLE_RUN.sub("", text)) for marker, text in pieces]
    reading = HeaderReading(role, tools)
    header = reading.read(pieces)
    as_written = _read_as_written(pieces, role, tools)
    if as_written is not None and reading.is_meant:
        return as_written, notes
    return header, notes + (reading.notes or [(RecoveryKind.HEADER_ORDER, "")])


def _read_as_written(
    pieces: Sequence[Piece], role: Role | None, tools: AbstractSet[str]
) -> Header | None:
    """Read a header that follows the format; return None for any other one."""
    channel = name = None
    words: list[str] = []
    for marker, text in pieces:
        found = split_words(text, tools)
        if marker == CHANNEL:
            if channel is not None or not found or text[0].isspace():
                return None
            channel = found.pop(0)
        elif marker == CONSTRAIN:
            found[:1] = [CONSTRAIN_TEXT + "".join(found[:1])]
        words += found
    if role is None:
        role, name = _take_author(words, tools)
    elif words and words[0] == role.value:
        del words[0]
    recipient = None
    if words and (words[0].startswith("to=") or words[0] in tools):
        recipient = words.pop(0).removeprefix("to=")
    content_type = words.pop(0) if words and not words[0].startswith("to=") else None
    return None if role is None or words else Header(role, name, channel, recipient, content_type)


def _take_author(words: list[str], tools: AbstractSet[str]) -> tuple[Role | None, str | None]:
    """Take the author from the front of `words`; a word that is not a role is a tool's name."""
    if not words or words[0].startswith(("to=", CONSTRAIN_TEXT)):
        return None, None
    first = words.pop(0)
    if first in ROLES:
        # A header names a tool only by its name, so a tool named "tool" is written this way.
        return ROLES[first], first if first == Role.TOOL.value else None
    if named := _read_named_role(first):
        return named
    return (Role.TOOL, first) if words or first in tools else (None, None)


def _read_named_role(word: str) -> tuple[Role, str] | None:
    """Read an author such as ``user:bob``."""
    role, _, name = word.partition(":")
    return (ROLES[role], name) if name and role in ROLES and role != Role.TOOL.value else None
