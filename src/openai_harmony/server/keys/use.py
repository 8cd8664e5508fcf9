"""One request as it counts towards the limits of its API key."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from ..api_error import ApiError
from ..services import Services
from .caller import Caller

__all__ = ["KeyUse", "key_use"]


@dataclass
class KeyUse:
    """What a request has used so far: `tokens` of prompts and answers."""

    tokens: int = 0


@contextmanager
def key_use(services: Services, caller: Caller) -> Generator[KeyUse, None, None]:
    """Count a request as long as it runs; raise `ApiError` where its key may not make another."""
    refusal = services.limiter.begin(caller.owner, caller.limits)
    if refusal is not None:
        raise ApiError(
            429,
            refusal.problem,
            kind="rate_limit_error",
            code="rate_limit_exceeded",
            retry_after=refusal.retry_after,
        )
    use = KeyUse()
    try:
        yield use
    finally:
        services.limiter.end(caller.owner, caller.limits, use.tokens)
