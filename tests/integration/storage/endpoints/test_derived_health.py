"""The health of stored endpoints: lists by health contain exactly the endpoints that have it."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import pytest
from sqlalchemy import insert

from hookfast.endpoints.circuit import EndpointState, State
from hookfast.endpoints.health import Health, derive_health
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import derived_health, endpoints
from hookfast.storage.tables import EndpointHealth
from tests.support.seed import seed_endpoint

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, tzinfo=UTC)
TENANT = "tnt_" + "1" * 32
STATES = (EndpointState.ENABLED, EndpointState.PAUSED, EndpointState.DISABLED)


async def test_lists_by_health_have_exactly_the_endpoints_with_it(database: Database) -> None:
    expected: dict[str, Health] = {}
    circuits = []
    for state, circuit, failures in product(STATES, State, (0, 2)):
        columns = {"tenant_id": TENANT, "state": state.value}
        endpoint_id = await seed_endpoint(database, "https://a.example", **columns)
        expected[endpoint_id] = derive_health(state, circuit, consecutive_failures=failures)
        circuits.append(
            {
                "endpoint_id": endpoint_id,
                "circuit": circuit.value,
                "consecutive_failures": failures,
                "first_failure_at": NOW if failures else None,
            }
        )
    for state in STATES:  # and some that never failed, so that they have no circuit
        endpoint_id = await seed_endpoint(database, "https://b.example", state=state.value)
        expected[endpoint_id] = derive_health(state, State.CLOSED, consecutive_failures=0)
    deleted = {"tenant_id": TENANT, "state": "disabled", "deleted_at": NOW}
    await seed_endpoint(database, "https://c.example", **deleted)
    async with database.write() as connection:
        await connection.execute(insert(EndpointHealth.__table__), circuits)

    async with database.read() as connection:
        rows = await endpoints.list_page(
            connection, tenant_id=None, state=None, after=None, limit=100
        )
        assert await derived_health.read(connection, rows) == expected
        for tenant_id, health in product((None, TENANT), Health):
            listed = await endpoints.list_page(
                connection, tenant_id=tenant_id, state=None, health=health, after=None, limit=100
            )
            of_tenant = {each["endpoint_id"] for each in circuits}
            assert [each.id for each in listed] == sorted(
                (
                    endpoint_id
                    for endpoint_id, known in expected.items()
                    if known is health and (tenant_id is None or endpoint_id in of_tenant)
                ),
                reverse=True,
            ), (tenant_id, health)
            [first, *_] = listed
            after_first = await endpoints.list_page(
                connection, tenant_id=tenant_id, state=None, health=health, after=first.id, limit=9
            )
            assert [each.id for each in after_first] == [each.id for each in listed[1:10]]
