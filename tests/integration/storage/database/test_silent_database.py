"""A PostgreSQL server that goes silent without closing its connections: every wait has a time
limit, and later callers are served as soon as a server answers. A server that accepts clients and
hangs up counts as away too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from hookfast.clock import utc_now
from hookfast.storage.database import doorbell, engine, postgresql_engine, postgresql_servers
from hookfast.storage.database.availability import is_away
from hookfast.storage.database.engine import Database
from hookfast.storage.database.postgresql_servers import PostgresqlServers
from hookfast.storage.figures import workers
from tests.support.database_proxy import DatabaseProxy
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(2 * PATIENCE)]

# Short, so that tests do not wait for long. A statement takes a hundredth of it here, but the
# machine may be busy.
SHORT = 1.0


@pytest.fixture
async def line(postgresql_url: str) -> AsyncIterator[DatabaseProxy]:
    async with DatabaseProxy(postgresql_url) as line:
        yield line
        line.thaw()


@pytest.fixture
async def database(line: DatabaseProxy, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    monkeypatch.setattr(postgresql_engine, "PING_SECONDS", SHORT)
    monkeypatch.setattr(engine, "STATEMENT_SECONDS", SHORT)
    async with Database(line.url) as database:
        yield database


async def use(database: Database) -> int:
    async with database.read() as connection:
        return int((await connection.execute(text("SELECT 1"))).scalar_one())


async def test_silent_pooled_connections_are_replaced(
    line: DatabaseProxy, database: Database
) -> None:
    async with database.read(), database.read():
        pass  # now there are two
    line.silence()
    assert [await use(database) for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("last", [None, "SELECT 2"], ids=["at its commit", "at a statement"])
async def test_transaction_on_a_silent_connection_times_out_and_the_next_works(
    line: DatabaseProxy, database: Database, last: str | None
) -> None:
    async def transact() -> None:
        async with database.write() as connection:
            await connection.execute(text("SELECT 1"))
            line.silence()
            if last is not None:
                await connection.execute(text(last))

    with pytest.raises(OperationalError, match="TimeoutError"):
        await transact()
    assert await use(database) == 1


async def test_frozen_server_is_used_again_after_it_thaws(
    line: DatabaseProxy, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_servers, "CONNECT_SECONDS", SHORT)
    async with Database(line.url) as short:
        assert await use(short) == 1
        line.freeze()
        with pytest.raises(OperationalError):
            await use(short)
        line.thaw()
        assert await use(short) == 1


@asynccontextmanager
async def deserted(line: DatabaseProxy) -> AsyncIterator[None]:
    """Connect the line to a pooler whose server is gone: it accepts clients, and hangs up on their
    first statement. So does a server that is shut down at that moment."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1024)  # the startup message
        writer.write(
            b"R\0\0\0\x08\0\0\0\0"  # AuthenticationOk
            b"S\0\0\0\x18server_version\x0016.0\0"  # ParameterStatus
            b"Z\0\0\0\x05I"  # ReadyForQuery
        )
        await reader.read(1024)
        writer.close()

    await line.cut()
    folder, name = str(make_url(line.url).query["host"]), ".s.PGSQL.5432"
    async with await asyncio.start_unix_server(hang_up, f"{folder}/{name}"):
        yield
    (Path(folder) / name).unlink(missing_ok=True)
    await line.listen()


async def test_server_that_hangs_up_on_the_first_statement_counts_as_away(
    line: DatabaseProxy, database: Database
) -> None:
    assert await use(database) == 1
    async with deserted(line):
        with pytest.raises(SQLAlchemyError) as raised:
            await use(database)
    assert is_away(raised.value)
    assert await use(database) == 1


async def test_locks_of_a_cut_off_transaction_are_released(
    line: DatabaseProxy, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_engine, "_IDLE_IN_TRANSACTION", "200ms")
    now = utc_now()

    async def beat(database: Database, *, then_silence: bool = False) -> None:
        async with database.write() as connection:
            # locks the row
            await workers.record_heartbeat(connection, "one", version="1", now=now)
            if then_silence:
                line.silence()

    await beat(database)
    with pytest.raises(OperationalError, match="TimeoutError"):
        await beat(database, then_silence=True)
    async with asyncio.timeout(PATIENCE):
        await beat(database.background)


async def test_background_statements_have_no_time_limit(database: Database) -> None:
    async def dawdle(database: Database) -> None:
        async with database.write() as connection:
            await connection.execute(text(f"SELECT pg_sleep({2 * SHORT})"))

    await dawdle(database.background)
    with pytest.raises(OperationalError, match="TimeoutError"):
        await dawdle(database)


async def test_silent_database_can_be_closed(
    line: DatabaseProxy, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_CLOSE_SECONDS", SHORT)
    async with database.read(), database.background.read():
        pass
    line.silence()
    async with asyncio.timeout(PATIENCE):
        await database.close()


async def test_doorbell_recovers_from_a_silent_connection(
    line: DatabaseProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell, "CONNECT_SECONDS", SHORT)
    monkeypatch.setattr(doorbell, "_LISTEN_SECONDS", SHORT / 10)
    bell = doorbell.NotifyDoorbell(PostgresqlServers(line.url))
    await bell.listen()
    async with asyncio.timeout(PATIENCE):
        await bell.wait(2 * PATIENCE)  # starting to listen counts as a ring: some may be missed
        line.silence()
        await bell.wait(2 * PATIENCE)  # and again when it has reconnected
    await bell.close()
