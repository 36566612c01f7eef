"""Checks that the database answers, has this version's schema, and sees living workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import assert_never

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock
from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.doctor.postgresql import check_postgresql
from hookfast.doctor.workers import check_database_clock, check_workers, count_alive
from hookfast.errors import Misconfigured
from hookfast.settings.database_url import kind_of, sqlite_file
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import Schema, current_revision, newest_revision, schema
from hookfast.storage.database.obstacle import Obstacle
from hookfast.storage.database.server_clock import measure_skew
from hookfast.storage.database.unusable import explain
from hookfast.storage.figures import server_facts, workers
from hookfast.storage.preconditions import find_obstacles, obstacle_of_file


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
        except SQLAlchemyError as error:
            yield _failed("database", explain(database, error))


def open_existing(settings: Settings) -> tuple[Database | None, Finding | None]:
    """Return the database, or the reason why it cannot be opened. A SQLite file has to exist,
    because opening a missing one would create it."""
    url = settings.resolved_database_url
    try:
        file = sqlite_file(url) if kind_of(url) == "sqlite" else None
        if file is not None and (obstacle := obstacle_of_file(file)) is not None:
            return None, _failed("database", obstacle)
        return Database(url), None
    except Misconfigured as error:
        return None, fail("database", error.message, todo="Correct it (docs/production.md).")
    except FileNotFoundError:
        return None, fail(
            "database",
            f"There is no database file {file}.",
            todo="Run `hookfast migrate` to create it; or correct HOOKFAST_HOME or "
            "HOOKFAST_DATABASE_URL if it is elsewhere.",
        )


def _failed(check: str, obstacle: Obstacle) -> Finding:
    return fail(check, obstacle.saw, todo=obstacle.todo)


async def _check(
    database: Database, connection: AsyncConnection, clock: Clock
) -> AsyncIterator[Finding]:
    if database.servers is not None:
        facts = await server_facts.postgresql_settings(connection)
        yield ok(
            "database",
            f"PostgreSQL {facts['server_version']} at {database.servers}, "
            f"database {await connection.scalar(text('SELECT current_database()'))}.",
        )
    else:
        yield ok("database", f"SQLite, {database.file}.")
    heartbeats = None
    if obstacles := await find_obstacles(database, connection):
        for obstacle in obstacles:
            yield _failed("database.requirements", obstacle)
    else:
        yield ok("database.requirements", "Hookfast may do there what it has to.")
        found = _check_schema(await schema(connection), await current_revision(connection))
        yield found
        if found.status != "fail":
            heartbeats = await workers.latest_heartbeats(connection)
    now = clock()
    if database.servers is not None:
        skew = await measure_skew(connection, clock=clock)
        now = clock() + skew.ahead  # the clock of the heartbeats
        alive = count_alive(heartbeats or [], now)
        connections = await server_facts.postgresql_connections(connection)
        for finding in check_postgresql(facts, connections, workers_seen=alive):
            yield finding
        yield check_database_clock(skew)
        if await server_facts.is_pooled(connection):
            yield warn(
                "database.pooler",
                "A pooler such as PgBouncer stands before PostgreSQL.",
                todo="Make sure that it is in session mode: in transaction mode prepared "
                "statements fail, and deliveries start up to a second late.",
            )
    else:
        yield ok("database.settings", "Write-ahead log; every commit is synced to the disk.")
    if heartbeats is not None:
        for finding in check_workers(heartbeats, now):
            yield finding


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
