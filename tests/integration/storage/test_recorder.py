"""What a record moves, and what it leaves when it comes too late."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest
from hookfast.storage.delivery_status import note_limited, note_status

from hookfast.circuit import Cause, Circuit, State
from hookfast.clock import utc_now
from hookfast.delivery import AttemptFacts, StatusNote, Trigger
from hookfast.ids import new_id
from hookfast.outcome import DeliveryStatus, Result
from hookfast.retry_plan import Next
from hookfast.storage import circuits
from hookfast.storage.engine import Database
from hookfast.storage.outgoing import OutgoingLoader
from hookfast.storage.recorder import AttemptRecord, Recorder
from tests.seed import KEYRING, attempt_rows, delivery_row, seed_delivery, seed_endpoint

pytestmark = pytest.mark.anyio


class Records:
    """Makes records of one delivery's attempts: seconds are those since it was emitted."""

    def __init__(self, database: Database, endpoint: str, delivery: str) -> None:
        self.database = database
        self.delivery = delivery
        self.emitted = utc_now()
        self.recorder = Recorder(database)
        self.endpoint = endpoint

    def make(
        self, number: int, following: Next | None, *, at: float, retry_in: float = 60
    ) -> AttemptRecord:
        started_at = self.at(at)
        succeeded = following is Next.DELIVERED
        return AttemptRecord(
            facts=AttemptFacts(
                attempt_id=new_id("att", started_at),
                delivery_id=self.delivery,
                endpoint_id=self.endpoint,
                number=number,
                retries=number - 1,
                trigger=Trigger.FIRST if number == 1 else Trigger.RETRY,
                started_at=started_at,
                duration_ms=5,
                result=Result.SUCCESS if succeeded else Result.STATUS,
                next_attempt_at=self.at(at + retry_in) if following is Next.RETRY else None,
            ),
            next=following,
            reason=None if succeeded else "why",
            status_code=200 if succeeded else 500,
        )

    def at(self, seconds: float) -> datetime:
        return self.emitted + timedelta(seconds=seconds)

    async def stand(self) -> tuple[str, int]:
        row = await delivery_row(self.database, self.delivery)
        return row.status, row.attempts

    async def made(self) -> list[tuple[int, str]]:
        return [
            (one.number, one.result) for one in await attempt_rows(self.database, self.delivery)
        ]


@pytest.fixture
async def records(database: Database) -> AsyncIterator[Records]:
    endpoint = await seed_endpoint(database, "https://example.com/hook")
    records = Records(database, endpoint, await seed_delivery(database, endpoint))
    yield records
    await records.recorder.close()


# What two tries of the same attempt came to, the one that began first first, and how the delivery
# stands then, whichever was recorded first. Temporal believes the one that began last.
BOTH = [
    ("success beats failure", Next.RETRY, Next.DELIVERED, "delivered"),
    ("and an earlier success too", Next.DELIVERED, Next.RETRY, "delivered"),
    ("the later says whether it ends", Next.RETRY, Next.DEAD, "dead"),
    ("or goes on", Next.DEAD, Next.RETRY, "retrying"),
]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "reversed"])
@pytest.mark.parametrize(
    ("first", "second", "status"), [case[1:] for case in BOTH], ids=[case[0] for case in BOTH]
)
async def test_of_two_tries_of_one_attempt_both_are_kept_and_one_counts(
    records: Records, first: Next, second: Next, status: str, order: tuple[int, int]
) -> None:
    tries = [records.make(1, first, at=0), records.make(1, second, at=20)]
    for position in order:
        await records.recorder.record(tries[position])
    assert await records.stand() == (status, 1)
    assert len(await records.made()) == 2
    # what counts is also what a third try reports
    earlier = (await OutgoingLoader(records.database, KEYRING).load(records.delivery, 1)).earlier
    assert earlier is not None
    assert (earlier.result == Result.SUCCESS) == (status == "delivered")


async def test_two_tries_that_are_recorded_together_leave_the_one_that_counts(
    records: Records,
) -> None:
    sent = [records.make(1, Next.DELIVERED, at=0), records.make(1, Next.RETRY, at=0.1)]
    await records.recorder._commit([*sent, *sent])  # and each of them twice
    assert await records.stand() == ("delivered", 1)
    assert sorted(await records.made()) == [(1, "status"), (1, "success")]


async def test_an_attempt_that_another_has_followed_moves_nothing(records: Records) -> None:
    late = records.make(1, Next.RETRY, at=0)
    await records.recorder.record(records.make(1, Next.RETRY, at=20))
    await records.recorder.record(records.make(2, Next.DELIVERED, at=30))
    await records.recorder.record(late)
    row = await delivery_row(records.database, records.delivery)
    assert (row.status, row.attempts, row.next_attempt_at) == ("delivered", 2, None)
    assert len(await records.made()) == 3


@pytest.mark.parametrize(("began", "status"), [(-1, "cancelled"), (1, "retrying")])
async def test_what_was_cancelled_stays_so_unless_it_is_sent_again(
    records: Records, began: float, status: str
) -> None:
    """An attempt was under way when the delivery was cancelled; the other is a resend."""
    async with records.database.write() as connection:
        note = StatusNote(records.delivery, DeliveryStatus.CANCELLED)
        await note_status(connection, note, now=records.at(0))
    await records.recorder.record(records.make(1, Next.RETRY, at=began))
    row = await delivery_row(records.database, records.delivery)
    assert (row.status, row.attempts) == (status, 1)
    assert (row.next_attempt_at is None) == (row.finished_at is not None) == (status == "cancelled")


async def test_recording_the_same_attempt_again_changes_nothing(records: Records) -> None:
    record = records.make(1, Next.RETRY, at=0)
    await records.recorder.record(record)
    before = await delivery_row(records.database, records.delivery)
    await records.recorder.record(record)
    assert await delivery_row(records.database, records.delivery) == before
    assert await records.made() == [(1, "status")]


async def test_what_leaves_its_hold_in_a_drain_is_counted_once(records: Records) -> None:
    async def stand(state: State) -> None:
        drain = Circuit(state=state, episode=1, cause=Cause.FAILURES, conducted=True)
        async with records.database.write() as connection:
            await circuits.lock(connection, [records.endpoint])
            await circuits.store(connection, records.endpoint, drain, now=records.at(0))
            held = StatusNote(records.delivery, DeliveryStatus.HELD)
            await note_status(connection, held, now=records.at(0))

    async def drained() -> int:
        async with records.database.read() as connection:
            owned = await circuits.get(connection, records.endpoint)
        assert owned is not None
        return owned.circuit.drained

    await stand(State.DRAINING)
    first = records.make(1, Next.RETRY, at=1)
    for _ in range(2):  # recorded again by a worker that did not hear of it
        await records.recorder.record(first)
    assert await drained() == 1
    await records.recorder.record(records.make(2, Next.RETRY, at=2))  # a retry is no longer held
    assert await drained() == 1
    await stand(State.HALF_OPEN)
    await records.recorder.record(records.make(3, Next.DELIVERED, at=3))  # the probe
    assert await drained() == 0


@pytest.mark.parametrize(("status", "counted"), [("held", True), ("retrying", False)])
async def test_a_delivery_that_a_limit_puts_off_says_whether_it_was_held(
    records: Records, status: str, counted: bool
) -> None:
    async with records.database.write() as connection:
        note = StatusNote(records.delivery, DeliveryStatus(status))
        await note_status(connection, note, now=records.at(0))
        for expected in (counted, False):
            told = await note_limited(
                connection, records.delivery, until=records.at(9), now=records.at(1)
            )
            assert told is expected
    assert (await records.stand())[0] == "pending"
