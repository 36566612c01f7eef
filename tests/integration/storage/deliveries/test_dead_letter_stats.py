"""The statistics of dead letters agree with the rows, to the second, however they are counted."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from sqlalchemy import insert

from hookfast.deliveries.figures import DEAD
from hookfast.storage.counting import folding
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import dead_letters
from hookfast.storage.deliveries.dead_letters import Ages, DeadLetterStats
from hookfast.storage.tables import Delivery
from tests.support.figures import count_rows
from tests.support.rows import Row, delivery_row

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, 12, 34, 56, 789, tzinfo=UTC)
SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
LIMITS = (HOUR, DAY, 7 * DAY)


def _rows(random: Random) -> list[Row]:
    """Return dead letters of many ages, many of them close to a limit, and other deliveries."""
    ages = [limit + off for limit in LIMITS for off in (-HOUR, -SECOND, 0 * SECOND, SECOND, HOUR)]
    ages += [HOUR * random.uniform(0, 240) for _ in range(60)]
    # the hours in which the limits are, before and after them
    ages += [limit + HOUR * random.uniform(-1, 1) for limit in LIMITS for _ in range(20)]
    rows = []
    for age in ages:
        number = random.randrange(4)
        rows.append(
            delivery_row(
                NOW - 10 * DAY,
                status=random.choice(DEAD).value,
                reason=random.choice(["retries_exhausted", "gone", None]),
                endpoint_id=f"ep_{number}",
                tenant_id=f"tnt_{number % 2}",
                event_type=f"order.invoice.v{random.randrange(3)}",
                finished_at=NOW - age,
            )
        )
    for status in ("delivered", "cancelled", "retrying", "held"):
        rows.append(delivery_row(NOW, status=status, reason="gone", finished_at=NOW - HOUR))
    return rows


def _expected(rows: list[Row], **owners: str) -> DeadLetterStats:
    found = [
        row
        for row in rows
        if row["status"] in DEAD and all(row[name] == value for name, value in owners.items())
    ]
    ages = Counter(sum(NOW - row["finished_at"] >= limit for limit in LIMITS) for row in found)

    def by(column: str) -> list[tuple[Any, int]]:
        counted = Counter(row[column] for row in found)
        return sorted(counted.items(), key=lambda item: (-item[1], item[0] or ""))

    return DeadLetterStats(
        total=len(found),
        by_endpoint=by("endpoint_id"),
        by_event_type=by("event_type"),
        by_reason=by("reason"),
        by_age=Ages(*(ages[index] for index in range(4))),
    )


async def test_dead_letters_are_counted_as_their_rows_say(database: Database) -> None:
    random = Random(7)
    rows = _rows(random)
    async with database.write() as connection:
        for row in rows:
            await connection.execute(insert(Delivery.__table__), row)
    await count_rows(database)
    for owners in (
        {},
        {"endpoint_id": "ep_2"},
        {"tenant_id": "tnt_1"},
        {"endpoint_id": "ep_3", "tenant_id": "tnt_1"},
        {"endpoint_id": "ep_2", "tenant_id": "tnt_1"},  # another tenant's
    ):
        for folded in (False, True):
            if folded:
                await folding.fold(database)
            async with database.read() as connection:
                found = await dead_letters.stats(connection, **owners, now=NOW)
            assert found == _expected(rows, **owners)


async def test_only_the_most_frequent_are_listed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "TOP", 2)
    dead_letters.stats_statement.cache_clear()
    rows = [
        delivery_row(NOW - DAY, status="dead", endpoint_id=f"ep_{number}", finished_at=NOW - DAY)
        for number in (1, 2, 2, 3, 3, 3)
    ]
    async with database.write() as connection:
        await connection.execute(insert(Delivery.__table__), rows)
    await count_rows(database)
    try:
        async with database.read() as connection:
            found = await dead_letters.stats(connection, now=NOW)
    finally:
        dead_letters.stats_statement.cache_clear()
    assert found.by_endpoint == [("ep_3", 3), ("ep_2", 2)]
    assert found.total == 6
    assert found.by_age.week == 6
