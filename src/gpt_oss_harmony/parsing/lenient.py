"""Lenient parsing: the step of each token in each state. No token raises an error.

Each phase of the parser (`Phase`) has a row: those of messages that are not open stand in
`between_messages`, those of headers in `damaged_headers`, those of cut or interrupted calls in
`damaged_calls`, those of bodies here. ``recoveries`` lists everything that is repaired or left out.
"""

from __future__ import annotations

from ..conversation.messages import Role
from ..tokens.special_tokens import CALL, CHANNEL, END, RETURN, START, STOP_TOKENS
from ..tokens.tokenizer import ASSISTANT
from .between_messages import BETWEEN, ENDED_TEXT
from .damaged_calls import OPEN_CALL, OPEN_CODE, mend, note_call, waits_in_call
from .damaged_headers import FIRST_WORDS, HEADER
from .recovery import RecoveryKind
from .state import ParserState, Phase, Row, TokenKind, Transitions, spelling


def _leave_out_special(parser: ParserState, token: int) -> None:
    _release_role(parser)
    parser.recover(RecoveryKind.SPECIAL_TOKEN, spelling(token))


def _leave_out_unknown(parser: ParserState, token: int) -> None:
    _release_role(parser)
    parser.recover(RecoveryKind.UNKNOWN_TOKEN, str(token))


def _add_token(parser: ParserState, token: int) -> None:
    if token == ASSISTANT:  # perhaps the role of a header that lacks <|start|>
        parser.held.append(token)
        parser.phase = Phase.BODY_ROLE
        parser.expect_anything()
        return
    _release_role(parser)
    parser.add_token(token)


def _release_role(parser: ParserState) -> None:
    if parser.phase is Phase.BODY_ROLE:
        parser.release_held()


def _close(parser: ParserState, token: int) -> None:
    _release_role(parser)
    if parser.flush_character():
        parser.recover(RecoveryKind.INVALID_UTF8, "\ufffd")
    note_call(parser, token)
    # After `note_call`, which may find that the message is a call.
    mend(parser, token)
    parser.last_stop = token
    parser.close_message()


def _end_body(parser: ParserState, token: int) -> None:
    """Take a stop token, or the start of a header, in a body: in an open call, wait."""
    waits = waits_in_call(parser)
    if waits is not None and (
        token in (END, RETURN) or (token == START and waits is Phase.OPEN_CALL)
    ):
        _release_role(parser)  # the word `assistant` is a part of the call
    if parser.phase is Phase.BODY and parser.holds_calls and waits is not None:
        parser.phase = waits
        parser.expect_anything()
        parser.take(token)
    else:
        _END_OF_BODY[token](parser, token)


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


def _end_in_body(parser: ParserState, _token: int) -> None:
    _release_role(parser)
    parser.incomplete = True
    parser.close_message()


_END_OF_BODY: Row = {
    START: _start_in_body,
    CHANNEL: _channel_in_body,
    **dict.fromkeys(STOP_TOKENS, _close),
}
_BODY: Row = {
    **dict.fromkeys((START, CHANNEL, END, RETURN), _end_body),
    CALL: _close,  # always the end of a call, even if its JSON is open
    TokenKind.TEXT: _add_token,
    TokenKind.EOS: _end_in_body,
}
_LEFT_OUT: Row = {TokenKind.SPECIAL: _leave_out_special, TokenKind.UNKNOWN: _leave_out_unknown}
_ROWS: Transitions = {
    Phase.BETWEEN: BETWEEN,
    Phase.TEXT: BETWEEN,
    Phase.ENDED_TEXT: ENDED_TEXT,
    Phase.HEADER: HEADER,
    Phase.BARE_HEADER: HEADER,
    Phase.HEADER_IN_BODY: HEADER,
    Phase.FIRST_WORDS: FIRST_WORDS,
    Phase.BODY: _BODY,
    Phase.BODY_ROLE: _BODY,
    Phase.OPEN_CALL: OPEN_CALL,
    Phase.OPEN_CODE: OPEN_CODE,
}

LENIENT_TRANSITIONS: Transitions = {phase: {**_LEFT_OUT, **row} for phase, row in _ROWS.items()}
