"""Recording attempts: how a record changes its delivery, also when it is late or repeated."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy import Table, select
from structlog.testing import capture_logs

from hookfast.clock import utc_now
from hookfast.deliveries.evidence import Evidence
from hookfast.deliveries.facts import Action, AttemptPlan, Fact, Held, Trigger
from hookfast.deliveries.life import Phase, next_step
from hookfast.deliveries.messages import Urgency
from hookfast.deliveries.outcome import Outcome, Reason, Result
from hookfast.deliveries.retry_plan import PlanSpec
from hookfast.endpoints.circuit import Cause, Circuit, Policy, State
from hookfast.errors import NotFound
from hookfast.events.operational import Kind as OperationalKind
from hookfast.ids import new_id
from hookfast.logs.kind import Kind as LineKind
from hookfast.storage.circuits import circuits
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import life_rows, lives
from hookfast.storage.deliveries.life_rows import LifeChange
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder, Wakeup, _write
from hookfast.storage.tables import Event
from tests.integration.storage.retention.ended import MINUTES, NO_RETRIES, ended
from tests.support.seed import attempt_rows, delivery_row, seed_delivery, seed_endpoint

pytestmark = pytest.mark.anyio

_EVENT: Table = Event.__table__

TRANSIENT: PlanSpec = MINUTES | {"retry_on": "transient"}
EVIDENCE = Evidence("https://example.com/hook", "Host: example.com\nX-Env: ***", "Server: ü\u2028")


class Records:
    """Creates and commits records of one delivery's attempts. Times are seconds since its
    creation."""

    def __init__(self, database: Database, endpoint: str, delivery: str) -> None:
        self.database = database
        self.delivery = delivery
        self.endpoint = endpoint
        self.created = utc_now()
        self.committed_for: list[Wakeup] = []
        self.recorder = Recorder(
            database,
            on_commit=self.committed_for.append,
            clock=lambda: self.created + timedelta(hours=1),
        )

    def make(
        self, number: int, status_code: int, *, at: float, plan: PlanSpec = MINUTES, round: int = 0
    ) -> AttemptRecord:
        trigger = Trigger.FIRST if number == 1 else Trigger.RETRY
        attempt = AttemptPlan(
            number=number, trigger=trigger, round=round, in_plan=True, position=number - 1
        )
        fact = ended(attempt, status_code, self.at(at), plan=plan)
        return AttemptRecord(
            delivery_id=self.delivery, ended=fact, excerpt=f"said {status_code}", evidence=EVIDENCE
        )

    async def record(
        self, number: int, status_code: int, *, at: float, plan: PlanSpec = MINUTES, round: int = 0
    ) -> LifeChange:
        record = self.make(number, status_code, at=at, plan=plan, round=round)
        return await self.recorder.record(record)

    async def apply(self, fact: Fact, *, at: float, wake: int | None = None) -> LifeChange:
        """Apply a fact that is not an attempt."""
        async with self.database.write() as connection:
            changes = await lives.apply(
                connection, [(self.delivery, fact)], now=self.at(at), wake=wake
            )
        return changes[self.delivery]

    async def next_attempt(self, *, at: float, probe: bool = False) -> AttemptPlan:
        async with self.database.read() as connection:
            life = (await life_rows.lock(connection, [self.delivery]))[self.delivery].life
        attempt = next_step(life, self.at(at), probe=probe)
        assert isinstance(attempt, AttemptPlan), attempt
        return attempt

    async def attempt(self, status_code: int, *, at: float, probe: bool) -> LifeChange:
        """Make the attempt that is due, and record it."""
        attempt = await self.next_attempt(at=at, probe=probe)
        fact = ended(attempt, status_code, self.at(at), plan=MINUTES)
        return await self.recorder.record(AttemptRecord(delivery_id=self.delivery, ended=fact))

    async def hold(self, *, at: float) -> None:
        attempt = await self.next_attempt(at=at)
        change = await self.apply(Held(attempt, Reason.CIRCUIT_OPEN, self.at(at + 3600)), at=at)
        assert change.after.phase is Phase.HELD

    def at(self, seconds: float) -> datetime:
        return self.created + timedelta(seconds=seconds)

    async def status(self) -> tuple[str, int]:
        row = await delivery_row(self.database, self.delivery)
        return row.status, row.attempts

    async def last_answer(self) -> tuple[str, int | None, float, float] | None:
        """The result, the status code, the milliseconds, and when the attempt began."""
        row = await delivery_row(self.database, self.delivery)
        if row.last_result is None:
            assert (row.last_status_code, row.last_duration_ms, row.last_attempt_at) == (None,) * 3
            return None
        began = (row.last_attempt_at - self.created).total_seconds()
        return row.last_result, row.last_status_code, row.last_duration_ms, began

    async def recorded(self) -> list[tuple[int, int]]:
        return [
            (one.number, one.status_code)
            for one in await attempt_rows(self.database, self.delivery)
        ]


@pytest.fixture
async def records(database: Database) -> AsyncIterator[Records]:
    endpoint = await seed_endpoint(database, "https://example.com/hook")
    records = Records(database, endpoint, await seed_delivery(database, endpoint))
    yield records
    await records.recorder.close()


# -- what a record changes ------------------------------------------------------------------------


async def test_an_attempt_is_recorded_with_its_deliverys_new_state(records: Records) -> None:
    change = await records.record(1, 503, at=1)
    assert (change.before.attempts, change.after.attempts) == (0, 1)
    row = await delivery_row(records.database, records.delivery)
    assert (row.status, row.reason, row.attempts, row.retries) == ("retrying", None, 1, 0)
    assert row.next_attempt_at == row.due_at == records.at(61.005)  # 5 ms, and then a minute
    assert (row.began_at, row.last_error) == (records.at(1), "The receiver answered 503.")
    # its workflow made the attempt, so it was started, even if the relay died before marking it
    assert row.started_at == row.updated_at == records.at(3600)
    [attempt] = await attempt_rows(records.database, records.delivery)
    assert (attempt.number, attempt.trigger, attempt.started_at) == (1, "first", records.at(1))
    assert (attempt.endpoint_id, attempt.result, attempt.status_code) == (
        records.endpoint,
        "status",
        503,
    )
    assert (attempt.error, attempt.response_excerpt) == ("The receiver answered 503.", "said 503")
    assert (attempt.url, attempt.request_headers, attempt.response_headers) == (
        EVIDENCE.url,
        EVIDENCE.request_headers,
        EVIDENCE.response_headers,
    )


async def test_an_attempt_is_recorded_without_evidence(records: Records) -> None:
    record = replace(records.make(1, 503, at=1), excerpt=None, evidence=None)
    await records.recorder.record(record)
    [attempt] = await attempt_rows(records.database, records.delivery)
    assert attempt.status_code == 503
    assert (attempt.url, attempt.request_headers, attempt.response_headers) == (None, None, None)


async def test_recording_an_attempt_leaves_a_woken_delivery_in_the_outbox(
    records: Records,
) -> None:
    """Its workflow does not know of the action that was requested during the attempt."""
    await records.apply(Action.PAUSE, at=0.5, wake=1)
    await records.record(1, 503, at=0)
    row = await delivery_row(records.database, records.delivery)
    assert (row.status, row.attempts, row.started_at, row.wake_count) == ("paused", 1, None, 1)


@pytest.mark.parametrize(
    ("status_code", "plan", "committed_for"),
    [(200, MINUTES, []), (503, MINUTES, []), (503, NO_RETRIES, [Wakeup.OUTBOX])],
)
async def test_only_a_dead_letter_is_reported_to_the_relay(
    records: Records, status_code: int, plan: PlanSpec, committed_for: list[Wakeup]
) -> None:
    await records.record(1, status_code, at=0, plan=plan)
    assert records.committed_for == committed_for


async def test_a_410_disables_the_endpoint_too(records: Records) -> None:
    await records.record(1, 410, at=0)
    assert await records.status() == ("gone", 1)
    assert records.committed_for == [Wakeup.OUTBOX | Wakeup.CIRCUIT]
    async with records.database.read() as connection:
        stored = await circuits.get(connection, records.endpoint)
    assert stored is not None
    assert (stored.endpoint_state, stored.circuit.cause) == ("disabled", Cause.GONE)


async def test_last_error_of_an_endpoint_that_is_gone_is_its_410(records: Records) -> None:
    """In the log and in the event, not only in its health: the failure before it is history."""
    await records.record(1, 503, at=0)
    with capture_logs() as lines:
        await records.record(2, 410, at=60)
    gone = records.make(2, 410, at=60).ended.outcome.error
    drains = [each for each in lines if each.get("kind") == LineKind.CIRCUIT_DRAINING]
    assert [each["last_error"] for each in drains] == [gone]
    async with records.database.read() as connection:
        bodies = await connection.scalars(
            select(_EVENT.c.body).where(_EVENT.c.type == OperationalKind.ENDPOINT_DISABLED.value)
        )
        assert [json.loads(body)["data"]["last_error"] for body in bodies] == [gone]


async def test_recording_an_attempt_of_an_unknown_delivery_raises_not_found(
    records: Records,
) -> None:
    """The database was restored to a time before the delivery."""
    unknown = replace(records.make(1, 200, at=0), delivery_id=new_id("dlv"))
    with pytest.raises(NotFound):
        await records.recorder.record(unknown)
    _, change = await records.recorder._commit([unknown, records.make(1, 200, at=0)])
    assert change is not None
    assert await records.status() == ("delivered", 1)


# -- more than once -------------------------------------------------------------------------------

# The status codes of two tries of the same attempt, in the order in which they began, and the
# delivery's status after they were recorded in this order, and in reverse.
BOTH = [
    ("a success after a failure", 500, 200, "delivered", "delivered"),
    ("a success before a failure", 200, 500, "delivered", "delivered"),
    ("a 410 after a failure", 500, 410, "gone", "gone"),
    ("of two failures the one recorded first", 500, 400, "retrying", "dead"),
    ("a success after the end", 400, 200, "dead", "delivered"),
]


@pytest.mark.parametrize("reversed_", [False, True], ids=["in order", "reversed"])
@pytest.mark.parametrize(
    ("first", "second", "in_order", "in_reverse"),
    [case[1:] for case in BOTH],
    ids=[case[0] for case in BOTH],
)
async def test_two_tries_of_one_attempt_are_both_stored_and_one_counts(
    records: Records, first: int, second: int, in_order: str, in_reverse: str, reversed_: bool
) -> None:
    tries = [
        records.make(1, first, at=0, plan=TRANSIENT),
        records.make(1, second, at=20, plan=TRANSIENT),
    ]
    for record in reversed(tries) if reversed_ else tries:
        await records.recorder.record(record)
    assert await records.status() == (in_reverse if reversed_ else in_order, 1)
    assert sorted(await records.recorded()) == sorted([(1, first), (1, second)])
    assert (await delivery_row(records.database, records.delivery)).retries == 0


async def test_two_tries_recorded_together_are_both_stored_and_one_counts(
    records: Records,
) -> None:
    tries = [records.make(1, 200, at=0), records.make(1, 500, at=0.1)]
    changes = await records.recorder._commit([*tries, *tries])  # each of them twice
    assert {one.after.phase for one in changes if one is not None} == {Phase.DELIVERED}
    assert await records.status() == ("delivered", 1)
    assert sorted(await records.recorded()) == [(1, 200), (1, 500)]


async def test_a_late_failure_after_further_attempts_changes_nothing(records: Records) -> None:
    late = records.make(1, 500, at=0)
    await records.record(1, 500, at=20)
    await records.record(2, 500, at=80)
    before = await delivery_row(records.database, records.delivery)
    await records.recorder.record(late)
    assert await delivery_row(records.database, records.delivery) == before
    await records.record(3, 200, at=680)
    await records.recorder.record(records.make(1, 500, at=1))
    row = await delivery_row(records.database, records.delivery)
    assert (row.status, row.attempts, row.retries, row.next_attempt_at) == ("delivered", 3, 2, None)
    assert len(await records.recorded()) == 5


async def test_a_success_that_is_recorded_late_still_counts(records: Records) -> None:
    late = records.make(1, 200, at=0)
    await records.record(1, 500, at=20)
    await records.record(2, 500, at=80)
    await records.recorder.record(late)
    row = await delivery_row(records.database, records.delivery)
    assert (row.status, row.attempts, row.next_attempt_at) == ("delivered", 2, None)


async def test_recording_the_same_attempt_again_changes_nothing(records: Records) -> None:
    record = records.make(1, 500, at=0)
    await records.recorder.record(record)
    before = await delivery_row(records.database, records.delivery)
    again = await records.recorder.record(record)
    assert again.after == again.before
    assert await delivery_row(records.database, records.delivery) == before
    assert await records.recorded() == [(1, 500)]


# -- an attempt whose step was repeated while its worker was frozen -------------------------------


async def woken(records: Records) -> bool:
    """Whether the delivery is in the outbox, to be woken."""
    row = await delivery_row(records.database, records.delivery)
    assert (row.started_at is None) == (row.wake_count == 1)
    return row.wake_count == 1


@pytest.mark.parametrize("status_code", [200, 410, 503])
async def test_a_late_record_wakes_the_workflow_of_a_held_delivery(
    records: Records, status_code: int
) -> None:
    """It waits for the end of the hold that the repeated step has found: hours."""
    late = records.make(1, status_code, at=0)
    await records.hold(at=20)
    await records.recorder.record(late)
    row = await delivery_row(records.database, records.delivery)
    assert row.status == {200: "delivered", 410: "gone", 503: "retrying"}[status_code]
    assert await woken(records)
    assert row.urgency == Urgency.RETRY


async def test_a_late_success_wakes_the_workflow_that_waits_for_a_retry(records: Records) -> None:
    late = records.make(1, 200, at=0)
    await records.record(1, 503, at=20)
    assert not await woken(records)
    await records.recorder.record(late)
    assert await records.status() == ("delivered", 1)
    assert await woken(records)


async def test_a_late_failure_after_the_repeated_attempt_wakes_nobody(records: Records) -> None:
    late = records.make(1, 503, at=0)
    await records.record(1, 503, at=20)
    await records.recorder.record(late)
    assert not await woken(records)


@pytest.mark.parametrize("status_code", [200, 503])
@pytest.mark.parametrize("trigger", [Trigger.PROBE, Trigger.FIRST])
async def test_the_attempt_of_a_probe_or_a_drained_delivery_wakes_nobody(
    records: Records, trigger: Trigger, status_code: int
) -> None:
    """Their own steps await the results: a signal for each would double the work of a drain."""
    await records.hold(at=20)
    is_probe = trigger is Trigger.PROBE
    if not is_probe:
        await records.apply(Action.RELEASE, at=30)
    await records.attempt(status_code, at=40, probe=is_probe)
    assert (await records.status())[1] == 1
    assert not await woken(records)


async def test_a_late_record_of_a_cancelled_delivery_wakes_nobody(records: Records) -> None:
    await records.apply(Action.CANCEL, at=1)
    await records.record(1, 200, at=0)
    assert not await woken(records)


# -- together with actions of people --------------------------------------------------------------


@pytest.mark.parametrize("status_code", [200, 410, 500])
async def test_a_cancelled_delivery_stays_cancelled_when_its_attempt_in_flight_ends(
    records: Records, status_code: int
) -> None:
    await records.apply(Action.CANCEL, at=1)
    await records.record(1, status_code, at=0)
    row = await delivery_row(records.database, records.delivery)
    assert (row.status, row.attempts) == ("cancelled", 1)
    assert (row.next_attempt_at, row.finished_at) == (None, records.at(1))
    assert await records.recorded() == [(1, status_code)]


async def test_resending_a_cancelled_delivery_starts_its_plan_again(records: Records) -> None:
    await records.apply(Action.CANCEL, at=1)
    change = await records.apply(Action.RESEND, at=2)
    in_flight = records.make(1, 200, at=0)  # of the cancelled round
    await records.recorder.record(in_flight)
    assert await records.status() == ("retrying", 1)
    attempt = next_step((await records.apply(Action.RESUME, at=3)).after, records.at(3))
    assert isinstance(attempt, AttemptPlan)
    assert (attempt.number, attempt.round) == (2, change.after.round)
    fact = ended(attempt, 500, records.at(3))
    await records.recorder.record(AttemptRecord(delivery_id=records.delivery, ended=fact))
    row = await delivery_row(records.database, records.delivery)
    assert (row.status, row.attempts, row.retries) == ("retrying", 2, 0)
    assert row.next_attempt_at == records.at(63.005)


async def test_an_attempt_of_an_earlier_round_changes_nothing(records: Records) -> None:
    await records.record(1, 400, at=0.5, plan=TRANSIENT)
    assert await records.status() == ("dead", 1)
    await records.apply(Action.RESEND, at=10)
    before = await delivery_row(records.database, records.delivery)
    await records.record(1, 500, at=0)
    assert await delivery_row(records.database, records.delivery) == before


# -- the last answer ------------------------------------------------------------------------------


async def test_the_last_answer_is_that_of_the_newest_attempt(records: Records) -> None:
    assert await records.last_answer() is None
    await records.record(1, 503, at=1)
    assert await records.last_answer() == ("status", 503, 5.0, 1)
    await records.record(1, 502, at=0)  # a frozen worker began it before the other, and was late
    assert await records.last_answer() == ("status", 503, 5.0, 1)
    await records.record(1, 504, at=2)  # and this one began it later
    assert await records.last_answer() == ("status", 504, 5.0, 2)
    await records.record(2, 418, at=1.5)  # the clock of this worker is behind
    assert await records.last_answer() == ("status", 418, 5.0, 1.5)
    await records.record(1, 505, at=3)
    assert await records.last_answer() == ("status", 418, 5.0, 1.5)
    assert len(await records.recorded()) == 5
    await records.apply(Action.PAUSE, at=10)
    assert await records.last_answer() == ("status", 418, 5.0, 1.5)
    await records.record(3, 200, at=661)
    assert await records.status() == ("delivered", 3)
    assert await records.last_answer() == ("success", 200, 5.0, 661)
    # a resend that fails
    change = await records.apply(Action.RESEND, at=700)
    assert await records.last_answer() == ("success", 200, 5.0, 661)
    resend = next_step(change.after, records.at(701))
    assert isinstance(resend, AttemptPlan)
    fact = ended(resend, 500, records.at(701))
    unanswered = Outcome(result=Result.TIMEOUT, duration_ms=10_000, error="It took too long.")
    record = AttemptRecord(delivery_id=records.delivery, ended=replace(fact, outcome=unanswered))
    await records.recorder.record(record)
    assert await records.last_answer() == ("timeout", None, 10_000.0, 701)
    assert await records.status() == ("retrying", 4)


async def test_the_last_answer_is_found_among_attempts_recorded_together(
    records: Records,
) -> None:
    other = Records(records.database, records.endpoint, "")
    other.delivery = await seed_delivery(records.database, records.endpoint)
    made = [
        *(records.make(2, 503, at=61), records.make(1, 502, at=1), records.make(2, 504, at=62)),
        replace(records.make(1, 200, at=3), delivery_id=other.delivery),
    ]
    async with records.database.write() as connection:
        await _write(connection, made, policy=Policy(), now=records.at(100))
    assert await records.last_answer() == ("status", 504, 5.0, 62)
    row = await delivery_row(records.database, other.delivery)
    assert (row.status, row.last_result, row.last_status_code) == ("delivered", "success", 200)
    await other.recorder.close()


async def test_a_drained_delivery_is_counted_once(records: Records) -> None:
    async def set_circuit(state: State) -> None:
        drain = Circuit(state=state, episode=1, cause=Cause.FAILURES, workflow_started=True)
        async with records.database.write() as connection:
            [locked] = await circuits.lock(connection, [records.endpoint])
            await circuits.store(connection, locked, drain, now=records.at(0))

    async def drained() -> int:
        async with records.database.read() as connection:
            stored = await circuits.get(connection, records.endpoint)
        assert stored is not None
        return stored.circuit.drained

    await set_circuit(State.DRAINING)
    await records.hold(at=1)
    first = records.make(1, 500, at=1)
    for _ in range(2):  # recorded again by a worker that did not get the result
        await records.recorder.record(first)
    assert await drained() == 1
    await records.record(2, 500, at=62)  # a retry is no longer held
    assert await drained() == 1
    await set_circuit(State.HALF_OPEN)
    await records.hold(at=700)
    await records.record(3, 200, at=701)  # the probe
    assert await drained() == 0
