"""What each token does in each state when the tokens must follow the format.

An error names the token and leaves the parser in the state EXPECT_START.
"""

from __future__ import annotations

from ..conversation.header import ROLES
from ..errors import TokenError
from ..tokens.special_tokens import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, RETURN, START
from ..tokens.tokenizer import token_id
from .header import HeaderError, read_header_tokens
from .state import Kind, Machine, Rules, StreamState, spelling

__all__ = ["STRICT_RULES"]


def _open_header(machine: Machine, _token: int) -> None:
    machine.open_header(started=True)


def _open_header_again(machine: Machine, token: int) -> None:
    """Take a leading ``<|start|>`` even when the caller has given the role of the header."""
    if machine.given_role is None or machine.header_tokens:
        _refuse(machine, token)
    machine.given_role = machine.current_role = None
    machine.open_header(started=True)


def _collect(machine: Machine, token: int) -> None:
    machine.header_tokens.append(token)


def _open_body(machine: Machine, _token: int) -> None:
    try:
        header = read_header_tokens(
            tuple(machine.header_tokens), machine.tokenizer, machine.given_role, machine.tools
        )
    except UnicodeDecodeError:
        _fail(machine, "the message header is not valid UTF-8")
    except HeaderError as error:
        _fail(machine, str(error))
    else:
        machine.open_body(header)


def _add_token(machine: Machine, token: int) -> None:
    machine.add_token(token)


def _close(machine: Machine, _token: int) -> None:
    machine.close_message()


def _end_in_header(machine: Machine, _token: int) -> None:
    """Accept a bare generation prompt (``<|start|>`` and a role), refuse any other header."""
    text = machine.tokenizer.decode(machine.header_tokens)
    if not (machine.started and text in ROLES):
        _fail(machine, "the tokens end inside a message header", at_end=True)
    machine.leave()


def _end_in_body(machine: Machine, _token: int) -> None:
    machine.incomplete = True
    machine.close_message()


def _end(_machine: Machine, _token: int) -> None:
    pass


def _refuse(machine: Machine, token: int) -> None:
    expected = (
        "<|start|>" if machine.state is StreamState.EXPECT_START else "a header or <|message|>"
    )
    _fail(machine, f"unexpected token {spelling(token)} where {expected} belongs")


def _refuse_unknown(machine: Machine, token: int) -> None:
    """Raise the error of `token_id`, as if the token had not come."""
    machine.received.pop()
    token_id(token)


def _fail(machine: Machine, problem: str, *, at_end: bool = False) -> None:
    position = len(machine.received) - (0 if at_end else 1)
    state = machine.state.value
    machine.leave()
    token = None if at_end else machine.received[-1]
    raise TokenError(problem, token=token, position=position, state=state)


STRICT_RULES: Rules = {
    StreamState.EXPECT_START: {
        START: _open_header,
        Kind.TEXT: _refuse,
        Kind.SPECIAL: _refuse,
        Kind.UNKNOWN: _refuse_unknown,
        Kind.EOS: _end,
    },
    StreamState.HEADER: {
        START: _open_header_again,
        CHANNEL: _collect,
        CONSTRAIN: _collect,
        MESSAGE: _open_body,
        Kind.TEXT: _collect,
        Kind.SPECIAL: _refuse,
        Kind.UNKNOWN: _refuse_unknown,
        Kind.EOS: _end_in_header,
    },
    StreamState.CONTENT: {
        END: _close,
        RETURN: _close,
        CALL: _close,
        Kind.TEXT: _add_token,
        Kind.SPECIAL: _add_token,
        Kind.UNKNOWN: _refuse_unknown,
        Kind.EOS: _end_in_body,
    },
}
