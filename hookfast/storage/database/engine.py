"""The database: one `Database` per process, with `read()` and `write()` transactions.

SQLite has one writer at a time. A process queues its own writers on a single connection, so that
they wait in order instead of polling a locked file; the writers of several processes poll every
millisecond. PostgreSQL uses one pool for both. Every wait has a time limit, and every error
is one of SQLAlchemy's (`availability`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, QueuePool

from hookfast.settings.database_url import Kind, kind_of, sqlite_file
from hookfast.storage.database import after_commit
from hookfast.storage.database.availability import connection_lost, sqlstate
from hookfast.storage.database.postgresql_engine import (
    BROKEN,
    STATEMENT_SECONDS,
    postgresql_engine,
)
from hookfast.storage.database.postgresql_servers import TOO_MANY_CONNECTIONS, PostgresqlServers
from hookfast.storage.database.sqlite_connection import Begin, SqliteConnection, connector
from hookfast.strict_json.text import from_text, to_text

_BACKGROUND_CONNECTIONS = 2
_FULL_SECONDS = 5.0
_FULL_SECONDS_ALONE = 1.0
_FULL_PAUSE_SECONDS = 0.05
"""Waits for a connection while PostgreSQL has none left."""
_CLOSE_SECONDS = 5.0
"""Closing connections takes a moment, and for ever when the server is silent."""


class Database:
    """Opens transactions. `write()` commits when its block ends and rolls back when it raises;
    after the commit, it calls the functions that `after_commit` collected."""

    background: Database
    """The same database for work that nobody waits for (migrations, retention): its statements have
    no time limit, and run on connections of their own."""

    servers: PostgresqlServers | None = None
    """PostgreSQL's servers; None for SQLite."""

    file: Path | None = None
    """SQLite's file; None for PostgreSQL."""

    def __init__(
        self, url: str, *, pool_size: int = 10, _foreground: Database | None = None
    ) -> None:
        self._lent = 0
        self._returning: set[asyncio.Task[None]] = set()
        self._closed = False
        self.kind: Kind = kind_of(url)
        if self.kind == "sqlite":
            self.file = sqlite_file(url)
            _create_private(self.file)
            self._writer = _sqlite_engine(self.file, size=1, begin="BEGIN IMMEDIATE")
            self._reader = _sqlite_engine(self.file, size=4, begin="BEGIN")
        else:
            few = _BACKGROUND_CONNECTIONS
            self.servers = PostgresqlServers(url) if _foreground is None else _foreground.servers
            assert self.servers is not None  # noqa: S101 - the foreground is PostgreSQL, too
            self._writer = self._reader = postgresql_engine(
                self.servers,
                pool_size=pool_size if _foreground is None else 1,
                max_overflow=max(0, pool_size - few) if _foreground is None else few - 1,
                statement_seconds=STATEMENT_SECONDS if _foreground is None else None,
            )
        self.url = url
        separate = self.kind == "postgresql" and _foreground is None
        self.background = Database(url, _foreground=self) if separate else self

    @asynccontextmanager
    async def read(self, *, quick: bool = False) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that only reads. With `quick`, for a few short statements, they run on
        the event loop's thread on SQLite."""
        async with self._lend(self._reader) as connection:
            self._set_quick(connection, quick)
            async with connection.begin():
                yield connection

    @asynccontextmanager
    async def write(self, *, quick: bool = False) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that commits at the end of the block. `quick` as in `read`."""
        async with self._lend(self._writer) as connection:
            self._set_quick(connection, quick)
            functions = after_commit.begin(connection)
            async with connection.begin():
                yield connection
        for function in functions:
            function()

    async def close(self) -> None:
        """Close all connections. Those in use are closed when they are returned."""
        self._closed = True
        if self.background is not self:
            await self.background.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS if self.kind == "postgresql" else None):
                if self._returning:
                    await asyncio.wait(self._returning)
                await self._writer.dispose()
        if self._reader is not self._writer:
            await self._reader.dispose()

    @asynccontextmanager
    async def _lend(self, engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        connection = await self._connect(engine)
        self._lent += 1
        try:
            yield connection
        finally:
            self._lent -= 1
            # in a task of its own, as SQLAlchemy does: it goes on when its caller is cancelled
            returned = asyncio.create_task(self._take_back(connection))
            self._returning.add(returned)
            returned.add_done_callback(self._returning.discard)
            await asyncio.shield(returned)

    async def _take_back(self, connection: AsyncConnection) -> None:
        if self._closed:
            await connection.invalidate()  # its pool closes no more connections
        await connection.close()

    async def _connect(self, engine: AsyncEngine) -> AsyncConnection:
        """Take a connection from the pool. While PostgreSQL has none left, wait for one that others
        of this process return, or for a moment if they have none."""
        begun, tries = time.monotonic(), 0
        while True:
            try:
                return await _opened(engine)
            except SQLAlchemyError as error:
                patience = _FULL_SECONDS if self._lent else _FULL_SECONDS_ALONE
                if sqlstate(error) != TOO_MANY_CONNECTIONS or time.monotonic() > begun + patience:
                    raise
            # pooled connections may have ended, so each of the first tries takes another
            tries += 1
            if tries > _pooled(engine):
                await asyncio.sleep(_FULL_PAUSE_SECONDS)

    def _set_quick(self, connection: AsyncConnection, quick: bool) -> None:
        if self.kind == "sqlite" and connection.sync_connection is not None:
            driver = connection.sync_connection.connection.driver_connection
            if isinstance(driver, SqliteConnection):
                driver.quick = quick

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _opened(engine: AsyncEngine) -> AsyncConnection:
    try:
        return await engine.connect()
    except BROKEN as error:  # SQLAlchemy wraps none that is raised while connecting
        raise connection_lost(error) from error


def _pooled(engine: AsyncEngine) -> int:
    pool = engine.pool
    return pool.checkedin() if isinstance(pool, QueuePool) else 0


def _create_private(file: Path) -> None:
    """Create the file and its folder, if missing, with access for this user only. The log and the
    index that SQLite puts beside the file get its mode."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        # Only a new file: closing one that this process has open elsewhere would drop the locks
        # that SQLite holds on it.
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _sqlite_engine(file: Path, *, size: int, begin: Begin) -> AsyncEngine:
    return create_async_engine(
        "sqlite+aiosqlite:///",
        async_creator=connector(file, begin),
        poolclass=AsyncAdaptedQueuePool,
        pool_size=size,
        max_overflow=0,
        pool_timeout=60,
        hide_parameters=True,
        json_serializer=to_text,
        json_deserializer=from_text,
    )
