"""Checks that the database answers, has this version's schema, and sees living workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import assert_never

import asyncpg
from sqlalchemy import make_url, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock
from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.doctor.postgresql import check_postgresql
from hookfast.doctor.workers import check_database_clock, check_workers, count_alive
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import Schema, current_revision, newest_revision, schema
from hookfast.storage.database.postgresql_servers import NoServer, PostgresqlServers
from hookfast.storage.database.server_clock import measure_skew
from hookfast.storage.figures import server_facts, workers

_SQLITE_HEADER = b"SQLite format 3\0"

UNUSABLE_ERRORS = (SQLAlchemyError, asyncpg.PostgresError, OSError)
"""Errors raised by a database that cannot be used."""
INVALID_URL_ERRORS = (ArgumentError, ValueError)
"""Errors raised while parsing an invalid database URL; ValueError for its port or host."""


async def check_database(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """Check the database and its schema, PostgreSQL's settings and clock, and the workers."""
    database, problem = open_existing(settings)
    if problem is not None:
        yield problem
    if database is None:
        return
    async with database:
        try:
            async with database.read() as connection:
                async for finding in _check(database, connection, clock):
                    yield finding
        except UNUSABLE_ERRORS as error:
            yield unusable(database.url, error)


def open_existing(settings: Settings) -> tuple[Database | None, Finding | None]:
    """Return the database, or the reason why it cannot be opened. A SQLite file has to exist,
    because opening a missing one would create it."""
    url = settings.resolved_database_url
    try:
        file = sqlite_file(url)
    except INVALID_URL_ERRORS:
        return None, invalid_url()
    if file is not None:
        problem = _check_sqlite_file(file)
        if problem is not None:
            return None, problem
    return Database(url), None


def sqlite_file(url: str) -> Path | None:
    """Check a database URL, and return its SQLite file, if it names one. Raises one of
    INVALID_URL_ERRORS, also if a part of the password would be taken for the host and shown."""
    if url.startswith("postgres"):
        PostgresqlServers(url)
        return None
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return Path(parsed.database) if parsed.database else None
    return None


def invalid_url() -> Finding:
    """Return the finding that the database URL is invalid."""
    return fail(
        "database",
        "HOOKFAST_DATABASE_URL cannot be read.",
        todo="It has the form postgresql://user:password@host:5432/database, with several servers "
        "postgresql://user:password@host1:5432,host2:5432/database; write every character of user "
        "and password that is not a letter or digit as %XX.",
    )


def _check_sqlite_file(file: Path) -> Finding | None:
    """Return what is wrong with a SQLite file, without opening it as a database."""
    try:
        with file.open("rb") as opened_file:
            header = opened_file.read(len(_SQLITE_HEADER))
    except FileNotFoundError:
        return fail(
            "database",
            f"There is no database file {file}.",
            todo="Run `hookfast migrate` to create it; or correct HOOKFAST_HOME or "
            "HOOKFAST_DATABASE_URL if it is elsewhere.",
        )
    except OSError as error:
        return _unusable_file(str(file), error.strerror or type(error).__name__)
    if header not in (b"", _SQLITE_HEADER):
        return _unusable_file(str(file), "it is not a database")
    return None


def _unusable_file(file: str, why: str) -> Finding:
    return fail(
        "database",
        f"{file} cannot be used: {why}.",
        todo="Check that it is Hookfast's SQLite file and that this user may write to it and its "
        "folder; restore it from a backup if it is damaged.",
    )


async def _check(
    database: Database, connection: AsyncConnection, clock: Clock
) -> AsyncIterator[Finding]:
    if database.kind == "postgresql":
        facts = await server_facts.postgresql_settings(connection)
        yield ok(
            "database",
            f"PostgreSQL {facts['server_version']} at {database.servers}, "
            f"database {await connection.scalar(text('SELECT current_database()'))}.",
        )
    else:
        journal = await server_facts.sqlite_journal(connection)
        yield ok("database", f"SQLite, {make_url(database.url).database}.")
        yield _check_journal(journal)
    found = _check_schema(await schema(connection), await current_revision(connection))
    yield found
    heartbeats = None if found.status == "fail" else await workers.latest_heartbeats(connection)
    now = clock()
    if database.kind == "postgresql":
        skew = await measure_skew(connection, clock=clock)
        now = clock() + skew.ahead  # the clock of the heartbeats
        alive = count_alive(heartbeats or [], now)
        connections = await server_facts.postgresql_connections(connection)
        for finding in check_postgresql(facts, connections, workers_seen=alive):
            yield finding
        yield check_database_clock(skew)
    if heartbeats is not None:
        for finding in check_workers(heartbeats, now):
            yield finding


def unusable(url: str, error: Exception) -> Finding:
    """Return why a database cannot be used, from the error (UNUSABLE_ERRORS) that it raised."""
    # SQLAlchemy keeps the driver's error in `orig`; asyncpg's errors have the SQLSTATE themselves
    cause = getattr(error, "orig", None) or error
    state = getattr(cause, "sqlstate", None) or ""
    if (file := sqlite_file(url)) is not None:
        return _unusable_file(str(file), getattr(cause, "strerror", None) or str(cause))
    servers = PostgresqlServers(url)
    if state.startswith("28"):  # invalid authorization
        return fail(
            "database",
            f"PostgreSQL at {servers} denies access to the user {servers.user} ({state}).",
            todo="Correct user and password in HOOKFAST_DATABASE_URL, or the server's pg_hba.conf.",
        )
    if state == "3D000":
        return fail(
            "database",
            f"PostgreSQL at {servers} has no database {servers.database}.",
            todo=f"Create it (CREATE DATABASE {servers.database}), or correct "
            "HOOKFAST_DATABASE_URL.",
        )
    if state == "53300":
        return fail(
            "database",
            f"PostgreSQL at {servers} has no connection left.",
            todo="Raise max_connections, or run fewer processes: each opens up to "
            f"{server_facts.CONNECTIONS_PER_PROCESS}, and a Temporal server on it up to 120.",
        )
    return fail(
        "database",
        f"PostgreSQL at {servers} cannot be reached ({_reason(cause, state)}).",
        todo="Check that it runs, and host, port and TLS options in HOOKFAST_DATABASE_URL.",
    )


def _reason(cause: BaseException, state: str) -> str:
    return str(cause) if isinstance(cause, NoServer) else state or type(cause).__name__


def _check_schema(state: Schema, revision: str | None) -> Finding:
    newest = newest_revision()
    match state:
        case "none":
            return fail(
                "database.schema", "The database has no tables.", todo="Run `hookfast migrate`."
            )
        case "current":
            return ok("database.schema", f"Revision {revision}, the newest of this version.")
        case "behind":
            return fail(
                "database.schema",
                f"Revision {revision} is behind {newest}.",
                todo="Run `hookfast migrate` (docs/upgrading.md).",
            )
        case "ahead":
            return warn(
                "database.schema",
                f"Revision {revision} is ahead of {newest}: a newer version has migrated it.",
                todo="This is fine during a rollout; otherwise upgrade this process "
                "(docs/upgrading.md).",
            )
        case _:
            assert_never(state)


def _check_journal(journal: str) -> Finding:
    if journal.lower() != "wal":
        return fail(
            "database.settings",
            f"The journal mode is {journal}: this file system does not support WAL, so readers and "
            "writers wait for each other, and locks may not work.",
            todo="Move HOOKFAST_HOME to a local disk (no NFS or SMB), or use PostgreSQL.",
        )
    return ok("database.settings", "Write-ahead log; every commit is synced to the disk.")
