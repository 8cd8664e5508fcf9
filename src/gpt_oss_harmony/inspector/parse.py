"""Tokens to messages, token by token: the parser state after each, in strict and lenient mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict  # of Python 3.12, which pydantic needs

from ..encoding import load_harmony_encoding
from ..errors import TokenError
from ..parsing.parser import StreamableParser
from ..written_tokens import written_tokens
from .wire import ParseBody, TokenList, token_list


class StateChange(TypedDict):
    """The parser's state after the token at `index`, until the next change."""

    index: int
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
    """The error of the strict parser; `position` is a token's index, or the number of tokens.

    `message` has the reference's words, with token ids; `detail` names the tokens by their texts,
    if it can.
    """

    message: str
    detail: str
    position: int


class Reading(TypedDict):
    """The result of one parser.

    `changes` begins with the state before any token, at -1. `deltas` has the text that each token
    completed, up to the one that failed. `message_ends` has, for each message, the index of the
    token that completed it; if the end of the tokens did, that of the last token.
    """

    changes: list[StateChange]
    deltas: list[str | None]
    message_ends: list[int]
    messages: list[dict[str, Any]]
    recoveries: list[RecoveryJson]
    error: Failure | None
    incomplete: bool


class Parsing(TypedDict):
    """The tokens of the input, as both parsers read them."""

    tokens: TokenList
    strict: Reading
    lenient: Reading


def parsing(body: ParseBody) -> Parsing:
    """Parse tokens in both modes; raises `VocabularyError` for a number that cannot be an id."""
    tokens = written_tokens(body.input)
    return {
        "tokens": token_list(tokens),
        "strict": _reading(tokens, body, strict=True),
        "lenient": _reading(tokens, body, strict=False),
    }


def _reading(tokens: Sequence[int], body: ParseBody, *, strict: bool) -> Reading:
    encoding = load_harmony_encoding("HarmonyGptOss")
    parser = StreamableParser(encoding, body.role, strict=strict, tools=body.tools)
    recorder = _Recorder(parser)
    error: Failure | None = None
    try:
        for token in tokens:
            parser.process(token)
            recorder.note()
        parser.process_eos()
        recorder.note_end()
    # `OverflowError` is the reference's error for a number of more than 32 bits.
    except (TokenError, OverflowError) as problem:
        error = {
            "message": getattr(problem, "problem", str(problem)),
            "detail": getattr(problem, "detail", ""),
            "position": recorder.index,
        }
        recorder.note_state(recorder.index)
    return {
        "changes": recorder.changes,
        "deltas": recorder.deltas,
        "message_ends": recorder.message_ends,
        "messages": [message.to_dict() for message in parser.messages],
        "recoveries": [
            {"kind": kind.value, "position": position, "text": text}
            for kind, position, text in parser.recoveries
        ],
        "error": error,
        "incomplete": parser.incomplete,
    }


class _Recorder:
    """Records the steps of a parser; `index` is that of the next token."""

    def __init__(self, parser: StreamableParser) -> None:
        self._parser = parser
        self._state: object = None
        self.index = 0
        self.changes: list[StateChange] = []
        self.deltas: list[str | None] = []
        self.message_ends: list[int] = []
        self.note_state(-1)

    def note(self) -> None:
        """Note the effect of the next token."""
        self.deltas.append(self._parser.last_content_delta)
        self.note_state(self.index)
        self._note_messages(self.index)
        self.index += 1

    def note_end(self) -> None:
        """Note the effect of the end of the tokens; it counts as that of the last token."""
        last = self.index - 1
        self._note_messages(last)
        if self.deltas and self._parser.last_content_delta is not None:
            self.deltas[last] = (self.deltas[last] or "") + self._parser.last_content_delta

    def _note_messages(self, index: int) -> None:
        self.message_ends += [index] * (len(self._parser.messages) - len(self.message_ends))

    def note_state(self, index: int) -> None:
        """Note the state after the token at `index` if it has changed."""
        parser = self._parser
        state = (
            parser.state,
            parser.current_role,
            parser.current_channel,
            parser.current_recipient,
            parser.current_content_type,
        )
        if state == self._state:
            return
        self._state = state
        role = parser.current_role
        self.changes.append(
            {
                "index": index,
                "state": parser.state.value,
                "role": None if role is None else role.value,
                "channel": parser.current_channel,
                "recipient": parser.current_recipient,
                "content_type": parser.current_content_type,
            }
        )
