"""Strict parsing: the step of each token in each state, and the header that tokens spell.

For all tokens this is what openai-harmony 0.0.8 does: a header collects every token up to
``<|message|>``, and an error leaves the parser in the reference's state. There are two additions:
a whole prompt may be parsed with a role, and it may end in the start of the next message.

As there, a header is read as text that spells its special tokens::

    [role] [to=recipient] [<|channel|>channel] [to=recipient] [content type]

First the channel is cut out. Of the other words, the first is the author if no role was given, and
the last ones are the recipient and the content type. Any further word is an error.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Set as AbstractSet
from contextlib import suppress

from ..conversation.messages import ROLES, Header, Role
from ..errors import TokenError, VocabularyError
from ..tokens.special_tokens import (
    CALL,
    CHANNEL_TEXT,
    CONSTRAIN_TEXT,
    END,
    FIRST_SPECIAL,
    MESSAGE,
    RETURN,
    START,
    VOCABULARY_SIZE,
)
from ..tokens.tokenizer import Tokenizer
from .state import ParserState, Phase, Row, TokenKind, Transitions

CONTENT_TYPES = frozenset({"json", "code", "text"})
"""Words that are a content type if they are alone, although they could be a recipient."""

LONGEST_CACHED_HEADER = 100
"""Tokens: longer headers are not cached, so the cache stays small."""

_WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)  # the characters with Unicode's property White_Space; Python's own set has four more
_CHANNEL_NAME = re.compile(rf"[^<{_WHITE_SPACE}]*")
# As in the reference, a header is split at ASCII white space, and stripped of Unicode's.
_WORD = re.compile(r"[^ \t\n\f\r]+")


class HeaderError(ValueError):
    """The header does not follow the format; the parser adds its position."""


def read_header_tokens(
    tokens: tuple[int, ...], tokenizer: Tokenizer, role: Role | None, tools: AbstractSet[str]
) -> Header:
    """Read header tokens, or raise `HeaderError`; cached, because the same few headers recur."""
    if len(tokens) > LONGEST_CACHED_HEADER:
        return _read_header_tokens.__wrapped__(tokens, tokenizer, role, tools)
    return _read_header_tokens(tokens, tokenizer, role, tools)


@functools.lru_cache(maxsize=1024)
def _read_header_tokens(
    tokens: tuple[int, ...], tokenizer: Tokenizer, role: Role | None, tools: AbstractSet[str]
) -> Header:
    try:
        text = tokenizer.decode_bytes(tokens).decode()
    except (UnicodeDecodeError, VocabularyError):
        raise HeaderError("could not decode header") from None
    return read_header(text, role, tools)


def read_header(
    text: str, role: Role | None = None, tools: AbstractSet[str] = frozenset()
) -> Header:
    """Read the text of a header, or raise `HeaderError`.

    `role` is the author if the prompt contained the header's start; the header may then omit the
    role. `tools` are the recipients that the conversation declares.

    >>> read_header("assistant<|channel|>commentary to=functions.f json").recipient
    'functions.f'
    """
    before, marker, after = text.partition(CHANNEL_TEXT)
    channel = None
    if marker:
        channel = _CHANNEL_NAME.match(after)[0]  # type: ignore[index]  # it matches anything
        if not channel:
            raise HeaderError("channel marker present but no channel value found in header")
        after = after[len(channel) :]
    words = _split_words(before + after)
    name = None
    if role is None:
        role, name = _read_author(words, tools)
    if words and words[0] == role.value:  # the role that was read, or a given one, repeated
        del words[0]
    if len(words) == 1 and words == _split_words(after):
        # A single word after the channel. The reference takes each for the recipient, but models
        # write content types there (openai/harmony#56).
        (word,) = words
        if word not in tools and (word in CONTENT_TYPES or word.startswith(CONSTRAIN_TEXT)):
            return Header(role, name, channel, None, word)
    content_type = words.pop() if len(words) > 1 and not words[-1].startswith("to=") else None
    recipient = words.pop().removeprefix("to=") if words else None
    if words:
        # `Some(…)` is Rust's way to write an optional text; the words are those of the reference.
        left = _debug_text(" ".join(words))
        raise HeaderError(f"unexpected tokens remaining in message header: Some({left})")
    return Header(role, name, channel, recipient, content_type)


def _split_words(text: str) -> list[str]:
    """Split at ASCII white space, and before each ``<|constrain|>``."""
    return _WORD.findall(text.strip(_WHITE_SPACE).replace(CONSTRAIN_TEXT, f" {CONSTRAIN_TEXT}"))


def _read_author(words: list[str], tools: AbstractSet[str]) -> tuple[Role, str | None]:
    """Read the author at the front of `words`; the name of a tool is taken off."""
    if not words:
        raise HeaderError("message header did not contain a role")
    word = words[0]
    if word in ROLES:
        # A header names a tool only by its name, so a tool named "tool" is written this way.
        return ROLES[word], word if word == Role.TOOL.value else None
    # A name alone may be a misspelt role, so only a declared tool needs no recipient.
    if len(words) > 1 or word.startswith("to=") or word in tools:
        del words[0]
        return Role.TOOL, word
    raise HeaderError(f"Unknown role: {word}")


def _debug_text(text: str) -> str:
    """Quote text as the reference does in errors, because programs may compare them."""
    import unicodedata  # only for an error

    # As Rust's `Debug` writes a text: it escapes what does not print or joins the sign before.
    escapes = {'"': '\\"', "\\": "\\\\", "\0": "\\0", "\t": "\\t", "\n": "\\n", "\r": "\\r"}

    def quoted(character: str) -> str:
        if character in escapes:
            return escapes[character]
        extends = unicodedata.category(character) in ("Mn", "Me") or character in _EXTENDING
        plain = character.isprintable() and not extends
        return character if plain else f"\\u{{{ord(character):x}}}"

    return f'"{"".join(map(quoted, text))}"'


_EXTENDING = frozenset(
    "\u09be\u09d7\u0b3e\u0b57\u0bbe\u0bd7\u0cc0\u0cc2\u0cc7\u0cc8\u0cca\u0ccb\u0cd5\u0cd6"
    "\u0d3e\u0d57\u0dcf\u0ddf\u1715\u1734\u1b35\u1b3b\u1b3d\u1b43\u1b44\u1baa\u1bf2\u1bf3"
    "\u302e\u302f\ua953\ua9c0\uff9e\uff9f\U000111c0\U00011235\U0001133e\U0001134d\U00011357"
    "\U000114b0\U000114bd\U000115af\U000116b6\U00011930\U0001193d\U00016ff0\U00016ff1"
    "\U0001d165\U0001d166\U0001d16d\U0001d16e\U0001d16f\U0001d170\U0001d171\U0001d172"
)
"""Characters with Unicode's property Grapheme_Extend that are not of the categories Mn and Me."""


# The step of each token


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
    # As in the reference, the parser leaves the message first: who catches the error can go on
    # with the next one, whose header may lack the role as well.
    state, role = parser.state.value, parser.given_role
    parser.leave()
    parser.given_role = parser.role = role
    position = len(parser.received) - 1
    token = parser.received[-1]
    raise TokenError(problem, token=token, position=position, state=state, detail=detail)


_IN_HEADER: Row = {
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
        TokenKind.SPECIAL: _add_token,  # even <|start|>: only a stop token ends a body
        TokenKind.UNKNOWN: _add_unknown,
        TokenKind.EOS: _end_in_body,
    },
}
