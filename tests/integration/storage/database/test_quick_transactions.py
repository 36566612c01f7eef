"""Quick transactions, whose statements run on the event loop's thread on SQLite."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.engine import Database
from hookfast.storage.database.sqlite_connection import SqliteConnection, connector
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "quick.db"


@pytest.fixture
async def quick_database(file: Path) -> AsyncIterator[Database]:
    async with Database(f"sqlite+aiosqlite:///{file}") as database:
        async with database.write() as connection:
            await connection.execute(text("CREATE TABLE t (n INTEGER)"))
        yield database


def driver_of(connection: AsyncConnection) -> SqliteConnection:
    assert connection.sync_connection is not None
    driver = connection.sync_connection.connection.driver_connection
    assert isinstance(driver, SqliteConnection)
    return driver


async def thread_of(connection: AsyncConnection) -> int:
    """Return the id of the thread on which the connection's statements run."""
    driver_of(connection)._conn.create_function("thread", 0, threading.get_ident)
    found = await connection.execute(text("SELECT thread()"))
    return int(found.scalar_one())


async def count(database: Database, *, quick: bool) -> int:
    async with database.read(quick=quick) as connection:
        return int((await connection.execute(text("SELECT count(*) FROM t"))).scalar_one())


async def add(database: Database, *, quick: bool) -> None:
    async with database.write(quick=quick) as connection:
        await connection.execute(text("INSERT INTO t VALUES (1)"))


async def test_only_quick_transactions_run_on_the_event_loops_thread(
    quick_database: Database,
) -> None:
    for quick in (True, False, True):
        async with quick_database.write(quick=quick) as connection:
            assert (await thread_of(connection) == threading.get_ident()) is quick
        async with quick_database.read(quick=quick) as connection:
            assert (await thread_of(connection) == threading.get_ident()) is quick


async def test_quick_transaction_is_committed_for_other_connections(
    quick_database: Database, file: Path
) -> None:
    await add(quick_database, quick=True)
    assert await count(quick_database, quick=True) == 1
    async with Database(f"sqlite+aiosqlite:///{file}") as other:
        assert await count(other, quick=False) == 1


async def test_quick_transaction_that_raises_is_rolled_back(quick_database: Database) -> None:
    async def fail() -> None:
        async with quick_database.write(quick=True) as connection:
            await connection.execute(text("INSERT INTO t VALUES (1)"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    await add(quick_database, quick=True)
    assert await count(quick_database, quick=False) == 1


async def test_quick_transaction_waits_for_another_process_without_blocking_the_loop(
    quick_database: Database, file: Path
) -> None:
    async with Database(f"sqlite+aiosqlite:///{file}") as other:
        async with other.write() as connection:
            await connection.execute(text("INSERT INTO t VALUES (1)"))
            waiting = asyncio.create_task(add(quick_database, quick=True))
            for _ in range(20):  # the loop goes on
                await asyncio.sleep(0.005)
            assert not waiting.done()
            assert await count(quick_database, quick=True) == 0
        async with asyncio.timeout(PATIENCE):
            await waiting
    assert await count(quick_database, quick=True) == 2


async def test_statement_after_a_cancelled_call_waits_for_it(file: Path) -> None:
    """The thread still runs the call of the caller that was cancelled."""
    connection = await connector(str(file), "BEGIN")()
    assert isinstance(connection, SqliteConnection)
    connection.quick = True
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        assert go_on.wait(PATIENCE)

    cancelled = asyncio.create_task(connection._execute(slow))
    await asyncio.to_thread(begun.wait, PATIENCE)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    next_one = asyncio.create_task(connection.run("execute", "SELECT 1", ()))
    await asyncio.sleep(0.05)
    assert not next_one.done()
    go_on.set()
    async with asyncio.timeout(PATIENCE):
        assert (await next_one).rows == [(1,)]
    await connection.close()
