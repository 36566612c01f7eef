"""The comparison of figures with rows reads only the rows that a figure counts."""

from __future__ import annotations

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.figures import reconciliation
from hookfast.storage.tables import Attempt, Delivery
from tests.support.many_rows import MOMENT
from tests.support.query_plan import check

pytestmark = pytest.mark.anyio


async def test_comparison_of_gauges_reads_the_deliveries_that_they_count(
    connection: AsyncConnection,
) -> None:
    ids = {"ids": [f"ep_{number}" for number in range(40)]}
    waiting = connection.execute(reconciliation.WAITING_ROWS, ids)
    await check(connection, waiting, index="ix_deliveries_endpoint_undelivered")
    dead = connection.execute(reconciliation.DEAD_ROWS[connection.dialect.name], ids)
    # sorted by event type, reason and hour
    await check(connection, dead, index="ix_deliveries_endpoint_undelivered", may_sort=True)
    tenants = connection.execute(reconciliation.TENANTS, ids)
    await check(connection, tenants, index="sqlite_autoindex_endpoints_1")
    following = connection.execute(reconciliation.NEXT_ENDPOINTS, {"after": "ep_1"})
    await check(connection, following, index="sqlite_autoindex_endpoints_1", may_sort=True)


async def test_comparison_of_an_hour_counts_a_range_of_ids(connection: AsyncConnection) -> None:
    for prefix, table in (("att", Attempt), ("dlv", Delivery)):
        query = reconciliation.rows_of_hour(prefix, table.__table__.c.id, MOMENT)
        await check(connection, query, index=f"sqlite_autoindex_{table.__tablename__}_1")
