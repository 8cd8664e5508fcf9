"""Calls that are damaged: which of them may be made, how their arguments are mended, and where they
end although a special token stands in them.

A special token in the open JSON of a call, or in its code, may be text of the call or the end of a
call that was cut. The tokens wait (in OPEN_CALL or OPEN_CODE) until what follows shows which.
"""

from __future__ import annotations

import re

from ..conversation.built_in_tools import BUILT_IN_TOOLS
from ..conversation.content import CHANNELS
from ..conversation.messages import ROLES, Header, Role
from ..tokens.special_tokens import (
    CALL,
    CHANNEL,
    CHANNEL_TEXT,
    END,
    FIRST_SPECIAL,
    HEADER_PARTS,
    MESSAGE,
    RETURN,
    START,
)
from .header_words import LONGEST_NAME, find_tool
from .mended_json import mend_json
from .recovery import RecoveryKind
from .state import (
    NO_TOKEN,
    OpenCode,
    OpenJson,
    ParserState,
    Phase,
    Row,
    TokenKind,
    is_call,
    message_of,
    spelling,
)

_RECIPIENT = re.compile(r"\bto=([\w.-]+)")
_CUT_CODE = re.compile(r"[=,\\+:]\s*\Z")
_REST_OF_CODE = re.compile(r"[ \t]*(?:=(?!=)|,|\.\w)|[(\[]")
"""What follows a word in code, but begins no answer."""
_LONGEST_GAP = 8
"""Tokens between the end of a message and the header of the next one."""
_ASSISTANT = Role.ASSISTANT.value
_SOUND_STARTS = tuple(f"{_ASSISTANT}{CHANNEL_TEXT}{channel}" for channel in CHANNELS)


def calls_tool(parser: ParserState, header: Header) -> bool:
    """Whether a header calls a tool that is declared, if any is."""
    return is_call(header) and (not parser.tools or header.recipient in parser.tools)


def note_call(parser: ParserState, token: int) -> None:
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
        parser.header = parser.permitted(header)
    else:
        parser.recover(RecoveryKind.MISSING_RECIPIENT)


def mend(parser: ParserState, ending: int) -> None:
    """Mend the arguments of a call that has ended, where that was requested."""
    header = parser.header
    if parser.mends is None or ending == NO_TOKEN or header is None or not is_call(header):
        return
    tool = BUILT_IN_TOOLS.get(header.recipient or "")
    is_free_text = tool is not None and not tool.namespace.tools  # such as code
    if is_free_text or RecoveryKind.MENDED_ARGUMENTS not in parser.repairs:
        return
    mended = mend_json(parser.text)
    if mended is not None and parser.mends(message_of(header, mended.text)):
        parser.recover(RecoveryKind.MENDED_ARGUMENTS, parser.text)
        parser.text = mended.text


def after_cut_call(parser: ParserState) -> bool:
    """Whether the last message is a call that may go on: only ``<|call|>`` behind JSON ends it."""
    last = parser.messages[-1] if parser.messages else None
    if last is None or last.author.role is not Role.ASSISTANT:
        return False
    was_call = last.recipient is not None and last.recipient not in ROLES
    return was_call and (parser.last_stop != CALL or _is_whole_json(parser) is not True)


def stopped_in_json(parser: ParserState) -> bool:
    """Whether the last message is JSON that is open at its end."""
    return _is_whole_json(parser) is False


def _is_whole_json(parser: ParserState) -> bool | None:
    """Whether the JSON of the last message is whole, or None if it has none; it is read once."""
    count = len(parser.messages)
    if parser.last_json[0] != count:
        text = parser.messages[-1].text if count else ""
        is_json = text.lstrip()[:1] in ("{", "[")
        parser.last_json = count, OpenJson().read(text).depth <= 0 if is_json else None
    return parser.last_json[1]


def is_rest_of_call(parser: ParserState, ending: int, *headers: Header) -> bool:
    """Whether text that ``<|call|>`` ends belongs to the call before it, which had another end."""
    is_rest = ending == CALL and after_cut_call(parser)
    return is_rest and not any(calls_tool(parser, header) for header in headers)


def leave_out_rest(parser: ParserState, text: str, ending: int) -> None:
    """Leave out the rest of a call, and the ``<|call|>`` that ends it again."""
    parser.leave()
    parser.recover(RecoveryKind.STRAY_TEXT, text)
    parser.recover(RecoveryKind.EXTRA_STOP, spelling(ending))
    parser.last_stop = ending


def names_tool(parser: ParserState, name: str) -> bool:
    """Whether a damaged name means a tool; one that is declared, if any is."""
    tool = find_tool(name, parser.tools)
    return tool is not None and (not parser.tools or tool.name in parser.tools)


def waits_in_call(parser: ParserState) -> Phase | None:
    """Return the phase in which tokens wait, if the body is a call that may go on."""
    header, begun = parser.header, parser.text.lstrip()[:1]
    if header is None or not is_call(header):
        return None
    if begun not in ("", "{", "["):
        return Phase.OPEN_CODE
    parser.json = parser.held_json = parser.json.read(parser.text[parser.json.length :])
    # A call without a text yet may become one of code; `_wait_in_call` finds that out.
    return Phase.OPEN_CALL if parser.json.depth > 0 or not begun else None


def _wait_in_call(parser: ParserState, token: int) -> None:
    """Keep a token until the call's JSON is closed, or a whole header shows that it was cut."""
    parser.held.append(token)
    is_header = token == MESSAGE and _last_header(parser, START).startswith(_SOUND_STARTS)
    if is_header and not parser.held_json.in_string:
        _give_up_call(parser)
    elif token < FIRST_SPECIAL:
        # The signs of JSON are ASCII, so half a character may be replaced.
        text = parser.tokenizer.decode_bytes([token]).decode("utf-8", "replace")
        if not parser.held_json.depth and text.lstrip()[:1] not in ("", "{", "["):
            parser.phase = Phase.OPEN_CODE
            return
        parser.held_json = parser.held_json.read(text)
        if parser.held_json.depth <= 0 and text.strip():
            _go_on_with_call(parser)


def _last_header(parser: ParserState, begin: int) -> str:
    """Return what stands between the last `begin` and ``<|message|>``, if it is short enough."""
    last = parser.held[-LONGEST_NAME:-1]
    if begin not in last:
        return ""
    return parser.tokenizer.decode(last[len(last) - last[::-1].index(begin) :])


def _end_open_call(parser: ParserState, token: int) -> None:
    """End a call at ``<|call|>``; all that waited belongs to it."""
    _go_on_with_call(parser)
    parser.take(token)


def _end_in_open_call(parser: ParserState, _token: int) -> None:
    parser.holds_calls = False  # or tokens might wait again and again
    _give_up_call(parser)
    parser.end()


def _end_in_open_code(parser: ParserState, token: int) -> None:
    """End a call with code where the tokens end; code behind its first stop belongs to it."""
    rest = parser.tokenizer.decode([one for one in parser.held if one < FIRST_SPECIAL])
    if not _goes_on(parser.text, rest):
        _end_in_open_call(parser, token)
        return
    stop = parser.held.pop() if parser.held[-1] in (END, RETURN) else NO_TOKEN
    _go_on_with_call(parser)
    parser.holds_calls = False
    if stop != NO_TOKEN:
        parser.take(stop)
    parser.end()


def _goes_on(code: str, rest: str) -> bool:
    """Whether text behind a stop is the rest of code: the code before the stop is not whole."""
    opened = OpenCode().read(code)
    if opened.in_string or opened.depth > 0:
        return bool(rest.strip())
    if opened.in_comment or not rest.strip():
        return False
    is_word = code[-1:].isalnum() or code[-1:] == "_"
    return _CUT_CODE.search(code[-_LONGEST_GAP:]) is not None or (
        is_word and _REST_OF_CODE.match(rest) is not None
    )


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
        _give_up_call(parser)


def _addresses_tool(parser: ParserState, text: str) -> bool:
    return any(names_tool(parser, match[1]) for match in _RECIPIENT.finditer(text))


def _end_open_code(parser: ParserState, token: int) -> None:
    """End a call with code at ``<|call|>``; what waited belongs to it unless it calls a tool."""
    if _addresses_tool(parser, parser.tokenizer.decode(parser.held)):
        parser.holds_calls = False  # the ends that waited are ends now
        _give_up_call(parser)
        parser.holds_calls = True
        parser.take(token)
    else:
        _end_open_call(parser, token)


def _go_on_with_call(parser: ParserState) -> None:
    """Add the tokens that waited to the call; special ones only where they are in a string."""
    held, parser.held = parser.held, []
    opened: OpenJson | OpenCode = parser.json if parser.phase is Phase.OPEN_CALL else OpenCode()
    parser.phase = Phase.BODY
    parser.expect_text()
    for token in held:
        if token < FIRST_SPECIAL:
            parser.add_token(token)
            continue
        parser.recover(RecoveryKind.SPECIAL_TOKEN, spelling(token))
        parser.flush_character()
        opened = opened.read(parser.text[opened.length :])
        if opened.in_string:
            parser.add_text(spelling(token))
    if isinstance(opened, OpenJson):
        parser.json = opened


def _give_up_call(parser: ParserState) -> None:
    """Read the tokens that waited as what they are: the call was cut before the first of them."""
    held, parser.held = parser.held, []
    parser.phase = Phase.BODY
    parser.expect_text()
    holds_calls, parser.holds_calls = parser.holds_calls, False
    parser.take(held[0])  # this one ends the body; the others may stand in a call of their own
    parser.holds_calls = holds_calls
    for token in held[1:]:
        parser.take(token)


_WAITING = (START, *HEADER_PARTS, END, RETURN, TokenKind.TEXT)
OPEN_CALL: Row = {
    **dict.fromkeys(_WAITING, _wait_in_call),
    CALL: _end_open_call,
    TokenKind.EOS: _end_in_open_call,
}
OPEN_CODE: Row = {
    **dict.fromkeys(_WAITING, _wait_in_code),
    CALL: _end_open_code,
    TokenKind.EOS: _end_in_open_code,
}
