"""Inserts a row through each driver, without a commit. A driver is imported only if the caller has
passed a connection of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from hookfast_client.outbox.row import OutboxRow

_Inserted: TypeAlias = "str | Awaitable[str]"


class NoTransaction(RuntimeError):
    """The connection has no open transaction, so the event would be committed at once and alone.
    Begin one: `with connection.transaction():`, Django's `atomic()`, or turn autocommit off."""

    def __init__(self) -> None:
        super().__init__(
            "emit_in needs an open transaction: on this connection the event would be committed at "
            "once and alone, even if what it reports is not. Begin a transaction first."
        )


def insert(connection: Any, row: OutboxRow) -> _Inserted:
    """Insert the row in the connection's transaction, and return its idempotency key, or an
    awaitable of it. Raises NoTransaction, and TypeError for an unknown kind of connection."""
    kind = connection.__class__
    for base in kind.__mro__:
        if (driver := _DRIVERS.get(base.__module__.partition(".")[0])) is not None:
            inserted = driver(connection, row)
            if inserted is not None:
                return inserted
            break
    raise TypeError(
        f"emit_in cannot use {kind.__module__}.{kind.__qualname__}; it takes connections and "
        "sessions of SQLAlchemy, asyncpg, psycopg 3 and Django, on PostgreSQL"
    )


def _with_sqlalchemy(connection: Any, row: OutboxRow) -> _Inserted | None:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

    match connection:
        case Connection():
            return _in_sqlalchemy_connection(connection, row)
        case Session() | scoped_session():
            return _in_sqlalchemy_connection(connection.connection(), row)
        case AsyncConnection():
            return connection.run_sync(_in_sqlalchemy_connection, row)
        case AsyncSession() | async_scoped_session():
            return _in_async_session(connection, row)
    return None


async def _in_async_session(session: Any, row: OutboxRow) -> str:
    connection = await session.connection()
    inserted: str = await connection.run_sync(_in_sqlalchemy_connection, row)
    return inserted


def _in_sqlalchemy_connection(connection: Any, row: OutboxRow) -> str:
    from sqlalchemy import text

    if connection.dialect.name != "postgresql":
        raise TypeError(f"emit_in needs PostgreSQL, and this is {connection.dialect.name}")
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise NoTransaction
    statement = text(row.sql(lambda _, name: f":{name}"))
    connection.execute(statement, dict(zip(row.names, row.values, strict=True)))
    return row.key


def _with_asyncpg(connection: Any, row: OutboxRow) -> _Inserted | None:
    from asyncpg import Connection
    from asyncpg.pool import PoolConnectionProxy

    if not isinstance(connection, Connection | PoolConnectionProxy):
        return None  # such as a pool, whose statements each have their own transaction
    return _in_asyncpg_connection(connection, row)


async def _in_asyncpg_connection(connection: Any, row: OutboxRow) -> str:
    if not connection.is_in_transaction():
        raise NoTransaction
    await connection.execute(row.sql(lambda number, _: f"${number}"), *row.values)
    return row.key


def _with_psycopg(connection: Any, row: OutboxRow) -> _Inserted | None:
    from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor

    # A new cursor, of psycopg's own class: the caller's may hold a result, and the connection's
    # may have placeholders of another form.
    match connection:
        case Connection():
            _check_psycopg_transaction(connection)
            Cursor(connection).execute(*_for_psycopg(row))
            return row.key
        case AsyncConnection():
            return _in_async_psycopg_connection(connection, row)
        case Cursor() | AsyncCursor():
            return _with_psycopg(connection.connection, row)
    return None


async def _in_async_psycopg_connection(connection: Any, row: OutboxRow) -> str:
    from psycopg import AsyncCursor

    _check_psycopg_transaction(connection)
    await AsyncCursor(connection).execute(*_for_psycopg(row))
    return row.key


def _for_psycopg(row: OutboxRow) -> Any:
    return row.sql(lambda *_: "%s"), row.values


def _check_psycopg_transaction(connection: Any) -> None:
    """Raise NoTransaction in autocommit mode outside a transaction. In a pipeline a transaction may
    have begun of which the server has not reported yet."""
    from psycopg.pq import PipelineStatus, TransactionStatus

    if (
        connection.autocommit
        and connection.info.transaction_status == TransactionStatus.IDLE
        and connection.pgconn.pipeline_status == PipelineStatus.OFF
    ):
        raise NoTransaction


def _with_django(connection: Any, row: OutboxRow) -> _Inserted | None:
    if not hasattr(connection, "in_atomic_block"):
        return None
    if connection.vendor != "postgresql":
        raise TypeError(f"emit_in needs PostgreSQL, and this is {connection.vendor}")
    if connection.get_autocommit() and not connection.in_atomic_block:
        raise NoTransaction
    with connection.cursor() as cursor:
        cursor.execute(row.sql(lambda *_: "%s"), row.values)
    return row.key


_DRIVERS: Mapping[str, Callable[[Any, OutboxRow], _Inserted | None]] = {
    "sqlalchemy": _with_sqlalchemy,
    "asyncpg": _with_asyncpg,
    "psycopg": _with_psycopg,
    "django": _with_django,
}
