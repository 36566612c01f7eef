"""Migrations: bring a database to the newest schema, and check which schema it has.

Any number of processes may call `migrate` at once: PostgreSQL serialises them with an advisory
lock, SQLite with its write lock; all but the first find nothing to do.

During a rollout, processes of the previous version run, and start, on the new schema. They leave it
as it is: every schema works with the version before its own (docs/upgrading.md).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import structlog
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import utc_now
from hookfast.errors import Unavailable
from hookfast.storage.database import feed_position, partitions
from hookfast.storage.database.availability import sqlstate
from hookfast.storage.database.engine import Database

Schema = Literal["none", "behind", "current", "ahead"]
"""A database's schema, compared with the newest this code knows. It works with `current` and
`ahead`."""

_MIGRATIONS = Path(__file__).parents[1] / "migrations"
_VERSIONS = [_MIGRATIONS / "versions"]
_LOCK = 0x686F6F6B66617374 >> 1  # an arbitrary constant key for pg_advisory_xact_lock ("hookfast")
# While a statement waits for a table, every later one on that table waits behind it. Better to fail
# the migration than to stop the service behind somebody's long transaction.
_LOCK_TIMEOUT = "5s"
_LOCK_NOT_AVAILABLE = "55P03"

log = structlog.get_logger()


async def migrate(database: Database) -> None:
    """Run the missing migrations in one transaction, then create PostgreSQL's partitions for the
    days ahead, and make sure that the feed's positions rise. A schema that is ahead is not changed.

    Raises Unavailable, with nothing changed, when a table to change stays locked for longer than
    five seconds.
    """
    database = database.background
    try:
        async with database.write() as connection:
            if database.kind == "postgresql":
                await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
                await connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'"))
            found = await schema(connection)
            if found == "ahead":
                log.info("The schema belongs to a newer version; it was not changed.")
            elif found != "current":
                await connection.run_sync(_upgrade)
    except DBAPIError as error:
        if sqlstate(error) != _LOCK_NOT_AVAILABLE:
            raise
        raise Unavailable(
            "a table to be changed is locked by another transaction; nothing was changed. Try "
            "again; if it fails again, find that transaction in pg_stat_activity and end it"
        ) from None
    await partitions.create_ahead(database, now=utc_now())
    await feed_position.rebase(database)


async def schema(connection: AsyncConnection) -> Schema:
    """Compare the database's schema with the newest one."""
    current, newest = await current_revision(connection), newest_revision()
    if current is None:
        return "none"
    if current == newest:
        return "current"
    # revisions are numbered, so an unknown newer one can be told from an older one
    return "ahead" if current > newest else "behind"


async def is_current(database: Database) -> bool:
    """Whether the schema is exactly the one that this code was written for."""
    async with database.read() as connection:
        return await schema(connection) == "current"


async def is_usable(database: Database) -> bool:
    """Whether this code works with the schema: the one it was written for, or a newer one."""
    async with database.read() as connection:
        return await schema(connection) in ("current", "ahead")


async def current_revision(connection: AsyncConnection) -> str | None:
    """Return the revision of the database's schema; None if it has none."""
    if not await connection.run_sync(lambda sync: inspect(sync).has_table("alembic_version")):
        return None
    found: str | None = await connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def newest_revision() -> str:
    """Return the revision of the newest migration: the number in the name of its file."""
    return max(
        path.name.partition("_")[0] for folder in _VERSIONS for path in folder.glob("[0-9]*.py")
    )


def _upgrade(connection: Connection) -> None:
    # only here: most processes find nothing to do, and this takes a tenth of a worker's start
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.set_main_option("version_locations", os.pathsep.join(map(str, _VERSIONS)))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
