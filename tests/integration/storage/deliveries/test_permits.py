"""Limits as they are kept: shared by several workers on one database, each with its own pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import anyio
import pytest
from sqlalchemy import func, select

from hookfast.clock import Clock, utc_now
from hookfast.endpoints.limits import Go, LimitDecision, Limits, Wait
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import permits
from hookfast.storage.tables import EndpointLimits, InFlight

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LEASE = timedelta(minutes=1)
ENDPOINT, OTHER = "ep_1", "ep_2"


@pytest.fixture
async def workers(database_url: str) -> AsyncIterator[list[Database]]:
    """The databases of three workers: what one knows, the others know from the tables alone."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Database(database_url)) for _ in range(3)]


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


async def give_back(database: Database, delivery_id: str, seconds: float | None = None) -> None:
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
    """Let deliveries in turn of all workers ask, wait and send for 20 ms each, all at once. Gives
    the starts that were allowed, and the most requests that were under way at the same time."""
    starts: list[datetime] = []
    under_way = most = 0

    async def deliver(index: int) -> None:
        nonlocal under_way, most
        database, delivery_id = workers[index % len(workers)], f"dlv_{index}"
        answer = await take(database, delivery_id, limits, waited=False)
        while isinstance(answer, Wait):
            await sleep_until(answer.until)
            answer = await take(database, delivery_id, limits)
        await sleep_until(answer.at)
        starts.append(answer.at)
        under_way += 1
        most = max(most, under_way)
        await anyio.sleep(0.02)
        under_way -= 1
        await give_back(database, delivery_id, 0.02)

    async with asyncio.TaskGroup() as group:
        for index in range(number):
            group.create_task(deliver(index))
    return sorted(starts), most


async def test_a_rate_holds_across_workers(workers: list[Database]) -> None:
    limits = Limits(rate_per_second=40)
    starts, _ = await send_all(workers, limits, number=60)
    assert len(starts) == 60
    assert min(later - earlier for earlier, later in pairwise(starts)) >= limits.spacing


async def test_the_number_in_flight_holds_across_workers(workers: list[Database]) -> None:
    starts, most = await send_all(workers, Limits(max_in_flight=3), number=40)
    assert len(starts) == 40
    assert most <= 3
    assert await in_flight(workers[0]) == 0


async def test_both_limits_hold_together(workers: list[Database]) -> None:
    limits = Limits(rate_per_second=50, max_in_flight=2)
    starts, most = await send_all(workers, limits, number=30)
    assert len(starts) == 30
    assert most <= 2
    assert min(later - earlier for earlier, later in pairwise(starts)) >= limits.spacing


async def test_first_requests_to_a_new_endpoint_share_one_slot(workers: list[Database]) -> None:
    """There is no row to lock yet when all of them ask."""
    limits = Limits(rate_per_second=10)
    answers = await asyncio.gather(
        *(
            take(database, f"dlv_{index}", limits, clock=after(0), waited=False)
            for index, database in enumerate(workers * 3)
        )
    )
    starts = sorted(answer.at for answer in answers if isinstance(answer, Go))
    assert starts == [NOON + index * limits.spacing for index in range(3)]


async def test_each_endpoint_has_its_own_limits(database: Database) -> None:
    limits = Limits(max_in_flight=1)
    assert isinstance(await take(database, "dlv_1", limits), Go)
    assert isinstance(await take(database, "dlv_2", limits), Wait)
    assert isinstance(await take(database, "dlv_3", limits, endpoint_id=OTHER), Go)


async def test_an_endpoint_without_limits_has_no_rows(database: Database) -> None:
    assert await take(database, "dlv_1", Limits(), clock=after(0)) == Go(NOON)
    async with database.read() as connection:
        assert (await connection.execute(select(EndpointLimits.__table__))).all() == []
    assert await in_flight(database) == 0


async def test_a_request_given_back_makes_room(database: Database) -> None:
    limits = Limits(max_in_flight=1)
    assert isinstance(await take(database, "dlv_1", limits), Go)
    assert isinstance(await take(database, "dlv_2", limits), Wait)
    await give_back(database, "dlv_1", 0.1)
    assert isinstance(await take(database, "dlv_2", limits), Go)


async def test_giving_back_what_was_not_taken_changes_nothing(database: Database) -> None:
    limits = Limits(max_in_flight=1)
    await take(database, "dlv_1", limits)
    await give_back(database, "dlv_2")
    await give_back(database, "dlv_2")
    assert isinstance(await take(database, "dlv_3", limits), Wait)


async def test_the_lease_of_a_dead_worker_ends(database: Database) -> None:
    limits = Limits(max_in_flight=1)
    await take(database, "dlv_1", limits, clock=after(0))
    assert isinstance(await take(database, "dlv_2", limits, clock=after(59.999)), Wait)
    assert isinstance(await take(database, "dlv_2", limits, clock=after(60)), Go)
    assert await in_flight(database) == 1


async def test_a_delivery_that_asks_again_is_not_in_its_own_way(database: Database) -> None:
    limits = Limits(max_in_flight=1)
    await take(database, "dlv_1", limits, clock=after(0))
    assert isinstance(await take(database, "dlv_1", limits, clock=after(1)), Go)
    # and its second lease counts, not its first
    assert isinstance(await take(database, "dlv_2", limits, clock=after(60.5)), Wait)


async def test_waits_follow_how_long_requests_take(database: Database) -> None:
    limits = Limits(max_in_flight=1)
    await take(database, "dlv_1", limits, clock=after(0))
    waits = []
    for seconds in (0.4, 20.0):
        for _ in range(30):
            await give_back(database, "dlv_unknown", seconds)
        answer = await take(database, "dlv_2", limits, clock=after(0))
        assert isinstance(answer, Wait)
        waits.append((answer.until - NOON).total_seconds())
        async with database.write() as connection:
            await permits.reset(connection, ENDPOINT, now=NOON)
    # a quarter of the mean of 0.4 and of 20 s
    assert waits == pytest.approx([0.1, 5.0], rel=0.02)


async def test_a_reset_forgets_promises_and_no_starts(database: Database) -> None:
    limits = Limits(rate_per_second=1)
    assert isinstance(await take(database, "dlv_0", limits, clock=after(0)), Go)
    for index in range(100):
        await take(database, f"dlv_{index + 1}", limits, clock=after(0))
    async with database.write() as connection:
        await permits.reset(connection, ENDPOINT, now=NOON)
    answer = await take(database, "dlv_new", limits, clock=after(0), waited=False)
    assert isinstance(answer, Wait)
    assert NOON < answer.until < NOON + limits.spacing


async def test_a_reset_waits_for_nobody(postgresql_url: str) -> None:
    """So that a transaction that holds other locks may call it. (SQLite has one writer.)"""
    async with Database(postgresql_url) as database:
        await take(database, "dlv_1", Limits(rate_per_second=1))
        async with database.write() as holding:
            await holding.execute(select(EndpointLimits.__table__).with_for_update())
            with anyio.fail_after(20):
                async with database.write() as connection:
                    await permits.reset(connection, ENDPOINT, now=NOON)
