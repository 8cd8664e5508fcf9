"""Damaged headers, read by least cost.

A damaged header is a sound one plus some damage. `Edit` lists the kinds of damage with their costs.
The reader goes through the words once. It keeps the cheapest readings so far (at most `WIDTH`), and
lets each word continue each of them in every way that it may be meant. The reading with the lowest
cost wins, and its edits are the recoveries. If two cost the same, the safer one wins: no call rather
than a call, and reasoning rather than an answer.

Costs are relative: an edit of 1 is as unlikely as two edits of 0.5. `scripts/recovery/costs.py`
checks them against public damage and against generated damage.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from itertools import islice
from typing import Any, NamedTuple

from ..conversation.header import INVISIBLE_RUN, ROLES, Header
from ..conversation.messages import Role
from ..tokens.special_tokens import CHANNEL, CONSTRAIN, CONSTRAIN_TEXT
from .header_words import (
    CHANNELS,
    KNOWN_TYPES,
    LONGEST_NAME,
    MOST_WORDS,
    QUOTES,
    TYPES,
    Piece,
    Word,
    body_words,
    find_tool,
    header_words,
    nearest_channel,
    nearest_role,
    plain_name,
    spelled_channel,
    split_words,
    type_at_end,
)
from .recovery import RecoveryKind as Kind

__all__ = ["Edit", "Note", "Reading", "read_header", "read_unfinished"]

WIDTH = 24
"""The most readings that are kept after each word."""

MOST_MARGIN = 10.0
"""The margin of a reading without a competitor."""

Note = tuple[Kind, str]
"""A repair and the repaired text."""


class EditRow(NamedTuple):
    """What an edit is recorded as (None: not by itself), its cost, and the reason for the cost."""

    kind: Kind | None
    cost: float
    reason: str


class Edit(Enum):
    """The damage that a header may have."""

    # Between words
    GLUED = EditRow(Kind.GLUED_WORDS, 0.1, "models often leave out a space")
    # The role
    ROLE_SPELLED = EditRow(Kind.UNKNOWN_ROLE, 0.4, "another case or punctuation; no tool is so named")
    ROLE_REPEATED = EditRow(Kind.REPEATED_ROLE, 0.3, "the prompt has the role already")
    ROLE_OTHER = EditRow(Kind.OTHER_ROLE, 0.8, "the prompt decides, not the model")
    ROLE_LATE = EditRow(Kind.HEADER_ORDER, 0.6, "the role comes first")
    ROLE_MISSING = EditRow(Kind.MISSING_ROLE, 0.5, "the header's other words say enough")
    ROLE_UNKNOWN = EditRow(Kind.UNKNOWN_ROLE, 1.5, "a name that is no tool cannot be called")
    # The author, if it is a tool
    TOOL_ANSWERS = EditRow(Kind.UNKNOWN_ROLE, 0.2, "a tool answers on a channel only after its call")
    TOOL_NAMED_TWICE = EditRow(Kind.REPEATED_ROLE, 0.2, "`tool` before the name says the same")
    TOOL_UNKNOWN = EditRow(Kind.UNKNOWN_ROLE, 0.8, "only a tool has a header without a channel")
    TOOL_AS_ROLE = EditRow(Kind.TOOL_AS_ROLE, 1.0, "the assistant calls a tool that is declared")
    # The channel
    CHANNEL_NEARLY = EditRow(Kind.UNKNOWN_CHANNEL, 0.6, "a channel in another case or language")
    CHANNEL_FOREIGN = EditRow(Kind.UNKNOWN_CHANNEL, 1.0, "a word in another script: never shown")
    CHANNEL_UNUSUAL = EditRow(None, 0.7, "a channel of any name is possible")
    CHANNEL_LOST = EditRow(Kind.UNKNOWN_CHANNEL, 0.9, "the channel is no word that one could mean")
    CHANNEL_EMPTY = EditRow(Kind.EMPTY_CHANNEL, 0.4, "nothing competes")
    CHANNEL_UNMARKED = EditRow(None, 0.4, "the name of a channel is rarely anything else")
    CHANNEL_REPLACED = EditRow(Kind.REPEATED_CHANNEL, 0.4, "models correct themselves")
    CHANNEL_KEPT = EditRow(Kind.REPEATED_CHANNEL, 0.7, "models seldom correct the right one")
    # The recipient
    TO_SPELLED = EditRow(Kind.TOOL_NAME, 0.3, "no other word of a header has an equals sign")
    TO_EMPTY = EditRow(Kind.MISSING_RECIPIENT, 0.6, "a name may follow")
    TO_OTHER_WORD = EditRow(Kind.GLUED_WORDS, 0.6, "no tool has the name of a channel or a type")
    TO_ASSISTANT = EditRow(Kind.HEADER_TEXT, 0.4, "only tools address the assistant")
    TOOL_RESPELLED = EditRow(Kind.TOOL_NAME, 0.3, "a declared name is rarely an accident")
    TOOL_GLUED = EditRow(Kind.GLUED_WORDS, 0.3, "a declared name before a type, without a space")
    TOOL_WITH_DIRT = EditRow(Kind.TOOL_NAME, 0.5, "a declared name before signs that no name has")
    TOOL_UNDECLARED = EditRow(None, 1.0, "the model was given other names")
    TOOL_UNMARKED = EditRow(None, 0.5, "a declared name is rarely an accident")
    TOOL_AS_CHANNEL = EditRow(Kind.TOOL_AS_CHANNEL, 0.4, "no channel has the name of a tool")
    TOOL_AS_TYPE = EditRow(Kind.TOOL_AS_TYPE, 0.4, "no type has the name of a tool")
    RECIPIENT_REPLACED = EditRow(Kind.REPEATED_RECIPIENT, 0.3, "models correct themselves")
    RECIPIENT_KEPT = EditRow(Kind.REPEATED_RECIPIENT, 0.5, "models seldom correct the right one")
    CALL_ON_FINAL = EditRow(Kind.CALL_ON_FINAL, 1.0, "a call is never shown")
    CALL_ON_ANALYSIS = EditRow(None, 0.5, "calls of built-in tools are sound there")
    # The content type
    TYPE_AS_CHANNEL = EditRow(Kind.UNKNOWN_CHANNEL, 0.6, "no channel has the name of a type")
    TYPE_UNUSUAL = EditRow(None, 0.6, "a type of any name is possible after its marker")
    TYPE_UNMARKED = EditRow(None, 0.8, "without a marker, it may be prose")
    TYPE_IN_DIRT = EditRow(Kind.HEADER_TEXT, 0.2, "foreign letters before a known type")
    # What is left out
    DROP_SIGNS = EditRow(Kind.HEADER_TEXT, 0.3, "no word is written without a letter or a digit")
    DROP_FOREIGN = EditRow(Kind.HEADER_TEXT, 0.3, "no header has a word in another script")
    DROP_PROSE = EditRow(Kind.HEADER_TEXT, 1.0, "it may be the name of something")
    DROP_TYPE = EditRow(Kind.HEADER_TEXT, 1.2, "a known type is rarely an accident")
    DROP_CHANNEL = EditRow(Kind.HEADER_TEXT, 1.5, "a known channel is rarely an accident")
    DROP_TOOL = EditRow(Kind.HEADER_TEXT, 2.0, "a declared name is rarely an accident")
    DROP_RECIPIENT = EditRow(Kind.HEADER_TEXT, 2.0, "`to=` is rarely an accident")
    # The body
    BODY = EditRow(None, 0.5, "every header without `<|message|>` needs it")
    BODY_IS_PROSE = EditRow(None, 0.3, "an answer begins with any word")
    BODY_OF_CALL_IS_PROSE = EditRow(None, 2.0, "the arguments of a call are JSON or code")
    BODY_UNNAMED = EditRow(None, 1.0, "a header has a channel or a recipient")
    BODY_OF_SIGNS = EditRow(None, 2.0, "text seldom begins with question marks")
    BODY_INSIDE_WORD = EditRow(None, 1.0, "a small letter continues the word before")
    BODY_AFTER_TYPE_MARKER = EditRow(None, 20.0, "only data follows a content type")
    BODY_HAS_HEADER_WORD = EditRow(None, 2.0, "a word of the header is rarely the first of a body")
    BODY_HAS_MARKERS = EditRow(None, 6.0, "a body has no special tokens")
    BODY_MISSING = EditRow(None, 2.0, "words that are left out are rather a body")
    BODY_BEFORE_MARKER = EditRow(Kind.MISSING_MESSAGE, 6.0, "a few words of dirt are more likely")


COST = {edit: edit.value.cost for edit in Edit}
"""The cost of each edit, in use."""


class Reading(NamedTuple):
    """What a damaged header means."""

    header: Header
    notes: tuple[Note, ...]
    edits: tuple[Edit, ...]
    cost: float
    margin: float
    """The cost of the next best header, less this one's."""
    body: str = ""
    """The body that begins inside the header."""
    is_certain: bool = True
    """Whether it names a known channel or a recipient, and therefore must be a header."""


class _Path(NamedTuple):
    """A reading of the words so far."""

    cost: float = 0.0
    role: Role | None = None
    name: str | None = None
    """The name of an author that is not a tool."""
    author: str | None = None
    """The name in the place of the role, perhaps a tool's."""
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None
    dirt: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    edits: tuple[Edit, ...] = ()

    def having(self, edit: Edit, text: str = "", **fields: Any) -> _Path:
        """Continue with an edit of a text, and with other fields."""
        kind = edit.value.kind
        notes, dirt = self.notes, self.dirt
        if kind is Kind.HEADER_TEXT:
            dirt = (*dirt, text)
        elif kind is not None:
            notes = (*notes, (kind, text))
        return self._replace(
            cost=self.cost + COST[edit],
            edits=(*self.edits, edit),
            dirt=dirt,
            notes=notes,
            **fields,
        )

    @property
    def is_empty(self) -> bool:
        """Whether no word but a role was read."""
        fields = self.channel or self.recipient or self.content_type or self.dirt
        return not fields and all(edit in _BEFORE_THE_REST for edit in self.edits)

    @property
    def has_text(self) -> bool:
        """Whether a word was left out; what follows is then rather prose too."""
        return any(
            any(map(str.isalnum, word)) and word[:3] != "to=" and word.rstrip("=:") != "to"
            for word in self.dirt
        )


_BEFORE_THE_REST = frozenset({Edit.GLUED, Edit.ROLE_SPELLED, Edit.ROLE_REPEATED, Edit.ROLE_OTHER})


class _Reader:
    """Continues readings word by word, and ends them."""

    def __init__(
        self, role: Role | None, tools: AbstractSet[str], *, after_call: bool, unfinished: bool
    ) -> None:
        self.role = role
        self.tools = tools
        self.after_call = after_call
        self.unfinished = unfinished

    def paths(self, words: Sequence[Word]) -> list[list[_Path]]:
        """Return the cheapest readings of the words before each word, and of all words."""
        steps = [[_Path()]]
        for word in words:
            found: dict[tuple[object, ...], _Path] = {}
            for path in steps[-1]:
                if word.glued and not self.unfinished:
                    path = path.having(Edit.GLUED, word.glued)
                for longer in self._continued(path, word):
                    key = (*longer[1:7], bool(longer.dirt))
                    if key not in found or longer.cost < found[key].cost:
                        found[key] = longer
            steps.append(sorted(found.values(), key=lambda path: path.cost)[:WIDTH])
        return steps

    # What a word may mean

    def _continued(self, path: _Path, word: Word) -> Iterator[_Path]:
        text = word.text
        if not text:
            if word.marker == CHANNEL:
                yield path.having(Edit.CHANNEL_EMPTY)
            elif path.content_type is None and path.recipient is not None:
                yield path._replace(content_type=CONSTRAIN_TEXT)
            else:
                yield path
            return
        yield self._dropped(path, word)
        if (bare := text.lstrip(QUOTES))[:3].casefold() == "to=":
            if not text.startswith("to="):
                path, word = path.having(Edit.TO_SPELLED, text), word._replace(text=bare)
            yield from self._addressed(path, word)
            return
        yield from self._authored(path, word)
        after_text = word.marker is None and path.has_text
        if not after_text:
            yield from self._channelled(path, word)
            yield from self._named_tool(path, word)
        yield from self._typed(path, word)

    def _dropped(self, path: _Path, word: Word) -> _Path:
        text = word.text
        after_text = word.marker is None and path.has_text
        if not after_text and text not in (*CHANNELS, *TYPES) and find_tool(text, self.tools):
            return path.having(Edit.DROP_TOOL, text)
        if word.marker == CHANNEL and text not in CHANNELS:
            is_foreign = not text.isascii() and any(map(str.isalpha, text))
            if is_foreign and path.channel is None:
                return path.having(Edit.CHANNEL_FOREIGN, text, channel="analysis")
            return path.having(Edit.CHANNEL_LOST, text)
        shown = CONSTRAIN_TEXT + text if word.marker == CONSTRAIN else text
        if text.startswith("to="):
            return path.having(Edit.DROP_RECIPIENT, shown)
        if text in CHANNELS:
            return path.having(Edit.DROP_CHANNEL, shown)
        if text in TYPES:
            return path.having(Edit.DROP_TYPE, shown)
        if not any(map(str.isalnum, text)) or (text.startswith("<|") and text.endswith("|>")):
            stands_behind = word.glued and self.unfinished and "?" not in text
            return path.having(Edit.DROP_PROSE if stands_behind else Edit.DROP_SIGNS, shown)
        return path.having(Edit.DROP_PROSE if text.isascii() else Edit.DROP_FOREIGN, shown)

    def _authored(self, path: _Path, word: Word) -> Iterator[_Path]:
        text = word.text
        role = ROLES.get(text)
        if word.marker is not None and (word.marker == CHANNEL or role is None):
            return
        known = path.role or self.role
        if role is None and (role := nearest_role(text)) is not None:
            path = path.having(Edit.ROLE_SPELLED, text)
        if role is not None:
            if known is None and path.author is None:
                late = path.having(Edit.ROLE_LATE, text)
                yield (path if path.is_empty or not late else late)._replace(role=role)
            elif path.role is not None or known is None:
                yield path.having(Edit.ROLE_REPEATED, text)
            else:
                other = Edit.ROLE_REPEATED if role is known else Edit.ROLE_OTHER
                first = path.is_empty and role is known
                yield path._replace(role=role) if first else path.having(other, text)
            return
        if not path.is_empty or path.author is not None or self._begins_prose(word):
            return
        if known is None:
            prefix, _, name = text.partition(":")
            if name and prefix in ROLES and prefix != Role.TOOL.value:
                yield path._replace(role=ROLES[prefix], name=name)
                return
        if known in (None, Role.TOOL):
            tool = find_tool(text, self.tools)
            if " " in text and tool is not None:
                yield path.having(Edit.TOOL_RESPELLED, text, author=tool.name)
            elif tool is not None or (plain_name(text) and text not in (*CHANNELS, *TYPES)):
                yield path._replace(author=text)

    def _channelled(self, path: _Path, word: Word) -> Iterator[_Path]:
        text, marker = word.text, word.marker
        channel: str | None = text if text in CHANNELS else None
        if channel is None:
            if text in ROLES or text in TYPES:
                return
            if marker != CHANNEL:
                channel = spelled_channel(text)
                if channel is None or self.unfinished:
                    return
                path = path.having(Edit.CHANNEL_NEARLY, text).having(Edit.CHANNEL_UNMARKED)
            elif (channel := nearest_channel(text)) is not None:
                path = path.having(Edit.CHANNEL_NEARLY, text)
            elif not self.unfinished and plain_name(text) and not self._begins_prose(word):
                channel, path = text, path.having(Edit.CHANNEL_UNUSUAL)
            else:
                return
        elif marker != CHANNEL:
            path = path.having(Edit.CHANNEL_UNMARKED)
        if path.channel is None:
            yield path._replace(channel=channel)
        else:
            yield path.having(Edit.CHANNEL_REPLACED, path.channel, channel=channel)
            yield path.having(Edit.CHANNEL_KEPT, channel)

    def _addressed(self, path: _Path, word: Word) -> Iterator[_Path]:
        written = word.text[3:]
        if word.marker == CHANNEL:
            path = path.having(Edit.CHANNEL_EMPTY, word.text)
        if not written:
            yield path.having(Edit.TO_EMPTY, word.text)
        elif written in self.tools and " " not in written:
            yield from self._to(path, written)
        elif written == Role.ASSISTANT.value and path.author is None and not self._is_tool(path):
            yield path.having(Edit.TO_ASSISTANT, word.text)
        elif written in ROLES:
            yield from self._to(path, written)
        elif written in CHANNELS or written in TYPES:
            path = path.having(Edit.TO_OTHER_WORD, word.text)
            if written in CHANNELS:
                yield from self._channelled(path, Word(written, CHANNEL))
            else:
                yield from self._typed(path, Word(written))
        else:
            yield from self._to_tool(path, written)

    def _is_tool(self, path: _Path) -> bool:
        return (self.role or path.role) is Role.TOOL

    def _to_tool(self, path: _Path, written: str) -> Iterator[_Path]:
        tool = find_tool(written, self.tools)
        if tool is None:
            yield from self._to(path, written)
        elif not tool.behind:
            if tool.name != written or " " in written:
                path = path.having(Edit.TOOL_RESPELLED, written)
            yield from self._to(path, tool.name)
        elif (tool.behind.isascii() and tool.behind[0].isalpha()) or tool.behind[0] == "<":
            if " " in written:
                path = path.having(Edit.TOOL_RESPELLED, written)
            path = path.having(Edit.TOOL_GLUED, written)
            for longer in self._to(path, tool.name):
                kind = next((name for name in TYPES if tool.behind.endswith(name)), None)
                marked = tool.behind.endswith(f"{CONSTRAIN_TEXT}{kind}")
                found = (CONSTRAIN_TEXT if marked else "") + kind if kind else None
                if tool.behind in CHANNELS:
                    found = tool.behind
                yield longer._replace(content_type=longer.content_type or found)
        else:
            path = path.having(Edit.TOOL_WITH_DIRT, written)
            for longer in self._to(path, tool.name):
                found = longer.content_type or type_at_end(tool.behind)
                yield longer._replace(content_type=found)

    def _to(self, path: _Path, recipient: str) -> Iterator[_Path]:
        if path.recipient is None:
            yield path._replace(recipient=recipient)
        elif path.recipient == recipient:
            yield path.having(Edit.RECIPIENT_REPLACED, recipient)
        else:
            yield path.having(Edit.RECIPIENT_REPLACED, path.recipient, recipient=recipient)
            yield path.having(Edit.RECIPIENT_KEPT, recipient)

    def _named_tool(self, path: _Path, word: Word) -> Iterator[_Path]:
        text = word.text
        if text in CHANNELS or text in TYPES or (tool := find_tool(text, self.tools)) is None:
            return
        if word.marker == CHANNEL:
            path = path.having(Edit.TOOL_AS_CHANNEL, text)
        elif word.marker == CONSTRAIN:
            path = path.having(Edit.TOOL_AS_TYPE, text)
        elif (path.role or self.role) is None and path.is_empty:
            return  # it stands in the role's place
        else:
            path = path.having(Edit.TOOL_UNMARKED)
        if " " in text:
            path = path.having(Edit.TOOL_RESPELLED, text)
        yield from self._to(path, tool.name)

    def _typed(self, path: _Path, word: Word) -> Iterator[_Path]:
        text, marker = word.text, word.marker
        if text in CHANNELS or text in ROLES:
            return
        content_type = text
        if marker == CONSTRAIN:
            content_type = CONSTRAIN_TEXT + text
        if marker == CHANNEL:
            if text not in TYPES:
                return
            path = path.having(Edit.TYPE_AS_CHANNEL, text)
        elif text not in TYPES:
            in_dirt = type_at_end(text)
            if in_dirt is not None and path.recipient is not None:
                content_type, path = in_dirt, path.having(Edit.TYPE_IN_DIRT, text)
            elif not plain_name(text) or self._begins_prose(word) or find_tool(text, self.tools) is not None:
                return
            elif marker == CONSTRAIN:
                path = path.having(Edit.TYPE_UNUSUAL)
            elif path.dirt or self.unfinished or (self.role or path.role) is None:
                return
            else:
                path = path.having(Edit.TYPE_UNMARKED)
        if path.content_type is None or (content_type != text and marker is None):
            yield path._replace(content_type=content_type)
        elif path.content_type not in KNOWN_TYPES:
            yield path.having(Edit.DROP_SIGNS, path.content_type, content_type=content_type)
        elif content_type not in KNOWN_TYPES:
            yield path.having(Edit.DROP_SIGNS, content_type)

    def _begins_prose(self, word: Word) -> bool:
        """Whether an ordinary word follows; a name has only types and recipients behind it."""
        following = word.following
        return not (following in ("", *TYPES) or following.startswith("to="))

    # The end of a header

    def ended(self, path: _Path) -> Iterator[tuple[_Path, Header]]:
        """Yield the headers that the words so far may be."""
        for whole in self._with_author(path):
            yield self._with_channel(whole)

    def _with_author(self, path: _Path) -> Iterator[_Path]:
        role, author, recipient = self.role or path.role, path.author, path.recipient
        tool = find_tool(author, self.tools) if author else None
        name = tool.name if tool else author
        to_tool = recipient is not None and recipient not in ROLES
        if role is Role.TOOL:
            if not to_tool or self.role is Role.TOOL or not self._is_callable(recipient):
                if name is not None:
                    path = path.having(Edit.TOOL_NAMED_TWICE, role.value)
                yield path._replace(role=role, name=name or role.value)
                return
            path = path.having(Edit.TOOL_AS_ROLE, role.value, role=Role.ASSISTANT)
            if author is not None:
                path = path.having(Edit.DROP_PROSE, author)
            yield path
        elif author is None:
            path = path if role else path.having(Edit.ROLE_MISSING)
            yield path._replace(role=role or Role.ASSISTANT)
        elif recipient in ROLES or (recipient is None and path.channel is None):
            if recipient is None and not (tool and author in self.tools):
                path = path.having(Edit.TOOL_UNKNOWN, author)
            yield path._replace(role=Role.TOOL, name=name)
        else:
            assistant = path._replace(role=Role.ASSISTANT)
            if to_tool:
                yield assistant.having(Edit.DROP_PROSE, author)
                return
            yield assistant.having(Edit.ROLE_UNKNOWN, author)
            if tool is not None:
                yield assistant.having(Edit.TOOL_AS_ROLE, author, recipient=name)
                if self.after_call:
                    answer = path._replace(role=Role.TOOL, name=name)
                    yield answer.having(Edit.TOOL_ANSWERS, author)

    def _is_callable(self, recipient: str | None) -> bool:
        return recipient is not None and find_tool(recipient, self.tools) is not None

    def _with_channel(self, path: _Path) -> tuple[_Path, Header]:
        recipient, channel = path.recipient, path.channel
        is_call = path.role is Role.ASSISTANT and recipient is not None and recipient not in ROLES
        if is_call and self.tools and recipient not in self.tools:
            path = path.having(Edit.TOOL_UNDECLARED)
        if channel is None and path.role is Role.ASSISTANT:
            lost = {Kind.EMPTY_CHANNEL, Kind.UNKNOWN_CHANNEL}
            if is_call:
                channel = "commentary"
            elif path.dirt or any(kind in lost for kind, _ in path.notes):
                channel = "final"
        elif is_call and channel == "final":
            path, channel = path.having(Edit.CALL_ON_FINAL, channel), "commentary"
        elif is_call and channel == "analysis":
            path = path.having(Edit.CALL_ON_ANALYSIS)
        role = path.role or Role.ASSISTANT
        return path, Header(role, path.name, channel, recipient, path.content_type)


class _End(NamedTuple):
    """A way to read the whole header; `body` is the index of the word with which a body begins."""

    path: _Path
    header: Header
    body: int | None = None

    @property
    def rank(self) -> tuple[object, ...]:
        """The cost, then what is safer: no call, and no answer."""
        is_call = self.header.role is Role.ASSISTANT and self.header.recipient is not None
        return round(self.path.cost, 6), is_call, self.header.channel == "final", self.body or 0


def _best(ends: list[_End]) -> tuple[Reading, int | None]:
    best = min(ends, key=lambda end: end.rank)
    path, header, body = best
    others = (end.path.cost for end in ends if end[1:] != best[1:])
    margin = round(min(others, default=path.cost + MOST_MARGIN) - path.cost, 6)
    notes = path.notes
    if path.dirt:
        notes = (*notes, (Kind.HEADER_TEXT, " ".join(path.dirt)))
    is_certain = path.channel in CHANNELS or header.recipient is not None
    reading = Reading(header, notes, path.edits, round(path.cost, 6), margin, "", is_certain)
    return reading, body


# Headers with <|message|>


def read_header(
    pieces: Sequence[Piece],
    role: Role | None,
    tools: AbstractSet[str],
    *,
    after_call: bool = False,
) -> Reading:
    """Read any header; `role` is the author if the header names none (default: assistant).

    A sound header has no edits. With `after_call`, a tool has just been called and may answer.

    >>> reading = read_header(
    ...     [Piece(CHANNEL, "commentary"), Piece(CONSTRAIN, "json to=f")], None, {"functions.f"}
    ... )
    >>> reading.header.recipient, reading.header.content_type
    ('functions.f', '<|constrain|>json')
    >>> [kind.value for kind, _ in reading.notes]
    ['tool-name', 'missing-role']
    """
    key = (tuple(pieces), role, frozenset(tools), after_call)
    if sum(len(text) for _, text in pieces) > LONGEST_NAME:
        return _read_header.__wrapped__(*key)
    return _read_header(*key)


@functools.lru_cache(maxsize=1024)
def _read_header(
    pieces: tuple[Piece, ...], role: Role | None, tools: frozenset[str], after_call: bool
) -> Reading:
    """Read a header; cached, because the same few headers occur again and again."""
    notes: tuple[Note, ...] = ()
    if invisible := "".join(INVISIBLE_RUN.findall("".join(text for _, text in pieces))):
        notes = ((Kind.HEADER_TEXT, invisible),)
        pieces = tuple(Piece(marker, INVISIBLE_RUN.sub("", text)) for marker, text in pieces)
    sound = _read_sound(pieces, role, tools, after_call=after_call)
    if sound is not None:
        return Reading(sound, notes, (), 0.0, 0.0)
    words = header_words(pieces, tools)
    reader = _Reader(role, tools, after_call=after_call, unfinished=False)
    last = reader.paths(words[:MOST_WORDS])[-1]
    if rest := words[MOST_WORDS:]:
        last = [path.having(Edit.DROP_PROSE, " ".join(word.text for word in rest)) for path in last]
    reading, _ = _best([_End(*whole) for path in last for whole in reader.ended(path)])
    if reading.cost > COST[Edit.BODY_BEFORE_MARKER]:
        begun = read_unfinished(pieces, role, tools, after_call=after_call)
        cost = begun.cost + COST[Edit.BODY_BEFORE_MARKER]
        if begun.body and begun.is_certain and cost < reading.cost:
            edits = (*begun.edits, Edit.BODY_BEFORE_MARKER)
            notes = (*notes, *begun.notes, (Kind.MISSING_MESSAGE, begun.body))
            return begun._replace(notes=notes, edits=edits, cost=cost, margin=reading.cost - cost)
    notes += reading.notes or ((Kind.HEADER_ORDER, ""),)
    return reading._replace(notes=notes)


def _read_sound(
    pieces: Sequence[Piece], role: Role | None, tools: AbstractSet[str], *, after_call: bool
) -> Header | None:
    """Read a header that follows the format and names only what exists; None for any other."""
    channel = name = None
    words: list[str] = []
    for marker, text in pieces:
        found = split_words(text, tools)
        if marker == CHANNEL:
            if channel is not None or not found or text[0].isspace():
                return None
            channel = found.pop(0)
            if channel not in CHANNELS and not _is_free_name(channel, tools):
                return None
        elif marker == CONSTRAIN:
            found[:1] = [CONSTRAIN_TEXT + "".join(found[:1])]
        words += found
    if role is not None and words[:1] == [role.value]:
        del words[0]
    elif role is None:
        if not words or words[0].startswith(("to=", CONSTRAIN_TEXT)):
            return None
        author = words.pop(0)
        answers = words[:1] and words[0][3:] in ROLES and words[0].startswith("to=")
        prefix, _, suffix = author.partition(":")
        if author == Role.TOOL.value:
            role, name = Role.TOOL, author  # a tool's name may follow, which is one word too many
            if words and not words[0].startswith("to=") and words[0] not in KNOWN_TYPES:
                return None
        elif author in ROLES:
            role = ROLES[author]
        elif suffix and prefix in ROLES and prefix != Role.TOOL.value:
            role, name = ROLES[prefix], suffix
        elif " " not in author and (
            (answers
            and (author in tools or _is_free_name(author, tools) or _names_itself(author, tools)))
            or (author in tools and (channel is None or (after_call and not words)))
        ):
            role, name = Role.TOOL, author
        else:
            return None
    recipient = None
    if words and (words[0].startswith("to=") or words[0] in tools):
        recipient = words.pop(0).removeprefix("to=")
        if not (recipient in ROLES or _names_itself(recipient, tools)) or " " in recipient:
            return None
        if role is Role.TOOL and name == Role.TOOL.value and recipient not in ROLES:
            return None
    content_type = words.pop(0) if words else None
    if content_type is not None:
        bare = content_type.removeprefix(CONSTRAIN_TEXT)
        if bare and bare not in TYPES and not _is_free_name(bare, tools):
            return None
    return None if words or role is None else Header(role, name, channel, recipient, content_type)


def _names_itself(recipient: str, tools: AbstractSet[str]) -> bool:
    """Whether a recipient is a declared tool, or a name that means nothing else."""
    if recipient in tools:
        return True
    tool = find_tool(recipient, tools)
    if tool is not None:
        return tool.name == recipient
    return bool(recipient) and recipient not in CHANNELS and recipient not in TYPES


def _is_free_name(word: str, tools: AbstractSet[str]) -> bool:
    """Whether a word is a name that means nothing else in a header."""
    known = word in ROLES or word in CHANNELS or word in TYPES or nearest_role(word)
    return (
        plain_name(word)
        and not known
        and nearest_channel(word) is None
        and find_tool(word, tools) is None
    )


# Headers without <|message|>

def read_unfinished(
    pieces: Sequence[Piece],
    role: Role | None,
    tools: AbstractSet[str],
    *,
    after_call: bool = False,
) -> Reading:
    """Read a header without ``<|message|>``, and find the place where its body begins.

    >>> read_unfinished([Piece(CHANNEL, "final I cannot help.")], Role.ASSISTANT, set()).body
    'I cannot help.'
    """
    words = [*islice(body_words(pieces, tools), MOST_WORDS + 1)]
    reader = _Reader(role, tools, after_call=after_call, unfinished=True)
    steps = reader.paths(words[:MOST_WORDS])
    found: list[_End] = []
    for index, paths in enumerate(steps[: len(words)]):
        for path in paths:
            with_body = _with_body(path, words[index], pieces)
            found += [_End(*whole, index) for whole in reader.ended(with_body)]
    if len(words) <= MOST_WORDS and not (words and words[-1].text == "{"):
        for path in steps[-1]:
            if path.dirt:
                path = path.having(Edit.BODY_MISSING)
            found += [_End(*whole) for whole in reader.ended(path)]
    reading, start = _best(found)
    if start is not None:
        word = words[start]
        later = "".join(text for _, text in pieces[word.piece + 1 :])
        body = pieces[word.piece].text[word.start :] + later
        reading = reading._replace(body=body.lstrip())
    if not reading.is_certain:
        reading = reading._replace(header=reading.header._replace(channel=None))
    return reading


def _with_body(path: _Path, word: Word, pieces: Sequence[Piece]) -> _Path:
    """Let the body begin at a word."""
    before, path = path, path.having(Edit.BODY)
    if path.channel is None and path.recipient is None:
        path = path.having(Edit.BODY_UNNAMED)
    for _ in pieces[word.piece + 1 :]:
        path = path.having(Edit.BODY_HAS_MARKERS)
    text = word.text
    if text == "{":
        return path
    is_typed = path.content_type is not None and path.content_type.endswith(TYPES)
    if pieces[word.piece].marker == CONSTRAIN and not is_typed:
        path = path.having(Edit.BODY_AFTER_TYPE_MARKER)
    signs = not any(map(str.isalnum, text))
    belongs_to_header = (
        text.startswith("to=")
        or (signs and word.following.startswith("to="))
        or (text in CHANNELS and (path.channel is None or word.glued or word.marker == CHANNEL))
        or (text in ROLES and before.is_empty)
    )
    if belongs_to_header:
        path = path.having(Edit.BODY_HAS_HEADER_WORD)
    if path.recipient is not None and not (signs and word.glued):
        path = path.having(Edit.BODY_OF_CALL_IS_PROSE)
    else:
        path = path.having(Edit.BODY_IS_PROSE)
    if text.strip("?") == "":
        path = path.having(Edit.BODY_OF_SIGNS)
    if word.glued and text[:1].islower():
        path = path.having(Edit.BODY_INSIDE_WORD)
    return path
