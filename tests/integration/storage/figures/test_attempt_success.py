"""The success of a window's attempts: by their own time, exact while few, else estimated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert

from hookfast.storage.database.engine import Database
from hookfast.storage.figures import attempt_success
from hookfast.storage.figures.attempt_success import AttemptSuccess
from hookfast.storage.tables import Attempt, Delivery
from tests.support.rows import attempt_row, delivery_row

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
TENANT = "tnt_1"


async def attempts(
    database: Database,
    *results: tuple[datetime, str],
    tenant_id: str = TENANT,
    created_at: datetime | None = None,
    status: str = "delivered",
) -> None:
    """Store one delivery with attempts at these times."""
    made = created_at or results[0][0]
    delivery = delivery_row(made, tenant_id=tenant_id, status=status, attempts=len(results))
    rows = [
        attempt_row(at, delivery["id"], number=number, result=result)
        for number, (at, result) in enumerate(results, 1)
    ]
    async with database.write() as connection:
        await connection.execute(insert(Delivery.__table__), delivery)
        await connection.execute(insert(Attempt.__table__), rows)


async def last_hour(database: Database, tenant_id: str | None) -> AttemptSuccess:
    async with database.read() as connection:
        return await attempt_success.read(connection, NOW - HOUR, NOW, tenant_id=tenant_id)


@pytest.mark.parametrize("tenant_id", [None, TENANT])
async def test_attempts_are_counted_by_their_own_time(
    database: Database, tenant_id: str | None
) -> None:
    async with database.read() as connection:
        nothing = await attempt_success.read(connection, NOW, NOW, tenant_id=tenant_id)
    assert nothing.rate is None
    assert (await last_hour(database, tenant_id)).rate is None
    # its first attempt was before the window
    await attempts(
        database,
        (NOW - 61 * MINUTE, "status"),
        (NOW - 59 * MINUTE, "status"),
        (NOW - 5 * MINUTE, "success"),
    )
    # created long ago, and retried in the window
    long_ago = NOW - timedelta(days=13)
    await attempts(database, (NOW - MINUTE, "timeout"), created_at=long_ago, status="retrying")
    await attempts(database, (NOW + MINUTE, "success"))
    found = await last_hour(database, tenant_id)
    assert found == AttemptSuccess(total=3, succeeded=1)
    assert found.rate == 1 / 3


async def test_attempts_of_other_tenants_are_not_counted(database: Database) -> None:
    await attempts(database, (NOW - MINUTE, "success"))
    await attempts(database, (NOW - MINUTE, "timeout"), tenant_id="tnt_2")
    assert await last_hour(database, TENANT) == AttemptSuccess(total=1, succeeded=1)
    assert (await last_hour(database, None)).total == 2


async def test_more_attempts_than_are_read_are_estimated(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_success, "MAX_READ", 5)
    monkeypatch.setattr(attempt_success, "MAX_DELIVERIES", 30)
    for minute in range(1, 60):  # ten in each part of five minutes, of which five are read
        for second in (10, 40):
            result = "status" if minute % 2 and second == 10 else "success"
            await attempts(database, (NOW - minute * MINUTE + timedelta(seconds=second), result))
    for tenant_id in (None, TENANT):
        found = await last_hour(database, tenant_id)
        assert found.estimated
        assert found.total == pytest.approx(118, rel=0.2)  # rough, because so few are read
        assert found.rate == pytest.approx(0.75, abs=0.1)
