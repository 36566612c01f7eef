"""The schema of the log: every field that a line may have, and the kinds of lines that report what
happened. `docs/log-schema.json` and the tables in `docs/telemetry.md` are made from it.

A line never has a body, a header or a secret, and of a receiver's URL only the short form. Only
Hookfast's own sentences are in `event`, so lines can be grouped by it; what varies is in the other
fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Kind(StrEnum):
    """What a line reports. Only lines that report something that happened have a kind: those at
    `info`, and the warnings about dependencies."""

    EVENT_ACCEPTED = "event.accepted"
    ATTEMPT_ENDED = "attempt.ended"
    DELIVERY_ENDED = "delivery.ended"
    DEAD_LETTER = "delivery.dead_letter"
    DELIVERY_HELD = "delivery.held"
    DELIVERY_RELEASED = "delivery.released"
    DELIVERY_PAUSED = "delivery.paused"
    DELIVERY_RESUMED = "delivery.resumed"
    DELIVERY_LIMITED = "delivery.limited"
    DELIVERY_QUEUED = "delivery.queued"
    DELIVERY_MOVED_UP = "delivery.moved_up"
    DELIVERY_RESENT = "delivery.resent"
    CIRCUIT_OPENED = "circuit.opened"
    CIRCUIT_PROBED = "circuit.probed"
    CIRCUIT_DRAINING = "circuit.draining"
    CIRCUIT_CLOSED = "circuit.closed"
    CHANGE = "change"
    MAIL_SENT = "mail.sent"
    JOB_STARTED = "job.started"
    JOB_ENDED = "job.ended"
    INBOUND = "inbound.request"
    OUTBOX_BATCH = "outbox.batch"
    OUTBOX_REJECTED = "outbox.rejected"
    REQUEST = "request"
    DEPENDENCY_AWAY = "dependency.away"
    DEPENDENCY_BACK = "dependency.back"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a line: its JSON type and its meaning."""

    type: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Line:
    """The meaning of a kind of line, and the fields that each line of this kind has."""

    meaning: str
    fields: tuple[str, ...]


_DELIVERY = ("delivery_id", "event_id", "endpoint_id", "tenant_id", "event_type")
_CIRCUIT = ("endpoint_id", "endpoint_url", "tenant_id", "outage")

KINDS: Final[Mapping[Kind, Line]] = {
    Kind.EVENT_ACCEPTED: Line(
        "An event and its deliveries were committed, by the API or from a source.",
        ("event_id", "event_type", "deliveries", "origin", "trace_id"),
    ),
    Kind.ATTEMPT_ENDED: Line(
        "A request of a delivery ended and was recorded; `status` and `next_attempt_at` say what "
        "comes next.",
        (*_DELIVERY, "attempt", "trigger", "result", "duration_ms", "status"),
    ),
    Kind.DELIVERY_ENDED: Line(
        "A delivery was delivered or cancelled.", (*_DELIVERY, "status", "attempts")
    ),
    Kind.DEAD_LETTER: Line(
        "A delivery ended without success: `status` is `dead` or `gone`.",
        (*_DELIVERY, "status", "reason", "attempts"),
    ),
    Kind.DELIVERY_HELD: Line(
        "A delivery waits because of its endpoint; `until` is when it checks again by itself. If "
        "it goes on waiting for the same reason, there is no other line.",
        (*_DELIVERY, "status", "reason"),
    ),
    Kind.DELIVERY_RELEASED: Line(
        "A held delivery may be sent: its endpoint's circuit drains, or holds it no longer.",
        (*_DELIVERY, "status"),
    ),
    Kind.DELIVERY_PAUSED: Line("A person or a job paused a delivery.", (*_DELIVERY, "status")),
    Kind.DELIVERY_RESUMED: Line(
        "A person or a job resumed a paused delivery.", (*_DELIVERY, "status")
    ),
    Kind.DELIVERY_LIMITED: Line(
        "An attempt was due, and the endpoint's limits gave it a later turn, at `until`.",
        (*_DELIVERY, "status"),
    ),
    Kind.DELIVERY_QUEUED: Line(
        "A delivery that had left its lane waits behind others there again.",
        (*_DELIVERY, "status"),
    ),
    Kind.DELIVERY_MOVED_UP: Line(
        "A delivery is the next of its lane to be sent.", (*_DELIVERY, "status")
    ),
    Kind.DELIVERY_RESENT: Line("A person or a job resent a delivery.", (*_DELIVERY, "status")),
    Kind.CIRCUIT_OPENED: Line(
        "An endpoint failed too often: its deliveries are held from now on.",
        (*_CIRCUIT, "failures"),
    ),
    Kind.CIRCUIT_PROBED: Line(
        "A probe failed, so the circuit stays open until the next one; or it succeeded.",
        (*_CIRCUIT, "probes"),
    ),
    Kind.CIRCUIT_DRAINING: Line(
        "Held deliveries are sent at a rising rate, or end if the endpoint is disabled.",
        (*_CIRCUIT, "cause"),
    ),
    Kind.CIRCUIT_CLOSED: Line("The outage is over: nothing is held any more.", _CIRCUIT),
    Kind.CHANGE: Line(
        "Somebody changed something, such as `endpoint.pause`, `endpoint.disable` or "
        "`api_key.revoke`; the audit log has the details.",
        ("action", "resource", "resource_id", "actor"),
    ),
    Kind.MAIL_SENT: Line("The mail server accepted a mail to an owner.", ("mail", "owner_hash")),
    Kind.JOB_STARTED: Line("A job on many deliveries began.", ("job_id", "job", "action", "total")),
    Kind.JOB_ENDED: Line(
        "A job is done, cancelled or failed.",
        ("job_id", "job", "action", "status", "done", "skipped", "failed"),
    ),
    Kind.INBOUND: Line(
        "A source's request was answered; `outcome` is `accepted`, `duplicate`, `suppressed`, "
        "`failed`, `answered` or `rejected`, the last with the `code` of its reason.",
        ("source_id", "provider", "outcome"),
    ),
    Kind.OUTBOX_BATCH: Line(
        "The outbox relay has sent rows of an application's outbox, and their results are "
        "committed there.",
        ("sent", "replayed", "rejected", "postponed", "duration_ms"),
    ),
    Kind.OUTBOX_REJECTED: Line(
        "A row of an application's outbox was rejected for good; the row has the whole reason.",
        ("row", "event_type", "code"),
    ),
    Kind.REQUEST: Line(
        "An HTTP request ended (the access log); without `status_code`, its client went away "
        "before it was answered.",
        ("method", "route", "duration_ms", "request_id"),
    ),
    Kind.DEPENDENCY_AWAY: Line(
        "Temporal or the database does not answer this process; at most once a minute, however "
        "much fails meanwhile.",
        ("dependency", "away_seconds", "interruptions", "failed_requests", "error"),
    ),
    Kind.DEPENDENCY_BACK: Line(
        "It answers again.", ("dependency", "away_seconds", "interruptions", "failed_requests")
    ),
}
"""Every kind of line."""


FIELDS: Final[Mapping[str, Field]] = {
    "timestamp": Field("string", "When the line was written: RFC 3339, UTC, in microseconds."),
    "level": Field("string", "`debug`, `info`, `warning`, `error` or `critical`."),
    "process": Field("string", "`api`, `worker`, `up`, `migrate`, `demo` or `outbox-relay`."),
    "event": Field("string", "A sentence, the same for all lines that report the same."),
    "kind": Field("string", "What happened; see the table of kinds."),
    # what it concerns
    "event_id": Field("string", "The event, `evt_…`."),
    "delivery_id": Field("string", "The delivery, `dlv_…`."),
    "endpoint_id": Field("string", "The endpoint, `ep_…`."),
    "tenant_id": Field("string", "The tenant, `tnt_…`; missing if it concerns no single one."),
    "event_type": Field("string", "The event's type."),
    "attempt": Field("integer", "The attempt's number, 1 for the first."),
    "request_id": Field("string", "The API request's `X-Request-Id`."),
    "trace_id": Field("string", "The trace: 32 hexadecimal digits."),
    "span_id": Field("string", "The span: 16 hexadecimal digits."),
    "batch_id": Field("string", "The batch of first attempts."),
    "inbox_id": Field("string", "The inbox entry, `inb_…`."),
    "job_id": Field("string", "The job, `job_…`."),
    "key_id": Field("string", "The API key that was used, `key_…`; never the key itself."),
    "source_id": Field("string", "The source, `src_…`."),
    "subscription_id": Field("string", "The subscription, `sub_…`."),
    "owner_hash": Field("string", "The owner, by a hash of the address."),
    "workflow_id": Field("string", "The workflow in Temporal."),
    # attempts and deliveries
    "attempts": Field("integer", "The attempts that the delivery had."),
    "deliveries": Field("integer", "The deliveries that the event has."),
    "duration_ms": Field("number", "How long the attempt, the request or the batch took."),
    "next_attempt_at": Field("string", "When the next attempt is due; missing if none is."),
    "until": Field("string", "Until when it waits, or when it checks again by itself."),
    "origin": Field("string", "Where the event came from: `api` or `inbox`."),
    "reason": Field(
        "string",
        "Why: of a delivery, its `reason` in the API; of closed connections, that of "
        "`hookfast.connections.closed`.",
    ),
    "result": Field("string", "The attempt's result: `success`, `status`, `timeout`, `dns`, …"),
    "status": Field("string", "The delivery's status after it; of a job, the job's."),
    "status_code": Field("integer", "The status of the HTTP answer, if one came."),
    "trigger": Field("string", "Why the attempt was made: `first`, `retry`, `resend`, `probe`."),
    # circuits, changes, jobs, mail
    "action": Field("string", "The change, as in the audit log; of a job, its action."),
    "actor": Field("string", "Who changed it: a key's scope, `portal`, `cli` or `system`."),
    "cause": Field("string", "What began the outage: `failures`, `gone`, `disabled`, …"),
    "done": Field("integer", "The job's deliveries that acted."),
    "failed": Field("integer", "The job's deliveries that could not act."),
    "endpoint_name": Field("string", "The endpoint's description; missing if it has none."),
    "endpoint_url": Field("string", "The endpoint's URL, up to the first part of its path."),
    "failures": Field("integer", "Consecutive failures of the endpoint."),
    "job": Field("string", "The job's kind."),
    "last_error": Field("string", "The endpoint's last failure, in Hookfast's words."),
    "mail": Field("string", "The mail's kind: `opened`, `recovered`, `disabled`, …"),
    "next_probe_at": Field("string", "When the open circuit is probed next."),
    "outage": Field("integer", "The number of the endpoint's outage."),
    "probes": Field("integer", "The failed probes of this outage."),
    "resource": Field("string", "The kind of thing that was changed."),
    "resource_id": Field("string", "The id of the thing that was changed."),
    "skipped": Field("integer", "The job's deliveries for which its action had no effect."),
    "total": Field("integer", "The deliveries that the job selected."),
    # dependencies
    "away_seconds": Field("number", "How long it has been away, or was."),
    "dependency": Field("string", "`temporal` or `database`."),
    "failed_requests": Field(
        "integer", "The calls of this process that failed meanwhile, as far as they were counted."
    ),
    "interruptions": Field("integer", "How often it went away since it was last reported back."),
    # the outbox relay
    "postponed": Field("integer", "The rows that Hookfast cannot take yet."),
    "rejected": Field("integer", "The rows that Hookfast rejected for good."),
    "replayed": Field("integer", "The rows that were events already; an answer had been lost."),
    "row": Field("integer", "The `id` of a row of the outbox."),
    "sent": Field("integer", "The rows that became events."),
    # requests
    "held_by": Field("string", "What held memory: a body of a request, a response or an attempt."),
    "owners": Field("array", "Whose shares of the memory for bodies it was counted in."),
    "bytes_held": Field("integer", "The memory that the body took."),
    "bytes_moved": Field("integer", "What of the body had arrived or left."),
    "client": Field("string", "The address, or network, that the request came from."),
    "code": Field("string", "The code of a problem, as in problem documents."),
    "method": Field("string", "The request's method."),
    "outcome": Field("string", "How the request to the source ended."),
    "provider": Field("string", "The source's provider."),
    "route": Field("string", "The route's path, with the names of its parameters."),
    # the process, and what does not work
    "count": Field("integer", "How many."),
    "clock_ahead_seconds": Field(
        "number", "How far a clock is ahead of the one it was compared with; negative: behind."
    ),
    "database": Field("string", "`sqlite` or `postgresql`."),
    "day": Field("string", "The day of a partition."),
    "error": Field("string", "The class of an error, or Hookfast's own words for it."),
    "exception": Field("string", "A traceback, without the values of variables."),
    "figures": Field("array", "Figures, each with what was counted and how many rows there are."),
    "gauges": Field("array", "Gauges, each with what was added to correct it."),
    "grace": Field("string", "How long the worker may take to stop."),
    "host": Field("string", "The address that a port listens on."),
    "hour": Field("string", "The beginning of an hour."),
    "how": Field("string", "How a process ended."),
    "instance": Field("string", "The id in the problem document of an unexpected error."),
    "limit": Field("integer", "The limit that was reached."),
    "names": Field("array", "Names of search attributes."),
    "networks": Field("array", "Networks that the address guard allows."),
    "part": Field("string", "A process of `hookfast up`."),
    "partition": Field("string", "A partition of a table."),
    "port": Field("integer", "A port that is listened on."),
    "problem": Field("string", "The fault of the egress proxy."),
    "protocol": Field("string", "A protocol for traces and metrics that is not supported."),
    "proxy": Field("string", "The host and port of the egress proxy."),
    "public_url": Field("string", "The URL of this API."),
    "retry_in_seconds": Field("number", "The pause until the next try."),
    "run_id": Field("string", "The id of a retention run."),
    "schedule": Field("string", "A schedule in Temporal."),
    "signal": Field("string", "`traces` or `metrics`."),
    "sqlstate": Field("string", "PostgreSQL's code of the error."),
    "table": Field("string", "A table of the database."),
    "version": Field("string", "The version of Hookfast."),
}
"""Every field, by its name."""

_ALWAYS = ("timestamp", "level", "process", "event")


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of one line."""
    properties: dict[str, Any] = {name: _property(field) for name, field in FIELDS.items()}
    properties["timestamp"]["pattern"] = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"
    properties["level"]["enum"] = ["debug", "info", "warning", "error", "critical"]
    properties["kind"]["enum"] = [kind.value for kind in Kind]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of Hookfast's log",
        "type": "object",
        "properties": properties,
        "required": list(_ALWAYS),
        "additionalProperties": False,
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind.value}}, "required": ["kind"]},
                "then": {"required": list(line.fields)},
            }
            for kind, line in KINDS.items()
        ],
    }


def _property(field: Field) -> dict[str, Any]:
    found: dict[str, Any] = {"type": field.type, "description": field.meaning}
    if field.type == "array":
        found["items"] = {"type": "string"}
    return found
