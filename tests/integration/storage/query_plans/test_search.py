"""Search reads a bounded number of rows, however many there are."""

from __future__ import annotations

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.ids import Prefix
from hookfast.storage.search import ids, keys, names
from hookfast.storage.search.hit import SCANNED, Scope
from tests.support.many_rows import ENDPOINT, SMALL_TENANT, TENANT
from tests.support.query_plan import check

pytestmark = pytest.mark.anyio

NAMES = [
    # the texts and the scope of a search, and the index whose range SQLite reads
    (["shop"], Scope(), "sqlite_autoindex_endpoints_1"),
    (["shop"], Scope(tenant_id=TENANT), "ix_endpoints_tenant"),
    (["a", "b"], Scope(tenant_id=SMALL_TENANT), "ix_endpoints_tenant"),
]
SHORTENED: list[tuple[Prefix, Scope, list[str]]] = [
    # the prefix of a shortened id, and the index of each of its tables
    ("dlv", Scope(), ["sqlite_autoindex_deliveries_1", "sqlite_autoindex_sent_tests_1"]),
    (
        "dlv",
        Scope(endpoint_id=ENDPOINT),
        ["ix_deliveries_endpoint", "ix_sent_tests_endpoint"],
    ),
    ("evt", Scope(tenant_id=TENANT), ["ix_events_tenant"]),
    ("ep", Scope(tenant_id=TENANT), ["ix_endpoints_tenant"]),
]


async def test_search_reads_a_bounded_number_of_rows(connection: AsyncConnection) -> None:
    # the subquery counts a second time; of a partitioned table, a scan reads some more
    for texts, scope, index in NAMES:
        named = names.find(connection, "endpoint", texts, scope=scope, limit=10)
        await check(connection, named, index=index, may_sort=True, most=3 * SCANNED)
    for prefix, scope, indexes in SHORTENED:
        ending = ids.find_shortened(connection, prefix, "0007", scope=scope)
        await check(connection, ending, index=indexes, may_sort=True, most=3 * ids.NEWEST)
    emitted = keys.event_keys_statement([f"tnt_{n}" for n in range(SCANNED)], ["key-7", '"key-7"'])
    await check(connection, emitted, index="sqlite_autoindex_idempotency_keys_1", most=30)
    received = keys.inbox_keys_statement([f"src_{n}" for n in range(499)], ["7", "8"])
    await check(connection, received, index="sqlite_autoindex_inbox_keys_1", most=30)
