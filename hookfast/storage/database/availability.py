"""Tells errors of a database that is away from errors that are caused by the statement."""

from __future__ import annotations

import asyncpg
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

AWAY: tuple[type[Exception], ...] = (
    OperationalError,
    InterfaceError,
    PoolTimeout,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.InterfaceError,
    OSError,
)
"""Errors raised while the database is away: SQLAlchemy's own, and those of asyncpg and the socket
that it does not wrap while connecting. `is_away` recognises more."""

# PostgreSQL's documentation, appendix A: connection exceptions, insufficient resources, and
# operator intervention, such as a shutdown or a time limit. A lock that was not available and a
# server that takes no writes (a standby, as during a failover) are in classes whose other errors
# are our bugs.
_AWAY_CLASSES = ("08", "53", "57")
_AWAY_STATES = ("25006", "55P03")
_CONFLICTS = "40"  # a deadlock, or a serialization failure


def sqlstate(error: BaseException) -> str:
    """Return PostgreSQL's five-character error code, or "". It is on the driver's error, which
    SQLAlchemy wraps."""
    state = getattr(getattr(error, "orig", None) or error, "sqlstate", None)
    return state if isinstance(state, str) else ""


def is_away(error: BaseException) -> bool:
    """Whether the database is away, so that every other statement would fail now too."""
    state = sqlstate(error)
    return (
        isinstance(error, AWAY)
        or (isinstance(error, DBAPIError) and error.connection_invalidated)
        or state.startswith(_AWAY_CLASSES)
        or state in _AWAY_STATES
    )


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed when it is repeated."""
    return is_away(error) or sqlstate(error).startswith(_CONFLICTS)
