"""A server of the Chat Completions API as the backend of a chat; its messages, both ways.

===============================  ================================================
an assistant's reasoning         ``analysis``, in the field that the server uses for it
its ``content``                  ``final``, or ``commentary`` before calls
each of its ``tool_calls``       a `CallMessage`
===============================  ================================================
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from ..apis.chat.input import REASONING_FIELDS
from ..conversation.messages import Message, Role
from ..engines import EngineError
from ..engines.http_client import HttpClient, RefusalError
from ..errors import ConversationError, did_you_mean
from ..rendering.history import without_past_reasoning
from .chat_backend import CUT_OFF, Answer, Backend, Opening, Piece

_FUNCTIONS = "functions."


class CallMessage(Message):
    """A call of a function, with the id that its result must name."""

    call_id: str


def chat_messages(messages: Sequence[Message], reasoning: str | None) -> list[dict[str, Any]]:
    """Convert messages to those of the API; `reasoning` is the name of that field, or None.

    >>> hello = Message.from_role_and_content(Role.USER, "hi")
    >>> answer = Message.from_role_and_content(Role.ASSISTANT, "Hello!").with_channel("final")
    >>> chat_messages([hello, answer], None)
    [{'role': 'user', 'content': 'hi'}, {'role': 'assistant', 'content': 'Hello!'}]
    """
    converted: list[dict[str, Any]] = []
    open_calls: deque[str] = deque()  # ids of calls without a result
    for message in messages:
        role, text = message.author.role, message.text
        if role is Role.TOOL:
            call_id = open_calls.popleft()
            converted.append({"role": "tool", "tool_call_id": call_id, "content": text})
        elif role is Role.USER:
            converted.append({"role": "user", "content": text})
        else:
            if not converted or converted[-1]["role"] != "assistant":
                converted.append({"role": "assistant", "content": ""})
            turn = converted[-1]
            if isinstance(message, CallMessage):
                name = (message.recipient or "").removeprefix(_FUNCTIONS)
                function = {"name": name, "arguments": text}
                call = {"id": message.call_id, "type": "function", "function": function}
                turn.setdefault("tool_calls", []).append(call)
                open_calls.append(message.call_id)
            elif message.channel != "analysis":
                turn["content"] += text
            elif reasoning is not None:
                turn[reasoning] = turn.get(reasoning, "") + text
    return converted


@dataclass
class _Call:
    call_id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class StreamedMessage:
    """An assistant's message from deltas; `reasoning_name` is the server's field for reasoning."""

    reasoning: str = ""
    content: str = ""
    calls: dict[int, _Call] = field(default_factory=dict)
    reasoning_name: str | None = None
    _order: dict[str, int] = field(default_factory=dict)  # the order of the messages

    def add(self, delta: dict[str, Any]) -> Iterator[Piece]:
        """Take a delta, or a whole message, and yield the new pieces.

        Raises `KeyError`, `TypeError` or `AttributeError` for another form.
        """
        for name in REASONING_FIELDS:  # a server may send two, with the same text
            if text := delta.get(name):
                self.reasoning_name = name
                self.reasoning += text
                yield Piece(self._index("reasoning"), "analysis", None, text)
                break
        if text := delta.get("content") or delta.get("refusal"):
            self.content += text
            yield Piece(self._index("content"), "final", None, text)
        for position, raw in enumerate(delta.get("tool_calls") or ()):
            index = raw.get("index", position)
            call = self.calls.setdefault(index, _Call())
            function = raw.get("function") or {}
            call.call_id = call.call_id or raw.get("id") or ""
            call.name = call.name or function.get("name") or ""
            added = function.get("arguments") or ""
            call.arguments += added
            if call.name:
                message = self._index(f"call {index}")
                yield Piece(message, "commentary", f"{_FUNCTIONS}{call.name}", added)

    def _index(self, name: str) -> int:
        return self._order.setdefault(name, len(self._order))

    def messages(self) -> list[Message]:
        """Return the messages so far.

        Raises `ConversationError` for a call without the name of a function.
        """
        messages = []
        if self.reasoning:
            messages.append(_message(self.reasoning, "analysis"))
        if self.content:
            messages.append(_message(self.content, "commentary" if self.calls else "final"))
        for _, call in sorted(self.calls.items()):
            if not call.name:
                raise ConversationError("the server sent a call without the name of a function")
            message = _message(call.arguments, "commentary").with_content_type("<|constrain|>json")
            message.recipient = f"{_FUNCTIONS}{call.name}"
            call_id = call.call_id or f"call_{uuid4().hex}"
            messages.append(CallMessage.model_construct(**message.__dict__, call_id=call_id))
        return messages


def _message(text: str, channel: str) -> Message:
    return Message.from_role_and_content(Role.ASSISTANT, text).with_channel(channel)


_COMPLETIONS = "/v1/chat/completions"
_UNAUTHORIZED = (401, 403)
_NO_SUCH_MODEL = (400, 404, 422)
_LISTED = 8  # models in an error


class ServerBackend(Backend):
    """Answers through ``/v1/chat/completions``; `ServerBackend.connect` makes it.

    `sampling` has further fields of the request; the server has defaults for the rest.
    """

    default_effort = "what the server chooses"

    def __init__(self, client: HttpClient, model: str, sampling: dict[str, Any]) -> None:
        self.model = model
        self.url = client.url
        self._client = client
        self._sampling = sampling
        self._reasoning: str | None = None  # the server's field for it, once it has sent some

    @classmethod
    async def connect(
        cls,
        url: str,
        model: str | None,
        *,
        api_key: str | None = None,
        sampling: dict[str, Any] | None = None,
        **options: Any,
    ) -> ServerBackend:
        """Choose the server's `model`, which is tried if it is not listed, or its only one.

        `options` go to `HttpClient`. Raises `EngineError`.
        """
        client = HttpClient(url, api_key=api_key, **options)
        try:
            name = await _choose_model(client, model)
        except EngineError as error:
            await client.close()
            raise _explained(error) from error
        return cls(client, name, sampling or {})

    def answer(self, opening: Opening, messages: Sequence[Message]) -> Answer:
        """Make the request for an answer."""
        converted = chat_messages(without_past_reasoning(messages), self._reasoning)
        if opening.instructions:
            converted.insert(0, {"role": "system", "content": opening.instructions})
        body = {"model": self.model, "messages": converted, "stream": True, **self._sampling}
        if opening.tools:
            body["tools"] = list(opening.tools)
        if opening.effort is not None:
            body["reasoning_effort"] = opening.effort.value.lower()
        return _ServerAnswer(self, self._client, body)

    def use_reasoning_field(self, reasoning: str | None) -> None:
        """Send reasoning back in the field in which the server sends it."""
        self._reasoning = reasoning or self._reasoning

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


class _ServerAnswer(Answer):
    def __init__(self, backend: ServerBackend, client: HttpClient, body: dict[str, Any]) -> None:
        self._backend = backend
        self._client = client
        self._body = body
        self._message = StreamedMessage()
        self._reason: str | None = None

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        try:
            async with aclosing(self._client.ask("POST", _COMPLETIONS, self._body)) as events:
                async for event in events:
                    for piece in self._read(event):
                        yield piece
        except EngineError as error:
            raise _explained(error) from error
        if self._reason is None:
            raise EngineError(f"{self._client.url} ended its answer too early", retryable=True)
        self._backend.use_reasoning_field(self._message.reasoning_name)
        if self._reason == "length":
            self.problem = CUT_OFF
        elif self._reason == "content_filter":
            self.problem = "incomplete: the server filtered the rest"

    def messages(self) -> list[Message]:
        return self._message.messages()

    def _read(self, event: Any) -> Iterator[Piece]:
        try:
            for choice in event.get("choices") or ():
                # A server without streaming sends the whole message.
                yield from self._message.add(choice.get("delta") or choice.get("message") or {})
                self._reason = choice.get("finish_reason") or self._reason
        except (KeyError, TypeError, AttributeError) as error:
            raise EngineError(
                f"{self._client.url} answered in another form than expected: {str(event)[:300]}"
            ) from error


async def _choose_model(client: HttpClient, requested: str | None) -> str:
    names = await _models(client, needed=requested is None)
    if requested is not None:
        if requested not in names:
            await _try_model(client, requested, names)
        return requested
    if len(names) == 1:
        return names[0]
    if not names:
        raise EngineError(f"{client.url} lists no model; name one with --model NAME")
    raise EngineError(f"{client.url} serves {_listed(names)}; choose one with --model NAME")


async def _try_model(client: HttpClient, name: str, names: Sequence[str]) -> None:
    """Sample one token of a model that is not listed: some servers load models on demand.

    Raises `EngineError` with the listed names if the server refuses.
    """
    body = {"model": name, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    try:
        async with aclosing(client.ask("POST", _COMPLETIONS, body)) as answers:
            async for _ in answers:
                return
    except RefusalError as refusal:
        if refusal.status not in _NO_SUCH_MODEL:
            raise
        meant = did_you_mean(name, names)
        remedy = f"; {meant}" if meant else ""
        served = f"; it serves {_listed(names)}" if names else ""
        reason = _reason(refusal) or f"status {refusal.status}"
        raise EngineError(
            f"{client.url} has no model {name!r} ({reason}){served}{remedy}"
        ) from refusal


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:_LISTED], *(["..."] if len(names) > _LISTED else [])])


async def _models(client: HttpClient, *, needed: bool) -> list[str]:
    try:
        answer = await client.get("/v1/models")
    except RefusalError as refusal:
        if needed or refusal.status in _UNAUTHORIZED:
            raise
        return []
    try:
        return [str(model["id"]) for model in answer["data"]]
    except (KeyError, TypeError) as error:
        if not needed:
            return []
        raise EngineError(
            f"{client.url} has no list of models; is it a server of the Chat Completions API?"
        ) from error


def _reason(refusal: RefusalError) -> str:
    with contextlib.suppress(ValueError, TypeError, KeyError):
        detail = json.loads(refusal.reason)["detail"]  # as FastAPI writes errors
        if detail and isinstance(detail, str):
            return detail
    return refusal.reason


def _explained(error: EngineError) -> EngineError:
    """Return the error with plain text for people, and with a remedy."""
    text = str(error)
    if isinstance(error, RefusalError):
        text = text.replace(error.reason, _reason(error)) if error.reason else text
    if re.search(r"<(!doctype|html|head|body)", text, re.IGNORECASE):  # a page of a proxy
        text = re.sub(r"<(style|script|title).*?</\1>|<[^>]*>?", " ", text, flags=re.DOTALL)
    text = " ".join(text.split())
    if isinstance(error, RefusalError) and error.status in _UNAUTHORIZED:
        text += "; pass --api-key KEY, or set OPENAI_API_KEY"
    return EngineError(text, retryable=error.retryable)
