"""The overview's figures: exact where they are counted, close where they are estimated, and read
without scanning the whole table."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Select, insert, text

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.health import Health
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.figures import endpoint_summaries, overview
from hookfast.storage.figures.overview import MAX_READ, Step
from hookfast.storage.tables import Delivery, EndpointHealth
from tests.support.query_plan import explain
from tests.support.rows import delivery_row
from tests.support.seed import seed_endpoint

pytestmark = pytest.mark.anyio

ROWS = 30_000
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
WINDOW = timedelta(days=9)
TENANT, SMALL_TENANT = "tnt_0", "tnt_44"
HOUR = timedelta(hours=1)

# A delivery every 25.92 s: one in 50 is dead, one in 1000 is held; one tenant has most of them.
_FILL = """
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})
INSERT INTO deliveries (id, event_id, subscription_id, endpoint_id, tenant_id, event_type, payload,
  status, attempts, retries, created_at, updated_at, started_at, finished_at)
SELECT 'dlv_' || {ms} || '7000800000000000' || substr('0000' || (n % 9999), -4, 4),
  'evt_1', 'sub_1', 'ep_' || (n % 499), 'tnt_' || CASE WHEN n % 10 < 8 THEN 0 ELSE n % 199 END,
  'order.invoice.paid', 'full',
  CASE WHEN n % 50 = 0 THEN 'dead' WHEN n % 1000 = 7 THEN 'held' ELSE 'delivered' END,
  1, 0, {at}, {at}, {at}, {at} FROM numbers
"""


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of a database with 30,000 deliveries, and the statistics a real one has."""
    if request.param == "sqlite":
        path: Path = tmp_path_factory.mktemp("overview") / "hookfast.db"
        shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
        borrowed = nullcontext(f"sqlite+aiosqlite:///{path}")
    else:
        borrowed = request.getfixturevalue("postgresql_server").borrowed()
    with borrowed as url:
        asyncio.run(_fill(url))
        yield url


async def _fill(url: str) -> None:
    first = int((NOW - WINDOW).timestamp() * 1_000)
    step = int(WINDOW.total_seconds() * 1_000) // ROWS
    async with Database(url) as database:
        on_sqlite = database.kind == "sqlite"
        millis = f"({first} + n::bigint * {step})"
        words = {
            "{last}": str(ROWS - 1),
            "{ms}": f"printf('%012x', {first} + n * {step})"
            if on_sqlite
            else f"lpad(to_hex({millis}), 12, '0')",
            "{at}": "'2026-11-20T00:00:00.000000Z'" + ("" if on_sqlite else "::timestamptz"),
        }
        statement = _FILL
        for word, meaning in words.items():
            statement = statement.replace(word, meaning)
        if not on_sqlite:
            statement = statement.replace(
                "substr('0000' || (n % 9999), -4, 4)", "lpad((n % 9999)::text, 4, '0')"
            )
        async with database.write() as connection:
            await connection.exec_driver_sql(statement)
            if not on_sqlite:
                await connection.execute(text("ANALYZE"))


def edges(count: int, length: timedelta) -> list[datetime]:
    return [NOW - (count - place) * length for place in range(count + 1)]


async def read(url: str, times: list[datetime], *, tenant_id: str | None = None) -> list[Step]:
    async with Database(url) as database, database.read() as connection:
        chosen = DeliveryFilter(tenant_id=tenant_id)
        return await overview.steps(connection, times, chosen, now=NOW)


async def test_steps_count_all_deliveries(filled: str) -> None:
    # 3,600 / 25.92 = 138.9
    found = await read(filled, edges(24, HOUR))
    assert all(138 <= step.total <= 139 for step in found)
    assert not any(step.estimated for step in found)
    whole = await read(filled, edges(18, timedelta(hours=12)))
    assert sum(step.total for step in whole) == ROWS
    assert sum(step.failed for step in whole) == ROWS // 50
    assert sum(step.open for step in whole) == ROWS // 1_000


async def test_tenants_steps_count_only_its_deliveries(filled: str) -> None:
    [all_of_them] = await read(filled, edges(1, timedelta(hours=12)))
    [its_own] = await read(filled, edges(1, timedelta(hours=12)), tenant_id=TENANT)
    assert 0.79 * all_of_them.total < its_own.total < 0.82 * all_of_them.total
    [of_nobody] = await read(filled, edges(1, HOUR), tenant_id="tnt_nobody")
    assert of_nobody.total == 0


async def test_step_with_more_deliveries_than_are_read_is_estimated(filled: str) -> None:
    # a day has 3,333 deliveries, of which 2,000 are read
    [day] = await read(filled, edges(1, timedelta(days=1)))
    assert day.estimated
    assert day.total == pytest.approx(3_333, rel=0.01)
    assert day.failed == pytest.approx(3_333 / 50, rel=0.05)
    assert day.total > MAX_READ


async def test_figures_read_ranges_of_indexes(filled: str) -> None:
    windows = [(12, timedelta(minutes=1)), (12, timedelta(minutes=30)), (30, timedelta(days=1))]
    for tenant_id in (None, TENANT, SMALL_TENANT):
        for count, length in windows:
            ranges = list(pairwise(edges(count, length)))
            chosen = DeliveryFilter(tenant_id=tenant_id)
            await check_ranges(filled, overview.steps_statement(ranges, chosen, most=MAX_READ))
            await check_ranges(filled, overview.seconds_statement(ranges, tenant_id=tenant_id))
    for tenant_id in (None, TENANT, SMALL_TENANT):
        async with Database(filled) as database, database.read() as connection:
            plan = await explain(connection, overview.waiting(connection, tenant_id=tenant_id))
        check_plan(database.kind, plan, index="undelivered")


async def test_endpoint_summaries_read_the_newest_deliveries_by_index(filled: str) -> None:
    statement = endpoint_summaries.newest_statement([f"ep_{n}" for n in range(50)])
    await check_ranges(filled, statement, index="ix_deliveries_endpoint")


async def check_ranges(url: str, statement: Select[Any], *, index: str | None = None) -> None:
    """Assert that every read of `deliveries` is a range of an index."""
    async with Database(url) as database, database.read() as connection:
        plan = await explain(connection, statement)
    check_plan(database.kind, plan, index=index)


def check_plan(kind: str, plan: str, *, index: str | None) -> None:
    if kind == "sqlite":
        reads = [step for step in plan.splitlines() if " deliveries " in f"{step} "]
        assert reads
        for one in reads:
            assert one.startswith("SEARCH deliveries USING"), one
            assert index is None or index in one
    else:
        assert "Seq Scan" not in plan, plan
        assert index is None or index in plan, plan


# -- a few rows, on both databases ----------------------------------------------------------------


async def deliver(database: Database, endpoint_id: str, **columns: Any) -> None:
    made = columns.pop("created_at", NOW)
    row = delivery_row(made, endpoint_id=endpoint_id, **({"finished_at": made} | columns))
    async with database.write() as connection:
        await connection.execute(insert(Delivery.__table__), row)


async def test_steps_of_a_filter_read_no_further_than_those_of_all(database: Database) -> None:
    """A list reads on until it has found enough matches, a chart does not."""
    for place in range(10):
        name = "order.refund.made" if place < 4 else "order.invoice.paid"
        at = NOW + place * timedelta(minutes=6)
        await deliver(database, "ep_1", created_at=at, event_type=name)

    async def count(event_type: str, most: int) -> tuple[int, bool]:
        chosen = DeliveryFilter(tenant_id="tnt_1", event_type=event_type)
        async with database.read() as connection:
            edges = [NOW, NOW + HOUR]
            [step] = await overview.steps(connection, edges, chosen, now=NOW + HOUR, most=most)
        return step.total, step.estimated

    assert await count("order.refund.made", 20) == (4, False)
    assert await count("order.invoice.paid", 20) == (6, False)
    # the first four are of 18 of the 60 minutes, and none of the other type
    assert await count("order.refund.made", 4) == (13, True)
    assert await count("order.invoice.paid", 4) == (0, True)
    # half an hour later, as much of the hour is known
    chosen = DeliveryFilter(tenant_id="tnt_1")
    async with database.read() as connection:
        [step] = await overview.steps(
            connection, [NOW, NOW + HOUR], chosen, now=NOW + HOUR / 2, most=4
        )
    assert step.total == 7  # 4 in 18 of 30 minutes


async def test_the_time_to_delivery_counts_from_when_it_was_due(database: Database) -> None:
    second = timedelta(seconds=1)
    await deliver(database, "ep_1", finished_at=NOW + 3 * second)
    later = NOW + 60 * second
    await deliver(database, "ep_1", deliver_at=later, finished_at=later + second)
    await deliver(database, "ep_1", status="dead", finished_at=NOW + 900 * second)
    async with database.read() as connection:
        [found] = await overview.seconds(connection, [NOW, NOW + HOUR], tenant_id=None)
    assert found == [1.0, 3.0]


async def test_endpoints_that_need_attention(database: Database) -> None:
    fine = await seed_endpoint(database, "https://fine.example")
    broken = await seed_endpoint(database, "https://broken.example")
    paused = await seed_endpoint(database, "https://paused.example", state="paused")
    shaky = await seed_endpoint(database, "https://shaky.example")
    gone = await seed_endpoint(database, "https://gone.example", deleted_at=NOW)
    failures = {"consecutive_failures": 9, "first_failure_at": NOW, "last_error": "Error 500."}
    async with database.write() as connection:
        for endpoint_id, circuit, more in (
            (shaky, "closed", {}),
            (broken, "open", {"opened_at": NOW + HOUR, "next_probe_at": NOW + 2 * HOUR}),
            (paused, "open", {"opened_at": NOW, "next_probe_at": NOW + 2 * HOUR}),
            (gone, "open", {"opened_at": NOW}),
        ):
            row = {"endpoint_id": endpoint_id, "circuit": circuit} | failures | more
            await connection.execute(insert(EndpointHealth.__table__), row)
    async with database.read() as connection:
        found = await overview.attention_items(connection, tenant_id=None, limit=10)
        fewer = await overview.attention_items(connection, tenant_id=None, limit=2)
        of_nobody = await overview.attention_items(connection, tenant_id="tnt_nobody", limit=10)
        summaries = await endpoint_summaries.read(connection, [fine, broken])
    assert [(each.endpoint_id, each.health, each.since) for each in found[:2]] == [
        (broken, Health.CIRCUIT_OPEN, NOW + HOUR),
        (shaky, Health.FAILING, NOW),
    ]
    assert [(each.endpoint_id, each.health) for each in found[2:]] == [(paused, Health.PAUSED)]
    assert [each.next_probe_at for each in found] == [NOW + 2 * HOUR, None, None]
    assert fewer == found[:2]
    assert of_nobody == []
    assert summaries[fine] == endpoint_summaries.EndpointSummary(newest=[])
    assert summaries[broken].last_error == "Error 500."


async def test_endpoint_summary_has_the_newest_deliveries_in_order(
    database: Database,
) -> None:
    for place in range(endpoint_summaries.MAX_NEWEST + 5):
        at = NOW + timedelta(seconds=place)
        await deliver(database, "ep_1", created_at=at, status="dead" if place < 6 else "delivered")
    async with database.read() as connection:
        summary = (await endpoint_summaries.read(connection, ["ep_1"]))["ep_1"]
    assert len(summary.newest) == endpoint_summaries.MAX_NEWEST
    assert summary.newest[:2] == [DeliveryStatus.DEAD, DeliveryStatus.DELIVERED]
