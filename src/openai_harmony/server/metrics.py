"""Metrics of the server, as Prometheus reads them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from ..grammar.errors import GrammarError
from ..parsing.recovery import Recovery

__all__ = ["Metrics", "keyword_of"]

_KEYWORDS = {"not", "oneOf", "if", "contains", "uniqueItems", "pattern", "format", "propertyNames"}
_KEYWORDS |= {"dependencies", "dependentRequired", "dependentSchemas", "unevaluatedProperties"}
_WAITS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)  # seconds
_STEPS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    """The numbers of one application, in a registry of its own."""

    def __init__(self) -> None:
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
        self.prompt_tokens = Counter(
            "harmony_prompt_tokens", "Tokens of prompts.", registry=registry
        )
        self.cached_tokens = Counter(
            "harmony_cached_tokens",
            "Those of prompts that the engine had in its cache.",
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
            "Repairs of what models wrote against the format, by kind.",
            ("kind",),
            registry=registry,
        )
        self._unenforced = Counter(
            "harmony_unenforced_keywords",
            "Keywords of schemas that grammars leave out, by keyword.",
            ("keyword",),
            registry=registry,
        )
        self._refusals = Counter(
            "harmony_grammar_refusals",
            "Requests that were refused as their schema cannot be enforced, by keyword.",
            ("keyword",),
            registry=registry,
        )
        self.violations = Counter(
            "harmony_schema_violations",
            "What models wrote against keywords that grammars leave out.",
            registry=registry,
        )
        self._tool_calls = Counter(
            "harmony_tool_calls",
            "Calls of the server's own tools, by how they ended.",
            ("tool", "status"),
            registry=registry,
        )
        self.running = self._gauge("harmony_running", "Completions at the engine.")
        self.waiting = self._gauge("harmony_waiting", "Completions in the queue before it.")

    def count_recoveries(self, recoveries: Iterable[Recovery]) -> None:
        """Count the repairs of one completion."""
        for recovery in recoveries:
            self._recoveries.labels(recovery.kind.value).inc()

    def count_unenforced(self, errors: Iterable[GrammarError]) -> None:
        """Count the keywords that the grammar of a turn leaves out; unknown ones as ``other``."""
        for error in errors:
            self._unenforced.labels(keyword_of(error)).inc()

    def count_refusal(self, error: GrammarError) -> None:
        """Count a request whose schema cannot be enforced, by the keyword that is refused."""
        self._refusals.labels(keyword_of(error)).inc()

    def count_tool_call(self, tool: str, status: str) -> None:
        """Count a call of the server's own tool, by the tool's name."""
        self._tool_calls.labels(tool, status).inc()

    def text(self) -> bytes:
        """Write all numbers, in the text format of Prometheus: those of all workers together."""
        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # the files of all of them are there
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(name, about, registry=self._registry, multiprocess_mode="livesum")

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, about, buckets=buckets, registry=self._registry)


def keyword_of(error: GrammarError) -> str:
    """Return the keyword at which a schema cannot be enforced; unknown ones are ``other``.

    >>> keyword_of(GrammarError("", pointer="tools/functions.f#/uniqueItems"))
    'uniqueItems'
    """
    keyword = error.pointer.rpartition("/")[2]
    return keyword if keyword in _KEYWORDS else "other"
