"""What a record moves, and what it leaves when it comes too late."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from hookfast.clock import utc_now
from hookfast.deliveries.facts import Action, Attempt, Fact, Held, Trigger
from hookfast.deliveries.life import Phase, next_step
from hookfast.deliveries.outcome import Reason
from hookfast.deliveries.retry_plan import PlanSpec
from hookfast.endpoints.circuit import Cause, Circuit, State
from hookfast.errors import NotFound
from hookfast.ids import new_id
from hookfast.storage.circuits import circuits
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import lives
from hookfast.storage.deliveries.lives import Change
from hookfast.storage.deliveries.recorder import AttemptRecord, Committed, Recorder
from tests.integration.storage.retention.ended import MINUTES, NO_RETRIES, ended
from tests.support.seed import attempt_rows, delivery_row, seed_delivery, seed_endpoint

pytestmark = pytest.mark.anyio

TRANSIENT: PlanSpec = MINUTES | {"retry_on": "transient"}


class Records:
    """Makes records of one delivery's attempts: seconds are those since it was emitted."""

    def __init__(self, database: Database, endpoint: str, delivery: str) -> None:
        self.database = database
        self.delivery = delivery
        self.endpoint = endpoint
        self.emitted = utc_now()
        self.news: list[Committed] = []
        self.recorder = Recorder(
            database, on_commit=self.news.append, clock=lambda: self.emitted + timedelta(hours=1)
        )

    def make(
        self, number: int, status_code: int, *, at: float, plan: PlanSpec = MINUTES, round: int = 0
    ) -> AttemptRecord:
        trigger = Trigger.FIRST if number == 1 else Trigger.RETRY
        attempt = Attempt(
            number=number, trigger=trigger, round=round, in_plan=True, position=number - 1
        )
        fact = ended(attempt, status_code, self.at(at), plan=plan)
        return AttemptRecord(delivery_id=self.delivery, ended=fact, excerpt=f"said {status_code}")

    async def record(
        self, number: int, status_code: int, *, at: float, plan: PlanSpec = MINUTES, round: int = 0
    ) -> Change:
        record = self.make(number, status_code, at=at, plan=plan, round=round)
        return await self.recorder.record(record)

    async def apply(self, fact: Fact, *, at: float, wake: int | None = None) -> Change:
        """A fact that no attempt is."""
        async with self.database.write() as connection:
            changes = await lives.apply(
                connection, [(self.delivery, fact)], now=self.at(at), wake=wake
            )
        return changes[self.delivery]

    async def hold(self, *, at: float) -> None:
        async with self.database.read() as connection:
            life = await lives.read(connection, self.delivery)
        assert life is not None
        attempt = next_step(life, self.at(at))
        assert isinstance(attempt, Attempt), attempt
        change = await self.apply(Held(attempt, Reason.CIRCUIT_OPEN, self.at(at + 3600)), at=at)
        assert change.after.phase is Phase.HELD

    def at(self, seconds: float) -> datetime:
        return self.emitted + timedelta(seconds=seconds)

    async def stand(self) -> tuple[str, int]:
        row = await delivery_row(self.database, self.delivery)
        return row.status, row.attempts

    async def made(self) -> list[tuple[int, int]]:
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


# -- what a record says ---------------------------------------------------------------------------


async def test_an_attempt_is_recorded_with_what_it_makes_of_its_delivery(records: Records) -> None:
    change = await records.record(1, 503, at=1)
    assert (change.before.attempts, change.after.attempts) == (0, 1)
    row = await delivery_row(records.database, records.delivery)
    assert (row.status, row.reason, row.attempts, row.retries) == ("retrying", None, 1, 0)
    assert row.next_attempt_at == row.due_at == records.at(61.005)  # 5 ms, and then a minute
    assert (row.began_at, row.last_error) == (records.at(1), "The receiver answered 503.")
    # made by its workflow, so that was started, whatever became of the relay
    assert row.started_at == row.updated_at == records.at(3600)
    [attempt] = await attempt_rows(records.database, records.delivery)
    assert (attempt.number, attempt.trigger, attempt.started_at) == (1, "first", records.at(1))
    assert (attempt.endpoint_id, attempt.result, attempt.status_code) == (
        records.endpoint,
        "status",
        503,
    )
    assert (attempt.error, attempt.response_excerpt) == ("The receiver answered 503.", "said 503")


async def test_a_record_of_a_delivery_that_was_put_back_leaves_it_in_the_outbox(
    records: Records,
) -> None:
    """Its workflow has heard nothing of what somebody asked for while it made the attempt."""
    await records.apply(Action.PAUSE, at=0.5, wake=1)
    await records.record(1, 503, at=0)
    row = await delivery_row(records.database, records.delivery)
    assert (row.status, row.attempts, row.started_at, row.wakes) == ("paused", 1, None, 1)


@pytest.mark.parametrize(
    ("status_code", "plan", "news"),
    [(200, MINUTES, []), (503, MINUTES, []), (503, NO_RETRIES, [Committed.OUTBOX])],
)
async def test_a_record_says_what_there_is_to_be_told_of(
    records: Records, status_code: int, plan: PlanSpec, news: list[Committed]
) -> None:
    await records.record(1, status_code, at=0, plan=plan)
    assert records.news == news


async def test_a_410_ends_its_endpoint_too(records: Records) -> None:
    await records.record(1, 410, at=0)
    assert await records.stand() == ("gone", 1)
    assert records.news == [Committed.OUTBOX | Committed.CIRCUIT]
    async with records.database.read() as connection:
        owned = await circuits.get(connection, records.endpoint)
    assert owned is not None
    assert (owned.endpoint_state, owned.circuit.cause) == ("disabled", Cause.GONE)


async def test_a_delivery_without_a_row_is_not_found(records: Records) -> None:
    """A database that was restored from before its event."""
    strange = replace(records.make(1, 200, at=0), delivery_id=new_id("dlv"))
    with pytest.raises(NotFound):
        await records.recorder.record(strange)
    _, change = await records.recorder._commit([strange, records.make(1, 200, at=0)])
    assert change is not None
    assert await records.stand() == ("delivered", 1)


# -- more than once -------------------------------------------------------------------------------

# What two tries of the same attempt were answered, in the order they began, and how the delivery
# stands once they were recorded in this order, and in the other.
BOTH = [
    ("a success after a failure", 500, 200, "delivered", "delivered"),
    ("a success before a failure", 200, 500, "delivered", "delivered"),
    ("a 410 after a failure", 500, 410, "gone", "gone"),
    ("otherwise the one that is recorded first", 500, 400, "retrying", "dead"),
    ("and what has ended stays so", 400, 200, "dead", "delivered"),
]


@pytest.mark.parametrize("reversed_", [False, True], ids=["in order", "reversed"])
@pytest.mark.parametrize(
    ("first", "second", "in_order", "in_reverse"),
    [case[1:] for case in BOTH],
    ids=[case[0] for case in BOTH],
)
async def test_of_two_tries_of_one_attempt_both_are_kept_and_one_counts(
    records: Records, first: int, second: int, in_order: str, in_reverse: str, reversed_: bool
) -> None:
    tries = [
        records.make(1, first, at=0, plan=TRANSIENT),
        records.make(1, second, at=20, plan=TRANSIENT),
    ]
    for record in reversed(tries) if reversed_ else tries:
        await records.recorder.record(record)
    assert await records.stand() == (in_reverse if reversed_ else in_order, 1)
    assert sorted(await records.made()) == sorted([(1, first), (1, second)])
    assert (await delivery_row(records.database, records.delivery)).retries == 0


async def test_two_tries_that_are_recorded_together_leave_the_one_that_counts(
    records: Records,
) -> None:
    sent = [records.make(1, 200, at=0), records.make(1, 500, at=0.1)]
    changes = await records.recorder._commit([*sent, *sent])  # and each of them twice
    assert {one.after.phase for one in changes if one is not None} == {Phase.DELIVERED}
    assert await records.stand() == ("delivered", 1)
    assert sorted(await records.made()) == [(1, 200), (1, 500)]


async def test_a_failure_that_another_attempt_has_followed_moves_nothing(records: Records) -> None:
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
    assert len(await records.made()) == 5


async def test_a_success_that_is_recorded_late_has_arrived_all_the_same(records: Records) -> None:
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
    assert await records.made() == [(1, 500)]


# -- beside what people do ------------------------------------------------------------------------


@pytest.mark.parametrize("status_code", [200, 410, 500])
async def test_what_was_cancelled_stays_so_whatever_an_attempt_under_way_brings(
    records: Records, status_code: int
) -> None:
    await records.apply(Action.CANCEL, at=1)
    await records.record(1, status_code, at=0)
    row = await delivery_row(records.database, records.delivery)
    assert (row.status, row.attempts) == ("cancelled", 1)
    assert (row.next_attempt_at, row.finished_at) == (None, records.at(1))
    assert await records.made() == [(1, status_code)]


async def test_what_is_sent_again_after_a_cancel_begins_its_plan_again(records: Records) -> None:
    await records.apply(Action.CANCEL, at=1)
    change = await records.apply(Action.RESEND, at=2)
    under_way = records.make(1, 200, at=0)  # of the round that was cancelled
    await records.recorder.record(under_way)
    assert await records.stand() == ("retrying", 1)
    attempt = next_step((await records.apply(Action.RESUME, at=3)).after, records.at(3))
    assert isinstance(attempt, Attempt)
    assert (attempt.number, attempt.round) == (2, change.after.round)
    fact = ended(attempt, 500, records.at(3))
    await records.recorder.record(AttemptRecord(delivery_id=records.delivery, ended=fact))
    row = await delivery_row(records.database, records.delivery)
    assert (row.status, row.attempts, row.retries) == ("retrying", 2, 0)
    assert row.next_attempt_at == records.at(63.005)


async def test_a_retry_of_the_round_before_counts_for_nothing(records: Records) -> None:
    await records.record(1, 400, at=0, plan=TRANSIENT)
    assert await records.stand() == ("dead", 1)
    await records.apply(Action.RESEND, at=10)
    before = await delivery_row(records.database, records.delivery)
    await records.record(1, 500, at=0.5)
    assert await delivery_row(records.database, records.delivery) == before


async def test_what_leaves_its_hold_in_a_drain_is_counted_once(records: Records) -> None:
    async def stand(state: State) -> None:
        drain = Circuit(state=state, episode=1, cause=Cause.FAILURES, workflow_started=True)
        async with records.database.write() as connection:
            await circuits.lock(connection, [records.endpoint])
            await circuits.store(connection, records.endpoint, drain, now=records.at(0))

    async def drained() -> int:
        async with records.database.read() as connection:
            owned = await circuits.get(connection, records.endpoint)
        assert owned is not None
        return owned.circuit.drained

    await stand(State.DRAINING)
    await records.hold(at=1)
    first = records.make(1, 500, at=1)
    for _ in range(2):  # recorded again by a worker that did not hear of it
        await records.recorder.record(first)
    assert await drained() == 1
    await records.record(2, 500, at=62)  # a retry is no longer held
    assert await drained() == 1
    await stand(State.HALF_OPEN)
    await records.hold(at=700)
    await records.record(3, 200, at=701)  # the probe
    assert await drained() == 0
