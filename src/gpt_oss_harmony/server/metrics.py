"""The metrics of the server, for Prometheus."""

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
    """The metrics of one application, in its own registry."""

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
        self.next_tokens = self._histogram(
            "harmony_time_per_output_token_seconds",
            "Average time between the tokens of a completion.",
            _STEPS,
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
        """Write the metrics of all workers together, in the text format of Prometheus."""
        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # the folder with the files of all workers
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(name, about, registry=self._registry, multiprocess_mode="livesum")

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, about, buckets=buckets, registry=self._registry)


def keyword_of(error: GrammarError) -> str:
    """Return the keyword that cannot be enforced; unknown keywords are ``other``.

    >>> keyword_of(GrammarError("", pointer="tools/functions.f#/uniqueItems"))
    'uniqueItems'
    """
    keyword = error.pointer.rpartition("/")[2]
    return keyword if keyword in _KEYWORDS else "other"
