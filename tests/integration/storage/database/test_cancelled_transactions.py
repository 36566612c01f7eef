"""Transactions that are cancelled leave nothing to the next user of their connection."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import bindparam, text

from hookfast.storage.database.engine import Database
from hookfast.storage.database.prepared import Prepared
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

ADD = Prepared(text("INSERT INTO t VALUES (:n)").bindparams(bindparam("n")))
OPEN = text("""
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND state LIKE 'idle in transaction%'
""")


async def cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("quick", [False, True])
async def test_write_cancelled_while_another_process_writes_never_happens(
    tmp_path: Path, quick: bool
) -> None:
    """Its thread still waits to begin the transaction when its caller is cancelled."""
    file = tmp_path / "hookfast.db"

    async def add(n: int) -> None:
        async with database.write(quick=quick) as connection:
            await ADD.rows(connection, {"n": n})

    other = sqlite3.connect(file, isolation_level=None, timeout=0)
    other.execute("CREATE TABLE t (n INTEGER)")
    async with Database(f"sqlite+aiosqlite:///{file}") as database, asyncio.timeout(PATIENCE):
        await add(1)
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(add(2))
        await asyncio.sleep(0.05)
        cancelled = asyncio.create_task(cancel(writing))
        await asyncio.sleep(0.05)
        other.execute("COMMIT")
        await cancelled
        await asyncio.sleep(0.05)
        other.execute("BEGIN IMMEDIATE")  # nobody holds the lock
        other.execute("COMMIT")
        await add(3)
    assert other.execute("SELECT n FROM t").fetchall() == [(1,), (3,)]
    other.close()


async def test_cancelled_begin_leaves_no_transaction_open(postgresql_url: str) -> None:
    async def begin() -> None:
        async with database.write():
            pytest.fail("the transaction has begun")

    async with Database(postgresql_url) as database, Database(postgresql_url) as observer:
        async with database.read():
            pass
        for _ in range(10):
            beginning = asyncio.create_task(begin())
            await asyncio.sleep(0)  # BEGIN is sent, and its answer is not read
            await cancel(beginning)
            async with observer.read(quick=True) as connection:
                assert (await connection.execute(OPEN)).scalar_one() == 0
