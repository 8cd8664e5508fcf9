"""What each token does in each state when the parser has to make sense of anything.

Nothing here raises an error. Whatever is repaired or left out is noted in ``recoveries``.
"""

from __future__ import annotations

import re

from ..conversation.header import ROLES, Header
from ..conversation.messages import Role
from ..tokens.special_tokens import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    MESSAGE,
    RETURN,
    START,
    STOP_TOKENS,
)
from ..tokens.tokenizer import ASSISTANT
from .damaged_header import (
    CHANNELS,
    Unfinished,
    recover_header,
    split_plain_text,
    split_unfinished,
)
from .header import split_header, split_words
from .recovery import RecoveryKind
from .state import NO_TOKEN, Kind, Machine, Rules, StreamState, spelling

__all__ = ["LENIENT_RULES"]

_MARKERS = ("start", "end", "message", "channel", "constrain", "return", "call")
_SPELLED = re.compile(rf"<\|(?:{'|'.join(_MARKERS)})\|>")
_MARKER_TEXTS = frozenset(f"<|{name}|>" for name in _MARKERS)
_HEADER_WORDS = frozenset((*ROLES, *CHANNELS))
_LATER_WORDS = ("to=", "json", "code", *CHANNELS)


# Any state


def _leave_out_special(machine: Machine, token: int) -> None:
    _release_held(machine)
    machine.recover(RecoveryKind.SPECIAL_TOKEN, spelling(token))


def _leave_out_unknown(machine: Machine, token: int) -> None:
    _release_held(machine)
    machine.recover(RecoveryKind.UNKNOWN_TOKEN, str(token))


def _dispatch(machine: Machine, token: int) -> None:
    """Take the step of a token again, in the state that has come about meanwhile."""
    if token == NO_TOKEN:
        machine.end()
    else:
        machine.take(token)


# Between messages


def _keep_stray(machine: Machine, token: int) -> None:
    if machine.stray_ended:
        _settle_ended(machine, "analysis")
    machine.stray.append(token)


def _open_header(machine: Machine, token: int) -> None:
    if machine.stray_ended:
        _settle_ended(machine, "analysis")
    text = _take_stray(machine)
    if _respell(machine, text):
        _dispatch(machine, token)
        return
    if text:
        _leave_out_text(machine, text)
    machine.open_header(started=True)


def _open_header_without_start(machine: Machine, token: int) -> None:
    """A header begins without ``<|start|>``; stray text before it holds its role, if any."""
    if machine.stray_ended:
        _settle_ended(machine, "analysis")
    stray = machine.stray
    text = _take_stray(machine)
    if _respell(machine, text):
        _dispatch(machine, token)
        return
    machine.recover(RecoveryKind.MISSING_START, text)
    machine.open_header(started=False)
    machine.given_role = Role.ASSISTANT
    words = split_words(text)
    if words and (words[-1] in _HEADER_WORDS or any(word.startswith("to=") for word in words)):
        machine.given_role = None
        machine.header_tokens = stray
    elif text.endswith(tuple(ROLES)):
        role = next(name for name in ROLES if text.endswith(name))
        machine.given_role = Role.ASSISTANT if role == Role.TOOL.value else ROLES[role]
        _leave_out_text(machine, text.removesuffix(role))
    elif text:
        _leave_out_text(machine, text)
    _dispatch(machine, token)


def _settle_stray(machine: Machine, ending: int) -> None:
    """Tokens between messages end in a stop token or at the end: decide what they were."""
    if machine.stray_ended:
        _settle_ended(machine, "final")
    text = _take_stray(machine)
    if _respell(machine, text):
        _dispatch(machine, ending)
    elif not text.strip() or (ending == NO_TOKEN and _is_header_words(text)):
        _note_nothing(machine, text, ending)
    elif machine.last_stop in (RETURN, CALL):
        machine.recover(RecoveryKind.TEXT_AFTER_STOP, text)
    elif ending == END:  # reasoning when more follows, an answer when it is the last
        machine.stray = machine.tokenizer.encode_ordinary(text)
        machine.stray_ended = True
    else:
        _add_plain_text(machine, text, "final", ending)


def _settle_ended(machine: Machine, channel: str) -> None:
    machine.stray_ended = False
    _add_plain_text(machine, _take_stray(machine), channel, END)


def _add_plain_text(machine: Machine, text: str, channel: str, ending: int) -> None:
    machine.recover(RecoveryKind.NO_MARKUP, text)
    for header, body in split_plain_text(text, machine.tools, channel):
        _add_whole_message(machine, header, body, ending)


def _note_nothing(machine: Machine, text: str, ending: int) -> None:
    if text:
        kind = RecoveryKind.CUT_HEADER if text.strip() else RecoveryKind.STRAY_TEXT
        machine.recover(kind, text)
    if ending != NO_TOKEN:
        machine.recover(RecoveryKind.EXTRA_STOP, spelling(ending))


def _leave_out_text(machine: Machine, text: str) -> None:
    after = machine.last_stop in (RETURN, CALL)
    kind = RecoveryKind.TEXT_AFTER_STOP if after else RecoveryKind.STRAY_TEXT
    machine.recover(kind, text)


def _take_stray(machine: Machine) -> str:
    text = machine.tokenizer.decode(machine.stray)
    machine.stray = []
    return text


def _respell(machine: Machine, text: str) -> bool:
    """Read markers that stand in stray text as plain text as the tokens they spell."""
    if not _SPELLED.search(text):
        return False
    machine.recover(RecoveryKind.SPELLED_MARKER, text)
    for token in machine.tokenizer.encode(text, _MARKER_TEXTS, ()):
        machine.take(token)
    return True


def _is_header_words(text: str) -> bool:
    return all(word in _HEADER_WORDS for word in split_words(text))


# In a header


def _collect(machine: Machine, token: int) -> None:
    machine.header_tokens.append(token)


def _open_header_again(machine: Machine, token: int) -> None:
    if machine.header_tokens or machine.suspended is not None:
        _settle_header(machine, token)
        return
    if machine.started:
        machine.recover(RecoveryKind.DOUBLED_START, spelling(token))
    machine.given_role = machine.current_role = None
    machine.open_header(started=True)


def _open_body(machine: Machine, _token: int) -> None:
    if machine.suspended is not None:
        _finish_suspended(machine)
    pieces = split_header(machine.header_tokens, machine.tokenizer, "replace")
    header, notes = recover_header(pieces, machine.given_role, machine.tools)
    for kind, text in notes:
        machine.recover(kind, text)
    machine.open_body(header)


def _settle_header(machine: Machine, ending: int) -> None:
    """A header ends without ``<|message|>``: decide whether a body was meant, or nothing."""
    pieces = split_header(machine.header_tokens, machine.tokenizer, "replace")
    unfinished = split_unfinished(pieces, machine.given_role, machine.tools)
    if machine.suspended is not None:
        if not unfinished.meant:
            _resume_suspended(machine, ending)
            return
        _finish_suspended(machine)
    only_text = all(piece.marker is None for piece in pieces)
    if only_text and not machine.started:
        machine.stray = machine.header_tokens
        machine.leave()
        _dispatch(machine, ending)
        return
    whole = machine.tokenizer.decode(machine.header_tokens)
    is_call = ending == CALL and unfinished.header.recipient is not None
    is_cut = ending == NO_TOKEN and _may_be_cut(machine, unfinished)
    if is_call or (not is_cut and _is_body(unfinished.body, unfinished.header)):
        machine.recover(RecoveryKind.MISSING_MESSAGE, whole)
        header = unfinished.header
        if header.channel is None and header.role is Role.ASSISTANT:
            # Where a channel should stand there is prose: only a last message is an answer.
            thinking = ending == END and not only_text
            header = Header(header.role, channel="analysis" if thinking else "final")
        _add_whole_message(machine, header, unfinished.body, ending)
    else:
        _note_empty_header(machine, whole, ending)
        machine.leave()
    if ending == START:
        machine.open_header(started=True)


def _may_be_cut(machine: Machine, unfinished: Unfinished) -> bool:
    """Whether what looks like a body may be a word of the header that was cut off."""
    if unfinished.meant:
        rest = unfinished.body.strip()
        return rest.startswith("to=") or any(word.startswith(rest) for word in _LATER_WORDS)
    words = split_words(unfinished.body)
    first = machine.tokenizer.decode(machine.header_tokens[:1])
    names_no_role = machine.started and first not in ROLES
    return names_no_role or len(words) < 2 or any(word.startswith("to=") for word in words)


def _is_body(text: str, header: Header) -> bool:
    """Text without a letter is noise, except as an answer."""
    if header.channel == "final" or header.recipient is not None:
        return bool(text)
    for word in (*CHANNELS, *ROLES):
        text = text.replace(word, "")
    return any(letter.isalpha() for letter in text)


def _note_empty_header(machine: Machine, whole: str, ending: int) -> None:
    if ending == START:
        machine.recover(RecoveryKind.DOUBLED_START, whole)
    elif ending != NO_TOKEN:
        machine.recover(RecoveryKind.CUT_HEADER, whole + spelling(ending))
    elif whole not in ROLES and (whole or machine.started):
        machine.recover(RecoveryKind.CUT_HEADER, whole)
        machine.incomplete = True


def _add_whole_message(machine: Machine, header: Header, text: str, ending: int) -> None:
    """Add a message whose body was known only at its end."""
    machine.open_body(header)
    machine.add_text(text)
    if ending == NO_TOKEN:
        machine.incomplete = True
    _note_call(machine, ending)
    machine.last_stop = ending
    machine.close_message()


# In a body


def _add_token(machine: Machine, token: int) -> None:
    if token == ASSISTANT:  # perhaps the role of a header that lacks <|start|>
        machine.held.append(token)
        machine.in_plain_text = False
        return
    _release_held(machine)
    text = machine.add_token(token)
    if "\ufffd" in text and "\ufffd" not in machine.tokenizer.decode((token,), "ignore"):
        machine.recover(RecoveryKind.INVALID_UTF8, text)


def _release_held(machine: Machine) -> None:
    for token in machine.held:
        machine.add_token(token)
    machine.held.clear()


def _close(machine: Machine, token: int) -> None:
    _release_held(machine)
    if machine.flush_character():
        machine.recover(RecoveryKind.INVALID_UTF8, "\ufffd")
    _note_call(machine, token)
    machine.last_stop = token
    machine.close_message()


def _note_call(machine: Machine, token: int) -> None:
    """Note a call to nobody. Even where only one tool exists nothing is guessed: models write
    imagined tool results that way (sgl-project/sglang#9097).
    """
    if token != CALL or machine.current_recipient is not None:
        return
    if machine.current_role is Role.TOOL:
        machine.recover(RecoveryKind.TOOL_AS_ROLE, machine.address_to_author())
    else:
        machine.recover(RecoveryKind.MISSING_RECIPIENT)


def _start_in_body(machine: Machine, token: int) -> None:
    """A new message begins although the open one has not ended."""
    if machine.held:
        machine.recover(RecoveryKind.STRAY_TEXT, machine.tokenizer.decode(machine.held))
        machine.held.clear()
    machine.recover(RecoveryKind.MISSING_END)
    machine.last_stop = END
    machine.close_message()
    machine.open_header(started=True)


def _channel_in_body(machine: Machine, token: int) -> None:
    """Perhaps a header without ``<|end|>`` and ``<|start|>``: put the body aside until it shows."""
    role = machine.current_role
    if role is Role.TOOL:  # whose name is not known here; what models go on with is their own
        role = Role.ASSISTANT
    held = machine.held.copy()
    machine.held.clear()
    machine.suspend_body()
    machine.open_header(started=False)
    machine.given_role = role
    machine.header_tokens = [*held, token]


def _finish_suspended(machine: Machine) -> None:
    if machine.suspended is not None:
        machine.recover(RecoveryKind.MISSING_END)
        machine.add_message(*machine.suspended)
        machine.suspended = None
        machine.last_stop = END


def _resume_suspended(machine: Machine, ending: int) -> None:
    """It was no header: its text goes on with the body, its markers are left out."""
    tokens = machine.header_tokens
    machine.resume_body()
    for token in tokens:
        if token in (CHANNEL, CONSTRAIN):
            machine.recover(RecoveryKind.SPECIAL_TOKEN, spelling(token))
        else:
            machine.add_token(token)
    _dispatch(machine, ending)


def _end_in_body(machine: Machine, _token: int) -> None:
    _release_held(machine)
    machine.incomplete = True
    machine.close_message()


LENIENT_RULES: Rules = {
    StreamState.EXPECT_START: {
        START: _open_header,
        CHANNEL: _open_header_without_start,
        CONSTRAIN: _open_header_without_start,
        MESSAGE: _open_header_without_start,
        **dict.fromkeys(STOP_TOKENS, _settle_stray),
        Kind.TEXT: _keep_stray,
        Kind.SPECIAL: _leave_out_special,
        Kind.UNKNOWN: _leave_out_unknown,
        Kind.EOS: _settle_stray,
    },
    StreamState.HEADER: {
        START: _open_header_again,
        CHANNEL: _collect,
        CONSTRAIN: _collect,
        MESSAGE: _open_body,
        **dict.fromkeys(STOP_TOKENS, _settle_header),
        Kind.TEXT: _collect,
        Kind.SPECIAL: _leave_out_special,
        Kind.UNKNOWN: _leave_out_unknown,
        Kind.EOS: _settle_header,
    },
    StreamState.CONTENT: {
        START: _start_in_body,
        CHANNEL: _channel_in_body,
        **dict.fromkeys(STOP_TOKENS, _close),
        Kind.TEXT: _add_token,
        Kind.SPECIAL: _leave_out_special,
        Kind.UNKNOWN: _leave_out_unknown,
        Kind.EOS: _end_in_body,
    },
}
