"""The kinds of log lines that report what happened. `docs/log-schema.json` describes them and every
field that a line may have; every line that the tests cause is checked against it.

A line never has a body, a header or a secret, and of a receiver's URL only the short form. Only
Hookfast's own sentences are in `event`, so lines can be grouped by it; what varies is in the other
fields.
"""

from __future__ import annotations

from enum import StrEnum


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
