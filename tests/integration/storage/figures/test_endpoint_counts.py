"""Endpoints are counted by their health, for a tenant and for all."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import insert

from hookfast.endpoints.health import DISABLED_BY_REQUEST, Health
from hookfast.storage.database.engine import Database
from hookfast.storage.figures import endpoint_counts
from hookfast.storage.tables import EndpointHealth
from tests.support.seed import seed_endpoint

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
TENANT = "tnt_" + "1" * 32


async def test_endpoints_are_counted_by_health(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    circuits: list[tuple[str | None, str, int]] = [
        # circuit (None: it never failed), state, failures
        *[(None, "enabled", 0)] * 3,
        ("closed", "enabled", 0),
        ("closed", "enabled", 2),
        ("open", "enabled", 5),
        ("half_open", "enabled", 5),
        ("draining", "enabled", 0),
        ("open", "paused", 5),
        (None, "paused", 0),
        ("draining", "disabled", 9),
        ("draining", "disabled", 0),  # by request
    ]
    for circuit, state, failures in circuits:
        reason = DISABLED_BY_REQUEST if (state, failures) == ("disabled", 0) else "It failed."
        endpoint_id = await seed_endpoint(
            database, "https://a.example", tenant_id=TENANT, state=state, state_reason=reason
        )
        await _set_circuit(database, endpoint_id, circuit, failures)
    for state, circuit in (("enabled", "open"), ("disabled", None)):
        deleted = {"tenant_id": TENANT, "state": state, "deleted_at": NOW}
        endpoint_id = await seed_endpoint(database, "https://b.example", **deleted)
        await _set_circuit(database, endpoint_id, circuit, 5)
    await seed_endpoint(database, "https://c.example")  # another tenant's

    async with database.read() as connection:
        every = await endpoint_counts.read(connection, tenant_id=None)
        own = await endpoint_counts.read(connection, tenant_id=TENANT)
        monkeypatch.setattr(endpoint_counts, "MAX_COUNTED", 12)
        most = await endpoint_counts.read(connection, tenant_id=TENANT)
    assert own.by_health == {
        Health.HEALTHY: 4,
        Health.FAILING: 1,
        Health.CIRCUIT_OPEN: 2,
        Health.DRAINING: 1,
        Health.PAUSED: 2,
        Health.DISABLED: 2,
    }
    assert every.by_health == {**own.by_health, Health.HEALTHY: 5}
    assert (own.total, own.down, own.complete) == (12, 3, True)
    assert (every.down, every.by_request, own.by_request) == (3, 1, 1)
    assert (most.total, most.complete) == (12, False)


async def _set_circuit(
    database: Database, endpoint_id: str, circuit: str | None, failures: int
) -> None:
    if circuit is None:
        return
    row = {
        "endpoint_id": endpoint_id,
        "circuit": circuit,
        "consecutive_failures": failures,
        "first_failure_at": NOW if failures else None,
    }
    async with database.write() as connection:
        await connection.execute(insert(EndpointHealth.__table__), row)
