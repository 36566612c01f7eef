"""Exports the histograms that `metric` counts, with what the OpenTelemetry SDK collects itself."""

from __future__ import annotations

import time
from typing import Any

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics._internal.instrument import _Histogram
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
)

from hookfast.telemetry import metric
from hookfast.telemetry.metric import Distribution


class CountedHistograms(MetricReader):
    """Mixed in before a reader: gives it every value that is recorded from its creation on, with
    the temporality that it prefers."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._temporality = self._instrument_class_temporality[_Histogram]
        self._resets = self._temporality is AggregationTemporality.DELTA
        self._histograms = [(one, one.count_for_reader()) for one in metric.histograms()]
        self._previous: int | None = None

    def _receive_metrics(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any
    ) -> None:
        now = time.time_ns()

        def point(labels: dict[str, str], counted: Distribution) -> HistogramDataPoint:
            return HistogramDataPoint(
                attributes=labels,
                start_time_unix_nano=self._previous or counted.since,
                time_unix_nano=now,
                count=sum(counted.buckets),
                sum=counted.sum,
                bucket_counts=tuple(counted.buckets),
                explicit_bounds=one.buckets,
                min=counted.min,
                max=counted.max,
            )

        metrics = []
        for one, place in self._histograms:
            if points := one.read(place, point, reset=self._resets):
                data = Histogram(data_points=points, aggregation_temporality=self._temporality)
                metrics.append(Metric(one.name, one.description, one.unit, data))
        if self._resets:
            self._previous = now
        for resource in metrics_data.resource_metrics:
            for scope in resource.scope_metrics:
                if scope.scope.name == metric.SCOPE:
                    scope.metrics.extend(metrics)  # type: ignore[attr-defined] # it is a list
        super()._receive_metrics(metrics_data, timeout_millis, **kwargs)  # type: ignore[safe-super] # the reader has it


class CountedScrape(CountedHistograms, PrometheusMetricReader):
    """Gives the metrics to Prometheus."""


class CountedPush(CountedHistograms, PeriodicExportingMetricReader):
    """Sends the metrics to a collector."""
