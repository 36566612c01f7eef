"""The circuit, by example. `test_circuit_world` has what holds in any order of events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any, TypeAlias

import pytest

from hookfast.deliveries.facts import AttemptEnded, AttemptPlan, Trigger
from hookfast.deliveries.outcome import Outcome, Result
from hookfast.deliveries.retry_plan import DEFAULT_PLAN
from hookfast.endpoints.circuit import (
    RAMP_LAST,
    Cause,
    Circuit,
    EndpointState,
    Policy,
    State,
    abandon_probe,
    after_attempt,
    begin_probe,
    claim_probe,
    closed,
    ramp_rate,
    release_all,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
POLICY = Policy()
FOR_GOOD = (Cause.GONE, Cause.DISABLED, Cause.GAVE_UP)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


Recorded: TypeAlias = tuple[str, AttemptEnded]
"""An attempt, and the id of its delivery."""


def result(seconds: float, *, succeeded: bool = False, delivery_id: str = "dlv_1") -> Recorded:
    outcome = Outcome(
        result=Result.SUCCESS if succeeded else Result.STATUS,
        duration_ms=5,
        error=None if succeeded else "503",
    )
    return delivery_id, AttemptEnded(
        attempt_id="att_1",
        attempt=AttemptPlan(number=1, trigger=Trigger.FIRST, round=0, in_plan=True),
        started_at=at(seconds),
        outcome=outcome,
        plan=DEFAULT_PLAN,
        timeout_seconds=5,
        jitter=0,
    )


def after(circuit: Circuit, *results: Recorded, policy: Policy = POLICY) -> Circuit:
    """Return the circuit after these results, each recorded when it began."""
    for delivery_id, ended in results:
        circuit = after_attempt(
            circuit, ended, delivery_id=delivery_id, policy=policy, now=ended.started_at
        )
    return circuit


def failing(number: int, *, apart: float = 5) -> Iterator[Recorded]:
    return (result(index * apart) for index in range(number))


OPEN = replace(after(Circuit(), *failing(5)), workflow_started=True)  # at 20 s
PROBING = begin_probe(OPEN, "dlv_1", until=at(200))
ARMED = begin_probe(OPEN, None, until=at(200))
DRAINING = after(PROBING, result(90, succeeded=True))


# -- opening ------------------------------------------------------------------------------------


def test_fifth_failure_within_ten_seconds_or_more_opens_the_circuit() -> None:
    four = after(Circuit(), *failing(4))
    assert (four.state, four.consecutive_failures, four.episode) == (State.CLOSED, 4, 0)
    assert (OPEN.state, OPEN.cause, OPEN.episode) == (State.OPEN, Cause.FAILURES, 1)
    assert (OPEN.first_failure_at, OPEN.last_failure_at, OPEN.opened_at) == (at(0), at(20), at(20))
    assert (OPEN.consecutive_failures, OPEN.last_error) == (5, "503")
    assert OPEN.next_probe_at == at(80)
    assert not after(four, result(20)).workflow_started


def test_burst_of_failures_opens_only_after_ten_seconds() -> None:
    burst = after(Circuit(), *failing(50, apart=0.2))  # 0 to 9.8 s
    assert (burst.state, burst.consecutive_failures) == (State.CLOSED, 50)
    assert after(burst, result(9.999)).state is State.CLOSED
    assert after(burst, result(10)).state is State.OPEN


def test_failures_count_in_any_order_of_records() -> None:
    """A refused connection is recorded before a timeout that began earlier."""
    for order in permutations([0, 2.5, 5, 7.5, 10]):
        circuit = after(Circuit(), *map(result, order))
        assert circuit.state is State.OPEN, order
        assert (circuit.first_failure_at, circuit.last_failure_at) == (at(0), at(10))


def test_late_records_count_only_their_own_span() -> None:
    healed = after(Circuit(), result(50), result(55, succeeded=True))
    assert after(healed, *map(result, range(20, 29))).state is State.CLOSED
    assert after(healed, *map(result, range(20, 31))).state is State.OPEN


def test_success_resets_count_and_span() -> None:
    healed = after(Circuit(), *failing(4), result(30, succeeded=True))
    assert (healed.consecutive_failures, healed.first_failure_at) == (0, None)
    assert healed.state is State.CLOSED
    # five more within 8 s: the failures before the success count for neither
    assert after(healed, *(result(40 + 2 * n) for n in range(5))).state is State.CLOSED
    assert after(healed, *(result(40 + 3 * n) for n in range(5))).state is State.OPEN


def test_each_outage_has_its_own_number() -> None:
    again = after(closed(DRAINING, held=0), *(result(1000 + 5 * n) for n in range(5)))
    assert (again.state, again.episode, again.opened_at) == (State.OPEN, 2, at(1020))
    assert (again.probes, again.drained, again.probed_last) == (0, 0, None)


@pytest.mark.parametrize("cause", FOR_GOOD)
@pytest.mark.parametrize("flushed", [False, True])
def test_last_failures_of_a_disabled_endpoint_do_not_open_its_circuit(
    cause: Cause, flushed: bool
) -> None:
    circuit = release_all(OPEN, cause, now=at(30))
    if flushed:
        circuit = closed(circuit, held=0)
    assert after(circuit, *(result(40 + n) for n in range(20))).state is circuit.state


# -- waiting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("circuit", [OPEN, PROBING, ARMED])
def test_success_that_began_before_the_opening_is_ignored(circuit: Circuit) -> None:
    late = after(circuit, result(19.999, succeeded=True))
    assert late == replace(circuit, last_success_at=at(19.999))


@pytest.mark.parametrize("circuit", [OPEN, PROBING, ARMED])
@pytest.mark.parametrize("delivery_id", ["dlv_1", "dlv_sent_by_hand"])
def test_any_success_since_the_opening_starts_the_drain(circuit: Circuit, delivery_id: str) -> None:
    drains = after(circuit, result(20, succeeded=True, delivery_id=delivery_id))
    assert (drains.state, drains.cause, drains.episode) == (State.DRAINING, Cause.FAILURES, 1)
    assert (drains.consecutive_failures, drains.probes, drains.drain_rate) == (0, 0, None)
    assert (drains.probe_delivery_id, drains.probe_until, drains.next_probe_at) == (None,) * 3
    assert not drains.workflow_started


def test_probes_come_after_1_2_4_to_32_minutes_and_then_hourly() -> None:
    circuit, waits = OPEN, []
    for number in range(9):
        assert circuit.next_probe_at is not None
        assert circuit.probes == number
        waits.append((circuit.next_probe_at - at(20 + 100 * number)) / timedelta(minutes=1))
        probing = begin_probe(circuit, "dlv_1", until=at(0))
        circuit = after(probing, result(120 + 100 * number))
        assert (circuit.state, circuit.episode, circuit.opened_at) == (State.OPEN, 1, at(20))
        assert (circuit.probe_delivery_id, circuit.probe_until) == (None, None)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.parametrize("circuit", [OPEN, PROBING, ARMED])
def test_only_the_probes_failure_ends_the_probing(circuit: Circuit) -> None:
    counted = after(circuit, result(90, delivery_id="dlv_2"))
    assert (counted.state, counted.probes) == (circuit.state, 0)
    assert counted.probe_delivery_id == circuit.probe_delivery_id
    assert counted.consecutive_failures == 6


def test_only_open_or_armed_circuits_begin_a_probe() -> None:
    assert (PROBING.state, PROBING.probe_delivery_id) == (State.HALF_OPEN, "dlv_1")
    assert (PROBING.probe_until, PROBING.probed_last) == (at(200), "dlv_1")
    assert (ARMED.state, ARMED.probe_delivery_id, ARMED.probe_until) == (
        State.HALF_OPEN,
        None,
        None,
    )
    assert begin_probe(ARMED, "dlv_2", until=at(300)).probe_delivery_id == "dlv_2"
    for busy in (Circuit(), PROBING, DRAINING):
        assert begin_probe(busy, "dlv_2", until=at(300)) == busy


def test_armed_circuit_is_claimed_by_one_delivery_only() -> None:
    claimed = claim_probe(ARMED, "dlv_2", until=at(300))
    assert (claimed.probe_delivery_id, claimed.probe_until) == ("dlv_2", at(300))
    for other in (Circuit(), OPEN, PROBING, DRAINING, claimed):
        assert claim_probe(other, "dlv_3", until=at(400)) == other
    assert not claimed.workflow_started
    # a chosen probe, which the workflow knows: its time runs from when it is sent
    claimed = replace(claimed, workflow_started=True)
    assert claim_probe(claimed, "dlv_2", until=at(400)) == replace(claimed, probe_until=at(400))


def test_lost_probe_counts_as_nothing_and_is_skipped_next() -> None:
    lost = abandon_probe(PROBING, "dlv_1")
    assert lost == replace(OPEN, probed_last="dlv_1")
    for other in (Circuit(), OPEN, ARMED, DRAINING, begin_probe(OPEN, "dlv_2", until=at(200))):
        assert abandon_probe(other, "dlv_1") == other


# -- draining -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", [Cause.FAILURES, Cause.RESUMED])
def test_five_failures_in_a_row_end_a_drain_at_any_speed(cause: Cause) -> None:
    draining = replace(DRAINING, cause=cause, drain_rate=80)
    four = after(draining, *(result(100 + n / 100) for n in range(4)))
    assert four.state is State.DRAINING
    assert after(four, result(101, succeeded=True), result(102)).state is State.DRAINING
    again = after(four, result(100.04))
    assert (again.state, again.cause) == (State.OPEN, Cause.FAILURES)
    assert (again.episode, again.opened_at) == (draining.episode, draining.opened_at)
    assert again.next_probe_at == at(100.04 + 60)
    assert again.drain_rate is None


def test_drain_ends_when_nothing_is_held() -> None:
    assert closed(DRAINING, held=1) == DRAINING
    done = closed(DRAINING, held=0)
    assert (done.state, done.drain_rate, done.workflow_started) == (State.CLOSED, None, True)
    for other in (OPEN, PROBING, ARMED):
        assert closed(other, held=0) == other


@pytest.mark.parametrize("circuit", [Circuit(), OPEN, PROBING, ARMED, DRAINING])
@pytest.mark.parametrize("cause", FOR_GOOD)
def test_release_all_drains_any_circuit(circuit: Circuit, cause: Cause) -> None:
    let_go = release_all(circuit, cause, now=at(500))
    assert (let_go.state, let_go.cause, let_go.workflow_started) == (State.DRAINING, cause, False)
    assert (let_go.next_probe_at, let_go.probe_delivery_id, let_go.probe_until) == (None,) * 3
    assert let_go.episode == 1
    assert let_go.opened_at == (at(20) if circuit.episode else at(500))


def test_enabled_endpoint_does_not_inherit_the_rate_of_dead_letters() -> None:
    flushing = replace(release_all(OPEN, Cause.DISABLED, now=at(30)), drain_rate=200)
    assert release_all(flushing, Cause.RESUMED, now=at(40)).drain_rate is None


def test_pause_within_an_outage_keeps_its_cause() -> None:
    """Its owners were notified of the opening, and will be of the recovery."""
    assert release_all(DRAINING, Cause.RESUMED, now=at(500)).cause is Cause.FAILURES


@pytest.mark.parametrize(
    ("limit", "rates"),
    [
        (None, [5, 10, 20, 40, 80, 160, 320, 640, 640]),
        (30, [5, 10, 20, 30, 30, 30, 30, 30, 30]),
        (0.5, [0.5] * 9),
    ],
)
def test_ramp_doubles_up_to_the_limit(limit: float | None, rates: list[float]) -> None:
    assert [ramp_rate(step, limit) for step in range(9)] == rates
    assert ramp_rate(10**9, None) == RAMP_LAST


# -- policies and the gate ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "policy"),
    [
        ({}, POLICY),
        ({"failure_threshold": 2}, Policy(failure_threshold=2)),
        ({"min_span_seconds": 0}, Policy(min_span=timedelta(0))),
        ({"disable_after_seconds": 60}, Policy(disable_after=timedelta(minutes=1))),
        ({"probe_delays_seconds": [1, 2.5]}, Policy(probe_delays=(1, 2.5))),
    ],
)
def test_endpoints_own_values_override_the_policy(
    overrides: dict[str, Any], policy: Policy
) -> None:
    assert POLICY.with_overrides(overrides) == policy


@pytest.mark.parametrize(
    "damaged",
    [
        [1],
        "x",
        {"failure_threshold": "x"},
        {"min_span_seconds": "a"},
        {"probe_delays_seconds": 5},
        {"probe_delays_seconds": []},
        {"disable_after_seconds": 1e300},
    ],
)
def test_a_damaged_column_overrides_nothing(damaged: Any) -> None:
    assert POLICY.with_overrides(damaged) == POLICY


def test_policy_without_a_span_opens_by_count_alone() -> None:
    own = POLICY.with_overrides({"failure_threshold": 2, "min_span_seconds": 0})
    assert after(Circuit(), result(0), policy=own).state is State.CLOSED
    assert after(Circuit(), result(0), result(0), policy=own).state is State.OPEN


@pytest.mark.parametrize("state", list(EndpointState))
def test_disabled_and_deleted_endpoints_are_stopped(
    state: EndpointState,
) -> None:
    assert state.stopped is (state in ("disabled", "deleted"))
