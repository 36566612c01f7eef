"""Lists of deliveries stay fast at any size: each reads ordered ranges of an index."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.answer import parse_answer
from hookfast.storage.deliveries import deliveries
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.feed import feed
from hookfast.storage.figures import endpoint_summaries
from hookfast.storage.tables import Delivery
from tests.support.many_rows import (
    COMMON,
    DEAD,
    DELIVERED,
    DELIVERY_PAGES,
    ENDPOINT,
    EPOCH,
    EVENT,
    FAILED,
    FUTURE,
    MOMENT,
    RARE,
    SMALL_TENANT,
    SUB,
    SUCCEEDED,
    TENANT,
    TIMED_OUT,
)
from tests.support.query_plan import check, explain, sent_by

pytestmark = pytest.mark.anyio

DELIVERY_LISTS = [
    # the filter, and the index whose range SQLite reads
    (DeliveryFilter(), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(status=DELIVERED), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(since=MOMENT, until=MOMENT), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(status=DEAD), "ix_deliveries_undelivered"),
    (DeliveryFilter(status=DEAD, until=MOMENT), "ix_deliveries_undelivered"),
    (DeliveryFilter(event_id=EVENT), "ix_deliveries_event"),
    (DeliveryFilter(event_id=EVENT, tenant_id=TENANT), "ix_deliveries_event"),
    (DeliveryFilter(event_id=EVENT, tenant_id=TENANT, status=DEAD), "ix_deliveries_event"),
    (DeliveryFilter(subscription_id=SUB), "ix_deliveries_subscription"),
    (DeliveryFilter(subscription_id=SUB, tenant_id=TENANT), "ix_deliveries_subscription"),
    (DeliveryFilter(subscription_id=SUB, status=DELIVERED), "ix_deliveries_subscription"),
    (DeliveryFilter(subscription_id=SUB, status=DEAD), "ix_deliveries_endpoint_undelivered"),
    (
        DeliveryFilter(subscription_id=SUB, tenant_id=TENANT, status=DEAD),
        "ix_deliveries_endpoint_undelivered",
    ),
    (
        DeliveryFilter(subscription_id=SUB, endpoint_id=ENDPOINT, status=DEAD),
        "ix_deliveries_endpoint_undelivered",
    ),
    (DeliveryFilter(endpoint_id=ENDPOINT), "ix_deliveries_endpoint"),
    (DeliveryFilter(endpoint_id=ENDPOINT, tenant_id=TENANT), "ix_deliveries_endpoint"),
    (DeliveryFilter(endpoint_id=ENDPOINT, event_type=COMMON), "ix_deliveries_endpoint"),
    (DeliveryFilter(endpoint_id=ENDPOINT, status=DELIVERED), "ix_deliveries_endpoint"),
    (DeliveryFilter(endpoint_id=ENDPOINT, status=DEAD), "ix_deliveries_endpoint_undelivered"),
    (
        DeliveryFilter(endpoint_id=ENDPOINT, tenant_id=TENANT, status=DEAD, since=MOMENT),
        "ix_deliveries_endpoint_undelivered",
    ),
    (DeliveryFilter(tenant_id=TENANT), "ix_deliveries_tenant"),
    (DeliveryFilter(tenant_id=SMALL_TENANT), "ix_deliveries_tenant"),
    (DeliveryFilter(tenant_id=TENANT, since=MOMENT, until=MOMENT), "ix_deliveries_tenant"),
    (DeliveryFilter(tenant_id=TENANT, status=DELIVERED), "ix_deliveries_tenant"),
    (DeliveryFilter(tenant_id=TENANT, event_type=COMMON), "ix_deliveries_tenant"),
    (DeliveryFilter(tenant_id=SMALL_TENANT, event_type=COMMON), "ix_deliveries_tenant"),
    (DeliveryFilter(tenant_id=TENANT, status=DEAD), "ix_deliveries_tenant_undelivered"),
    (DeliveryFilter(tenant_id=SMALL_TENANT, status=DEAD), "ix_deliveries_tenant_undelivered"),
    (
        DeliveryFilter(tenant_id=TENANT, event_type=RARE, status=DEAD),
        "ix_deliveries_tenant_undelivered",
    ),
    (DeliveryFilter(event_type=COMMON), "ix_deliveries_type"),
    (DeliveryFilter(event_type=RARE), "ix_deliveries_type"),
    (DeliveryFilter(event_type=COMMON, status=DEAD), "ix_deliveries_undelivered"),
    # by the last answer: one range per status if it is a failure
    (DeliveryFilter(answer=FAILED), "ix_deliveries_delivered_failing"),
    (DeliveryFilter(answer=TIMED_OUT, event_type=COMMON), "ix_deliveries_delivered_failing"),
    (DeliveryFilter(answer=FAILED, since=MOMENT), "ix_deliveries_undelivered"),
    (DeliveryFilter(answer=FAILED, tenant_id=TENANT), "ix_deliveries_tenant_undelivered"),
    (DeliveryFilter(answer=FAILED, endpoint_id=ENDPOINT), "ix_deliveries_endpoint_undelivered"),
    (DeliveryFilter(answer=FAILED, subscription_id=SUB), "ix_deliveries_endpoint_undelivered"),
    (DeliveryFilter(answer=FAILED, status=DEAD), "ix_deliveries_undelivered"),
    (DeliveryFilter(answer=FAILED, status=DELIVERED), "ix_deliveries_delivered_failing"),
    (
        DeliveryFilter(answer=TIMED_OUT, status=DELIVERED, tenant_id=TENANT),
        "ix_deliveries_delivered_failing",
    ),
    (DeliveryFilter(answer=FAILED, event_id=EVENT), "ix_deliveries_event"),
    (DeliveryFilter(answer=FAILED, event_id=EVENT, status=DELIVERED), "ix_deliveries_event"),
    (DeliveryFilter(answer=SUCCEEDED), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(answer=SUCCEEDED, tenant_id=TENANT), "ix_deliveries_tenant"),
]


async def test_a_page_of_deliveries_is_one_range_of_an_index(connection: AsyncConnection) -> None:
    for (chosen, index), after in product(DELIVERY_LISTS, DELIVERY_PAGES):
        query = deliveries.list_page(connection, chosen, after=after, limit=51)
        # several statuses are one range each, whose pages are merged by sorting
        await check(connection, query, index=index, may_sort=chosen.merges_statuses)


async def test_rows_of_a_chart_are_a_part_of_a_range_of_an_index(
    connection: AsyncConnection,
) -> None:
    for chosen, index in DELIVERY_LISTS:
        if not chosen.merges_statuses:  # then it reads a range per status
            chosen = replace(chosen, since=EPOCH, until=FUTURE)
            statement = deliveries.range_statement(chosen, limit=500)
            await check(connection, statement, index=index)


async def test_a_rare_answer_is_looked_for_in_the_index(connection: AsyncConnection) -> None:
    """Without reading the rows of other answers."""
    chosen = DeliveryFilter(answer=parse_answer("599", pointer=""), status=DEAD)
    for one in (chosen, replace(chosen, tenant_id=TENANT), replace(chosen, endpoint_id=ENDPOINT)):
        statement = deliveries.page_statement(one, after=None, limit=51)
        if connection.dialect.name == "postgresql":
            plan = await explain(connection, statement)
            [condition] = [line for line in plan.splitlines() if "Index Cond" in line]
            assert "last_status_code = 599" in condition
        else:
            literal = {"literal_binds": True}
            sql = statement.compile(dialect=connection.dialect, compile_kwargs=literal)
            steps = list(await connection.exec_driver_sql(f"EXPLAIN {sql}"))
            # the row is looked up only once a column is needed that the index has not
            compared = next(place for place, step in enumerate(steps) if step.opcode == "Ne")
            read = steps[compared - 1]
            index = next(step for step in steps if step.opcode == "DeferredSeek")
            assert (read.opcode, read.p1) == ("Column", index.p1)


async def test_answer_is_in_the_text_of_a_statement_that_is_planned_once_for_all_values(
    connection: AsyncConnection,
) -> None:
    """PostgreSQL does so after five executions: for a rare result as for a frequent one."""
    for answer, text in (("timeout", "= 'timeout'"), ("503", "= 503"), ("5xx", "500 AND 599")):
        chosen = DeliveryFilter(answer=parse_answer(answer, pointer=""), status=DEAD)
        query = deliveries.list_page(connection, chosen, after=None, limit=51)
        [(statement, parameters)] = await sent_by(connection, query)
        assert text in statement
        assert not {"timeout", 503, 500, 599}.intersection(parameters)


async def test_a_frequent_answer_is_looked_for_among_those_of_the_status(
    connection: AsyncConnection,
) -> None:
    """Most deliveries have it, but hardly any of this status."""
    chosen = DeliveryFilter(answer=SUCCEEDED, status=DEAD)
    plan = await explain(connection, deliveries.page_statement(chosen, after=None, limit=51))
    assert "ix_deliveries_undelivered" in plan


async def test_newest_deliveries_of_endpoints_are_ranges_of_an_index(
    connection: AsyncConnection,
) -> None:
    statement = endpoint_summaries.newest_statement([f"ep_{n}" for n in range(20)])
    # the few rows are merged by sorting
    await check(connection, statement, index="ix_deliveries_endpoint", may_sort=True)


async def test_deliveries_of_a_page_of_events_are_found_by_event(
    connection: AsyncConnection,
) -> None:
    """Not by the endpoint, which may have millions."""
    event_ids = [f"evt_{100_000 + n}" for n in range(500)]
    conditions = feed.deliveries_to(ENDPOINT, event_ids)
    statement = select(Delivery.__table__.c.event_id).where(*conditions)
    await check(connection, statement, index="ix_deliveries_event")
