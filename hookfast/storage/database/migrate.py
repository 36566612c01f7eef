"""Bring a database to the newest schema, and tell whether it is there.

Any number of processes may call `migrate` at once: PostgreSQL serialises them with an advisory
lock, SQLite with its write lock; all but the first find nothing left to do.

While a new version is rolled out, processes of the one before run on the new schema, and are
started on it. They leave it as it is: every schema works with the version before its own
(docs/upgrading.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import structlog
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import utc_now
from hookfast.errors import Unavailable
from hookfast.storage.database import feed_position, partitions
from hookfast.storage.database.engine import Database

Schema = Literal["none", "behind", "current", "ahead"]
"""A database's schema against the newest this code knows. With `current` and `ahead` it works."""

_LOCK = 0x686F6F6B66617374 >> 1  # an arbitrary constant key for pg_advisory_xact_lock ("hookfast")
# A statement that waits for a table has every later one on it wait behind: rather no migration now
# than a service that stands still behind somebody's long transaction.
_LOCK_TIMEOUT = "5s"
_LOCK_NOT_AVAILABLE = "55P03"

log = structlog.get_logger()


async def migrate(database: Database, revision: str = "head") -> None:
    """Run every migration that is missing, in one transaction; then make PostgreSQL's partitions
    for the days ahead, and see that the feed's positions rise. A schema that is ahead stays as it
    is.

    Raises Unavailable, with nothing changed, when something holds a table it has to change for
    longer than five seconds.
    """
    database = database.unhurried
    try:
        async with database.write() as connection:
            if database.kind == "postgresql":
                await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
                await connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'"))
            if await schema(connection) == "ahead":
                log.info("The schema is a newer version's; it stays as it is.")
            else:
                await connection.run_sync(_upgrade, revision)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
            raise
        raise Unavailable(
            "a table that has to be changed is held by another transaction; nothing was changed. "
            "Try again; if it stays so, find it in pg_stat_activity and end it"
        ) from None
    if revision == "head":
        await partitions.make_ahead(database, now=utc_now())
        await feed_position.rebase(database)


async def schema(connection: AsyncConnection) -> Schema:
    """How the schema that is there compares with the newest one."""
    current, newest = await connection.run_sync(_current), newest_revision() or ""
    if current is None:
        return "none"
    if current == newest:
        return "current"
    # revisions are numbered, so that one this code does not know can be told from an older one
    return "ahead" if current > newest else "behind"


async def is_current(database: Database) -> bool:
    """Whether the schema is exactly the one this code was written for."""
    async with database.read() as connection:
        return await schema(connection) == "current"


async def is_usable(database: Database) -> bool:
    """Whether this code works with the schema: the one it was written for, or a newer one."""
    async with database.read() as connection:
        return await schema(connection) in ("current", "ahead")


def newest_revision() -> str | None:
    """The revision of the newest migration."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parents[1] / "migrations"))
    return config


def _upgrade(connection: Connection, revision: str) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()
