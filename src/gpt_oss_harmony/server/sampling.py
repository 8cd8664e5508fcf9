"""Sampling at the engine: a completion in its slot, with its metrics; several at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..apis.constraint import constraint_options
from ..apis.items import Ending, ItemEnded, ItemEvent, TurnEnded
from ..apis.reader import TurnReader
from ..apis.turn import TurnRequest
from ..conversation.messages import Message
from ..engines.engine import (
    ContextLengthError,
    EngineError,
    FinishReason,
    SampledToken,
    Sampling,
)
from ..engines.repetition import RepetitionDetector
from ..grammar import Matcher, find_violations, way_to_the_end
from ..tokens.special_tokens import MESSAGE
from .auth.api_keys import Caller
from .http.errors import shutting_down
from .http.requests import cancel_all
from .metrics import CompletionMetrics
from .preparation import PreparedTurn
from .services import Services

if TYPE_CHECKING:
    from .telemetry import CompletionSpan, Operation

# Requests have smaller seeds, and so have all of their choices.
_SEEDS = 2**63

_Item = TypeVar("_Item")


async def sample_turn(
    services: Services,
    caller: Caller,
    request: TurnRequest,
    prepared: PreparedTurn,
    reader: TurnReader,
    *,
    is_first: bool = True,
) -> AsyncGenerator[ItemEvent, None]:
    """Sample a prepared turn and read it; closing the generator frees the engine's slot.

    If a request has several turns, only the first can be refused. Raises what `engine_slot` raises.
    """
    prompt, sampling, unenforced, *_ = prepared
    messages: list[Message] = []
    services.metrics.count_unenforced(unenforced if is_first else ())
    slot = engine_slot(services, caller, prompt, sampling, is_first=is_first)
    async with slot as (tokens, metrics):
        async for sampled in tokens:
            for event in reader.take(sampled):
                if isinstance(event, ItemEnded) and event.is_complete:
                    messages.append(event.message)
                elif isinstance(event, TurnEnded):
                    if metrics.is_repetition:
                        event = event._replace(ending=Ending.REPETITION)
                    if unenforced:
                        options = constraint_options(request)
                        violations = await services.pools.grammar.run(
                            caller.owner, find_violations, messages, request.conversation, options
                        )
                        services.metrics.violations.inc(len(violations))
                        event = event._replace(violations=tuple(violations))
                    if services.settings.trace_contents:
                        metrics.said = request.conversation.messages, messages
                    metrics.finish(
                        event.reason,
                        cached=event.usage.cached_tokens,
                        reasoning=event.usage.reasoning_tokens,
                        recoveries=event.recoveries,
                        unenforced=unenforced,
                        violations=len(event.violations),
                    )
                yield event
            if reader.is_over:
                return


class EngineSlot(NamedTuple):
    """The stream of sampled tokens; call `metrics.finish` after the last one."""

    tokens: AsyncGenerator[SampledToken, None]
    metrics: CompletionMetrics


@asynccontextmanager
async def engine_slot(
    services: Services,
    caller: Caller,
    prompt: list[int],
    sampling: Sampling,
    *,
    is_first: bool = True,
    operation: Operation = "chat",
) -> AsyncGenerator[EngineSlot, None]:
    """Wait for a slot at the engine and sample in it; the slot is free when this ends.

    If a request has several completions, only the first can be refused. Raises what
    `Admission.slot` and `Engine.generate` raise. If the engine was closed because the server is
    shutting down, the error states that.
    """
    room = ContextLengthError.check(len(prompt), services.context_length)
    sampling = replace(sampling, max_tokens=min(room, sampling.max_tokens or room))
    span: CompletionSpan | None = None
    if services.telemetry is not None:
        span = services.telemetry.completion(operation, services.model_names[0], sampling)
    on_end = None if span is None else span.end
    with CompletionMetrics(services.metrics, caller.usage, len(prompt), on_end) as metrics:
        async with services.admission.slot(caller.owner, is_first=is_first):
            metrics.begin()
            stream = services.engine.generate(prompt, sampling)
            stream = stream if span is None else span.traced(stream)
            counted = _counted(stream, services, caller, sampling, metrics)
            try:
                async with aclosing(counted) as tokens:
                    yield EngineSlot(tokens, metrics)
            except EngineError as error:
                # A `ValueError` is about the request itself, whether the server ends or not.
                if services.admission.is_closed and not isinstance(error, ValueError):
                    raise shutting_down() from error
                raise


async def _counted(
    stream: AsyncGenerator[SampledToken, None],
    services: Services,
    caller: Caller,
    sampling: Sampling,
    metrics: CompletionMetrics,
) -> AsyncGenerator[SampledToken, None]:
    """Yield and count the tokens of a stream; closing this closes the stream.

    A completion that runs in circles is ended. The call or the JSON in which it does is closed, so
    that it can be read, which needs no model. With log-probabilities, which only the model has, it
    is cut as it is. Raises `EngineError` for a stream without a finish reason.
    """
    threshold = services.settings.repetition
    detector = None if threshold is None else RepetitionDetector(threshold)
    can_be_closed = bool(sampling.grammar) and sampling.logprobs is None
    tokens: list[int] = []  # kept only for closing
    async with aclosing(stream):
        async for sampled in stream:
            metrics.count()
            if can_be_closed:
                tokens.append(sampled.token)
            period = 0 if detector is None else detector.take(sampled.token)
            if not period or sampled.finish_reason is not None:
                yield sampled
                continue
            metrics.note_circles(period)
            rest: list[int] = []
            if can_be_closed:
                pool = services.pools.grammar
                rest = await pool.run(caller.owner, _rest_of_body, sampling, tokens)
            metrics.sampled += len(rest)
            yield sampled._replace(finish_reason=None if rest else FinishReason.LENGTH)
            for at, token in enumerate(rest, start=1):
                reason = FinishReason.STOP if at == len(rest) else None
                yield SampledToken(token, finish_reason=reason, is_forced=True)
            return
    raise EngineError("the engine ended a completion without a finish reason", retryable=True)


def _rest_of_body(sampling: Sampling, tokens: Sequence[int]) -> list[int]:
    """Return the tokens that close the open body; none if it is whole or more must follow it."""
    assert sampling.grammar is not None
    matcher = Matcher(sampling.grammar)
    if matcher.accept_all(tokens) < len(tokens):
        return []
    way = way_to_the_end(matcher) or []
    fits = sampling.max_tokens is None or len(tokens) + len(way) <= sampling.max_tokens
    closes = len(way) > 1 and MESSAGE not in way  # a stop alone closes nothing
    return way if fits and closes else []


def choice_sampling(sampling: Sampling, index: int) -> Sampling:
    """Return the settings of the choice with this index; each choice has its own fixed seed.

    >>> choice_sampling(Sampling(seed=7), 2).seed, choice_sampling(Sampling(), 2).seed
    (9, None)
    """
    if sampling.seed is None or index == 0:
        return sampling
    return replace(sampling, seed=(sampling.seed + index) % _SEEDS)


async def sample_choices(
    choices: Sequence[AsyncGenerator[_Item, None]],
) -> AsyncGenerator[tuple[int, _Item], None]:
    """Sample several choices at once; yield their items as they come, with the choice's index.

    The first error ends all choices; closing the generator closes them.
    """
    if len(choices) == 1:  # the usual case, without a queue between
        async with aclosing(choices[0]) as only:
            async for item in only:
                yield 0, item
    else:
        async with aclosing(_interleaved(choices)) as items:
            async for indexed in items:
                yield indexed


async def _interleaved(
    sources: Sequence[AsyncGenerator[_Item, None]],
) -> AsyncGenerator[tuple[int, _Item], None]:
    queue: asyncio.Queue[tuple[int, _Item] | BaseException | None] = asyncio.Queue()

    async def read(index: int, source: AsyncGenerator[_Item, None]) -> None:
        try:
            async with aclosing(source):
                async for item in source:
                    queue.put_nowait((index, item))
        except Exception as error:  # noqa: BLE001 - raised where the items are read
            queue.put_nowait(error)
        else:
            queue.put_nowait(None)

    tasks = [asyncio.ensure_future(read(index, source)) for index, source in enumerate(sources)]
    running = len(tasks)
    try:
        while running:
            result = await queue.get()
            if isinstance(result, BaseException):
                raise result
            if result is None:
                running -= 1
            else:
                yield result
    finally:
        await cancel_all(*tasks)
