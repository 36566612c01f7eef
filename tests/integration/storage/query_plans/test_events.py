"""Lists of events, event types and subscribers read ranges of an index."""

from __future__ import annotations

from itertools import product

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.events import event_types, events, recent
from hookfast.storage.events.events import EventFilter
from hookfast.storage.events.fan_out import matching
from tests.support.many_rows import COMMON, MOMENT, RARE, SMALL_TENANT, TENANT
from tests.support.query_plan import check

pytestmark = pytest.mark.anyio

EVENT_LISTS = [
    (EventFilter(), "sqlite_autoindex_events_1"),
    (EventFilter(since=MOMENT), "sqlite_autoindex_events_1"),
    (EventFilter(type=COMMON), "ix_events_type"),
    (EventFilter(type=RARE, since=MOMENT), "ix_events_type"),
    (EventFilter(tenant_id=TENANT), "ix_events_tenant"),
    (EventFilter(tenant_id=SMALL_TENANT, until=MOMENT), "ix_events_tenant"),
    (EventFilter(tenant_id=TENANT, type=COMMON), "ix_events_tenant"),
    (EventFilter(tenant_id=TENANT, broadcasts=True), "ix_events_tenant"),
    (EventFilter(tenant_id=SMALL_TENANT, type=COMMON, broadcasts=True), "ix_events_tenant"),
]

EVENT_PAGES = (None, "evt_115000")


async def test_a_page_of_events_is_one_range_of_an_index(connection: AsyncConnection) -> None:
    for (chosen, index), after in product(EVENT_LISTS, EVENT_PAGES):
        query = events.list_page(connection, chosen, after=after, limit=51)
        # a tenant's own events and broadcasts are one range each: two pages, merged by sorting
        await check(connection, query, index=index, may_sort=chosen.broadcasts)
    chosen = EventFilter(tenant_id=TENANT, broadcasts=True)
    tried = events.page_statement(chosen, after=None, limit=recent.SCANNED)
    await check(connection, tried, index="ix_events_tenant", may_sort=True)


async def test_subscribers_are_found_by_their_patterns(connection: AsyncConnection) -> None:
    for tenants in ([SMALL_TENANT], [SMALL_TENANT, "tnt_55"]):
        statement, parameters = matching(RARE, tenants)
        found = statement.rows(connection, parameters)
        await check(connection, found, index="sqlite_autoindex_subscription_patterns_1")
    # 127 patterns, which SQLite probes one by one
    statement, parameters = matching("order.line_item.created.v2.a.b", [SMALL_TENANT])
    assert len(parameters["patterns"]) == 127
    found = statement.rows(connection, parameters)
    await check(connection, found, index="sqlite_autoindex_subscription_patterns_1")


async def test_names_of_event_types_are_one_range_of_an_index(connection: AsyncConnection) -> None:
    for after in (None, "order.t21"):
        query = event_types.list_names(connection, after=after, limit=1_000)
        await check(connection, query, index="sqlite_autoindex_event_types_1")
