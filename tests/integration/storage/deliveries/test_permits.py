"""Stored limits, shared by several workers on one database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import anyio
import pytest
from sqlalchemy import func, select

from hookfast.clock import Clock, utc_now
from hookfast.endpoints.limits import Deferred, Granted, LimitDecision, Limits
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import permits
from hookfast.storage.tables import EndpointLimits, InFlight

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LEASE = timedelta(minutes=1)
ENDPOINT, OTHER = "ep_1", "ep_2"


async def take(
    database: Database,
    delivery_id: str,
    limits: Limits,
    *,
    endpoint_id: str = ENDPOINT,
    clock: Clock = utc_now,
    waited: bool = True,
) -> LimitDecision:
    async with database.write() as connection:
        return await permits.acquire(
            connection,
            endpoint_id=endpoint_id,
            delivery_id=delivery_id,
            limits=limits,
            lease=LEASE,
            clock=clock,
            waited=waited,
        )


async def release(database: Database, delivery_id: str, seconds: float | None = None) -> None:
    async with database.write() as connection:
        ended = permits.EndedRequest(endpoint_id=ENDPOINT, delivery_id=delivery_id, seconds=seconds)
        await permits.release(connection, [ended])


async def in_flight(database: Database) -> int:
    async with database.read() as connection:
        count = await connection.execute(select(func.count()).select_from(InFlight.__table__))
        return count.scalar_one()


async def sleep_until(moment: datetime) -> None:
    await anyio.sleep(max(0.0, (moment - utc_now()).total_seconds()))


def after(seconds: float) -> Clock:
    return lambda: NOON + timedelta(seconds=seconds)


async def send_all(
    workers: Sequence[Database], limits: Limits, *, number: int
) -> tuple[list[datetime], int]:
    """Let deliveries of all workers take permits at once, wait, and send for 20 ms each. Returns
    the permitted starts, and the most requests that were in flight at the same time."""
    starts: list[datetime] = []
    current = most = 0

    async def deliver(index: int) -> None:
        nonlocal current, most
        database, delivery_id = workers[index % len(workers)], f"dlv_{index}"
        decision = await take(database, delivery_id, limits, waited=False)
        while isinstance(decision, Deferred):
            await sleep_until(decision.until)
            decision = await take(database, delivery_id, limits)
        await sleep_until(decision.at)
        starts.append(decision.at)
        current += 1
        most = max(most, current)
        await anyio.sleep(0.02)
        current -= 1
        await release(database, delivery_id, 0.02)

    async with asyncio.TaskGroup() as group:
        for index in range(number):
            group.create_task(deliver(index))
    return sorted(starts), most


async def test_a_rate_limit_applies_across_workers(workers: list[Database]) -> None:
    limits = Limits(rate_per_second=40)
    starts, _ = await send_all(workers, limits, number=24)
    assert len(starts) == 24
    assert min(later - earlier for earlier, later in pairwise(starts)) >= limits.spacing


async def test_max_in_flight_applies_across_workers(workers: list[Database]) -> None:
    starts, most = await send_all(workers, Limits(max_in_flight=3), number=20)
    assert len(starts) == 20
    assert most <= 3
    assert await in_flight(workers[0]) == 0


async def test_both_limits_apply_together(workers: list[Database]) -> None:
    limits = Limits(rate_per_second=50, max_in_flight=2)
    starts, most = await send_all(workers, limits, number=16)
    assert len(starts) == 16
    assert most <= 2
    assert min(later - earlier for earlier, later in pairwise(starts)) >= limits.spacing


async def test_simultaneous_first_requests_to_a_new_endpoint_keep_its_rate(
    workers: list[Database],
) -> None:
    """No row exists yet that they could lock."""
    limits = Limits(rate_per_second=10)
    decisions = await asyncio.gather(
        *(
            take(database, f"dlv_{index}", limits, clock=after(0), waited=False)
            for index, database in enumerate(workers * 3)
        )
    )
    starts = sorted(one.at for one in decisions if isinstance(one, Granted))
    assert starts == [NOON + index * limits.spacing for index in range(3)]


async def test_each_endpoint_has_its_own_limits(database: Database) -> None:
    limits = Limits(max_in_flight=1)
    assert isinstance(await take(database, "dlv_1", limits), Granted)
    assert isinstance(await take(database, "dlv_2", limits), Deferred)
    assert isinstance(await take(database, "dlv_3", limits, endpoint_id=OTHER), Granted)


async def test_an_endpoint_without_limits_has_no_rows(database: Database) -> None:
    assert await take(database, "dlv_1", Limits(), clock=after(0)) == Granted(NOON)
    async with database.read() as connection:
        assert (await connection.execute(select(EndpointLimits.__table__))).all() == []
    assert await in_flight(database) == 0


async def test_a_released_request_makes_room(database: Database) -> None:
    limits = Limits(max_in_flight=1)
    assert isinstance(await take(database, "dlv_1", limits), Granted)
    assert isinstance(await take(database, "dlv_2", limits), Deferred)
    await release(database, "dlv_1", 0.1)
    assert isinstance(await take(database, "dlv_2", limits), Granted)


async def test_releasing_a_request_that_is_not_in_flight_changes_nothing(
    database: Database,
) -> None:
    limits = Limits(max_in_flight=1)
    await take(database, "dlv_1", limits)
    await release(database, "dlv_2")
    await release(database, "dlv_2")
    assert isinstance(await take(database, "dlv_3", limits), Deferred)


async def test_the_lease_of_a_dead_worker_ends(database: Database) -> None:
    limits = Limits(max_in_flight=1)
    await take(database, "dlv_1", limits, clock=after(0))
    assert isinstance(await take(database, "dlv_2", limits, clock=after(59.999)), Deferred)
    assert isinstance(await take(database, "dlv_2", limits, clock=after(60)), Granted)
    assert await in_flight(database) == 1


async def test_a_delivery_does_not_count_against_its_own_second_permit(database: Database) -> None:
    limits = Limits(max_in_flight=1)
    await take(database, "dlv_1", limits, clock=after(0))
    assert isinstance(await take(database, "dlv_1", limits, clock=after(1)), Granted)
    # its second lease counts, not the first
    assert isinstance(await take(database, "dlv_2", limits, clock=after(60.5)), Deferred)


async def test_waits_depend_on_the_mean_duration_of_requests(database: Database) -> None:
    limits = Limits(max_in_flight=1)
    await take(database, "dlv_1", limits, clock=after(0))
    waits = []
    for seconds in (0.4, 20.0):
        for _ in range(30):
            await release(database, "dlv_unknown", seconds)
        decision = await take(database, "dlv_2", limits, clock=after(0))
        assert isinstance(decision, Deferred)
        waits.append((decision.until - NOON).total_seconds())
        async with database.write() as connection:
            await permits.reset(connection, ENDPOINT, now=NOON)
    # a quarter of the mean of 0.4 and of 20 s
    assert waits == pytest.approx([0.1, 5.0], rel=0.02)


async def test_a_reset_forgets_promised_times_but_no_starts(database: Database) -> None:
    limits = Limits(rate_per_second=1)
    assert isinstance(await take(database, "dlv_0", limits, clock=after(0)), Granted)
    for index in range(100):
        await take(database, f"dlv_{index + 1}", limits, clock=after(0))
    async with database.write() as connection:
        await permits.reset(connection, ENDPOINT, now=NOON)
    decision = await take(database, "dlv_new", limits, clock=after(0), waited=False)
    assert isinstance(decision, Deferred)
    assert NOON < decision.until < NOON + limits.spacing


async def test_a_reset_waits_for_no_lock(postgresql_url: str) -> None:
    """So a transaction with other locks may reset the limits. (SQLite has one writer.)"""
    async with Database(postgresql_url) as database:
        await take(database, "dlv_1", Limits(rate_per_second=1))
        async with database.write() as holding:
            await holding.execute(select(EndpointLimits.__table__).with_for_update())
            with anyio.fail_after(20):
                async with database.write() as connection:
                    await permits.reset(connection, ENDPOINT, now=NOON)
