"""The totals of gauges are their sums, and are corrected if they are not."""

from __future__ import annotations

import pytest
from sqlalchemy import Table, delete, insert, update

from hookfast.storage.counting import folding, gauges, totals
from hookfast.storage.counting.reading import Scope
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Gauge, GaugeTotal
from tests.support.figures import count_rows
from tests.support.seed import seed_deliveries, seed_endpoint

pytestmark = pytest.mark.anyio

_GAUGES: Table = Gauge.__table__
_TOTALS: Table = GaugeTotal.__table__


async def _waiting(database: Database) -> dict[str, int]:
    async with database.read() as connection:
        return {kind: number for kind, number in await gauges.read(connection, Scope())}


async def test_totals_are_the_sums_of_gauges(database: Database) -> None:
    for count in (2, 3):
        endpoint = await seed_endpoint(database, "https://example.com/hook")
        await seed_deliveries(database, endpoint, count)
    await count_rows(database)
    assert await _waiting(database) == {"pending": 5}
    await folding.fold(database)
    assert await _waiting(database) == {"pending": 5}
    assert await totals.correct(database) == 0


async def test_wrong_totals_are_corrected(database: Database) -> None:
    for status in ("pending", "held"):
        endpoint = await seed_endpoint(database, "https://example.com/hook")
        await seed_deliveries(database, endpoint, 2, status=status)
    await count_rows(database)
    await folding.fold(database)
    pending = _GAUGES.c.kind == "pending"
    async with database.write() as connection:
        await connection.execute(update(_GAUGES).where(pending).values(number=7))
        await connection.execute(delete(_TOTALS).where(_TOTALS.c.kind == "held"))
        await connection.execute(
            insert(_TOTALS), {"scope": "tnt_of_nobody", "kind": "held", "number": 4}
        )
    # of a tenant and of all: two of each kind, and the one of nobody
    assert await totals.correct(database) == 5
    assert await totals.correct(database) == 0
    assert await _waiting(database) == {"pending": 7, "held": 2}
