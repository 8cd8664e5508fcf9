"""Export of telemetry to an OpenTelemetry collector, by OpenTelemetry's environment variables.

Unless a variable names a collector, nothing is imported, measured or sent.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import HarmonyError
from ..installation import missing_package

if TYPE_CHECKING:
    from .telemetry import Telemetry

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_SIGNALS = ("TRACES", "METRICS")
_PROTOCOL = "http/protobuf"


class TelemetryError(HarmonyError):
    """The environment requests telemetry that is not available."""


@contextmanager
def exported_telemetry(
    environment: Mapping[str, str] = os.environ,
) -> Generator[Telemetry | None, None, None]:
    """Provide the telemetry of a process; at the end, send what was not sent yet.

    None if no variable names a collector (``OTEL_EXPORTER_OTLP_ENDPOINT``, or the one for traces or
    metrics only), or if ``OTEL_SDK_DISABLED`` is true. The SDK of OpenTelemetry reads all other
    variables. Raises `TelemetryError` if the SDK is missing, or for a protocol other than HTTP.
    """
    is_off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    signals = [] if is_off else [name for name in _SIGNALS if _is_sent(name, environment)]
    if not signals:
        yield None
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from .telemetry import Telemetry
    except ModuleNotFoundError as error:
        raise TelemetryError(
            missing_package("telemetry (OTEL_ variables) needs", error, "telemetry")
        ) from error
    named = environment.get("OTEL_SERVICE_NAME") or "service.name=" in environment.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    # Without a name, the SDK writes `unknown_service`.
    resource = Resource.create({} if named else {SERVICE_NAME: "harmony"})
    # They are shut down below; the SDK would do it again at exit, and warn of that.
    traces = TracerProvider(resource=resource, shutdown_on_exit=False)
    readers = []
    if "TRACES" in signals:
        traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    if "METRICS" in signals:
        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    meters = MeterProvider(readers, resource, shutdown_on_exit=False)
    try:
        yield Telemetry(traces, meters)
    finally:
        traces.shutdown()
        meters.shutdown()


def _is_sent(signal: str, environment: Mapping[str, str]) -> bool:
    """Return whether a collector is named for a signal. Raises `TelemetryError`."""
    endpoint = environment.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or environment.get(
        _ENDPOINT
    )
    exporter = environment.get(f"OTEL_{signal}_EXPORTER") or "otlp"
    if not endpoint or exporter == "none":
        return False
    if exporter != "otlp":
        raise TelemetryError(f"OTEL_{signal}_EXPORTER is {exporter!r}; set it to otlp or none")
    protocol = environment.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL") or environment.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL", _PROTOCOL
    )
    if protocol != _PROTOCOL:
        raise TelemetryError(
            f"the protocol {protocol!r} of OpenTelemetry is not supported; set "
            f"OTEL_EXPORTER_OTLP_PROTOCOL={_PROTOCOL}, and the collector's port for it (4318)"
        )
    return True
