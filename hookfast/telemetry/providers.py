"""Set-up of OpenTelemetry, once per process, from its own standard variables.

Metrics are always measured, for `/metrics`. Spans are recorded, and metrics pushed, if a collector
is named: `OTEL_EXPORTER_OTLP_ENDPOINT`, or `…_TRACES_ENDPOINT` and `…_METRICS_ENDPOINT`, by OTLP
over HTTP. Sampling, headers, time-outs, intervals and resource attributes are the SDK's
(`OTEL_TRACES_SAMPLER`, `OTEL_RESOURCE_ATTRIBUTES`, …). `OTEL_SDK_DISABLED=true` turns everything
off.

Spans are sent from a thread of their own. While the collector is away, they wait in a queue of
`OTEL_BSP_MAX_QUEUE_SIZE` (2048); then the oldest are dropped, so that nothing waits for it.
"""

from __future__ import annotations

import os
import threading
import uuid
from dataclasses import dataclass
from typing import Final

import structlog
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from prometheus_client import CollectorRegistry

from hookfast.telemetry import instruments, metric, spans
from hookfast.version import VERSION

_FINISH_SECONDS: Final = 5.0
"""Longest wait for a collector at the end of a process."""
_QUERY = "url.query"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The telemetry that a process has set up. `pushes_metrics`: they also go to a collector."""

    registry: CollectorRegistry
    pushes_metrics: bool
    traces: bool


_lock = threading.Lock()
_running: Telemetry | None = None


def start(process: str, *, by_tenant: bool = False) -> Telemetry:
    """Set up telemetry as the environment says, once per process. `process` (`api`, `worker`) is
    part of the service's name; `by_tenant` adds tenants as a label."""
    global _running
    with _lock:
        if _running is None:
            _running = _set_up(process, by_tenant=by_tenant)
        return _running


def finish() -> None:
    """Send the remaining spans and metrics, for at most five seconds: a collector that is away must
    not keep the process from ending."""
    finishing = threading.Thread(target=_shut_down, name="telemetry-finish", daemon=True)
    finishing.start()
    finishing.join(_FINISH_SECONDS)


def _set_up(process: str, *, by_tenant: bool) -> Telemetry:
    registry = CollectorRegistry()
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return Telemetry(registry=registry, pushes_metrics=False, traces=False)
    resource = _resource(process)
    pushes_metrics = _is_sent("METRICS")
    readers: list[MetricReader] = [
        PrometheusMetricReader(registry=registry, scope_info_enabled=False)
    ]
    if pushes_metrics:
        readers.append(_pushing_reader())
    if by_tenant:
        metric.show_tenants()
    # `finish` shuts the providers down: their own way, at exit, waits for a collector that is away
    metrics.set_meter_provider(
        MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
    )
    instruments.begin(process)
    traces = _is_sent("TRACES")
    if traces:
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(_WithoutQueries())
        provider.add_span_processor(_span_exporter())
        trace.set_tracer_provider(provider)
        spans.record()
    return Telemetry(registry=registry, pushes_metrics=pushes_metrics, traces=traces)


# The exporters need an HTTP client and protobuf, which take 60 ms of CPU to import: only if a
# collector is named.


def _pushing_reader() -> MetricReader:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return PeriodicExportingMetricReader(OTLPMetricExporter())


def _span_exporter() -> SpanProcessor:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return BatchSpanProcessor(OTLPSpanExporter())


def _is_sent(signal: str) -> bool:
    """Whether this signal (TRACES, METRICS) is sent to a collector."""
    named = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or os.environ.get(
        "OTEL_EXPORTER_OTLP_ENDPOINT"
    )
    if not named or os.environ.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() != "otlp":
        return False
    protocol = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL") or os.environ.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"
    )
    if protocol != "http/protobuf":
        log.warning(
            "Only OTLP over http/protobuf is supported; nothing is sent.",
            signal=signal.lower(),
            protocol=protocol,
        )
        return False
    return True


def _resource(process: str) -> Resource:
    """Return the resource that names this process. `OTEL_SERVICE_NAME` and
    `OTEL_RESOURCE_ATTRIBUTES` override it."""
    ours = Resource(
        {
            "service.namespace": "hookfast",
            "service.name": f"hookfast-{process}",
            "service.version": VERSION,
            "service.instance.id": str(uuid.uuid4()),
        }
    )
    given = Resource.create()
    if str(given.attributes.get("service.name")).startswith("unknown_service"):
        given = Resource({k: v for k, v in given.attributes.items() if k != "service.name"})
    return ours.merge(given)


class _WithoutQueries(SpanProcessor):
    """Redacts the URL's query in FastAPI's spans: callers of `/in/…` may put a token there."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if span.attributes is not None and _QUERY in span.attributes:
            span.set_attribute(_QUERY, "REDACTED")


def _shut_down() -> None:
    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        if isinstance(provider, TracerProvider | MeterProvider):
            provider.shutdown()
