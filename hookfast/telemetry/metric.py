"""The kinds of metrics: sums, histograms and gauges, with the name, unit (UCUM), description and
labels of each. Until a MeterProvider is set up (`providers.start`), nothing is recorded.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter as Counts
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from hookfast.version import VERSION

TENANT_LABEL: Final = "tenant_id"

_METER = metrics.get_meter("hookfast", VERSION)

CATALOGUE: dict[str, Metric] = {}
"""Every metric, by its OpenTelemetry name."""

_Key: TypeAlias = tuple[tuple[str, str], ...]

MAX_SERIES: Final = 1_999
"""Label sets of a count; others are counted together, as the SDK does above 2,000 of its own."""
_OVERFLOW: Final[_Key] = (("otel.metric.overflow", "true"),)


class Metric(ABC):
    """A metric's name, unit, description and labels, and the processes that export it (`by`)."""

    def __init__(
        self,
        name: str,
        unit: str,
        description: str,
        *,
        labels: tuple[str, ...] = (),
        by: str = "worker",
    ) -> None:
        self.name = name
        self.unit = unit
        self.description = description
        self.labels = labels
        self.exported_by = tuple(by.split())
        CATALOGUE[name] = self
        self._create()

    @abstractmethod
    def _create(self) -> None:
        """Create the OpenTelemetry instrument."""


class _Total(Metric):
    """Sums by label, kept here and read by the SDK when it collects. The SDK's own sums take 15 to
    20 µs of CPU for every `add`, these take 2, and an attempt has three."""

    def _create(self) -> None:
        self._lock = threading.Lock()
        self._totals: Counts[_Key] = Counts()

    def _add(self, amount: int, labels: Mapping[str, str]) -> None:
        key = tuple(labels.items())
        with self._lock:
            known = key in self._totals or len(self._totals) < MAX_SERIES
            self._totals[key if known else _OVERFLOW] += amount

    def total(self, **labels: str) -> float:
        """Return the sum of this process so far for exactly these labels."""
        with self._lock:
            return self._totals[tuple(labels.items())]

    def _observe(self, _: CallbackOptions) -> Iterable[Observation]:
        # called from the exporter's thread
        with self._lock:
            totals = dict(self._totals)
        return [Observation(total, dict(labels)) for labels, total in totals.items()]


class Counter(_Total):
    """A count that only grows. `starts`: the values of its first label, all or by process, that a
    process begins at 0. To Prometheus, a count that appears was always there, so without this the
    first dead letter would be no increase, and no alert."""

    def __init__(
        self,
        name: str,
        unit: str,
        description: str,
        *,
        labels: tuple[str, ...],
        by: str = "worker",
        starts: tuple[str, ...] | Mapping[str, tuple[str, ...]] = (),
    ) -> None:
        super().__init__(name, unit, description, labels=labels, by=by)
        self._starts = starts if isinstance(starts, Mapping) else dict.fromkeys(by.split(), starts)

    def begin(self, process: str) -> None:
        """Start the counts of this process that begin at 0, as one without labels does."""
        if not self.labels and process in self.exported_by:
            self.add(0)
        for value in self._starts.get(process, ()):
            self.add(0, **{self.labels[0]: value})

    def _create(self) -> None:
        super()._create()
        _METER.create_observable_counter(self.name, [self._observe], self.unit, self.description)

    def add(self, amount: int = 1, *, tenant: str | None = None, **labels: str) -> None:
        """Add to the count. `tenant` becomes a label only if `show_tenants` was called."""
        if _Tenants.shown and tenant is not None:
            labels[TENANT_LABEL] = tenant
        self._add(amount, labels)


class Level(_Total):
    """A count that goes up and down, such as the requests in progress."""

    def _create(self) -> None:
        super()._create()
        _METER.create_observable_up_down_counter(
            self.name, [self._observe], self.unit, self.description
        )

    def add(self, amount: int, **labels: str) -> None:
        self._add(amount, labels)


class Histogram(Metric):
    """The distribution of a size, or of a time in seconds."""

    def __init__(
        self,
        name: str,
        unit: str,
        description: str,
        *,
        buckets: Sequence[float],
        labels: tuple[str, ...] = (),
        by: str = "worker",
    ) -> None:
        self._buckets = buckets
        super().__init__(name, unit, description, labels=labels, by=by)

    def _create(self) -> None:
        self._instrument = _METER.create_histogram(
            self.name,
            self.unit,
            self.description,
            explicit_bucket_boundaries_advisory=self._buckets,
        )

    def record(self, value: float, **labels: str) -> None:
        self._instrument.record(max(0.0, value), labels)  # clocks of two machines may disagree


class Gauge(Metric):
    """A value that was read from elsewhere. It has no value until one is set, and none after
    `forget`: an old value would look like a healthy one."""

    def _create(self) -> None:
        self._values: dict[_Key, float] = {}
        _METER.create_observable_gauge(self.name, [self._observe], self.unit, self.description)

    def set(self, value: float, **labels: str) -> None:
        self._values[tuple(labels.items())] = value

    def forget(self) -> None:
        self._values = {}

    def _observe(self, _: CallbackOptions) -> Iterable[Observation]:
        # called from the exporter's thread: a copy, as the event loop may add a label meanwhile
        return [Observation(value, dict(labels)) for labels, value in list(self._values.items())]


class _Tenants:
    """Whether metrics have a label for the tenant. Set once, at start."""

    shown = False


def show_tenants() -> None:
    """Label counts with their tenant from now on."""
    _Tenants.shown = True
