"""Message headers as lenient parsing reads them: tokens in, a `Header` and the repairs out.

Every header is read in the same steps, whether it follows the format or not:

1. `split_header` cuts it at its special tokens. Without a ``<|message|>``, `split_body` finds the
   place where the words of a header end and the body begins.
2. Each word gets a meaning by `WORD_RULES`, from what it looks like and where it stands.
3. Where several words mean the same thing, the ``_choose`` methods say which one counts.
4. A header that follows the format is then read as it is written, unless a word in it cannot be
   meant: glued words, a channel that is nearly a known one, a recipient that is nearly a tool.

docs/api.md shows the rules of steps 2 and 3 as tables.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from ..conversation.header import ROLES, Header
from ..conversation.messages import Role
from ..tokens.special_tokens import CHANNEL, CONSTRAIN, CONSTRAIN_TEXT, FIRST_SPECIAL
from ..tokens.tokenizer import Tokenizer
from .recovery import RecoveryKind

__all__ = [
    "CHANNELS",
    "CONTENT_TYPES",
    "LONGEST_NAME",
    "WORD_RULES",
    "Note",
    "Piece",
    "Place",
    "Slot",
    "Unfinished",
    "Word",
    "read_header",
    "resolve_tool",
    "split_body",
    "split_header",
    "split_last_header",
    "split_plain_text",
]

CHANNELS = ("analysis", "commentary", "final")
CONTENT_TYPES = ("json", "code")

Note: TypeAlias = tuple[RecoveryKind, str]
"""A repair and the text concerned."""


class Piece(NamedTuple):
    """A special token of a header (None before the first) and the text that follows it."""

    marker: int | None
    text: str


def split_header(tokens: Sequence[int], tokenizer: Tokenizer) -> list[Piece]:
    """Cut header tokens at their special tokens."""
    cuts = [index for index, token in enumerate(tokens) if token >= FIRST_SPECIAL]
    texts = [
        tokenizer.decode(tokens[start + 1 : end])
        for start, end in pairwise([-1, *cuts, len(tokens)])
    ]
    pieces = [Piece(tokens[index], text) for index, text in zip(cuts, texts[1:], strict=True)]
    return [Piece(None, texts[0]), *pieces] if texts[0] else pieces


# Names of tools

LONGEST_NAME = 256
"""Characters; a longer word is no tool's name, and a longer header is not kept in the cache."""

_BUILT_IN = frozenset({"python", "browser.search", "browser.open", "browser.find"})
_QUALIFIED_NAME = re.compile(r"(?:functions|browser)\.[\w.-]+$")
_NAMESPACE = re.compile(r"(?:functions?\.)*")
_GLUED_TYPE = re.compile(r"(?:<\|constrain\|>|commentary|analysis|json|code)+$")
_QUOTES = "\"'`:,"


def resolve_tool(name: str, tools: AbstractSet[str]) -> str | None:
    """Find the tool that a name means: a declared one, else a name that only a tool can have.

    >>> resolve_tool("shell", {"functions.shell"}), resolve_tool("shell", set())
    ('functions.shell', None)
    >>> resolve_tool("functions.browser.search", {"browser.search"})
    'browser.search'
    """
    if len(name) > LONGEST_NAME:
        return None
    name = " ".join(name.strip(_QUOTES).split())
    bare = _NAMESPACE.sub("", name, count=1)
    middle = len(bare) // 2
    first, second = bare[:middle], bare[-middle:]
    written_twice = first == second and bare[middle:-middle] in ("", ".")
    for candidate in (name, bare, first) if written_twice else (name, bare):
        for declared in (candidate, f"functions.{candidate}"):
            if declared in tools:
                return declared
    if name in _BUILT_IN:
        return name
    return name if not tools and _QUALIFIED_NAME.match(name) else None


def _split_glued_type(name: str, tools: AbstractSet[str]) -> tuple[str, str] | None:
    """Cut a declared tool's name and the content type written right after it apart.

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


# Words

INVISIBLE = (
    r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Control characters, and those with Unicode's property Default_Ignorable_Code_Point."""

_INVISIBLE = re.compile(rf"[{INVISIBLE}]+")
_GLUE = "|".join(("assistant", *CHANNELS, *CONTENT_TYPES))
_GLUED = re.compile(rf"({_GLUE}|tool:(?=.))(?={_GLUE}|to=|$|(?<=tool:))")
_PLAIN_NAME = re.compile(r"[A-Za-z][\w+./-]*$")


@functools.lru_cache(maxsize=64)
def _name_pattern(tools: frozenset[str]) -> str:
    """Return a pattern for the declared names that hold a space; the longest is tried first."""
    bare = {_NAMESPACE.sub("", tool, count=1) for tool in tools if len(tool.split()) > 1}
    names = [r"\s+".join(map(re.escape, name.split())) for name in sorted(bare, key=len)]
    return rf"(?:functions?\.)*(?:{'|'.join(reversed(names))})" if names else "(?!)"


@functools.lru_cache(maxsize=64)
def _word_pattern(tools: frozenset[str]) -> re.Pattern[str]:
    quote = f"[{_QUOTES}]?"
    glued = "(?:commentary|analysis|json|code)*"
    return re.compile(rf"(?:to=)?{quote}{_name_pattern(tools)}{quote}{glued}(?=\s|$)|\S+")


def _split_words(text: str, tools: AbstractSet[str]) -> list[str]:
    """Split at white space, but not inside of a declared tool's name."""
    return _word_pattern(frozenset(tools)).findall(text)


def _unglue(word: str) -> list[str]:
    """Cut a word such as ``assistantcommentary`` or ``analysisto=python`` into its words."""
    parts: list[str] = []
    done = 0
    while match := _GLUED.match(word, done):
        parts.append(match[1].rstrip(":"))
        done = match.end()
    if done < len(word) or not parts:
        parts.append(word[done:])
    return parts


def _nearest_channel(word: str) -> str | None:
    """Find the channel that a damaged name means: it holds the name, or begins it."""
    for channel in CHANNELS:
        if channel in word or (len(word) >= 5 and channel.startswith(word)):
            return channel
    return None


_KNOWN_TYPES = frozenset((*CONTENT_TYPES, *(CONSTRAIN_TEXT + name for name in CONTENT_TYPES)))


def _type_in_garble(word: str) -> str | None:
    """Return the type that a word ends in, where the rest of it is no plain name.

    >>> _type_in_garble("彩神争霸高json"), _type_in_garble("fjson")
    ('json', None)
    """
    return None if word.isascii() else next(filter(word.endswith, CONTENT_TYPES), None)


class Word(Enum):
    """Looks of a word in a header; where several fit, the first counts."""

    RECIPIENT = "`to=…`"
    CHANNEL = "a channel"
    ROLE = "a role"
    TYPE = "`json`, `code`"
    TOOL = "a tool"
    NEARLY_CHANNEL = "nearly a channel"
    NAME = "another name"
    OTHER = "anything else"


_KNOWN_WORDS: Mapping[str, Word] = {
    **dict.fromkeys(CHANNELS, Word.CHANNEL),
    **dict.fromkeys(ROLES, Word.ROLE),
    **dict.fromkeys(CONTENT_TYPES, Word.TYPE),
}


class Place(Enum):
    """Places of a word in a header."""

    FIRST = "where the role belongs"
    AFTER_TOOL = "after the role `tool`"
    CHANNEL = "after `<|channel|>`"
    CONSTRAIN = "after `<|constrain|>`"
    LATER = "elsewhere"


class Slot(Enum):
    """Meanings of a word in a header."""

    AUTHOR = "author"
    ROLE = "role"
    CHANNEL = "channel"
    RECIPIENT = "recipient"
    TYPE = "type"
    TEXT = "text"
    NOTHING = "left out"


class Rule(NamedTuple):
    """The meaning of a word, and the repair to note, if this is one."""

    slot: Slot
    noted_as: RecoveryKind | None = None


_K = RecoveryKind
_NO_CHANNEL = Rule(Slot.NOTHING, _K.UNKNOWN_CHANNEL)

WORD_RULES: Mapping[Word, Mapping[Place, Rule]] = {
    Word.RECIPIENT: {
        Place.CHANNEL: Rule(Slot.RECIPIENT, _K.EMPTY_CHANNEL),
        Place.LATER: Rule(Slot.RECIPIENT),
    },
    Word.CHANNEL: {
        Place.LATER: Rule(Slot.CHANNEL),
    },
    Word.ROLE: {
        Place.CHANNEL: _NO_CHANNEL,
        Place.LATER: Rule(Slot.ROLE),
    },
    Word.TYPE: {
        Place.CHANNEL: Rule(Slot.TYPE, _K.UNKNOWN_CHANNEL),
        Place.CONSTRAIN: Rule(Slot.TYPE),
        Place.LATER: Rule(Slot.TEXT),
    },
    Word.TOOL: {
        Place.FIRST: Rule(Slot.AUTHOR),
        Place.AFTER_TOOL: Rule(Slot.AUTHOR),
        Place.CHANNEL: Rule(Slot.RECIPIENT, _K.TOOL_AS_CHANNEL),
        Place.CONSTRAIN: Rule(Slot.RECIPIENT, _K.TOOL_AS_TYPE),
        Place.LATER: Rule(Slot.RECIPIENT),
    },
    Word.NEARLY_CHANNEL: {
        Place.CHANNEL: Rule(Slot.CHANNEL, _K.UNKNOWN_CHANNEL),
    },
    Word.NAME: {
        Place.FIRST: Rule(Slot.AUTHOR),
        Place.AFTER_TOOL: Rule(Slot.AUTHOR),
        Place.CHANNEL: Rule(Slot.CHANNEL),
        Place.CONSTRAIN: Rule(Slot.TYPE),
        Place.LATER: Rule(Slot.TEXT),
    },
    Word.OTHER: {
        Place.FIRST: Rule(Slot.AUTHOR),
        Place.CHANNEL: _NO_CHANNEL,
        Place.LATER: Rule(Slot.TEXT),
    },
}
"""The meaning of a word by its look and its place; a place without a row is like `Place.LATER`.

Once there is text, a channel or a tool without a special token before it is text too.
"""

_NOT_MEANT = frozenset(
    {
        _K.GLUED_WORDS,
        _K.MISSING_RECIPIENT,
        _K.MISSING_ROLE,
        _K.REPEATED_CHANNEL,
        _K.REPEATED_ROLE,
        _K.TOOL_AS_CHANNEL,
        _K.TOOL_AS_TYPE,
        _K.TOOL_NAME,
        _K.UNKNOWN_CHANNEL,
    }
)
"""Repairs which show that a header cannot be meant as it is written."""


class _Reading:
    """The words of a header, sorted by what they mean."""

    def __init__(self, role: Role | None, tools: AbstractSet[str]) -> None:
        self.given_role = role
        self.tools = tools
        self.words: dict[Slot, list[str]] = {slot: [] for slot in Slot}
        self.notes: list[Note] = []
        self.is_meant = True  # whether a header that follows the format can be meant as it is

    def read(self, pieces: Sequence[Piece]) -> Header:
        """Sort the words of all pieces, then choose among those that mean the same."""
        for piece in pieces:
            words: list[str] = []
            for word in _split_words(piece.text, self.tools):
                parts = _unglue(word)
                if len(parts) > 1:
                    self._note(_K.GLUED_WORDS, word)
                words += parts
            if piece.marker == CHANNEL and not words:
                self._note(_K.EMPTY_CHANNEL, "")
            for index, (word, following) in enumerate(pairwise([*words, ""])):
                self._read_word(word, following, None if index else piece.marker)
        recipient = self._choose_recipient()
        role, name, recipient = self._choose_author(recipient)
        content_type = self._choose_type(recipient)
        channel = self._choose_channel(role, recipient)
        if text := self.words[Slot.TEXT]:
            self.is_meant &= all(word.startswith("to=") for word in text)
            self._note(_K.HEADER_TEXT, " ".join(text))
        return Header(role, name, channel, recipient, content_type)

    def _note(self, kind: RecoveryKind, text: str) -> None:
        self.notes.append((kind, text))
        if kind in _NOT_MEANT:
            self.is_meant = False

    # What a word means

    def _read_word(self, word: str, following: str, marker: int | None) -> None:
        place = self._place(marker)
        look = self._look(word, place, following)
        rules = WORD_RULES[look]
        slot, noted_as = rules.get(place) or rules[Place.LATER]
        text = self.words[Slot.TEXT]
        if text and place is Place.LATER and look in (Word.CHANNEL, Word.TOOL):
            slot = Slot.TEXT
        if noted_as is not None:
            self._note(noted_as, word)
        if " " in word:  # only the declared tools tell that this is one name
            self._note(_K.TOOL_NAME, word)
        out_of_place = {
            Slot.ROLE: any(self.words.values()),
            Slot.CHANNEL: place is not Place.CHANNEL,
            Slot.RECIPIENT: look is not Word.RECIPIENT and word not in self.tools,
        }
        self.is_meant &= not out_of_place.get(slot, False)
        if slot is Slot.RECIPIENT:
            word = word[3:] if look is Word.RECIPIENT else resolve_tool(word, self.tools) or word
        elif slot is Slot.CHANNEL:
            word = _nearest_channel(word) or word
        elif slot is Slot.TYPE and place is Place.CONSTRAIN:
            word = CONSTRAIN_TEXT + word
        self.words[slot].append(word)

    def _place(self, marker: int | None) -> Place:
        """Return where the next word stands; `marker` is the special token before it, if any."""
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
        if (known := _KNOWN_WORDS.get(word)) is not None:
            return known
        if resolve_tool(word, self.tools) is not None:
            return Word.TOOL
        if place is Place.CHANNEL and _nearest_channel(word) is not None:
            return Word.NEARLY_CHANNEL
        begins_prose = following not in ("", *CONTENT_TYPES) and not following.startswith("to=")
        return Word.NAME if _PLAIN_NAME.match(word) and not begins_prose else Word.OTHER

    # Which word counts

    def _choose_recipient(self) -> str | None:
        """Choose a declared tool rather than another name, else the last one."""
        names: dict[str, None] = {}
        is_answer = bool(self.words[Slot.AUTHOR])
        for name in self.words[Slot.RECIPIENT]:
            if name == Role.ASSISTANT.value and not is_answer:  # it answers to nobody
                self.words[Slot.TEXT].append(f"to={name}")
                continue
            resolved = self._resolve_recipient(name)
            if resolved in names:
                self._note(_K.REPEATED_RECIPIENT, name)
            elif resolved is not None:
                names[resolved] = None
        if not names:
            return None
        chosen = next((name for name in reversed(names) if name in self.tools), [*names][-1])
        for name in names:
            if name != chosen:
                self._note(_K.REPEATED_RECIPIENT, name)
        return chosen

    def _resolve_recipient(self, name: str) -> str | None:
        """Find out what a recipient's name means: a tool, or a tool and a type, or neither."""
        if not name:
            self._note(_K.MISSING_RECIPIENT, "to=")
        elif name in ROLES or name in self.tools:
            return name
        elif name in CHANNELS or name in CONTENT_TYPES:
            self._note(_K.GLUED_WORDS, f"to={name}")
            self.words[Slot.CHANNEL if name in CHANNELS else Slot.TYPE].append(name)
        elif (tool := resolve_tool(name, self.tools)) is not None:
            if tool != name and " " not in name:
                self._note(_K.TOOL_NAME, name)
            return tool
        elif (cut := _split_glued_type(name, self.tools)) is not None:
            tool, content_type = cut
            self._note(_K.GLUED_WORDS, name)
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
                self._note(_K.REPEATED_ROLE, word)
            elif role is None:
                role = ROLES[word]
            elif ROLES[word] is not role:
                self._note(_K.OTHER_ROLE, word)
        return role

    def _choose_author(self, recipient: str | None) -> tuple[Role, str | None, str | None]:
        """Choose the role, the name of a tool and the recipient: only a tool answers to a role."""
        role = self._choose_role()
        author = next(iter(self.words[Slot.AUTHOR]), None)
        tool = author and (resolve_tool(author, self.tools) or author)
        if role is Role.TOOL:
            is_call = recipient not in ROLES and resolve_tool(recipient or "", self.tools)
            if not is_call or self.given_role is Role.TOOL:
                if tool is not None:
                    self._note(_K.REPEATED_ROLE, role.value)
                return role, tool or role.value, recipient
            self._note(_K.TOOL_AS_ROLE, role.value)
            self.is_meant = False
            role = Role.ASSISTANT
        elif role is None and author is not None:
            if recipient in ROLES:
                return Role.TOOL, author, recipient
            if recipient is None and self.words[Slot.CHANNEL]:
                self._note(_K.TOOL_AS_ROLE, author)
                self.is_meant &= author not in self.tools
                return Role.ASSISTANT, None, tool
            if recipient is None:
                self._note(_K.UNKNOWN_ROLE, author)
                return Role.TOOL, author, None
        if author is not None:
            self.words[Slot.TEXT].insert(0, author)
        elif role is None:
            self._note(_K.MISSING_ROLE, "")
        return role or Role.ASSISTANT, None, recipient

    def _choose_type(self, recipient: str | None) -> str | None:
        """Choose a known type rather than another, a marked one rather than text, the last one."""
        types, text = self.words[Slot.TYPE], self.words[Slot.TEXT]
        chosen = next((word for word in reversed(types) if word in _KNOWN_TYPES), None)
        if chosen is None:
            chosen = next((word for word in text if word in _KNOWN_TYPES), None)
            if chosen is None and not types and len(text) == 1 and _PLAIN_NAME.match(text[0]):
                chosen = text[0]
            if chosen is not None:
                text.remove(chosen)
            elif recipient is not None:
                chosen = next(filter(None, map(_type_in_garble, reversed(text))), None)
        if chosen is None and types:
            chosen = types[-1]
        if chosen in types:
            types.remove(chosen)
        for word in types:
            self._note(_K.HEADER_TEXT, word)
        return chosen

    def _choose_channel(self, role: Role, recipient: str | None) -> str | None:
        """Choose ``commentary`` for a call rather than another channel, else the last one."""
        is_call = role is Role.ASSISTANT and recipient is not None and recipient not in ROLES
        channels = self.words[Slot.CHANNEL]
        if not channels:
            kinds = {kind for kind, _ in self.notes}
            is_lost = kinds & {_K.EMPTY_CHANNEL, _K.UNKNOWN_CHANNEL} or self.words[Slot.TEXT]
            if role is not Role.ASSISTANT or not (is_call or is_lost):
                return None
            return "commentary" if is_call else "final"
        chosen = "commentary" if is_call and "commentary" in channels else channels[-1]
        repeated = channels.copy()
        repeated.remove(chosen)
        for name in repeated:
            self._note(_K.REPEATED_CHANNEL, name)
        if is_call and chosen == "final":
            self._note(_K.CALL_ON_FINAL, chosen)
            return "commentary"
        return chosen


# Headers with <|message|>


def read_header(
    pieces: Sequence[Piece], role: Role | None, tools: AbstractSet[str]
) -> tuple[Header, list[Note]]:
    """Read any header; `role` is the author when the header names none (default: assistant).

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
    """Read a header; the same few come again and again."""
    notes: list[Note] = []
    if invisible := "".join(_INVISIBLE.findall("".join(text for _, text in pieces))):
        notes.append((_K.HEADER_TEXT, invisible))
        pieces = [Piece(marker, _INVISIBLE.sub("", text)) for marker, text in pieces]
    reading = _Reading(role, tools)
    header = reading.read(pieces)
    as_written = _read_as_written(pieces, role, tools)
    if as_written is not None and reading.is_meant:
        return as_written, notes
    return header, notes + (reading.notes or [(_K.HEADER_ORDER, "")])


def _read_as_written(
    pieces: Sequence[Piece], role: Role | None, tools: AbstractSet[str]
) -> Header | None:
    """Read a header that follows the format; return None for any other one."""
    channel = name = None
    words: list[str] = []
    for marker, text in pieces:
        found = _split_words(text, tools)
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
    """Take the author from the front of `words`; whatever is no role is the name of a tool."""
    if not words or words[0].startswith(("to=", CONSTRAIN_TEXT)):
        return None, None
    first = words.pop(0)
    if first in ROLES:
        # A tool is known by its name alone, so a tool named "tool" is written this way.
        return ROLES[first], first if first == Role.TOOL.value else None
    word, colon, name = first.partition(":")
    if colon and word in ROLES and word != Role.TOOL.value:
        return ROLES[word], name
    return (Role.TOOL, first) if words or first in tools else (None, None)


# Headers without <|message|>, and text without headers


class Unfinished(NamedTuple):
    """A header without ``<|message|>``: what it says, and the text that was meant as body."""

    header: Header
    body: str
    is_certain: bool
    """True if it names a known channel or a recipient, so that it surely is a header."""


class _Patterns(NamedTuple):
    """Words of a header where a body may follow without a space."""

    role: re.Pattern[str]
    channel: re.Pattern[str]
    tool: re.Pattern[str]
    recipients: re.Pattern[str]
    rest_of_call: re.Pattern[str]


_GAP = rf"[\s{INVISIBLE}]*"
_DATA_START = re.compile(r"[\[{]")
_CODE = re.compile(r"""[\](}"'=<>]""")
_NOISE = re.compile(rf"(?:\s*(?:(?:{'|'.join(CHANNELS)})\s*)?\?+)+")
_BLANK = re.compile(_GAP)
_AFTER_TOOL = re.compile(r"\s*(?:to=|[\[{]|$)")


@functools.lru_cache(maxsize=64)
def _patterns(tools: frozenset[str]) -> _Patterns:
    name = rf"[{_QUOTES}]?(?:{_name_pattern(tools)}|[\w.{INVISIBLE}-]+)[{_QUOTES}]?"
    recipient = rf"{_GAP}to={name}"
    known_type = rf'{_GAP}(?:{"|".join(CONTENT_TYPES)})(?=\s*(?:[\[{{"]|$)|\s)'
    return _Patterns(
        role=re.compile(rf"{_GAP}(?:{'|'.join(ROLES)})"),
        channel=re.compile(rf"{_GAP}(?:{'|'.join(CHANNELS)})"),
        tool=re.compile(rf"{_GAP}({name})"),
        recipients=re.compile(rf"(?:{recipient})+"),
        rest_of_call=re.compile(rf"(?:{recipient}|{known_type})*"),
    )


def split_body(pieces: Sequence[Piece], role: Role | None, tools: AbstractSet[str]) -> Unfinished:
    """Part the words of a header without ``<|message|>`` from the body, and read them.

    >>> split_body([Piece(CHANNEL, "final I cannot help.")], Role.ASSISTANT, set()).body
    'I cannot help.'
    """
    words: list[Piece] = []
    body = ""
    is_call = False
    for index, (marker, text) in enumerate(pieces):
        end, is_call = _end_of_words(marker, text, tools, is_call)
        if end:
            words.append(Piece(marker, _INVISIBLE.sub("", text[:end])))
        if not _BLANK.fullmatch(text, end):
            body = text[end:] + "".join(later for _, later in pieces[index + 1 :])
            break
    reading = _Reading(role, tools)
    header = reading.read(words)
    is_certain = bool(reading.words[Slot.CHANNEL]) or header.recipient is not None
    if not is_certain:
        header = header._replace(channel=None)
    if match := _NOISE.match(body):
        body = body[match.end() :]
    if is_call and (match := _BLANK.match(body)):
        body = body[match.end() :]
    return Unfinished(header, body.lstrip(), is_certain)


def _end_of_words(
    marker: int | None, text: str, tools: AbstractSet[str], is_call: bool
) -> tuple[int, bool]:
    """Return where the words of a header end in a piece, and whether they name a recipient."""
    patterns = _patterns(frozenset(tools))
    end = 0
    if marker is None and (match := patterns.role.match(text)):
        end = match.end()
    if match := patterns.channel.match(text, end):
        end = match.end()
    elif (
        (match := patterns.tool.match(text, end))
        and resolve_tool(match[1], tools)
        and (marker is not None or _AFTER_TOOL.match(text, match.end()))
    ):
        end, is_call = match.end(), True
    if match := patterns.recipients.match(text, end):
        end, is_call = match.end(), True
    if (is_call or marker == CONSTRAIN) and (match := patterns.rest_of_call.match(text, end)):
        end = match.end()
    data = _DATA_START.search(text, end)
    start = data.start() if data else len(text)
    before = text[end:start]
    if marker == CONSTRAIN and not text[:end].endswith(CONTENT_TYPES):
        end = start  # prose where a content type belongs: only data can follow it
    elif is_call and _type_in_garble("".join(before.split()[-1:])) and not _CODE.search(before):
        end = start
    return end, is_call


_LOST_MARKERS = re.compile(rf"assistant(?={'|'.join(CHANNELS)})")
_LOST_CHANNEL = re.compile(rf"(?:{'|'.join(CHANNELS)})(?::\s|(?=[A-Z]|\s+to=))")


def split_last_header(text: str) -> tuple[str, str]:
    """Part the last header that has lost its ``<|start|>`` from the text before it.

    >>> split_last_header("Easy.assistantcommentary to=functions.f")
    ('Easy.', 'assistantcommentary to=functions.f')
    """
    cut = max((match.start() for match in _LOST_MARKERS.finditer(text)), default=0)
    return text[:cut], text[cut:]


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
        header, body, _ = split_body([Piece(None, part)], Role.ASSISTANT, tools)
        is_call = part.lstrip().startswith("to=") and header.recipient in tools
        if is_call or _LOST_MARKERS.match(part) or _LOST_CHANNEL.match(part):
            body = body.removeprefix(":").lstrip()
        else:
            channel = default_channel if end == len(text) else "analysis"
            header, body = Header(Role.ASSISTANT, channel=channel), part
        messages.append((header, body if end == len(text) else body.rstrip()))
    return messages
