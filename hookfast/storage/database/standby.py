"""Connections that lead to a server which takes no writes, as they do after a failover."""

from __future__ import annotations

from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.ext.asyncio import AsyncEngine

from hookfast.storage.database.availability import sqlstate

_READ_ONLY = "25006"  # read_only_sql_transaction


def leave_standbys(engine: AsyncEngine) -> None:
    """Let go of a connection on which a write was refused: the next one goes where the database's
    name leads now. In the pool it would refuse every write it is lent for, for as long as both
    servers live."""

    @event.listens_for(engine.sync_engine, "handle_error")
    def let_go(context: ExceptionContext) -> None:
        if sqlstate(context.original_exception) == _READ_ONLY:
            context.is_disconnect = True
            # the others may be where they should be, and find out by themselves
            context.invalidate_pool_on_disconnect = False
