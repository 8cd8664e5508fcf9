"""``POST /v1/completions``: completions of prompts that are already in the harmony format."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from ..apis.completions.fold import CompletionsFold
from ..apis.completions.request import CompletionPrompt, CompletionRequest, completion_prompts
from ..apis.completions.writer import CompletionAnswer, CompletionsWriter
from ..apis.items import Ending, ItemText, TurnEnded
from ..apis.reader import TextReader
from ..engines.engine import FinishReason, SampledToken, Sampling
from ..grammar import GrammarError, Matcher
from .answer import Api, SampledAnswer, answer_events, respond
from .auth.api_keys import AuthenticatedCaller, Caller
from .http.server_sent_events import json_or_stream
from .limited_route import LimitedRoute
from .sampling import choice_sampling, engine_slot
from .services import Services, services_of
from .store import new_id

router = APIRouter(tags=["Completions"], route_class=LimitedRoute)

_API = Api(CompletionsFold, prompt_field="prompt")


@router.post(
    "/v1/completions",
    response_model=None,
    responses=json_or_stream(CompletionAnswer, CompletionAnswer),
)
async def create_completion(
    body: CompletionRequest, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Continue one or several prompts, which are texts or token ids.

    A text is encoded with the special tokens that it spells. ``<|return|>`` and ``<|call|>`` end
    the completion and are its last token; with `skip_special_tokens` false, the text has them, too.
    """
    services, owner = services_of(request), caller.owner
    head: dict[str, Any] = {
        "id": new_id("cmpl-"),
        "object": "text_completion",
        "created": int(time.time()),
        "model": services.check_model(body.model),
        "system_fingerprint": services.system_fingerprint,
    }

    async def answer() -> SampledAnswer:
        services.admission.check(owner)
        prompts = await services.pools.encoding.run(owner, completion_prompts, body)
        sampling = body.sampling()
        if sampling.grammar is not None:
            try:  # compiled and shared
                await services.pools.grammar.run(owner, Matcher, sampling.grammar)
            except GrammarError as error:
                services.note_refusal(error)
                raise
        choices = [
            _choice(
                services,
                caller,
                body,
                prompt,
                choice_sampling(sampling, index),
                is_first=position == index == 0,
            )
            for position, prompt in enumerate(prompts)
            for index in range(body.n or 1)
        ]
        writer = CompletionsWriter(body, prompts, head, includes_usage=not body.stream)
        return SampledAnswer(choices, writer.take)

    return await respond(_API, request, answer_events(_API, answer), streams=bool(body.stream))


async def _choice(
    services: Services,
    caller: Caller,
    body: CompletionRequest,
    prompt: CompletionPrompt,
    sampling: Sampling,
    *,
    is_first: bool,
) -> AsyncGenerator[ItemText | TurnEnded, None]:
    """Sample a choice; a request is refused as a whole, or not at all."""
    reader = TextReader(
        len(prompt.tokens),
        stop=body.stop_texts,
        shows_special=body.shows_special_tokens,
        has_logprobs=body.logprobs is not None,
        streams=bool(body.stream),
    )
    slot = engine_slot(
        services, caller, prompt.tokens, sampling, is_first=is_first, operation="text_completion"
    )
    async with slot as (tokens, metrics):
        if body.echo:
            scored: list[SampledToken] = []
            if body.logprobs is not None:
                scored = await services.engine.score(prompt.tokens, body.logprobs)
            reader.echo(prompt.echo, scored)
        if body.max_tokens == 0:
            # The engine samples nothing before somebody reads `tokens`.
            metrics.finish(FinishReason.LENGTH)
            for event in reader.end():
                yield event
            return
        async for sampled in tokens:
            for event in reader.take(sampled):
                if isinstance(event, TurnEnded):
                    if metrics.is_repetition:
                        event = event._replace(ending=Ending.REPETITION)
                    metrics.finish(event.reason, cached=event.usage.cached_tokens)
                yield event
            if reader.is_over:
                return
