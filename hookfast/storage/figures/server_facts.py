"""What a database server says of itself, for `hookfast doctor`. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock
from hookfast.storage.tables import WorkerHeartbeat

CONNECTIONS_PER_PROCESS = 21
"""What one API or worker opens at most on PostgreSQL: the pool of `Database` (10, and 10 more in a
rush), and one that listens."""

_SETTINGS = (
    "default_transaction_isolation",
    "fsync",
    "full_page_writes",
    "max_connections",
    "reserved_connections",
    "server_version",
    "server_version_num",
    "superuser_reserved_connections",
    "synchronous_commit",
    "transaction_read_only",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """How far the server's clock is ahead of ours (negative: behind), give or take `within`."""

    ahead: timedelta
    within: timedelta


async def revision(connection: AsyncConnection) -> str | None:
    """The revision of the schema that is there; None where there is none."""

    def read(sync: Connection) -> str | None:
        return MigrationContext.configure(sync).get_current_revision()

    return await connection.run_sync(read)


async def postgresql_settings(connection: AsyncConnection) -> Mapping[str, str]:
    """The settings in force in this session that matter to us, and the role's `superuser`."""
    found = await connection.execute(
        text("SELECT name, setting FROM pg_settings WHERE name = ANY(:names)"),
        {"names": list(_SETTINGS)},
    )
    settings = {name: setting for name, setting in found}
    settings["superuser"] = str(
        await connection.scalar(
            text("SELECT rolsuper::text FROM pg_roles WHERE rolname = current_user")
        )
    )
    return settings


async def postgresql_skew(connection: AsyncConnection, *, clock: Clock) -> Skew:
    """The server's clock against `clock`."""
    began = time.monotonic()
    asked = clock()
    answered: datetime = (await connection.execute(text("SELECT clock_timestamp()"))).scalar_one()
    half = timedelta(seconds=(time.monotonic() - began) / 2)
    return Skew(ahead=answered - (asked + half), within=half)


async def last_beats(connection: AsyncConnection) -> list[tuple[datetime, str]]:
    """When each worker was seen last, by its own clock, and its version; the latest first."""
    beats = WorkerHeartbeat.__table__.c
    found = await connection.execute(
        WorkerHeartbeat.__table__.select()
        .with_only_columns(beats.seen_at, beats.version)
        .order_by(beats.seen_at.desc())
    )
    return [(seen_at, version) for seen_at, version in found]


async def sqlite_journal(connection: AsyncConnection) -> str:
    """The journal mode in force: our connections ask for `wal`, and do not always get it."""
    return str(await connection.scalar(text("PRAGMA journal_mode")))
