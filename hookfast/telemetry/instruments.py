"""All metrics of Hookfast.

A label has few values: outcomes, triggers, states. No label has a value that a tenant or a stranger
chooses, except `tenant_id` with `HOOKFAST_METRICS_BY_TENANT`.
"""

from __future__ import annotations

from hookfast.telemetry.metric import CATALOGUE, TENANT_LABEL, Counter, Gauge, Histogram, Level

# From milliseconds to the length of a retry plan: what takes seconds normally takes days while a
# receiver is away, and both must be visible.
_WAITS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_DAYS = (300, 900, 3_600, 21_600, 86_400, 259_200)
_REQUESTS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_ANSWERS = (0.005, 0.025, 0.1, 0.5, 2.5, 10)  # few: each route has its own
_BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)


def status_class(status: int | None) -> str:
    """Return the class of an HTTP status: 2xx … 5xx, or none without an answer."""
    return "none" if status is None else f"{status // 100}xx"


# -- counted where it happens ---------------------------------------------------------------------

HTTP_REQUESTS = Histogram(
    "http.server.request.duration",
    "s",
    "Time to answer a request, by method (`_OTHER`: an unknown one), route (`pages`: all pages and "
    "static files; `_OTHER`: an unknown route, no valid key, or an answer 401, 403, 404 or 405) "
    "and class of the status (2xx … 5xx; none: the client went away).",
    labels=("http.request.method", "http.route", "http.response.status_class"),
    by="api",
    buckets=_ANSWERS,
)
EVENTS = Counter(
    "hookfast.events",
    "{event}",
    "Events committed, by origin: api, inbox.",
    labels=("origin",),
    by="api",
)
FILTERS = Counter(
    "hookfast.filters",
    "{filter}",
    "Filters of subscriptions applied to emitted events, by result: passed, kept_out, "
    "not_applied (it takes too many steps, so the event passes).",
    labels=("result",),
    by="api worker",
)
DELIVERIES = Counter(
    "hookfast.deliveries",
    "{delivery}",
    "Deliveries that ended, by outcome: delivered, dead, gone, cancelled, dead_on_arrival (the "
    "endpoint was disabled when the event was emitted).",
    labels=("outcome", TENANT_LABEL),
    by="api worker",
    starts={
        "api": ("dead_on_arrival",),
        "worker": ("delivered", "dead", "gone", "cancelled"),
    },
)
ATTEMPTS = Counter(
    "hookfast.attempts",
    "{attempt}",
    "HTTP requests made for deliveries, by result (success, status, dns, timeout, …), class of "
    "the answer's status (2xx … 5xx, none) and trigger (first, retry, resend, probe).",
    labels=("result", "status_class", "trigger", TENANT_LABEL),
)
IN_FLIGHT = Level(
    "hookfast.attempts.in_flight",
    "{attempt}",
    "Attempts in progress in this worker.",
)
POSTPONED_ATTEMPTS = Counter(
    "hookfast.attempts.postponed",
    "{attempt}",
    "Attempts that a worker had no memory for (`HOOKFAST_MAX_BODY_MEMORY`) and makes later; each "
    "try counts.",
    labels=(),
)
REPEATED_REQUESTS = Counter(
    "hookfast.requests.repeated",
    "{request}",
    "Requests that were sent once more within an attempt, by cause: connection (a reused "
    "connection ended before an answer began), credentials (the receiver rejected the first).",
    labels=("cause",),
    by="api worker",
    starts=("connection", "credentials"),
)
EGRESS_PROXY_FAILURES = Counter(
    "hookfast.egress_proxy.failures",
    "{connection}",
    "Connections to receivers that the egress proxy did not open for a reason of its own, by "
    "reason: unresolved, unreachable, rejected (401, 407, 429), invalid_answer, no_answer.",
    labels=("reason",),
    by="api worker",
    starts=("unresolved", "unreachable", "rejected", "invalid_answer", "no_answer"),
)
ATTEMPT_DURATION = Histogram(
    "hookfast.attempt.duration",
    "s",
    "Time from the look-up of the receiver's name to the last byte of its answer.",
    labels=("result",),
    buckets=_REQUESTS,
)
FIRST_ATTEMPT_DELAY = Histogram(
    "hookfast.delivery.first_attempt.delay",
    "s",
    "Time from the emit (or the scheduled time, or its turn in a lane) to the first attempt.",
    buckets=(*_WAITS, *_DAYS),
)
DELIVERY_DURATION = Histogram(
    "hookfast.delivery.duration",
    "s",
    "Time from the emit (or the scheduled time) to the answer that made it delivered.",
    buckets=(*_WAITS, *_DAYS),
)
RETRY_LATENESS = Histogram(
    "hookfast.retry.lateness",
    "s",
    "Time from when a retry was due to when a worker began it.",
    buckets=(*_WAITS, *_DAYS),
)
RELAY_BATCH = Histogram(
    "hookfast.relay.batch",
    "{delivery}",
    "Deliveries that the relay leased at once.",
    buckets=_BATCHES,
)
RELAY_STARTS = Counter(
    "hookfast.relay.starts",
    "{delivery}",
    "Deliveries whose workflow, their own or a batch's, the relay started in Temporal, by "
    "result: started, exists, failed, refused.",
    labels=("carrier", "result"),
)
BATCHING = Gauge(
    "hookfast.first_attempts.batching",
    "1",
    "Whether this worker sends new deliveries in batches.",
)
INBOX = Counter(
    "hookfast.inbox.requests",
    "{request}",
    "Inbound requests, by provider and outcome: accepted, duplicate, suppressed, failed, "
    "rejected, answered (such as a challenge).",
    labels=("provider", "outcome"),
    by="api",
)
QUOTA_REJECTIONS = Counter(
    "hookfast.quota.rejections",
    "{rejection}",
    "What was rejected because of a tenant's quota or limit, by quota: endpoints, subscriptions, "
    "sources, events_per_day (each event), test_sends.",
    labels=("quota", TENANT_LABEL),
    by="api",
    starts=("endpoints", "subscriptions", "sources", "events_per_day", "test_sends"),
)
MAIL = Counter(
    "hookfast.mail",
    "{mail}",
    "Mails to owners, by kind and result: sent, refused, delayed.",
    labels=("kind", "result"),
)
CIRCUIT_CHANGES = Counter(
    "hookfast.circuit.changes",
    "{change}",
    "Changes of endpoints' circuits: opened (an endpoint failed too often), closed (it has "
    "recovered, and nothing is held any more), disabled (the endpoint was, by a person, after a "
    "410, or because it failed for too long).",
    labels=("change",),
    by="api worker",
    starts=("opened", "closed", "disabled"),
)
TEMPORAL_UP = Gauge(
    "hookfast.temporal.up",
    "1",
    "Whether Temporal answers this process.",
    by="api worker",
)

CONNECTIONS = Gauge(
    "hookfast.connections",
    "{connection}",
    "Open connections of this process's HTTP server, by state: starting (no whole request has "
    "arrived), answering, idle.",
    labels=("state",),
    by="api worker outbox-relay",
)
CONNECTIONS_CLOSED = Counter(
    "hookfast.connections.closed",
    "{connection}",
    "Connections that the HTTP server closed, by reason: full (answered with 503), "
    "made_room_starting and made_room_idle (for a new one), silent (it sent nothing), "
    "slow_request, unread_answer, no_memory (it was slow and others needed the memory, or its "
    "answer was cut), too_many_ahead (requests before the first answer), large_head, invalid.",
    labels=("reason",),
    by="api worker outbox-relay",
    starts=(
        "full",
        "made_room_starting",
        "made_room_idle",
        "silent",
        "slow_request",
        "unread_answer",
        "no_memory",
        "too_many_ahead",
        "large_head",
        "invalid",
    ),
)

# -- read from the database by the API ------------------------------------------------------------

DATABASE_UP = Gauge(
    "hookfast.database.up",
    "1",
    "Whether the gauges could be read from the database.",
    by="api",
)
OUTBOX_BACKLOG = Gauge(
    "hookfast.outbox.backlog",
    "{delivery}",
    "Deliveries in the outbox, which wait to be started.",
    by="api",
)
OUTBOX_AGE = Gauge(
    "hookfast.outbox.oldest.age",
    "s",
    "Longest time that an endpoint's next delivery has waited to be started; 0 if none waits.",
    by="api",
)
PAST_DUE = Gauge(
    "hookfast.deliveries.past_due",
    "{delivery}",
    "Deliveries whose next attempt is a minute late or more.",
    by="api",
)
WAITING = Gauge(
    "hookfast.deliveries.waiting",
    "{delivery}",
    "Deliveries that have not ended, by status: pending, retrying, held, paused.",
    labels=("status",),
    by="api",
)
QUEUED = Gauge(
    "hookfast.deliveries.queued",
    "{delivery}",
    "Deliveries that wait for an earlier one of their lane; each is in "
    "`hookfast.deliveries.waiting` too.",
    by="api",
)
DEAD_LETTERS = Gauge(
    "hookfast.dead_letters",
    "{delivery}",
    "Dead letters that are stored.",
    by="api",
)
CIRCUITS = Gauge(
    "hookfast.circuits",
    "{endpoint}",
    "Endpoints whose circuit is not closed, by state: open, half_open, draining.",
    labels=("state",),
    by="api",
)
MAIL_WAITING = Gauge(
    "hookfast.mail.waiting",
    "{notice}",
    "Notices that have not been mailed to owners yet.",
    by="api",
)
MAIL_LATE = Gauge(
    "hookfast.mail.late",
    "s",
    "How late the most overdue notice is: the time for gathering and for its owner's digest "
    "has passed, and it is not sent. 0 if no notice is late.",
    by="api",
)
WORKERS = Gauge(
    "hookfast.workers",
    "{worker}",
    "Workers that sent a heartbeat lately.",
    by="api",
)

CLOCK_AHEAD = Gauge(
    "hookfast.clock.ahead",
    "s",
    "How far this machine's clock is ahead of the PostgreSQL server's, which is used; negative: "
    "behind. 0 on SQLite.",
    by="api worker",
)

OUTBOX_ROWS = Counter(
    "hookfast.outbox_relay.rows",
    "{row}",
    "Rows of an application's outbox that the relay has sent, by result: sent, replayed (an answer "
    "had been lost), rejected, postponed.",
    labels=("result",),
    by="outbox-relay",
    starts=("sent", "replayed", "rejected", "postponed"),
)
OUTBOX_LAG = Gauge(
    "hookfast.outbox_relay.lag",
    "s",
    "Age of the oldest row of the outbox that waits; 0 if none does.",
    by="outbox-relay",
)
OUTBOX_WAITING = Gauge(
    "hookfast.outbox_relay.waiting",
    "{row}",
    "Rows of the outbox that wait to be sent, counted up to 100,000.",
    by="outbox-relay",
)
OUTBOX_REJECTED = Gauge(
    "hookfast.outbox_relay.rejected",
    "{row}",
    "Rows of the outbox that Hookfast rejected and that nobody has dealt with.",
    by="outbox-relay",
)


def begin(process: str) -> None:
    """Start the counts that a process begins at 0."""
    for metric in CATALOGUE.values():
        if isinstance(metric, Counter):
            metric.begin(process)
