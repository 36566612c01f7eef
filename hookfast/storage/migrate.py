"""Bring a database to the newest schema, and tell whether it is there.

Any number of processes may call `migrate` at once: PostgreSQL serialises them with an advisory
lock, SQLite with its write lock; all but the first find nothing left to do.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from hookfast.storage.engine import Database

_LOCK = 0x686F6F6B66617374 >> 1  # an arbitrary constant key for pg_advisory_xact_lock ("hookfast")


async def migrate(database: Database, revision: str = "head") -> None:
    """Run every migration that is missing, in one transaction."""
    async with database.write() as connection:
        if database.kind == "postgresql":
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        await connection.run_sync(_upgrade, revision)


async def is_current(database: Database) -> bool:
    """Whether the schema is the one this code was written for."""
    async with database.read() as connection:
        return await connection.run_sync(_current) == newest_revision()


def newest_revision() -> str | None:
    """The revision of the newest migration."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


def _upgrade(connection: Connection, revision: str) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()
