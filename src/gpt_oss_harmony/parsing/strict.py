"""The transitions of strict parsing: the step of each token in each state.

For all tokens this is what openai-harmony 0.0.8 does: a header collects every token up to
``<|message|>``, and an error leaves the parser in the reference's state. There are two additions:
a whole prompt may be parsed with a role, and it may end in the start of the next message.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from ..conversation.header import ROLES
from ..conversation.messages import Role
from ..errors import TokenError
from ..tokens.special_tokens import (
    CALL,
    END,
    FIRST_SPECIAL,
    MESSAGE,
    RETURN,
    START,
    VOCABULARY_SIZE,
)
from .state import Action, ParserState, Phase, TokenKind, Transitions
from .strict_header import HeaderError, read_header_tokens

__all__ = ["STRICT_TRANSITIONS"]


def _begin_header(parser: ParserState, _token: int) -> None:
    parser.begin_header(Phase.HEADER)


def _refuse(parser: ParserState, token: int) -> None:
    detail = ""
    if token < VOCABULARY_SIZE:
        detail = f"found {parser.tokenizer.decode([token])!r}, expected '<|start|>'"
    _fail(parser, f"Unexpected token {token} while expecting start token {START}", detail)


def _collect(parser: ParserState, token: int) -> None:
    parser.header_tokens.append(token)


def _open_body(parser: ParserState, _token: int) -> None:
    tokens, role = tuple(parser.header_tokens), parser.given_role
    if role is not None and tokens[:1] == (START,) and len(parser.received) == len(tokens) + 1:
        with suppress(HeaderError):  # perhaps a whole prompt, whose headers contain their roles
            header = read_header_tokens(tokens[1:], parser.tokenizer, None, parser.tools)
            if header.role is not Role.TOOL:
                parser.open_body(header)
                return
    try:
        header = read_header_tokens(tokens, parser.tokenizer, role, parser.tools)
    except HeaderError as error:
        _fail(parser, str(error))
    else:
        parser.open_body(header)


def _end_in_header(parser: ParserState, _token: int) -> None:
    """Leave out the start of a next message (``<|start|>`` and a role) after a whole prompt."""
    tokens = parser.header_tokens
    is_text = all(token < FIRST_SPECIAL for token in tokens)
    is_role = is_text and parser.tokenizer.decode(tokens) in ROLES
    if not (is_role and parser.received[0] == START):
        raise TokenError(
            "Unexpected EOS while waiting for message header to complete",
            position=len(parser.received),
            state=parser.state.value,
        )
    parser.leave()


def _add_token(parser: ParserState, token: int) -> None:
    parser.add_token(token)


def _add_unknown(parser: ParserState, _token: int) -> None:
    """Add an id outside the vocabulary as bytes that are not UTF-8."""
    parser.flush_character()  # later bytes do not complete a character from before the id
    parser.add_text("\ufffd")


def _close(parser: ParserState, token: int) -> None:
    parser.last_stop = token
    parser.close_message()


def _end_in_body(parser: ParserState, _token: int) -> None:
    parser.incomplete = True
    parser.close_message()


def _end(_parser: ParserState, _token: int) -> None:
    pass


def _fail(parser: ParserState, problem: str, detail: str = "") -> None:
    """Raise an error about the last token; a given role applies to the next header."""
    # The parser leaves the message first: who catches the error can go on with the next one.
    state, role = parser.state.value, parser.given_role
    parser.leave()
    parser.given_role = parser.role = role
    position = len(parser.received) - 1
    token = parser.received[-1]
    raise TokenError(problem, token=token, position=position, state=state, detail=detail)


_IN_HEADER: Mapping[int | TokenKind, Action] = {
    MESSAGE: _open_body,
    TokenKind.TEXT: _collect,
    TokenKind.SPECIAL: _collect,
    TokenKind.UNKNOWN: _collect,
    TokenKind.EOS: _end_in_header,
}

STRICT_TRANSITIONS: Transitions = {
    Phase.BETWEEN: {
        START: _begin_header,
        TokenKind.TEXT: _refuse,
        TokenKind.SPECIAL: _refuse,
        TokenKind.UNKNOWN: _refuse,
        TokenKind.EOS: _end,
    },
    Phase.HEADER: _IN_HEADER,
    Phase.BARE_HEADER: _IN_HEADER,  # the prompt ended in its <|start|> and role
    Phase.BODY: {
        END: _close,
        RETURN: _close,
        CALL: _close,
        TokenKind.TEXT: _add_token,
        TokenKind.SPECIAL: _add_token,
        TokenKind.UNKNOWN: _add_unknown,
        TokenKind.EOS: _end_in_body,
    },
}
