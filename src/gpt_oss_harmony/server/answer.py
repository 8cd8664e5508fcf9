"""One way for every answer that is sampled at once, whichever API asked for it.

::

    admit, read, prepare    the route's own part, which ends with `Sampling`
    sample                  the choices at once, each in its slot at the engine
    write                   the events of the API
    store                   the whole answer, before its last events are sent
    stream or fold          the events as they come, or what a client makes of them

The responses of the Responses API go on after calls of the server's tools and outlive their
clients; `gpt_oss_harmony.server.responses` has their way.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ..apis.answer import Fold
from ..apis.items import TurnEnded
from ..apis.reader import TurnReader
from ..apis.turn import TurnRequest
from ..apis.wire_events import Event, encode_events, event_of
from ..engines.engine import ContextLengthError
from .auth.api_keys import Caller
from .http.errors import ApiError
from .http.json import JsonResponse
from .http.requests import while_connected
from .http.server_sent_events import EventStream
from .preparation import PreparedTurn
from .sampling import choice_sampling, sample_choices, sample_turn
from .services import Services
from .store import new_id


class Api(NamedTuple):
    """What differs between the APIs after a request has been prepared.

    - `fold`: makes what joins the events. `prompt_field`: the field that an error about the length
      of the prompt names.
    - `error_event`: writes an error in a stream. `ending`: the last text of a stream.
    - `encode` and `media_type`: the form of a stream.
    """

    fold: Callable[[], Fold]
    prompt_field: str
    error_event: Callable[[ApiError], Event] = lambda error: event_of(error.body())
    ending: str | None = "[DONE]"
    ping: Event | None = None
    encode: Callable[[Iterable[Event]], bytes] = encode_events
    media_type: str = "text/event-stream"


class SampledAnswer(NamedTuple):
    """The choices while they are sampled.

    `write` writes the events of an event of a choice. `store` stores the whole answer.
    """

    choices: Sequence[AsyncGenerator[Any, None]]
    write: Callable[[Any, int], Iterable[Event]]
    store: Callable[[Any], Awaitable[None]] | None = None


def sampled_turns(
    services: Services,
    caller: Caller,
    turn: TurnRequest,
    prepared: PreparedTurn,
    *,
    streams: bool,
    count: int = 1,
    id_prefix: str = "call",
) -> list[AsyncGenerator[Any, None]]:
    """Begin to sample a turn `count` times; calls get ids with `id_prefix`.

    The prompt and the grammar are the same for all. Each choice has its own slot at the engine,
    because it is as much work as another request. A request is refused as a whole or not at all.
    """
    length = len(prepared.prompt)
    return [
        sample_turn(
            services,
            caller,
            turn,
            prepared._replace(sampling=choice_sampling(prepared.sampling, index)),
            TurnReader(
                turn,
                length,
                new_id=new_id,
                id_prefix=id_prefix,
                streams=streams,
                mend_arguments=services.settings.mend_arguments,
            ),
            is_first=index == 0,
        )
        for index in range(count)
    ]


async def answer_events(
    api: Api, answer: Callable[[], Awaitable[SampledAnswer]]
) -> AsyncGenerator[Event, None]:
    """Sample an answer and write its events; one that is stored is stored before the last ones."""
    last: list[Event] = []
    try:
        choices, write, store = await answer()
        fold = None if store is None else api.fold()
        running = len(choices)
        async with aclosing(sample_choices(choices)) as events:
            async for choice, event in events:
                running -= isinstance(event, TurnEnded)
                for written in write(event, choice):
                    if fold is not None:
                        fold.add(written.fields())
                    if running:
                        yield written
                    else:
                        last.append(written)
    except ContextLengthError as error:
        raise ApiError.of(error, prompt_field=api.prompt_field) from error
    # The engine is free by now: a slow database keeps no one from it.
    if store is not None and fold is not None:
        await store(fold.whole())
    for written in last:
        yield written


async def whole_answer(api: Api, events: AsyncGenerator[Event, None]) -> Any:
    """Join the events of an answer, as a client does."""
    fold = api.fold()
    async with aclosing(events):
        async for event in events:
            fold.add(event.fields())
    return fold.whole()


async def respond(
    api: Api,
    request: Request,
    events: AsyncGenerator[Event, None],
    *,
    streams: bool,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Send the events as they come, or the whole answer; `headers` may be filled until then."""
    if streams:
        return EventStream(
            events,
            error_event=api.error_event,
            ending=api.ending,
            ping=api.ping,
            headers=headers,
            encode=api.encode,
            media_type=api.media_type,
        )
    whole = await while_connected(request.receive, whole_answer(api, events))
    return JsonResponse(whole, headers=headers)
