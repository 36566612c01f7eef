"""Beginning and finding a session reads a bounded number of rows, however many there are."""

from __future__ import annotations

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.accounts import sessions
from hookfast.storage.accounts.sessions import MOST_OF_LINK, MOST_OF_TENANT, Grant
from tests.support.many_rows import ENDPOINT, MOMENT, TENANT
from tests.support.query_plan import check

pytestmark = pytest.mark.anyio

S = sessions._S
GRANT = Grant(
    key_id="key_0",
    scope="tenant",
    tenant_id=TENANT,
    begun_with="link_0",
    via="link",
    endpoint_id=ENDPOINT,
)


async def test_sessions_read_a_bounded_number_of_rows(connection: AsyncConnection) -> None:
    of_tenant = sessions._oldest(S.tenant_id == TENANT, most=MOST_OF_TENANT, now=MOMENT)
    await check(connection, of_tenant, index="ix_dashboard_sessions_tenant")
    of_link = sessions._oldest(S.begun_with == "link_0", most=MOST_OF_LINK, now=MOMENT)
    await check(connection, of_link, index="ix_dashboard_sessions_begun", most=300)
    expired = sessions._expired(now=MOMENT)
    await check(connection, expired, index="ix_dashboard_sessions_expires", most=300)
    found = sessions.find(connection, "token_7", now=MOMENT)
    await check(connection, found, index="sqlite_autoindex_dashboard_sessions_1", most=10)
    holds = sessions.holds(connection, GRANT, now=MOMENT)
    await check(connection, holds, index="sqlite_autoindex_tenants_1", most=10)
