"""`emit_in` writes the row in the caller's own transaction, whatever driver that has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import pytest
from opentelemetry.sdk.trace import TracerProvider
from psycopg.rows import dict_row
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from hookfast_client.outbox import NoTransaction, emit_in

pytestmark = pytest.mark.anyio

TYPE = "order.invoice.paid"
DATA = {"invoice": "in_8Tx2", "ratio": 1.10, "größe": [None, True, 10**30], "quote": "'\"%s:x $1"}
LATER = datetime(2026, 12, 24, 18, 30, 0, 123456, tzinfo=UTC)

Execute = Callable[[str], Any]


class _Rollback(Exception):
    """Rolls the transaction, or savepoint, back that it leaves."""


def _raise_if(roll_back: bool) -> None:
    if roll_back:
        raise _Rollback


class Use:
    """A connection in an open transaction: what is given to `emit_in`, and the driver's own ways to
    execute a statement and to open a savepoint."""

    def __init__(self, given: Any, execute: Execute, savepoint: Callable[[], Any]) -> None:
        self._given = given
        self._execute = execute
        self._savepoint = savepoint

    async def emit(self, data: Any = DATA, **more: Any) -> str:
        return str(await _result(emit_in(self._given, TYPE, data, **more)))

    async def execute(self, statement: str) -> None:
        await _result(self._execute(statement))

    @asynccontextmanager
    async def savepoint(self, *, roll_back: bool = False) -> AsyncIterator[None]:
        with suppress(_Rollback):
            context = self._savepoint()
            if hasattr(context, "__aenter__"):
                async with context:
                    yield
                    _raise_if(roll_back)
            else:
                with context:
                    yield
                    _raise_if(roll_back)


async def _result(value: Any) -> Any:
    return await value if hasattr(value, "__await__") else value


@asynccontextmanager
async def sqlalchemy_connection(url: str) -> AsyncIterator[Use]:
    engine = create_engine(url.replace("://", "+psycopg://"), poolclass=NullPool)
    with engine.begin() as connection:
        yield Use(connection, lambda sql: connection.execute(text(sql)), connection.begin_nested)


@asynccontextmanager
async def sqlalchemy_session(url: str) -> AsyncIterator[Use]:
    engine = create_engine(url.replace("://", "+psycopg://"), poolclass=NullPool)
    with Session(engine) as session, session.begin():
        yield Use(session, lambda sql: session.execute(text(sql)), session.begin_nested)


@asynccontextmanager
async def sqlalchemy_async_connection(url: str) -> AsyncIterator[Use]:
    engine = create_async_engine(url.replace("://", "+asyncpg://"), poolclass=NullPool)
    async with engine.begin() as connection:
        yield Use(connection, lambda sql: connection.execute(text(sql)), connection.begin_nested)


@asynccontextmanager
async def sqlalchemy_async_session(url: str) -> AsyncIterator[Use]:
    engine = create_async_engine(url.replace("://", "+psycopg://"), poolclass=NullPool)
    async with AsyncSession(engine) as session, session.begin():
        yield Use(session, lambda sql: session.execute(text(sql)), session.begin_nested)


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Use]:
    connection = await asyncpg.connect(url)
    # as some applications do; the text of the data must not be encoded a second time
    await connection.set_type_codec("json", schema="pg_catalog", encoder=repr, decoder=repr)
    try:
        async with connection.transaction():
            yield Use(connection, connection.execute, connection.transaction)
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncIterator[Use]:
    pool = asyncpg.create_pool(url, min_size=1, max_size=1)
    async with pool, pool.acquire() as connection, connection.transaction():
        yield Use(connection, connection.execute, connection.transaction)


@asynccontextmanager
async def psycopg_connection(url: str) -> AsyncIterator[Use]:
    with psycopg.connect(url, cursor_factory=psycopg.RawCursor) as connection:
        yield Use(connection, connection.execute, connection.transaction)


@asynccontextmanager
async def psycopg_cursor(url: str) -> AsyncIterator[Use]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        cursor = connection.execute("SELECT 1 AS one")
        yield Use(cursor, connection.execute, connection.transaction)
        assert cursor.fetchall() == [{"one": 1}]  # the caller's result is not touched


@asynccontextmanager
async def psycopg_autocommit_transaction(url: str) -> AsyncIterator[Use]:
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
        yield Use(connection, connection.execute, connection.transaction)


@asynccontextmanager
async def psycopg_pipeline(url: str) -> AsyncIterator[Use]:
    connection = psycopg.connect(url, autocommit=True)
    with connection, connection.pipeline(), connection.transaction():
        yield Use(connection, connection.execute, connection.transaction)


@asynccontextmanager
async def psycopg_async_connection(url: str) -> AsyncIterator[Use]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield Use(connection, connection.execute, connection.transaction)


@asynccontextmanager
async def psycopg_async_cursor(url: str) -> AsyncIterator[Use]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield Use(connection.cursor(), connection.execute, connection.transaction)


@asynccontextmanager
async def django_connection(url: str) -> AsyncIterator[Use]:
    import django
    from django.conf import settings
    from django.db import connections, transaction

    if not settings.configured:
        settings.configure(DATABASES={}, USE_TZ=True, LOGGING_CONFIG=None)
        django.setup()
    parsed = make_url(url)
    given = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parsed.database,
        "USER": parsed.username,
        "HOST": parsed.query["host"],
    }
    connections.settings = connections.configure_settings({"default": {}, "outbox": given})
    connection = connections["outbox"]
    try:
        with pytest.raises(NoTransaction):
            emit_in(connection, TYPE, DATA)
        with transaction.atomic(using="outbox"):
            yield Use(
                connection,
                lambda sql: connection.cursor().execute(sql),
                lambda: transaction.atomic(using="outbox"),
            )
    finally:
        connection.close()
        del connections["outbox"]


DRIVERS: list[Callable[[str], AbstractAsyncContextManager[Use]]] = [
    sqlalchemy_connection,
    sqlalchemy_session,
    sqlalchemy_async_connection,
    sqlalchemy_async_session,
    asyncpg_connection,
    asyncpg_pool,
    psycopg_connection,
    psycopg_cursor,
    psycopg_autocommit_transaction,
    psycopg_pipeline,
    psycopg_async_connection,
    psycopg_async_cursor,
    django_connection,
]


def rows(url: str) -> list[Any]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(
            "SELECT *, data::text AS json FROM hookfast_outbox ORDER BY id"
        ).fetchall()


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.__name__)
async def test_event_shares_the_fate_of_the_transaction_and_of_its_savepoint(
    outbox_url: str,
    driver: Callable[[str], AbstractAsyncContextManager[Use]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # Django blocks; that is for this test
    with suppress(_Rollback):
        async with driver(outbox_url) as use:
            await use.emit()
            raise _Rollback
    assert rows(outbox_url) == []

    with TracerProvider().get_tracer("app").start_as_current_span("request") as span:
        async with driver(outbox_url) as use:
            await use.execute("INSERT INTO invoices VALUES ('in_8Tx2')")
            key = await use.emit(tenant_id="tnt_1", deliver_at=LATER)
            async with use.savepoint(roll_back=True):
                await use.emit("rolled back")
            async with use.savepoint():
                await use.emit(b'{"exact":  1.0}', ordering_key="ключ")
            assert rows(outbox_url) == []  # nothing is committed by `emit_in`
    first, second = rows(outbox_url)
    assert UUID(key) == first["key"] != second["key"]
    assert first["data"] == DATA
    assert (first["type"], first["tenant_id"]) == (TYPE, "tnt_1")
    assert (first["deliver_at"], first["ordering_key"]) == (LATER, None)
    assert f"{span.get_span_context().trace_id:032x}" in first["traceparent"]
    assert second["json"] == '{"exact":  1.0}'
    assert (second["tenant_id"], second["deliver_at"], second["ordering_key"]) == (
        None,
        None,
        "ключ",
    )


async def test_event_outside_a_transaction_is_an_error(outbox_url: str) -> None:
    """In autocommit mode the row would be committed although the caller's change may fail."""
    with psycopg.connect(outbox_url, autocommit=True) as connection:
        for given in (connection, connection.cursor()):
            with pytest.raises(NoTransaction):
                emit_in(given, TYPE, DATA)
    async with await psycopg.AsyncConnection.connect(outbox_url, autocommit=True) as other:
        with pytest.raises(NoTransaction):
            await emit_in(other, TYPE, DATA)
    pool = await asyncpg.create_pool(outbox_url, min_size=1, max_size=1)
    async with pool, pool.acquire() as asyncpg_one:
        with pytest.raises(NoTransaction):
            await emit_in(asyncpg_one, TYPE, DATA)
    sqlalchemy_url = outbox_url.replace("://", "+psycopg://")
    engine = create_engine(sqlalchemy_url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as sync, pytest.raises(NoTransaction):
        emit_in(sync, TYPE, DATA)
    async_engine = create_async_engine(outbox_url.replace("://", "+asyncpg://"), poolclass=NullPool)
    async with async_engine.connect() as plain:
        autocommit = await plain.execution_options(isolation_level="AUTOCOMMIT")
        with pytest.raises(NoTransaction):
            await emit_in(autocommit, TYPE, DATA)
    assert rows(outbox_url) == []


async def test_what_has_no_transaction_of_its_own_is_not_accepted(outbox_url: str) -> None:
    engine = create_engine("sqlite://")
    pool = asyncpg.create_pool(outbox_url, min_size=0)
    for given in (engine, pool, None, "postgresql://", nullcontext()):
        with pytest.raises(TypeError, match="emit_in cannot use"):
            emit_in(given, TYPE, DATA)  # type: ignore[call-overload]
    with engine.connect() as connection, pytest.raises(TypeError, match="this is sqlite"):
        emit_in(connection, TYPE, DATA)


async def test_table_may_have_another_name_and_schema(outbox_url: str) -> None:
    from hookfast_client.outbox import create_sql, drop_sql

    table = "billing.Outbox_2"
    with psycopg.connect(outbox_url) as connection:
        connection.execute("CREATE SCHEMA billing")
        connection.execute(create_sql(table).encode())
        emit_in(connection, TYPE, DATA, table=table)
        found = connection.execute('SELECT count(*) FROM billing."Outbox_2"').fetchone()
        assert found == (1,)
        connection.execute(drop_sql(table).encode())
        connection.rollback()
