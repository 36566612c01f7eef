"""The deliveries that match a filter, over time: as many as there are rows, however they are
counted, or too many to say."""

from __future__ import annotations

import random
from bisect import bisect_right
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert

from hookfast.deliveries.answer import AnswerFilter
from hookfast.deliveries.figures import Numbers
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.storage.counting import folding
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import deliveries
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.figures import delivery_steps
from hookfast.storage.figures.delivery_steps import TooMany
from hookfast.storage.tables import Delivery
from tests.support.figures import count_rows
from tests.support.rows import delivery_row
from tests.support.seed import seed_endpoint

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, 12, 7, 30, tzinfo=UTC)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
PAID, REFUNDED = "order.invoice.paid", "order.refund.made"
SERVER_ERROR = AnswerFilter(lowest=500, highest=599)
DEAD, DELIVERED = DeliveryStatus.DEAD, DeliveryStatus.DELIVERED
MANY = 300

Steps = list[Numbers] | TooMany


async def seed(database: Database) -> list[str]:
    """Store deliveries of the last ten hours to four endpoints of two tenants, and return the
    endpoints."""
    found = random.Random(7)
    endpoints = [
        await seed_endpoint(database, "https://shop.example", tenant_id=f"tnt_{place % 2}")
        for place in range(4)
    ]
    rows = []
    for _ in range(MANY):
        place, status = found.randrange(4), found.choice(list(DeliveryStatus))
        made = NOW - found.random() * 10 * HOUR
        failed = status is not DELIVERED and found.random() < 0.5
        columns = {
            "endpoint_id": endpoints[place],
            "tenant_id": f"tnt_{place % 2}",
            "subscription_id": f"sub_{place}",
            "event_type": found.choice((PAID, REFUNDED)),
            "status": status.value,
            "finished_at": made if status.finished else None,
            "last_result": "status" if failed else "success",
            "last_status_code": 503 if failed else 200,
        }
        rows.append(delivery_row(made, **columns))
    async with database.write() as connection:
        await connection.execute(insert(Delivery.__table__), rows)
    await count_rows(database)
    return endpoints


async def read(database: Database, chosen: DeliveryFilter, edges: list[datetime]) -> Steps:
    async with database.read() as connection:
        return await delivery_steps.read(connection, chosen, edges, now=NOW)


async def listed(
    database: Database, chosen: DeliveryFilter, *several: list[datetime]
) -> list[Steps]:
    """Return what the list has in each step, for each list of edges."""
    async with database.read() as connection:
        rows = await deliveries.list_page(connection, chosen, after=None, limit=MANY)
    found: list[Steps] = []
    for edges in several:
        steps = [Numbers() for _ in edges[1:]]
        for row in rows:
            if edges[0] <= row.created_at < edges[-1]:
                step = steps[bisect_right(edges, row.created_at) - 1]
                step.deliveries[DeliveryStatus(row.status)] += 1
        found.append(steps)
    return found


@pytest.mark.parametrize("folded", [False, True])
async def test_every_step_has_as_many_deliveries_as_the_list(
    database: Database, folded: bool
) -> None:
    endpoints = await seed(database)
    if folded:
        assert await folding.fold(database)
    filters = [
        DeliveryFilter(),
        DeliveryFilter(status=DEAD),
        DeliveryFilter(status=DELIVERED, tenant_id="tnt_0"),
        DeliveryFilter(tenant_id="tnt_0", event_type=PAID),
        DeliveryFilter(endpoint_id=endpoints[1]),
        DeliveryFilter(endpoint_id=endpoints[2], tenant_id="tnt_0", status=DeliveryStatus.HELD),
        DeliveryFilter(endpoint_id=endpoints[3], event_type=REFUNDED, status=DEAD),
        DeliveryFilter(endpoint_id=endpoints[0], tenant_id="tnt_1"),  # another tenant's
        DeliveryFilter(event_type=REFUNDED),
        DeliveryFilter(event_type=REFUNDED, status=DEAD),
        DeliveryFilter(event_type="order.unknown.paid"),
        DeliveryFilter(answer=SERVER_ERROR),
        DeliveryFilter(answer=SERVER_ERROR, status=DEAD, tenant_id="tnt_1"),
        DeliveryFilter(subscription_id="sub_3", status=DEAD),
    ]
    hours = [NOON - place * HOUR for place in reversed(range(-1, 11))]
    halves = [NOON - place * HOUR / 2 for place in reversed(range(9))]
    within = [NOON - 5 * HOUR + 7 * MINUTE, *hours[6:-1], NOW]
    several = (hours, halves, within, [NOON - HOUR, NOW])
    for chosen in filters:
        found = [await read(database, chosen, edges) for edges in several]
        assert found == await listed(database, chosen, *several)


async def test_all_but_a_broken_first_or_last_step_are_read_from_the_counters(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await seed(database)
    hours = [NOON - place * HOUR for place in reversed(range(-1, 10))]
    begins, ends = [NOON - 9 * HOUR + MINUTE / 2, *hours[1:]], [*hours[:-1], NOW]
    expected = [await read(database, DeliveryFilter(), edges) for edges in (hours, begins, ends)]
    monkeypatch.setattr(delivery_steps, "MOST", MANY // 5)  # an hour has a tenth
    found = [await read(database, DeliveryFilter(), edges) for edges in (hours, begins, ends)]
    assert found == expected
    assert not any(isinstance(each, TooMany) for each in found)
    everything = [hours[0] + MINUTE / 2, hours[-1]]
    assert await read(database, DeliveryFilter(), everything) is TooMany.MATCH


async def test_more_deliveries_than_are_read_are_not_guessed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoints = await seed(database)
    edges = [NOW - 10 * HOUR, NOW]
    failing = DeliveryFilter(answer=SERVER_ERROR, tenant_id="tnt_0")
    few = DeliveryFilter(endpoint_id=endpoints[0], event_type=PAID, status=DEAD)
    for chosen, most, expected in (
        (DeliveryFilter(event_type=PAID), 100, TooMany.MATCH),
        # those of a tenant are read to see whose type is this one
        (DeliveryFilter(event_type=PAID, tenant_id="tnt_0"), 100, TooMany.READ),
        (DeliveryFilter(event_type=PAID, tenant_id="tnt_0"), 40, TooMany.READ),
        # a range per status, and as many in all
        (failing, 40, TooMany.MATCH),
        (failing, 15, TooMany.READ),
    ):
        monkeypatch.setattr(delivery_steps, "MOST", most)
        assert await read(database, chosen, edges) is expected, (chosen, most)
    assert [await read(database, few, edges)] == await listed(database, few, edges)
    monkeypatch.setattr(delivery_steps, "MOST", MANY)
    for chosen in (DeliveryFilter(event_type=PAID, tenant_id="tnt_0"), failing):
        assert [await read(database, chosen, edges)] == await listed(database, chosen, edges)
