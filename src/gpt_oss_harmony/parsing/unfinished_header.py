"""Headers that lack ``<|message|>``, and text that has lost its special tokens.

If no token separates the header from the body, the words of the header do.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import NamedTuple

from ..conversation.header import INVISIBLE, INVISIBLE_RUN, ROLES, Header
from ..conversation.messages import Role
from ..tokens.special_tokens import CONSTRAIN
from .damaged_header import HeaderReading, resolve_tool
from .header_words import (
    CHANNELS,
    CONTENT_TYPES,
    QUOTES,
    Piece,
    Slot,
    name_pattern,
    type_in_garble,
)

__all__ = ["Unfinished", "split_body", "split_last_header", "split_plain_text"]


class Unfinished(NamedTuple):
    """A header without ``<|message|>``: its fields, and the text of its body."""

    header: Header
    body: str
    is_certain: bool
    """True if it names a known channel or a recipient and therefore must be a header."""


class _Patterns(NamedTuple):
    """Patterns for words of a header that a body may follow without a space."""

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
    name = rf"[{QUOTES}]?(?:{name_pattern(tools)}|[\w.{INVISIBLE}-]+)[{QUOTES}]?"
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
    """Split a header without ``<|message|>`` from its body, and read the header.

    >>> from gpt_oss_harmony.tokens.special_tokens import CHANNEL
    >>> split_body([Piece(CHANNEL, "final I cannot help.")], Role.ASSISTANT, set()).body
    'I cannot help.'
    """
    words: list[Piece] = []
    body = ""
    is_call = False
    for index, (marker, text) in enumerate(pieces):
        end, is_call = _end_of_words(marker, text, tools, is_call)
        if end:
            words.append(Piece(marker, INVISIBLE_RUN.sub("", text[:end])))
        if not _BLANK.fullmatch(text, end):
            body = text[end:] + "".join(later for _, later in pieces[index + 1 :])
            break
    reading = HeaderReading(role, tools)
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
    """Return the end of the header's words in a piece, and whether they name a recipient."""
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
        end = start  # prose in place of a content type, which only data can follow
    elif is_call and type_in_garble("".join(before.split()[-1:])) and not _CODE.search(before):
        end = start
    return end, is_call


_LOST_MARKERS = re.compile(rf"assistant(?={'|'.join(CHANNELS)})")
_LOST_CHANNEL = re.compile(rf"(?:{'|'.join(CHANNELS)})(?::\s|(?=[A-Z]|\s+to=))")


def split_last_header(text: str) -> tuple[str, str]:
    """Split the last header without ``<|start|>`` from the text before it.

    >>> split_last_header("Easy.assistantcommentary to=functions.f")
    ('Easy.', 'assistantcommentary to=functions.f')
    """
    cut = max((match.start() for match in _LOST_MARKERS.finditer(text)), default=0)
    return text[:cut], text[cut:]


def split_plain_text(
    text: str, tools: AbstractSet[str], default_channel: str
) -> list[tuple[Header, str]]:
    """Split text that has lost its special tokens at the words of headers.

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
