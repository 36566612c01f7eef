"""The runtime of Temporal's SDK and its metrics: pollers, schedule-to-start, failed workflow tasks,
requests.

The SDK's core counts outside of Python and answers Prometheus itself, on a port of loopback that
only our own `/metrics` reads. (Copying every update into our instruments would cost 6 µs of CPU
each, and a delivery makes forty: a quarter of a millisecond per delivery.) Instead, the core can
push to a collector by itself, but not do both.
"""

from __future__ import annotations

import http.client
import logging
import os
import socket
from typing import Final

from opentelemetry.util.re import parse_env_headers
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    OpenTelemetryConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

_FETCH_SECONDS = 2.0
_TRIES = 5
_METRICS_PATH: Final = "v1/metrics"
# Seconds. The core's own buckets end at a minute; a starved task queue waits for longer.
_BUCKETS = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300)
_LATENCIES = (
    "workflow_task_schedule_to_start_latency",
    "activity_schedule_to_start_latency",
    "workflow_task_execution_latency",
    "activity_execution_latency",
    "local_activity_execution_latency",
    "request_latency",
)
_OVERRIDES = {f"temporal_{name}": _BUCKETS for name in _LATENCIES}


class TemporalMetrics:
    """The SDK's runtime, created once per process, and its metrics."""

    def __init__(self, *, pushes: bool) -> None:
        """Start the runtime. With `pushes`, metrics go to the collector that `OTEL_EXPORTER_OTLP_*`
        names. Raises RuntimeError if no port is free."""
        self._port: int | None = None
        if pushes:
            self.runtime = Runtime(telemetry=_telemetry(_collector()))
            return
        for attempt in range(_TRIES):
            self._port = _free_port()
            metrics = PrometheusConfig(
                bind_address=f"127.0.0.1:{self._port}",
                counters_total_suffix=True,
                unit_suffix=True,
                durations_as_seconds=True,
                histogram_bucket_overrides=_OVERRIDES,
            )
            try:
                self.runtime = Runtime(telemetry=_telemetry(metrics))
            except (RuntimeError, ValueError):  # another process took the port in between
                if attempt == _TRIES - 1:
                    raise
            else:
                return

    def text(self) -> bytes:
        """Return the metrics as Prometheus text; empty if they are pushed or cannot be read."""
        if self._port is None:
            return b""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_FETCH_SECONDS)
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            return answer.read() if answer.status == 200 else b""
        except (OSError, http.client.HTTPException):
            return b""
        finally:
            connection.close()


def runtime_without_metrics() -> Runtime:
    """Start a runtime whose log lines are forwarded, for a process that only starts workflows."""
    return Runtime(telemetry=_telemetry(None))


def _telemetry(metrics: OpenTelemetryConfig | PrometheusConfig | None) -> TelemetryConfig:
    """Configure the runtime, with the core's log lines in the same format and place as ours."""
    forwarding = LogForwardingConfig(logging.getLogger("temporalio"), append_target_to_name=False)
    lines = LoggingConfig(TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding)
    return TelemetryConfig(logging=lines, metrics=metrics)


def _collector() -> OpenTelemetryConfig:
    """Return the collector that the environment names, for the core's own exporter."""
    url = os.environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
    if not url:
        base = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
        url = f"{base.removesuffix('/')}/{_METRICS_PATH}"
    headers = os.environ.get("OTEL_EXPORTER_OTLP_METRICS_HEADERS") or os.environ.get(
        "OTEL_EXPORTER_OTLP_HEADERS", ""
    )
    return OpenTelemetryConfig(
        url=url,
        headers=parse_env_headers(headers, liberal=True),
        durations_as_seconds=True,
        http=True,
        histogram_bucket_overrides=_OVERRIDES,
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
