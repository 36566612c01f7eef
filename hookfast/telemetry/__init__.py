"""Traces, metrics and their way out, by OpenTelemetry. Knows nothing of deliveries but names.

`instruments` names every metric, `spans` makes every span, `providers` sets both up once per
process from the standard `OTEL_*` variables, `exposition` answers Prometheus, and
`temporal_metrics` adds what Temporal's SDK measures. Without a set-up nothing is recorded.
"""
