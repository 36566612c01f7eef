from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hookfast.deliveries.facts import AttemptPlan, Trigger
from hookfast.deliveries.life import Life, Phase
from hookfast.endpoints.circuit import RAMP_LAST, RAMP_OPEN_TO_ALL, EndpointState, State
from hookfast.endpoints.gate import Admission, Gate, admit, due_attempt

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def gate(
    endpoint_state: str,
    state: State = State.CLOSED,
    probe: str | None = None,
    *,
    drains_at: float | None = None,
    limit: float | None = None,
) -> Gate:
    return Gate(
        endpoint_state=EndpointState(endpoint_state),
        state=state,
        probe_delivery_id=probe,
        drain_rate=drains_at,
        rate_limit_per_second=limit,
    )


def attempt(trigger: Trigger, *, yields_to_circuit: bool = False) -> AttemptPlan:
    return AttemptPlan(
        number=2, trigger=trigger, round=0, in_plan=False, yields_to_circuit=yields_to_circuit
    )


SEND, HOLD, CLAIM, PROBE, DEAD_LETTER, NOT_DUE = Admission


@pytest.mark.parametrize(
    ("endpoint_gate", "plain", "released", "resend"),
    [
        (gate("enabled"), SEND, SEND, SEND),
        (gate("enabled", State.OPEN), HOLD, HOLD, SEND),
        (gate("enabled", State.HALF_OPEN), CLAIM, CLAIM, SEND),
        (gate("enabled", State.HALF_OPEN, "dlv_1"), PROBE, PROBE, SEND),
        (gate("enabled", State.HALF_OPEN, "dlv_2"), HOLD, HOLD, SEND),
        (gate("enabled", State.DRAINING), HOLD, SEND, SEND),
        (gate("enabled", State.DRAINING, drains_at=40), HOLD, SEND, SEND),
        (gate("enabled", State.DRAINING, drains_at=RAMP_OPEN_TO_ALL), SEND, SEND, SEND),
        # the ramp ends at the endpoint's own limit, which keeps the rate from there on
        (gate("enabled", State.DRAINING, drains_at=20, limit=30), HOLD, SEND, SEND),
        (gate("enabled", State.DRAINING, drains_at=30, limit=30), SEND, SEND, SEND),
        (gate("paused"), HOLD, HOLD, SEND),
        (gate("paused", State.HALF_OPEN, "dlv_1"), HOLD, HOLD, SEND),
        (gate("paused", State.DRAINING, drains_at=RAMP_LAST), HOLD, HOLD, SEND),
        (gate("disabled"), DEAD_LETTER, DEAD_LETTER, DEAD_LETTER),
        (gate("disabled", State.DRAINING, drains_at=200), DEAD_LETTER, DEAD_LETTER, DEAD_LETTER),
        (gate("deleted", State.OPEN), DEAD_LETTER, DEAD_LETTER, DEAD_LETTER),
    ],
)
def test_admission_depends_on_endpoint_circuit_and_attempt(
    endpoint_gate: Gate, plain: Admission, released: Admission, resend: Admission
) -> None:
    for trigger in (Trigger.FIRST, Trigger.RETRY, Trigger.PROBE):
        assert admit(endpoint_gate, "dlv_1", attempt=attempt(trigger), released=False) is plain
        assert admit(endpoint_gate, "dlv_1", attempt=attempt(trigger), released=True) is released
    # a person's resend is sent while others are held, and one of many is not
    by_person, by_job = attempt(Trigger.RESEND), attempt(Trigger.RESEND, yields_to_circuit=True)
    assert admit(endpoint_gate, "dlv_1", attempt=by_person, released=False) is resend
    assert admit(endpoint_gate, "dlv_1", attempt=by_job, released=False) is plain
    assert admit(endpoint_gate, "dlv_1", attempt=by_job, released=True) is released


@pytest.mark.parametrize(
    ("endpoint_gate", "is_the_probe"),
    [
        (gate("enabled", State.HALF_OPEN, "dlv_1"), True),
        (gate("enabled", State.HALF_OPEN, "dlv_2"), False),
        (gate("enabled", State.HALF_OPEN), False),  # it may become the probe, but was not chosen
        (gate("enabled", State.OPEN, "dlv_1"), False),
        (gate("enabled"), False),
    ],
)
def test_probe_is_the_delivery_that_the_circuit_chose(
    endpoint_gate: Gate, is_the_probe: bool
) -> None:
    assert endpoint_gate.probes("dlv_1") is is_the_probe


WAITING = Life(due_at=NOON)
HELD = Life(phase=Phase.HELD, due_at=NOON, recheck_at=NOON + timedelta(hours=6))
OPEN = gate("enabled")


@pytest.mark.parametrize(
    ("life", "endpoint_gate", "trigger", "admission"),
    [
        (WAITING, OPEN, Trigger.FIRST, SEND),
        (WAITING, gate("enabled", State.OPEN), Trigger.FIRST, HOLD),
        (WAITING, gate("enabled", State.HALF_OPEN), Trigger.FIRST, CLAIM),
        (WAITING, gate("disabled"), Trigger.FIRST, DEAD_LETTER),
        (Life(due_at=NOON + timedelta(seconds=1)), OPEN, None, NOT_DUE),
        (Life(phase=Phase.DELIVERED), OPEN, None, NOT_DUE),
        # a held delivery is attempted before its check only as the probe that the circuit chose
        (HELD, gate("enabled", State.HALF_OPEN, "dlv_1"), Trigger.PROBE, PROBE),
        (HELD, gate("enabled", State.HALF_OPEN, "dlv_2"), None, NOT_DUE),
        (HELD, OPEN, None, NOT_DUE),
        (replace(HELD, recheck_at=NOON), gate("enabled", State.DRAINING), Trigger.FIRST, HOLD),
        (
            replace(HELD, recheck_at=NOON, released=True),
            gate("enabled", State.DRAINING),
            Trigger.FIRST,
            SEND,
        ),
    ],
)
def test_life_and_gate_say_which_attempt_is_due_and_whether_it_is_sent(
    life: Life, endpoint_gate: Gate, trigger: Trigger | None, admission: Admission
) -> None:
    planned, found = due_attempt(life, endpoint_gate, "dlv_1", NOON)
    assert (None if planned is None else planned.trigger, found) == (trigger, admission)


def test_only_the_batch_makes_the_first_attempt_of_a_delivery_that_it_holds() -> None:
    life = replace(WAITING, batch_until=NOON + timedelta(seconds=1))
    assert due_attempt(life, OPEN, "dlv_1", NOON) == (None, NOT_DUE)
    planned, admission = due_attempt(life, OPEN, "dlv_1", NOON, in_batch=True)
    assert planned is not None
    assert (planned.trigger, admission) == (Trigger.FIRST, SEND)
