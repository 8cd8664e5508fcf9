"""Damaged headers, read by least cost.

A damaged header is a sound one plus some damage. `edits.Edit` lists the kinds of damage with their
costs. The reader goes through the words once. It keeps the cheapest readings so far (at most
`WIDTH`), and lets each word continue each of them in every way that it may be meant. The reading
with the lowest cost wins, and its edits are the recoveries. If two cost the same, the safer one
wins: no call rather than a call, and reasoning rather than an answer.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from ..conversation.content import CHANNELS
from ..conversation.messages import INVISIBLE_RUN, ROLES, Header, Role
from ..tokens.special_tokens import CHANNEL, CONSTRAIN, CONSTRAIN_TEXT
from .edits import COST, Edit
from .header_words import (
    KNOWN_TYPES,
    LONGEST_NAME,
    MOST_WORDS,
    QUOTES,
    TYPES,
    NamedTool,
    Piece,
    Word,
    answers_assistant,
    body_words,
    find_tool,
    header_words,
    is_dirt,
    nearest_channel,
    nearest_role,
    plain_name,
    without_loops,
)
from .recovery import RecoveryKind as Kind
from .sound_header import read_sound

WIDTH = 24
"""The most readings that are kept after each word; without a limit, each word may double them. Of
3,000 turns from `scripts/recovery/damage.py`, all are read alike with 4 and with 1,000."""

MOST_MARGIN = 10.0
"""The margin of a reading without a competitor."""

Note = tuple[Kind, str]
"""A repair and the repaired text."""


class Reading(NamedTuple):
    """The meaning of a damaged header, and how sure it is."""

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
    after_prose: bool = False
    """Whether a word was left out; what follows is then rather prose, too."""
    made: tuple[tuple[Edit, str], ...] = ()
    """The edits so far, each with the text that it changed."""

    def having(self, edit: Edit, text: str = "", **fields: Any) -> _Path:
        """Continue with an edit of a text, and with other fields."""
        return self._replace(cost=self.cost + COST[edit], made=(*self.made, (edit, text)), **fields)

    def filled(self, field: str, value: str) -> Iterator[_Path]:
        """Continue with a field; if it was read before, with either of the two values."""
        old = getattr(self, field)
        fields: dict[str, Any] = {field: value}
        if old is None:
            yield self._replace(**fields)
            return
        replaced, kept = _TWICE[field]
        yield self.having(replaced, old, **fields)
        yield self.having(kept, value)

    @property
    def meaning(self) -> tuple[object, ...]:
        """What the words so far say, whatever it cost."""
        return (
            self.role,
            self.name,
            self.author,
            self.channel,
            self.recipient,
            self.content_type,
            self.after_prose,
        )

    @property
    def is_author_only(self) -> bool:
        """Whether nothing was read but words in the place of the role."""
        return all(edit in _BEFORE_THE_REST for edit, _ in self.made) and not (
            self.channel or self.recipient or self.content_type
        )

    @property
    def notes(self) -> tuple[Note, ...]:
        """The edits as they are recorded: what was left out comes last, together."""
        noted = [(edit.value.kind, text) for edit, text in self.made if edit.value.kind]
        kept = tuple(note for note in noted if note[0] is not Kind.HEADER_TEXT)
        dirt = [text for kind, text in noted if kind is Kind.HEADER_TEXT]
        return (*kept, (Kind.HEADER_TEXT, " ".join(dirt))) if dirt else kept


_DATA = re.compile(r"[\[{]")
_BEFORE_THE_REST = frozenset({Edit.GLUED, Edit.ROLE_SPELLED, Edit.ROLE_REPEATED, Edit.ROLE_OTHER})
_LOSES_CHANNEL = frozenset(
    edit
    for edit in Edit
    if edit.value.kind in (Kind.EMPTY_CHANNEL, Kind.UNKNOWN_CHANNEL, Kind.HEADER_TEXT)
)
_KNOWN = frozenset(("", *CHANNELS, *TYPES, *ROLES))
_TWICE = {
    "channel": (Edit.CHANNEL_REPLACED, Edit.CHANNEL_KEPT),
    "recipient": (Edit.RECIPIENT_REPLACED, Edit.RECIPIENT_KEPT),
}


def _addresses(word: str) -> bool:
    return word.lstrip(QUOTES)[:3].casefold() == "to="


class _Reader:
    """Continues readings word by word, and ends them."""

    def __init__(
        self, role: Role | None, tools: AbstractSet[str], *, after_call: bool, unfinished: bool
    ) -> None:
        self.role = role
        self.tools = tools
        self.after_call = after_call
        self.unfinished = unfinished
        self._known: dict[str, NamedTool | None] = {}  # a word is looked up for each reading

    def _named(self, word: str) -> NamedTool | None:
        """Find the tool that a word names."""
        if word not in self._known:
            self._known[word] = find_tool(word, self.tools)
        return self._known[word]

    def paths(self, words: Sequence[Word]) -> list[list[_Path]]:
        """Return the cheapest readings of the words before each word, and of all words."""
        steps = [[_Path()]]
        for word in words:
            found: dict[tuple[object, ...], _Path] = {}
            for path in steps[-1]:
                if word.run is not None:
                    path = path.having(Edit.GLUED, word.run)
                for longer in self._continued(path, word):
                    # Of two readings that differ only in their edits, the dearer one cannot win.
                    key = longer.meaning
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
                # Some renderers write no type behind it in calls; elsewhere it says nothing.
                yield path._replace(content_type=CONSTRAIN_TEXT)
            else:
                yield path
            return
        yield self._dropped(path, word)
        if _addresses(text):
            if not text.startswith("to="):
                path = path.having(Edit.TO_SPELLED, text)
            yield from self._addressed(path, text.lstrip(QUOTES)[3:], text)
            return
        if text[:3].casefold() == "to:" and (tool := self._named(text[3:])) is not None:
            yield from path.having(Edit.TO_SPELLED, text).filled("recipient", tool.name)
            return
        yield from self._authored(path, word)
        # Prose may contain `final` or the name of a tool, but no special token stands before them
        # there.
        if word.marker is not None or not path.after_prose:
            yield from self._channelled(path, word)
            yield from self._named_tool(path, word)
        yield from self._typed(path, word)

    def _dropped(self, path: _Path, word: Word) -> _Path:
        text, marker = word.text, word.marker
        names_tool = self._named(text) is not None
        if marker == CHANNEL and text not in CHANNELS and not names_tool:
            is_foreign = not text.isascii() and any(map(str.isalpha, text))
            if is_foreign and path.channel is None:
                return path.having(Edit.CHANNEL_FOREIGN, text, channel="analysis")
            return path.having(Edit.CHANNEL_LOST, text)
        shown = CONSTRAIN_TEXT + text if marker == CONSTRAIN else text
        if names_tool or text in (*CHANNELS, *TYPES) or _addresses(text):
            return path.having(Edit.DROP_NAME, shown, after_prose=True)
        if is_dirt(text):
            return path.having(Edit.DROP_DIRT, shown)
        return path.having(Edit.DROP_WORD, shown, after_prose=True)

    def _authored(self, path: _Path, word: Word) -> Iterator[_Path]:
        """Read a word as a role, or in the role's place as a name."""
        text = word.text
        if word.marker is not None:
            return
        known = path.role or self.role
        role = ROLES.get(text)
        if role is None and (role := nearest_role(text)) is not None:
            path = path.having(Edit.ROLE_SPELLED, text)
        if role is None:
            may_be_name = path.is_author_only and path.author is None and known in (None, Role.TOOL)
            if may_be_name and not self._begins_prose(word):
                yield from self._named_author(path, text)
        elif known is None and path.author is None:
            path = path if path.is_author_only else path.having(Edit.ROLE_LATE, text)
            yield path._replace(role=role)
        elif path.role is None and role is not known and known is not None:
            yield path.having(Edit.ROLE_OTHER, text)
        elif path.role is None and path.is_author_only:
            yield path._replace(role=role)
        else:
            yield path.having(Edit.ROLE_REPEATED, text)

    def _named_author(self, path: _Path, text: str) -> Iterator[_Path]:
        tool = self._named(text)
        prefix, _, name = text.partition(":")
        if name and prefix in ROLES and prefix != Role.TOOL.value and self.role is None:
            yield path._replace(role=ROLES[prefix], name=name)
        elif " " in text and tool is not None:
            yield path.having(Edit.TOOL_RESPELLED, text, author=tool.name)
        elif tool is not None or (plain_name(text) and text not in (*CHANNELS, *TYPES)):
            yield path._replace(author=text)

    def _channelled(self, path: _Path, word: Word) -> Iterator[_Path]:
        text, is_marked = word.text, word.marker == CHANNEL
        channel: str | None = text
        if text not in CHANNELS:
            if text in ROLES or text in TYPES or (self.unfinished and not is_marked):
                return
            channel = nearest_channel(text)
            if channel is not None:
                path = path.having(Edit.CHANNEL_NEARLY, text)
            elif is_marked and not self.unfinished and plain_name(text):
                if self._begins_prose(word):
                    return
                channel, path = text, path.having(Edit.CHANNEL_UNUSUAL)
            else:
                return
        if not is_marked:
            path = path.having(Edit.CHANNEL_UNMARKED)
        yield from path.filled("channel", channel or text)

    def _addressed(self, path: _Path, written: str, whole: str) -> Iterator[_Path]:
        """Read the name behind ``to=``."""
        by_tool = (self.role or path.role) is Role.TOOL or path.author is not None
        assistant = Role.ASSISTANT.value
        if written.startswith("to="):
            path = path.having(Edit.TO_REPEATED, whole)
            while written.startswith("to="):
                written = written[3:]
        if not written:
            yield path.having(Edit.TO_EMPTY, whole)
        elif by_tool and written != assistant and answers_assistant(written, self.tools):
            yield from path.having(Edit.ROLE_SPELLED, written).filled("recipient", assistant)
        elif written == assistant and not by_tool and written not in self.tools:
            yield path.having(Edit.DROP_DIRT, whole)  # only tools address the assistant
        elif written in ROLES or (written in self.tools and " " not in written):
            yield from path.filled("recipient", written)
        elif written in CHANNELS or written in TYPES:
            path = path.having(Edit.TO_OTHER_WORD, whole)
            if written in CHANNELS:
                yield from path.filled("channel", written)
            else:
                yield from self._typed(path, Word(written))
        else:
            yield from self._to_tool(path, written)

    def _to_tool(self, path: _Path, written: str) -> Iterator[_Path]:
        tool = self._named(written)
        if tool is None:
            yield from path.filled("recipient", written)
            return
        if " " in written or (not tool.behind and tool.name != written):
            path = path.having(Edit.TOOL_RESPELLED, written)
        if tool.behind:
            glued = tool.behind.isascii() and (tool.behind[0].isalpha() or tool.behind[0] == "<")
            path = path.having(Edit.TOOL_GLUED if glued else Edit.TOOL_WITH_DIRT, written)
        kinds = (*KNOWN_TYPES, *CHANNELS)
        # What ends in `<|constrain|>json` also ends in `json`.
        kind = max((kind for kind in kinds if tool.behind.endswith(kind)), key=len, default=None)
        for longer in path.filled("recipient", tool.name):
            yield longer._replace(content_type=longer.content_type or kind)

    def _named_tool(self, path: _Path, word: Word) -> Iterator[_Path]:
        text = word.text
        if text in CHANNELS or text in TYPES or (tool := self._named(text)) is None:
            return
        if self.unfinished and word.marker is None and tool.behind:
            return  # prose may contain browser.open(id=0)
        if word.marker == CHANNEL:
            path = path.having(Edit.TOOL_AS_CHANNEL, text)
        elif word.marker == CONSTRAIN:
            path = path.having(Edit.TOOL_AS_TYPE, text)
        elif (path.role or self.role) is None and path.is_author_only:
            return  # it stands in the role's place
        else:
            path = path.having(Edit.TOOL_UNMARKED)
        if " " in text:
            path = path.having(Edit.TOOL_RESPELLED, text)
        yield from path.filled("recipient", tool.name)

    def _typed(self, path: _Path, word: Word) -> Iterator[_Path]:
        text, marker = word.text, word.marker
        shown = CONSTRAIN_TEXT + text if marker == CONSTRAIN else text
        if text in TYPES:
            if marker == CHANNEL:
                path = path.having(Edit.TYPE_AS_CHANNEL, text)
        elif marker == CHANNEL or text in CHANNELS or text in ROLES:
            return
        elif path.recipient is not None and not text.isascii() and text.endswith(TYPES):
            kind = next(name for name in TYPES if text.endswith(name))
            yield path.having(Edit.TYPE_IN_DIRT, text, content_type=kind)
            return
        elif marker == CONSTRAIN and plain_name(text) and not self._begins_prose(word):
            if self._named(text) or nearest_channel(text):
                return
            path = path.having(Edit.TYPE_UNUSUAL)
        else:
            return
        if path.content_type is None:
            yield path._replace(content_type=shown)
        elif path.content_type.removeprefix(CONSTRAIN_TEXT) == text:
            yield path
        elif path.content_type not in KNOWN_TYPES:
            yield path.having(Edit.DROP_DIRT, path.content_type, content_type=shown)

    def _begins_prose(self, word: Word) -> bool:
        """Whether an ordinary word follows; a name has only types and recipients behind it."""
        following = word.following
        return not (following in ("", "{", *TYPES) or following.startswith("to="))

    # The end of a header

    def ended(self, path: _Path) -> Iterator[tuple[_Path, Header]]:
        """Yield the headers that the words so far may be."""
        for whole in self._with_author(path):
            yield self._with_channel(whole)

    def _with_author(self, path: _Path) -> Iterator[_Path]:
        """Decide who wrote the message: only a tool's recipient is a role."""
        role, author, recipient = self.role or path.role, path.author, path.recipient
        by_assistant = path._replace(role=Role.ASSISTANT)
        if role is Role.TOOL:
            yield self._by_tool(path)
            return
        if author is None:
            yield path._replace(role=role) if role else by_assistant.having(Edit.ROLE_MISSING)
            return
        if recipient is not None and recipient not in ROLES:
            yield by_assistant.having(Edit.DROP_WORD, author)
            return
        tool = self._named(author)
        answer = path._replace(role=Role.TOOL, name=tool.name if tool else author)
        if recipient is not None or (path.channel is None and author in self.tools):
            yield answer
        elif path.channel is None:
            yield answer.having(Edit.TOOL_UNKNOWN, author)
        else:
            yield by_assistant.having(Edit.ROLE_UNKNOWN, author)
            if tool is not None:
                yield by_assistant.having(Edit.TOOL_AS_ROLE, author, recipient=tool.name)
                if self.after_call:
                    yield answer.having(Edit.TOOL_ANSWERS, author)

    def _by_tool(self, path: _Path) -> _Path:
        role, author, recipient = Role.TOOL, path.author, path.recipient
        is_call = recipient not in (None, *ROLES) and self._named(recipient or "")
        if self.role is not role and is_call:
            path = path.having(Edit.TOOL_AS_ROLE, role.value, role=Role.ASSISTANT)
            return path if author is None else path.having(Edit.DROP_WORD, author)
        if author is None:
            return path._replace(role=role, name=role.value)
        tool = self._named(author)
        name = tool.name if tool else author
        return path.having(Edit.TOOL_NAMED_TWICE, role.value, role=role, name=name)

    def _with_channel(self, path: _Path) -> tuple[_Path, Header]:
        recipient, channel = path.recipient, path.channel
        is_call = path.role is Role.ASSISTANT and recipient not in (None, *ROLES)
        if is_call and self.tools and recipient not in self.tools:
            path = path.having(Edit.TOOL_UNDECLARED)
        if channel is None and path.role is Role.ASSISTANT:
            if is_call:
                channel = "commentary"
            elif any(edit in _LOSES_CHANNEL for edit, _ in path.made):
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
        """The cost, then what is safer: no recipient, and no answer."""
        # Rounded, because sums of the same costs in another order differ in the last digit.
        header = self.header
        is_addressed = header.role is Role.ASSISTANT and header.recipient is not None
        return round(self.path.cost, 6), is_addressed, header.channel == "final", self.body or 0


def _best(ends: list[_End]) -> tuple[Reading, int | None]:
    best = min(ends, key=lambda end: end.rank)
    path, header, body = best
    # Other edits that lead to the same header and body are no competitors.
    others = (end.path.cost for end in ends if (end.header, end.body) != (header, body))
    margin = round(min(others, default=path.cost + MOST_MARGIN) - path.cost, 6)
    edits = tuple(edit for edit, _ in path.made)
    # Of the path: the header may have its channel only by default.
    is_certain = path.channel in CHANNELS or header.recipient is not None
    reading = Reading(header, path.notes, edits, round(path.cost, 6), margin, "", is_certain)
    return reading, body


def _first_and_last_uses(
    words: Iterable[Word], tools: AbstractSet[str], *, most: int, only_known: bool
) -> list[Word]:
    """Return the first and the last use of each word, and at most `most` words.

    Models may repeat a part of a header without end. Recipients that are no tools count as one.
    With `only_known`, words that may belong to a body count as often as they stand there.
    """
    kept: dict[int, Word] = {}
    keys: dict[str, str | None] = {}
    last: dict[str, int | None] = {}  # None for the first time
    for index, word in enumerate(words):
        text = word.text
        if text not in keys:
            # A tool's name without a period may be a word of the body.
            is_known = text in _KNOWN or ("." in text and text in tools)
            is_known |= not any(map(str.isalnum, text))
            keys[text] = text if is_known or not only_known else None
            if _addresses(text):
                tool = find_tool(text.lstrip(QUOTES)[3:], tools)
                keys[text] = f"to={tool.name}" if tool and tool.name in tools else "to="
        if (key := keys[text]) is not None:
            if (before := last.get(key)) is not None:
                del kept[before]
            last[key] = index if key in last else None
        kept[index] = word
        if len(kept) == most:
            break
    return [*kept.values()]


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
        # Not cached, so that the cache stays small.
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
    sound = read_sound(pieces, role, tools, after_call=after_call)
    if sound is not None:
        return Reading(sound, notes, (), 0.0, MOST_MARGIN)
    uses = header_words(pieces, tools)
    words = _first_and_last_uses(uses, tools, most=sys.maxsize, only_known=False)
    reader = _Reader(role, tools, after_call=after_call, unfinished=False)
    last = reader.paths(words[:MOST_WORDS])[-1]
    if rest := words[MOST_WORDS:]:
        prose = " ".join(word.text for word in rest)
        last = [path.having(Edit.DROP_WORD, prose) for path in last]
    reading, _ = _best([_End(*whole) for path in last for whole in reader.ended(path)])
    # The other reading costs at least this much, so below that it cannot win.
    if reading.cost > COST[Edit.BODY_BEFORE_MARKER]:
        begun = read_unfinished(pieces, role, tools, after_call=after_call)
        cost = begun.cost + COST[Edit.BODY_BEFORE_MARKER]
        is_body = begun.body and not without_loops(begun.body, tools).is_header
        if is_body and begun.is_certain and cost < reading.cost:
            edits = (*begun.edits, Edit.BODY_BEFORE_MARKER)
            notes = (*notes, *begun.notes, (Kind.MISSING_MESSAGE, begun.body))
            margin = round(reading.cost - cost, 6)
            return begun._replace(notes=notes, edits=edits, cost=cost, margin=margin)
    # Some edits have no kind; no damaged header is without a record.
    notes += reading.notes or ((Kind.HEADER_ORDER, ""),)
    return reading._replace(notes=notes)


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
    headers = {index for index in range(len(pieces)) if _is_header(pieces, index, tools)}
    pieces = [Piece(marker, without_loops(text, tools).text) for marker, text in pieces]
    # One word more than are read shows whether the header goes on.
    uses = body_words(pieces, tools)
    words = _first_and_last_uses(uses, tools, most=MOST_WORDS + 1, only_known=True)
    reader = _Reader(role, tools, after_call=after_call, unfinished=True)
    steps = reader.paths(words[:MOST_WORDS])
    found: list[_End] = []
    for index, paths in enumerate(steps[: len(words)]):
        for path in paths:
            word = words[index]
            if word.text != "{" and word.piece in headers:
                continue
            with_body = _with_body(path, word, pieces)
            found += [_End(*whole, index) for whole in reader.ended(with_body)]
    if len(words) <= MOST_WORDS or not found:
        only_text = all(piece.marker is None for piece in pieces)
        for path in steps[-1]:
            kinds = {edit.value.kind for edit, _ in path.made}
            # A tool's name alone, as in ``analysisbrowser.open``, is no call.
            is_named = only_text and any(edit is Edit.TOOL_UNMARKED for edit, _ in path.made)
            if Kind.HEADER_TEXT in kinds or is_named:
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


def _is_header(pieces: Sequence[Piece], index: int, tools: AbstractSet[str]) -> bool:
    """Whether a piece has only words of a header before its data: no body begins at them."""
    text = pieces[index].text
    read = without_loops(_DATA.split(text, maxsplit=1)[0], tools)
    if index < len(pieces) - 1:
        return read.is_words
    return read.is_header and (len(pieces) > 1 or "to=" in text or bool(_DATA.search(text)))


def _with_body(path: _Path, word: Word, pieces: Sequence[Piece]) -> _Path:
    """Let the body begin at a word."""
    before, path = path, path.having(Edit.BODY)
    if path.channel is None and path.recipient is None:
        path = path.having(Edit.BODY_UNNAMED)
    for _ in pieces[word.piece + 1 : word.piece + 4]:  # three decide; there may be thousands
        path = path.having(Edit.BODY_HAS_MARKERS)
    text = word.text
    if text == "{":
        return path
    if pieces[word.piece].marker == CONSTRAIN and path.content_type is None:
        path = path.having(Edit.BODY_HAS_MARKERS)
    signs = not any(map(str.isalnum, text))
    begins_oddly = (
        text.startswith("to=")
        or (signs and word.following.startswith("to="))
        or (text in CHANNELS and (path.channel is None or word.is_in_run or word.marker == CHANNEL))
        or (text == path.channel and word.following.startswith("to="))
        or (text in ROLES and (before.is_author_only or word.following in ("{", *CHANNELS)))
        or (text in TYPES and word.following == "{")
        or text.strip("?") == ""
    )
    if begins_oddly:
        path = path.having(Edit.BODY_BEGINS_ODDLY)
    if word.is_in_run and text[:1].islower():
        path = path.having(Edit.BODY_INSIDE_WORD)
    if path.recipient is not None and not (signs and word.is_in_run):
        path = path.having(Edit.BODY_OF_CALL_IS_PROSE)
    return path
