"""The tenants that need attention: which they are, in which order, and what is wrong with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select

from hookfast.endpoints.health import DISABLED_BY_REQUEST, Health
from hookfast.storage.accounts import tenants
from hookfast.storage.counting import folding
from hookfast.storage.database.engine import Database
from hookfast.storage.figures import tenant_health
from hookfast.storage.figures.tenant_health import TenantHealth
from hookfast.storage.tables import Delivery, Endpoint, EndpointHealth
from tests.support.figures import count_rows
from tests.support.rows import delivery_row
from tests.support.seed import seed_endpoint

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


async def new_tenant(
    database: Database, *, circuit: str | None = None, failures: int = 0, **columns: Any
) -> tuple[str, str]:
    """Store a tenant with an endpoint. Return both ids."""
    endpoint_id = await seed_endpoint(database, "https://a.example", **columns)
    rows = Endpoint.__table__.c
    async with database.write() as connection:
        statement = select(rows.tenant_id).where(rows.id == endpoint_id)
        tenant_id = (await connection.execute(statement)).scalar_one()
        if circuit is not None:
            await connection.execute(
                insert(EndpointHealth.__table__),
                {
                    "endpoint_id": endpoint_id,
                    "circuit": circuit,
                    "consecutive_failures": failures,
                    "first_failure_at": NOW if failures else None,
                },
            )
    return tenant_id, endpoint_id


async def deliver(database: Database, owner: tuple[str, str], **statuses: int) -> None:
    """Store so many deliveries of each status to a tenant's endpoint."""
    rows = [
        delivery_row(
            NOW + timedelta(milliseconds=number),
            tenant_id=owner[0],
            endpoint_id=owner[1],
            status=status,
            reason="retries_exhausted" if status == "dead" else None,
            finished_at=NOW if status in ("dead", "delivered") else None,
        )
        for status, count in statuses.items()
        for number in range(count)
    ]
    async with database.write() as connection:
        await connection.execute(insert(Delivery.__table__), rows)


async def read(database: Database, limit: int = 8) -> list[TenantHealth]:
    async with database.read() as connection:
        return await tenant_health.read(connection, limit=limit)


@pytest.mark.parametrize("folded", [False, True])
async def test_most_affected_tenants_come_first(database: Database, folded: bool) -> None:
    down = await new_tenant(database, circuit="open", failures=5)
    busy = await new_tenant(database)
    paused = await new_tenant(database, state="paused", state_reason="Paused by request.")
    dead = await new_tenant(database)
    calm = await new_tenant(database)
    # a person disabled it: nothing is wrong
    await new_tenant(database, state="disabled", state_reason=DISABLED_BY_REQUEST)
    deleted = await new_tenant(database)
    await deliver(database, down, held=3, retrying=1, dead=2)
    await deliver(database, busy, retrying=6)
    await deliver(database, dead, dead=4)
    await deliver(database, calm, delivered=9, pending=9)
    await deliver(database, deleted, dead=50)
    async with database.write() as connection:
        await tenants.mark_deleted(connection, deleted[0], at=NOW)
    await count_rows(database)
    if folded:
        await folding.fold(database)
    found = await read(database)
    assert [
        (each.tenant_id, each.held, each.retrying, each.dead, dict(each.endpoints))
        for each in found
    ] == [
        (busy[0], 0, 6, 0, {}),
        (down[0], 3, 1, 2, {Health.CIRCUIT_OPEN: 1}),
        (paused[0], 0, 0, 0, {Health.PAUSED: 1}),
        (dead[0], 0, 0, 4, {}),
    ]
    assert {each.name for each in found} == {"Acme"}
    assert await read(database, limit=2) == found[:2]


async def test_each_health_of_a_tenants_endpoints_is_counted(database: Database) -> None:
    tenant_id, _ = await new_tenant(database, circuit="closed", failures=1)
    await new_tenant(database)
    for circuit in ("half_open", "open", "draining", "closed"):
        await new_tenant(database, tenant_id=tenant_id, circuit=circuit)
    await new_tenant(database, tenant_id=tenant_id, state="disabled", state_reason="It failed.")
    await new_tenant(database, tenant_id=tenant_id, circuit="open", deleted_at=NOW)
    [found] = await read(database)
    assert found.endpoints == {
        Health.FAILING: 1,
        Health.CIRCUIT_OPEN: 2,
        Health.DRAINING: 1,
        Health.DISABLED: 1,
    }


async def test_only_tenant_is_not_compared_with_others(database: Database) -> None:
    await new_tenant(database, circuit="open")
    assert await read(database) == []
    await new_tenant(database)
    assert len(await read(database)) == 1
