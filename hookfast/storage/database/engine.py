"""The database: one `Database` per process, with `read()` and `write()` transactions.

SQLite has one writer at a time. A process queues its own writers on a single connection, so that
they wait in order instead of polling a locked file; the writers of several processes poll every
millisecond. PostgreSQL uses one pool for both. Every wait has a time limit, and every error
is one of SQLAlchemy's (`availability`).
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Self

from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from hookfast.settings.database_url import Kind, kind_of, sqlite_file
from hookfast.storage.database.postgresql_engine import STATEMENT_SECONDS, postgresql_engine
from hookfast.storage.database.postgresql_servers import PostgresqlServers
from hookfast.storage.database.sqlite_connection import Begin, connector
from hookfast.storage.database.transaction import Connections, Transaction
from hookfast.strict_json.text import from_text, to_text

_BACKGROUND_CONNECTIONS = 2
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
        self._writes = self._reads = Connections(self._writer)
        if self._reader is not self._writer:
            self._reads = Connections(self._reader)
        self.url = url
        separate = self.kind == "postgresql" and _foreground is None
        self.background = Database(url, _foreground=self) if separate else self

    def read(self, *, quick: bool = False) -> Transaction:
        """Open a transaction that only reads. With `quick`, for a few short statements, they run on
        the event loop's thread on SQLite, and each by itself on PostgreSQL, which saves two round
        trips; without, a transaction of PostgreSQL may see one state of the database (`freeze`)."""
        return Transaction(self._reads, quick=quick, alone=quick)

    def write(self, *, quick: bool = False, alone: bool = False) -> Transaction:
        """Open a transaction that commits at the end of the block. With `quick`, for a few short
        statements, they run on the event loop's thread on SQLite. With `alone`, its only statement
        commits by itself on PostgreSQL, which saves two round trips."""
        return Transaction(self._writes, quick=quick, alone=alone)

    async def close(self) -> None:
        """Close all connections. Those in use are closed when they are returned."""
        if self.background is not self:
            await self.background.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS if self.kind == "postgresql" else None):
                await self._writes.close()
        if self._reads is not self._writes:
            await self._reads.close()

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
