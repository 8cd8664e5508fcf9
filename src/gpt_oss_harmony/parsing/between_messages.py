"""Text between messages: the words of a header, a message that lost its header, or left out.

The text waits (in TEXT) until the next special token or the end of the tokens decides what it is.
"""

from __future__ import annotations

import re

from ..conversation.content import CHANNELS
from ..conversation.messages import ROLES, Header, Role
from ..tokens.special_tokens import (
    CALL,
    CONSTRAIN,
    END,
    HEADER_PARTS,
    MESSAGE,
    RETURN,
    SPECIAL_TEXTS,
    START,
    STOP_TOKENS,
)
from .damaged_calls import is_rest_of_call, leave_out_rest, mend, note_call
from .header_words import Piece, begins_later_word, without_loops
from .least_cost import Reading, read_unfinished
from .recovery import RecoveryKind
from .state import NO_TOKEN, ParserState, Phase, Row, TokenKind, is_call, spelling
from .unmarked_text import split_last_header, split_plain_text

_MARKER_TEXTS = frozenset(SPECIAL_TEXTS[token] for token in (START, *HEADER_PARTS, *STOP_TOKENS))
_SPELLED = re.compile("|".join(map(re.escape, _MARKER_TEXTS)))
_HEADER_WORDS = frozenset((*ROLES, *CHANNELS))
_MIDDLE_SIGNS = (",", ";", ":", ".", ")", "]", "}", "'", '"')
_SENTENCE_ENDS = (".", "!", "?", ":", "\u2026", ")", "\n")


def _hold(parser: ParserState, token: int) -> None:
    parser.phase = Phase.TEXT
    parser.held.append(token)


def _begin_header(parser: ParserState, token: int) -> None:
    text = _take_held(parser)
    if _respell(parser, text):
        parser.take_again(token)
        return
    if text:
        _leave_out_text(parser, text)
    parser.begin_header(Phase.HEADER)


def _begin_header_without_start(parser: ParserState, token: int) -> None:
    """Begin a header without ``<|start|>``; the text before it contains its role, if any."""
    held = parser.held
    text = _take_held(parser)
    if _respell(parser, text):
        parser.take_again(token)
        return
    parser.recover(RecoveryKind.MISSING_START, text)
    cut_header = parser.cut_header
    parser.begin_header(Phase.BARE_HEADER)
    parser.given_role = Role.ASSISTANT
    is_next = token == MESSAGE or (token == CONSTRAIN and CONSTRAIN not in cut_header)
    if cut_header and is_next and not text.strip():
        # <|end|> stood between the recipient of a header and its <|constrain|> or <|message|>. The
        # former comes once: a model in circles would have the header read again and again.
        parser.header_tokens = cut_header
        parser.take_again(token)
        return
    words = text.split()
    body, _ = split_last_header(text)
    if body or (words and words[-1] in _HEADER_WORDS) or any(w.startswith("to=") for w in words):
        parser.given_role = None
        parser.header_tokens = held
    elif text.endswith(tuple(ROLES)):
        role = next(name for name in ROLES if text.endswith(name))
        # `tool` names no tool that could answer, so the assistant speaks.
        parser.given_role = Role.ASSISTANT if role == Role.TOOL.value else ROLES[role]
        _leave_out_text(parser, text.removesuffix(role))
    elif text:
        _leave_out_text(parser, text)
    parser.take_again(token)


def _resolve_text(parser: ParserState, ending: int) -> None:
    """Decide what tokens between messages were when a stop token or the input's end follows."""
    text = _take_held(parser)
    if _respell(parser, text):
        parser.take_again(ending)
    elif (
        not text.strip()
        or without_loops(text, parser.tools).is_header
        or (ending == NO_TOKEN and _is_header(parser, text))
    ):
        if text:
            kind = RecoveryKind.CUT_HEADER if text.strip() else RecoveryKind.STRAY_TEXT
            parser.recover(kind, text)
            parser.incomplete |= "to=" in text
        if ending != NO_TOKEN:
            parser.recover(RecoveryKind.EXTRA_STOP, spelling(ending))
    elif parser.last_stop in (RETURN, CALL):
        parser.recover(RecoveryKind.TEXT_AFTER_STOP, text)
    elif ending == CALL and is_rest_of_call(
        parser, ending, *(header for header, _ in split_plain_text(text, parser.tools, "final"))
    ):
        leave_out_rest(parser, text, ending)
    elif ending == END:  # reasoning if more follows, else an answer
        parser.held = parser.tokenizer.encode_ordinary(text)
        parser.phase = Phase.ENDED_TEXT
    else:
        add_plain_text(parser, text, "final", ending)


def _think_text(parser: ParserState, token: int) -> None:
    """Read text that ``<|end|>`` ended as reasoning: more follows."""
    add_plain_text(parser, _take_held(parser), "analysis", END)
    parser.take_again(token)


def _answer_text(parser: ParserState, token: int) -> None:
    """Read text that ``<|end|>`` ended as an answer: nothing follows."""
    add_plain_text(parser, _take_held(parser), "final", END)
    parser.take_again(token)


def add_plain_text(parser: ParserState, text: str, channel: str, ending: int) -> None:
    """Add the messages that text without special tokens spells; the channel is for other text."""
    parser.recover(RecoveryKind.NO_MARKUP, text)
    if channel == "final" and _goes_on(parser, text):
        channel = "analysis"
    messages = split_plain_text(text, parser.tools, channel)
    for index, (header, body) in enumerate(messages):
        parser.refuses |= RecoveryKind.NO_MARKUP not in parser.repairs  # of each of them
        is_ended_as_call = ending == CALL and index == len(messages) - 1
        if is_call(header) and not is_ended_as_call:
            parser.recover(RecoveryKind.UNMARKED_CALL, header.recipient or "")
        add_whole_message(parser, header, body, ending)


def add_whole_message(parser: ParserState, header: Header, text: str, ending: int) -> None:
    """Add a message whose body was recognised only at its end."""
    parser.open_body(header)
    parser.add_text(text)
    if ending == NO_TOKEN:
        parser.incomplete = True
    note_call(parser, ending)
    # After `note_call`, which may find that the message is a call.
    mend(parser, ending)
    parser.last_stop = ending
    parser.close_message()


def _goes_on(parser: ParserState, text: str) -> bool:
    """Whether text goes on with the sentence of the reasoning before it, which ``<|end|>`` cut."""
    last = parser.messages[-1] if parser.messages and parser.last_stop == END else None
    if last is None or last.channel != "analysis" or last.recipient is not None:
        return False
    begun = text.lstrip()[:1]
    is_middle = begun.islower() or begun in _MIDDLE_SIGNS
    return is_middle and not last.text.rstrip().endswith(_SENTENCE_ENDS)


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
    return "to=" in text and unfinished.is_certain and ends_in_header(parser, unfinished)


def ends_in_header(parser: ParserState, unfinished: Reading) -> bool:
    """Return whether a supposed body begins a word that comes later in a header."""
    rest = unfinished.body.strip()
    name = f"{unfinished.header.recipient} {rest}"  # the name of a tool may contain a space
    begins_tool = any(tool.startswith(name) for tool in parser.tools)
    return begins_tool or begins_later_word(rest)


BETWEEN: Row = {
    START: _begin_header,
    **dict.fromkeys(HEADER_PARTS, _begin_header_without_start),
    **dict.fromkeys(STOP_TOKENS, _resolve_text),
    TokenKind.TEXT: _hold,
    TokenKind.EOS: _resolve_text,
}
ENDED_TEXT: Row = {
    **dict.fromkeys((START, *HEADER_PARTS, TokenKind.TEXT), _think_text),
    **dict.fromkeys((*STOP_TOKENS, TokenKind.EOS), _answer_text),
}
