"""The log lines of deliveries besides those of their attempts (held, released, paused, ended, …),
and the metric that counts their ends. They are written after the commit, so that they report
nothing that was rolled back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import structlog

from hookfast.clock import rfc3339
from hookfast.deliveries.transition import Transition, transitions
from hookfast.logs.kind import Kind
from hookfast.storage.deliveries.life_rows import LifeChange
from hookfast.telemetry import instruments

log = structlog.get_logger()

_SENTENCES: Final[Mapping[Transition, str]] = {
    Transition.HELD: "A delivery is held.",
    Transition.RELEASED: "A delivery is released.",
    Transition.PAUSED: "A delivery is paused.",
    Transition.RESUMED: "A delivery is resumed.",
    Transition.LIMITED: "A delivery waits for its endpoint's limits.",
    Transition.QUEUED: "A delivery waits in its lane.",
    Transition.MOVED_UP: "A delivery moved up in its lane.",
    Transition.RESENT: "A resend was requested.",
}


def log_transitions(changes: Iterable[LifeChange]) -> None:
    """Log what happened to these deliveries, one line for each transition."""
    for one in changes:
        life = one.after
        for transition in transitions(one.before, life):
            line: dict[str, Any] = {**one.locked.ids, "status": life.status.value}
            if life.reason is not None:
                line["reason"] = life.reason.value
            if (until := life.next_attempt_at) is not None:
                line["until"] = rfc3339(until)
            log.info(_SENTENCES[transition], kind=Kind(f"delivery.{transition}"), **line)


def report_ended(ended: Iterable[LifeChange], traces: Mapping[str, str]) -> None:
    """Count deliveries that ended, and log them; `deliveries_dead` logs the dead letters. `traces`
    has their trace ids."""
    for one in ended:
        status = one.after.status.value
        instruments.DELIVERIES.add(outcome=status, tenant=one.locked.tenant_id)
        if one.died:
            continue
        line: dict[str, Any] = {**one.locked.ids, "status": status}
        line["attempts"] = one.after.attempts
        if (trace_id := traces.get(one.delivery_id)) is not None:
            line["trace_id"] = trace_id
        log.info("A delivery ended.", kind=Kind.DELIVERY_ENDED, **line)
