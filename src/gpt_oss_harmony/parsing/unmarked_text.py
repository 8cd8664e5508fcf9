"""Text that has lost its special tokens: text in, the messages that it spells out.

If no token separates the headers from the bodies, the words of the headers do.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from itertools import pairwise

from ..conversation.content import CHANNELS
from ..conversation.messages import Header, Role
from .header_words import Piece, without_loops
from .least_cost import read_unfinished

_CHANNEL = "|".join(CHANNELS)
_LOST_MARKERS = re.compile(
    rf"assistant(?={_CHANNEL})"
    # After the arguments of a call, two words of a header suffice without a role.
    rf"|(?<=[}}\]])(?:commentary)?(?:{_CHANNEL})(?=[A-Z])"
)
_LOST_CHANNEL = re.compile(
    rf"\s*(?:(?:{_CHANNEL})(?::\s|(?=[A-Z0-9\"*#{{\[\u0370-\u1fff\u3040-\uffef]|\s+(?:to=|functions\.)))"
    r"|(?:analysis|commentary)(?=[^\W_]))"  # no word begins with them, as `finally` does
)
_LOST_THOUGHT = re.compile(r"\s*(?:analysis|commentary)\b")
# The prompt has ended in this word, which models then write again.
_REPEATED_ROLE = re.compile(r"\Aassistant(?::\s*|\s+|(?=functions\.))")


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
    text = without_loops(text, tools).text
    if match := _LOST_MARKERS.search(text, 1):
        text = without_loops(text, tools, match.start()).text
    cuts = [0, *(match.start() for match in _LOST_MARKERS.finditer(text) if match.start())]
    messages: list[tuple[Header, str]] = []
    for start, end in pairwise([*cuts, len(text)]):
        part = text[start:end]
        reading = read_unfinished([Piece(None, part)], Role.ASSISTANT, tools)
        header, body = reading.header, reading.body
        written = _REPEATED_ROLE.sub("", part, count=1)
        is_call = written.lstrip().startswith(("to=", *tools)) and header.recipient in tools
        is_thought = end < len(text) and _LOST_THOUGHT.match(part)
        is_marked = start or is_thought or _LOST_MARKERS.match(part) or _LOST_CHANNEL.match(part)
        if is_call or is_marked:
            body = body.removeprefix(":").lstrip()
        else:
            channel = default_channel if end == len(text) else "analysis"
            header = Header(Role.ASSISTANT, channel=channel)
            body = written
        messages.append((header, body if end == len(text) else body.rstrip()))
    return messages
