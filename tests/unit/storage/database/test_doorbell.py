"""A PostgreSQL doorbell replaces connections that have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from hookfast.storage.database import doorbell
from hookfast.storage.database.doorbell import NotifyDoorbell
from hookfast.storage.database.postgresql_servers import PostgresqlServers
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

ENDED = [
    asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
    asyncpg.InterfaceError("connection is closed"),
    # the session was ended, but the connection has not read that yet
    asyncpg.InternalClientError("cannot switch to state 15; another operation is in progress"),
    ConnectionResetError(),
]


class FakeConnection:
    """A connection whose statements fail with `error`, unless it is None."""

    def __init__(self, error: Exception | None, used: asyncio.Event) -> None:
        self._error = error
        self._used = used

    def add_termination_listener(self, _: object) -> None:
        pass

    async def add_listener(self, *_: object) -> None:
        await self.execute()

    async def execute(self, *_: object) -> None:
        if self._error is not None:
            raise self._error
        self._used.set()


@pytest.mark.parametrize("error", ENDED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("use", ["ring", "listen"])
async def test_a_connection_that_was_ended_is_replaced(
    use: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = asyncio.Event()
    connections = iter([FakeConnection(error, used), FakeConnection(None, used)])

    @asynccontextmanager
    async def connection(_: PostgresqlServers) -> AsyncIterator[FakeConnection]:
        yield next(connections)

    monkeypatch.setattr(doorbell, "_connection", connection)
    monkeypatch.setattr(doorbell, "_RECONNECT_SECONDS", 0)
    bell = NotifyDoorbell(PostgresqlServers("postgresql://localhost/hookfast"))
    if use == "ring":
        bell.ring()
    else:
        await bell.listen()
    async with asyncio.timeout(PATIENCE):
        await used.wait()
    await bell.close()
