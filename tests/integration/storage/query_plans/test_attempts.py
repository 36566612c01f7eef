"""Lists of attempts and of tests read ranges of an index, however many there are."""

from __future__ import annotations

from itertools import product

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.deliveries import sent_tests
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.deliveries.sent_tests import SentTestFilter
from hookfast.storage.feed import attempt_feed
from hookfast.storage.feed.attempt_feed import SCAN_MOST
from hookfast.storage.feed.cursor import AttemptCursor
from tests.support.many_rows import (
    COMMON,
    DEAD,
    DELIVERY_PAGES,
    ENDPOINT,
    EPOCH,
    EVENT,
    FAILED,
    MOMENT,
    RARE,
    SMALL_TENANT,
    SUB,
    TENANT,
)
from tests.support.query_plan import check

pytestmark = pytest.mark.anyio

ATTEMPT_LISTS = [
    # the filter of the attempts, and the index that SQLite reads their deliveries by
    (DeliveryFilter(), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(status=DEAD, event_type=RARE), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(tenant_id=TENANT, answer=FAILED), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(endpoint_id=ENDPOINT, since=MOMENT), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(subscription_id=SUB, until=MOMENT), "sqlite_autoindex_deliveries_1"),
]


TEST_LISTS = [
    # the filter of the tests, and the index whose range SQLite reads
    (SentTestFilter(), "sqlite_autoindex_sent_tests_1"),
    (SentTestFilter(event_type=COMMON, succeeded=True), "sqlite_autoindex_sent_tests_1"),
    (SentTestFilter(since=MOMENT, until=MOMENT), "sqlite_autoindex_sent_tests_1"),
    (SentTestFilter(tenant_id=TENANT), "ix_sent_tests_tenant"),
    (SentTestFilter(tenant_id=SMALL_TENANT, answer=FAILED), "ix_sent_tests_tenant"),
    (SentTestFilter(tenant_id=TENANT, event_type=COMMON, succeeded=False), "ix_sent_tests_tenant"),
    (SentTestFilter(endpoint_id=ENDPOINT), "ix_sent_tests_endpoint"),
    (
        SentTestFilter(endpoint_id=ENDPOINT, tenant_id=TENANT, event_type=RARE),
        "ix_sent_tests_endpoint",
    ),
]


async def test_a_page_of_attempts_scans_one_range_of_an_index(connection: AsyncConnection) -> None:
    for (chosen, index), after in product(ATTEMPT_LISTS, (None, "att_115000")):
        end = attempt_feed.scan_end(chosen, after=after)
        await check(connection, end, index="sqlite_autoindex_attempts_1", most=SCAN_MOST)
        last = "att_128000" if after is None else "att_113000"
        statement = attempt_feed.page_statement(chosen, after=after, last=last, limit=51)
        for name in ("sqlite_autoindex_attempts_1", index):
            # SQLite sorts those that match
            await check(connection, statement, index=name, may_sort=True, most=3 * SCAN_MOST)
    of_event = DeliveryFilter(event_id=EVENT, tenant_id=TENANT)
    statement = attempt_feed.page_statement(of_event, after=None, last=None, limit=51)
    for index in ("ix_deliveries_event", "ix_attempts_delivery"):
        await check(connection, statement, index=index, may_sort=True)


async def test_a_page_of_a_tail_scans_one_range_of_an_index(connection: AsyncConnection) -> None:
    for chosen, index in ATTEMPT_LISTS:
        for after in (AttemptCursor(3000, EPOCH), AttemptCursor(3000, EPOCH, "att_115003")):
            edge = None if connection.dialect.name == "sqlite" else 6000
            end = attempt_feed.tail_end(after, edge=edge)
            await check(connection, end, index="ix_attempts_position", most=SCAN_MOST)
            last = AttemptCursor(3400, EPOCH, "att_117001")
            statement = attempt_feed.tail_statement(
                chosen, after=after, last=last, edge=edge, limit=51
            )
            for name in ("ix_attempts_position", index):
                await check(connection, statement, index=name, may_sort=True, most=3 * SCAN_MOST)


async def test_a_page_of_tests_is_one_range_of_an_index(connection: AsyncConnection) -> None:
    for (chosen, index), after in product(TEST_LISTS, DELIVERY_PAGES):
        query = sent_tests.list_page(connection, chosen, after=after, limit=51)
        await check(connection, query, index=index)
    for column, value in (("endpoint_id", ENDPOINT), ("tenant_id", SMALL_TENANT)):
        trimming = sent_tests.beyond_newest(column, value, most=40)
        await check(connection, trimming, index=f"ix_sent_tests_{column.removesuffix('_id')}")
