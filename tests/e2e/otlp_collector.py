"""A collector on loopback that receives OTLP over HTTP and keeps the data for tests."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.serving import serving


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A received span, with ids in hex. `links` are the ids of the spans that it links to."""

    service: str
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    links: tuple[str, ...]
    attributes: dict[str, Any]
    seconds: float


@dataclass(slots=True)
class Collector:
    """The data received so far. `raw` has every request body."""

    url: str
    spans: list[ReceivedSpan] = field(default_factory=list)
    metrics: dict[str, set[str]] = field(default_factory=dict)
    raw: list[bytes] = field(default_factory=list)

    def trace(self, trace_id: str) -> list[ReceivedSpan]:
        """Return the spans of a trace, in the order in which they were received."""
        return [span for span in self.spans if span.trace_id == trace_id]

    def receive(self, path: str, body: bytes) -> None:
        """Keep the spans or metrics of a request."""
        self.raw.append(body)
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                service = _attributes(resource.resource)["service.name"]
                for scope in resource.scope_spans:
                    self.spans += [_received_span(service, span) for span in scope.spans]
        else:
            for measured in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                service = str(_attributes(measured.resource).get("service.name"))
                for group in measured.scope_metrics:
                    names = {metric.name for metric in group.metrics}
                    self.metrics[service] = self.metrics.get(service, set()) | names


@contextmanager
def collector() -> Iterator[Collector]:
    """Run a collector on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            collected.receive(self.path, body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with serving(Handler) as origin:
        collected = Collector(origin)
        yield collected


def _received_span(service: str, span: Any) -> ReceivedSpan:
    return ReceivedSpan(
        service=service,
        name=span.name,
        kind=span.kind,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        links=tuple(link.span_id.hex() for link in span.links),
        attributes=_attributes(span),
        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
    )


def _attributes(owner: Any) -> dict[str, Any]:
    return {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in owner.attributes
    }
