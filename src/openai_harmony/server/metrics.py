"""What a server counts and measures, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ..parsing.recovery import Recovery
from .admission import Admission

__all__ = ["Metrics"]

_WAITS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)  # seconds
_STEPS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    """The numbers of one application, in a registry of its own."""

    def __init__(self, admission: Admission) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "harmony_requests",
            "Answered requests, by route and status.",
            ("method", "route", "status"),
            registry=registry,
        )
        self.completions = Counter(
            "harmony_completions",
            "Completions, by how they ended: stop, length, cancelled (the client left), error.",
            ("reason",),
            registry=registry,
        )
        self.preparation = self._histogram(
            "harmony_preparation_seconds", "To render a prompt, and to write its grammar.", _WAITS
        )
        self.queue = self._histogram(
            "harmony_queue_seconds", "That a completion waited for its place at the engine.", _WAITS
        )
        self.first_token = self._histogram(
            "harmony_time_to_first_token_seconds",
            "From when a completion asked for its place to its first token.",
            _WAITS,
        )
        self.next_tokens = self._histogram(
            "harmony_time_per_output_token_seconds",
            "Between the tokens of a completion, on average.",
            _STEPS,
        )
        self.prompt_tokens = self._counter("harmony_prompt_tokens", "Tokens of prompts.")
        self.cached_tokens = self._counter(
            "harmony_cached_tokens", "Those of prompts that the engine had in its cache."
        )
        self.completion_tokens = self._counter("harmony_completion_tokens", "Sampled tokens.")
        self.reasoning_tokens = self._counter(
            "harmony_reasoning_tokens", "Sampled tokens of reasoning."
        )
        self._recoveries = Counter(
            "harmony_recoveries",
            "Repairs of what models wrote against the format, by kind.",
            ("kind",),
            registry=registry,
        )
        self._tool_calls = Counter(
            "harmony_tool_calls",
            "Calls of the server's own tools, by how they ended.",
            ("tool", "status"),
            registry=registry,
        )
        self._gauge("harmony_running", "Completions at the engine.").set_function(
            lambda: admission.running
        )
        self._gauge("harmony_waiting", "Completions in the queue before it.").set_function(
            lambda: admission.waiting
        )

    def count_recoveries(self, recoveries: Iterable[Recovery]) -> None:
        """Count the repairs of one completion."""
        for recovery in recoveries:
            self._recoveries.labels(recovery.kind.value).inc()

    def count_tool_call(self, tool: str, status: str) -> None:
        """Count a call of the server's own tool, by the tool's name."""
        self._tool_calls.labels(tool, status).inc()

    def text(self) -> bytes:
        """Write all numbers, in the text format of Prometheus."""
        return generate_latest(self._registry)

    def _counter(self, name: str, about: str) -> Counter:
        return Counter(name, about, registry=self._registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(name, about, registry=self._registry)

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, about, buckets=buckets, registry=self._registry)
