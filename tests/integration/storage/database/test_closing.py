"""Closing the database while connections are lent or on their way back."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.engine import Database
from hookfast.storage.database.postgresql_servers import SESSION_PREFIX
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


async def test_connection_that_comes_back_after_closing_is_closed(postgresql_url: str) -> None:
    url = postgresql_url.replace("+asyncpg", "")
    ours = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND starts_with(application_name, %s)"
    )
    with psycopg.connect(url, autocommit=True) as observer:

        async def is_left() -> bool:
            return observer.execute(ours, [SESSION_PREFIX]).fetchone() == (0,)

        database = Database(postgresql_url)
        async with database.read():
            await database.close()
            assert not await is_left()
        assert await eventually(is_left)


async def test_closing_that_is_cancelled_does_not_cancel_who_returns_a_connection(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    returning, go_on = asyncio.Event(), asyncio.Event()
    close = AsyncConnection.close

    async def slow(connection: AsyncConnection) -> None:
        returning.set()
        await go_on.wait()
        await close(connection)

    async def use() -> None:
        with suppress(ZeroDivisionError):
            async with database.read():
                raise ZeroDivisionError  # so that the pool gets the connection back

    monkeypatch.setattr(AsyncConnection, "close", slow)
    async with Database(sqlite_url) as database:
        user = asyncio.create_task(use())
        await returning.wait()
        closing = asyncio.create_task(database.close())
        await asyncio.sleep(0)
        closing.cancel()
        assert isinstance(*await asyncio.gather(closing, return_exceptions=True), BaseException)
        go_on.set()
        await user
