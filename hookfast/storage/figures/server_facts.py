"""Facts about the database server, for `hookfast doctor`. Read-only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.tables import WorkerHeartbeat

CONNECTIONS_PER_PROCESS = 21
"""The most connections that one API or worker opens on PostgreSQL: the pool of `Database` (10, and
10 more under load), and one that listens."""

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


async def postgresql_settings(connection: AsyncConnection) -> Mapping[str, str]:
    """Return this session's settings that matter to us, and the role's `superuser`."""
    rows = await connection.execute(
        text("SELECT name, setting FROM pg_settings WHERE name = ANY(:names)"),
        {"names": list(_SETTINGS)},
    )
    settings = {name: setting for name, setting in rows}
    settings["superuser"] = str(
        await connection.scalar(
            text("SELECT rolsuper::text FROM pg_roles WHERE rolname = current_user")
        )
    )
    return settings


async def last_heartbeats(connection: AsyncConnection) -> list[tuple[datetime, str]]:
    """Return when each worker was last seen and its version; latest first."""
    c = WorkerHeartbeat.__table__.c
    rows = await connection.execute(select(c.seen_at, c.version).order_by(c.seen_at.desc()))
    return [(seen_at, version) for seen_at, version in rows]


async def sqlite_journal(connection: AsyncConnection) -> str:
    """Return the journal mode in use: our connections request `wal`, but may not get it."""
    return str(await connection.scalar(text("PRAGMA journal_mode")))
