"""The life of a delivery, by example. `test_life_walks` has what holds in any order of events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hookfast.deliveries.facts import (
    Action,
    AttemptEnded,
    AttemptPlan,
    Fact,
    Held,
    Limited,
    Trigger,
    Undeliverable,
)
from hookfast.deliveries.life import End, Life, Phase, Resend, Wait, apply_fact, next_step
from hookfast.deliveries.outcome import DeliveryStatus, Outcome, Reason, Result
from hookfast.deliveries.retry_plan import PlanSpec

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
TIMEOUT = 10.0
PLAN: PlanSpec = {"delays_seconds": [60, 600], "jitter": 0.1}
"""With the jitter in the middle: 60 s, 600 s. It lasts 660 * 1.1 + 3 * 10 = 756 s at most."""
NO_RETRIES: PlanSpec = {"delays_seconds": []}

WAITING, LIMITED, HELD, PAUSED = Phase.WAITING, Phase.LIMITED, Phase.HELD, Phase.PAUSED
DELIVERED, DEAD, GONE, CANCELLED = Phase.DELIVERED, Phase.DEAD, Phase.GONE, Phase.CANCELLED
OPEN_PHASES = (WAITING, LIMITED, HELD, PAUSED)
ENDED_PHASES = (DELIVERED, DEAD, GONE, CANCELLED)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def answer(status: int, *, duration: float = 1, retry_after: float | None = None) -> Outcome:
    """Return the outcome of a request with this answer after `duration` seconds."""
    succeeded = 200 <= status < 300
    return Outcome(
        result=Result.SUCCESS if succeeded else Result.STATUS,
        duration_ms=duration * 1000,
        status_code=status,
        error=None if succeeded else str(status),
        retry_after_seconds=retry_after,
    )


def ended(
    attempt: AttemptPlan,
    outcome: Outcome,
    *,
    started: float,
    plan: PlanSpec = PLAN,
    jitter: float = 0.5,
) -> AttemptEnded:
    return AttemptEnded(
        attempt_id=f"att_{attempt.round}_{attempt.number}",
        attempt=attempt,
        started_at=at(started),
        outcome=outcome,
        plan=plan,
        timeout_seconds=TIMEOUT,
        jitter=jitter,
    )


def planned(life: Life, seconds: float, *, probe: bool = False) -> AttemptPlan:
    """Return the attempt that is due at this time."""
    step = next_step(life, at(seconds), probe=probe)
    assert isinstance(step, AttemptPlan), step
    return step


def apply(life: Life, *facts: tuple[float, Fact]) -> Life:
    """Return the life after these facts, each with its time in seconds after noon."""
    for seconds, fact in facts:
        life = apply_fact(life, fact, now=at(seconds))
    return life


def attempted(
    life: Life,
    status: int,
    *,
    started: float,
    plan: PlanSpec = PLAN,
    probe: bool = False,
    retry_after: float | None = None,
) -> Life:
    """Return the life after the due attempt was made, with this answer after a second."""
    attempt = planned(life, started, probe=probe)
    fact = ended(attempt, answer(status, retry_after=retry_after), started=started, plan=plan)
    return apply(life, (started + 1, fact))


def held(life: Life, seconds: float, *, until: float = 9_000) -> Life:
    fact = Held(planned(life, seconds), Reason.CIRCUIT_OPEN, at(until))
    return apply(life, (seconds, fact))


def limited(life: Life, seconds: float, *, until: float) -> Life:
    return apply(life, (seconds, Limited(planned(life, seconds), at(until))))


def undeliverable(life: Life, seconds: float) -> Life:
    fact = Undeliverable(planned(life, seconds), Reason.ENDPOINT_DISABLED, "disabled")
    return apply(life, (seconds, fact))


NEW = Life(due_at=NOON)
FAILED_ONCE = attempted(NEW, 503, started=0)  # ended at 1 s, its first retry is due at 61 s
LAST_RETRY = attempted(FAILED_ONCE, 503, started=61)  # the last one is due at 662 s

STARTS = {
    WAITING: FAILED_ONCE,
    LIMITED: limited(FAILED_ONCE, 61, until=70),
    HELD: held(FAILED_ONCE, 61, until=70),
    PAUSED: apply(FAILED_ONCE, (61, Action.PAUSE)),
    DELIVERED: attempted(FAILED_ONCE, 200, started=61),
    DEAD: attempted(FAILED_ONCE, 503, started=61, plan=NO_RETRIES),
    GONE: attempted(FAILED_ONCE, 410, started=61),
    CANCELLED: apply(FAILED_ONCE, (61, Action.CANCEL)),
}
"""A delivery in each phase, in the middle of its plan."""


def test_starts_has_a_delivery_in_each_phase() -> None:
    assert {phase: life.phase for phase, life in STARTS.items()} == {one: one for one in Phase}
    assert {phase for phase in Phase if phase.ended} == set(ENDED_PHASES)


# -- the table ------------------------------------------------------------------------------------

LATER = 100.0  # seconds: every wait has ended by then


def retry_of(life: Life) -> AttemptPlan:
    """Return the plan's next attempt, as planned before a person paused or ended the delivery."""
    return replace(planned(FAILED_ONCE, 61), number=life.attempts + 1, round=life.round)


def is_held(life: Life) -> Fact:
    return Held(retry_of(life), Reason.CIRCUIT_OPEN, at(9_000))


def is_limited(life: Life) -> Fact:
    return Limited(retry_of(life), at(200))


def is_undeliverable(life: Life) -> Fact:
    return Undeliverable(retry_of(life), Reason.ENDPOINT_DISABLED, "disabled")


def fails(life: Life) -> Fact:
    return ended(retry_of(life), answer(503), started=LATER - 1)


def fails_for_good(life: Life) -> Fact:
    return ended(retry_of(life), answer(503), started=LATER - 1, plan=NO_RETRIES)


def is_gone(life: Life) -> Fact:
    return ended(retry_of(life), answer(410), started=LATER - 1)


def arrives(life: Life) -> Fact:
    return ended(retry_of(life), answer(200), started=LATER - 1)


# The phase after each fact in each phase; a dot: the delivery stays unchanged.
TABLE: list[tuple[Action | Callable[[Life], Fact], str]] = [
    # fact                waiting   limited   held      paused    delivered, dead, gone, cancelled
    (Action.PAUSE, "        PAUSED    PAUSED    PAUSED    .         .       .       .       ."),
    (Action.RESUME, "       .         .         .         WAITING   .       .       .       ."),
    (
        Action.RESEND,
        "       WAITING   LIMITED   HELD      PAUSED    WAITING WAITING WAITING WAITING",
    ),
    (
        Action.RESEND_YIELDING,
        "WAITING   LIMITED   .         PAUSED    WAITING WAITING WAITING WAITING",
    ),
    (Action.CANCEL, "       CANCELLED CANCELLED CANCELLED CANCELLED .       .       .       ."),
    (Action.RELEASE, "      .         .         HELD      .         .       .       .       ."),
    (Action.CHECK_LIMITS, "    .         LIMITED   .         .         .       .       .       ."),
    # of deliveries in a lane only: see `test_lane_life`
    (Action.MOVE_UP, "      .         .         .         .         .       .       .       ."),
    (Action.LEAVE_LANE, "     .         .         .         .         .       .       .       ."),
    (is_held, "           HELD      HELD      HELD      .         .       .       .       ."),
    (is_limited, "        LIMITED   LIMITED   LIMITED   .         .       .       .       ."),
    (is_undeliverable, "        DEAD      DEAD      DEAD      .         .       .       .       ."),
    (fails, "             WAITING   WAITING   WAITING   PAUSED    .       .       .       ."),
    (fails_for_good, "    DEAD      DEAD      DEAD      DEAD      .       .       .       ."),
    (is_gone, "           GONE      GONE      GONE      GONE      .       .       .       ."),
    (arrives, "           DELIVERED DELIVERED DELIVERED DELIVERED .       .       .       ."),
]


@pytest.mark.parametrize(
    ("fact", "phase", "leads_to"),
    [
        pytest.param(
            fact,
            phase,
            None if cell == "." else Phase[cell],
            id=f"{fact.value if isinstance(fact, Action) else fact.__name__}-{phase}",
        )
        for fact, row in TABLE
        for phase, cell in zip(Phase, row.split(), strict=True)
    ],
)
def test_each_fact_leads_from_each_phase_as_the_table_says(
    fact: Action | Callable[[Life], Fact], phase: Phase, leads_to: Phase | None
) -> None:
    before = STARTS[phase]
    life = apply(before, (LATER, fact if isinstance(fact, Action) else fact(before)))
    if leads_to is not None:
        assert life.phase is leads_to
        assert life != before
        return
    recorded = not isinstance(fact, Action) and isinstance(fact(before), AttemptEnded)
    assert life == replace(before, attempts=before.attempts + recorded)


def test_table_has_every_action() -> None:
    assert {fact for fact, _ in TABLE if isinstance(fact, Action)} == set(Action)


# A resend of a paused delivery is in the table of `life`, too.
@pytest.mark.parametrize(
    ("begun", "what", "leads_to"),
    [
        (True, held, PAUSED),
        (True, undeliverable, PAUSED),
        (False, held, PAUSED),
        (False, undeliverable, DEAD),  # it would have begun the plan
    ],
)
def test_resend_of_a_paused_delivery_may_be_held_or_undeliverable(
    begun: bool, what: Callable[[Life, float], Life], leads_to: Phase
) -> None:
    life = FAILED_ONCE if begun else NEW
    life = apply(life, (10, Action.PAUSE), (20, Action.RESEND_YIELDING))
    assert what(life, 20).phase is leads_to


@pytest.mark.parametrize("begun", [True, False])
def test_resend_of_a_paused_delivery_waits_for_the_endpoints_limits(begun: bool) -> None:
    life = FAILED_ONCE if begun else NEW
    life = limited(apply(life, (10, Action.PAUSE), (20, Action.RESEND)), 20, until=30)
    assert life.phase is PAUSED
    assert next_step(life, at(29)) == Wait(at(30))
    assert planned(life, 30).trigger is Trigger.RESEND


# -- the plan -------------------------------------------------------------------------------------


def test_delivery_is_pending_until_its_first_attempt_and_then_retrying() -> None:
    assert (NEW.status, FAILED_ONCE.status) == (DeliveryStatus.PENDING, DeliveryStatus.RETRYING)
    assert limited(NEW, 0, until=5).status is DeliveryStatus.PENDING
    assert STARTS[LIMITED].status is DeliveryStatus.RETRYING


def test_plan_is_a_first_attempt_and_a_retry_after_each_delay() -> None:
    first = planned(NEW, 0)
    assert first == AttemptPlan(number=1, trigger=Trigger.FIRST, round=0, in_plan=True)
    assert (FAILED_ONCE.attempts, FAILED_ONCE.retries) == (1, 0)
    assert (FAILED_ONCE.began_at, FAILED_ONCE.due_at) == (at(0), at(1 + 60))
    assert next_step(FAILED_ONCE, at(60.999)) == Wait(at(61))
    retry = planned(FAILED_ONCE, 61)
    assert (retry.number, retry.trigger, retry.in_plan) == (2, Trigger.RETRY, True)
    assert (LAST_RETRY.attempts, LAST_RETRY.retries) == (2, 1)
    assert LAST_RETRY.due_at == at(62 + 600)
    assert LAST_RETRY.last_error == "503"


def test_used_up_plan_ends_as_a_dead_letter() -> None:
    life = attempted(LAST_RETRY, 503, started=662)
    assert (life.phase, life.reason) == (DEAD, Reason.RETRIES_EXHAUSTED)
    assert (life.attempts, life.retries, life.finished_at) == (3, 2, at(663))
    assert (life.due_at, life.next_attempt_at, life.last_error) == (None, None, "503")
    assert next_step(life, at(10_000)) == End()


def test_expired_plan_ends_as_a_dead_letter() -> None:
    # it lasts 756 s, and the attempt 1 s: no worker was there to make it earlier
    assert attempted(FAILED_ONCE, 503, started=754.9).phase is WAITING
    life = attempted(FAILED_ONCE, 503, started=755.1)
    assert (life.phase, life.reason) == (DEAD, Reason.PLAN_EXPIRED)


@pytest.mark.parametrize(
    ("retry_on", "status", "phase", "reason"),
    [
        ("transient", 404, DEAD, Reason.NOT_RETRYABLE),
        ("transient", 503, WAITING, None),
        ("all", 404, WAITING, None),
        ("all", 410, GONE, Reason.GONE),
        ("transient", 410, GONE, Reason.GONE),
        ("all", 508, DEAD, Reason.LOOP_DETECTED),
    ],
)
def test_answer_may_be_final(
    retry_on: str, status: int, phase: Phase, reason: Reason | None
) -> None:
    plan: PlanSpec = {"delays_seconds": [60], "retry_on": retry_on}
    life = attempted(NEW, status, started=0, plan=plan)
    assert (life.phase, life.reason, life.last_error) == (phase, reason, str(status))
    assert life.finished_at == (at(1) if phase.ended else None)


@pytest.mark.parametrize(
    ("retry_after", "due"),
    [
        (None, 61),
        (30, 61),  # it never shortens the delay
        (90, 91),
        (1e9, 1 + 24 * 3600),  # 24 h at most
    ],
)
def test_retry_after_raises_the_delay(retry_after: float | None, due: float) -> None:
    life = attempted(NEW, 503, started=0, retry_after=retry_after)
    assert life.due_at == at(due)


@pytest.mark.parametrize(("jitter", "delay"), [(0, 54), (0.5, 60), (0.75, 63)])
def test_jitter_places_the_next_delay(jitter: float, delay: float) -> None:
    fact = ended(planned(NEW, 0), answer(503), started=0, jitter=jitter)
    # 60 s * (0.9 + 0.2 * jitter) after the answer, and not after its record
    assert apply(NEW, (5, fact)).due_at == at(1 + delay)


@pytest.mark.parametrize("status", [200, 410, 503])
def test_retry_counts_whatever_its_outcome(status: int) -> None:
    assert attempted(FAILED_ONCE, status, started=61).retries == 1


def test_delivered_delivery_has_no_reason_and_no_next_attempt() -> None:
    life = attempted(NEW, 200, started=0)
    assert (life.phase, life.reason, life.attempts) == (DELIVERED, None, 1)
    assert (life.finished_at, life.next_attempt_at) == (at(1), None)
    assert next_step(life, at(10_000)) == End()


# -- facts that come late, or twice ---------------------------------------------------------------


@pytest.mark.parametrize("status", [503, 200, 410])
def test_attempt_recorded_twice_counts_once(status: int) -> None:
    once = attempted(NEW, status, started=0)
    again = ended(planned(NEW, 0), answer(status), started=0)
    assert apply(once, (2, again)) == once


def test_late_success_of_a_failed_attempt_delivers() -> None:
    """The first worker was frozen, another's attempt failed, and then the first one succeeded."""
    late = ended(planned(NEW, 0), answer(200), started=0)
    assert apply(FAILED_ONCE, (5, late)).phase is DELIVERED


@pytest.mark.parametrize("status", [503, 200, 410])
def test_attempt_of_an_earlier_round_changes_nothing(status: int) -> None:
    late = ended(planned(NEW, 0), answer(status), started=0)
    life = apply(NEW, (0.5, Action.CANCEL), (0.6, Action.RESEND))
    assert apply(life, (1, late)) == replace(life, attempts=1)


@pytest.mark.parametrize("fact", [is_held, is_limited, is_undeliverable])
@pytest.mark.parametrize(
    "since",
    [
        (50, Action.PAUSE),
        (50, Action.CANCEL),
        (50, Action.RESEND),  # that goes first
        (62, ended(retry_of(FAILED_ONCE), answer(503), started=61)),
        (62, Limited(retry_of(FAILED_ONCE), at(9_000))),
    ],
    ids=["paused", "cancelled", "resent", "attempted", "limited"],
)
def test_attempt_is_postponed_only_while_it_is_the_next_step(
    fact: Callable[[Life], Fact], since: tuple[float, Fact]
) -> None:
    life = apply(FAILED_ONCE, since)
    assert apply(life, (63, fact(FAILED_ONCE))) == life


# -- resends --------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ENDED_PHASES)
@pytest.mark.parametrize("action", [Action.RESEND, Action.RESEND_YIELDING])
def test_resend_of_an_ended_delivery_starts_its_plan_again(phase: Phase, action: Action) -> None:
    before = STARTS[phase]
    life = apply(before, (1_000, action))
    yields_to_circuit = action is Action.RESEND_YIELDING
    assert life == Life(
        attempts=before.attempts,
        last_error=before.last_error,
        round=1,
        due_at=at(1_000),
        resend=Resend(at(1_000), yields_to_circuit),
    )
    attempt = planned(life, 1_000)
    assert attempt == AttemptPlan(
        number=before.attempts + 1,
        trigger=Trigger.RESEND,
        round=1,
        in_plan=True,
        yields_to_circuit=yields_to_circuit,
        resend_asked_at=at(1_000),
    )
    life = attempted(life, 503, started=1_000)
    assert (life.phase, life.retries, life.resend) == (WAITING, 0, None)
    assert (life.began_at, life.due_at) == (at(1_000), at(1_001 + 60))  # the whole plan once more
    life = attempted(attempted(life, 503, started=1_061), 503, started=1_662)
    assert (life.phase, life.retries, life.round) == (DEAD, 2, 1)
    assert life.attempts == before.attempts + 3


@pytest.mark.parametrize("phase", OPEN_PHASES)
def test_persons_resend_is_due_at_once_and_leaves_the_plan_unchanged(phase: Phase) -> None:
    before = STARTS[phase]
    now = 30 if phase is WAITING else 62  # before its retry is due
    asked = apply(before, (now, Action.RESEND))
    assert asked == replace(before, resend=Resend(at(now)))
    attempt = planned(asked, now)
    assert (attempt.trigger, attempt.in_plan) == (Trigger.RESEND, False)
    failed = attempted(asked, 404, started=now)
    assert failed == replace(before, attempts=before.attempts + 1, last_error="404")


@pytest.mark.parametrize("phase", OPEN_PHASES)
@pytest.mark.parametrize(("status", "leads_to"), [(200, DELIVERED), (410, GONE)])
def test_resend_that_succeeds_or_gets_410_ends_the_delivery(
    phase: Phase, status: int, leads_to: Phase
) -> None:
    life = attempted(apply(STARTS[phase], (62, Action.RESEND)), status, started=62)
    assert (life.phase, life.resend, life.finished_at) == (leads_to, None, at(63))


def test_resend_before_the_first_attempt_is_the_first_attempt() -> None:
    scheduled = Life(due_at=at(3_600))
    asked = apply(scheduled, (5, Action.RESEND))
    assert planned(asked, 5).in_plan
    life = attempted(asked, 503, started=5)
    assert (life.began_at, life.retries, life.due_at) == (at(5), 0, at(6 + 60))


@pytest.mark.parametrize("postpone", [held, limited])
def test_persons_resend_leaves_a_postponed_first_attempt_to_be_made(
    postpone: Callable[..., Life],
) -> None:
    before = postpone(NEW, 0, until=70)
    life = attempted(apply(before, (5, Action.RESEND)), 503, started=5)
    assert life == replace(before, attempts=1, last_error="503")
    # the plan has not begun: what comes next uses up none of its retries
    life = attempted(life, 503, started=70)
    assert (life.began_at, life.retries, life.due_at) == (at(70), 0, at(71 + 60))


def test_resend_requested_during_a_resend_is_made_after_it() -> None:
    asked = apply(FAILED_ONCE, (10, Action.RESEND))
    under_way = planned(asked, 10)
    life = apply(asked, (11, Action.RESEND), (12, ended(under_way, answer(503), started=10)))
    assert life.resend == Resend(at(11))
    assert planned(life, 12).number == 3


@pytest.mark.parametrize("phase", [WAITING, PAUSED])
@pytest.mark.parametrize("action", [Action.RESEND, Action.RESEND_YIELDING])
def test_resend_requested_during_the_last_attempt_starts_the_plan_again(
    phase: Phase, action: Action
) -> None:
    """As if it was requested a moment later, after the end; whether paused or not."""
    last = planned(LAST_RETRY, 662)
    life = LAST_RETRY if phase is WAITING else apply(LAST_RETRY, (662.1, Action.PAUSE))
    life = apply(life, (662.5, action), (663, ended(last, answer(503), started=662)))
    assert (life.phase, life.round, life.finished_at) == (WAITING, 1, None)
    assert (life.attempts, life.retries, life.began_at) == (3, 0, None)
    attempt = planned(life, 663)
    assert (attempt.trigger, attempt.in_plan, attempt.round) == (Trigger.RESEND, True, 1)


@pytest.mark.parametrize("action", [Action.RESEND, Action.RESEND_YIELDING])
@pytest.mark.parametrize(("status", "leads_to"), [(200, DELIVERED), (410, GONE)])
def test_resend_requested_during_a_successful_attempt_is_not_made(
    action: Action, status: int, leads_to: Phase
) -> None:
    under_way = planned(FAILED_ONCE, 61)
    life = apply(FAILED_ONCE, (61.5, action), (62, ended(under_way, answer(status), started=61)))
    assert (life.phase, life.resend, life.round) == (leads_to, None, 0)
    assert next_step(life, at(63)) == End()


def test_resend_requested_during_a_failing_attempt_is_made_beside_the_plan() -> None:
    under_way = planned(FAILED_ONCE, 61)
    life = apply(
        FAILED_ONCE, (61.5, Action.RESEND), (62, ended(under_way, answer(503), started=61))
    )
    assert (life.retries, life.due_at) == (1, at(662))
    attempt = planned(life, 62)
    assert (attempt.number, attempt.trigger, attempt.in_plan) == (3, Trigger.RESEND, False)


@pytest.mark.parametrize("phase", OPEN_PHASES)
def test_limited_resend_waits_for_its_turn_and_the_plan_does_not(phase: Phase) -> None:
    before = STARTS[phase]
    asked = apply(before, (62, Action.RESEND))
    life = limited(asked, 62, until=65)
    assert life == replace(before, resend=Resend(at(62), not_before=at(65)))
    assert planned(life, 65).resend_asked_at == at(62)


def test_plan_that_begins_with_a_limited_resend_does_not_begin_before_it() -> None:
    life = limited(apply(NEW, (5, Action.RESEND)), 5, until=65)
    assert next_step(life, at(64)) == Wait(at(65))
    assert planned(life, 65).trigger is Trigger.RESEND
    assert attempted(life, 503, started=65).retries == 0


@pytest.mark.parametrize(
    ("phase", "leads_to"),
    [
        (WAITING, WAITING),
        (LIMITED, LIMITED),
        (HELD, WAITING),  # so that its own attempt is found undeliverable now, too
        (PAUSED, PAUSED),
    ],
)
def test_undeliverable_resend_is_dropped_and_leaves_the_plan_unchanged(
    phase: Phase, leads_to: Phase
) -> None:
    before = STARTS[phase]
    life = undeliverable(apply(before, (62, Action.RESEND)), 62)
    assert (life.phase, life.resend, life.last_error) == (leads_to, None, "disabled")
    assert (life.attempts, life.retries, life.due_at) == (1, 0, before.due_at)
    assert life.next_attempt_at == (None if phase is PAUSED else before.due_at)


# -- resends that yield to the circuit ------------------------------------------------------------


def test_yielding_resend_waits_while_deliveries_are_held() -> None:
    asked = apply(FAILED_ONCE, (10, Action.RESEND_YIELDING))
    life = held(asked, 10, until=9_000)
    assert (life.phase, life.resend, life.due_at) == (
        HELD,
        Resend(at(10), yields_to_circuit=True),
        at(61),
    )
    # the plan's retry falls due meanwhile, and waits with it
    assert next_step(life, at(8_999)) == Wait(at(9_000))
    for released in (apply(life, (500, Action.RELEASE)), apply(life, (9_000, Action.CHECK_LIMITS))):
        attempt = planned(released, 9_000)
        assert (attempt.trigger, attempt.yields_to_circuit, attempt.in_plan) == (
            Trigger.RESEND,
            True,
            False,
        )


def test_failed_yielding_resend_ends_the_hold() -> None:
    life = held(apply(FAILED_ONCE, (10, Action.RESEND_YIELDING)), 10)
    life = attempted(apply(life, (30, Action.RELEASE)), 503, started=30)
    assert life == replace(FAILED_ONCE, attempts=2, excluded=timedelta(seconds=30 - 10))


def test_limited_yielding_resend_ends_the_hold() -> None:
    life = held(apply(FAILED_ONCE, (10, Action.RESEND_YIELDING)), 10)
    life = limited(apply(life, (30, Action.RELEASE)), 30, until=50)
    assert (life.phase, life.excluded) == (WAITING, timedelta(seconds=30 - 10))
    assert life.released  # its turn may come while the circuit still drains
    assert planned(life, 50).yields_to_circuit


@pytest.mark.parametrize("action", [Action.RESEND, Action.RESEND_YIELDING])
def test_yielding_resend_adds_nothing_to_a_requested_resend(action: Action) -> None:
    asked = apply(FAILED_ONCE, (10, action))
    assert apply(asked, (11, Action.RESEND_YIELDING)) == asked


def test_yielding_resend_of_a_held_delivery_adds_nothing() -> None:
    assert apply(STARTS[HELD], (62, Action.RESEND_YIELDING)) == STARTS[HELD]


def test_persons_resend_does_not_wait_with_a_yielding_one() -> None:
    life = held(apply(FAILED_ONCE, (10, Action.RESEND_YIELDING)), 10)
    life = apply(life, (20, Action.RESEND))
    assert planned(life, 20).resend_asked_at == at(20)
    life = attempted(life, 503, started=20)
    assert (life.phase, life.resend) == (HELD, None)


def test_yielding_resend_of_a_paused_delivery_is_made() -> None:
    life = apply(STARTS[PAUSED], (62, Action.RESEND_YIELDING))
    assert planned(life, 62).yields_to_circuit
    assert attempted(life, 503, started=62).phase is PAUSED


def test_yielding_resend_that_starts_a_plan_again_may_be_held_first() -> None:
    life = held(apply(STARTS[DEAD], (100, Action.RESEND_YIELDING)), 100)
    assert life.phase is HELD
    attempt = planned(apply(life, (200, Action.RELEASE)), 200)
    assert (attempt.trigger, attempt.in_plan, attempt.round) == (Trigger.RESEND, True, 1)


# -- held deliveries ------------------------------------------------------------------------------


def test_held_delivery_waits_for_its_release_or_its_recheck() -> None:
    life = held(FAILED_ONCE, 61, until=9_000)
    assert (life.reason, life.recheck_at, life.waiting_since) == (
        Reason.CIRCUIT_OPEN,
        at(9_000),
        at(61),
    )
    assert (life.attempts, life.retries, life.due_at) == (1, 0, at(61))
    assert next_step(life, at(8_999)) == Wait(at(9_000))
    assert planned(life, 9_000).trigger is Trigger.RETRY
    released = apply(life, (100, Action.RELEASE))
    assert (released.phase, released.released) == (HELD, True)
    assert planned(released, 100).trigger is Trigger.RETRY
    failed = attempted(released, 503, started=100)
    assert (failed.phase, failed.released, failed.retries) == (WAITING, False, 1)


def test_delivery_held_again_must_be_released_again() -> None:
    released = apply(STARTS[HELD], (100, Action.RELEASE))
    again = held(released, 100, until=9_000)
    assert (again.phase, again.released, again.recheck_at) == (HELD, False, at(9_000))
    assert again.waiting_since == at(61)  # it has waited since then


@pytest.mark.parametrize("released", [False, True])
def test_failed_probe_leaves_plan_and_hold_unchanged(
    released: bool,
) -> None:
    before = apply(STARTS[HELD], (62, Action.RELEASE)) if released else STARTS[HELD]
    probe = planned(before, 65, probe=True)
    assert probe == AttemptPlan(number=2, trigger=Trigger.PROBE, round=0, in_plan=False)
    life = attempted(before, 503, started=65, probe=True)
    assert life == replace(before, attempts=2, released=False)
    assert attempted(before, 200, started=65, probe=True).phase is DELIVERED
    assert attempted(before, 410, started=65, probe=True).phase is GONE


def test_only_held_deliveries_are_probes() -> None:
    assert next_step(FAILED_ONCE, at(60), probe=True) == Wait(at(61))
    assert planned(FAILED_ONCE, 61, probe=True).trigger is Trigger.RETRY
    assert next_step(STARTS[PAUSED], at(100), probe=True) == Wait(None)
    # a person's resend goes first, and says as much about the endpoint
    asked = apply(STARTS[HELD], (62, Action.RESEND))
    assert planned(asked, 62, probe=True).trigger is Trigger.RESEND


def test_limited_probe_stays_held_until_its_turn() -> None:
    before = STARTS[HELD]
    probe = planned(before, 65, probe=True)
    life = apply(before, (65, Limited(probe, at(66))))
    assert life == replace(before, recheck_at=at(66))
    assert planned(life, 66, probe=True) == probe


def test_released_delivery_that_is_limited_is_not_held() -> None:
    life = limited(apply(STARTS[HELD], (100, Action.RELEASE)), 100, until=150)
    assert (life.phase, life.reason) == (LIMITED, Reason.ENDPOINT_LIMIT)
    assert (life.due_at, life.recheck_at) == (at(150), None)
    assert life.released  # the drain let it go: it need not let it go again when its turn has come
    assert life.waiting_since == at(61)


# -- limits ---------------------------------------------------------------------------------------


def test_limited_delivery_is_attempted_at_its_turn_and_uses_no_attempt() -> None:
    life = limited(FAILED_ONCE, 61, until=70)
    assert (life.phase, life.reason, life.due_at) == (LIMITED, Reason.ENDPOINT_LIMIT, at(70))
    assert (life.attempts, life.retries) == (1, 0)
    assert planned(life, 70) == planned(FAILED_ONCE, 61)


def test_raised_limits_are_checked_at_once() -> None:
    assert apply(STARTS[LIMITED], (65, Action.CHECK_LIMITS)).due_at == at(65)
    resend = limited(apply(FAILED_ONCE, (10, Action.RESEND)), 10, until=40)
    assert planned(apply(resend, (20, Action.CHECK_LIMITS)), 20).trigger is Trigger.RESEND


# -- pauses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [WAITING, LIMITED, HELD])
def test_paused_delivery_waits_for_a_person(phase: Phase) -> None:
    life = apply(STARTS[phase], (62, Action.RELEASE), (63, Action.PAUSE))
    assert (life.phase, life.reason, life.recheck_at, life.released) == (PAUSED, None, None, False)
    assert next_step(life, at(1_000_000)) == Wait(None)


@pytest.mark.parametrize(
    ("resumed", "goes"),
    [
        (50, 61),  # its retry is due later
        (80, 80),  # it fell due meanwhile
    ],
)
def test_resumed_delivery_continues_its_plan(resumed: float, goes: float) -> None:
    life = apply(FAILED_ONCE, (10, Action.PAUSE), (resumed, Action.RESUME))
    assert (life.phase, life.waiting_since) == (WAITING, None)
    assert planned(life, goes).trigger is Trigger.RETRY
    if goes > resumed:
        assert next_step(life, at(resumed)) == Wait(at(goes))


def test_resume_makes_a_limited_resend_at_once() -> None:
    life = apply(FAILED_ONCE, (10, Action.PAUSE), (20, Action.RESEND))
    life = apply(limited(life, 20, until=50), (30, Action.RESUME))
    assert planned(life, 30).trigger is Trigger.RESEND


def test_retry_in_progress_at_a_pause_counts_and_the_plan_waits() -> None:
    retry = planned(FAILED_ONCE, 61)
    life = apply(FAILED_ONCE, (61.5, Action.PAUSE), (62, ended(retry, answer(503), started=61)))
    assert (life.phase, life.retries, life.due_at) == (PAUSED, 1, at(662))
    assert next_step(life, at(9_000)) == Wait(None)
    assert planned(apply(life, (9_000, Action.RESUME)), 9_000).number == 3


# -- time that does not use up the plan -----------------------------------------------------------


def is_paused_from(since: float) -> Callable[[Life], Life]:
    return lambda life: apply(life, (since, Action.PAUSE), (5_000, Action.RESUME))


def is_held_then_paused(life: Life) -> Life:
    return apply(held(life, 61), (1_000, Action.PAUSE), (5_000, Action.RESUME))


def is_released_and_limited(life: Life) -> Life:
    return limited(apply(held(life, 61), (1_000, Action.RELEASE)), 1_000, until=5_000)


def has_an_undeliverable_resend_while_held(life: Life) -> Life:
    return undeliverable(apply(held(life, 61), (5_000, Action.RESEND)), 5_000)


@pytest.mark.parametrize(
    ("waits", "excluded"),
    [
        # the retry is made at 5000 s; it was put off, or its delivery paused, until then
        (lambda life: held(life, 61, until=5_000), 5_000 - 61),
        (lambda life: limited(life, 61, until=5_000), 5_000 - 61),
        (is_paused_from(30), 5_000 - 30),
        (is_paused_from(61), 5_000 - 61),
        # one wait, however often it changes its name
        (is_held_then_paused, 5_000 - 61),
        (is_released_and_limited, 5_000 - 61),
        (has_an_undeliverable_resend_while_held, 5_000 - 61),
    ],
    ids=[
        "held",
        "limited",
        "paused early",
        "paused",
        "held, paused",
        "held, limited",
        "undeliverable",
    ],
)
def test_time_that_is_paused_held_or_limited_does_not_use_up_the_plan(
    waits: Callable[[Life], Life], excluded: float
) -> None:
    life = attempted(waits(FAILED_ONCE), 503, started=5_000)
    # 5001 s are far beyond the plan's 756 s
    assert (life.phase, life.retries) == (WAITING, 1)
    assert life.excluded == timedelta(seconds=excluded)


@pytest.mark.parametrize(
    "waits",
    [
        lambda life: held(life, 0, until=5_000),
        lambda life: limited(life, 0, until=5_000),
        is_paused_from(0),
    ],
    ids=["held", "limited", "paused"],
)
def test_wait_before_the_first_attempt_does_not_use_up_the_plan(
    waits: Callable[[Life], Life],
) -> None:
    life = attempted(waits(NEW), 503, started=5_000)
    assert (life.began_at, life.excluded) == (at(5_000), timedelta(0))


def test_pause_during_the_first_attempt_is_excluded_from_its_start() -> None:
    first = planned(NEW, 0)
    life = apply(NEW, (0.25, Action.PAUSE), (1, ended(first, answer(503), started=0)))
    life = apply(life, (100, Action.RESUME))
    assert life.excluded == timedelta(seconds=100 - 0.25)


def test_hold_before_a_paused_retry_does_not_use_up_the_plan() -> None:
    life = apply(held(FAILED_ONCE, 61), (5_000, Action.RELEASE))
    retry = planned(life, 5_000)
    life = apply(life, (5_000.5, Action.PAUSE), (5_001, ended(retry, answer(503), started=5_000)))
    assert (life.phase, life.retries, life.due_at) == (PAUSED, 1, at(5_001 + 600))


def test_time_until_an_attempt_is_recorded_does_not_use_up_the_plan() -> None:
    retry = planned(FAILED_ONCE, 61)
    life = apply(FAILED_ONCE, (5_000, ended(retry, answer(503), started=61)))
    assert (life.phase, life.due_at) == (WAITING, at(62 + 600))


def test_lateness_of_workers_uses_up_the_plan() -> None:
    assert attempted(FAILED_ONCE, 503, started=5_000).reason is Reason.PLAN_EXPIRED


# -- what lists and limits see --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("life", "moment"),
    [
        (NEW, 0),
        (FAILED_ONCE, 61),
        (STARTS[LIMITED], 70),
        (STARTS[HELD], 70),  # when it looks by itself, and not when its retry was due
        (STARTS[PAUSED], None),
        (STARTS[DELIVERED], None),
        (STARTS[CANCELLED], None),
        (apply(FAILED_ONCE, (10, Action.RESEND)), 10),
        (limited(apply(FAILED_ONCE, (10, Action.RESEND)), 10, until=40), 40),
        (
            limited(apply(FAILED_ONCE, (10, Action.RESEND)), 10, until=90),
            61,
        ),  # the retry is earlier
        (apply(STARTS[PAUSED], (65, Action.RESEND_YIELDING)), 65),
        (apply(STARTS[HELD], (65, Action.RESEND)), 65),
        (held(apply(FAILED_ONCE, (10, Action.RESEND_YIELDING)), 10, until=9_000), 9_000),
        (apply(STARTS[HELD], (65, Action.RELEASE)), 65),
    ],
)
def test_next_attempt_at_is_when_a_delivery_first_moves_by_itself(
    life: Life, moment: float | None
) -> None:
    assert life.next_attempt_at == (None if moment is None else at(moment))


@pytest.mark.parametrize(
    ("life", "waited"),
    [
        (NEW, False),
        (FAILED_ONCE, False),
        (STARTS[LIMITED], True),
        (STARTS[PAUSED], False),
        (STARTS[HELD], True),  # a probe, which would go behind everything that waits
        (apply(STARTS[HELD], (65, Action.RELEASE)), False),
        (limited(apply(STARTS[HELD], (65, Action.RELEASE)), 65, until=70), True),
        (apply(FAILED_ONCE, (10, Action.RESEND)), False),
        (limited(apply(FAILED_ONCE, (10, Action.RESEND)), 10, until=40), True),
        (limited(apply(STARTS[PAUSED], (62, Action.RESEND)), 62, until=70), True),
    ],
)
def test_waited_is_true_after_a_limit_or_a_hold(life: Life, waited: bool) -> None:
    assert life.waited is waited


# -- turns, late attempts and time that was not the plan's -----------------------------------------


def test_limited_resend_of_a_held_delivery_waits_for_its_turn() -> None:
    """Otherwise it is planned at each recheck or release. If the limits postpone it again,
    `recheck_at` stays in the past, and the workflow steps in a loop until the turn comes."""
    life = limited(apply(STARTS[HELD], (62, Action.RESEND)), 62, until=90)
    assert planned(life, 70).trigger is Trigger.RETRY  # `recheck_at` is 70 s


def test_limited_probe_of_a_released_delivery_waits_for_its_turn() -> None:
    """Otherwise `next_attempt_at` is 90 s, while `next_step` says now."""
    life = apply(STARTS[HELD], (62, Action.RELEASE))
    life = apply(life, (65, Limited(planned(life, 65, probe=True), at(90))))
    assert life.next_attempt_at == at(90)
    assert next_step(life, at(66)) == Wait(at(90))


def test_restarted_plan_waits_for_the_turn_of_its_limited_resend() -> None:
    """Otherwise a retry is made at once and begins the plan, with the resend beside it."""
    life = limited(apply(LAST_RETRY, (600, Action.RESEND)), 600, until=700)
    life = attempted(life, 503, started=662)
    assert life.round == 1
    assert next_step(life, at(663)) == Wait(at(700))
    attempt = planned(life, 700)
    assert (attempt.trigger, attempt.in_plan) == (Trigger.RESEND, True)


def test_plan_does_not_begin_before_a_resend_that_is_limited_twice() -> None:
    """Otherwise the first turn, 110 s, stays in `due_at`, and a retry begins the plan then."""
    life = limited(apply(STARTS[DEAD], (100, Action.RESEND)), 100, until=110)
    life = limited(apply(life, (105, Action.RESEND)), 105, until=120)
    assert next_step(life, at(110)) == Wait(at(120))


def test_attempt_counts_if_an_earlier_round_had_its_number() -> None:
    """The first worker is frozen while its delivery is cancelled and resent. If the second worker's
    attempt did not count, it would be sent once more."""
    frozen = planned(NEW, 0)
    life = apply(NEW, (0.5, Action.CANCEL), (0.6, Action.RESEND))
    resend = planned(life, 0.7)
    life = apply(life, (1, ended(frozen, answer(503), started=0)))
    life = apply(life, (2, ended(resend, answer(503), started=0.7)))
    assert (life.resend, life.began_at) == (None, at(0.7))


def test_delivery_resent_after_its_cancel_waits_for_the_end_of_its_batched_attempt() -> None:
    in_batch = replace(NEW, batch_until=at(30))
    first = planned(NEW, 0)
    life = apply(in_batch, (1, Action.CANCEL), (2, Action.RESEND))
    assert next_step(life, at(3)) == Wait(at(30))
    assert next_step(life, at(30)) == planned(life, 30)  # the batch was lost
    life = apply(life, (4, ended(first, answer(503), started=0)))
    assert planned(life, 4).number == 2


def test_lease_of_a_batch_means_nothing_once_its_attempt_is_recorded() -> None:
    first = ended(planned(NEW, 0), answer(503), started=0)
    life = apply(replace(NEW, batch_until=at(30_000)), (1, first))
    assert life.batch_until == at(30_000)  # only the outbox writes it
    assert (life.next_attempt_at, planned(life, 61).number) == (at(61), 2)


def test_retry_counts_if_a_resend_had_its_number() -> None:
    """The retry's worker is frozen while another makes the resend. If the retry did not count, it
    would be made once more."""
    frozen = planned(FAILED_ONCE, 61)
    life = attempted(apply(FAILED_ONCE, (62, Action.RESEND)), 503, started=62)
    life = apply(life, (64, ended(frozen, answer(503), started=61)))
    assert (life.retries, life.due_at) == (1, at(62 + 600))


def test_hold_since_an_attempt_began_does_not_use_up_the_plan() -> None:
    """The retry's worker is frozen, and another finds that the delivery is held. The retry's record
    ends the hold now, and not as of the retry's start, which was before the hold."""
    frozen = planned(FAILED_ONCE, 61)
    life = held(FAILED_ONCE, 80, until=9_000)
    life = apply(life, (5_000, ended(frozen, answer(503), started=61)))
    assert (life.phase, life.excluded) == (WAITING, timedelta(seconds=5_000 - 80))


def test_slow_resend_does_not_use_up_the_plan() -> None:
    """Two resends of 10 s delay a retry. If that time counted, the plan would end a retry early."""
    plan: PlanSpec = {"delays_seconds": [1, 1], "jitter": 0}  # 2 + 3 * 10 = 32 s at most
    life = apply(NEW, (10, ended(planned(NEW, 0), answer(503, duration=10), started=0, plan=plan)))
    for started in (11, 21):
        life = apply(life, (started, Action.RESEND))
        resend = ended(planned(life, started), answer(503, duration=10), started=started, plan=plan)
        life = apply(life, (started + 10, resend))
    retry = ended(planned(life, 31), answer(503, duration=10), started=31, plan=plan)
    assert apply(life, (41, retry)).phase is WAITING  # 41 s, less 20 s
