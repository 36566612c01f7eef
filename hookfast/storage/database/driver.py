"""The drivers' own connections, below SQLAlchemy's: for transactions, and for statements that run
many times a second (`prepared`).

SQLAlchemy's layers take 28 to 80 µs of CPU for a statement that the driver runs in 2 (SQLite) or 13
(asyncpg).
"""

from __future__ import annotations

from typing import Any, NoReturn

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection


def driver_of(connection: AsyncConnection) -> Any:
    """Return the asyncpg connection, or the `SqliteConnection`, of a connection in use."""
    return _sync(connection).connection.driver_connection


def is_observed(connection: AsyncConnection) -> bool:
    """Whether somebody listens to the statements of this connection or of its engine."""
    sync = _sync(connection)
    return sync._has_events or sync.engine._has_events


async def raise_as_sqlalchemy(
    connection: AsyncConnection, error: Exception, sql: str | None
) -> NoReturn:
    """Raise a driver's error as SQLAlchemy raises that of a statement of its own: as one of its
    errors, after the engine's handlers, which discard connections that are broken."""
    await connection.run_sync(_raise, error, sql)
    raise error


def _raise(connection: Connection, error: Exception, sql: str | None) -> None:
    adapted: Any = connection.connection.dbapi_connection
    try:
        adapted._handle_exception(error)  # raises it as the class that the dialect knows
    except Exception as translated:
        connection._handle_dbapi_exception(translated, sql, None, None, None)


def _sync(connection: AsyncConnection) -> Connection:
    sync = connection.sync_connection
    assert sync is not None  # noqa: S101 - it is open
    return sync
