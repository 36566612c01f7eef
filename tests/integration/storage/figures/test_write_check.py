"""The check that the database accepts writes, on databases that do not."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from bench.chaos.database import Postgresql
from hookfast.clock import utc_now
from hookfast.storage.database.availability import sqlstate
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate
from hookfast.storage.figures import write_check
from hookfast.storage.figures.write_check import WriteCheck
from tests.support.database_proxy import DatabaseProxy
from tests.support.small_disk import small_disk
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
def no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each call check again."""
    monkeypatch.setattr(write_check, "INTERVAL_SECONDS", 0.0)


def _check(database: Database) -> WriteCheck:
    return WriteCheck(database, process_id="one", clock=utc_now)


async def _rows(database: Database) -> list[tuple[str, str]]:
    async with database.read() as connection:
        found = await connection.execute(text("SELECT id, written_at FROM process_writes"))
        return [tuple(row) for row in found]


async def test_many_callers_share_one_write(database: Database) -> None:
    check = _check(database)
    results = await asyncio.gather(*(check.result(within=PATIENCE) for _ in range(50)))
    first = await _rows(database)
    results += [await check.result(within=PATIENCE) for _ in range(50)]

    assert set(results) == {"accepted"}
    assert len(first) == 1
    assert await _rows(database) == first


@pytest.mark.usefixtures("no_interval")
async def test_repeated_checks_keep_one_row_and_delete_those_of_processes_long_gone(
    database: Database,
) -> None:
    async with database.write() as connection:
        await connection.execute(
            text("INSERT INTO process_writes VALUES ('old', :then), ('new', :now)"),
            {"then": "2020-01-01T00:00:00+00:00", "now": "2999-01-01T00:00:00+00:00"}
            if database.kind == "sqlite"
            else {"then": utc_now().replace(year=2020), "now": utc_now()},
        )
    check = _check(database)
    for _ in range(3):
        assert await check.result(within=PATIENCE) == "accepted"
    assert sorted(id_ for id_, _ in await _rows(database)) == ["new", "one"]


@pytest.mark.usefixtures("no_interval")
async def test_locked_sqlite_refuses_until_it_is_unlocked(sqlite_url: str) -> None:
    async with Database(sqlite_url) as database:
        check = _check(database)
        locked = sqlite3.connect(sqlite_url.partition("///")[2], isolation_level=None)
        locked.execute("BEGIN EXCLUSIVE")
        assert await check.result(within=0.1) == "refused"
        assert await check.result(within=0.1) == "refused"
        locked.close()

        async def accepts() -> bool:
            return await check.result(within=1.0) == "accepted"

        await eventually(accepts)


@pytest.mark.usefixtures("no_interval")
async def test_full_disk_of_sqlite_is_noticed(sqlite_template: Path, tmp_path: Path) -> None:
    """Also while SQLite still has room in its log, which it writes again from the start."""
    with small_disk(tmp_path / "disk", megabytes=48) as disk:
        shutil.copyfile(sqlite_template, disk.folder / "hookfast.db")
        async with Database(f"sqlite+aiosqlite:///{disk.folder}/hookfast.db") as database:
            check = _check(database)
            assert await check.result(within=PATIENCE) == "accepted"
            disk.fill()
            assert await check.result(within=PATIENCE) in ("no_space", "refused")
            disk.free()
            assert await check.result(within=PATIENCE) == "accepted"


async def test_read_only_postgresql_refuses(postgresql_url: str) -> None:
    """A standby, or the primary before a failover was noticed."""
    name = postgresql_url.partition("?")[0].rpartition("/")[2]
    async with Database(postgresql_url) as database, database.write() as connection:
        await connection.execute(
            text(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        )
    async with Database(postgresql_url) as database:
        assert await _check(database).result(within=PATIENCE) == "refused"


@pytest.mark.usefixtures("no_interval")
async def test_silent_postgresql_refuses_within_the_time_limit(postgresql_url: str) -> None:
    async with DatabaseProxy(postgresql_url) as line, Database(line.url) as database:
        check = _check(database)
        assert await check.result(within=PATIENCE) == "accepted"
        line.freeze()
        assert await check.result(within=0.1) == "refused"
        line.thaw()

        async def accepts() -> bool:
            return await check.result(within=1.0) == "accepted"

        await eventually(accepts)
        line.freeze()
        await check.result(within=0.1)
        await check.close()


@pytest.fixture
async def on_small_disk(tmp_path: Path) -> AsyncIterator[tuple[Database, object]]:
    """A PostgreSQL server with a disk of its own."""
    with small_disk(tmp_path / "disk", megabytes=256) as disk:
        server = Postgresql.of_dev_dependencies(disk.folder, tmp_path / "log")
        await server.start()
        try:
            async with Database(server.url) as database:
                await migrate(database)
                yield database, disk
        finally:
            await server.part.kill()


@pytest.mark.slow
@pytest.mark.usefixtures("no_interval")
async def test_full_disk_of_postgresql_is_noticed(on_small_disk) -> None:  # type: ignore[no-untyped-def]
    """A small write alone does not notice it: it finds room in its page, and events do not."""
    database, disk = on_small_disk
    check = _check(database)
    assert await check.result(within=PATIENCE) == "accepted"
    disk.fill()
    async with database.write() as connection:
        await connection.execute(text("UPDATE process_writes SET written_at = now()"))
    assert await check.result(within=PATIENCE) == "refused"
    with pytest.raises(DBAPIError) as raised:
        async with database.write() as connection:
            await connection.execute(
                text(
                    "INSERT INTO process_writes SELECT n::text, now() FROM generate_series(1,999) n"
                )
            )
    assert sqlstate(raised.value) == "53100"
    disk.free()
    assert await check.result(within=PATIENCE) == "accepted"
