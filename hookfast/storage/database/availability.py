"""Telling a database that cannot do a thing now from one that was asked for the wrong thing."""

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
"""What a database that is away looks like: SQLAlchemy's own errors, and those of asyncpg and the
socket that it lets through while it connects. `is_away` knows of more."""

# PostgreSQL's documentation, appendix A: the connection, out of resources, told to stop or cut off
# by a time limit. A lock that was not to be had, and a server that takes no writes (a standby, as
# during a failover), belong to classes of which the rest is a mistake of ours.
_AWAY_CLASSES = ("08", "53", "57")
_AWAY_STATES = ("25006", "55P03")
_CONFLICTS = "40"  # a deadlock, or transactions that cannot be put in an order


def sqlstate(error: BaseException) -> str:
    """PostgreSQL's five characters for what happened, or none (""). SQLAlchemy wraps the driver's
    error that has them."""
    state = getattr(getattr(error, "orig", None) or error, "sqlstate", None)
    return state if isinstance(state, str) else ""


def is_away(error: BaseException) -> bool:
    """Whether the database, and not what it was asked for, is the reason: whatever it is asked for
    now will fail."""
    state = sqlstate(error)
    return (
        isinstance(error, AWAY)
        or (isinstance(error, DBAPIError) and error.connection_invalidated)
        or state.startswith(_AWAY_CLASSES)
        or state in _AWAY_STATES
    )


def passes(error: BaseException) -> bool:
    """Whether the same may be done when it is asked for again."""
    return is_away(error) or sqlstate(error).startswith(_CONFLICTS)
