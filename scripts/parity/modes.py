"""Compare the two modes of our parser: lenient mode changes no sound completion.

A completion is sound where its tokens follow the format, its headers have the words that the models
write, in their order, answers of tools go to the assistant, and ``<|call|>`` ends only calls.
Lenient mode reads it as strict mode does, without a note; also where tools are declared, and the
recipients are among them.
"""

from __future__ import annotations

import re
from typing import Any

from cases import CHANNELS, ENCODING, EOS, ROLES, TOOLS, Case

from gpt_oss_harmony import RecoveryKind, Role, StreamableParser
from gpt_oss_harmony.tokens.special_tokens import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    FIRST_SPECIAL,
    MESSAGE,
    RETURN,
    START,
)

__all__ = ["compare_modes"]

LETTERS = {START: "s", CHANNEL: "h", CONSTRAIN: "h", MESSAGE: "m", CALL: "c", END: "e", RETURN: "e"}
SHAPE = re.compile(r"(s?)([th]+|)m(t*)([ce]|$)")
"""A message, where a letter stands for each token, and t for a token of text."""

_CHANNEL = r"<\|channel\|>(?:" + "|".join(CHANNELS) + ")"
_TO = r" to=((?:functions|browser|container)\.\w+|python|bash|assistant|all)"
_WORD = "(?:json|code|text|response|x)"
_TYPE = rf" ?<\|constrain\|>{_WORD}"
# The only word behind a channel, without to=, is a content type for us and a recipient for the
# reference: the divergence `content-type`.
SOUND_HEADER = re.compile(
    "(" + "|".join(map(re.escape, [*ROLES[:4], *TOOLS])) + ")?"
    rf"(?:{_TO}(?:{_CHANNEL})?(?:{_TYPE}| {_WORD})?"
    rf"|{_CHANNEL}{_TO}(?:{_TYPE}| {_WORD})?"
    rf"|{_CHANNEL}(?:{_TYPE})?)?"
)


def compare_modes(case: Case, strict_answer: Any) -> list[str | None]:
    """Return what lenient mode changes of a sound completion, once for each set of tools.

    None stands for no change; the list is empty where the completion is not sound.
    """
    recipients = sound_recipients(case) if case["kind"] == "parse" and case["tokens"] else None
    if recipients is None:
        return []
    role = Role(case["role"]) if case["role"] else None
    found: list[str | None] = []
    for tools in ((), TOOLS) if recipients <= {*TOOLS, "assistant", "all"} else ((),):
        parser = StreamableParser(ENCODING, role, strict=False, tools=tools)
        parser.process_many(case["tokens"])
        messages = [message.to_dict() for message in parser.process_eos().messages]
        # A cut character is replaced in strict mode, too.
        notes = [one for one in parser.recoveries if one.kind is not RecoveryKind.INVALID_UTF8]
        same = messages == strict_answer and not notes
        found.append(None if same else f"with tools {tools}: {messages}, noted {notes}")
    return found


def sound_recipients(case: Case) -> set[str] | None:
    """Return the recipients in the headers of a sound completion; None if it is not sound."""
    tokens, recipients = case["tokens"], set()
    shape = "".join(map(letter, tokens))
    at = 0
    while at < len(shape):
        message = SHAPE.match(shape, at)
        begins_inside = at == 0 and case["role"] is not None
        if message is None or bool(message[1]) == begins_inside:
            return None
        text = ENCODING.decode(tokens[message.start(2) : message.end(2)])
        header = SOUND_HEADER.fullmatch(text)
        spells_marker = text.count("<|") != message[2].count("h")
        if header is None or spells_marker or (header[1] is None) != begins_inside:
            return None
        to = {word for word in header.groups()[1:] if word}
        if header[1] in TOOLS and to != {"assistant"}:
            return None
        if message[4] == "c" and (not to or header[1] not in (None, "assistant")):
            return None
        recipients |= to
        at = message.end()
    return recipients


def letter(token: Any) -> str:
    if token == EOS or type(token) is not int:
        return "?"
    return "t" if 0 <= token < FIRST_SPECIAL else LETTERS.get(token, "?")
