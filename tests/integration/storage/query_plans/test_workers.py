"""Frequent queries of workers read ranges of an index."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.messages import Urgency
from hookfast.storage.circuits import circuits
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import life_rows, outbox, selection
from hookfast.storage.events import lanes
from tests.support.many_rows import ENDPOINT, MINUTE, MOMENT
from tests.support.query_plan import check
from tests.support.seed import claim
from tests.support.undoing import undoing

pytestmark = pytest.mark.anyio


async def _claim(connection: AsyncConnection) -> None:
    await claim(connection, limit=50, lease=MINUTE, now=MOMENT)


async def _claim_few(connection: AsyncConnection) -> None:
    await claim(connection, limit=9, lease=MINUTE, now=MOMENT, most_urgent=Urgency.FIRST)


async def _find_lost(connection: AsyncConnection) -> None:
    await outbox.wake_lost(connection, overdue_since=MOMENT, limit=50)


async def _find_unreleased(connection: AsyncConnection) -> None:
    await circuits.unreleased_ids(connection, ENDPOINT, limit=50)


async def _count_held(connection: AsyncConnection) -> None:
    await circuits.count_held(connection, ENDPOINT)


async def _lock(connection: AsyncConnection) -> None:
    await life_rows.lock(connection, [f"dlv_{100_000 + n}" for n in range(500)])


async def _find_under_way(connection: AsyncConnection) -> None:
    ids = [f"dlv_{100_000 + n}" for n in range(100)]
    await selection.resends_under_way(connection, ids, patience=MINUTE, now=MOMENT)


LANES = [f"sub_7/{n}" for n in range(100)]


async def _find_next_of_lanes(connection: AsyncConnection) -> None:
    assert set(await lanes.first_queued(connection, LANES)) == {"sub_7/0", "sub_7/10"}


async def _find_lanes_that_need_a_head(connection: AsyncConnection) -> None:
    await lanes.needing_head(connection, limit=500)


async def _inspect_lanes(connection: AsyncConnection) -> None:
    await lanes.inspect(connection, unused_since=MOMENT, after="sub_7/2", limit=500)


async def _count_queued(connection: AsyncConnection) -> None:
    assert await lanes.count_queued(connection, "sub_7/10", most=100) == 100


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (_find_next_of_lanes, "ix_deliveries_queued"),
        (_find_lanes_that_need_a_head, "ix_lanes_needs_head"),
        (_inspect_lanes, "sqlite_autoindex_lanes_1"),
        (_count_queued, "ix_deliveries_queued"),
        (_claim, "ix_deliveries_outbox"),
        (_claim_few, "ix_deliveries_outbox"),
        (_find_lost, "ix_deliveries_due"),
        (_find_unreleased, "ix_deliveries_endpoint_undelivered"),
        (_count_held, "ix_deliveries_endpoint_undelivered"),
        (_lock, "sqlite_autoindex_deliveries_1"),
        (_find_under_way, "sqlite_autoindex_deliveries_1"),
    ],
)
async def test_frequent_queries_of_workers_read_ranges_of_an_index(
    filled: str, query: Callable[[AsyncConnection], Awaitable[None]], index: str
) -> None:
    """Some of them also write."""
    async with Database(filled) as database, undoing(database) as connection:
        await check(connection, query(connection), index=index)
