"""Sets OpenTelemetry up, once per process, from its own standard variables.

Metrics are always measured, for `/metrics`. Spans are recorded, and metrics pushed, where a
collector is named: `OTEL_EXPORTER_OTLP_ENDPOINT`, or `…_TRACES_ENDPOINT` and `…_METRICS_ENDPOINT`,
by OTLP over HTTP. Sampling, headers, time-outs, intervals and resource attributes are the SDK's
(`OTEL_TRACES_SAMPLER`, `OTEL_RESOURCE_ATTRIBUTES`, …). `OTEL_SDK_DISABLED=true` turns all off.

Spans leave from a thread of their own. Where the collector is away they wait in a queue of
`OTEL_BSP_MAX_QUEUE_SIZE` (2048), and then the oldest are dropped: nothing waits for it.
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

from hookfast.telemetry import instruments, spans
from hookfast.version import VERSION

_LAST_WORDS_SECONDS: Final = 5.0
"""How long the end of a process may wait for a collector."""
_QUERY = "url.query"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """What a process has set up. `pushes_metrics`: they also go to a collector."""

    registry: CollectorRegistry
    pushes_metrics: bool
    traces: bool


_lock = threading.Lock()
_running: Telemetry | None = None


def start(process: str, *, by_tenant: bool = False) -> Telemetry:
    """Set up what the environment asks for, unless this process has; `process` (`api`, `worker`)
    names the service, `by_tenant` adds tenants as a label."""
    global _running
    with _lock:
        if _running is None:
            _running = _set_up(process, by_tenant=by_tenant)
        return _running


def finish() -> None:
    """Send what is left, for at most five seconds: a collector that is away must not keep a
    process from ending."""
    last_words = threading.Thread(target=_shut_down, name="telemetry-finish", daemon=True)
    last_words.start()
    last_words.join(_LAST_WORDS_SECONDS)


def _set_up(process: str, *, by_tenant: bool) -> Telemetry:
    registry = CollectorRegistry()
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return Telemetry(registry=registry, pushes_metrics=False, traces=False)
    resource = _resource(process)
    readers: list[MetricReader] = [
        PrometheusMetricReader(registry=registry, scope_info_enabled=False)
    ]
    pushes_metrics = _wanted("METRICS")
    if pushes_metrics:
        readers.append(_pushing_reader())
    if by_tenant:
        instruments.show_tenants()
    # `finish` ends them: at exit, theirs would wait for a collector that is away
    metrics.set_meter_provider(
        MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
    )
    instruments.begin(process)
    traces = _wanted("TRACES")
    if traces:
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(_WithoutQueries())
        provider.add_span_processor(_span_exporter())
        trace.set_tracer_provider(provider)
        spans.record()
    return Telemetry(registry=registry, pushes_metrics=pushes_metrics, traces=traces)


# The exporters bring an HTTP client and protobuf along, which take 60 ms of CPU to import: only for
# those who name a collector.


def _pushing_reader() -> MetricReader:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return PeriodicExportingMetricReader(OTLPMetricExporter())


def _span_exporter() -> SpanProcessor:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return BatchSpanProcessor(OTLPSpanExporter())


def _wanted(signal: str) -> bool:
    """Whether a collector takes this signal (TRACES, METRICS) from us."""
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
            "Only OTLP over http/protobuf is spoken; nothing is sent.",
            signal=signal.lower(),
            protocol=protocol,
        )
        return False
    return True


def _resource(process: str) -> Resource:
    """Who we are; `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win."""
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
    """FastAPI's spans have the query of the URL: where callers of `/in/…` may put a token."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if span.attributes is not None and _QUERY in span.attributes:
            span.set_attribute(_QUERY, "REDACTED")


def _shut_down() -> None:
    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        if isinstance(provider, TracerProvider | MeterProvider):
            provider.shutdown()
