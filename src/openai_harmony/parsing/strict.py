"""What each token does in each state when the tokens must follow the format.

An error names the token and leaves the parser in the state EXPECT_START.
"""

from __future__ import annotations

from ..conversation.header import ROLES
from ..errors import TokenError
from ..tokens.special_tokens import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, RETURN, START
from ..tokens.tokenizer import token_id
from .header import HeaderError, read_header_tokens
from .state import ParserState, StreamState, TokenKind, Transitions, spelling

__all__ = ["STRICT_TRANSITIONS"]


def _open_header(parser: ParserState, _token: int) -> None:
    parser.open_header(started=True)


def _open_header_again(parser: ParserState, token: int) -> None:
    """Take a leading ``<|start|>`` even when the caller has given the role of the header."""
    if parser.given_role is None or parser.header_tokens:
        _refuse(parser, token)
    parser.given_role = parser.current_role = None
    parser.open_header(started=True)


def _collect(parser: ParserState, token: int) -> None:
    parser.header_tokens.append(token)


def _open_body(parser: ParserState, _token: int) -> None:
    try:
        header = read_header_tokens(
            tuple(parser.header_tokens), parser.tokenizer, parser.given_role, parser.tools
        )
    except UnicodeDecodeError:
        _fail(parser, "the message header is not valid UTF-8")
    except HeaderError as error:
        _fail(parser, str(error))
    else:
        parser.open_body(header)


def _add_token(parser: ParserState, token: int) -> None:
    parser.add_token(token)


def _close(parser: ParserState, _token: int) -> None:
    parser.close_message()


def _end_in_header(parser: ParserState, _token: int) -> None:
    """Accept a bare generation prompt (``<|start|>`` and a role), refuse any other header."""
    text = parser.tokenizer.decode(parser.header_tokens)
    if not (parser.started and text in ROLES):
        _fail(parser, "the tokens end inside a message header", at_end=True)
    parser.leave()


def _end_in_body(parser: ParserState, _token: int) -> None:
    parser.incomplete = True
    parser.close_message()


def _end(_machine: ParserState, _token: int) -> None:
    pass


def _refuse(parser: ParserState, token: int) -> None:
    expected = (
        "<|start|>" if parser.state is StreamState.EXPECT_START else "a header or <|message|>"
    )
    _fail(parser, f"unexpected token {spelling(token)} where {expected} belongs")


def _refuse_unknown(parser: ParserState, token: int) -> None:
    """Raise the error of `token_id`, as if the token had not come."""
    parser.received.pop()
    token_id(token)


def _fail(parser: ParserState, problem: str, *, at_end: bool = False) -> None:
    position = len(parser.received) - (0 if at_end else 1)
    state = parser.state.value
    parser.leave()
    token = None if at_end else parser.received[-1]
    raise TokenError(problem, token=token, position=position, state=state)


STRICT_TRANSITIONS: Transitions = {
    StreamState.EXPECT_START: {
        START: _open_header,
        TokenKind.TEXT: _refuse,
        TokenKind.SPECIAL: _refuse,
        TokenKind.UNKNOWN: _refuse_unknown,
        TokenKind.EOS: _end,
    },
    StreamState.HEADER: {
        START: _open_header_again,
        CHANNEL: _collect,
        CONSTRAIN: _collect,
        MESSAGE: _open_body,
        TokenKind.TEXT: _collect,
        TokenKind.SPECIAL: _refuse,
        TokenKind.UNKNOWN: _refuse_unknown,
        TokenKind.EOS: _end_in_header,
    },
    StreamState.CONTENT: {
        END: _close,
        RETURN: _close,
        CALL: _close,
        TokenKind.TEXT: _add_token,
        TokenKind.SPECIAL: _add_token,
        TokenKind.UNKNOWN: _refuse_unknown,
        TokenKind.EOS: _end_in_body,
    },
}
