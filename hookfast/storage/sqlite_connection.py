"""An aiosqlite connection that crosses to its thread once per statement.

aiosqlite crosses for the cursor, the execution, the fetch and the close; SQLAlchemy wants all four
for every statement. Here a statement runs, is fetched and closed in one crossing, which also begins
the transaction if none is open. An emit to one subscriber crosses five times.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from threading import Thread
from typing import Any, Literal

import aiosqlite
from aiosqlite.core import _connection_worker_thread

Begin = Literal["BEGIN", "BEGIN IMMEDIATE"]

_PATIENCE_SECONDS = 30
_LOOK_SECONDS = 0.001
_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    # FULL: an acknowledged event survives a power cut, not only a killed process
    "PRAGMA synchronous=FULL",
    # 4 MiB for each of a process's five connections. With 64 an API process grew by 75 MiB over
    # 40,000 deliveries, and no statement got cheaper: the system has the file's pages in memory too
    "PRAGMA cache_size=-4096",
)


def connector(file: str, begin: Begin) -> Callable[..., Awaitable[aiosqlite.Connection]]:
    """What SQLAlchemy opens connections to `file` with (`async_creator`). `begin` starts their
    transactions: IMMEDIATE takes the write lock first, so that no transaction fails half-way for
    having to upgrade."""

    async def connect(*_: object, **__: object) -> aiosqlite.Connection:
        connection = _Connection(partial(_open, file, begin), 64)
        connection._thread = Thread(
            target=work,
            args=(asyncio.get_running_loop(), connection._tx),
            daemon=True,  # as SQLAlchemy does with the connections it makes
        )
        connection.begin = begin
        return await connection

    return connect


def work(loop: asyncio.AbstractEventLoop, queue: Any) -> None:
    """Do what a connection has to do, as its thread, also when `loop`, which asked, is closed. A
    file that cannot be opened and a statement whose caller was cancelled are answered after that if
    the loop is faster: nobody is left to be told, but what follows in the queue still closes the
    connection."""
    while True:
        try:
            _connection_worker_thread(queue)
            return
        except RuntimeError:
            if not loop.is_closed():
                raise
            if queue.empty():
                return


def _open(file: str, begin: Begin) -> sqlite3.Connection:
    # isolation_level None: the driver leaves transactions to us
    connection = sqlite3.connect(file, timeout=_PATIENCE_SECONDS, isolation_level=None)
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    if begin == "BEGIN IMMEDIATE":
        connection.execute("PRAGMA busy_timeout=0")  # `_begin` waits, and nothing after it has to
    return connection


def _begin(connection: sqlite3.Connection, begin: Begin) -> None:
    """Begin a transaction, a writing one when another process's has ended. SQLite itself would look
    for that after 1, 2, 5, 10, 15, 20, 25, … ms: where three processes write half of the time, one
    in a hundred then waits for 0.5 s, and here for 0.03 s."""
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            connection.execute(begin)
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > give_up_at:
                raise
            time.sleep(_LOOK_SECONDS)
        else:
            return


class _Connection(aiosqlite.Connection):
    begin: Begin = "BEGIN"

    def cursor(self) -> Any:
        return _Cursor(self)

    async def run(self, method: str, sql: str, parameters: Any) -> _Result:
        """Execute in the thread, all in one go."""
        call = partial(_run, self._conn, self.begin, method, sql, parameters)
        result: _Result = await self._execute(call)  # type: ignore[no-untyped-call]
        return result

    async def commit(self) -> None:
        if self._conn.in_transaction:
            await super().commit()

    async def rollback(self) -> None:
        if self._conn.in_transaction:
            await super().rollback()


class _Result:
    __slots__ = ("description", "lastrowid", "rowcount", "rows")

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self.description = cursor.description
        self.rows: Sequence[Any] = cursor.fetchall() if self.description else ()
        self.rowcount = cursor.rowcount  # after the fetch: RETURNING counts as it goes
        self.lastrowid = cursor.lastrowid


def _run(
    connection: sqlite3.Connection, begin: Begin, method: str, sql: str, parameters: Any
) -> _Result:
    if not connection.in_transaction:
        _begin(connection, begin)
    cursor = connection.cursor()
    try:
        getattr(cursor, method)(sql, parameters)
        return _Result(cursor)
    finally:
        cursor.close()


class _Cursor:
    """The part of an aiosqlite cursor that SQLAlchemy uses, with the rows fetched already."""

    arraysize = 1
    description: Any = None
    rowcount = -1
    lastrowid: int | None = None

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._rows: Sequence[Any] = ()

    async def __aenter__(self) -> _Cursor:
        return self

    async def execute(self, sql: str, parameters: Any = ()) -> _Cursor:
        return await self._keep("execute", sql, parameters)

    async def executemany(self, sql: str, parameters: Any) -> _Cursor:
        return await self._keep("executemany", sql, parameters)

    async def fetchall(self) -> Sequence[Any]:
        rows, self._rows = self._rows, ()
        return rows

    async def close(self) -> None:
        """Nothing is open: the thread closed its cursor after the fetch."""

    async def _keep(self, method: str, sql: str, parameters: Any) -> _Cursor:
        result = await self._connection.run(method, sql, parameters)
        self.description = result.description
        self.rowcount = result.rowcount
        self.lastrowid = result.lastrowid
        self._rows = result.rows
        return self
