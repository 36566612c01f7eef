"""Sessions of a link, a key and a tenant are limited: the oldest end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import insert, select, update

from hookfast.clock import utc_now
from hookfast.storage.accounts import sessions
from hookfast.storage.accounts.sessions import Grant
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import ApiKey, DashboardSession, Tenant

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]

SESSIONS = DashboardSession.__table__
NOW = utc_now()
SECOND = timedelta(seconds=1)
OPERATOR = Grant(key_id="key_op", scope="operator", tenant_id=None, begun_with="key_op")
LINK = Grant(
    key_id="key_op", scope="tenant", tenant_id="tnt_1", begun_with="link 1", via=sessions.LINK
)
SIGNED_IN = Grant(key_id="key_1", scope="tenant", tenant_id="tnt_1", begun_with="key_1")


@pytest.fixture(autouse=True)
async def rights(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tenants, an operator's key and a tenant's, and low limits."""
    monkeypatch.setattr(sessions, "MOST_OF_LINK", 3)
    monkeypatch.setattr(sessions, "MOST_OF_KEY", 5)
    monkeypatch.setattr(sessions, "MOST_OF_TENANT", 7)
    async with database.write() as connection:
        for tenant_id in ("tnt_1", "tnt_2"):
            tenant = Tenant(id=tenant_id, name="Acme", created_at=NOW, updated_at=NOW)
            await connection.execute(insert(Tenant.__table__).values(tenant.model_dump()))
        for key_id, scope, owner in (("key_op", "operator", None), ("key_1", "tenant", "tnt_1")):
            key = ApiKey(
                id=key_id,
                tenant_id=owner,
                scope=scope,
                name="x",
                hint="x",
                key_sha256=key_id,
                created_at=NOW,
            )
            await connection.execute(insert(ApiKey.__table__).values(key.model_dump()))


async def begin(
    database: Database, grant: Grant, token: str, *, second: int = 0, replaces: str | None = None
) -> bool:
    """Begin a session at this second, which lasts two hours."""
    now = NOW + second * SECOND
    async with database.write() as connection:
        return await sessions.add(
            connection,
            grant,
            token_sha256=token,
            now=now,
            expires_at=now + timedelta(hours=2),
            replaces=replaces,
        )


async def live(database: Database, tokens: Sequence[str]) -> list[str]:
    """Return those of these sessions that have not ended."""
    async with database.read() as connection:
        return [one for one in tokens if await sessions.find(connection, one, now=NOW)]


async def rows(database: Database) -> int:
    async with database.read() as connection:
        return len((await connection.execute(select(SESSIONS.c.token_sha256))).all())


@pytest.mark.parametrize(("grant", "most"), [(LINK, 3), (SIGNED_IN, 5), (OPERATOR, 5)])
async def test_oldest_sessions_of_one_link_or_key_end(
    database: Database, grant: Grant, most: int
) -> None:
    tokens = [f"token {number}" for number in range(12)]
    for second, token in enumerate(tokens):
        assert await begin(database, grant, token, second=second)
    assert await live(database, tokens) == tokens[-most:]
    assert await rows(database) == most


async def test_link_that_is_opened_again_and_again_ends_no_other_session(
    database: Database,
) -> None:
    others = {
        "signed in": SIGNED_IN,
        "of another link": replace(LINK, begun_with="link 2"),
        "of another tenant": replace(LINK, tenant_id="tnt_2", begun_with="link 3"),
        "of the operator": OPERATOR,
    }
    for token, grant in others.items():
        await begin(database, grant, token)
    for second in range(1, 20):
        await begin(database, LINK, f"flood {second}", second=second)
    assert await live(database, list(others)) == list(others)
    assert await rows(database) == len(others) + 3


async def test_oldest_sessions_of_a_tenant_end_whatever_they_were_begun_with(
    database: Database,
) -> None:
    tokens = ["signed in", *(f"token {number}" for number in range(12))]
    await begin(database, SIGNED_IN, tokens[0])
    await begin(database, replace(LINK, tenant_id="tnt_2", begun_with="other"), "other tenant's")
    for second, token in enumerate(tokens[1:], 1):
        await begin(database, replace(LINK, begun_with=f"link {second // 2}"), token, second=second)
    assert await live(database, tokens) == tokens[-7:]
    assert await live(database, ["other tenant's"])


async def test_limits_hold_when_many_begin_at_once(
    database: Database, workers: list[Database]
) -> None:
    """Also in several processes, which do not see each other's sessions before they commit."""
    begun = [
        begin(workers[number % 3], LINK, f"link's {number}", second=number) for number in range(12)
    ] + [
        begin(
            workers[number % 3],
            replace(LINK, begun_with=f"link {number}"),
            f"of the tenant {number}",
            second=number,
        )
        for number in range(12)
    ]
    assert all(await asyncio.gather(*begun))
    assert await rows(database) == 7
    async with database.read() as connection:
        own = SESSIONS.c.begun_with == LINK.begun_with
        assert len((await connection.execute(select(SESSIONS).where(own))).all()) <= 3


async def test_expired_sessions_do_not_count(database: Database) -> None:
    await begin(database, SIGNED_IN, "live", second=0)
    for second in range(1, 5):
        await begin(database, SIGNED_IN, f"expired {second}", second=second)
    async with database.write() as connection:
        over = SESSIONS.c.token_sha256.like("expired%")
        await connection.execute(update(SESSIONS).where(over).values(expires_at=NOW))
    for second in range(5, 9):
        await begin(database, SIGNED_IN, f"new {second}", second=second)
    assert await live(database, ["live"])
    assert await rows(database) == 5  # the expired ones were deleted


async def test_session_takes_the_place_of_the_browsers_earlier_one(database: Database) -> None:
    await begin(database, LINK, "another browser's")
    previous = None
    for number in range(20):
        await begin(database, LINK, f"token {number}", second=number, replaces=previous)
        previous = f"token {number}"
    assert await live(database, ["another browser's", "token 18", "token 19"]) == [
        "another browser's",
        "token 19",
    ]


async def test_no_session_begins_without_a_right_and_none_is_replaced(database: Database) -> None:
    await begin(database, LINK, "earlier")
    for grant in (
        replace(LINK, key_id="key_unknown"),
        replace(LINK, tenant_id="tnt_unknown"),
        replace(LINK, endpoint_id="ep_unknown"),
        replace(LINK, key_id="key_1", tenant_id="tnt_2"),
        replace(LINK, key_id="mail:nobody", via=sessions.MAIL),
        replace(SIGNED_IN, scope="operator", tenant_id=None),
        replace(SIGNED_IN, scope="operator"),
    ):
        assert await begin(database, grant, "new", replaces="earlier") is False
    assert await live(database, ["earlier", "new"]) == ["earlier"]
