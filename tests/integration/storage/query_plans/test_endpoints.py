"""Lists of endpoints read one range of an index, and never the other tenants' endpoints."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.endpoints.health import Health
from hookfast.storage.endpoints import endpoints
from tests.support.many_rows import SMALL_TENANT, TENANT
from tests.support.query_plan import check

pytestmark = pytest.mark.anyio

ENDPOINT_LISTS: list[tuple[dict[str, Any], str]] = [
    ({}, "sqlite_autoindex_endpoints_1"),
    ({"tenant_id": TENANT}, "ix_endpoints_tenant"),
    ({"health": Health.HEALTHY}, "sqlite_autoindex_endpoints_1"),
    ({"health": Health.HEALTHY, "tenant_id": TENANT}, "ix_endpoints_tenant"),
    # all that are not healthy are few: of those, one health only filters
    ({"health": Health.FAILING}, "ix_endpoint_health_unhealthy"),
    ({"health": Health.CIRCUIT_OPEN}, "ix_endpoint_health_unhealthy"),
    ({"health": Health.DRAINING}, "ix_endpoint_health_unhealthy"),
    ({"health": Health.CIRCUIT_OPEN, "tenant_id": SMALL_TENANT}, "ix_endpoints_tenant"),
    ({"health": Health.PAUSED}, "ix_endpoints_stopped"),
    ({"health": Health.DISABLED}, "ix_endpoints_stopped"),
    ({"health": Health.DISABLED, "tenant_id": SMALL_TENANT}, "ix_endpoints_tenant"),
    ({"state": "disabled"}, "ix_endpoints_stopped"),
    ({"state": "enabled"}, "sqlite_autoindex_endpoints_1"),
]

ENDPOINT_PAGES = (None, "ep_21000")


async def test_a_page_of_endpoints_is_one_range_of_an_index(connection: AsyncConnection) -> None:
    for (chosen, index), after in product(ENDPOINT_LISTS, ENDPOINT_PAGES):
        given = {"tenant_id": None, "state": None, "health": None} | chosen
        query = endpoints.list_page(connection, **given, after=after, limit=51)
        await check(connection, query, index=index)
