"""The numbers of one completion, from when it asks for its place to its end."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from types import TracebackType

from ...engines.engine import FinishReason, SampledToken
from ...parsing.recovery import Recovery
from ..keys.use import KeyUse
from ..metrics import Metrics

__all__ = ["CompletionTally"]


class CompletionTally:
    """Counts while it is entered; a completion that has not ended by then was cancelled."""

    def __init__(self, metrics: Metrics, use: KeyUse, prompt_length: int) -> None:
        self._metrics = metrics
        self._use = use
        self._prompt_length = prompt_length
        self._reason = "cancelled"
        self._asked = self._first = self._last = time.monotonic()
        self._sampled = 0

    def __enter__(self) -> CompletionTally:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        is_error = isinstance(error, Exception)
        self._metrics.completions.labels("error" if is_error else self._reason).inc()
        self._metrics.completion_tokens.inc(self._sampled)
        if self._sampled:
            self._use.tokens += self._prompt_length + self._sampled
        if self._sampled > 1:
            seconds = (self._last - self._first) / (self._sampled - 1)
            self._metrics.next_tokens.observe(seconds)

    def has_place(self) -> None:
        """Note that the wait is over."""
        self._metrics.queue.observe(time.monotonic() - self._asked)

    async def follow(
        self, stream: AsyncGenerator[SampledToken, None]
    ) -> AsyncGenerator[SampledToken, None]:
        """Pass tokens on, and count them; closing it closes the stream."""
        async with aclosing(stream):
            async for sampled in stream:
                self._last = time.monotonic()
                if not self._sampled:
                    self._note_first()
                self._sampled += 1
                yield sampled

    def ended(
        self,
        reason: FinishReason,
        *,
        cached: int = 0,
        reasoning: int = 0,
        recoveries: Sequence[Recovery] = (),
    ) -> None:
        """Note that all of it was sampled; `cached` and `reasoning` are numbers of tokens."""
        self._reason = reason.value
        self._metrics.cached_tokens.inc(cached)
        self._metrics.reasoning_tokens.inc(reasoning)
        self._metrics.count_recoveries(recoveries)

    def _note_first(self) -> None:
        self._first = self._last
        self._metrics.first_token.observe(self._first - self._asked)
        self._metrics.prompt_tokens.inc(self._prompt_length)
