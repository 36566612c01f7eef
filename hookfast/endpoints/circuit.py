"""The circuit breaker of an endpoint, as a state machine. Pure: storage keeps a `Circuit`, applies
these functions to it under a lock, and stores what they return.

    CLOSED ──threshold crossed──▶ OPEN ──begin_probe──▶ HALF_OPEN
      ▲                           ▲  ▲                   │     │
      │                           │  └──the probe fails──┘     │ the probe succeeds
      │                           └──threshold crossed──┐      ▼
      └───────────nothing is held any more──────────── DRAINING

CLOSED lets everything go. OPEN holds everything. HALF_OPEN lets one delivery go, the probe, and
holds the rest. DRAINING lets what was held go on a ramp; what comes new queues up behind it until
the ramp is as fast as new deliveries are likely to come. An episode is the way from CLOSED back to
CLOSED. Disabling an endpoint also drains its circuit: what is let go then ends as a dead letter.

Terms as in Nygard's "Release It!"; DRAINING is the part of half-open in which a breaker limits the
rate of calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum, auto
from typing import Any, assert_never

from hookfast.deliveries.facts import Attempt, Trigger
from hookfast.deliveries.retry_plan import PRESETS

PROBE_DELAYS: tuple[float, ...] = PRESETS["hourly"].delays[:7]
"""Seconds before each probe, the last one repeated: 1, 2, 4 … 32 min, then hourly."""
RAMP_FIRST = 5.0
"""Deliveries per second at which a drain begins."""
RAMP_STEP = timedelta(seconds=5)
"""After this long the ramp doubles."""
RAMP_LAST = 640.0
"""Deliveries per second at which it stops doubling, where the endpoint has no limit of its own."""
RAMP_OPEN_TO_ALL = 80.0
"""From this rate on new deliveries go too: held ones are leaving faster than new ones queue up."""


class State(StrEnum):
    """Where a circuit stands."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    DRAINING = "draining"


class Cause(StrEnum):
    """What began an episode."""

    FAILURES = "failures"  # the threshold was crossed
    GONE = "gone"  # the receiver answered 410
    DISABLED = "disabled"  # somebody disabled or deleted the endpoint
    GAVE_UP = "gave_up"  # it failed for too long and was disabled
    RESUMED = "resumed"  # somebody resumed a paused endpoint


_FOR_GOOD = (Cause.GONE, Cause.DISABLED, Cause.GAVE_UP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When a circuit opens, when it is probed (seconds before each probe; the last repeats), and
    when its endpoint is given up."""

    failure_threshold: int = 5
    min_span: timedelta = timedelta(seconds=10)
    probe_delays: tuple[float, ...] = PROBE_DELAYS
    disable_after: timedelta = timedelta(hours=72)

    def overridden(self, overrides: Mapping[str, Any]) -> Policy:
        """This policy with an endpoint's own values (the column `circuit` of `endpoints`)."""
        if not overrides:
            return self
        span = overrides.get("min_span_seconds")
        give_up = overrides.get("disable_after_seconds")
        return Policy(
            failure_threshold=overrides.get("failure_threshold", self.failure_threshold),
            min_span=self.min_span if span is None else timedelta(seconds=span),
            probe_delays=tuple(overrides.get("probe_delays_seconds", self.probe_delays)),
            disable_after=self.disable_after if give_up is None else timedelta(seconds=give_up),
        )

    def probe_delay(self, probes: int) -> timedelta:
        """How long to wait before the next probe when `probes` have failed."""
        return timedelta(seconds=self.probe_delays[min(probes, len(self.probe_delays) - 1)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """An endpoint's health and circuit, as stored. `probes` counts the failed probes since the
    last success; `workflow_started` is whether the circuit's workflow knows how things stand."""

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

    @property
    def clean(self) -> bool:
        """Whether a success has nothing to change here."""
        return self.state is State.CLOSED and self.consecutive_failures == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """What one recorded attempt says about its endpoint; `at` is when it began. `was_held`: the
    delivery was on hold until now."""

    delivery_id: str
    at: datetime
    succeeded: bool
    error: str | None = field(default=None, repr=False)
    was_held: bool = False


def after_attempt(
    circuit: Circuit, result: AttemptResult, *, policy: Policy, now: datetime
) -> Circuit:
    """The circuit after an attempt was recorded."""
    if result.was_held and circuit.state is State.DRAINING:
        circuit = replace(circuit, drained=circuit.drained + 1)
    if result.succeeded:
        return _after_success(circuit, result)
    return _after_failure(circuit, result, policy=policy, now=now)


def _after_success(circuit: Circuit, result: AttemptResult) -> Circuit:
    waiting = circuit.state in (State.OPEN, State.HALF_OPEN)
    if waiting and circuit.opened_at is not None and result.at < circuit.opened_at:
        # It began before the circuit opened and says nothing about now.
        return replace(circuit, last_success_at=result.at)
    healed = replace(
        circuit,
        consecutive_failures=0,
        first_failure_at=None,
        last_success_at=result.at,
        probes=0,
    )
    if not waiting:
        return healed
    # Whichever delivery it was, the probe or one that a person sent: the endpoint is back.
    return _draining(healed)


def _after_failure(
    circuit: Circuit, result: AttemptResult, *, policy: Policy, now: datetime
) -> Circuit:
    first = last = result.at
    if circuit.first_failure_at is not None and circuit.last_failure_at is not None:
        # slow attempts are recorded after quick ones that began later
        first, last = min(circuit.first_failure_at, first), max(circuit.last_failure_at, last)
    failed = replace(
        circuit,
        consecutive_failures=circuit.consecutive_failures + 1,
        first_failure_at=first,
        last_failure_at=last,
        last_error=result.error,
    )
    match circuit.state:
        case State.CLOSED | State.DRAINING if circuit.cause in _FOR_GOOD:
            # Attempts that were under way when the endpoint was disabled: there is nothing to open,
            # and its owners must not read that it failed after they read that it was disabled.
            return failed
        case State.CLOSED:
            return _opened(failed, policy=policy, now=now) if _crossed(failed, policy) else failed
        case State.DRAINING:
            # On probation: the count alone decides.
            if failed.consecutive_failures < policy.failure_threshold:
                return failed
            return _reopened(failed, policy=policy, now=now)
        case State.HALF_OPEN if circuit.probe_delivery_id == result.delivery_id:
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
    """Open again, in the same episode. Its workflow watches probes and drains, and need not be told
    of how they end."""
    return replace(
        circuit,
        state=State.OPEN,
        # a drain that had to stop is an outage too, whatever began the episode
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
    """Half-open, with `delivery_id` as the probe; None: the next delivery that comes. Only from
    OPEN, or where a half-open circuit still waits for a delivery to come."""
    waits = circuit.state is State.HALF_OPEN and circuit.probe_delivery_id is None
    if circuit.state is not State.OPEN and not waits:
        return circuit
    return replace(
        circuit,
        state=State.HALF_OPEN,
        probe_delivery_id=delivery_id,
        probe_until=None if delivery_id is None else until,
        probed_last=delivery_id or circuit.probed_last,
    )


def claim_probe(circuit: Circuit, delivery_id: str, *, until: datetime) -> Circuit:
    """A delivery about to be sent is a half-open circuit's probe, until then: it was chosen, or it
    came while the circuit waited for one. Not if another is.

    Its time runs from when it is sent. If it ran from when it was chosen, a probe that comes late
    would still be under way when it is given up, and the next one beside it.
    """
    waits = circuit.probe_delivery_id is None
    if circuit.state is not State.HALF_OPEN or circuit.probe_delivery_id not in (None, delivery_id):
        return circuit
    return replace(
        circuit,
        probe_delivery_id=delivery_id,
        probe_until=until,
        probed_last=delivery_id,
        # the workflow knows of those it chose
        workflow_started=circuit.workflow_started and not waits,
    )


def abandon_probe(circuit: Circuit, delivery_id: str | None) -> Circuit:
    """Open again: nothing was heard of the probe (it was cancelled, or its worker died). Nothing
    is learnt, so nothing is counted."""
    if circuit.state is not State.HALF_OPEN or circuit.probe_delivery_id != delivery_id:
        return circuit
    return replace(circuit, state=State.OPEN, probe_delivery_id=None, probe_until=None)


def release_all(circuit: Circuit, cause: Cause, *, now: datetime) -> Circuit:
    """Let everything held go: the endpoint was resumed, or it will never be sent to again. The rate
    of a drain that is under way is not taken over: it may be that of dead letters."""
    if circuit.state is State.CLOSED:
        circuit = replace(
            circuit, episode=circuit.episode + 1, opened_at=now, drained=0, probed_last=None
        )
    if circuit.state is not State.DRAINING:
        circuit = _draining(circuit)
    elif cause is Cause.RESUMED and circuit.cause is Cause.FAILURES:
        cause = Cause.FAILURES  # a pause within an outage: its owners are yet to hear of its end
    return replace(circuit, cause=cause, drain_rate=None, workflow_started=False)


def closed(circuit: Circuit, *, held: int) -> Circuit:
    """The end of the episode, once a draining circuit holds nothing any more."""
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
    """Deliveries per second in step `step` (from 0) of a drain, for an endpoint that takes `limit`
    per second: 5, 10, 20, … 640, or the limit."""
    rate = min(RAMP_FIRST * 2.0 ** min(step, 10), RAMP_LAST)
    return rate if limit is None else min(rate, limit)


class Admission(StrEnum):
    """What becomes of an attempt that is about to be made."""

    SEND = auto()
    HOLD = auto()
    CLAIM = auto()  # send it, if it is the probe by then
    DEAD_LETTER = auto()  # the endpoint will not be sent to again: a dead letter


class EndpointState(StrEnum):
    """What people made of an endpoint."""

    ENABLED = "enabled"
    PAUSED = "paused"  # deliveries wait until it is resumed
    DISABLED = "disabled"  # deliveries become dead letters
    DELETED = "deleted"

    @property
    def over(self) -> bool:
        """Whether nothing is sent there any more."""
        return self in (EndpointState.DISABLED, EndpointState.DELETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What decides whether a delivery may go to an endpoint now."""

    endpoint_state: EndpointState
    state: State = State.CLOSED
    probe_delivery_id: str | None = None
    drain_rate: float | None = None
    rate_limit_per_second: float | None = None

    @property
    def takes_everything(self) -> bool:
        """Whether nothing keeps a new delivery from it."""
        return self.endpoint_state is EndpointState.ENABLED and self.state is State.CLOSED

    def probes(self, delivery_id: str) -> bool:
        """Whether the circuit chose this delivery to find out whether the endpoint is back."""
        return self.state is State.HALF_OPEN and self.probe_delivery_id == delivery_id


def admit(gate: Gate, delivery_id: str, *, attempt: Attempt, released: bool) -> Admission:
    """Whether an attempt may be made. A resend that a person asked for goes even where others are
    held; `released`: the drain let the delivery go."""
    match gate.endpoint_state:
        case EndpointState.DISABLED | EndpointState.DELETED:
            return Admission.DEAD_LETTER
        case _ if attempt.trigger is Trigger.RESEND and not attempt.yields_to_circuit:
            return Admission.SEND
        case EndpointState.PAUSED:
            return Admission.HOLD
        case EndpointState.ENABLED:
            pass
        case _:
            assert_never(gate.endpoint_state)
    match gate.state:
        case State.CLOSED:
            return Admission.SEND
        case State.OPEN:
            return Admission.HOLD
        case State.HALF_OPEN:
            # the one that was chosen claims too: its time runs from when it is sent
            may_be = gate.probe_delivery_id in (None, delivery_id)
            return Admission.CLAIM if may_be else Admission.HOLD
        case State.DRAINING:
            # where the ramp ends at the endpoint's own limit, that keeps the rate from here on
            enough = min(RAMP_OPEN_TO_ALL, gate.rate_limit_per_second or RAMP_OPEN_TO_ALL)
            open_to_all = (gate.drain_rate or 0) >= enough
            return Admission.SEND if released or open_to_all else Admission.HOLD
        case _:
            assert_never(gate.state)
