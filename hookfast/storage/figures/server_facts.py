"""Facts about the database server, for `hookfast doctor`. Read-only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.postgresql_servers import SESSION_PREFIX

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
    "superuser_reserved_connections",
    "synchronous_commit",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The sessions on a PostgreSQL server: `ours` of `processes` of Hookfast in this database, and
    the `others` by database. The limits are those of our database and role, if they have any."""

    ours: int
    processes: int
    others: Mapping[str, int]
    database_limit: int | None
    role_limit: int | None


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


async def is_pooled(connection: AsyncConnection) -> bool:
    """Whether a pooler stands before PostgreSQL: the process id that it gave us at the login is not
    the server's."""
    driver = (await connection.get_raw_connection()).driver_connection
    given: int | None = driver.get_server_pid() if driver is not None else None
    servers: int | None = await connection.scalar(text("SELECT pg_backend_pid()"))
    return given != servers


async def postgresql_connections(connection: AsyncConnection) -> Connections:
    """Return who is connected to the server now, except this process. Every role may see that."""
    rows = await connection.execute(
        text(
            "SELECT datname, coalesce(datname = current_database() "
            "AND starts_with(application_name, :ours), false), count(*), "
            "count(DISTINCT application_name) FROM pg_stat_activity "
            # without the server's own workers and helpers of other sessions, which are not counted
            # against max_connections
            "WHERE datname IS NOT NULL AND usesysid IS NOT NULL AND leader_pid IS NULL "
            "AND application_name IS DISTINCT FROM current_setting('application_name') "
            "GROUP BY 1, 2"
        ),
        {"ours": SESSION_PREFIX},
    )
    others: dict[str, int] = {}
    ours = processes = 0
    for database, is_ours, sessions, names in rows:
        if is_ours:
            ours, processes = sessions, names
        else:
            others[database] = sessions
    limits = await connection.execute(
        text(
            "SELECT datconnlimit, (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user) "
            "FROM pg_database WHERE datname = current_database()"
        )
    )
    of_database, of_role = limits.one()
    return Connections(
        ours=ours,
        processes=processes,
        others=others,
        database_limit=None if of_database < 0 else of_database,
        role_limit=None if of_role < 0 else of_role,
    )
