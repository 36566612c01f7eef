"""Prepared statements run by the driver: they do, return and raise what SQLAlchemy's do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import datetime, timedelta

import psycopg
import pytest
from sqlalchemy import Table, bindparam, insert, select, text, update
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import utc_now
from hookfast.storage.database import engine
from hookfast.storage.database.driver import driver_of
from hookfast.storage.database.engine import Database
from hookfast.storage.database.prepared import AnyOf, Prepared, Writes
from hookfast.storage.tables import WorkerHeartbeat
from tests.support.database_proxy import DatabaseProxy
from tests.support.query_plan import sent_by
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

WORKERS: Table = WorkerHeartbeat.__table__
_C = WORKERS.c
NOW = utc_now()
ADD = Prepared(insert(WORKERS))
FIND = Prepared(select(WORKERS).where(AnyOf(_C.id, "ids")).order_by(_C.id))
MOVE = Prepared(
    update(WORKERS)
    .where(_C.id == bindparam("b_id"))
    .values(seen_at=bindparam("b_seen_at", type_=_C.seen_at.type), version=_C.version + "+")
)


def names(count: int) -> list[str]:
    return [f"worker_{number:03}" for number in range(count)]


def seen(name: str) -> datetime:
    return NOW + timedelta(seconds=int(name[-3:]))


async def add(connection: AsyncConnection, ids: list[str]) -> None:
    rows = [{"id": one, "version": "1", "started_at": NOW, "seen_at": NOW} for one in ids]
    await ADD.each(connection, rows)


@pytest.mark.parametrize("count", [1, 2, 9, 10, 100])
async def test_rows_are_written_and_found_whether_they_are_few_or_many(
    database: Database, count: int
) -> None:
    ids = names(count)
    async with database.write() as connection:
        await add(connection, ids)
        moved = [{"b_id": one, "b_seen_at": seen(one)} for one in reversed(ids)]
        await MOVE.each(connection, moved)
        found = await FIND.mappings(connection, {"ids": [*ids, "another"]})
    assert [row["id"] for row in found] == ids
    assert {row["id"]: row["seen_at"] for row in found} == {one: seen(one) for one in ids}
    assert {(row["version"], row["batching"], row["started_at"]) for row in found} == {
        ("1+", False, NOW)
    }
    async with database.read() as connection:
        rows = (await connection.execute(select(WORKERS).order_by(_C.id))).all()
        assert [list(row) for row in await FIND.rows(connection, {"ids": ids})] == [
            list(row) for row in rows
        ]


@pytest.mark.parametrize("count", [1, 3])
async def test_rows_of_several_statements_are_written_together(
    database: Database, count: int
) -> None:
    """On PostgreSQL with one statement, in which each row is changed once."""
    old, new = names(2 * count)[:count], names(2 * count)[count:]
    writes = Writes()
    async with database.write() as connection:
        await add(connection, old)
        writes.add(MOVE, [{"b_id": one, "b_seen_at": seen(one)} for one in old])
        writes.add(ADD, [])
        row = {"version": "1+", "started_at": NOW}
        writes.add(ADD, [{"id": one, "seen_at": seen(one)} | row for one in new])
        sent = await sent_by(connection, writes.run(connection))
        found = await FIND.mappings(connection, {"ids": old + new})
        assert await sent_by(connection, writes.run(connection)) == []
    assert len(sent) == (1 if database.kind == "postgresql" else 2)
    assert {row["id"]: row["seen_at"] for row in found} == {one: seen(one) for one in old + new}
    assert {row["version"] for row in found} == {"1+"}


async def test_no_ids_find_nothing(database: Database) -> None:
    async with database.write() as connection:
        await add(connection, names(1))
        assert list(await FIND.rows(connection, {"ids": []})) == []


@pytest.mark.parametrize("count", [2, 20])
async def test_listeners_hear_the_statements(database: Database, count: int) -> None:
    async with database.write() as connection:
        [(sql, _)] = await sent_by(connection, add(connection, names(count)))
        assert sql.startswith("INSERT INTO workers")
        assert len(await FIND.rows(connection, {"ids": names(count)})) == count


@pytest.mark.parametrize("count", [1, 20])
async def test_rejected_rows_raise_sqlalchemys_error_and_roll_back(
    database: Database, count: int
) -> None:
    async def add_twice() -> None:
        async with database.write() as connection:
            await add(connection, names(count))
            await add(connection, names(count))

    with pytest.raises(IntegrityError):
        await add_twice()
    async with database.read(quick=True) as connection:
        assert list(await FIND.rows(connection, {"ids": names(count)})) == []


async def test_prepared_and_other_statements_share_a_transaction(database: Database) -> None:
    async def fail() -> None:
        async with database.write() as connection:
            await connection.execute(
                insert(WORKERS), {"id": "one", "version": "1", "started_at": NOW, "seen_at": NOW}
            )
            await add(connection, names(1))
            found = await connection.execute(select(_C.id))
            assert len(found.all()) == 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with database.read() as connection:
        assert (await connection.execute(select(_C.id))).all() == []


# -- connections ----------------------------------------------------------------------------------


@pytest.mark.parametrize("quick", [False, True])
async def test_connections_that_the_server_ended_are_replaced_unnoticed(
    postgresql_url: str, quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookfast.storage.database.transaction._ALIVE_SECONDS", 0)
    end_others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    async with Database(postgresql_url) as database:
        async with database.read(), database.read(), database.write() as connection:
            await add(connection, names(1))
        with psycopg.connect(postgresql_url.replace("+asyncpg", ""), autocommit=True) as server:
            server.execute(end_others)
        for _ in range(3):
            async with database.read(quick=quick) as connection:
                assert len(await FIND.rows(connection, {"ids": names(1)})) == 1


async def test_connection_that_ended_right_after_its_use_is_replaced_unnoticed(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookfast.storage.database.transaction._ALIVE_SECONDS", 60)
    async with Database(postgresql_url) as database:
        async with database.write() as connection:
            await add(connection, names(1))
            used = driver_of(connection)
        with psycopg.connect(postgresql_url.replace("+asyncpg", ""), autocommit=True) as server:
            server.execute("SELECT pg_terminate_backend(%s)", [used.get_server_pid()])

        async def noticed() -> bool:
            return bool(used.is_closed())

        await eventually(noticed)
        async with database.read(quick=True) as connection:
            assert len(await FIND.rows(connection, {"ids": names(1)})) == 1


async def test_connections_beyond_the_pools_size_are_closed_after_a_burst(
    postgresql_url: str,
) -> None:
    ours = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database()"
        " AND application_name = current_setting('application_name')"
    )
    async with Database(postgresql_url, pool_size=3) as database:
        async with AsyncExitStack() as burst:
            for _ in range(4):  # the most at once
                await burst.enter_async_context(database.read())
        async with database.read() as connection:
            assert (await connection.execute(ours)).scalar_one() == 3


@pytest.fixture
async def line(postgresql_url: str) -> AsyncIterator[DatabaseProxy]:
    async with DatabaseProxy(postgresql_url) as line:
        yield line
        line.thaw()


async def test_statement_on_a_silent_connection_times_out_and_the_next_works(
    line: DatabaseProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "STATEMENT_SECONDS", 1.0)

    async def find(*, then_silence: bool = False) -> int:
        async with database.write() as connection:
            await connection.execute(text("SELECT 1"))
            if then_silence:
                line.silence()
            return len(await FIND.rows(connection, {"ids": names(1)}))

    async with Database(line.url) as database:
        assert await find() == 0
        with pytest.raises(OperationalError, match="TimeoutError") as raised:
            await find(then_silence=True)
        assert raised.value.connection_invalidated
        assert await find() == 0
