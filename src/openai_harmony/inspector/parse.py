"""Tokens to messages, token by token: where the parser stands after each, strict and lenient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict  # of Python 3.12, which tells pydantic more

from ..encoding import load_harmony_encoding
from ..errors import TokenError
from ..parsing.parser import StreamableParser
from ..parsing.state import StreamState
from ..tokens.special_tokens import FIRST_SPECIAL
from ..written_tokens import written_tokens
from .token_list import TokenList, token_list
from .wire import ParseBody

__all__ = ["Parsing", "Reading", "parsing"]


class StateChange(TypedDict):
    """The parser's state after the token `at`, until the next change."""

    at: int
    state: str
    role: str | None
    channel: str | None
    recipient: str | None
    content_type: str | None


class RecoveryJson(TypedDict):
    """A repair at the token with the index `position`."""

    kind: str
    position: int
    text: str


class Failure(TypedDict):
    """Where the strict parser gave up: the index of a token, or their number at their end."""

    message: str
    position: int


class Reading(TypedDict):
    """What a parser made of the tokens.

    `changes` begins with the state before any token, at -1. `deltas` has the text that each token
    completed, up to the one that failed. `message_ends` has, for each message, the index of the
    token that completed it; the last token where it was their end.
    """

    changes: list[StateChange]
    deltas: list[str | None]
    message_ends: list[int]
    messages: list[dict[str, Any]]
    recoveries: list[RecoveryJson]
    error: Failure | None
    incomplete: bool


class Parsing(TypedDict):
    """The tokens that were written, as both parsers read them."""

    tokens: TokenList
    strict: Reading
    lenient: Reading


def parsing(body: ParseBody) -> Parsing:
    """Parse tokens twice; raises `VocabularyError` for a number that no id can have."""
    tokens = written_tokens(body.input)
    return {
        "tokens": token_list(tokens),
        "strict": _reading(tokens, body, strict=True),
        "lenient": _reading(tokens, body, strict=False),
    }


def _reading(tokens: Sequence[int], body: ParseBody, *, strict: bool) -> Reading:
    encoding = load_harmony_encoding("HarmonyGptOss")
    parser = StreamableParser(encoding, body.role, strict=strict, tools=body.tools)
    watch = _Watch(parser)
    error: Failure | None = None
    try:
        for token in tokens:
            was_body = parser.state is StreamState.CONTENT
            parser.process(token)
            # Most tokens are text in a body that is open: they change nothing else.
            watch.note(is_text=was_body and token < FIRST_SPECIAL)
        parser.process_eos()
        watch.note_end()
    except (TokenError, OverflowError) as problem:
        error = {"message": getattr(problem, "problem", str(problem)), "position": watch.at}
        watch.note_failure()
    return {
        "changes": watch.changes,
        "deltas": watch.deltas,
        "message_ends": watch.message_ends,
        "messages": [message.to_dict() for message in parser.messages],
        "recoveries": [
            {"kind": kind.value, "position": position, "text": text}
            for kind, position, text in parser.recoveries
        ],
        "error": error,
        "incomplete": parser.incomplete,
    }


class _Watch:
    """Writes down what a parser does; `at` is the index of the token to come."""

    def __init__(self, parser: StreamableParser) -> None:
        self._parser = parser
        self._known: object = None
        self.at = 0
        self.changes: list[StateChange] = []
        self.deltas: list[str | None] = []
        self.message_ends: list[int] = []
        self._note_state(-1)

    def note(self, *, is_text: bool) -> None:
        """Note what the token at `at` has done; one that is just text adds to a body."""
        self.deltas.append(self._parser.last_content_delta)
        if not is_text:
            self._note_state(self.at)
            self._note_messages(self.at)
        self.at += 1

    def note_end(self) -> None:
        """Note what the end of the tokens has done: what it completed, the last token did."""
        last = self.at - 1
        self._note_messages(last)
        if self.deltas and self._parser.last_content_delta is not None:
            self.deltas[last] = (self.deltas[last] or "") + self._parser.last_content_delta

    def note_failure(self) -> None:
        """Note the state that the parser is left in."""
        self._note_state(self.at)

    def _note_messages(self, at: int) -> None:
        self.message_ends += [at] * (len(self._parser.messages) - len(self.message_ends))

    def _note_state(self, at: int) -> None:
        parser = self._parser
        state = (
            parser.state,
            parser.current_role,
            parser.current_channel,
            parser.current_recipient,
            parser.current_content_type,
        )
        if state == self._known:
            return
        self._known = state
        role = parser.current_role
        self.changes.append(
            {
                "at": at,
                "state": parser.state.value,
                "role": None if role is None else role.value,
                "channel": parser.current_channel,
                "recipient": parser.current_recipient,
                "content_type": parser.current_content_type,
            }
        )
