"""The metrics of the server, for Prometheus; under vLLM's names as well, for its dashboards.

Each family of vLLM is one of the server's, with the label ``model_name``. Metrics of vLLM that only
an engine can measure, such as the use of its cache, are missing; vLLM itself has them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.registry import Collector

from ..conversation.messages import Message
from ..engines.engine import FinishReason
from ..grammar.errors import GrammarError
from ..parsing.recovery import Recovery
from .auth.limits import RequestUsage

# The names of vLLM


NAMES: dict[str, tuple[str, ...]] = {
    "harmony_running": ("num_requests_running",),
    "harmony_waiting": ("num_requests_waiting",),
    "harmony_prompt_tokens": ("prompt_tokens", "prefix_cache_queries"),
    "harmony_cached_tokens": ("prefix_cache_hits",),
    "harmony_completion_tokens": ("generation_tokens",),
    "harmony_completions": ("request_success",),
    "harmony_time_to_first_token_seconds": ("time_to_first_token_seconds",),
    "harmony_time_per_output_token_seconds": (
        "inter_token_latency_seconds",
        "request_time_per_output_token_seconds",
        "time_per_output_token_seconds",
    ),
    "harmony_queue_seconds": ("request_queue_time_seconds",),
    "harmony_prefill_seconds": ("request_prefill_time_seconds",),
    "harmony_decode_seconds": ("request_decode_time_seconds",),
    "harmony_completion_seconds": ("e2e_request_latency_seconds",),
    "harmony_completion_prompt_tokens": ("request_prompt_tokens",),
    "harmony_completion_output_tokens": (
        "request_generation_tokens",
        "request_max_num_generation_tokens",  # of the completions of one request: here the same
    ),
}
"""The names that vLLM has for the server's metrics, without ``vllm:``."""

_LABELS = {"reason": "finished_reason"}
_ENDED = {"cancelled": "abort", "repetition": "length"}  # vLLM's words for ends


class VllmNames(Collector):
    """Collects the metrics of a registry a second time, under vLLM's names."""

    def __init__(self, registry: CollectorRegistry, model: str) -> None:
        self._registry = registry
        self._model = model
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the registry must not collect while it registers this."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the families with vLLM's names."""
        suffixes = ("", "_total", "_created", "_bucket", "_sum", "_count")
        series = [f"{name}{suffix}" for name in NAMES for suffix in suffixes]
        known = self._registry.restricted_registry(series)
        for family in known.collect():
            for name in NAMES.get(family.name, ()):
                renamed = Metric(f"vllm:{name}", family.documentation, family.type)
                for sample in family.samples:
                    labels = {
                        _LABELS.get(label, label): _ENDED.get(value, value)
                        for label, value in sample.labels.items()
                    }
                    suffix = sample.name.removeprefix(family.name)
                    renamed.add_sample(
                        f"vllm:{name}{suffix}", {"model_name": self._model, **labels}, sample.value
                    )
                yield renamed


# A label has a series for each value, and clients write any keyword into a schema.
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
        self._registry = registry = CollectorRegistry()
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        waits = partial(Histogram, registry=registry, buckets=_WAITS)
        lengths = partial(Histogram, registry=registry, buckets=_LENGTHS)
        self.requests = counter(
            "harmony_requests",
            "Answered requests, by route and status.",
            ("method", "route", "status"),
        )
        self.completions = counter(
            "harmony_completions",
            "Completions by their end: stop, length, repetition (they ran in circles), cancelled "
            "(the client disconnected), error.",
            ("reason",),
        )
        self.preparation = waits(
            "harmony_preparation_seconds", "Time to render a prompt and to write its grammar."
        )
        self.queue = waits("harmony_queue_seconds", "Time that a completion waited for the engine.")
        self.first_token = waits(
            "harmony_time_to_first_token_seconds",
            "Time from the arrival of a completion to its first token.",
        )
        self.prefill = waits(
            "harmony_prefill_seconds",
            "Time from a completion's place at the engine to its first token.",
        )
        self.decode = waits("harmony_decode_seconds", "Time from the first to the last token.")
        self.next_tokens = Histogram(
            "harmony_time_per_output_token_seconds",
            "Average time between the tokens of a completion.",
            registry=registry,
            buckets=_STEPS,
        )
        self.completion_seconds = waits(
            "harmony_completion_seconds", "Time from the arrival of a completion to its end."
        )
        self.completion_prompt = lengths(
            "harmony_completion_prompt_tokens", "Tokens of the prompt of a completion."
        )
        self.completion_output = lengths(
            "harmony_completion_output_tokens", "Sampled tokens of a completion."
        )
        self.prompt_tokens = counter("harmony_prompt_tokens", "Tokens of prompts.")
        self.cached_tokens = counter(
            "harmony_cached_tokens", "Tokens of prompts from the engine's cache."
        )
        self.completion_tokens = counter("harmony_completion_tokens", "Sampled tokens.")
        self.reasoning_tokens = counter("harmony_reasoning_tokens", "Sampled tokens of reasoning.")
        self.recoveries = counter(
            "harmony_recoveries",
            "Repairs of output that does not follow the format, by kind.",
            ("kind",),
        )
        self._unenforced = counter(
            "harmony_unenforced_keywords",
            "Schema keywords that grammars leave out, by keyword.",
            ("keyword",),
        )
        self.refusals = counter(
            "harmony_grammar_refusals",
            "Requests refused because their schema cannot be enforced, by keyword.",
            ("keyword",),
        )
        self.violations = counter(
            "harmony_schema_violations", "Violations of schema keywords that grammars leave out."
        )
        self.ignored_fields = counter(
            "harmony_ignored_fields",
            "Unknown fields of requests, by name; further names are other.",
            ("field",),
        )
        self.tool_calls = counter(
            "harmony_tool_calls",
            "Calls of the server's own tools, by their end.",
            ("tool", "status"),
        )
        self.running = gauge("harmony_running", "Completions at the engine.")
        self.waiting = gauge("harmony_waiting", "Completions in the queue.")
        self.storage_refusals = counter(
            "harmony_storage_refusals",
            "Requests refused because their key has stored as much as it may.",
        )
        self.database_bytes = gauge(
            "harmony_database_bytes",
            "Bytes of the database, with what is free in it; measured once a minute.",
        )
        if vllm_model is not None:
            VllmNames(self._registry, vllm_model)

    def count_unenforced(self, errors: Iterable[GrammarError]) -> None:
        """Count the keywords that the grammar of a turn leaves out; unknown ones as ``other``."""
        for error in errors:
            self._unenforced.labels(keyword_of(error)).inc()

    def text(self) -> bytes:
        """Write the metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


def keyword_of(error: GrammarError) -> str:
    """Return the keyword that cannot be enforced; unknown keywords are ``other``.

    >>> keyword_of(GrammarError("", pointer="tools/functions.f#/uniqueItems"))
    'uniqueItems'
    """
    keyword = error.pointer.rpartition("/")[2]
    return keyword if keyword in _KEYWORDS else "other"


class CompletionMetrics:
    """Measures one completion, from the beginning of its wait for a slot to its end.

    A completion that has not finished when this exits counts as cancelled. `on_end` records the
    same values elsewhere, such as in a span of OpenTelemetry.
    """

    def __init__(
        self,
        metrics: Metrics,
        usage: RequestUsage,
        prompt_tokens: int,
        on_end: Callable[[CompletionMetrics], None] | None = None,
    ) -> None:
        self._metrics = metrics
        self._usage = usage
        self._on_end = on_end
        self._created = self._first = self._last = time.monotonic()
        self.prompt_tokens = prompt_tokens
        self.sampled = 0
        self.waited = 0.0  # seconds for its slot
        self.reason = "cancelled"
        self.is_repetition = False  # it was ended because it runs in circles
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

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
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
        if self._on_end is not None:
            self._on_end(self)

    def begin(self) -> None:
        """Note that the completion has its slot."""
        self._gauge.dec()
        self._gauge = self._metrics.running
        self._gauge.inc()
        self.waited = self.seconds
        self._metrics.queue.observe(self.waited)

    def count(self) -> None:
        """Count a sampled token."""
        self._last = time.monotonic()
        if not self.sampled:
            self._first = self._last
            self._metrics.first_token.observe(self._first - self._created)
            self._metrics.prompt_tokens.inc(self.prompt_tokens)
        self.sampled += 1

    def note_circles(self, period: int) -> None:
        """Note that the completion repeats its last `period` tokens, and is ended for it."""
        self.is_repetition = True
        fields = {"tokens": self.sampled, "period": period}
        _LOG.warning("a completion runs in circles", extra={"fields": fields})

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
        for recovery in recoveries:
            self._metrics.recoveries.labels(recovery.kind.value).inc()
