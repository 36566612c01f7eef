"""Watches the database: logs when it goes and comes back, and everything that fails meanwhile only
as a number."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from hookfast.outage_log import DATABASE
from hookfast.storage.database.availability import error_name, sqlstate
from hookfast.storage.database.engine import Database
from hookfast.storage.database.postgresql_servers import TOO_MANY_CONNECTIONS

_CHECK_SECONDS: Final = 5.0
_FULL: Final = (
    "it has no connection left; raise max_connections, or see in pg_stat_activity who has them"
)


def watching(database: Database) -> AbstractAsyncContextManager[None]:
    """Watch the database while the block runs."""
    return DATABASE.watched(partial(check_database, database))


async def check_database(database: Database) -> str | None:
    """Ask the database for a row. Return None if it answers, else why not."""
    try:
        async with asyncio.timeout(_CHECK_SECONDS), database.read(quick=True) as connection:
            await connection.execute(text("SELECT 1"))
    except TimeoutError:
        return f"it does not answer within {_CHECK_SECONDS:.0f} seconds"
    except SQLAlchemyError as error:
        if sqlstate(error) == TOO_MANY_CONNECTIONS:
            return _FULL
        return error_name(error)
    return None
