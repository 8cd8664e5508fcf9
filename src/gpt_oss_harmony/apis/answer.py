"""Any request to its prompt, and any engine's tokens to that API's answer: two calls.

The parts are public, too, for a server that needs more: `turn_of_chat` and its kin, `TurnReader`
and `TextReader`, the writers, and the folds. This module puts them together for one answer.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from ..engines.engine import SampledToken, Sampling
from ..errors import ConversationError
from .items import ItemEvent, NewId
from .reader import TextReader, TurnReader
from .request_body import read_body
from .turn import TurnRequest
from .wire_events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..conversation.messages import Message

Api: TypeAlias = Literal["responses", "chat", "completions", "messages"]
"""OpenAI's Responses, Chat Completions and Completions, and Anthropic's Messages."""


class Writer(Protocol):
    """Writes the events of an answer as its API has them."""

    def take(self, event: Any) -> Iterator[Event]:
        """Write the events of an event."""


class Fold(Protocol):
    """Joins the events of a stream to the whole answer, as a client does."""

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event."""

    def whole(self) -> Any:
        """Return the answer."""


class Reader(Protocol):
    """Reads tokens."""

    is_over: bool

    def take(self, sampled: SampledToken | int) -> Iterable[ItemEvent]:
        """Read a token."""

    def end(self) -> Iterable[ItemEvent]:
        """End the turn where the tokens end."""


@dataclass
class Answer:
    """The answer to a request, from its prompt to its last event.

    - `prompt`: the token ids that the engine continues. `sampling`: its settings, of which a
      missing one is the engine's own affair.
    - `turn`: the conversation and the tools; None for a raw completion.
    - `is_streamed`: whether the request asks for a stream; `take` then has more to return.
    - `ending`: the last text of the stream, if the API has one.

    Give `take` each sampled token, until `is_over`; if the engine stops earlier, call `end`.
    """

    prompt: list[int]
    sampling: Sampling
    turn: TurnRequest | None
    is_streamed: bool
    ending: str | None
    _reader: Reader
    _writer: Writer
    _fold: Fold
    _unfolded: list[Event] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether the answer has ended, and no more tokens are needed."""
        return self._reader.is_over

    def take(self, sampled: SampledToken | int) -> list[Event]:
        """Read a token, with its log-probability and its finish reason if they are known."""
        return self._written(self._reader.take(sampled))

    def end(self) -> list[Event]:
        """End the answer: the engine has no more tokens, because of a limit."""
        return self._written(self._reader.end())

    def whole(self) -> dict[str, Any]:
        """Return the whole answer: what a client makes of all events."""
        for event in self._unfolded:
            self._fold.add(event.fields())
        self._unfolded.clear()
        whole: dict[str, Any] = self._fold.whole()
        return whole

    def _written(self, events: Iterable[ItemEvent]) -> list[Event]:
        written = [each for event in events for each in self._writer.take(event)]
        if not self.is_streamed:
            self._unfolded += written
        return written


def answer_request(
    api: Api,
    body: Mapping[str, Any],
    *,
    model: str,
    date: str | None = None,
    sampling: Sampling | None = None,
    new_id: NewId = lambda prefix: f"{prefix}_{uuid.uuid4().hex}",
    now: Callable[[], int] = lambda: int(time.time()),
    seal: Callable[[Message], str] = lambda message: "",
) -> Answer:
    """Read the JSON of a request, and prepare its answer; rendering a long prompt takes a while.

    - `model`: the name in the answer. `date`: the date in the prompt, as ``YYYY-MM-DD``.
    - `sampling`: the defaults for what the request leaves out.
    - `new_id`, `now`: make ids from prefixes, and the time in seconds since 1970.
    - `seal`: signs a message of reasoning, for the blocks of Messages.

    The answer has one choice, nothing is stored, and a conversation comes whole with its request: a
    request for more is refused; use the parts for it. Raises `ConversationError`, which names the
    wrong field.

    >>> body = {"messages": [{"role": "user", "content": "hi"}]}
    >>> answer = answer_request("chat", body, model="gpt-oss-20b")
    >>> for token in (200005, 17196, 200008, 13225, 200002):  # <|channel|>final<|message|>Hi ...
    ...     events = answer.take(token)
    >>> answer.whole()["choices"][0]["message"]["content"], answer.is_over
    ('Hello', True)
    """
    # Each API has much to import, and a program that speaks one of them needs no other.
    if api == "chat":
        from .chat.fold import ChatFold
        from .chat.request import ChatRequest, turn_of_chat
        from .chat.writer import ChatWriter

        chat = read_body(ChatRequest, body)
        _refuse(n=(chat.n or 1) > 1)
        turn = turn_of_chat(chat, date=date, sampling=sampling)
        head = {"id": new_id("chatcmpl"), "created": now(), "model": model}
        writer: Writer = ChatWriter(
            {**head, "service_tier": None, "system_fingerprint": None},
            includes_usage=chat.includes_usage or not chat.stream,
            has_logprobs=bool(chat.logprobs),
        )
        return _answer(
            turn, new_id, "call", bool(chat.stream), "[DONE]", lambda _: writer, ChatFold()
        )
    if api == "responses":
        from .responses.fold import ResponseFold
        from .responses.request import ResponsesRequest, turn_of_response
        from .responses.resource import response_of
        from .responses.writer import ResponseWriter

        request = read_body(ResponsesRequest, body)
        _refuse(
            previous_response_id=request.previous_response_id,
            conversation=request.conversation,
            background=request.background,
        )
        turn = turn_of_response(request, date=date, sampling=sampling)
        response = response_of(
            request, id=new_id("resp"), created_at=now(), model=model, sampling=sampling
        )
        begun = {**response.to_dict(), "store": False}
        writer = ResponseWriter(begun, new_id=new_id, now=now)
        streamed = bool(request.stream)
        return _answer(turn, new_id, "call", streamed, "[DONE]", lambda _: writer, ResponseFold())
    if api == "messages":
        from .messages.fold import MessagesFold
        from .messages.input import turn_of_messages
        from .messages.request import MessagesRequest
        from .messages.writer import MessagesWriter

        messages = read_body(MessagesRequest, body)
        turn = turn_of_messages(messages, date=date, sampling=sampling)

        def written(prompt_tokens: int) -> Writer:
            return MessagesWriter(
                model,
                prompt_tokens,
                display=messages.reasoning_display,
                seal=seal,
                new_id=new_id,
                reads_only=messages.max_tokens == 0,
            )

        streamed = bool(messages.stream)
        return _answer(turn, new_id, "toolu", streamed, None, written, MessagesFold())
    return _completion(body, model, sampling, new_id, now)


def _refuse(**fields: Any) -> None:
    """Raise `ConversationError` for a field that one answer without a store cannot honour."""
    for name, value in fields.items():
        if value:
            problem = "one answer has one choice, and a conversation comes whole with its request"
            raise ConversationError(f"{problem}; leave it out, or use the parts", field=name)


def _answer(
    turn: TurnRequest,
    new_id: NewId,
    id_prefix: str,
    is_streamed: bool,
    ending: str | None,
    writer_of: Callable[[int], Writer],
    fold: Fold,
) -> Answer:
    prompt = turn.prompt()
    reader = TurnReader(turn, len(prompt), new_id=new_id, id_prefix=id_prefix, streams=is_streamed)
    writer = writer_of(len(prompt))
    return Answer(prompt, turn.sampling, turn, is_streamed, ending, reader, writer, fold)


def _completion(
    body: Mapping[str, Any],
    model: str,
    sampling: Sampling | None,
    new_id: NewId,
    now: Callable[[], int],
) -> Answer:
    from .completions.fold import CompletionsFold
    from .completions.request import CompletionRequest, completion_prompts
    from .completions.writer import CompletionsWriter

    request = read_body(CompletionRequest, body)
    prompts = completion_prompts(request)
    _refuse(n=len(prompts) * (request.n or 1) > 1, echo=request.echo)
    (prompt,) = prompts
    streams = bool(request.stream)
    reader = TextReader(
        len(prompt.tokens),
        stop=request.stop_texts,
        shows_special=request.shows_special_tokens,
        has_logprobs=request.logprobs is not None,
        streams=streams,
    )
    head = {"id": new_id("cmpl"), "object": "text_completion", "created": now(), "model": model}
    writer = CompletionsWriter(
        request, prompts, {**head, "system_fingerprint": None}, includes_usage=not streams
    )
    settings, fold = request.sampling(sampling), CompletionsFold()
    return Answer(prompt.tokens, settings, None, streams, "[DONE]", reader, writer, fold)
