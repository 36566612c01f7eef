"""Every metric of ours: its name, unit (UCUM), meaning and the only labels it may have.

Labels have few values each: outcomes, triggers, states. Nothing a tenant chooses is one, except for
`tenant_id` where `HOOKFAST_METRICS_BY_TENANT` asks for it. Until a MeterProvider is set up
(`providers.start`), recording does nothing.
"""

from __future__ import annotations

import threading
from collections import Counter as Counts
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from hookfast.version import VERSION

TENANT_LABEL = "tenant_id"

_METER = metrics.get_meter("hookfast", VERSION)

# From a millisecond to the length of a retry plan: what takes seconds when all is well takes days
# when a receiver is away, and both have to show.
_WAITS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_DAYS = (300, 900, 3_600, 21_600, 86_400, 259_200)
_REQUESTS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What is said about a metric beyond its values. `exported_by` are the processes it is of."""

    name: str
    unit: str
    description: str
    labels: tuple[str, ...]
    exported_by: tuple[str, ...]


CATALOGUE: dict[str, Metric] = {}
"""Every metric, by its OpenTelemetry name."""


class _Total:
    """Sums by label, kept here and told to the SDK when it collects: its own sums take 15 to 20 µs
    of CPU for every `add`, these take 2, and an attempt has three."""

    def __init__(self, metric: Metric) -> None:
        _register(metric)
        self._lock = threading.Lock()
        self._totals: Counts[tuple[tuple[str, str], ...]] = Counts()

    def _add(self, amount: int, labels: Mapping[str, str]) -> None:
        key = tuple(labels.items())
        with self._lock:
            self._totals[key] += amount

    def _observe(self, _: CallbackOptions) -> Iterable[Observation]:
        # called from the exporter's thread
        with self._lock:
            totals = dict(self._totals)
        return [Observation(total, dict(labels)) for labels, total in totals.items()]


class Counter(_Total):
    """Only grows."""

    def __init__(self, metric: Metric) -> None:
        super().__init__(metric)
        _METER.create_observable_counter(
            metric.name, [self._observe], metric.unit, metric.description
        )

    def add(self, amount: int = 1, *, tenant: str | None = None, **labels: str) -> None:
        """`tenant` becomes a label only where that was asked for."""
        if _Tenants.shown and tenant is not None:
            labels[TENANT_LABEL] = tenant
        self._add(amount, labels)


class Level(_Total):
    """Goes up and down with what the process has in hand."""

    def __init__(self, metric: Metric) -> None:
        super().__init__(metric)
        _METER.create_observable_up_down_counter(
            metric.name, [self._observe], metric.unit, metric.description
        )

    def add(self, amount: int, **labels: str) -> None:
        self._add(amount, labels)


class Histogram:
    """Distribution of a size or of a time in seconds."""

    def __init__(self, metric: Metric, buckets: Sequence[float]) -> None:
        _register(metric)
        self._instrument = _METER.create_histogram(
            metric.name,
            metric.unit,
            metric.description,
            explicit_bucket_boundaries_advisory=buckets,
        )

    def record(self, value: float, **labels: str) -> None:
        self._instrument.record(max(0.0, value), labels)  # clocks of two machines may disagree


class Gauge:
    """A state that was looked up. It has no value until one is set, and none after `forget`: an
    old number would look like a healthy one."""

    def __init__(self, metric: Metric) -> None:
        _register(metric)
        self._values: dict[tuple[tuple[str, str], ...], float] = {}
        _METER.create_observable_gauge(
            metric.name, [self._observe], metric.unit, metric.description
        )

    def set(self, value: float, **labels: str) -> None:
        self._values[tuple(labels.items())] = value

    def forget(self) -> None:
        self._values = {}

    def _observe(self, _: CallbackOptions) -> Iterable[Observation]:
        # called from the exporter's thread: a copy, as the event loop may add a label meanwhile
        return [Observation(value, dict(labels)) for labels, value in list(self._values.items())]


class _Tenants:
    """Whether metrics tell tenants apart. Set once, at start."""

    shown = False


def show_tenants() -> None:
    """From now on counts that know a tenant have its label."""
    _Tenants.shown = True


def _register(metric: Metric) -> None:
    CATALOGUE[metric.name] = metric


def _metric(
    name: str, unit: str, description: str, *, labels: tuple[str, ...] = (), by: str = "worker"
) -> Metric:
    return Metric(
        name=name,
        unit=unit,
        description=description,
        labels=labels,
        exported_by=tuple(by.split()),
    )


# -- what happens, counted where it happens ---------------------------------------------------

EVENTS = Counter(
    _metric(
        "hookfast.events",
        "{event}",
        "Events committed, by where they came from: api, inbox.",
        labels=("origin",),
        by="api",
    )
)
DELIVERIES = Counter(
    _metric(
        "hookfast.deliveries",
        "{delivery}",
        "Deliveries that ended, by how: delivered, dead, gone, cancelled, dead_on_arrival (its "
        "endpoint was disabled when the event came).",
        labels=("outcome", TENANT_LABEL),
        by="api worker",
    )
)
ATTEMPTS = Counter(
    _metric(
        "hookfast.attempts",
        "{attempt}",
        "HTTP requests made for deliveries, by what came of it (success, status, dns, timeout, …), "
        "the class of the answer's status (2xx … 5xx, none) and why it was made (first, retry, "
        "resend, probe).",
        labels=("result", "status_class", "trigger", TENANT_LABEL),
    )
)
IN_FLIGHT = Level(
    _metric("hookfast.attempts.in_flight", "{attempt}", "Attempts under way in this worker.")
)
ATTEMPT_DURATION = Histogram(
    _metric(
        "hookfast.attempt.duration",
        "s",
        "From the look-up of the receiver's name to the last byte of its answer.",
        labels=("result",),
    ),
    _REQUESTS,
)
FIRST_ATTEMPT_DELAY = Histogram(
    _metric(
        "hookfast.delivery.first_attempt.delay",
        "s",
        "From the emit (or the time it was scheduled for) to the first attempt.",
    ),
    (*_WAITS, *_DAYS),
)
DELIVERY_DURATION = Histogram(
    _metric(
        "hookfast.delivery.duration",
        "s",
        "From the emit (or the time it was scheduled for) to the answer that made it delivered.",
    ),
    (*_WAITS, *_DAYS),
)
RETRY_LATENESS = Histogram(
    _metric(
        "hookfast.retry.lateness",
        "s",
        "From the moment a retry was due to the moment a worker began it.",
    ),
    (*_WAITS, *_DAYS),
)
RELAY_BATCH = Histogram(
    _metric("hookfast.relay.batch", "{delivery}", "Deliveries the relay took out at once."),
    _BATCHES,
)
RELAY_STARTS = Counter(
    _metric(
        "hookfast.relay.starts",
        "{delivery}",
        "Deliveries whose workflow, their own or a batch's, the relay asked Temporal to start, by "
        "result: started, exists, failed, refused.",
        labels=("carrier", "result"),
    )
)
BATCHING = Gauge(
    _metric(
        "hookfast.first_attempts.batching",
        "1",
        "Whether this worker sends new deliveries in batches now.",
    )
)
INBOX = Counter(
    _metric(
        "hookfast.inbox.requests",
        "{request}",
        "Inbound requests, by provider and by what became of them: accepted, duplicate, "
        "suppressed, failed, rejected, answered (such as a challenge).",
        labels=("provider", "outcome"),
        by="api",
    )
)
MAIL = Counter(
    _metric(
        "hookfast.mail",
        "{mail}",
        "Mails to owners, by kind and by result: sent, refused, delayed.",
        labels=("kind", "result"),
    )
)

# -- how things stand, looked up in the database by the API ---------------------------------------

DATABASE_UP = Gauge(
    _metric("hookfast.database.up", "1", "Whether the gauges could be looked up.", by="api")
)
OUTBOX_BACKLOG = Gauge(
    _metric("hookfast.outbox.backlog", "{delivery}", "Deliveries to be started.", by="api")
)
OUTBOX_AGE = Gauge(
    _metric("hookfast.outbox.oldest.age", "s", "Age of the oldest of them, 0 for none.", by="api")
)
PAST_DUE = Gauge(
    _metric(
        "hookfast.deliveries.past_due",
        "{delivery}",
        "Deliveries whose next attempt is a minute late or more.",
        by="api",
    )
)
WAITING = Gauge(
    _metric(
        "hookfast.deliveries.waiting",
        "{delivery}",
        "Deliveries that have not ended, by status: pending, retrying, held, paused.",
        labels=("status",),
        by="api",
    )
)
DEAD_LETTERS = Gauge(
    _metric("hookfast.dead_letters", "{delivery}", "Dead letters that are kept.", by="api")
)
CIRCUITS = Gauge(
    _metric(
        "hookfast.circuits",
        "{endpoint}",
        "Endpoints whose circuit is not closed, by state: open, half_open, draining.",
        labels=("state",),
        by="api",
    )
)
MAIL_WAITING = Gauge(
    _metric("hookfast.mail.waiting", "{notice}", "Notices that owners have not got yet.", by="api")
)
MAIL_LATE = Gauge(
    _metric(
        "hookfast.mail.late",
        "s",
        "How late the most overdue of them is: it has gathered, its owner's digest no longer "
        "rests, and it is not sent. 0 for none.",
        by="api",
    )
)
WORKERS = Gauge(_metric("hookfast.workers", "{worker}", "Workers seen lately.", by="api"))

_OUTCOMES = {"api": ("dead_on_arrival",), "worker": ("delivered", "dead", "gone", "cancelled")}


def begin(process: str) -> None:
    """Let the counts that alerts are about begin at 0: Prometheus takes a count that appears for
    one that has always been there, so the first dead letter would be no increase."""
    for outcome in _OUTCOMES.get(process, ()):
        DELIVERIES.add(0, outcome=outcome)
