"""A server of the Chat Completions API as the one who answers in a chat."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any

from ..conversation.messages import Message
from ..engines import EngineError
from ..engines.http_client import HttpClient, RefusalError
from ..rendering.history import without_past_reasoning
from .chat_messages import SpokenMessage, chat_messages
from .chat_partner import CUT_OFF, Answer, Opening, Partner, Piece

__all__ = ["ServerPartner"]

_COMPLETIONS = "/v1/chat/completions"
_UNAUTHORIZED = (401, 403)
_LISTED = 8  # models that an error names


class ServerPartner(Partner):
    """Answers through ``/v1/chat/completions``; `ServerPartner.connect` makes it.

    `sampling` has further fields of the request; what is not in it is left to the server.
    """

    def __init__(self, client: HttpClient, model: str, sampling: dict[str, Any]) -> None:
        self.model = model
        self.url = client.url
        self._client = client
        self._sampling = sampling
        self._reasoning: str | None = None  # how the server calls it, once it has sent some

    @classmethod
    async def connect(
        cls,
        url: str,
        model: str | None,
        *,
        api_key: str | None = None,
        sampling: dict[str, Any] | None = None,
        **options: Any,
    ) -> ServerPartner:
        """Ask the server for its models, and take `model`, or the only one that there is.

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
        """Begin an answer."""
        written = chat_messages(without_past_reasoning(messages), self._reasoning)
        if opening.instructions:
            written.insert(0, {"role": "system", "content": opening.instructions})
        body = {"model": self.model, "messages": written, "stream": True, **self._sampling}
        if opening.tools:
            body["tools"] = list(opening.tools)
        if opening.effort is not None:
            body["reasoning_effort"] = opening.effort.value.lower()
        return _ServerAnswer(self, self._client, body)

    def learn(self, reasoning: str | None) -> None:
        """Note in which field the server sends reasoning: it is sent back there."""
        self._reasoning = reasoning or self._reasoning

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


class _ServerAnswer(Answer):
    def __init__(self, partner: ServerPartner, client: HttpClient, body: dict[str, Any]) -> None:
        self._partner = partner
        self._client = client
        self._body = body
        self._spoken = SpokenMessage()
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
            raise EngineError(f"{self._client.url} broke off its answer", retryable=True)
        self._partner.learn(self._spoken.reasoning_name)
        if self._reason == "length":
            self.problem = CUT_OFF
        elif self._reason == "content_filter":
            self.problem = "incomplete: the server filtered the rest"

    def messages(self) -> list[Message]:
        return self._spoken.messages()

    def _read(self, event: Any) -> Iterator[Piece]:
        try:
            for choice in event.get("choices") or ():
                # A server that does not stream sends the message as a whole.
                yield from self._spoken.add(choice.get("delta") or choice.get("message") or {})
                self._reason = choice.get("finish_reason") or self._reason
        except (KeyError, TypeError, AttributeError) as error:
            raise EngineError(
                f"{self._client.url} answered in another form than expected: {str(event)[:300]}"
            ) from error


async def _choose_model(client: HttpClient, wanted: str | None) -> str:
    names = await _models(client, needed=wanted is None)
    if wanted is not None:  # it need not be in the list: some servers load models on demand
        return wanted
    if len(names) == 1:
        return names[0]
    if not names:
        raise EngineError(f"{client.url} lists no model; name one with --model NAME")
    more = ", ..." if len(names) > _LISTED else ""
    listed = ", ".join(names[:_LISTED])
    raise EngineError(f"{client.url} serves {listed}{more}; choose one with --model NAME")


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


def _detail(said: str) -> str:
    """Return the reason in an error that has the form of FastAPI's."""
    try:
        detail = json.loads(said)["detail"]
    except (ValueError, TypeError, KeyError):
        return ""
    return detail if isinstance(detail, str) else ""


def _explained(error: EngineError) -> EngineError:
    """Return the error as a person reads it, with what to do about it."""
    text = str(error)
    if isinstance(error, RefusalError) and (detail := _detail(error.said)):
        text = text.replace(error.said, detail)
    if re.search(r"<(!doctype|html|head|body)", text, re.IGNORECASE):  # a page, as of a proxy
        text = re.sub(r"<(style|script|title).*?</\1>|<[^>]*>?", " ", text, flags=re.DOTALL)
    text = " ".join(text.split())
    if isinstance(error, RefusalError) and error.status in _UNAUTHORIZED:
        text += "; pass --api-key KEY, or set OPENAI_API_KEY"
    return EngineError(text, retryable=error.retryable)
