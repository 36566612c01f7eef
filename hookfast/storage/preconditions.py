"""What a database must be like for Hookfast to work, looked at before work begins.

The start of each process, `hookfast migrate` and `hookfast doctor` use this list. Each obstacle is
one that would be found out late otherwise: by the first event in Japanese, by a migration that
fails half-way, or by the first insert.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

from sqlalchemy import inspect, text
from sqlalchemy.engine import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.settings.database_url import VARIABLE
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import Schema, current_revision, schema
from hookfast.storage.database.obstacle import Obstacle, identifier
from hookfast.storage.database.unusable import unusable_file
from hookfast.storage.tables import Record

_OLDEST_POSTGRESQL: Final = 140_000  # the oldest version with the partitions that ADR 12 needs
_OLDEST_SQLITE: Final = (3, 38, 0)  # the oldest with `->>`
_SQLITE_HEADER: Final = b"SQLite format 3\0"
_REVISION: Final = re.compile(r"\d{4}")  # of our migrations
_PATH_ENTRY: Final = re.compile(r'"((?:[^"]|"")*)"|([^\s,"]+)')
_ALEMBIC: Final = "alembic_version"
_NAMED: Final = 3

_FACTS: Final = text("""
    SELECT current_setting('server_version') AS version,
      current_setting('server_version_num')::int AS version_number,
      current_setting('server_encoding') AS encoding,
      current_setting('transaction_read_only') = 'on' AS read_only,
      pg_is_in_recovery() AS standby,
      current_user AS role,
      current_database() AS database,
      current_schema() AS schema,
      current_setting('search_path') AS search_path,
      coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create
""")
_SCHEMAS: Final = text("""
    SELECT nspname, has_schema_privilege(oid, 'USAGE') AS may_use FROM pg_namespace
""")
_RIGHTS: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
_TABLES: Final = text("""
    SELECT c.relname AS name, pg_get_userbyid(c.relowner) AS owner,
      pg_has_role(c.relowner, 'USAGE') AS owned,
      (SELECT bool_and(has_table_privilege(c.oid, one)) FROM unnest(CAST(:rights AS text[])) one)
      AS usable
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = current_schema() AND c.relname = ANY(:names) ORDER BY c.relname
""")


async def find_obstacles(database: Database, connection: AsyncConnection) -> list[Obstacle]:
    """Return what keeps Hookfast from working with this database. Reads only."""
    if database.file is not None:
        return [one async for one in _of_sqlite(connection, database.file)]
    facts = (await connection.execute(_FACTS)).one()
    obstacles = list(_of_server(facts))
    if obstacles:
        return obstacles
    schemas = {name: may_use for name, may_use in await connection.execute(_SCHEMAS)}
    obstacles = list(_of_search_path(facts, schemas))
    if obstacles:
        return obstacles
    names = [_ALEMBIC, *Record.metadata.tables]
    tables = list(await connection.execute(_TABLES, {"names": names, "rights": [*_RIGHTS]}))
    readable = all(one.usable for one in tables if one.name == _ALEMBIC)
    foreign = await _of_foreign_tables(connection) if readable else None
    if (obstacle := foreign or _of_closed_tables(facts, tables)) is not None:
        return [obstacle]
    return list(_of_migration(facts, await schema(connection), tables))


def obstacle_of_file(file: Path) -> Obstacle | None:
    """Return what is wrong with an existing SQLite file, without opening it as a database. Raises
    FileNotFoundError if there is none."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return unusable_file(file, "it is not a file")
        with file.open("rb") as opened_file:
            header = opened_file.read(len(_SQLITE_HEADER))
    except FileNotFoundError:
        raise
    except OSError as error:
        return unusable_file(file, error.strerror or type(error).__name__)
    if header not in (b"", _SQLITE_HEADER):
        return unusable_file(file, "it is not a database")
    if not os.access(file, os.W_OK):
        return unusable_file(file, "this user may not write to it, or its disk is read-only")
    if not os.access(file.parent, os.W_OK | os.X_OK):
        return unusable_file(file, "this user may not write to its folder, where the log goes")
    return None


async def _of_sqlite(connection: AsyncConnection, file: Path) -> AsyncIterator[Obstacle]:
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        yield Obstacle(
            f"Python's SQLite is {sqlite3.sqlite_version}, older than Hookfast supports.",
            f"Use a Python with SQLite {'.'.join(map(str, _OLDEST_SQLITE))} or newer.",
        )
    journal = str(await connection.scalar(text("PRAGMA journal_mode")))
    if journal.lower() != "wal":
        yield Obstacle(
            f"The journal mode of {file} is {journal}: this file system does not support WAL, so "
            "readers and writers wait for each other, and locks may not work.",
            "Move HOOKFAST_HOME to a local disk (no NFS or SMB), or use PostgreSQL.",
        )
    if (foreign := await _of_foreign_tables(connection)) is not None:
        yield foreign


def _of_server(facts: Row[Any]) -> Iterator[Obstacle]:
    if facts.version_number < _OLDEST_POSTGRESQL:
        yield Obstacle(
            f"PostgreSQL {facts.version} is older than Hookfast supports.",
            "Upgrade it to 14 or newer, to a version that PostgreSQL still supports.",
        )
    if facts.encoding != "UTF8":
        yield Obstacle(
            f"The database {facts.database} has the encoding {facts.encoding}; Hookfast needs "
            "UTF8, because events and names may have any character.",
            f"Run CREATE DATABASE {identifier(facts.database + '_utf8')} ENCODING 'UTF8' LOCALE "
            f"'C' TEMPLATE template0; and name that database in {VARIABLE}.",
        )
    if facts.standby:
        yield Obstacle(
            "Transactions are read-only: the server is a standby.",
            f"Name the primary in {VARIABLE}, or all servers (host1,host2).",
        )
    elif facts.read_only:
        yield Obstacle(
            "Transactions are read-only by default of the server, the database or the role.",
            f"Run ALTER ROLE {identifier(facts.role)} SET default_transaction_read_only = off; and "
            f"remove that setting from {VARIABLE}. Or name the primary there, if it is another "
            "server by now.",
        )


def _of_search_path(facts: Row[Any], schemas: dict[str, bool]) -> Iterator[Obstacle]:
    path = [
        quoted.replace('""', '"') or plain
        for quoted, plain in _PATH_ENTRY.findall(facts.search_path)
    ]
    if path[:1] == ["$user"] and facts.role not in schemas:
        path = path[1:]  # PostgreSQL's default begins with it
    first = facts.role if path[:1] == ["$user"] else next(iter(path), None)
    if first is None:
        yield Obstacle(
            f"The search_path of {facts.role} is empty.",
            f"Run ALTER ROLE {identifier(facts.role)} SET search_path = public;",
        )
    elif first not in schemas:
        yield Obstacle(
            f"The search_path begins with the schema {first}, which the database {facts.database} "
            "does not have.",
            f"Run there: CREATE SCHEMA {identifier(first)} AUTHORIZATION "
            f"{identifier(facts.role)}; or correct search_path in {VARIABLE} or of the role.",
        )
    elif not schemas[first]:
        yield Obstacle(
            f"The user {facts.role} may not use the schema {first} of the database "
            f"{facts.database}.",
            f"Run there, as its owner: GRANT USAGE, CREATE ON SCHEMA {identifier(first)} TO "
            f"{identifier(facts.role)};",
        )


def _of_closed_tables(facts: Row[Any], tables: list[Row[Any]]) -> Obstacle | None:
    closed = [one.name for one in tables if not one.usable]
    if not closed:
        return None
    return Obstacle(
        f"The user {facts.role} may not read and write the tables of the schema {facts.schema}: "
        f"{_some(closed)}.",
        f"Run in the database {facts.database}, as their owner: GRANT {', '.join(_RIGHTS)} ON ALL "
        f"TABLES IN SCHEMA {identifier(facts.schema)} TO {identifier(facts.role)};",
    )


def _of_migration(facts: Row[Any], state: Schema, tables: list[Row[Any]]) -> Iterator[Obstacle]:
    if state not in ("none", "behind"):
        return
    role = identifier(facts.role)
    if not facts.may_create:
        yield Obstacle(
            f"The user {facts.role} may not create tables in the schema {facts.schema} of the "
            f"database {facts.database}.",
            f"Run there, as the owner of the schema: GRANT USAGE, CREATE ON SCHEMA "
            f"{identifier(facts.schema)} TO {role};",
        )
    if foreign := [one for one in tables if not one.owned]:
        yield Obstacle(
            f"The user {facts.role} may not change the tables, which belong to {foreign[0].owner}.",
            f"Run `hookfast migrate` as that user; or run in the database {facts.database}: GRANT "
            f"{identifier(foreign[0].owner)} TO {role};",
        )


async def _of_foreign_tables(connection: AsyncConnection) -> Obstacle | None:
    """Return an obstacle if another application has tables here with names of ours, or its own
    migrations in `alembic_version`."""
    revision = await current_revision(connection)
    if revision is not None and not _REVISION.fullmatch(revision):
        found = [_ALEMBIC]
    elif revision is None:
        names = set(await connection.run_sync(lambda sync: inspect(sync).get_table_names()))
        found = sorted(names & set(Record.metadata.tables))
    else:
        return None
    if not found:
        return None
    advice = "Create a database for Hookfast alone"
    if connection.dialect.name == "postgresql":
        advice += " (or a schema of its own, named by search_path in the URL)"
    return Obstacle(
        f"The database has tables of another application: {_some(found)}.",
        f"{advice}, and name it in {VARIABLE}.",
    )


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
