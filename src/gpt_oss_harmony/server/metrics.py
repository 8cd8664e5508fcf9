"""The metrics of the server, for Prometheus."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ..conversation.messages import Message
from ..engines.engine import EngineError, FinishReason, SampledToken
from ..engines.repetition import RepetitionDetector
from ..grammar.errors import GrammarError
from ..parsing.recovery import Recovery
from .auth.limits import RequestUsage
from .vllm_metrics import VllmNames

_KEYWORDS = {"not", "oneOf", "if", "contains", "uniqueItems", "pattern", "format", "propertyNames"}
_KEYWORDS |= {"dependencies", "dependentRequired", "dependentSchemas", "unevaluatedProperties"}
_WAITS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)  # seconds
_LENGTHS = (1, 10, 100, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)  # tokens
_STEPS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


_LOG = logging.getLogger(__name__)


class Metrics:
    """The metrics of one application, in its own registry.

    With the name of a model as `vllm_model`, they have vLLM's names as well.
    """

    def __init__(self, vllm_model: str | None = None) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "harmony_requests",
            "Answered requests, by route and status.",
            ("method", "route", "status"),
            registry=registry,
        )
        self.completions = Counter(
            "harmony_completions",
            "Completions by their end: stop, length, repetition (they ran in circles), cancelled "
            "(the client disconnected), error.",
            ("reason",),
            registry=registry,
        )
        self.preparation = self._histogram(
            "harmony_preparation_seconds",
            "Time to render a prompt and to write its grammar.",
            _WAITS,
        )
        self.queue = self._histogram(
            "harmony_queue_seconds", "Time that a completion waited for the engine.", _WAITS
        )
        self.first_token = self._histogram(
            "harmony_time_to_first_token_seconds",
            "Time from the arrival of a completion to its first token.",
            _WAITS,
        )
        self.prefill = self._histogram(
            "harmony_prefill_seconds",
            "Time from a completion's place at the engine to its first token.",
            _WAITS,
        )
        self.decode = self._histogram(
            "harmony_decode_seconds", "Time from the first to the last token.", _WAITS
        )
        self.next_tokens = self._histogram(
            "harmony_time_per_output_token_seconds",
            "Average time between the tokens of a completion.",
            _STEPS,
        )
        self.completion_seconds = self._histogram(
            "harmony_completion_seconds",
            "Time from the arrival of a completion to its end.",
            _WAITS,
        )
        self.completion_prompt = self._histogram(
            "harmony_completion_prompt_tokens", "Tokens of the prompt of a completion.", _LENGTHS
        )
        self.completion_output = self._histogram(
            "harmony_completion_output_tokens", "Sampled tokens of a completion.", _LENGTHS
        )
        self.prompt_tokens = Counter(
            "harmony_prompt_tokens", "Tokens of prompts.", registry=registry
        )
        self.cached_tokens = Counter(
            "harmony_cached_tokens",
            "Tokens of prompts from the engine's cache.",
            registry=registry,
        )
        self.completion_tokens = Counter(
            "harmony_completion_tokens", "Sampled tokens.", registry=registry
        )
        self.reasoning_tokens = Counter(
            "harmony_reasoning_tokens", "Sampled tokens of reasoning.", registry=registry
        )
        self._recoveries = Counter(
            "harmony_recoveries",
            "Repairs of output that does not follow the format, by kind.",
            ("kind",),
            registry=registry,
        )
        self._unenforced = Counter(
            "harmony_unenforced_keywords",
            "Schema keywords that grammars leave out, by keyword.",
            ("keyword",),
            registry=registry,
        )
        self._refusals = Counter(
            "harmony_grammar_refusals",
            "Requests refused because their schema cannot be enforced, by keyword.",
            ("keyword",),
            registry=registry,
        )
        self.violations = Counter(
            "harmony_schema_violations",
            "Violations of schema keywords that grammars leave out.",
            registry=registry,
        )
        self.ignored_fields = Counter(
            "harmony_ignored_fields",
            "Unknown fields of requests, by name; further names are other.",
            ("field",),
            registry=registry,
        )
        self._tool_calls = Counter(
            "harmony_tool_calls",
            "Calls of the server's own tools, by their end.",
            ("tool", "status"),
            registry=registry,
        )
        self.running = self._gauge("harmony_running", "Completions at the engine.")
        self.waiting = self._gauge("harmony_waiting", "Completions in the queue.")

        self.storage_refusals = Counter(
            "harmony_storage_refusals",
            "Requests refused because their key has stored as much as it may.",
            registry=registry,
        )
        self.database_bytes = Gauge(
            "harmony_database_bytes",
            "Bytes of the database, with what is free in it; measured once a minute.",
            registry=registry,
        )

        if vllm_model is not None:
            VllmNames(registry, vllm_model)

    def count_recoveries(self, recoveries: Iterable[Recovery]) -> None:
        """Count the repairs of one completion."""
        for recovery in recoveries:
            self._recoveries.labels(recovery.kind.value).inc()

    def count_unenforced(self, errors: Iterable[GrammarError]) -> None:
        """Count the keywords that the grammar of a turn leaves out; unknown ones as ``other``."""
        for error in errors:
            self._unenforced.labels(keyword_of(error)).inc()

    def count_refusal(self, error: GrammarError) -> None:
        """Count a request whose schema cannot be enforced, by the unenforceable keyword."""
        self._refusals.labels(keyword_of(error)).inc()

    def count_tool_call(self, tool: str, status: str) -> None:
        """Count a call of the server's own tool, by the tool's name."""
        self._tool_calls.labels(tool, status).inc()

    def text(self) -> bytes:
        """Write the metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(name, about, registry=self._registry)

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, about, buckets=buckets, registry=self._registry)


def keyword_of(error: GrammarError) -> str:
    """Return the keyword that cannot be enforced; unknown keywords are ``other``.

    >>> keyword_of(GrammarError("", pointer="tools/functions.f#/uniqueItems"))
    'uniqueItems'
    """
    keyword = error.pointer.rpartition("/")[2]
    return keyword if keyword in _KEYWORDS else "other"


class _Span(Protocol):
    """A record of a completion elsewhere, such as a span of OpenTelemetry."""

    def end(self, completion: CompletionMetrics) -> None: ...


class CompletionMetrics:
    """Measures one completion, from the beginning of its wait for a slot to its end.

    A completion that has not finished when this exits counts as cancelled. `span` records the same
    values for OpenTelemetry.
    """

    def __init__(
        self,
        metrics: Metrics,
        usage: RequestUsage,
        prompt_tokens: int,
        span: _Span | None = None,
        detector: RepetitionDetector | None = None,
    ) -> None:
        self._detector = detector
        self._metrics = metrics
        self._usage = usage
        self._span = span
        self._created = self._first = self._last = time.monotonic()
        self.prompt_tokens = prompt_tokens
        self.sampled = 0
        self.waited = 0.0  # seconds for its slot
        self.reason = "cancelled"
        self.is_repetition = False  # the detector has ended it
        self.error: Exception | None = None
        self.cached = 0
        self.reasoning = 0
        self.recoveries: Sequence[Recovery] = ()
        self.unenforced: Sequence[GrammarError] = ()
        self.violations = 0
        self.said: tuple[Sequence[Message], Sequence[Message]] | None = None
        """The messages of the prompt and of the answer, if spans may have them."""
        self._gauge = metrics.waiting

    @property
    def seconds(self) -> float:
        """The seconds since the completion began to wait for its slot."""
        return time.monotonic() - self._created

    @property
    def first(self) -> float | None:
        """The seconds to the first token; None without tokens."""
        return self._first - self._created if self.sampled else None

    @property
    def per_token(self) -> float | None:
        """The average seconds between tokens; None if there is at most one token."""
        return (self._last - self._first) / (self.sampled - 1) if self.sampled > 1 else None

    def __enter__(self) -> CompletionMetrics:
        self._gauge.inc()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._gauge.dec()
        if isinstance(error, Exception):
            self.error, self.reason = error, "error"
        self._metrics.completions.labels(self.reason).inc()
        self._metrics.completion_tokens.inc(self.sampled)
        self._metrics.completion_seconds.observe(self.seconds)
        if self.sampled:
            self._metrics.prefill.observe(self._first - self._created - self.waited)
            self._metrics.decode.observe(self._last - self._first)
            self._metrics.completion_prompt.observe(self.prompt_tokens)
            self._metrics.completion_output.observe(self.sampled)
            self._usage.tokens += self.prompt_tokens + self.sampled
        if self.per_token is not None:
            self._metrics.next_tokens.observe(self.per_token)
        if self._span is not None:
            self._span.end(self)

    def begin(self) -> None:
        """Note that the completion has its slot."""
        self._gauge.dec()
        self._gauge = self._metrics.running
        self._gauge.inc()
        self.waited = self.seconds
        self._metrics.queue.observe(self.waited)

    async def follow(
        self, stream: AsyncGenerator[SampledToken, None]
    ) -> AsyncGenerator[SampledToken, None]:
        """Yield and count the tokens of a stream; closing this closes the stream.

        If the completion runs in circles, its last token gets the finish reason ``length``. The
        reader stops at the token with the finish reason. Raises `EngineError` for a stream without
        one.
        """
        async with aclosing(stream):
            async for sampled in stream:
                self._last = time.monotonic()
                if not self.sampled:
                    self._first = self._last
                    self._metrics.first_token.observe(self._first - self._created)
                    self._metrics.prompt_tokens.inc(self.prompt_tokens)
                self.sampled += 1
                period = 0 if self._detector is None else self._detector.take(sampled.token)
                if period and sampled.finish_reason is None:
                    self.is_repetition = True
                    fields = {"tokens": self.sampled, "period": period}
                    _LOG.warning("a completion runs in circles", extra={"fields": fields})
                    sampled = sampled._replace(finish_reason=FinishReason.LENGTH)
                yield sampled
        raise EngineError("the engine ended a completion without a finish reason", retryable=True)

    def finish(
        self,
        reason: FinishReason,
        *,
        cached: int = 0,
        reasoning: int = 0,
        recoveries: Sequence[Recovery] = (),
        unenforced: Sequence[GrammarError] = (),
        violations: int = 0,
    ) -> None:
        """Record the end of the completion; `cached` and `reasoning` are numbers of tokens."""
        self.reason = "repetition" if self.is_repetition else reason.value
        self.cached, self.reasoning = cached, reasoning
        self.recoveries, self.unenforced, self.violations = recoveries, unenforced, violations
        self._metrics.cached_tokens.inc(cached)
        self._metrics.reasoning_tokens.inc(reasoning)
        self._metrics.count_recoveries(recoveries)
