"""The log lines of a circuit: opened, probed, draining, closed; and the metric that counts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from hookfast.clock import rfc3339
from hookfast.endpoints.circuit import Cause, Circuit, State
from hookfast.logs.kind import Kind
from hookfast.telemetry import instruments

log = structlog.get_logger()


def log_transition(before: Circuit, after: Circuit, *, endpoint: Mapping[str, str]) -> None:
    """Log and count what happened to a circuit. `endpoint` are the fields that say whose it is.

    Closing is only counted after failures: a circuit also closes after an endpoint was disabled, or
    resumed after a pause.
    """
    line: dict[str, Any] = {**endpoint, "outage": after.episode}
    if after.cause is not None:
        line["cause"] = after.cause.value
    if after.state is State.OPEN and after.next_probe_at is not None:
        line["next_probe_at"] = rfc3339(after.next_probe_at)
    if after.last_error is not None:
        line["last_error"] = after.last_error
    if after.state is State.OPEN and after.probes > before.probes:
        log.info("A probe failed.", kind=Kind.CIRCUIT_PROBED, probes=after.probes, **line)
    elif after.state is State.OPEN and before.state in (State.CLOSED, State.DRAINING):
        failures = after.consecutive_failures
        instruments.CIRCUIT_CHANGES.add(change="opened")
        log.info("A circuit opened.", kind=Kind.CIRCUIT_OPENED, failures=failures, **line)
    if after.state not in (State.DRAINING, State.CLOSED) or after.state is before.state:
        return
    if before.state is State.HALF_OPEN and after.cause is Cause.FAILURES:
        log.info("A probe succeeded.", kind=Kind.CIRCUIT_PROBED, probes=before.probes, **line)
    if after.state is State.DRAINING:
        log.info("A circuit drains.", kind=Kind.CIRCUIT_DRAINING, **line)
    else:
        if after.cause is Cause.FAILURES:
            instruments.CIRCUIT_CHANGES.add(change="closed")
        log.info("A circuit closed.", kind=Kind.CIRCUIT_CLOSED, **line)
