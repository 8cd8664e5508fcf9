"""The messages of a chat, from and to those of the Chat Completions API.

===============================  ================================================
an assistant's reasoning         ``analysis``, under the field that the server used
its ``content``                  ``final``, or ``commentary`` before calls
each of its ``tool_calls``       a `CallMessage`
===============================  ================================================
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from ..conversation.content import TextContent
from ..conversation.messages import Message, Role
from ..errors import ConversationError
from .chat_partner import Piece

__all__ = ["CallMessage", "SpokenMessage", "chat_messages"]

_REASONING = ("reasoning", "reasoning_content")  # a server may send both, with the same text
_FUNCTIONS = "functions."


class CallMessage(Message):
    """A call of a function, with the id that its result has to name."""

    call_id: str


def chat_messages(messages: Sequence[Message], reasoning: str | None) -> list[dict[str, Any]]:
    """Write messages as the API has them; `reasoning` names the field for it, None leaves it out.

    >>> hello = Message.from_role_and_content(Role.USER, "hi")
    >>> answer = Message.from_role_and_content(Role.ASSISTANT, "Hello!").with_channel("final")
    >>> chat_messages([hello, answer], None)
    [{'role': 'user', 'content': 'hi'}, {'role': 'assistant', 'content': 'Hello!'}]
    """
    written: list[dict[str, Any]] = []
    waiting: deque[str] = deque()  # ids of calls without a result
    for message in messages:
        role, text = message.author.role, text_of(message)
        if role is Role.TOOL:
            result = {"role": "tool", "tool_call_id": waiting.popleft(), "content": text}
            written.append(result)
        elif role is Role.USER:
            written.append({"role": "user", "content": text})
        else:
            if not written or written[-1]["role"] != "assistant":
                written.append({"role": "assistant", "content": ""})
            _add(written[-1], message, text, reasoning)
            if isinstance(message, CallMessage):
                waiting.append(message.call_id)
    return written


def _add(turn: dict[str, Any], message: Message, text: str, reasoning: str | None) -> None:
    if isinstance(message, CallMessage):
        name = (message.recipient or "").removeprefix(_FUNCTIONS)
        function = {"name": name, "arguments": text}
        call = {"id": message.call_id, "type": "function", "function": function}
        turn.setdefault("tool_calls", []).append(call)
    elif message.channel != "analysis":
        turn["content"] += text
    elif reasoning is not None:
        turn[reasoning] = turn.get(reasoning, "") + text


def text_of(message: Message) -> str:
    """Return all that a message says."""
    return "".join(item.text for item in message.content if isinstance(item, TextContent))


@dataclass
class _Call:
    call_id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class SpokenMessage:
    """An assistant's message that comes in deltas; `reasoning_name` is the field it came in."""

    reasoning: str = ""
    content: str = ""
    calls: dict[int, _Call] = field(default_factory=dict)
    reasoning_name: str | None = None
    _order: dict[str, int] = field(default_factory=dict)  # what began when

    def add(self, delta: dict[str, Any]) -> Iterator[Piece]:
        """Take a delta, or a message as a whole, and yield what it adds.

        Raises `KeyError`, `TypeError` or `AttributeError` where it has another form.
        """
        for name in _REASONING:
            if text := delta.get(name):
                self.reasoning_name = name
                self.reasoning += text
                yield Piece(self._place("reasoning"), "analysis", None, text)
                break
        if text := delta.get("content") or delta.get("refusal"):
            self.content += text
            yield Piece(self._place("content"), "final", None, text)
        for at, raw in enumerate(delta.get("tool_calls") or ()):
            yield from self._add_call(raw.get("index", at), raw)

    def _add_call(self, at: int, raw: dict[str, Any]) -> Iterator[Piece]:
        call = self.calls.setdefault(at, _Call())
        function = raw.get("function") or {}
        call.call_id = call.call_id or raw.get("id") or ""
        call.name = call.name or function.get("name") or ""
        added = function.get("arguments") or ""
        call.arguments += added
        if call.name:
            place = self._place(f"call {at}")
            yield Piece(place, "commentary", f"{_FUNCTIONS}{call.name}", added)

    def _place(self, part: str) -> int:
        return self._order.setdefault(part, len(self._order))

    def messages(self) -> list[Message]:
        """Return what has been said so far.

        Raises `ConversationError` where a function without a name was called.
        """
        said = []
        if self.reasoning:
            said.append(_said(self.reasoning, "analysis"))
        if self.content:
            said.append(_said(self.content, "commentary" if self.calls else "final"))
        said += [_called(call) for _, call in sorted(self.calls.items())]
        return said


def _said(text: str, channel: str) -> Message:
    return Message.from_role_and_content(Role.ASSISTANT, text).with_channel(channel)


def _called(call: _Call) -> CallMessage:
    if not call.name:
        raise ConversationError("the server sent a call without the name of a function")
    message = _said(call.arguments, "commentary").with_content_type("<|constrain|>json")
    message.recipient = f"{_FUNCTIONS}{call.name}"
    call_id = call.call_id or f"call_{uuid4().hex}"
    return CallMessage.model_construct(**message.__dict__, call_id=call_id)
