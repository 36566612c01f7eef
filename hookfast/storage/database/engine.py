"""The database: one `Database` per process, with `read()` and `write()` transactions.

SQLite has one writer at a time. A process queues its own writers on a single connection, so that
they wait in order instead of polling a locked file; the writers of several processes poll every
millisecond. PostgreSQL uses one pool for both. Every wait has a time limit: past it, one of
SQLAlchemy's errors or an OSError is raised.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal, Self

from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from hookfast.errors import Misconfigured
from hookfast.storage.database import after_commit
from hookfast.storage.database.postgresql_engine import STATEMENT_SECONDS, postgresql_engine
from hookfast.storage.database.sqlite_connection import Begin, SqliteConnection, connector

Kind = Literal["sqlite", "postgresql"]

_BACKGROUND_CONNECTIONS = 2
_CLOSE_SECONDS = 5.0
"""Closing connections takes a moment, and for ever when the server is silent."""


class Database:
    """Opens transactions. `write()` commits when its block ends and rolls back when it raises;
    after the commit, it calls the functions that `after_commit` collected."""

    background: Database
    """The same database for work that nobody waits for (migrations, retention): its statements have
    no time limit, and run on connections of their own."""

    def __init__(self, url: str, *, pool_size: int = 10, _background: bool = False) -> None:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
        if backend == "sqlite":
            if not parsed.database or parsed.database == ":memory:":
                raise Misconfigured("HOOKFAST_DATABASE_URL must name a SQLite file, not memory")
            _create_private(Path(parsed.database))
            self._writer = _sqlite_engine(parsed.database, size=1, begin="BEGIN IMMEDIATE")
            self._reader = _sqlite_engine(parsed.database, size=4, begin="BEGIN")
            self.kind: Kind = "sqlite"
        elif backend == "postgresql":
            few = _BACKGROUND_CONNECTIONS
            self._writer = self._reader = postgresql_engine(
                url,
                pool_size=1 if _background else pool_size,
                max_overflow=few - 1 if _background else max(0, pool_size - few),
                statement_seconds=None if _background else STATEMENT_SECONDS,
            )
            self.kind = "postgresql"
        else:
            raise Misconfigured(
                f"HOOKFAST_DATABASE_URL names {backend!r}; use postgresql:// or sqlite:///"
            )
        self.url = url
        separate = self.kind == "postgresql" and not _background
        self.background = Database(url, _background=True) if separate else self

    @asynccontextmanager
    async def read(self, *, quick: bool = False) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that only reads. With `quick`, for a few short statements, they run on
        the event loop's thread on SQLite."""
        async with self._reader.connect() as connection:
            self._set_quick(connection, quick)
            async with connection.begin():
                yield connection

    @asynccontextmanager
    async def write(self, *, quick: bool = False) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that commits at the end of the block. `quick` as in `read`."""
        async with self._writer.connect() as connection:
            self._set_quick(connection, quick)
            functions = after_commit.begin(connection)
            async with connection.begin():
                yield connection
        for function in functions:
            function()

    async def close(self) -> None:
        """Close all connections."""
        if self.background is not self:
            await self.background.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS if self.kind == "postgresql" else None):
                await self._writer.dispose()
        if self._reader is not self._writer:
            await self._reader.dispose()

    def _set_quick(self, connection: AsyncConnection, quick: bool) -> None:
        if self.kind == "sqlite" and connection.sync_connection is not None:
            driver = connection.sync_connection.connection.driver_connection
            if isinstance(driver, SqliteConnection):
                driver.quick = quick

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _create_private(file: Path) -> None:
    """Create the file and its folder, if missing, with access for this user only. The log and the
    index that SQLite puts beside the file get its mode."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        # Only a new file: closing one that this process has open elsewhere would drop the locks
        # that SQLite holds on it.
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _sqlite_engine(file: str, *, size: int, begin: Begin) -> AsyncEngine:
    return create_async_engine(
        "sqlite+aiosqlite:///",
        async_creator=connector(file, begin),
        poolclass=AsyncAdaptedQueuePool,
        pool_size=size,
        max_overflow=0,
        pool_timeout=60,
        hide_parameters=True,
    )
