"""Figures read sums and short ranges of an index, never all deliveries."""

from __future__ import annotations

import re

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.figures import time_of_minute
from hookfast.storage.counting import gauges, reading
from hookfast.storage.counting.reading import Scope as Counted
from hookfast.storage.deliveries import dead_letters
from hookfast.storage.figures import endpoint_counts, newest_failures, overview, tenant_health
from tests.support.many_rows import ENDPOINT, EPOCH, MOMENT, RARE, SMALL_TENANT, TENANT
from tests.support.query_plan import check, explain

pytestmark = pytest.mark.anyio


async def test_dead_letters_are_counted_from_totals_and_three_hours_of_rows(
    connection: AsyncConnection,
) -> None:
    for owners in ({}, {"tenant_id": TENANT}, {"endpoint_id": ENDPOINT}):
        query = dead_letters.stats(connection, **owners, now=MOMENT)
        plan = await explain(connection, query)
        assert plan.count("ix_deliveries_dead_finished") == 3, plan
        assert not re.search(r"Seq Scan on deliveries|SCAN deliveries", plan), plan
        table = "gauges" if "endpoint_id" in owners else "gauge_totals"
        read = re.findall(rf"(?:Scan on|Scan using \S+ on|SCAN|SEARCH) {table}\b", plan)
        assert len(read) == 4, plan  # one for each group
        if table == "gauge_totals":
            assert not re.search(rf"Seq Scan on {table}|SCAN {table}|\bgauges\b", plan), plan


async def test_figures_are_ranges_of_the_primary_key(connection: AsyncConnection) -> None:
    for scope in (Counted(), Counted(TENANT), Counted(endpoint_id=ENDPOINT)):
        await check(connection, reading.oldest(connection, scope), index="PRIMARY", most=1)
        edges = [time_of_minute(minute) for minute in (6_000, 6_600, 7_200)]
        steps = reading.steps(connection, scope, edges)
        await check(connection, steps, index="PRIMARY", may_sort=True)
        of_type = reading.steps_by_type(connection, scope, edges, only=[RARE])
        await check(connection, of_type, index="PRIMARY", may_sort=True)


async def test_newest_failures_are_ranges_of_indexes(
    connection: AsyncConnection,
) -> None:
    for tenant_id, found_by in (
        (None, ("dead_finished", "undelivered", "endpoint_undelivered")),
        (TENANT, ("tenant_undelivered", "tenant_undelivered", "endpoint_undelivered")),
    ):
        query = newest_failures.read(
            connection, tenant_id=tenant_id, since=EPOCH, outages=[ENDPOINT, "ep_8"], limit=5
        )
        indexes = [f"ix_deliveries_{name}" for name in found_by]
        # dead letters of a tenant are the pages of two statuses, merged by sorting
        await check(connection, query, index=indexes, may_sort=tenant_id is not None)


async def test_figures_of_the_overview_read_ranges_of_indexes(
    connection: AsyncConnection,
) -> None:
    for tenant_id, index in (
        (None, "ix_deliveries_undelivered"),
        (TENANT, "ix_deliveries_tenant_undelivered"),
    ):
        held = overview.oldest_held(connection, tenant_id=tenant_id)
        await check(connection, held, index=index)
    for statement, index in (
        (endpoint_counts.of_tenant(SMALL_TENANT), "ix_endpoints_tenant"),
        (endpoint_counts.UNHEALTHY_ENDPOINTS, "ix_endpoint_health_unhealthy"),
        (endpoint_counts.STOPPED_ENDPOINTS, "ix_endpoints_stopped"),
    ):
        # the few groups are sorted
        await check(connection, statement, index=index, may_sort=True)


async def test_tenants_that_need_attention_are_found_without_reading_the_others(
    connection: AsyncConnection,
) -> None:
    statements = (
        (tenant_health.LATE, ["ix_gauge_totals_late"]),
        (
            tenant_health.UNHEALTHY,
            [
                "ix_endpoint_health_unhealthy",
                "sqlite_autoindex_endpoints_1",
                "ix_endpoints_stopped",
            ],
        ),
        (tenant_health.DEAD, ["ix_deliveries_dead_finished", "sqlite_autoindex_tenants_1"]),
        (
            tenant_health.unhealthy_of([TENANT, SMALL_TENANT]),
            ["ix_endpoint_health_unhealthy", "ix_endpoints_stopped"],
        ),
        (
            gauges.OF_TENANTS.params(owners=[SMALL_TENANT, "tnt_55"]),
            ["PRIMARY"],
        ),
    )
    for statement, indexes in statements:
        for index in indexes:
            # the tenants found are sorted
            await check(connection, statement, index=index, may_sort=True)
