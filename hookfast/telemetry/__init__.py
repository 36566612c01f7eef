"""Traces and metrics, by OpenTelemetry.

`instruments` defines every metric, `spans` every span. `providers` sets both up once per process
from the standard `OTEL_*` variables; without that nothing is recorded. `exposition` and
`metrics_server` answer Prometheus, and `temporal_metrics` adds the metrics of Temporal's SDK.
"""
