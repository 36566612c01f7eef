"""Histograms are exported as the SDK itself would export them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import Histogram as SdkHistogram
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    HistogramDataPoint,
    InMemoryMetricReader,
    Metric,
)

from hookfast.telemetry import instruments, metric
from hookfast.telemetry.histogram_reader import CountedHistograms

HISTOGRAM = instruments.ATTEMPT_DURATION
# Around the buckets' bounds, which belong to the bucket below.
VALUES = st.sampled_from([0.0, 0.004, 0.005, 0.0051, 1, 29.9, 30, 30.1, 1e9]) | st.floats(0, 1e6)
RECORDED = st.lists(st.tuples(VALUES, st.sampled_from(["success", "timeout", "dns"])), max_size=8)


class Counted(CountedHistograms, InMemoryMetricReader):
    pass


@pytest.fixture(autouse=True)
def _no_readers_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    for histogram in metric.histograms():
        monkeypatch.setattr(histogram, "_counted", [])


@pytest.mark.parametrize("temporality", ["CUMULATIVE", "DELTA"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=st.lists(RECORDED, min_size=1, max_size=3))
def test_points_are_those_of_the_sdk(
    temporality: str, rounds: list[list[tuple[float, str]]]
) -> None:
    preferred = {SdkHistogram: AggregationTemporality[temporality]}
    theirs = InMemoryMetricReader(preferred_temporality=preferred)
    sdk = _meter(theirs).create_histogram(
        HISTOGRAM.name,
        HISTOGRAM.unit,
        HISTOGRAM.description,
        explicit_bucket_boundaries_advisory=HISTOGRAM.buckets,
    )
    HISTOGRAM._counted.clear()
    ours = Counted(preferred_temporality=preferred)
    _meter(ours)
    for values in rounds:
        for value, result in values:
            sdk.record(value, {"result": result})
            HISTOGRAM.record(value, result=result)
        expected, given = _exported(theirs), _exported(ours)
        assert [(one.name, one.unit, one.description) for one in given] == [
            (one.name, one.unit, one.description) for one in expected
        ]
        for one, other in zip(given, expected, strict=True):
            assert one.data.aggregation_temporality is other.data.aggregation_temporality
            assert [*map(_values, one.data.data_points)] == [*map(_values, other.data.data_points)]


@pytest.mark.parametrize("temporality", ["CUMULATIVE", "DELTA"])
def test_times_of_points_are_those_of_their_values(temporality: str) -> None:
    ours = Counted(preferred_temporality={SdkHistogram: AggregationTemporality[temporality]})
    _meter(ours)
    points = []
    for _ in range(2):
        HISTOGRAM.record(1, result="success")
        [exported] = _exported(ours)
        points += exported.data.data_points
    first, second = points
    assert first.start_time_unix_nano <= first.time_unix_nano <= second.time_unix_nano
    begins = first.time_unix_nano if temporality == "DELTA" else first.start_time_unix_nano
    assert second.start_time_unix_nano == begins


def test_two_readers_get_all_values_each_in_its_temporality() -> None:
    cumulative = Counted()
    delta = Counted(preferred_temporality={SdkHistogram: AggregationTemporality.DELTA})
    _meter(cumulative)
    _meter(delta)
    counts = []
    for _ in range(3):
        HISTOGRAM.record(-1.0, result="success")  # counts as 0: clocks disagree
        counts.append([_exported(one)[0].data.data_points[0].count for one in (cumulative, delta)])
    assert counts == [[1, 1], [2, 1], [3, 1]]


def test_too_many_label_sets_are_counted_together() -> None:
    ours = Counted()
    _meter(ours)
    for number in range(metric.MAX_SERIES + 10):
        HISTOGRAM.record(1, result=str(number))
    [exported] = _exported(ours)
    *_, last = exported.data.data_points
    assert len(exported.data.data_points) == metric.MAX_SERIES + 1
    assert (last.attributes, last.count) == ({"otel.metric.overflow": "true"}, 10)


@pytest.mark.parametrize(
    ("kind", "pushed"),
    [
        (None, "Histogram"),
        ("explicit_bucket_histogram", "Histogram"),
        ("base2_exponential_bucket_histogram", "ExponentialHistogram"),
    ],
)
def test_standard_variable_chooses_the_buckets_that_are_pushed(
    kind: str | None, pushed: str
) -> None:
    """In a new process, because a process is set up only once."""
    program = """if True:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from hookfast.telemetry import exposition, instruments, providers

        def export(exporter, data, **options):
            [scope] = data.resource_metrics[0].scope_metrics
            [one] = [one for one in scope.metrics if one.name == "hookfast.relay.batch"]
            print(type(one.data).__name__, one.data.data_points[0].count)

        OTLPMetricExporter.export = export
        telemetry = providers.start("worker")
        instruments.RELAY_BATCH.record(3)
        assert "hookfast_relay_batch_count 1.0" in exposition.text(telemetry.registry).decode()
        providers.finish()
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL")}
    environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"
    environment["OTEL_TRACES_EXPORTER"] = "none"
    if kind is not None:
        environment["OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"] = kind
    command = [sys.executable, "-c", program]
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert output.stdout == f"{pushed} 1\n"


def _meter(reader: InMemoryMetricReader) -> object:
    """Return the meter of a provider for this reader, which exports something else as well."""
    meter = MeterProvider([reader], shutdown_on_exit=False).get_meter(metric.SCOPE)
    meter.create_counter("other").add(1)
    return meter


def _exported(reader: InMemoryMetricReader) -> list[Metric]:
    data = reader.get_metrics_data()
    if data is None:
        return []
    [resource] = data.resource_metrics
    [scope] = resource.scope_metrics
    return [one for one in scope.metrics if one.name != "other"]


def _values(point: HistogramDataPoint) -> tuple[object, ...]:
    counted = (
        point.count,
        pytest.approx(point.sum),
        tuple(point.bucket_counts),
        point.min,
        point.max,
    )
    return dict(point.attributes), tuple(point.explicit_bounds), counted
