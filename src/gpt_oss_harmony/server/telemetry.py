"""Traces and metrics of OpenTelemetry, by its conventions for HTTP servers and generative AI.

Each request is a span; below it, each completion and each call of a server tool is a span. No span
contains text of a conversation, unless the server's settings allow it. The names are those of the
GenAI conventions in their own repository (status: development), which builds on version 1.42 of the
general conventions. Other attributes begin with ``harmony.``. This module is imported only if
telemetry is on.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from opentelemetry import context, metrics, propagate, trace
from opentelemetry.metrics import Histogram, MeterProvider
from opentelemetry.trace import Span, SpanKind, StatusCode, TracerProvider
from starlette.types import Scope

from .. import __version__
from ..apis.wire_events import json_text
from ..conversation.content import TextContent
from ..conversation.messages import Message, Role
from ..conversation.tool_namespaces import namespace_of
from ..engines.engine import SampledToken, Sampling
from ..engines.http_client import OUTGOING_HEADERS
from ..grammar.errors import GrammarError
from .logs import ANSWER_IDS
from .metrics import CompletionMetrics, keyword_of

Operation: TypeAlias = Literal["chat", "text_completion"]

_PROVIDER = "harmony"  # the conventions have no name for such a server
_MAX_NAME = 100  # characters of the name of a tool, which the model wrote

# The bounds of histograms, as the conventions advise them for each metric.
_REQUESTS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_OPERATIONS = tuple(0.01 * 2**power for power in range(14))
_FIRST_TOKENS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1),
    *(0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10),
)
_NEXT_TOKENS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5)
_TOKENS = tuple(4**power for power in range(14))


class Telemetry:
    """Makes the spans and metrics of one server.

    The default providers are those that the program has set for OpenTelemetry.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self.tracer = trace.get_tracer("gpt_oss_harmony", __version__, tracer_provider)
        self._meter = metrics.get_meter("gpt_oss_harmony", __version__, meter_provider)
        self.http_duration = self._histogram("http.server.request.duration", "s", _REQUESTS)
        self.duration = self._histogram("gen_ai.server.request.duration", "s", _OPERATIONS)
        self.first_token = self._histogram("gen_ai.server.time_to_first_token", "s", _FIRST_TOKENS)
        self.next_tokens = self._histogram("gen_ai.server.time_per_output_token", "s", _NEXT_TOKENS)
        # The conventions count tokens at clients only; they have no such metric for servers.
        self.tokens = self._histogram("gen_ai.client.token.usage", "{token}", _TOKENS)
        self.tool_duration = self._histogram("gen_ai.execute_tool.duration", "s", _OPERATIONS)
        self.recoveries = self._meter.create_counter(
            "harmony.recoveries", "{repair}", "Repairs of output that does not follow the format."
        )
        self.refusals = self._meter.create_counter(
            "harmony.grammar.refusals", "{request}", "Requests whose schema cannot be enforced."
        )

    def _histogram(self, name: str, unit: str, bounds: Sequence[float]) -> Histogram:
        return self._meter.create_histogram(name, unit, explicit_bucket_boundaries_advisory=bounds)

    @contextmanager
    def request(
        self, method: str, scope: Scope, headers: Mapping[str, str]
    ) -> Generator[RequestSpan, None, None]:
        """Make the span of a request, below that of its client; it is current until this ends."""
        parent = propagate.extract(headers)
        attributes = {
            # `_OTHER` is the conventions' word for a method that they do not know.
            "http.request.method": method.upper() if method != "other" else "_OTHER",
            "url.scheme": scope.get("scheme", "http"),
            "network.protocol.version": scope.get("http_version", "1.1"),
        }
        span = self.tracer.start_span(
            method, parent, kind=SpanKind.SERVER, attributes=attributes, record_exception=False
        )
        current = context.attach(trace.set_span_in_context(span, parent))
        # For requests to the engine outside a completion, such as health checks.
        OUTGOING_HEADERS.set(_headers_of(span))
        try:
            yield RequestSpan(self, span, attributes)
        finally:
            context.detach(current)
            span.end()

    def completion(self, operation: Operation, model: str, sampling: Sampling) -> CompletionSpan:
        """Begin the span of a completion, below the current one."""
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": _PROVIDER,
            "gen_ai.request.model": model,
            "gen_ai.response.model": model,
        }
        settings = {
            "gen_ai.request.max_tokens": sampling.max_tokens,
            "gen_ai.request.temperature": sampling.temperature,
            "gen_ai.request.top_p": sampling.top_p,
            "gen_ai.request.top_k": sampling.top_k or None,
            "gen_ai.request.seed": sampling.seed,
            "gen_ai.request.frequency_penalty": sampling.frequency_penalty,
            "gen_ai.request.presence_penalty": sampling.presence_penalty,
            "harmony.grammar": sampling.grammar is not None,
        }
        given = {name: value for name, value in settings.items() if value is not None}
        span = self.tracer.start_span(
            f"{operation} {model}",
            kind=SpanKind.CLIENT,
            attributes={**attributes, **given, **ANSWER_IDS.get()},
        )
        return CompletionSpan(self, span, attributes)

    @contextmanager
    def tool_call(self, recipient: str) -> Generator[ToolSpan, None, None]:
        """Make the span of a tool call; it is current and passed on to MCP servers."""
        name = recipient[:_MAX_NAME]
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "extension",
        }
        begun = time.perf_counter()
        with self.tracer.start_as_current_span(
            f"execute_tool {name}",
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            call = ToolSpan()
            try:
                yield call
            finally:
                # The model writes the name of a function, and a metric must not have many names.
                measured = {**attributes, "gen_ai.tool.name": namespace_of(name)}
                if call.status != "completed":
                    _set_error(span, measured, call.status)
                self.tool_duration.record(time.perf_counter() - begun, measured)

    def refused(self, error: GrammarError) -> None:
        """Record in the current span that a schema cannot be enforced."""
        keyword = keyword_of(error)
        trace.get_current_span().set_attribute("harmony.grammar.refused", keyword)
        self.refusals.add(1, {"harmony.keyword": keyword})


@dataclass
class ToolSpan:
    """A running tool call; set `status` to that of its item at the end."""

    status: str = "cancelled"


class RequestSpan:
    """The span of a request."""

    def __init__(self, telemetry: Telemetry, span: Span, attributes: dict[str, Any]) -> None:
        self._telemetry = telemetry
        self._span = span
        self._attributes = attributes

    @property
    def trace_id(self) -> str:
        """The id of the trace, as backends show it; empty if nothing is recorded."""
        found = self._span.get_span_context()
        return trace.format_trace_id(found.trace_id) if found.is_valid else ""

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Record the response; `route` is ``other`` if there is no route."""
        ended: dict[str, Any] = {"http.response.status_code": status}
        if route != "other":
            ended["http.route"] = route
            self._span.update_name(f"{self._attributes['http.request.method']} {route}")
        if status >= 500:
            _set_error(self._span, ended, str(status))
        self._span.set_attributes(ended)
        self._telemetry.http_duration.record(seconds, {**self._attributes, **ended})


class CompletionSpan:
    """The span of a completion, from the beginning of its wait for a slot to its end."""

    def __init__(self, telemetry: Telemetry, span: Span, attributes: dict[str, Any]) -> None:
        self._telemetry = telemetry
        self._span = span
        self._attributes = attributes

    async def traced(
        self, stream: AsyncGenerator[SampledToken, None]
    ) -> AsyncGenerator[SampledToken, None]:
        """Yield the tokens of a stream whose requests to other servers belong to this span.

        Those requests are sent before the first token. A generator must not change the context of
        its caller, so only this step runs with the headers.
        """
        async with aclosing(stream):
            reset = OUTGOING_HEADERS.set(_headers_of(self._span))
            try:
                first = await anext(stream, None)
            finally:
                OUTGOING_HEADERS.reset(reset)
            if first is None:
                return
            yield first
            async for sampled in stream:
                yield sampled

    def end(self, measures: CompletionMetrics) -> None:
        """Record the outcome of the completion and end the span."""
        telemetry, attributes = self._telemetry, self._attributes
        repairs = Counter(recovery.kind.value for recovery in measures.recoveries)
        self._span.set_attributes(
            {
                "gen_ai.response.finish_reasons": [measures.reason],
                "gen_ai.usage.input_tokens": measures.prompt_tokens,
                "gen_ai.usage.output_tokens": measures.sampled,
                "gen_ai.usage.cache_read.input_tokens": measures.cached,
                "gen_ai.usage.reasoning.output_tokens": measures.reasoning,
                "harmony.queue.seconds": measures.waited,
                "harmony.recoveries": repairs.total(),
                "harmony.recovery.kinds": sorted(repairs),
                "harmony.grammar.unenforced": sorted(map(keyword_of, measures.unenforced)),
                "harmony.schema.violations": measures.violations,
            }
        )
        if measures.said is not None:
            prompt, answer = measures.said
            self._span.set_attributes(
                {
                    "gen_ai.input.messages": _messages_json(prompt),
                    "gen_ai.output.messages": _messages_json(answer, finish_reason=measures.reason),
                }
            )
        for kind, count in repairs.items():
            telemetry.recoveries.add(count, {"harmony.recovery.kind": kind})
        ended = dict(attributes)
        if measures.error is not None:
            _set_error(self._span, ended, type(measures.error).__name__)
        telemetry.duration.record(measures.seconds, ended)
        if measures.first is not None:
            self._span.set_attribute("gen_ai.response.time_to_first_chunk", measures.first)
            telemetry.first_token.record(measures.first, attributes)
            for kind, tokens in (
                ("input", measures.prompt_tokens),
                ("output", measures.sampled),
            ):
                telemetry.tokens.record(tokens, {**attributes, "gen_ai.token.type": kind})
        if measures.per_token is not None:
            telemetry.next_tokens.record(measures.per_token, attributes)
        self._span.end()


def _messages_json(messages: Iterable[Message], **more: str) -> str:
    """Write messages in the form of the conventions; what the format alone has becomes text."""
    return json_text(
        [
            {"role": message.author.role.value, "parts": [_part(message)], **more}
            for message in messages
        ]
    )


def _part(message: Message) -> dict[str, Any]:
    text = "".join(
        item.text if isinstance(item, TextContent) else json_text(item.to_dict())
        for item in message.content
    )
    if message.author.role is Role.TOOL:
        return {"type": "tool_call_response", "response": text}
    if message.recipient is not None:
        return {"type": "tool_call", "name": message.recipient, "arguments": text}
    return {"type": "reasoning" if message.channel == "analysis" else "text", "content": text}


def _headers_of(span: Span) -> dict[str, str]:
    headers: dict[str, str] = {}
    propagate.inject(headers, trace.set_span_in_context(span))
    return headers


def _set_error(span: Span, attributes: dict[str, Any], kind: str) -> None:
    """Mark a span as failed; its metric gets the type of the error, too."""
    attributes["error.type"] = kind
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)
