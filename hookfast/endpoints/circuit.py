"""The circuit breaker of an endpoint, as a state machine. Pure: storage keeps a `Circuit`, applies
these functions to it under a lock, and stores the result.

    CLOSED ──threshold crossed──▶ OPEN ──begin_probe──▶ HALF_OPEN
      ▲                           ▲  ▲                   │     │
      │                           │  └──the probe fails──┘     │ the probe succeeds
      │                           └──threshold crossed──┐      ▼
      └──────────────nothing is held───────────────── DRAINING

CLOSED sends every delivery. OPEN holds every delivery. HALF_OPEN sends one, the probe, and holds
the others. DRAINING releases held deliveries on a ramp; new deliveries queue up behind them until
the ramp is as fast as new ones are likely to come. An outage (`episode`) lasts from CLOSED back to
CLOSED. Disabling an endpoint also drains its circuit: the released deliveries end as dead letters.

The terms are those of Nygard's "Release It!"; DRAINING is the part of half-open in which a breaker
limits the rate of calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, assert_never

from hookfast.deliveries.facts import AttemptEnded
from hookfast.deliveries.retry_plan import PRESETS

PROBE_DELAYS: tuple[float, ...] = PRESETS["hourly"].delays[:7]
"""Seconds before each probe, the last one repeated: 1, 2, 4 … 32 min, then hourly."""
RAMP_FIRST = 5.0
"""Deliveries per second at which a drain begins."""
RAMP_STEP = timedelta(seconds=5)
"""After this long the ramp doubles."""
RAMP_LAST = 640.0
"""Deliveries per second at which the ramp stops doubling, unless the endpoint has a lower limit."""
RAMP_OPEN_TO_ALL = 80.0
"""From this rate on, new deliveries are sent too: held ones leave faster than new ones queue up."""


class State(StrEnum):
    """The state of a circuit."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    DRAINING = "draining"


class Cause(StrEnum):
    """Why a circuit last left CLOSED."""

    FAILURES = "failures"  # the threshold was crossed
    GONE = "gone"  # the receiver answered 410
    DISABLED = "disabled"  # a person disabled or deleted the endpoint
    GAVE_UP = "gave_up"  # it failed for too long and was disabled
    RESUMED = "resumed"  # a person resumed a paused endpoint


class EndpointState(StrEnum):
    """The state that people set for an endpoint."""

    ENABLED = "enabled"
    PAUSED = "paused"  # deliveries wait until it is resumed
    DISABLED = "disabled"  # deliveries become dead letters
    DELETED = "deleted"

    @property
    def stopped(self) -> bool:
        """Whether nothing is sent to the endpoint."""
        return self in (EndpointState.DISABLED, EndpointState.DELETED)


_PERMANENT = (Cause.GONE, Cause.DISABLED, Cause.GAVE_UP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When a circuit opens, when it is probed (seconds before each probe; the last repeats), and
    when its endpoint is disabled."""

    failure_threshold: int = 5
    min_span: timedelta = timedelta(seconds=10)
    probe_delays: tuple[float, ...] = PROBE_DELAYS
    disable_after: timedelta = timedelta(hours=72)

    def with_overrides(self, overrides: Mapping[str, Any]) -> Policy:
        """Return this policy with an endpoint's own values (column `circuit` of `endpoints`). A
        damaged column has none: an attempt could not be recorded otherwise."""
        if not overrides:
            return self
        try:
            span = overrides.get("min_span_seconds")
            disable_after = overrides.get("disable_after_seconds")
            delays = overrides.get("probe_delays_seconds", self.probe_delays)
            return Policy(
                failure_threshold=int(overrides.get("failure_threshold", self.failure_threshold)),
                min_span=self.min_span if span is None else timedelta(seconds=span),
                probe_delays=tuple(float(delay) for delay in delays) or self.probe_delays,
                disable_after=self.disable_after
                if disable_after is None
                else timedelta(seconds=disable_after),
            )
        except (AttributeError, TypeError, ValueError, OverflowError):
            return self

    def probe_delay(self, probes: int) -> timedelta:
        """Return how long to wait before the next probe, after this many failed ones."""
        return timedelta(seconds=self.probe_delays[min(probes, len(self.probe_delays) - 1)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """An endpoint's health and circuit, as stored. `probes` counts the failed probes since the
    last success; `workflow_started` is False while the row requests its workflow."""

    state: State = State.CLOSED
    episode: int = 0
    cause: Cause | None = None
    opened_at: datetime | None = None
    consecutive_failures: int = 0
    first_failure_at: datetime | None = None
    last_failure_at: datetime | None = None
    last_success_at: datetime | None = None
    last_error: str | None = None
    probes: int = 0
    next_probe_at: datetime | None = None
    probe_delivery_id: str | None = None
    probe_until: datetime | None = None
    probed_last: str | None = None
    drain_rate: float | None = None
    drained: int = 0
    workflow_started: bool = True


def after_attempt(
    circuit: Circuit,
    ended: AttemptEnded,
    *,
    delivery_id: str,
    policy: Policy,
    now: datetime,
    was_held: bool = False,
) -> Circuit:
    """Return the circuit after an attempt of this delivery was recorded. `was_held`: the delivery
    was held until then."""
    if was_held and circuit.state is State.DRAINING:
        circuit = replace(circuit, drained=circuit.drained + 1)
    if ended.outcome.healthy:
        return _after_success(circuit, ended.started_at)
    is_probe = circuit.probe_delivery_id == delivery_id
    return _after_failure(circuit, ended, is_probe=is_probe, policy=policy, now=now)


def _after_success(circuit: Circuit, began_at: datetime) -> Circuit:
    waiting = circuit.state in (State.OPEN, State.HALF_OPEN)
    if waiting and circuit.opened_at is not None and began_at < circuit.opened_at:
        # It began before the circuit opened and says nothing about now.
        return replace(circuit, last_success_at=began_at)
    healed = replace(
        circuit,
        consecutive_failures=0,
        first_failure_at=None,
        last_success_at=began_at,
        probes=0,
    )
    if not waiting:
        return healed
    # The probe succeeded, or a resend by a person: either way the endpoint has recovered.
    return _draining(healed)


def _after_failure(
    circuit: Circuit, ended: AttemptEnded, *, is_probe: bool, policy: Policy, now: datetime
) -> Circuit:
    first = last = ended.started_at
    if circuit.first_failure_at is not None and circuit.last_failure_at is not None:
        # slow attempts are recorded after quick ones that began later
        first, last = min(circuit.first_failure_at, first), max(circuit.last_failure_at, last)
    failed = replace(
        circuit,
        consecutive_failures=circuit.consecutive_failures + 1,
        first_failure_at=first,
        last_failure_at=last,
        last_error=ended.outcome.error,
    )
    match circuit.state:
        case State.CLOSED | State.DRAINING if circuit.cause in _PERMANENT:
            # The attempt was in progress when the endpoint was disabled: there is nothing to open,
            # and its owners must not read that it failed after they read that it was disabled.
            return failed
        case State.CLOSED:
            return _opened(failed, policy=policy, now=now) if _crossed(failed, policy) else failed
        case State.DRAINING:
            # On probation: the count alone decides.
            if failed.consecutive_failures < policy.failure_threshold:
                return failed
            return _reopened(failed, policy=policy, now=now)
        case State.HALF_OPEN if is_probe:
            return _reopened(replace(failed, probes=failed.probes + 1), policy=policy, now=now)
        case State.HALF_OPEN | State.OPEN:
            return failed
        case _:
            assert_never(circuit.state)


def _crossed(circuit: Circuit, policy: Policy) -> bool:
    if circuit.first_failure_at is None or circuit.last_failure_at is None:
        return False
    return (
        circuit.consecutive_failures >= policy.failure_threshold
        and circuit.last_failure_at - circuit.first_failure_at >= policy.min_span
    )


def _opened(circuit: Circuit, *, policy: Policy, now: datetime) -> Circuit:
    return replace(
        circuit,
        state=State.OPEN,
        episode=circuit.episode + 1,
        cause=Cause.FAILURES,
        opened_at=now,
        probes=0,
        next_probe_at=now + policy.probe_delay(0),
        probe_delivery_id=None,
        probe_until=None,
        probed_last=None,
        drain_rate=None,
        drained=0,
        workflow_started=False,
    )


def _reopened(circuit: Circuit, *, policy: Policy, now: datetime) -> Circuit:
    """Open the circuit again in the same outage. Its workflow waits for probes and drains, so it
    need not be woken."""
    return replace(
        circuit,
        state=State.OPEN,
        # a drain that had to stop is an outage by failures, whatever it began with
        cause=Cause.FAILURES,
        opened_at=circuit.opened_at or now,
        next_probe_at=now + policy.probe_delay(circuit.probes),
        probe_delivery_id=None,
        probe_until=None,
        drain_rate=None,
    )


def _draining(circuit: Circuit) -> Circuit:
    return replace(
        circuit,
        state=State.DRAINING,
        next_probe_at=None,
        probe_delivery_id=None,
        probe_until=None,
        drain_rate=None,
        workflow_started=False,
    )


def begin_probe(circuit: Circuit, delivery_id: str | None, *, until: datetime) -> Circuit:
    """Make an open circuit half-open, with `delivery_id` as the probe; None: the next delivery. A
    half-open circuit that still waits for a delivery gets this probe."""
    is_waiting = circuit.state is State.HALF_OPEN and circuit.probe_delivery_id is None
    if circuit.state is not State.OPEN and not is_waiting:
        return circuit
    return replace(
        circuit,
        state=State.HALF_OPEN,
        probe_delivery_id=delivery_id,
        probe_until=None if delivery_id is None else until,
        probed_last=delivery_id or circuit.probed_last,
    )


def claim_probe(circuit: Circuit, delivery_id: str, *, until: datetime) -> Circuit:
    """Make a delivery that is about to be sent a half-open circuit's probe until then, if it was
    chosen or the circuit waits for any delivery. No change if another delivery is the probe.

    The probe's time runs from when it is sent. If it ran from when it was chosen, a late probe
    would still be in progress when it is given up, and the next one would be sent beside it.
    """
    is_waiting = circuit.probe_delivery_id is None
    if circuit.state is not State.HALF_OPEN or circuit.probe_delivery_id not in (None, delivery_id):
        return circuit
    return replace(
        circuit,
        probe_delivery_id=delivery_id,
        probe_until=until,
        probed_last=delivery_id,
        # the workflow already knows a probe that it chose
        workflow_started=circuit.workflow_started and not is_waiting,
    )


def abandon_probe(circuit: Circuit, delivery_id: str | None) -> Circuit:
    """Open the circuit again because the probe has no result (it was cancelled, or its worker
    died). It counts neither as a success nor as a failure."""
    if circuit.state is not State.HALF_OPEN or circuit.probe_delivery_id != delivery_id:
        return circuit
    return replace(circuit, state=State.OPEN, probe_delivery_id=None, probe_until=None)


def release_all(circuit: Circuit, cause: Cause, *, now: datetime) -> Circuit:
    """Release all held deliveries: the endpoint was resumed, or nothing will be sent there again. A
    drain in progress starts its rate again, because that may be the rate of dead letters."""
    if circuit.state is State.CLOSED:
        circuit = replace(
            circuit, episode=circuit.episode + 1, opened_at=now, drained=0, probed_last=None
        )
    if circuit.state is not State.DRAINING:
        circuit = _draining(circuit)
    elif cause is Cause.RESUMED and circuit.cause is Cause.FAILURES:
        cause = Cause.FAILURES  # a pause within an outage: its owners still wait for the recovery
    return replace(circuit, cause=cause, drain_rate=None, workflow_started=False)


def closed(circuit: Circuit, *, held: int) -> Circuit:
    """Close a draining circuit if no delivery is held: the outage is over."""
    if circuit.state is not State.DRAINING or held:
        return circuit
    return replace(
        circuit,
        state=State.CLOSED,
        probes=0,
        drain_rate=None,
        probed_last=None,
        workflow_started=True,
    )


def ramp_rate(step: int, limit: float | None) -> float:
    """Return the deliveries per second in a step of a drain, counted from 0: 5, 10, 20, … 640, but
    never more than the endpoint's own limit."""
    rate = min(RAMP_FIRST * 2.0 ** min(step, 10), RAMP_LAST)
    return rate if limit is None else min(rate, limit)
