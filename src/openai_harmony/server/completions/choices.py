"""The choices of a Completions request: what is continued, and the pieces of all as one stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from ...encoding import load_harmony_encoding
from ...engines.errors import ContextLengthError, EngineError
from ...engines.sampling import Sampling
from ...tokens.special_tokens import SPECIAL_TEXTS, VOCABULARY_SIZE
from ..api_error import ApiError
from ..keys.caller import Caller
from ..keys.use import KeyUse, key_use
from ..services import Services
from ..turns.engine_place import engine_place
from ..turns.merged import merged
from ..turns.seeds import with_seed_of
from .body import CompletionBody
from .text import CompletionPiece, CompletionText

__all__ = ["ChoicePlan", "choice_plans", "sampled_choices"]


class ChoicePlan(NamedTuple):
    """A choice before it is sampled: its prompt as tokens, and what is echoed of it."""

    at: int
    prompt: list[int]
    echo: str = ""


def choice_plans(body: CompletionBody) -> list[ChoicePlan]:
    """Encode the prompts; each is that of several choices, one after the other."""
    plans: list[ChoicePlan] = []
    for prompt in body.prompt:
        tokens, echo = _encoded(prompt, body)
        for _ in range(body.n or 1):
            plans.append(ChoicePlan(len(plans), tokens, echo if body.echo else ""))
    return plans


def _encoded(prompt: str | list[int], body: CompletionBody) -> tuple[list[int], str]:
    """Return the tokens of a prompt, and how it is echoed."""
    encoding = load_harmony_encoding("HarmonyGptOss")
    if isinstance(prompt, str):
        return encoding.encode(prompt, allowed_special="all"), prompt
    unknown = next((token for token in prompt if token >= VOCABULARY_SIZE), None)
    if unknown is not None:
        problem = f"the token {unknown} is outside the vocabulary (0 to {VOCABULARY_SIZE - 1})"
        raise ApiError(400, problem, param="prompt", code="invalid_value")
    shown = prompt
    if not body.shows_special_tokens:
        shown = [token for token in prompt if token not in SPECIAL_TEXTS]
    return prompt, encoding.decode(shown)


async def sampled_choices(
    services: Services, caller: Caller, body: CompletionBody, plans: list[ChoicePlan]
) -> AsyncGenerator[tuple[int, CompletionPiece], None]:
    """Sample all choices at once; a request is refused as a whole, or not at all."""
    sampling, count = body.sampling(), body.n or 1
    with key_use(services, caller) as use:
        choices = [
            _choice(services, use, body, plan, with_seed_of(sampling, plan.at % count))
            for plan in plans
        ]
        async with aclosing(merged(choices)) as pieces:
            try:
                async for piece in pieces:
                    yield piece
            except ContextLengthError as error:
                raise ApiError.of(error, prompt_field="prompt") from error


async def _choice(
    services: Services, use: KeyUse, body: CompletionBody, plan: ChoicePlan, sampling: Sampling
) -> AsyncGenerator[CompletionPiece, None]:
    reader = CompletionText(body, start=len(plan.echo))
    is_first = plan.at == 0
    place = engine_place(services, use, plan.prompt, sampling, is_first=is_first)
    async with place as (tokens, tally):
        async for sampled in tokens:
            piece = reader.take(sampled)
            if piece.finish is not None:
                tally.ended(piece.finish, cached=piece.cached_tokens)
            yield piece
            if piece.finish is not None:
                return
        raise EngineError("the engine ended a completion without a reason", retryable=True)
