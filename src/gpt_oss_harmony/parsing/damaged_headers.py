"""Damaged headers: where a header begins and ends, and what it is if ``<|message|>`` is missing.

`least_cost` reads the words of a header. A header may also stand inside a body that did not end
(HEADER_IN_BODY), or go on behind its ``<|message|>`` (FIRST_WORDS).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..conversation.content import CHANNELS
from ..conversation.messages import ROLES, Header, Role
from ..tokens.special_tokens import (
    CALL,
    CHANNEL,
    CHANNEL_TEXT,
    CONSTRAIN,
    CONSTRAIN_TEXT,
    END,
    MESSAGE,
    START,
    STOP_TOKENS,
)
from .between_messages import add_plain_text, add_whole_message, ends_in_header
from .damaged_calls import (
    after_cut_call,
    calls_tool,
    is_rest_of_call,
    leave_out_rest,
    names_tool,
    stopped_in_json,
)
from .edits import Edit
from .header_words import (
    LONGEST_NAME,
    MOST_WORDS,
    TYPES,
    Piece,
    begins_later_word,
    find_tool,
    split_header,
    without_loops,
)
from .least_cost import Reading, read_header, read_unfinished
from .recovery import DamagedHeader, RecoveryKind
from .state import (
    NO_TOKEN,
    ParserState,
    Phase,
    Row,
    SuspendedBody,
    TokenKind,
    is_call,
    spelling,
)
from .unmarked_text import split_last_header

_RECIPIENT_AT_END = re.compile(r"\bto=([\w.-]+)\s*$")
_HEADER_MARKER_TEXTS = frozenset({CHANNEL_TEXT, CONSTRAIN_TEXT})
_FIRST_WORDS = re.compile(
    rf"\s*(?:to(?:=(?P<name>[\w.:/-]{{0,{LONGEST_NAME}}}))?\s*)?"
    rf"(?P<marker><\|constrain\|>)?\s*(?:{'|'.join(TYPES)})?\s*"
)
_LOST_CHANNEL = frozenset({Edit.CHANNEL_EMPTY, Edit.CHANNEL_LOST})
_ASSISTANT = Role.ASSISTANT.value


def _collect(parser: ParserState, token: int) -> None:
    parser.header_tokens.append(token)


def _begin_header_again(parser: ParserState, token: int) -> None:
    if parser.header_tokens or parser.suspended is not None:
        _resolve_header(parser, token)
        return
    if parser.phase is Phase.HEADER:
        parser.recover(RecoveryKind.DOUBLED_START, spelling(token))
    parser.given_role = parser.role = None
    parser.begin_header(Phase.HEADER)


def _open_body(parser: ParserState, _token: int) -> None:
    pieces = _settle_header(parser)
    after_call = parser.last_stop == CALL and parser.suspended is None
    reading = read_header(pieces, parser.given_role, parser.tools, after_call=after_call)
    header, notes = reading.header, [*reading.notes]
    if reading.edits:
        _note_damage(parser, reading)
    if tool := _recipient_at_end(parser, header):
        header = header._replace(recipient=tool)
        notes.append((RecoveryKind.HEADER_ORDER, f"to={tool}"))
    # Now, because the end of the suspended body and the new body replace both.
    tokens, is_first = parser.header_tokens, not (parser.suspended and parser.suspended.begun)
    _finish_suspended(parser)  # the body before this header; its end is the earlier repair
    for kind, text in notes:
        parser.recover(kind, text)
    # Without a sure header, a body behind a cut call may be the rest of the call: not shown.
    has_author = parser.phase is Phase.HEADER and Edit.ROLE_MISSING not in reading.edits
    has_channel = any(piece.marker == CHANNEL for piece in pieces)
    has_channel &= _LOST_CHANNEL.isdisjoint(reading.edits)
    is_surely_header = has_author or has_channel
    if parser.last_stop == CALL:  # a channel alone may stand in the rest of the call's arguments
        is_sound = has_channel or header.role is not Role.ASSISTANT or not stopped_in_json(parser)
        is_surely_header = has_author and is_sound
    if not is_surely_header and header.recipient is None and after_cut_call(parser):
        header = header._replace(channel="analysis")
    parser.open_body(header)
    parser.add_text(reading.body)
    if is_first and header.role is Role.ASSISTANT and not reading.body:
        parser.phase, parser.opening = Phase.FIRST_WORDS, tokens
        parser.expect_anything()


def _note_damage(parser: ParserState, reading: Reading) -> None:
    text = parser.tokenizer.decode(parser.header_tokens)
    position = max(len(parser.received) - 1, 0)
    parser.damaged.append(DamagedHeader(position, text, reading.cost, reading.margin))


def _settle_header(parser: ParserState) -> list[Piece]:
    """Split the header tokens, after two repairs of them.

    Markers that are spelled are read as special tokens. Text before a header without ``<|start|>``
    is added as its own message.
    """
    pieces = split_header(parser.header_tokens, parser.tokenizer)
    if parser.suspended is not None and parser.suspended.begun:
        return pieces  # it may be text of the body, which is not changed
    if any(marker in piece.text for piece in pieces for marker in _HEADER_MARKER_TEXTS):
        parser.recover(RecoveryKind.SPELLED_MARKER, parser.tokenizer.decode(parser.header_tokens))
        tokens = parser.header_tokens = []
        for piece in pieces:
            tokens += [] if piece.marker is None else [piece.marker]
            tokens += parser.tokenizer.encode(piece.text, _HEADER_MARKER_TEXTS, ())
        pieces = split_header(tokens, parser.tokenizer)
    if parser.phase is Phase.HEADER or len(pieces) < 2 or pieces[0].marker is not None:
        return pieces
    text, words = split_last_header(pieces[0].text)
    if text:
        role, tokens = parser.given_role, parser.header_tokens
        add_plain_text(parser, text, "analysis", END)
        parser.begin_header(Phase.BARE_HEADER)
        parser.given_role = role
        marker = tokens.index(pieces[1].marker or CHANNEL)
        parser.header_tokens = [*parser.tokenizer.encode_ordinary(words), *tokens[marker:]]
        pieces[0] = Piece(None, words)
    return pieces


def _resolve_header(parser: ParserState, ending: int) -> None:
    """End a header without ``<|message|>``: decide whether it contains a body."""
    pieces = _settle_header(parser)
    unfinished = _read_unfinished(parser, pieces)
    if parser.suspended is not None:
        if _is_text_of_body(parser, parser.suspended, unfinished, ending):
            _resume_suspended(parser, ending)
            return
        _finish_suspended(parser)
    only_text = all(piece.marker is None for piece in pieces)
    if only_text and parser.phase is not Phase.HEADER:
        tokens = parser.header_tokens
        parser.leave()
        parser.held, parser.phase = tokens, Phase.TEXT
        parser.take_again(ending)
        return
    if only_text and not unfinished.is_certain and _read_answer(parser, ending):
        return
    whole = parser.tokenizer.decode(parser.header_tokens)
    if is_rest_of_call(parser, ending, unfinished.header):
        leave_out_rest(parser, whole, ending)
        return
    is_ended_call = ending == CALL and unfinished.header.recipient is not None
    is_cut = ending == NO_TOKEN and _may_be_cut(parser, unfinished)
    if is_ended_call or (not is_cut and _is_body(unfinished.body, unfinished.header)):
        parser.recover(RecoveryKind.MISSING_MESSAGE, whole)
        _note_damage(parser, unfinished)
        header = parser.permitted(unfinished.header, *(kind for kind, _ in unfinished.notes))
        if header.channel is None and header.role is Role.ASSISTANT:
            is_json = unfinished.body.lstrip()[:1] in ("{", "[")
            if ending == END and not only_text and is_json:  # an answer if nothing follows
                parser.leave()
                parser.held = parser.tokenizer.encode_ordinary(unfinished.body)
                parser.phase = Phase.ENDED_TEXT
                return
            # What names no author behind a call may be its rest, which is never shown.
            may_be_rest = parser.phase is Phase.HEADER or parser.last_stop == CALL
            is_rest = may_be_rest and after_cut_call(parser)
            thinks = is_rest or (ending == END and not only_text)
            header = Header(header.role, channel="analysis" if thinks else "final")
        add_whole_message(parser, header, unfinished.body, ending)
    else:
        _note_empty_header(parser, whole, ending)
        cut = parser.header_tokens if ending == END and not unfinished.body else []
        parser.leave()
        parser.cut_header = cut
    if ending == START:
        parser.begin_header(Phase.HEADER)


def _read_unfinished(parser: ParserState, pieces: Sequence[Piece]) -> Reading:
    """Read a header without ``<|message|>``; words that only a header has are no body."""
    unfinished = read_unfinished(pieces, parser.given_role, parser.tools)
    words = without_loops(" ".join(piece.text for piece in pieces), parser.tools)
    return unfinished._replace(body="", is_certain=True) if words.is_header else unfinished


def _is_text_of_body(
    parser: ParserState, suspended: SuspendedBody, unfinished: Reading, ending: int
) -> bool:
    """Whether a supposed header without ``<|message|>`` is text of the suspended body."""
    calls, was_call = calls_tool(parser, unfinished.header), is_call(suspended.header)
    if not unfinished.is_certain:
        return True
    if suspended.begun and not was_call:  # only a call shows that the header had not ended
        has_type = CONSTRAIN in parser.header_tokens[suspended.begun :]
        return not has_type and (ending != CALL or not calls)
    return was_call and ending == CALL and not calls


def _read_answer(parser: ParserState, ending: int) -> bool:
    """Read text directly behind the role, which models write when they refuse (openai/harmony#80).

    Any text is an answer but the beginning of a header's word, where the tokens may be cut.
    """
    first = parser.tokenizer.decode(parser.header_tokens[:1])
    whole = parser.tokenizer.decode(parser.header_tokens)
    role = ROLES.get(first)
    if role is None and whole.startswith(_ASSISTANT):
        role, first = Role.ASSISTANT, _ASSISTANT
    text = whole.removeprefix(first)
    if role is None or role is Role.TOOL or not text.strip():
        return False
    rest = text.strip()
    if ending == NO_TOKEN and begins_later_word(rest):
        return False
    if is_rest_of_call(parser, ending):
        leave_out_rest(parser, text, ending)
        return True
    parser.leave()
    if role is not Role.ASSISTANT:
        parser.recover(RecoveryKind.MISSING_MESSAGE, text)
        add_whole_message(parser, Header(role), text.lstrip(), ending)
    elif ending == END:
        parser.held = parser.tokenizer.encode_ordinary(text.lstrip())
        parser.phase = Phase.ENDED_TEXT
    else:
        add_plain_text(parser, text.lstrip(), "final", ending)
    if ending == START:
        parser.begin_header(Phase.HEADER)
    return True


def _may_be_cut(parser: ParserState, unfinished: Reading) -> bool:
    """Return whether a supposed body may be a cut-off word of the header."""
    if unfinished.is_certain:
        return ends_in_header(parser, unfinished)
    words = unfinished.body.split()
    first = parser.tokenizer.decode(parser.header_tokens[:1])
    names_no_role = parser.phase is Phase.HEADER and first not in ROLES
    return names_no_role or len(words) < 2 or any(word.startswith("to=") for word in words)


def _is_body(text: str, header: Header) -> bool:
    """Return whether text is a body; text without a letter is noise, except in an answer."""
    if header.channel == "final" or header.recipient is not None:
        return bool(text)
    for word in (*CHANNELS, *ROLES):
        text = text.replace(word, "")
    return any(letter.isalpha() for letter in text)


def _note_empty_header(parser: ParserState, whole: str, ending: int) -> None:
    if ending == START:
        parser.recover(RecoveryKind.DOUBLED_START, whole)
    elif ending != NO_TOKEN:
        parser.recover(RecoveryKind.CUT_HEADER, whole + spelling(ending))
    elif whole not in ROLES and (whole or parser.phase is Phase.HEADER):
        parser.recover(RecoveryKind.CUT_HEADER, whole)
        parser.incomplete = True


def _finish_suspended(parser: ParserState) -> None:
    """End the suspended body; without text and recipient it was a header that began too early."""
    if parser.suspended is None:
        return
    header, text, begun = parser.suspended
    if text or (header.recipient is not None and not begun):
        parser.recover(RecoveryKind.MISSING_END)
        parser.add_message(header, text)
    else:
        words = (header.role.value, header.name, header.channel, header.content_type)
        parser.recover(RecoveryKind.DOUBLED_START, " ".join(word for word in words if word))
    parser.suspended = None
    parser.last_stop = END


def _recipient_at_end(parser: ParserState, header: Header) -> str | None:
    """Find a declared tool at the end of the suspended body, as in ``… to=f<|channel|>``."""
    if parser.suspended is None or header.recipient is not None or header.channel == "final":
        return None
    match = _RECIPIENT_AT_END.search(parser.suspended.text[-LONGEST_NAME:])
    tool = match and find_tool(match[1], parser.tools)
    return tool.name if tool and not tool.behind and tool.name in parser.tools else None


def _resume_suspended(parser: ParserState, ending: int) -> None:
    """Resume the body: the supposed header was text of it; its markers are left out."""
    begun = parser.suspended.begun if parser.suspended else 0
    tokens = parser.header_tokens[begun:]
    parser.resume_body()
    for token in tokens:
        if token in (CHANNEL, CONSTRAIN):
            parser.recover(RecoveryKind.SPECIAL_TOKEN, spelling(token))
        else:
            parser.add_token(token)
    parser.take_again(ending)


def _read_first_words(parser: ParserState, token: int) -> None:
    """Keep words that begin a body but may belong to its header, as in ``<|message|>to=f``.

    They do if ``<|message|>`` or the arguments of a call come next.
    """
    held = [*parser.held, token]
    text = parser.tokenizer.decode(held)
    words = _FIRST_WORDS.match(text)
    assert words is not None  # it matches anything
    rest = text[words.end() :]
    name = words["name"]
    in_call = parser.header is not None and is_call(parser.header)
    tool = find_tool(name, parser.tools) if name and in_call else None
    if tool is not None and parser.header is not None and tool.name != parser.header.recipient:
        _begin_body(parser, token)  # a call that has begun is not given to another tool
        return
    if not rest and len(held) <= MOST_WORDS:
        parser.held = held
    elif rest[:1] not in ("{", "["):
        _begin_body(parser, token)
    elif words["marker"]:
        parser.held = parser.tokenizer.encode(words[0], {CONSTRAIN_TEXT}, ())
        _go_on_with_header(parser)
        _open_body(parser, MESSAGE)
        parser.add_text(rest)
    elif name and not in_call and names_tool(parser, name):
        parser.held = held
        _go_on_with_header(parser)  # which it is if <|call|> ends it
    else:
        _begin_body(parser, token)


def _message_in_first_words(parser: ParserState, token: int) -> None:
    if parser.tokenizer.decode(parser.held).strip() in ("", "to"):
        _begin_body(parser, token)
    else:
        _go_on_with_header(parser)
        _open_body(parser, token)


def _go_on_with_header(parser: ParserState) -> None:
    """Go on with the header although ``<|message|>`` came; the body is suspended."""
    # The space keeps the body's first word apart from the header's last.
    begun = [*parser.opening, *parser.tokenizer.encode_ordinary(" ")]
    held = parser.held
    parser.held = []
    parser.suspend_body(len(begun))
    parser.begin_header(Phase.HEADER)
    parser.given_role = parser.role
    parser.header_tokens = [*begun, *held]


def _begin_body(parser: ParserState, token: int) -> None:
    """Read the words that waited, and this token, as the beginning of the body."""
    held, parser.held = parser.held, []
    parser.phase = Phase.BODY
    parser.expect_text()
    for one in held:
        parser.take(one)
    parser.take_again(token)


HEADER: Row = {
    START: _begin_header_again,
    CHANNEL: _collect,
    CONSTRAIN: _collect,
    MESSAGE: _open_body,
    **dict.fromkeys(STOP_TOKENS, _resolve_header),
    TokenKind.TEXT: _collect,
    TokenKind.EOS: _resolve_header,
}
FIRST_WORDS: Row = {
    **dict.fromkeys((START, CHANNEL, *STOP_TOKENS, TokenKind.EOS), _begin_body),
    **dict.fromkeys((CONSTRAIN, TokenKind.TEXT), _read_first_words),
    MESSAGE: _message_in_first_words,
    TokenKind.SPECIAL: _begin_body,
    TokenKind.UNKNOWN: _begin_body,
}
