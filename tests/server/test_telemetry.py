"""Traces and metrics of OpenTelemetry: what is in them, where they go, and that it can be off."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from gpt_oss_harmony.engines import Engine, VllmEngine
from gpt_oss_harmony.server import Settings, create_app
from gpt_oss_harmony.server.exporters import TelemetryError, exported_telemetry
from gpt_oss_harmony.server.telemetry import Telemetry
from gpt_oss_harmony.tools.mcp import McpAddress, McpTool
from gpt_oss_harmony.tools.tool import Tool
from support.chat_server import CALL, FINAL, HI, NOW, THINK, TellingEngine
from support.engine_servers import VllmStandIn
from support.local_client import LocalClient
from support.responses_server import PATH, answer
from support.scripted_engine import ENCODING, ScriptedEngine
from support.server_tools import COMPUTE, PretendedPython, RoomyEngine, compute
from support.server_tools import answer as said

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
FROM_A_CLIENT = {"traceparent": f"00-{TRACE}-{PARENT}-01"}

STRICT = {
    "type": "json_schema",
    "json_schema": {
        "name": "odd",
        "strict": True,
        "schema": {"type": "array", "items": {}, "uniqueItems": True},
    },
}


@dataclass
class Recorded:
    """What one server records."""

    spans_exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)

    def telemetry(self) -> Telemetry:
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.spans_exporter))
        return Telemetry(tracers, MeterProvider([self.reader]))

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.spans_exporter.get_finished_spans()}

    @property
    def metrics(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@contextmanager
def recorded(
    engine: Engine, *tools: Tool[Any], **settings: Any
) -> Iterator[tuple[TestClient, Recorded]]:
    found = Recorded()
    app = create_app(engine, Settings(**settings), tools, telemetry=found.telemetry())
    with LocalClient(app, raise_server_exceptions=False) as client:
        yield client, found


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    assert span.attributes is not None
    return span.attributes


def parent_of(span: ReadableSpan) -> str:
    return "" if span.parent is None else format_span_id(span.parent.span_id)


def own_id(span: ReadableSpan) -> str:
    assert span.context is not None
    return format_span_id(span.context.span_id)


def test_a_request_and_its_completion_are_spans_of_the_clients_trace() -> None:
    engine = TellingEngine(THINK + FINAL)
    with recorded(engine) as (client, found):
        body = {"messages": HI, "temperature": 0.5, "seed": 7, "max_tokens": 90}
        assert client.post("/v1/chat/completions", json=body, headers=FROM_A_CLIENT).is_success
        request, completion = found.spans["POST /v1/chat/completions"], found.spans["chat script"]
        metrics = found.metrics
    for span in (request, completion):
        assert span.context is not None
        assert format_trace_id(span.context.trace_id) == TRACE
    assert parent_of(request) == PARENT
    assert parent_of(completion) == own_id(request)
    assert (request.kind, completion.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    assert attributes(request) == {
        "http.request.method": "POST",
        "url.scheme": "http",
        "network.protocol.version": "1.1",
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
    }
    prompt = len(ENCODING.encode(engine.prompts[0], allowed_special="all"))
    sampled = len(ENCODING.encode(THINK + FINAL, allowed_special="all"))
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "harmony",
        "gen_ai.request.model": "script",
        "gen_ai.response.model": "script",
        "gen_ai.request.max_tokens": 90,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.seed": 7,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": prompt,
        "gen_ai.usage.output_tokens": sampled,
        "gen_ai.usage.cache_read.input_tokens": prompt // 2,
        "harmony.grammar": False,
        "harmony.recoveries": 0,
    }
    assert expected.items() <= attributes(completion).items()
    assert attributes(completion)["gen_ai.usage.reasoning.output_tokens"] > 0
    assert {point.attributes["gen_ai.token.type"]: point.sum for point in metrics[TOKENS]} == {
        "input": prompt,
        "output": sampled,
    }
    for name in (
        "http.server.request.duration",
        "gen_ai.server.request.duration",
        "gen_ai.server.time_to_first_token",
        "gen_ai.server.time_per_output_token",
    ):
        assert [point.count for point in metrics[name]] == [1], name


TOKENS = "gen_ai.client.token.usage"


def test_repairs_and_refusals_of_grammars_are_attributes_and_counted() -> None:
    engine = ScriptedEngine(CALL.replace("<|message|>", " "))
    with recorded(engine) as (client, found):
        client.post("/v1/chat/completions", json={"messages": HI, "tools": [NOW]})
        refused = client.post(
            "/v1/chat/completions", json={"messages": HI, "response_format": STRICT}
        )
        assert refused.status_code == 400, refused.text
        spans, metrics = found.spans_exporter.get_finished_spans(), found.metrics
        assert 'harmony_grammar_refusals_total{keyword="uniqueItems"} 1.0' in (
            client.get("/metrics").text
        )
    completion = next(span for span in spans if span.name == "chat script")
    assert attributes(completion)["harmony.recovery.kinds"] == ("missing-message",)
    assert attributes(completion)["harmony.recoveries"] == 1
    assert attributes(completion)["harmony.grammar"] is True
    refusals = [attributes(span).get("harmony.grammar.refused") for span in spans]
    assert [found for found in refusals if found] == ["uniqueItems"]
    (repairs,) = metrics["harmony.recoveries"]
    assert (repairs.attributes, repairs.value) == ({"harmony.recovery.kind": "missing-message"}, 1)
    assert [point.value for point in metrics["harmony.grammar.refusals"]] == [1]


def test_failures_have_a_type_and_no_message() -> None:
    with recorded(ScriptedEngine("!", "")) as (client, found):
        assert client.post("/v1/chat/completions", json={"messages": HI}).status_code == 503
        assert client.get("/nowhere").status_code == 404
        request, completion = found.spans["POST /v1/chat/completions"], found.spans["chat script"]
        unknown = found.spans["GET"]
        metrics = found.metrics
    assert attributes(completion)["error.type"] == "EngineError"
    assert attributes(completion)["gen_ai.response.finish_reasons"] == ("error",)
    assert attributes(request)["error.type"] == "503"
    assert {span.status.status_code for span in (request, completion)} == {StatusCode.ERROR}
    assert unknown.status.status_code is StatusCode.UNSET
    assert not any(span.events or span.status.description for span in found.spans.values())
    types = [
        point.attributes.get("error.type") for point in metrics["gen_ai.server.request.duration"]
    ]
    assert types == ["EngineError"]


def test_calls_of_tools_are_spans_between_completions() -> None:
    engine = RoomyEngine(compute("1"), compute("raise"), said("Done."))
    with recorded(engine, PretendedPython()) as (client, found):
        answered = client.post("/v1/responses", json={"input": "Secret plans", "tools": [COMPUTE]})
        assert answered.json()["status"] == "completed", answered.text
        spans, metrics = found.spans_exporter.get_finished_spans(), found.metrics
    assert [span.name for span in spans] == [
        "chat script",
        "execute_tool python",
        "chat script",
        "execute_tool python",
        "chat script",
        "POST /v1/responses",
    ]
    assert {parent_of(span) for span in spans[:-1]} == {own_id(spans[-1])}
    worked, failed = spans[1], spans[3]
    assert attributes(worked) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "python",
        "gen_ai.tool.type": "extension",
    }
    assert attributes(failed)["error.type"] == "failed"
    points = metrics["gen_ai.execute_tool.duration"]
    assert sorted(point.attributes.get("error.type", "") for point in points) == ["", "failed"]
    for span in spans:
        assert "ecret" not in span.to_json()


def test_its_cost_does_not_grow_with_the_tokens() -> None:
    """A turn of 400 tokens does not call OpenTelemetry for each of them."""
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and "opentelemetry" in frame.f_code.co_filename

    words = [f"<|channel|>final<|message|>{'so ' * count}<|return|>" for count in (1, 1, 400)]
    counted = []
    with recorded(ScriptedEngine(*words)) as (client, _):
        assert client.portal is not None
        for _ in words:
            calls = 0
            client.portal.call(sys.setprofile, count)
            text = client.post(PATH, json={"input": "hi", "stream": True}).text
            client.portal.call(sys.setprofile, None)
            assert "response.completed" in text
            counted.append(calls)
    _, short, long = counted  # the first also makes what the later ones use
    assert short > 0
    assert long < short + 100


def test_checks_of_health_are_no_spans() -> None:
    with recorded(ScriptedEngine()) as (client, found):
        for path in ("/health", "/ready", "/metrics", "/v1/models"):
            assert client.get(path).is_success
    assert set(found.spans) == {"GET /v1/models"}


def test_a_websocket_is_one_request() -> None:
    with recorded(ScriptedEngine(FINAL, FINAL)) as (client, found):
        with client.websocket_connect(PATH, headers=FROM_A_CLIENT) as socket:
            for _ in range(2):
                answer(socket, input="hi")
        spans = found.spans_exporter.get_finished_spans()
    assert [span.name for span in spans] == ["chat script", "chat script", "GET /v1/responses"]
    assert attributes(spans[-1])["http.response.status_code"] == 101
    assert {parent_of(span) for span in spans[:-1]} == {own_id(spans[-1])}


def test_completions_say_what_they_are() -> None:
    with recorded(ScriptedEngine("one two...")) as (client, found):
        client.post("/v1/completions", json={"prompt": "x", "max_tokens": 2, "n": 1})
        completion = found.spans["text_completion script"]
    assert attributes(completion)["gen_ai.response.finish_reasons"] == ("length",)


def test_engines_behind_http_get_the_trace_of_the_completion() -> None:
    """In each of two choices at once, and nothing is left in the context afterwards."""

    async def run() -> tuple[list[dict[str, str]], Recorded]:
        found = Recorded()
        async with VllmStandIn().running() as server:
            engine = await VllmEngine.connect(server.url)
            app = create_app(engine, Settings(), telemetry=found.telemetry())
            transport = httpx2.ASGITransport(app)
            client = httpx2.AsyncClient(transport=transport, base_url="http://localhost")
            async with app.router.lifespan_context(app), client:
                body = {"messages": HI, "max_tokens": 5, "n": 2}
                sent = await client.post("/v1/chat/completions", json=body, headers=FROM_A_CLIENT)
                assert sent.is_success, sent.text
            await engine.close()
            return server.counts.headers, found

    headers, found = asyncio.run(run())
    completions = [
        span for span in found.spans_exporter.get_finished_spans() if span.name.startswith("chat ")
    ]
    sent = [received["traceparent"] for received in headers if "traceparent" in received]
    assert sorted(sent) == sorted(f"00-{TRACE}-{own_id(span)}-01" for span in completions)
    assert len(sent) == 2


META_SERVER = """
import json, sys
TOOL = {"name": "meta", "inputSchema": {"type": "object"}}
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        continue
    if method == "initialize":
        about = {"name": "host", "version": "1"}
        result = {"protocolVersion": params["protocolVersion"], "serverInfo": about}
        result["capabilities"] = {"tools": {}}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "tools/call":
        text = params.get("_meta", {}).get("traceparent", "nothing")
        result = {"content": [{"type": "text", "text": text}]}
    else:
        error = {"code": -32601, "message": "Method not found"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
"""An MCP server with one tool, which answers with the trace that its call belongs to."""


def test_mcp_servers_get_the_trace_of_the_call() -> None:
    asked = "<|channel|>commentary to=host.meta <|constrain|>json<|message|>{}<|call|>"
    with recorded(RoomyEngine(asked, said("Done."))) as (client, found):
        assert client.portal is not None
        address = McpAddress(command=(sys.executable, "-c", META_SERVER), name="host")
        tool = client.portal.call(McpTool.connect, address)
        try:
            client.app.state.services.tools["host"] = tool  # type: ignore[attr-defined]
            server = {"type": "mcp", "server_label": "host", "require_approval": "never"}
            body = {"input": "Which?", "tools": [server]}
            sent = client.post("/v1/responses", json=body, headers=FROM_A_CLIENT)
        finally:
            client.portal.call(tool.close)
        (call,) = (item for item in sent.json()["output"] if item["type"] == "mcp_call")
        span = found.spans["execute_tool host.meta"]
    assert call["output"] == f"00-{TRACE}-{own_id(span)}-01"


# To a collector


@contextmanager
def collector() -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """A receiver of OTLP over HTTP; what it gets is decoded by the published protocol."""
    requests: dict[str, Any] = {
        "/v1/traces": ExportTraceServiceRequest,
        "/v1/metrics": ExportMetricsServiceRequest,
    }
    received: dict[str, list[Any]] = {path: [] for path in requests}

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            assert self.headers["content-type"] == "application/x-protobuf"
            received[self.path].append(requests[self.path].FromString(data))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", received
        finally:
            server.shutdown()
            thread.join()


def test_a_collector_gets_spans_and_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as (url, received):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        with exported_telemetry() as telemetry:
            app = create_app(ScriptedEngine(FINAL), Settings(), telemetry=telemetry)
            with LocalClient(app) as client:
                sent = client.post("/v1/chat/completions", json={"messages": HI})
                assert sent.is_success
    names, services = set(), set()
    for request in received["/v1/traces"]:
        for resource in request.resource_spans:
            services |= {
                attribute.value.string_value
                for attribute in resource.resource.attributes
                if attribute.key == "service.name"
            }
            names |= {span.name for scope in resource.scope_spans for span in scope.spans}
    assert names == {"POST /v1/chat/completions", "chat script"}
    assert services == {"harmony"}
    metrics = {
        metric.name
        for request in received["/v1/metrics"]
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert metrics >= {"gen_ai.server.request.duration", TOKENS, "http.server.request.duration"}


ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
OFF: list[dict[str, str]] = [
    {},
    {"OTEL_SERVICE_NAME": "harmony"},
    {**ENDPOINT, "OTEL_SDK_DISABLED": "true"},
    {**ENDPOINT, "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"},
]


@pytest.mark.parametrize("environment", OFF, ids=lambda environment: ",".join(environment))
def test_without_a_collector_it_is_off(environment: dict[str, str]) -> None:
    with exported_telemetry(environment) as telemetry:
        assert telemetry is None


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "set OTEL_EXPORTER_OTLP_PROTOCOL="),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "zipkin"}, "'zipkin'; set it to otlp or none"),
    ],
)
def test_what_cannot_be_sent_is_refused(environment: dict[str, str], problem: str) -> None:
    with pytest.raises(TelemetryError, match=re.escape(problem)), exported_telemetry(environment):
        pass


def test_spans_have_the_ids_of_the_answer() -> None:
    with recorded(ScriptedEngine(*[FINAL] * 3)) as (client, found):

        def ids_of(path: str, **body: Any) -> tuple[dict[str, Any], Mapping[str, Any]]:
            answered = client.post(path, json=body)
            assert answered.is_success
            span = found.spans_exporter.get_finished_spans()[-2:]
            (completion,) = [one for one in span if one.name == "chat script"]
            return answered.json(), attributes(completion)

        chat, of_chat = ids_of("/v1/chat/completions", messages=HI)
        assert of_chat["gen_ai.response.id"] == chat["id"]
        message, of_message = ids_of("/v1/messages", messages=HI)
        assert of_message["gen_ai.response.id"] == message["id"]
        conversation = client.post("/v1/conversations", json={}).json()["id"]
        response, of_response = ids_of("/v1/responses", input="hi", conversation=conversation)
        assert of_response["gen_ai.response.id"] == response["id"]
        assert of_response["gen_ai.conversation.id"] == conversation
        assert not any("messages" in name for name in of_response)


def test_spans_have_what_was_said_only_on_request() -> None:
    with recorded(ScriptedEngine(THINK + CALL), trace_contents=True) as (client, found):
        assert client.post("/v1/chat/completions", json={"messages": HI, "tools": [NOW]}).is_success
        of_completion = attributes(found.spans["chat script"])
    said = json.loads(of_completion["gen_ai.input.messages"])
    assert [message["role"] for message in said] == ["system", "developer", "user"]
    assert said[2] == {"role": "user", "parts": [{"type": "text", "content": "hi"}]}
    thought, call = json.loads(of_completion["gen_ai.output.messages"])
    assert thought["parts"] == [{"type": "reasoning", "content": "Hm, hm."}]
    assert call["parts"] == [
        {"type": "tool_call", "name": "functions.now", "arguments": '{"a": 1}'}
    ]
    assert {thought["finish_reason"], call["finish_reason"]} == {"stop"}
