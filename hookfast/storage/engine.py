"""The database: one `Database` per process, with `read()` and `write()` transactions.

SQLite has one writer at a time. A process queues its own writers on a single connection, so that
they wait in order instead of polling a locked file; across processes `BEGIN IMMEDIATE` and
`busy_timeout` do the same. PostgreSQL uses one pool for both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, Self

from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from hookfast.errors import Misconfigured
from hookfast.storage.sqlite_connection import Begin, connector

Kind = Literal["sqlite", "postgresql"]


class Database:
    """Opens transactions. `write()` commits when its block ends and rolls back when it raises."""

    def __init__(self, url: str, *, pool_size: int = 10) -> None:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
        if backend == "sqlite":
            if not parsed.database or parsed.database == ":memory:":
                raise Misconfigured("HOOKFAST_DATABASE_URL must name a SQLite file, not memory")
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
            self._writer = _sqlite_engine(parsed.database, size=1, begin="BEGIN IMMEDIATE")
            self._reader = _sqlite_engine(parsed.database, size=4, begin="BEGIN")
            self.kind: Kind = "sqlite"
        elif backend == "postgresql":
            self._writer = self._reader = create_async_engine(
                url,
                pool_size=pool_size,
                max_overflow=pool_size,
                pool_pre_ping=True,
                hide_parameters=True,  # bodies and secrets stay out of error texts
            )
            self.kind = "postgresql"
        else:
            raise Misconfigured(
                f"HOOKFAST_DATABASE_URL names {backend!r}; use postgresql:// or sqlite:///"
            )
        self.url = url

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that only reads."""
        async with self._reader.connect() as connection, connection.begin():
            yield connection

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that commits at the end of the block."""
        async with self._writer.connect() as connection, connection.begin():
            yield connection

    async def close(self) -> None:
        """Give every connection back to the system."""
        await self._writer.dispose()
        if self._reader is not self._writer:
            await self._reader.dispose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


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
