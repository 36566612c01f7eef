"""The gate of an endpoint, which decides whether a delivery's attempt may be made now. Pure.

It has the state that people set for the endpoint and the state of its circuit. A worker asks
`due_attempt` when it has read a delivery, under locks if the gate does not let the attempt pass,
and again right before the first byte if it read the delivery a while ago.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Final, TypeAlias, assert_never

from hookfast.deliveries.facts import AttemptPlan, Trigger
from hookfast.deliveries.life import Life, next_step
from hookfast.deliveries.outcome import Reason
from hookfast.endpoints.circuit import RAMP_OPEN_TO_ALL, EndpointState, State


class Admission(Enum):
    """Whether an attempt that is about to be made is sent."""

    SEND = auto()
    HOLD = auto()
    CLAIM = auto()  # the circuit waits for a probe: send it if it can claim to be that
    PROBE = auto()  # the circuit chose it: it claims too, as its time runs from when it is sent
    DEAD_LETTER = auto()  # nothing is sent to the endpoint: the delivery becomes a dead letter
    NOT_DUE = auto()  # there is no attempt to be made now


Due: TypeAlias = tuple[AttemptPlan | None, Admission]
"""The attempt that is due, or None, and whether it is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The state of an endpoint and its circuit, which decides whether a delivery may be sent."""

    endpoint_state: EndpointState
    state: State = State.CLOSED
    probe_delivery_id: str | None = None
    drain_rate: float | None = None
    rate_limit_per_second: float | None = None

    @property
    def admits_all(self) -> bool:
        """Whether every new delivery may be sent."""
        return self.endpoint_state is EndpointState.ENABLED and self.state is State.CLOSED

    def probes(self, delivery_id: str) -> bool:
        """Whether the circuit chose this delivery to test if the endpoint has recovered."""
        return self.state is State.HALF_OPEN and self.probe_delivery_id == delivery_id


def hold_reason(gate: Gate) -> Reason | None:
    """Return why an endpoint holds deliveries; None if it holds none."""
    match gate.endpoint_state:
        case EndpointState.PAUSED:
            return Reason.ENDPOINT_PAUSED
        case EndpointState.DISABLED | EndpointState.DELETED:
            return None
        case EndpointState.ENABLED:
            return _HOLD_REASONS.get(gate.state)
        case _:
            assert_never(gate.endpoint_state)


_HOLD_REASONS: Final[Mapping[State, Reason]] = {
    State.OPEN: Reason.CIRCUIT_OPEN,
    State.HALF_OPEN: Reason.CIRCUIT_HALF_OPEN,
    State.DRAINING: Reason.CIRCUIT_DRAINING,
}


def due_attempt(
    life: Life, gate: Gate, delivery_id: str, now: datetime, *, in_batch: bool = False
) -> Due:
    """Return the attempt that a delivery makes now, and whether it is sent. `in_batch`: the caller
    is the batch that makes its first attempt."""
    step = next_step(life, now, probe=gate.probes(delivery_id), in_batch=in_batch)
    if not isinstance(step, AttemptPlan):
        return None, Admission.NOT_DUE
    return step, admit(gate, delivery_id, attempt=step, released=life.released)


def admit(gate: Gate, delivery_id: str, *, attempt: AttemptPlan, released: bool) -> Admission:
    """Decide whether an attempt may be made. A resend by a person is sent even while others are
    held. `released`: the drain has released the delivery."""
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
            if gate.probe_delivery_id is None:
                return Admission.CLAIM
            return Admission.PROBE if gate.probes(delivery_id) else Admission.HOLD
        case State.DRAINING:
            # if the ramp ends at the endpoint's own limit, that limit keeps the rate
            enough = min(RAMP_OPEN_TO_ALL, gate.rate_limit_per_second or RAMP_OPEN_TO_ALL)
            open_to_all = (gate.drain_rate or 0) >= enough
            return Admission.SEND if released or open_to_all else Admission.HOLD
        case _:
            assert_never(gate.state)
