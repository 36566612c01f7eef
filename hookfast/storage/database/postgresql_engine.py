"""Connections to PostgreSQL that nobody waits for without end.

A server can go silent without ending its connections: its machine is gone, a firewall has forgotten
them, its disk stands still. TCP alone notices after a quarter of an hour, or never. So every wait
has an end: for a connection, for its sign of life before it is lent, for each statement. One that
took too long raises TimeoutError, which is an OSError like a server's that cannot be reached, and
takes its connection with it: what it is about to answer nobody can tell. All others of the pool
are as old, so they are not trusted any more either.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg
from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.engine.interfaces import AdaptedConnection
from sqlalchemy.exc import InvalidatePoolError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

CONNECT_SECONDS: Final = 10.0
PING_SECONDS: Final = 3.0
STATEMENT_SECONDS: Final = 30.0
"""Far more than any statement takes that a request or an attempt waits for."""

_ABANDONED: Final = "60s"
"""After so long without a statement the server ends a transaction. Its client may be cut off, and
would keep its rows locked for as long as TCP needs to notice. Nothing of ours thinks that long."""
_LENT: Final = "hookfast_lent"
CUT_OFF: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What asyncpg says of a connection that was ended; the last where its session was ended in the
middle of something."""
_DEAD: Final = (*CUT_OFF, OSError)


def postgresql_engine(
    url: str, *, pool_size: int, max_overflow: int, statement_seconds: float | None
) -> AsyncEngine:
    """An engine whose statements may take so long, with at most `pool_size` + `max_overflow`
    connections."""
    engine = create_async_engine(
        url,
        pool_size=pool_size,
        max_overflow=max_overflow,
        hide_parameters=True,  # bodies and secrets stay out of error texts
        connect_args={"timeout": CONNECT_SECONDS, "command_timeout": statement_seconds},
    )
    event.listen(engine.sync_engine, "connect", _prepare)
    event.listen(engine.sync_engine, "checkout", _ping)
    event.listen(engine.sync_engine, "handle_error", _give_up)
    return engine


def _prepare(connection: AdaptedConnection, _: Any) -> None:
    statement = f"SET idle_in_transaction_session_timeout = '{_ABANDONED}'"
    try:
        connection.run_async(lambda driver: driver.execute(statement, timeout=PING_SECONDS))
    except CUT_OFF as error:
        # SQLAlchemy passes on what a listener raises as it is, and nobody expects asyncpg's errors
        raise OperationalError(statement, None, error, connection_invalidated=True) from error


def _ping(connection: AdaptedConnection, record: ConnectionPoolEntry, _: Any) -> None:
    """Before a connection is lent again. In one round trip; SQLAlchemy's own ping takes three, and
    knows no end."""
    if not record.info.get(_LENT):  # it has just been opened; `info` is as old as it is
        record.info[_LENT] = True
        return
    try:
        connection.run_async(lambda driver: driver.execute("SELECT 1", timeout=PING_SECONDS))
    except _DEAD as error:
        raise InvalidatePoolError(f"no sign of life: {type(error).__name__}") from error


def _give_up(context: ExceptionContext) -> None:
    if isinstance(context.original_exception, TimeoutError):
        context.is_disconnect = True
