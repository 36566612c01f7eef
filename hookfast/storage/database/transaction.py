"""Transactions, and the connections that they run on.

A connection is kept with its SQLAlchemy layers between transactions, and the transactions are the
driver's own. Taking a connection from SQLAlchemy's pool for each transaction took 90 µs of CPU on
SQLite and 170 on PostgreSQL, several times as much as a statement; here it takes 3 and 25.
"""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Final, cast

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import QueuePool

from hookfast.storage.database import after_commit, postgresql_engine
from hookfast.storage.database.availability import connection_lost, sqlstate
from hookfast.storage.database.driver import driver_of, raise_as_sqlalchemy
from hookfast.storage.database.postgresql_servers import TOO_MANY_CONNECTIONS

_FULL_SECONDS = 5.0
_FULL_SECONDS_ALONE = 1.0
_FULL_PAUSE_SECONDS = 0.05
"""Waits for a connection while PostgreSQL has none left."""
_ALIVE_SECONDS: Final = 0.1
"""A connection of PostgreSQL that was used within this time is not checked before statements
without a transaction, unless the driver knows that it has ended."""
_PING: Final = "SELECT"


class Connections:
    """The open connections of an engine. The one that was used last is lent first."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._pool = cast(QueuePool, engine.pool)
        self._is_sqlite = engine.dialect.name == "sqlite"
        self._free: list[tuple[AsyncConnection, float]] = []
        self._lent = self._waiting = 0
        self._returning: set[asyncio.Task[None]] = set()
        self._closed = False

    async def lend(self, *, quick: bool, alone: bool) -> AsyncConnection:
        """Take a connection, and begin a transaction, unless its statements are to run `alone`. On
        SQLite, the first statement begins it.

        On PostgreSQL this checks the connection too: it may have ended while nobody used it."""
        begin = _PING if alone else "BEGIN"
        checked = False
        while True:
            used_at = 0.0
            if self._free:
                connection, used_at = self._free.pop()
            else:
                connection = await self._connect()
            self._lent += 1
            if self._is_sqlite:
                driver_of(connection).quick = quick
                return connection
            just_used = time.monotonic() - used_at < _ALIVE_SECONDS
            if alone and just_used and not driver_of(connection).is_closed():
                return connection
            try:
                await _execute(connection, begin, timeout=postgresql_engine.PING_SECONDS)
            except BaseException as error:
                # The pool opens new ones in place of all that are as old as a broken one.
                ended = connection.invalidated and isinstance(error, SQLAlchemyError)
                await self.discard(connection, may_have_begun=not alone)
                if checked or not ended:
                    raise
                checked = True
            else:
                return connection

    async def end(self, connection: AsyncConnection, *, alone: bool) -> None:
        """Commit the transaction. If that raises, the caller discards the connection."""
        sync = connection.sync_connection
        assert sync is not None  # noqa: S101 - it is open
        if self._is_sqlite:
            if sync.in_transaction():
                await connection.commit()
                return
            try:
                await driver_of(connection).commit()
            except Exception as error:
                await raise_as_sqlalchemy(connection, error, "COMMIT")
            return
        if sync.in_transaction():
            sync.commit()  # tells its listeners, and sends nothing
        if not alone:
            await _execute(connection, "COMMIT")

    async def take_back(self, connection: AsyncConnection) -> None:
        """Take back a connection whose transaction has ended."""
        if self._waiting or self._closed or self._are_enough:
            await self.discard(connection)
        else:
            self._lent -= 1
            self._free.append((connection, time.monotonic()))

    async def discard(self, connection: AsyncConnection, *, may_have_begun: bool = False) -> None:
        """Roll the transaction back, if one is open, and return the connection to the pool. With
        `may_have_begun`, one may be open of which the driver has not heard: BEGIN was cancelled."""
        self._lent -= 1
        # in a task of its own, as SQLAlchemy does: it goes on when its caller is cancelled
        returned = asyncio.create_task(self._return(connection, may_have_begun))
        self._returning.add(returned)
        returned.add_done_callback(self._returning.discard)
        await asyncio.shield(returned)

    async def close(self) -> None:
        """Close all connections. Those in use are closed when they are returned."""
        self._closed = True
        await self._return_free()
        if self._returning:
            await asyncio.wait(self._returning)
        await self._engine.dispose()

    @property
    def _are_enough(self) -> bool:
        """Whether so many connections are open unused that another one is closed."""
        return len(self._free) + self._pool.checkedin() >= self._pool.size()

    async def _return(self, connection: AsyncConnection, may_have_begun: bool) -> None:
        if not connection.invalidated:
            try:
                driver = driver_of(connection)
                if self._is_sqlite:
                    await driver.rollback()
                elif may_have_begun or driver.is_in_transaction():
                    await driver.execute("ROLLBACK", timeout=postgresql_engine.PING_SECONDS)
            except Exception:
                await connection.invalidate()
        if connection.invalidated:
            await self._return_free()  # they may have ended too: the pool knows
        elif self._closed or self._are_enough:
            await connection.invalidate()  # a pool that was disposed of closes no more connections
        await connection.close()

    async def _return_free(self) -> None:
        free, self._free = self._free, []
        for connection, _ in free:
            await connection.close()

    async def _connect(self) -> AsyncConnection:
        """Take a connection from the pool. While PostgreSQL has none left, wait for one that others
        of this process return, or for a moment if they have none."""
        begun, tries = time.monotonic(), 0
        self._waiting += 1
        try:
            while True:
                try:
                    return await _opened(self._engine)
                except SQLAlchemyError as error:
                    patience = _FULL_SECONDS if self._lent else _FULL_SECONDS_ALONE
                    late = time.monotonic() > begun + patience
                    if sqlstate(error) != TOO_MANY_CONNECTIONS or late:
                        raise
                # pooled connections may have ended, so each of the first tries takes another
                tries += 1
                if tries > self._pool.checkedin():
                    await asyncio.sleep(_FULL_PAUSE_SECONDS)
        finally:
            self._waiting -= 1


class Transaction:
    """A transaction of `Connections`, as a context manager. It commits at the end of the block, or
    rolls back if that raises (the connection's own `rollback` is SQLAlchemy's, and changes
    nothing); after the commit, it calls the functions that `after_commit` collected. `alone`: its
    statements run by themselves on PostgreSQL (see `Database`)."""

    __slots__ = ("_alone", "_connection", "_connections", "_functions", "_quick")

    def __init__(self, connections: Connections, *, quick: bool, alone: bool = False) -> None:
        self._connections = connections
        self._quick = quick
        self._alone = alone

    async def __aenter__(self) -> AsyncConnection:
        self._connection = await self._connections.lend(quick=self._quick, alone=self._alone)
        self._functions = after_commit.begin(self._connection)
        return self._connection

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        connections, connection = self._connections, self._connection
        if kind is not None:
            await connections.discard(connection)
            return
        try:
            await connections.end(connection, alone=self._alone)
        except BaseException:
            await connections.discard(connection)
            raise
        await connections.take_back(connection)
        for function in self._functions:
            function()


async def _execute(connection: AsyncConnection, sql: str, *, timeout: float | None = None) -> None:
    try:
        await driver_of(connection).execute(sql, timeout=timeout)
    except Exception as error:
        await raise_as_sqlalchemy(connection, error, sql)


async def _opened(engine: AsyncEngine) -> AsyncConnection:
    try:
        return await engine.connect()
    except postgresql_engine.BROKEN as error:  # SQLAlchemy wraps none raised while connecting
        raise connection_lost(error) from error
