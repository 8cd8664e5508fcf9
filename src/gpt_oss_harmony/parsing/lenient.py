"""The transitions of lenient parsing: the step of each token in each state.

No token raises an error. ``recoveries`` lists everything that is repaired or left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from ..conversation.built_in_tools import BUILT_IN_TOOLS
from ..conversation.messages import ROLES, Header, Role
from ..tokens.special_tokens import (
    CALL,
    CHANNEL,
    CHANNEL_TEXT,
    CONSTRAIN,
    CONSTRAIN_TEXT,
    END,
    FIRST_SPECIAL,
    MESSAGE,
    RETURN,
    START,
    STOP_TOKENS,
)
from ..tokens.tokenizer import ASSISTANT
from .edits import Edit
from .header_words import (
    CHANNELS,
    LONGEST_NAME,
    MOST_WORDS,
    TYPES,
    Piece,
    find_tool,
    split_header,
    without_loops,
)
from .least_cost import Reading, read_header, read_unfinished
from .mended_json import mend_json
from .recovery import DamagedHeader, RecoveryKind
from .state import (
    NO_TOKEN,
    Action,
    OpenJson,
    ParserState,
    Phase,
    SuspendedBody,
    TokenKind,
    Transitions,
    message_of,
    spelling,
)
from .unmarked_text import split_last_header, split_plain_text

__all__ = ["LENIENT_TRANSITIONS"]

Row: TypeAlias = Mapping[int | TokenKind, Action]

_RECIPIENT = re.compile(r"\bto=([\w.-]+)")
_RECIPIENT_AT_END = re.compile(rf"{_RECIPIENT.pattern}\s*$")
_STRING = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
_LONGEST_LINE = 1000
"""Characters before a special token in code, which show whether it stands in a string."""
_LONGEST_GAP = 8
"""Tokens between the end of a message and the header of the next one."""
_MARKERS = ("start", "end", "message", "channel", "constrain", "return", "call")
_SPELLED = re.compile(rf"<\|(?:{'|'.join(_MARKERS)})\|>")
_MARKER_TEXTS = frozenset(f"<|{name}|>" for name in _MARKERS)
_SPELLED_IN_HEADER = re.compile(r"<\|(?:channel|constrain)\|>")
_HEADER_MARKER_TEXTS = frozenset({"<|channel|>", "<|constrain|>"})
_HEADER_WORDS = frozenset((*ROLES, *CHANNELS))
_FIRST_WORDS = re.compile(
    rf"\s*(?:to(?:=(?P<name>[\w.:/-]{{0,{LONGEST_NAME}}}))?\s*)?"
    rf"(?P<marker><\|constrain\|>)?\s*(?:{'|'.join(TYPES)})?\s*"
)
_LOST_CHANNEL = frozenset({Edit.CHANNEL_EMPTY, Edit.CHANNEL_LOST})
_LATER_WORDS = ("to=", "json", "code", *CHANNELS)
_ASSISTANT = Role.ASSISTANT.value
_MIDDLE_SIGNS = (",", ";", ":", ".", ")", "]", "}", "'", '"')
_SENTENCE_ENDS = (".", "!", "?", ":", "\u2026", ")", "\n")


# Any state


def _leave_out_special(parser: ParserState, token: int) -> None:
    _release_role(parser)
    parser.recover(RecoveryKind.SPECIAL_TOKEN, spelling(token))


def _leave_out_unknown(parser: ParserState, token: int) -> None:
    _release_role(parser)
    parser.recover(RecoveryKind.UNKNOWN_TOKEN, str(token))


def _dispatch(parser: ParserState, token: int) -> None:
    """Take the step of a token again, in the new state."""
    if token == NO_TOKEN:
        parser.end()
    else:
        parser.take(token)


# Between messages


def _hold(parser: ParserState, token: int) -> None:
    parser.phase = Phase.TEXT
    parser.held.append(token)


def _begin_header(parser: ParserState, token: int) -> None:
    text = _take_held(parser)
    if _respell(parser, text):
        _dispatch(parser, token)
        return
    if text:
        _leave_out_text(parser, text)
    parser.begin_header(Phase.HEADER)


def _begin_header_without_start(parser: ParserState, token: int) -> None:
    """Begin a header without ``<|start|>``; the text before it contains its role, if any."""
    held = parser.held
    text = _take_held(parser)
    if _respell(parser, text):
        _dispatch(parser, token)
        return
    parser.recover(RecoveryKind.MISSING_START, text)
    cut_header = parser.cut_header
    parser.begin_header(Phase.BARE_HEADER)
    parser.given_role = Role.ASSISTANT
    if cut_header and token != CHANNEL and not text.strip():
        # <|end|> stood between the recipient of a header and its <|constrain|> or <|message|>.
        parser.header_tokens = cut_header
        _dispatch(parser, token)
        return
    words = text.split()
    body, _ = split_last_header(text)
    if body or (words and words[-1] in _HEADER_WORDS) or any(w.startswith("to=") for w in words):
        parser.given_role = None
        parser.header_tokens = held
    elif text.endswith(tuple(ROLES)):
        role = next(name for name in ROLES if text.endswith(name))
        parser.given_role = Role.ASSISTANT if role == Role.TOOL.value else ROLES[role]
        _leave_out_text(parser, text.removesuffix(role))
    elif text:
        _leave_out_text(parser, text)
    _dispatch(parser, token)


def _resolve_text(parser: ParserState, ending: int) -> None:
    """Decide what tokens between messages were when a stop token or the input's end follows."""
    text = _take_held(parser)
    if _respell(parser, text):
        _dispatch(parser, ending)
    elif (
        not text.strip()
        or without_loops(text, parser.tools).is_header
        or (ending == NO_TOKEN and _is_header(parser, text))
    ):
        _note_nothing(parser, text, ending)
    elif parser.last_stop in (RETURN, CALL):
        parser.recover(RecoveryKind.TEXT_AFTER_STOP, text)
    elif ending == CALL and _is_rest_of_call(
        parser, ending, *(header for header, _ in split_plain_text(text, parser.tools, "final"))
    ):
        _leave_out_rest(parser, text, ending)
    elif ending == END:  # reasoning if more follows, else an answer
        parser.held = parser.tokenizer.encode_ordinary(text)
        parser.phase = Phase.ENDED_TEXT
    else:
        _add_plain_text(parser, text, "final", ending)


def _think_text(parser: ParserState, token: int) -> None:
    """Read text that ``<|end|>`` ended as reasoning: more follows."""
    _add_plain_text(parser, _take_held(parser), "analysis", END)
    _dispatch(parser, token)


def _answer_text(parser: ParserState, token: int) -> None:
    """Read text that ``<|end|>`` ended as an answer: nothing follows."""
    _add_plain_text(parser, _take_held(parser), "final", END)
    _dispatch(parser, token)


def _add_plain_text(parser: ParserState, text: str, channel: str, ending: int) -> None:
    parser.recover(RecoveryKind.NO_MARKUP, text)
    if channel == "final" and _goes_on(parser, text):
        channel = "analysis"
    messages = split_plain_text(text, parser.tools, channel)
    for index, (header, body) in enumerate(messages):
        kinds = {RecoveryKind.NO_MARKUP}
        is_ended_as_call = ending == CALL and index == len(messages) - 1
        if _is_call(header) and not is_ended_as_call:
            parser.recover(RecoveryKind.UNMARKED_CALL, header.recipient or "")
            kinds.add(RecoveryKind.UNMARKED_CALL)
        _add_whole_message(parser, _permitted(parser, header, kinds), body, ending)


def _goes_on(parser: ParserState, text: str) -> bool:
    """Whether text goes on with the sentence of the reasoning before it, which ``<|end|>`` cut."""
    last = parser.messages[-1] if parser.messages and parser.last_stop == END else None
    if last is None or last.channel != "analysis" or last.recipient is not None:
        return False
    begun = text.lstrip()[:1]
    is_middle = begun.islower() or begun in _MIDDLE_SIGNS
    return is_middle and not last.text.rstrip().endswith(_SENTENCE_ENDS)


def _note_nothing(parser: ParserState, text: str, ending: int) -> None:
    if text:
        kind = RecoveryKind.CUT_HEADER if text.strip() else RecoveryKind.STRAY_TEXT
        parser.recover(kind, text)
        parser.incomplete |= "to=" in text
    if ending != NO_TOKEN:
        parser.recover(RecoveryKind.EXTRA_STOP, spelling(ending))


def _leave_out_text(parser: ParserState, text: str) -> None:
    after = parser.last_stop in (RETURN, CALL)
    kind = RecoveryKind.TEXT_AFTER_STOP if after else RecoveryKind.STRAY_TEXT
    parser.recover(kind, text)


def _take_held(parser: ParserState) -> str:
    text = parser.tokenizer.decode(parser.held)
    parser.held = []
    parser.phase = Phase.BETWEEN
    return text


def _respell(parser: ParserState, text: str) -> bool:
    """Read markers that pending text spells as the tokens that they spell."""
    if not _SPELLED.search(text):
        return False
    parser.recover(RecoveryKind.SPELLED_MARKER, text)
    for token in parser.tokenizer.encode(text, _MARKER_TEXTS, ()):
        parser.take(token)
    return True


def _is_header(parser: ParserState, text: str) -> bool:
    """Return whether text between messages is only the start of a header."""
    if all(word in _HEADER_WORDS for word in text.split()):
        return True
    unfinished = read_unfinished([Piece(None, text)], Role.ASSISTANT, parser.tools)
    return "to=" in text and unfinished.is_certain and _ends_in_header(parser, unfinished)


# In a header


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


def _header_pieces(parser: ParserState) -> list[Piece]:
    """Split the header tokens; text before a header without ``<|start|>`` is its own message."""
    pieces = split_header(parser.header_tokens, parser.tokenizer)
    if parser.suspended is not None and parser.suspended.begun:
        return pieces  # it may be text of the body, which is not changed
    if any(_SPELLED_IN_HEADER.search(piece.text) for piece in pieces):
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
        _add_plain_text(parser, text, "analysis", END)
        parser.begin_header(Phase.BARE_HEADER)
        parser.given_role = role
        marker = tokens.index(pieces[1].marker or CHANNEL)
        parser.header_tokens = [*parser.tokenizer.encode_ordinary(words), *tokens[marker:]]
        pieces[0] = Piece(None, words)
    return pieces


def _open_body(parser: ParserState, _token: int) -> None:
    pieces = _header_pieces(parser)
    after_call = parser.last_stop == CALL and parser.suspended is None
    reading = read_header(pieces, parser.given_role, parser.tools, after_call=after_call)
    header, notes = reading.header, [*reading.notes]
    if reading.edits:
        _note_damage(parser, reading)
    if tool := _recipient_at_end(parser, header):
        header = header._replace(recipient=tool)
        notes.append((RecoveryKind.HEADER_ORDER, f"to={tool}"))
    tokens, is_first = parser.header_tokens, not (parser.suspended and parser.suspended.begun)
    _finish_suspended(parser)
    for kind, text in notes:
        parser.recover(kind, text)
    has_author = parser.phase is Phase.HEADER and Edit.ROLE_MISSING not in reading.edits
    has_channel = any(piece.marker == CHANNEL for piece in pieces)
    has_channel &= _LOST_CHANNEL.isdisjoint(reading.edits)
    is_header = has_author or has_channel
    if parser.last_stop == CALL:
        is_header = has_author and (has_channel or header.role is not Role.ASSISTANT)
    if not is_header and header.recipient is None and _after_cut_call(parser):
        header = header._replace(channel="analysis")  # it may be the rest of the call
    kinds = {kind for kind, _ in notes} | (set() if is_first else {RecoveryKind.DOUBLED_START})
    parser.open_body(_permitted(parser, header, kinds))
    parser.add_text(reading.body)
    if is_first and header.role is Role.ASSISTANT and not reading.body:
        parser.phase, parser.opening = Phase.FIRST_WORDS, tokens
        parser.expect_anything()


def _note_damage(parser: ParserState, reading: Reading) -> None:
    text = parser.tokenizer.decode(parser.header_tokens)
    position = max(len(parser.received) - 1, 0)
    parser.damaged.append(DamagedHeader(position, text, reading.cost, reading.margin))


def _is_call(header: Header) -> bool:
    addressed = header.recipient is not None and header.recipient not in ROLES
    return addressed and header.role is Role.ASSISTANT


def _permitted(parser: ParserState, header: Header, kinds: AbstractSet[RecoveryKind]) -> Header:
    """Take the recipient from a call that needed repairs which are not allowed."""
    if kinds <= parser.repairs or not _is_call(header):
        return header
    parser.recover(RecoveryKind.REFUSED_CALL, header.recipient or "")
    return header._replace(recipient=None)


def _resolve_header(parser: ParserState, ending: int) -> None:
    """End a header without ``<|message|>``: decide whether it contains a body."""
    pieces = _header_pieces(parser)
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
        _dispatch(parser, ending)
        return
    if only_text and not unfinished.is_certain and _read_answer(parser, ending):
        return
    whole = parser.tokenizer.decode(parser.header_tokens)
    if _is_rest_of_call(parser, ending, unfinished.header):
        _leave_out_rest(parser, whole, ending)
        return
    is_call = ending == CALL and unfinished.header.recipient is not None
    is_cut = ending == NO_TOKEN and _may_be_cut(parser, unfinished)
    if is_call or (not is_cut and _is_body(unfinished.body, unfinished.header)):
        parser.recover(RecoveryKind.MISSING_MESSAGE, whole)
        _note_damage(parser, unfinished)
        kinds = {RecoveryKind.MISSING_MESSAGE, *(kind for kind, _ in unfinished.notes)}
        header = _permitted(parser, unfinished.header, kinds)
        if header.channel is None and header.role is Role.ASSISTANT:
            is_json = unfinished.body.lstrip()[:1] in ("{", "[")
            if ending == END and not only_text and is_json:  # an answer if nothing follows
                parser.leave()
                parser.held = parser.tokenizer.encode_ordinary(unfinished.body)
                parser.phase = Phase.ENDED_TEXT
                return
            # What names no author behind a call may be its rest, which is never shown.
            may_be_rest = parser.phase is Phase.HEADER or parser.last_stop == CALL
            is_rest = may_be_rest and _after_cut_call(parser)
            thinks = is_rest or (ending == END and not only_text)
            header = Header(header.role, channel="analysis" if thinks else "final")
        _add_whole_message(parser, header, unfinished.body, ending)
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
    calls, was_call = _calls(parser, unfinished.header), _is_call(suspended.header)
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
    begins_word = any(word.startswith(rest) for word in _LATER_WORDS)
    if ending == NO_TOKEN and (begins_word or rest.startswith("to=")):
        return False
    if _is_rest_of_call(parser, ending):
        _leave_out_rest(parser, text, ending)
        return True
    parser.leave()
    if role is not Role.ASSISTANT:
        parser.recover(RecoveryKind.MISSING_MESSAGE, text)
        _add_whole_message(parser, Header(role), text.lstrip(), ending)
    elif ending == END:
        parser.held = parser.tokenizer.encode_ordinary(text.lstrip())
        parser.phase = Phase.ENDED_TEXT
    else:
        _add_plain_text(parser, text.lstrip(), "final", ending)
    if ending == START:
        parser.begin_header(Phase.HEADER)
    return True


def _is_rest_of_call(parser: ParserState, ending: int, *headers: Header) -> bool:
    """Whether text that ``<|call|>`` ends belongs to the call before it, which had another end."""
    is_rest = ending == CALL and _after_cut_call(parser)
    return is_rest and not any(_calls(parser, header) for header in headers)


def _after_cut_call(parser: ParserState) -> bool:
    """Whether the last message is a call that ``<|call|>`` did not end, or inside its JSON."""
    last = parser.messages[-1] if parser.messages else None
    if last is None or last.author.role is not Role.ASSISTANT:
        return False
    is_call = last.recipient is not None and last.recipient not in ROLES
    return is_call and (parser.last_stop != CALL or _is_open_json(last.text))


def _is_open_json(text: str) -> bool:
    return text.lstrip()[:1] in ("", "{", "[") and OpenJson().read(text).depth > 0


def _calls(parser: ParserState, header: Header) -> bool:
    """Whether a header calls a tool that is declared, if any is."""
    return _is_call(header) and (not parser.tools or header.recipient in parser.tools)


def _leave_out_rest(parser: ParserState, text: str, ending: int) -> None:
    parser.leave()
    parser.recover(RecoveryKind.STRAY_TEXT, text)
    parser.recover(RecoveryKind.EXTRA_STOP, spelling(ending))
    parser.last_stop = ending


def _may_be_cut(parser: ParserState, unfinished: Reading) -> bool:
    """Return whether a supposed body may be a cut-off word of the header."""
    if unfinished.is_certain:
        return _ends_in_header(parser, unfinished)
    words = unfinished.body.split()
    first = parser.tokenizer.decode(parser.header_tokens[:1])
    names_no_role = parser.phase is Phase.HEADER and first not in ROLES
    return names_no_role or len(words) < 2 or any(word.startswith("to=") for word in words)


def _ends_in_header(parser: ParserState, unfinished: Reading) -> bool:
    """Return whether a supposed body begins a word that comes later in a header."""
    rest = unfinished.body.strip()
    name = f"{unfinished.header.recipient} {rest}"
    begins_tool = any(tool.startswith(name) for tool in parser.tools)
    begins_word = any(word.startswith(rest) for word in _LATER_WORDS)
    return begins_tool or begins_word or rest.startswith("to=")


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


def _add_whole_message(parser: ParserState, header: Header, text: str, ending: int) -> None:
    """Add a message whose body was recognised only at its end."""
    parser.open_body(header)
    parser.add_text(text)
    if ending == NO_TOKEN:
        parser.incomplete = True
    _note_call(parser, ending)
    _mend(parser, ending)
    parser.last_stop = ending
    parser.close_message()


# In a body


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
    is_call = parser.header is not None and _is_call(parser.header)
    tool = find_tool(name, parser.tools) if name and is_call else None
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
        parser.phase = Phase.BODY
        parser.expect_text()
        parser.add_text(rest)
    elif name and not is_call and _names_tool(parser, name):
        parser.held = held
        _go_on_with_header(parser)  # which it is if <|call|> ends it
    else:
        _begin_body(parser, token)


def _names_tool(parser: ParserState, name: str) -> bool:
    tool = find_tool(name, parser.tools)
    return tool is not None and (not parser.tools or tool.name in parser.tools)


def _message_in_first_words(parser: ParserState, token: int) -> None:
    if parser.tokenizer.decode(parser.held).strip() in ("", "to"):
        _begin_body(parser, token)
    else:
        _go_on_with_header(parser)
        _open_body(parser, token)


def _go_on_with_header(parser: ParserState) -> None:
    """Go on with the header although ``<|message|>`` came; the body is suspended."""
    begun = [*parser.opening, *parser.tokenizer.encode_ordinary(" ")]
    held = parser.held
    parser.held = []
    parser.suspend_body()
    if parser.suspended is not None:
        parser.suspended = parser.suspended._replace(begun=len(begun))
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
    _dispatch(parser, token)


def _add_token(parser: ParserState, token: int) -> None:
    if token == ASSISTANT:  # perhaps the role of a header that lacks <|start|>
        parser.held.append(token)
        parser.phase = Phase.BODY_ROLE
        parser.expect_anything()
        return
    _release_role(parser)
    parser.add_token(token)


def _release_role(parser: ParserState) -> None:
    """Add the words that could have been the role of a header to the body."""
    if parser.phase is Phase.BODY_ROLE:
        for token in parser.held:
            parser.add_token(token)
        parser.held = []
        parser.phase = Phase.BODY
        parser.expect_text()


def _close(parser: ParserState, token: int) -> None:
    _release_role(parser)
    if parser.flush_character():
        parser.recover(RecoveryKind.INVALID_UTF8, "\ufffd")
    _note_call(parser, token)
    _mend(parser, token)
    parser.last_stop = token
    parser.close_message()


def _note_call(parser: ParserState, token: int) -> None:
    """Note a call without a recipient. The role `tool` does not name a tool.

    The parser does not guess a recipient, even if only one tool is declared: models also write
    imagined tool results this way (sgl-project/sglang#9097).
    """
    if token != CALL or parser.recipient is not None or parser.header is None:
        return
    name = parser.header.name
    is_tool = name in parser.tools or name not in (None, Role.TOOL.value)
    if parser.role is Role.TOOL and is_tool:
        parser.recover(RecoveryKind.TOOL_AS_ROLE, name or "")
        header = parser.header._replace(role=Role.ASSISTANT, name=None, recipient=name)
        parser.header = _permitted(parser, header, {RecoveryKind.TOOL_AS_ROLE})
    else:
        parser.recover(RecoveryKind.MISSING_RECIPIENT)


def _mend(parser: ParserState, ending: int) -> None:
    """Mend the arguments of a call that has ended, where that was requested."""
    header = parser.header
    if parser.mends is None or ending == NO_TOKEN or header is None or not _is_call(header):
        return
    tool = BUILT_IN_TOOLS.get(header.recipient or "")
    is_free_text = tool is not None and not tool.namespace.tools  # such as code
    if is_free_text or RecoveryKind.MENDED_ARGUMENTS not in parser.repairs:
        return
    mended = mend_json(parser.text)
    if mended is not None and parser.mends(message_of(header, mended.text)):
        parser.recover(RecoveryKind.MENDED_ARGUMENTS, parser.text)
        parser.text = mended.text


def _in_call(parser: ParserState, token: int) -> None:
    """Take a stop token, or the start of a header, in a body: in an open call, wait."""
    waits = _waits_in_call(parser)
    if token != CHANNEL and waits is Phase.OPEN_CALL:
        _release_role(parser)  # the word `assistant` is a part of the JSON
    if parser.phase is Phase.BODY and parser.holds_calls and waits is not None:
        parser.phase = waits
        parser.expect_anything()
        parser.take(token)
    else:
        _END_OF_BODY[token](parser, token)


def _waits_in_call(parser: ParserState) -> Phase | None:
    """Return the phase in which tokens wait, if the body is a call that may go on."""
    header, begun = parser.header, parser.text.lstrip()[:1]
    if header is None or not _is_call(header):
        return None
    if begun not in ("", "{", "["):
        return Phase.OPEN_CODE
    parser.json = parser.json.read(parser.text[parser.json.length :])
    return Phase.OPEN_CALL if parser.json.depth > 0 or not begun else None


def _wait_in_call(parser: ParserState, token: int) -> None:
    """Keep a token until the call's JSON is closed, or a whole header shows that it was cut."""
    parser.held.append(token)
    if token == MESSAGE and not parser.json.in_string and _names_channel(parser):
        _give_up_call(parser, NO_TOKEN)
    elif token < FIRST_SPECIAL:
        text = parser.tokenizer.decode_bytes([token]).decode("utf-8", "replace")
        if not parser.json.depth and text.lstrip()[:1] not in ("", "{", "["):
            parser.phase = Phase.OPEN_CODE
            return
        parser.json = parser.json.read(text)
        if parser.json.depth <= 0 and text.strip():
            _go_on_with_call(parser)


def _names_channel(parser: ParserState) -> bool:
    """Whether the last tokens that wait are a sound header of the assistant, up to its end."""
    return _last_header(parser, START).startswith(_SOUND_STARTS)


def _last_header(parser: ParserState, begin: int) -> str:
    """Return what stands between the last `begin` and ``<|message|>``, if it is short enough."""
    last = parser.held[-LONGEST_NAME:-1]
    if begin not in last:
        return ""
    return parser.tokenizer.decode(last[len(last) - last[::-1].index(begin) :])


def _wait_in_code(parser: ParserState, token: int) -> None:
    """Keep a token until ``<|call|>``, or until a header shows that the call has ended."""
    last = parser.held[-_LONGEST_GAP:]
    parser.held.append(token)
    stops = [at for at, one in enumerate(last) if one in (END, RETURN)]
    gap = parser.tokenizer.decode(last[stops[-1] + 1 :]).strip() if stops else None
    if token == MESSAGE:
        whole = _last_header(parser, START)
        is_header = whole.startswith(tuple(ROLES)) and whole != _ASSISTANT
        is_header |= _addresses_tool(parser, whole or _last_header(parser, CHANNEL))
    else:
        names: tuple[str, ...] = ()
        if gap == spelling(START):
            names = (*ROLES, *parser.tools, *BUILT_IN_TOOLS, "functions")
        elif gap in (CHANNEL_TEXT, _ASSISTANT + CHANNEL_TEXT):
            names = CHANNELS
        is_header = any(name.startswith(parser.tokenizer.decode([token])) for name in names)
    if is_header:
        _give_up_call(parser, NO_TOKEN)


def _addresses_tool(parser: ParserState, text: str) -> bool:
    return any(_names_tool(parser, match[1]) for match in _RECIPIENT.finditer(text))


def _end_open_code(parser: ParserState, token: int) -> None:
    """End a call with code at ``<|call|>``; what waited belongs to it unless it calls a tool."""
    if _addresses_tool(parser, parser.tokenizer.decode(parser.held)):
        parser.holds_calls = False
        _give_up_call(parser, NO_TOKEN)
        parser.holds_calls = True
        _dispatch(parser, token)
        return
    _go_on_with_call(parser, _in_string_of_code)
    _close(parser, token)


def _go_on_with_call(
    parser: ParserState, in_string: Callable[[ParserState], bool] | None = None
) -> None:
    """Add the tokens that waited to the call; special ones only where they are in a string."""
    held, parser.held = parser.held, []
    parser.phase = Phase.BODY
    parser.expect_text()
    if in_string is None:
        in_string = _in_string_of_json
        parser.json = OpenJson().read(parser.text)
    for token in held:
        if token < FIRST_SPECIAL:
            parser.add_token(token)
            continue
        parser.recover(RecoveryKind.SPECIAL_TOKEN, spelling(token))
        parser.flush_character()
        if in_string(parser):
            parser.add_text(spelling(token))


def _in_string_of_json(parser: ParserState) -> bool:
    parser.json = parser.json.read(parser.text[parser.json.length :])
    return parser.json.in_string


def _in_string_of_code(parser: ParserState) -> bool:
    line = parser.text[-_LONGEST_LINE:].rpartition("\n")[2]
    return not {"'", '"'}.isdisjoint(_STRING.sub("", line))


def _end_open_call(parser: ParserState, token: int) -> None:
    """End a call whose JSON is open; all that waited stands before its stop token."""
    _go_on_with_call(parser)
    _close(parser, token)


def _give_up_call(parser: ParserState, _token: int) -> None:
    """Read the tokens that waited as what they are: the call was cut before the first of them."""
    held, parser.held = parser.held, []
    parser.phase = Phase.BODY
    parser.expect_text()
    _END_OF_BODY[held[0]](parser, held[0])
    for token in held[1:]:
        parser.take(token)


def _end_in_open_call(parser: ParserState, token: int) -> None:
    parser.holds_calls = False  # or tokens might wait again and again
    _give_up_call(parser, token)
    _dispatch(parser, token)


def _start_in_body(parser: ParserState, token: int) -> None:
    """Begin a new message although the open one has not ended."""
    if parser.phase is Phase.BODY_ROLE:
        parser.recover(RecoveryKind.STRAY_TEXT, parser.tokenizer.decode(parser.held))
    parser.recover(RecoveryKind.MISSING_END)
    parser.last_stop = END
    parser.close_message()
    parser.begin_header(Phase.HEADER)


def _channel_in_body(parser: ParserState, token: int) -> None:
    """Suspend the body: this may be a header without ``<|end|>`` and ``<|start|>`` before it."""
    role = parser.role
    if role is Role.TOOL:  # its name is unknown here, and the model's own message follows
        role = Role.ASSISTANT
    held, parser.held = parser.held, []
    parser.suspend_body()
    parser.begin_header(Phase.HEADER_IN_BODY)
    parser.given_role = role
    parser.header_tokens = [*held, token]


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
    _dispatch(parser, ending)


def _end_in_body(parser: ParserState, _token: int) -> None:
    _release_role(parser)
    parser.incomplete = True
    parser.close_message()


_END_OF_BODY: Row = {
    START: _start_in_body,
    CHANNEL: _channel_in_body,
    **dict.fromkeys(STOP_TOKENS, _close),
}
_SOUND_STARTS = tuple(f"assistant<|channel|>{channel}" for channel in CHANNELS)
_LEFT_OUT: Row = {TokenKind.SPECIAL: _leave_out_special, TokenKind.UNKNOWN: _leave_out_unknown}
_HEADER_PARTS = (CHANNEL, CONSTRAIN, MESSAGE)

_BETWEEN: Row = {
    START: _begin_header,
    **dict.fromkeys(_HEADER_PARTS, _begin_header_without_start),
    **dict.fromkeys(STOP_TOKENS, _resolve_text),
    TokenKind.TEXT: _hold,
    TokenKind.EOS: _resolve_text,
    **_LEFT_OUT,
}
_HEADER: Row = {
    START: _begin_header_again,
    CHANNEL: _collect,
    CONSTRAIN: _collect,
    MESSAGE: _open_body,
    **dict.fromkeys(STOP_TOKENS, _resolve_header),
    TokenKind.TEXT: _collect,
    TokenKind.EOS: _resolve_header,
    **_LEFT_OUT,
}
_BODY: Row = {
    **dict.fromkeys((START, CHANNEL, END, RETURN), _in_call),
    CALL: _close,
    TokenKind.TEXT: _add_token,
    TokenKind.EOS: _end_in_body,
    **_LEFT_OUT,
}

LENIENT_TRANSITIONS: Transitions = {
    Phase.BETWEEN: _BETWEEN,
    Phase.TEXT: _BETWEEN,
    Phase.ENDED_TEXT: {
        **dict.fromkeys((START, *_HEADER_PARTS, TokenKind.TEXT), _think_text),
        **dict.fromkeys((*STOP_TOKENS, TokenKind.EOS), _answer_text),
        **_LEFT_OUT,
    },
    Phase.HEADER: _HEADER,
    Phase.BARE_HEADER: _HEADER,
    Phase.HEADER_IN_BODY: _HEADER,
    Phase.FIRST_WORDS: {
        **dict.fromkeys((START, CHANNEL, *STOP_TOKENS, TokenKind.EOS), _begin_body),
        **dict.fromkeys((CONSTRAIN, TokenKind.TEXT), _read_first_words),
        MESSAGE: _message_in_first_words,
        TokenKind.SPECIAL: _begin_body,
        TokenKind.UNKNOWN: _begin_body,
    },
    Phase.BODY: _BODY,
    Phase.BODY_ROLE: _BODY,
    Phase.OPEN_CALL: {
        **dict.fromkeys((START, *_HEADER_PARTS, END, RETURN, TokenKind.TEXT), _wait_in_call),
        CALL: _end_open_call,
        TokenKind.EOS: _end_in_open_call,
        **_LEFT_OUT,
    },
    Phase.OPEN_CODE: {
        **dict.fromkeys((START, *_HEADER_PARTS, END, RETURN, TokenKind.TEXT), _wait_in_code),
        CALL: _end_open_code,
        TokenKind.EOS: _end_in_open_call,
        **_LEFT_OUT,
    },
}
