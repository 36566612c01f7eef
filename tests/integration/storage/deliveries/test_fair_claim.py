"""Fair turns in the outbox: a backlog delays only its owner."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any, Final

import pytest
from sqlalchemy import insert, update

from hookfast.clock import utc_now
from hookfast.deliveries.messages import Urgency
from hookfast.ids import new_id
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import outbox
from hookfast.storage.deliveries.fair_claim import FairClaim, FreeRows
from hookfast.storage.tables import Delivery
from tests.support.rows import delivery_row
from tests.support.seed import seed_endpoint

pytestmark = pytest.mark.anyio

LEASE: Final = timedelta(minutes=5)


class Outbox:
    """An outbox with a relay that leases rows and never ends their leases."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.fair = FairClaim()
        self._endpoints: set[str] = set()

    async def fill(self, backlog: dict[tuple[str, str], int], **columns: Any) -> None:
        """Store this many deliveries for each (tenant, endpoint)."""
        for tenant, endpoint in backlog:
            if endpoint not in self._endpoints:
                url = "http://127.0.0.1:4/"
                await seed_endpoint(self.database, url, id=endpoint, tenant_id=tenant)
                self._endpoints.add(endpoint)
        now = utc_now()
        same = {"status": "pending", "attempts": 0, "due_at": now, "next_attempt_at": now} | columns
        rows = [
            delivery_row(now, tenant_id=tenant, endpoint_id=endpoint, **same)
            for (tenant, endpoint), count in backlog.items()
            for _ in range(count)
        ]
        async with self.database.write() as connection:
            await connection.execute(insert(Delivery.__table__), rows)

    async def take(self, limit: int, **given: Any) -> FreeRows:
        now = utc_now()
        async with self.database.write() as connection:
            free = await self.fair.find(connection, limit=limit, now=now, **given)
            ids = [row.delivery_id for row in free.rows]
            await outbox.lease(connection, ids, until=now + LEASE)
        return free


@pytest.fixture
def box(database: Database) -> Outbox:
    return Outbox(database)


def by_endpoint(free: FreeRows) -> Counter[str]:
    return Counter(row.endpoint_id for row in free.rows)


async def test_a_tenant_with_one_delivery_does_not_wait_for_another_ones_backlog(
    box: Outbox,
) -> None:
    await box.fill({("tnt_a", "ep_a"): 60, ("tnt_b", "ep_b"): 1})
    assert by_endpoint(await box.take(4)) == {"ep_a": 3, "ep_b": 1}


async def test_an_endpoint_with_one_delivery_does_not_wait_for_another_ones_backlog(
    box: Outbox,
) -> None:
    await box.fill({("tnt_a", "ep_1"): 60, ("tnt_a", "ep_2"): 1, ("tnt_a", "ep_3"): 1})
    assert by_endpoint(await box.take(6)) == {"ep_1": 4, "ep_2": 1, "ep_3": 1}


async def test_each_urgency_of_a_tenant_has_its_own_next_endpoint(box: Outbox) -> None:
    """A turn that reached its limit at two urgencies once stopped the relay for good."""
    endpoints = {("tnt_a", f"ep_{n}"): 2 for n in (1, 2, 3)}
    for urgency in (Urgency.RETRY, Urgency.FIRST):
        await box.fill(endpoints, urgency=urgency)
    first, retry = (
        {"most_urgent": urgency, "least_urgent": urgency}
        for urgency in (Urgency.FIRST, Urgency.RETRY)
    )
    assert by_endpoint(await box.take(2, **first)) == {"ep_1": 1, "ep_2": 1}
    assert by_endpoint(await box.take(1, **retry)) == {"ep_1": 1}

    assert by_endpoint(await box.take(1)) == {"ep_2": 1}
    assert by_endpoint(await box.take(1, **first)) == {"ep_3": 1}


async def test_tenants_have_equal_shares_however_many_endpoints_they_have(box: Outbox) -> None:
    await box.fill({("tnt_a", f"ep_a{n}"): 10 for n in range(4)} | {("tnt_b", "ep_b"): 40})
    taken: Counter[str] = Counter()
    for _ in range(4):
        taken.update(row.tenant_id for row in (await box.take(10)).rows)
    assert abs(taken["tnt_a"] - taken["tnt_b"]) <= 12


async def test_all_tenants_have_a_turn_before_one_has_a_second(box: Outbox) -> None:
    """There are more tenants than one query reads."""
    await box.fill({(f"tnt_{n:02}", f"ep_{n:02}"): 2 for n in range(36)})
    rows = [row for _ in range(36) for row in (await box.take(1)).rows]
    assert len({row.tenant_id for row in rows}) == 36


@pytest.mark.parametrize("limit", [pytest.param(1, marks=pytest.mark.slow), 3, 40])
async def test_all_endpoints_have_a_turn_before_one_has_a_second(box: Outbox, limit: int) -> None:
    """There are more tenants and endpoints than one query reads."""
    backlog = {(f"tnt_{n:02}", f"ep_{n:02}"): 2 for n in range(36)}
    backlog |= {("tnt_99", f"ep_99_{n:02}"): 2 for n in range(36)}
    await box.fill(backlog)
    order: list[str] = []
    while free := (await box.take(limit)).rows:
        order += [row.endpoint_id for row in free]
    assert Counter(order) == {endpoint: 2 for _, endpoint in backlog}
    small = [endpoint for endpoint in order if not endpoint.startswith("ep_99")]
    if limit == 1:
        assert len(set(small[:36])) == 36
    wide = [endpoint for endpoint in order if endpoint.startswith("ep_99")]
    assert len(set(wide[:36])) >= 30


async def test_turns_start_over_when_no_endpoint_after_the_last_waits(box: Outbox) -> None:
    """As many endpoints as one query reads, then the first of them again."""
    await box.fill({("tnt_a", f"ep_{n:02}"): 1 for n in range(32)})
    assert len((await box.take(32)).rows) == 32
    async with box.database.write() as connection:
        await connection.execute(update(Delivery.__table__).values(started_at=utc_now()))
    await box.fill({("tnt_a", "ep_00"): 1})
    assert by_endpoint(await box.take(32)) == {"ep_00": 1}


async def test_each_urgency_has_its_own_turn_of_the_same_tenants_endpoints(box: Outbox) -> None:
    for urgency in (Urgency.RETRY, Urgency.FIRST):
        await box.fill({("tnt_a", f"ep_{n}"): 1 for n in (1, 2, 3)}, urgency=urgency)
    # both urgencies have served one endpoint, and remember it
    assert by_endpoint(await box.take(1)) == {"ep_1": 1}
    assert by_endpoint(await box.take(2, most_urgent=Urgency.FIRST)) == {"ep_1": 1, "ep_2": 1}

    rest = await box.take(10)
    assert [(row.urgency, row.endpoint_id) for row in rest.rows] == [
        (Urgency.RETRY, "ep_2"),
        (Urgency.RETRY, "ep_3"),
        (Urgency.FIRST, "ep_3"),
    ]


async def test_the_oldest_deliveries_of_an_endpoint_are_first(box: Outbox) -> None:
    await box.fill({("tnt_a", "ep_a"): 9})
    ids = [row.delivery_id for _ in range(3) for row in (await box.take(3)).rows]
    assert ids == sorted(ids)
    assert len(ids) == 9


async def test_an_endpoint_gets_no_more_than_it_has_room_for(box: Outbox) -> None:
    await box.fill({("tnt_a", "ep_1"): 20, ("tnt_a", "ep_2"): 20})
    room = {"ep_1": 2, "ep_2": 0}
    free = await box.take(30, room=room.__getitem__)
    assert by_endpoint(free) == {"ep_1": 2}
    assert not free.more  # the rest has no room


async def test_actions_of_people_are_not_limited_by_room(box: Outbox) -> None:
    await box.fill({("tnt_a", "ep_a"): 3}, urgency=Urgency.PERSON)
    assert by_endpoint(await box.take(30, room=lambda _: 0)) == {"ep_a": 3}


async def test_urgent_rows_are_first_even_if_it_is_another_tenants_turn(box: Outbox) -> None:
    await box.fill({("tnt_a", "ep_a"): 3})
    await box.fill({("tnt_b", "ep_b"): 3}, urgency=Urgency.PERSON)
    assert by_endpoint(await box.take(4)) == {"ep_b": 3, "ep_a": 1}


async def test_the_result_says_whether_more_rows_may_be_free(box: Outbox) -> None:
    await box.fill({("tnt_a", "ep_a"): 5})
    assert (await box.take(3)).more
    last = await box.take(3)
    assert (len(last.rows), last.more) == (2, False)
    assert await box.take(3) == FreeRows([], more=False)


async def test_few_rows_are_found_at_once_in_the_same_order(box: Outbox) -> None:
    await box.fill({("tnt_a", "ep_1"): 3, ("tnt_a", "ep_2"): 1, ("tnt_b", "ep_3"): 1})
    await box.fill({("tnt_b", "ep_3"): 2}, urgency=Urgency.PERSON)
    await box.take(1)  # a leased row is not free
    room = {"ep_1": 2, "ep_2": 0, "ep_3": 9}.__getitem__
    async with box.database.write() as connection:
        found = await box.fair.find_few(connection, limit=7, now=utc_now(), room=room)
        expected = await box.fair.find(connection, limit=7, now=utc_now(), room=room)
    assert found == expected
    assert [row.endpoint_id for row in expected.rows] == ["ep_3", "ep_1", "ep_3", "ep_1"]


async def test_as_many_rows_as_the_limit_are_not_few(box: Outbox) -> None:
    await box.fill({("tnt_a", "ep_1"): 3})
    async with box.database.write() as connection:
        assert await box.fair.find_few(connection, limit=3, now=utc_now()) is None
        assert await box.fair.find_few(connection, limit=4, now=utc_now()) is not None


async def test_rows_of_a_batch_are_free_when_its_lease_has_ended(box: Outbox) -> None:
    await box.fill({("tnt_a", "ep_a"): 1})
    now = utc_now()
    async with box.database.write() as connection:
        [row] = (await box.fair.find(connection, limit=1, now=now)).rows
        batch, until = new_id("btc"), now + LEASE
        await outbox.lease(connection, [row.delivery_id], until=until, batch_id=batch)
    for moment, expected in ((now, 0), (until + timedelta(seconds=1), 1)):
        async with box.database.read() as connection:
            assert len((await box.fair.find(connection, limit=1, now=moment)).rows) == expected
