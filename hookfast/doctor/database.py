"""Is the database there, with the schema of this version?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import assert_never

import asyncpg
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock
from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.doctor.postgresql import look_at as look_at_postgresql
from hookfast.doctor.workers import alive, look_at_clocks, look_at_workers
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import Schema, newest_revision, schema
from hookfast.storage.figures import server_facts

_SQLITE_HEADER = b"SQLite format 3\0"

AWAY = (SQLAlchemyError, asyncpg.PostgresError, OSError)
"""What a database that cannot be used raises."""
UNREADABLE = (ArgumentError, ValueError)
"""What a URL that is none raises; the latter of a port that is no number, or a host no name."""


async def look(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """The database and its schema; on PostgreSQL its settings and its clock; the workers in it."""
    database, missing = opened(settings)
    if missing is not None:
        yield missing
    if database is None:
        return
    async with database:
        try:
            async with database.read() as connection:
                async for finding in _look(database, connection, clock):
                    yield finding
        except AWAY as error:
            yield away(database.url, error)


def opened(settings: Settings) -> tuple[Database | None, Finding | None]:
    """The database, or why there is none to open. Makes no SQLite file: opening one would."""
    url = settings.resolved_database_url
    try:
        parsed = parsed_url(url)
    except UNREADABLE:
        return None, unreadable()
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        wrong = _sqlite_file(Path(parsed.database))
        if wrong is not None:
            return None, wrong
    return Database(url), None


def parsed_url(url: str) -> URL:
    """The parts of a database's URL. Raises one of UNREADABLE, also where a part of the password
    would pass for the host and be shown."""
    parsed = make_url(url)
    if "@" in f"{parsed.host}{parsed.database}" and parsed.get_backend_name() != "sqlite":
        raise ArgumentError("the password holds a character that ends it")
    (parsed.host or "").encode("idna")  # UnicodeError, a ValueError, for what is no name
    return parsed


def unreadable() -> Finding:
    """The database's URL is none."""
    return fail(
        "database",
        "HOOKFAST_DATABASE_URL cannot be read.",
        todo="It has the form postgresql://user:password@host:5432/database; write other "
        "characters than letters and digits in user and password as %XX.",
    )


def _sqlite_file(file: Path) -> Finding | None:
    """What is wrong with a file before it is opened."""
    try:
        with file.open("rb") as opened_file:
            header = opened_file.read(len(_SQLITE_HEADER))
    except FileNotFoundError:
        return fail(
            "database",
            f"There is no database file {file}.",
            todo="Run `hookfast migrate` to make it; or mend HOOKFAST_HOME or "
            "HOOKFAST_DATABASE_URL, if it should be elsewhere.",
        )
    except OSError as error:
        return _unusable(str(file), error.strerror or type(error).__name__)
    if header not in (b"", _SQLITE_HEADER):
        return _unusable(str(file), "it is not a database")
    return None


def _unusable(file: str, why: str) -> Finding:
    return fail(
        "database",
        f"{file} cannot be used: {why}.",
        todo="Check that it is a SQLite file of Hookfast's and that this user may write it and its "
        "folder; restore it from a backup if it is damaged.",
    )


async def _look(
    database: Database, connection: AsyncConnection, clock: Clock
) -> AsyncIterator[Finding]:
    if database.kind == "postgresql":
        facts = await server_facts.postgresql_settings(connection)
        where = make_url(database.url)
        yield ok(
            "database",
            f"PostgreSQL {facts['server_version']} at {where.host or where.query.get('host')}, "
            f"database {where.database}.",
        )
    else:
        journal = await server_facts.sqlite_journal(connection)
        yield ok("database", f"SQLite, {make_url(database.url).database}.")
        yield _sqlite(journal)
    found = _schema(await schema(connection), await server_facts.revision(connection))
    yield found
    beats = None if found.status == "fail" else await server_facts.last_beats(connection)
    if database.kind == "postgresql":
        seen = alive(beats or [], clock())
        for finding in look_at_postgresql(facts, workers_seen=seen):
            yield finding
        yield look_at_clocks(await server_facts.postgresql_skew(connection, clock=clock))
    if beats is not None:
        for finding in look_at_workers(beats, clock()):
            yield finding


def away(url: str, error: Exception) -> Finding:
    """Why a database cannot be used, told by what it raised (AWAY)."""
    where = make_url(url)
    # SQLAlchemy wraps the driver's error, and asyncpg the server's, in the former's cause
    cause = getattr(error, "orig", None) or error
    state = getattr(cause, "sqlstate", None) or ""
    if where.get_backend_name() == "sqlite":
        return _unusable(str(where.database), getattr(cause, "strerror", None) or str(cause))
    host = where.host or where.query.get("host")
    if state.startswith("28"):  # invalid authorization
        return fail(
            "database",
            f"PostgreSQL at {host} refuses the user {where.username} ({state}).",
            todo="Correct user and password in HOOKFAST_DATABASE_URL, or the server's pg_hba.conf.",
        )
    if state == "3D000":
        return fail(
            "database",
            f"PostgreSQL at {host} has no database {where.database}.",
            todo=f"Make it (CREATE DATABASE {where.database}), or correct HOOKFAST_DATABASE_URL.",
        )
    if state == "53300":
        return fail(
            "database",
            f"PostgreSQL at {host} has no connection left.",
            todo="Raise max_connections, or run fewer processes: each opens up to "
            f"{server_facts.CONNECTIONS_PER_PROCESS}.",
        )
    return fail(
        "database",
        f"PostgreSQL at {host}:{where.port or 5432} cannot be reached "
        f"({state or type(cause).__name__}).",
        todo="Check that it runs, and host, port and TLS options in HOOKFAST_DATABASE_URL.",
    )


def _schema(state: Schema, revision: str | None) -> Finding:
    newest = newest_revision()
    match state:
        case "none":
            return fail("database.schema", "It has no tables.", todo="Run `hookfast migrate`.")
        case "current":
            return ok("database.schema", f"Revision {revision}, the newest this version knows.")
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
                todo="Fine while a rollout is under way; else upgrade this process "
                "(docs/upgrading.md).",
            )
        case _:
            assert_never(state)


def _sqlite(journal: str) -> Finding:
    if journal.lower() != "wal":
        return fail(
            "database.settings",
            f"The journal mode is {journal}: this file system cannot do WAL, so readers and "
            "writers wait for each other, and locks may not hold.",
            todo="Move HOOKFAST_HOME to a local disk (no NFS or SMB), or use PostgreSQL.",
        )
    return ok("database.settings", "Write-ahead log; every commit is synced to the disk.")
