"""The outbox: which rows relays lease, in which order, and which rows stay in it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

import pytest

from hookfast.deliveries.facts import Action
from hookfast.deliveries.messages import Urgency
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions, lives, outbox
from hookfast.storage.deliveries.outbox import PendingDelivery
from tests.integration.storage.deliveries.stored_lives import FIRST, at, life_after
from tests.integration.storage.retention.ended import ended
from tests.support.seed import claim as seed_claim
from tests.support.seed import delivery_row, seed_delivery

pytestmark = pytest.mark.anyio

LEASE: Final = timedelta(seconds=30)
EVERYTHING: Final = (Urgency.PERSON, Urgency.RETRY, Urgency.FIRST, Urgency.JOB)


async def seed(database: Database, endpoint: str, **columns: Any) -> str:
    """Store a delivery in the outbox, created at noon. Returns its id."""
    given = {"created_at": at(0), "updated_at": at(0), "due_at": at(0), "next_attempt_at": at(0)}
    return await seed_delivery(database, endpoint, **given | columns)


async def claim(
    database: Database, *, now: float = 0, limit: int = 100, **urgencies: int
) -> list[PendingDelivery]:
    async with database.write() as connection:
        return await seed_claim(connection, limit=limit, lease=LEASE, now=at(now), **urgencies)


async def claimed_ids(database: Database, **given: Any) -> list[str]:
    return [row.delivery_id for row in await claim(database, **given)]


async def mark(database: Database, *ids: str, wake_count: int = 0, now: float = 1) -> None:
    async with database.write() as connection:
        await outbox.mark_started(connection, ids, wake_count=wake_count, now=at(now))


async def wake(database: Database, *ids: str) -> None:
    async with database.write() as connection:
        await outbox.wake(connection, ids)


# -- claiming -------------------------------------------------------------------------------------


async def test_the_most_urgent_rows_are_first_and_of_those_the_oldest(
    database: Database, endpoint: str
) -> None:
    by_urgency: dict[int, list[str]] = {urgency: [] for urgency in EVERYTHING}
    for urgency in (Urgency.JOB, Urgency.FIRST, Urgency.PERSON, Urgency.RETRY) * 2:
        by_urgency[urgency].append(await seed(database, endpoint, urgency=urgency))
    expected = [one for urgency in EVERYTHING for one in by_urgency[urgency]]
    assert await claimed_ids(database, limit=3) == expected[:3]
    assert await claimed_ids(database, limit=100) == expected[3:]
    assert await claimed_ids(database) == []


async def test_a_new_delivery_has_the_urgency_of_first_attempts(
    database: Database, endpoint: str
) -> None:
    await seed(database, endpoint)
    [row] = await claim(database)
    assert (row.urgency, row.wake_count) == (Urgency.FIRST, 0)
    assert row.life == life_after(())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"least_urgent": Urgency.RETRY}, [Urgency.PERSON, Urgency.RETRY]),
        ({"most_urgent": Urgency.FIRST}, [Urgency.FIRST, Urgency.JOB]),
        ({"most_urgent": Urgency.RETRY, "least_urgent": Urgency.FIRST}, [2, 3]),
    ],
)
async def test_a_relay_may_lease_rows_of_some_urgencies_only(
    database: Database, endpoint: str, given: dict[str, int], expected: list[int]
) -> None:
    for urgency in EVERYTHING:
        await seed(database, endpoint, urgency=urgency)
    assert [row.urgency for row in await claim(database, **given)] == expected


async def test_a_leased_row_is_free_again_when_its_lease_has_ended(
    database: Database, endpoint: str
) -> None:
    delivery = await seed(database, endpoint)
    await claim(database, now=0)
    assert (await delivery_row(database, delivery)).leased_until == at(0) + LEASE
    assert await claimed_ids(database, now=LEASE.total_seconds()) == []
    assert await claimed_ids(database, now=LEASE.total_seconds() + 1) == [delivery]


async def test_several_relays_lease_no_row_twice(workers: list[Database], endpoint: str) -> None:
    ids = [await seed(workers[0], endpoint) for _ in range(40)]
    leased: list[str] = []

    async def lease_all(worker: Database) -> None:
        while found := await claimed_ids(worker, limit=4):
            leased.extend(found)

    await asyncio.gather(*(lease_all(worker) for worker in workers))
    assert sorted(leased) == ids


# -- marking --------------------------------------------------------------------------------------


async def test_a_started_delivery_has_left_the_outbox(database: Database, endpoint: str) -> None:
    delivery = await seed(database, endpoint)
    await claim(database)
    await mark(database, delivery)
    stored = await delivery_row(database, delivery)
    assert (stored.started_at, stored.leased_until) == (at(1), None)
    assert await claimed_ids(database, now=3600) == []


async def test_an_ended_lease_frees_nothing(database: Database, endpoint: str) -> None:
    """A relay was frozen until its lease ended, and another is starting the delivery now."""
    delivery = await seed(database, endpoint)
    await claim(database, now=0)
    await claim(database, now=31)
    before = await delivery_row(database, delivery)
    async with database.write() as connection:
        await outbox.release(connection, [delivery], leased_until=at(0) + LEASE)
    assert await delivery_row(database, delivery) == before


async def test_a_start_that_took_longer_than_its_lease_is_marked(
    database: Database, endpoint: str
) -> None:
    """Otherwise a row would never leave the outbox while Temporal answers more slowly than that."""
    delivery = await seed(database, endpoint)
    await claim(database, now=0)
    await claim(database, now=31)
    await mark(database, delivery, now=32)
    stored = await delivery_row(database, delivery)
    assert (stored.started_at, stored.leased_until) == (at(32), None)


@pytest.mark.parametrize("how", ["wake", "action", "job", "release"])
async def test_a_delivery_that_changes_while_it_is_relayed_stays_in_the_outbox(
    database: Database, endpoint: str, how: str
) -> None:
    """Its workflow may have read the row before the change."""
    columns = {"status": "held", "recheck_at": at(3600)} if how == "release" else {}
    delivery = await seed(database, endpoint, **columns)
    await claim(database)
    async with database.write() as connection:
        match how:
            case "wake":
                await outbox.wake(connection, [delivery])
            case "action":
                await actions.request(connection, delivery, "pause", now=at(0.5))
            case "job":
                await actions.request_many(connection, [delivery], Action.CANCEL, now=at(0.5))
            case _:
                await lives.apply(
                    connection, [(delivery, Action.RELEASE)], now=at(0.5), wake=Urgency.RETRY
                )
    await mark(database, delivery)
    async with database.write() as connection:
        await outbox.release(connection, [delivery], leased_until=at(0) + LEASE)
    stored = await delivery_row(database, delivery)
    assert (stored.started_at, stored.leased_until, stored.wake_count) == (None, None, 1)
    # another relay need not wait for the lease
    [again] = await claim(database, now=1)
    assert again.wake_count == 1


async def test_a_delivery_that_changed_in_its_batch_is_woken_when_the_batch_returns_it(
    database: Database, endpoint: str
) -> None:
    """Otherwise a resend waits for the end of the batch's lease, which its workflow has read."""
    until = {"batch_until": at(20), "leased_until": at(20)}
    delivery = await seed(database, endpoint, batch_id="btc_1", **until)
    await wake(database, delivery)
    [started] = await claim(database)
    await mark(database, delivery, wake_count=started.wake_count)
    async with database.write() as connection:
        await outbox.return_from_batch(connection, [delivery], batch_id="btc_1")
    await mark(database, delivery, wake_count=started.wake_count)  # by a relay that saw it earlier
    [returned] = await claim(database)
    assert (returned.delivery_id, returned.has_workflow) == (delivery, True)


async def test_a_released_row_is_free_at_once(database: Database, endpoint: str) -> None:
    mine, marked = [await seed(database, endpoint) for _ in range(2)]
    await claim(database)
    lease = at(0) + LEASE
    await mark(database, marked)
    async with database.write() as connection:
        await outbox.release(connection, [mine, marked], leased_until=lease)
    assert await claimed_ids(database, now=1) == [mine]


async def test_recording_the_first_attempt_marks_the_row_as_started(
    database: Database, endpoint: str
) -> None:
    delivery = await seed(database, endpoint)
    await claim(database)
    async with database.write() as connection:
        await lives.apply(connection, [(delivery, ended(FIRST, 503, at(1)))], now=at(2))
    assert (await delivery_row(database, delivery)).started_at == at(2)
    await mark(database, delivery, now=3)
    assert (await delivery_row(database, delivery)).started_at == at(2)


# -- waking ---------------------------------------------------------------------------------------


async def test_a_waiting_row_keeps_the_more_urgent_of_two_wakes(
    database: Database, endpoint: str
) -> None:
    for before, then in (
        (Urgency.PERSON, Urgency.PERSON),
        (Urgency.RETRY, Urgency.RETRY),
        (Urgency.FIRST, Urgency.RETRY),
        (Urgency.JOB, Urgency.RETRY),
    ):
        waiting = await seed(database, endpoint, urgency=before)
        started = await seed(database, endpoint, urgency=before, started_at=at(0))
        await wake(database, waiting, started)
        rows = {row.delivery_id: row for row in await claim(database)}
        assert (rows[waiting].urgency, rows[waiting].wake_count) == (then, 1), before
        assert (rows[started].urgency, rows[started].wake_count) == (Urgency.RETRY, 1), before


async def test_waking_changes_only_the_outbox_columns(database: Database, endpoint: str) -> None:
    delivery = await seed(database, endpoint, started_at=at(0))
    before = (await delivery_row(database, delivery))._asdict()
    await wake(database, delivery)
    after = (await delivery_row(database, delivery))._asdict()
    changed = {name for name, value in after.items() if value != before[name]}
    assert changed == {"started_at", "wake_count", "urgency"}


async def test_only_deliveries_that_are_long_overdue_and_unchanged_are_lost(
    database: Database, endpoint: str
) -> None:
    lost = await seed(database, endpoint, started_at=at(0))
    others: list[dict[str, Any]] = [
        {"next_attempt_at": at(301)},  # due a moment ago
        {"next_attempt_at": None},  # paused, or ended
        {"started_at": at(301)},  # it was started or woken recently
        {"started_at": None},  # it is in the outbox
        {"updated_at": at(301)},  # it has changed recently
    ]
    ids = [await seed(database, endpoint, **{"started_at": at(0)} | one) for one in others]
    async with database.write() as connection:
        assert await outbox.wake_lost(connection, overdue_since=at(300), limit=10) == 1
    row = await delivery_row(database, lost)
    assert (row.wake_count, row.started_at, row.urgency) == (1, None, Urgency.RETRY)
    assert [(await delivery_row(database, one)).wake_count for one in ids] == [0] * len(others)


async def test_a_lost_delivery_that_was_woken_is_not_lost_at_once(
    database: Database, endpoint: str
) -> None:
    delivery = await seed(database, endpoint, started_at=at(0))

    async def sweep(overdue_since: float) -> int:
        async with database.write() as connection:
            return await outbox.wake_lost(connection, overdue_since=at(overdue_since), limit=10)

    assert await sweep(300) == 1
    assert await sweep(360) == 0  # it waits in the outbox
    assert await claimed_ids(database, now=700) == [delivery]
    await mark(database, delivery, wake_count=1, now=700)
    assert await sweep(700) == 0
    assert await sweep(701) == 1  # that had no effect either


async def test_the_sweep_wakes_at_most_limit_deliveries(database: Database, endpoint: str) -> None:
    for _ in range(3):
        await seed(database, endpoint, started_at=at(0))
    async with database.write() as connection:
        assert await outbox.wake_lost(connection, overdue_since=at(300), limit=2) == 2
        assert await outbox.wake_lost(connection, overdue_since=at(300), limit=2) == 1
