"""One turn of the model as pieces: the text and the ends of its messages, token by token."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from gpt_oss_harmony.apis.call_texts import CallArguments
from gpt_oss_harmony.apis.items import ItemKind, ItemRules
from gpt_oss_harmony.conversation.content import TextContent
from gpt_oss_harmony.conversation.messages import Message, Role
from gpt_oss_harmony.encoding import load_harmony_encoding
from gpt_oss_harmony.parsing.parser import StreamableParser
from gpt_oss_harmony.parsing.recovery import WITHOUT_UNMARKED_CALLS, Recovery
from gpt_oss_harmony.parsing.state import MendCheck, StreamState
from gpt_oss_harmony.tokens.special_tokens import FIRST_SPECIAL

__all__ = ["Piece", "TurnFollower"]

_CHANNELS = {ItemKind.REASONING: "analysis", ItemKind.COMMENTARY: "commentary"}


class Piece(NamedTuple):
    """Text that is added to a message, or the end of one, with the fields of vLLM's `Segment`.

    The first piece of a call has no text if the call has none yet.
    """

    channel: str | None
    recipient: str | None
    delta: str
    completed_message: Message | None = None


class TurnFollower:
    """Parses a turn leniently; `tools` are the declared recipients.

    Messages by other authors are left out, because models imagine the results of tools. With
    `mend_arguments`, arguments that are nearly JSON are mended, and come when their call ends.

    >>> turn = TurnFollower(["functions.now"])
    >>> encoding = load_harmony_encoding("HarmonyGptOss")
    >>> text = "<|channel|>commentary to=now<|message|><|call|>"
    >>> [piece[:3] for piece in turn.take(encoding.encode(text, allowed_special="all"))]
    [('commentary', 'functions.now', ''), ('commentary', 'functions.now', '{}'), \
('commentary', 'functions.now', '')]
    """

    def __init__(
        self, tools: Collection[str] = (), *, mend_arguments: bool | MendCheck = False
    ) -> None:
        self._parser = StreamableParser(
            load_harmony_encoding("HarmonyGptOss"),
            Role.ASSISTANT,
            strict=False,
            tools=tools,
            repairs=WITHOUT_UNMARKED_CALLS,
            mend_arguments=mend_arguments,
        )
        self._mends = bool(mend_arguments)
        self.reasoning_tokens = 0
        self._ended = 0  # messages
        self._has_begun = False  # the open message
        self._header: tuple[str | None, str | None] | None = None  # None if the message is left out
        self._sent = 0  # characters of it
        self._is_reasoning = False

    @property
    def recoveries(self) -> list[Recovery]:
        """The repairs so far."""
        return self._parser.recoveries

    def take(self, tokens: Sequence[int]) -> list[Piece]:
        """Parse some tokens; return the pieces that they add."""
        parser, pieces, texts = self._parser, list[Piece](), list[str]()
        for token in tokens:
            if self._has_begun and token < FIRST_SPECIAL and parser.state is StreamState.CONTENT:
                self.reasoning_tokens += self._is_reasoning
                text = parser.process(token).last_content_delta
                if text:
                    texts.append(text)
                continue
            self._add_texts(texts, pieces)
            if parser.state is StreamState.CONTENT and token < FIRST_SPECIAL:
                channel, recipient = parser.current_channel, parser.current_recipient
                self.reasoning_tokens += _is_reasoning(channel, recipient)
            for position, text, *_ in parser.process_many((token,)):
                self._end_messages(position, pieces)
                if not self._has_begun:
                    self._begin_next()
                self._add_texts([text], pieces)
            self._end_messages(len(parser.messages), pieces)
            is_open = parser.state is StreamState.CONTENT and not self._has_begun
            if is_open and parser.current_recipient is not None:
                self._begin_next()  # other headers may be repeated before there is text
                if self._header is not None:
                    pieces.append(Piece(*self._header, ""))
        self._add_texts(texts, pieces)
        return pieces

    def end(self) -> list[Piece]:
        """End the turn; an open message ends with the text so far.

        A call that was cut off keeps its text: the empty arguments of a call whose end the model
        did not sample are not JSON, so no client runs it.
        """
        self._parser.process_eos()
        pieces: list[Piece] = []
        self._end_messages(len(self._parser.messages), pieces, is_cut=self._parser.incomplete)
        return pieces

    def _begin_next(self) -> None:
        """Begin the next message."""
        parser = self._parser
        if self._ended < len(parser.messages):  # the message began and ended with the same token
            message = parser.messages[self._ended]
            self._begin(message.author.role, message.channel, message.recipient)
        else:
            self._begin(parser.current_role, parser.current_channel, parser.current_recipient)

    def _begin(self, role: Role | None, channel: str | None, recipient: str | None) -> None:
        self._has_begun = True
        self._header = _shown_header(role, channel, recipient)
        self._sent = 0
        self._is_reasoning = _is_reasoning(channel, recipient)

    def _add_texts(self, texts: list[str], pieces: list[Piece]) -> None:
        text = "".join(texts)
        texts.clear()
        if self._header is not None and self._header[1] is not None and self._mends:
            return  # the end of the call shows its arguments
        if text and self._header is not None:
            self._sent += len(text)
            pieces.append(Piece(*self._header, text))

    def _end_messages(self, before: int, pieces: list[Piece], *, is_cut: bool = False) -> None:
        while self._ended < before:
            message = self._parser.messages[self._ended]
            if not self._has_begun:
                self._begin_next()
            header = _shown_header(message.author.role, message.channel, message.recipient)
            if header is not None:
                is_complete = not (is_cut and self._ended == before - 1)
                self._end_message(message, header, pieces, is_complete=is_complete)
            self._ended += 1
            self._has_begun, self._header = False, None

    def _end_message(
        self,
        message: Message,
        header: tuple[str | None, str | None],
        pieces: list[Piece],
        *,
        is_complete: bool,
    ) -> None:
        text = message.text
        self._header = header  # a message that seemed to be by a tool may now be a call of it
        rest = text[self._sent :]
        is_function = (header[1] or "").startswith("functions.")
        if is_function and is_complete and not text.strip():
            rest += CallArguments().rest()
        if rest:
            pieces.append(Piece(*header, rest))
        if rest or header != (message.channel, message.recipient):
            text = text[: self._sent] + rest
            message = message.model_copy(
                update={
                    "channel": header[0],
                    "recipient": header[1],
                    "content": [TextContent(text=text)],
                }
            )
        pieces.append(Piece(*header, "", message))


def _is_reasoning(channel: str | None, recipient: str | None) -> bool:
    return channel == "analysis" or (channel == "commentary" and recipient is not None)


def _shown_header(
    role: Role | None, channel: str | None, recipient: str | None
) -> tuple[str | None, str | None] | None:
    """Return the channel and recipient for vLLM; None if the message is left out.

    A recipient that is not a tool, as in ``to=user``, is left out.
    """
    if role is not Role.ASSISTANT:
        return None
    kind = ItemRules().begin(0, channel, recipient).kind
    return (channel, recipient) if kind.is_call else (_CHANNELS.get(kind, "final"), None)
