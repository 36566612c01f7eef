"""Connections to PostgreSQL, with a time limit on every wait.

A server can go silent without closing its connections: its machine is gone, a firewall has dropped
them, its disk hangs. TCP alone notices after a quarter of an hour, or never. So there is a limit on
connecting, a shorter one on the first statement on a lent connection, and one on each statement. A
wait past its limit raises SQLAlchemy's OperationalError, as for a server that cannot be reached,
and invalidates its connection, whose late answer nobody could place. The others in the pool may be
dead too, so they are invalidated as well.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import asyncpg
from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.engine.interfaces import AdaptedConnection
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from hookfast.storage.database.availability import connection_lost, sqlstate
from hookfast.storage.database.postgresql_servers import CONNECT_SECONDS, PostgresqlServers
from hookfast.strict_json.text import from_text, to_text

PING_SECONDS: Final = 3.0
_BACKGROUND_POOL_SECONDS: Final = 30.0
STATEMENT_SECONDS: Final = 30.0
"""Far more than any statement takes that a request or an attempt waits for."""

_IDLE_IN_TRANSACTION: Final = "60s"
"""The server ends a transaction that has had no statement for this long. Its client may be cut off,
and would keep its rows locked until TCP notices. No transaction of ours is idle for this long."""
_READ_ONLY: Final = "25006"  # read_only_sql_transaction
CUT_OFF: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""asyncpg's errors for a connection that was closed; the last one where the session was ended while
a statement ran."""
BROKEN: Final = (*CUT_OFF, OSError)
"""The same, and the socket's errors, among them TimeoutError."""


def postgresql_engine(
    servers: PostgresqlServers,
    *,
    pool_size: int,
    max_overflow: int,
    statement_seconds: float | None,
) -> AsyncEngine:
    """Create an engine with at most `pool_size` + `max_overflow` connections, whose statements time
    out after `statement_seconds` (None: never)."""
    engine = create_async_engine(
        "postgresql+asyncpg://",
        isolation_level="AUTOCOMMIT",  # `transaction` begins and ends transactions
        pool_size=pool_size,
        max_overflow=max_overflow,
        # of background work, one may wait for another's long statement
        pool_timeout=CONNECT_SECONDS if statement_seconds else _BACKGROUND_POOL_SECONDS,
        hide_parameters=True,  # bodies and secrets stay out of error texts
        json_serializer=to_text,
        json_deserializer=from_text,
        connect_args={
            "async_creator_fn": partial(servers.connect, command_timeout=statement_seconds),
            "prepared_statement_cache_size": servers.url.statement_cache_size,
        },
    )
    event.listen(engine.sync_engine, "connect", _prepare)
    event.listen(engine.sync_engine, "handle_error", _invalidate)
    return engine


def _prepare(connection: AdaptedConnection, _: Any) -> None:
    statement = f"SET idle_in_transaction_session_timeout = '{_IDLE_IN_TRANSACTION}'"
    connection.run_async(lambda driver: driver.execute(statement, timeout=PING_SECONDS))


def _invalidate(context: ExceptionContext) -> OperationalError | None:
    """Discard a connection that broke, on which a statement timed out, or whose server accepts no
    writes. After a failover such a server is a standby: this connection would fail every write as
    long as the standby runs, and a new one goes where the database's name points now.

    Return the error to raise instead if SQLAlchemy does not wrap this one."""
    error = context.original_exception
    if isinstance(error, OSError):
        context.is_disconnect = True
        return connection_lost(error)
    if sqlstate(error) == _READ_ONLY:
        context.is_disconnect = True
        # other connections may be to the right server; each one finds out by itself
        context.invalidate_pool_on_disconnect = False
    return None
