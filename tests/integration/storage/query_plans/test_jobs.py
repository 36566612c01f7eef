"""Jobs and lists of dead letters read ordered ranges of an index, however many rows there are."""

from __future__ import annotations

from itertools import product

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.storage.deliveries import dead_letters, selection
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.deliveries.selection import DeliverySelection
from tests.support.many_rows import (
    COMMON,
    DEAD,
    DELIVERED,
    DELIVERY_PAGES,
    ENDPOINT,
    EVENT,
    FAILED,
    MOMENT,
    RARE,
    ROWS,
    SMALL_TENANT,
    SUB,
    TENANT,
    TIMED_OUT,
)
from tests.support.query_plan import check

pytestmark = pytest.mark.anyio

UNFINISHED = tuple(status for status in DeliveryStatus if not status.finished)
FINISHED = tuple(status for status in DeliveryStatus if status.finished)
IDS = tuple(f"dlv_{100000 + n * 50}" for n in range(500))


SELECTIONS = [
    # the deliveries that a job acts on, and the index whose range SQLite reads
    (DeliverySelection(), "sqlite_autoindex_deliveries_1"),
    (DeliverySelection(up_to="dlv_129000", since=MOMENT), "sqlite_autoindex_deliveries_1"),
    (DeliverySelection(statuses=(DELIVERED,)), "sqlite_autoindex_deliveries_1"),
    (DeliverySelection(statuses=(DEAD,)), "ix_deliveries_undelivered"),
    (DeliverySelection(statuses=dead_letters.DEAD), "ix_deliveries_undelivered"),
    (DeliverySelection(statuses=UNFINISHED), "ix_deliveries_undelivered"),
    (DeliverySelection(statuses=dead_letters.DEAD, event_type=RARE), "ix_deliveries_undelivered"),
    (
        DeliverySelection(statuses=dead_letters.DEAD, tenant_id=TENANT, up_to="dlv_129000"),
        "ix_deliveries_tenant_undelivered",
    ),
    (
        DeliverySelection(statuses=UNFINISHED, tenant_id=SMALL_TENANT),
        "ix_deliveries_tenant_undelivered",
    ),
    (
        DeliverySelection(
            statuses=dead_letters.DEAD,
            endpoint_id=ENDPOINT,
            tenant_id=TENANT,
            finished_since=MOMENT,
            finished_until=MOMENT,
        ),
        "ix_deliveries_endpoint_undelivered",
    ),
    (
        DeliverySelection(statuses=dead_letters.DEAD, subscription_id=SUB),
        "ix_deliveries_endpoint_undelivered",
    ),
    (DeliverySelection(endpoint_id=ENDPOINT, tenant_id=TENANT), "ix_deliveries_endpoint"),
    (
        DeliverySelection(endpoint_id=ENDPOINT, statuses=FINISHED, since=MOMENT, until=MOMENT),
        "ix_deliveries_endpoint",
    ),
    (DeliverySelection(subscription_id=SUB, statuses=FINISHED), "ix_deliveries_subscription"),
    (DeliverySelection(event_id=EVENT, tenant_id=TENANT), "ix_deliveries_event"),
    (DeliverySelection(event_id=EVENT, statuses=FINISHED), "ix_deliveries_event"),
    (DeliverySelection(event_id=EVENT, statuses=dead_letters.DEAD), "ix_deliveries_event"),
    (
        DeliverySelection(ids=IDS, tenant_id=TENANT, statuses=(DEAD,)),
        "sqlite_autoindex_deliveries_1",
    ),
    (DeliverySelection(answer="5xx"), "ix_deliveries_delivered_failing"),
    (DeliverySelection(answer="timeout", tenant_id=TENANT), "ix_deliveries_tenant_undelivered"),
    (DeliverySelection(answer="5xx", statuses=UNFINISHED), "ix_deliveries_undelivered"),
    (DeliverySelection(answer="5xx", ids=IDS), "sqlite_autoindex_deliveries_1"),
    (DeliverySelection(answer="200", endpoint_id=ENDPOINT), "ix_deliveries_endpoint"),
    (
        # except what two other jobs have still to process
        DeliverySelection(
            statuses=dead_letters.DEAD,
            tenant_id=TENANT,
            without=(
                DeliverySelection(statuses=dead_letters.DEAD, reason="gone", after="dlv_125000"),
                DeliverySelection(ids=IDS),
            ),
        ),
        "ix_deliveries_tenant_undelivered",
    ),
]


DEAD_LETTER_LISTS = [
    (DeliveryFilter(), "ix_deliveries_undelivered"),
    (DeliveryFilter(since=MOMENT, until=MOMENT), "ix_deliveries_undelivered"),
    (DeliveryFilter(event_type=COMMON), "ix_deliveries_undelivered"),
    (DeliveryFilter(reason="retries_exhausted"), "ix_deliveries_undelivered"),
    (DeliveryFilter(answer=FAILED), "ix_deliveries_undelivered"),
    (DeliveryFilter(answer=TIMED_OUT, endpoint_id=ENDPOINT), "ix_deliveries_endpoint_undelivered"),
    (DeliveryFilter(tenant_id=TENANT), "ix_deliveries_tenant_undelivered"),
    (DeliveryFilter(tenant_id=SMALL_TENANT, event_type=RARE), "ix_deliveries_tenant_undelivered"),
    (DeliveryFilter(endpoint_id=ENDPOINT), "ix_deliveries_endpoint_undelivered"),
    (
        DeliveryFilter(endpoint_id=ENDPOINT, tenant_id=TENANT, reason="gone"),
        "ix_deliveries_endpoint_undelivered",
    ),
]


async def test_a_jobs_next_deliveries_are_ranges_of_an_index(connection: AsyncConnection) -> None:
    for (chosen, index), after in product(SELECTIONS, DELIVERY_PAGES):
        query = selection.next_ids(connection, chosen, after=after, limit=50)
        # several statuses are one range each, whose few rows are merged by sorting
        await check(connection, query, index=index, may_sort=len(chosen.ranges()) > 1)


async def test_a_page_of_dead_letters_is_two_ranges_of_an_index(
    connection: AsyncConnection,
) -> None:
    for (chosen, index), after in product(DEAD_LETTER_LISTS, DELIVERY_PAGES):
        query = dead_letters.list_page(connection, chosen, after=after, limit=51)
        # the pages of the two statuses are merged by sorting
        await check(connection, query, index=index, may_sort=True)
    for chosen, index in DEAD_LETTER_LISTS:
        await check(connection, dead_letters.count_statement(chosen, limit=500), index=index)


async def test_dead_letters_with_a_reason_are_read_from_the_range_of_its_status(
    connection: AsyncConnection,
) -> None:
    for reason, read in (("gone", 0), ("retries_exhausted", ROWS // 50)):
        statement = dead_letters.count_statement(DeliveryFilter(reason=reason), limit=ROWS)
        assert tuple((await connection.execute(statement)).one()) == (read, 0)
