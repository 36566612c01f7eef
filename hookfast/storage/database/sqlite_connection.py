"""An aiosqlite connection that switches to its thread once per statement, or not at all.

aiosqlite switches threads for the cursor, the execution, the fetch and the close; SQLAlchemy calls
all four for every statement. Here one switch executes a statement, fetches its rows and closes its
cursor, and also begins the transaction if none is open. In a quick transaction statements run on
the event loop's thread: each takes some 20 µs, and a switch 100. Calls that may wait still switch:
a commit, for the disk, and the start of a transaction while another process writes.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
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
    # 40,000 deliveries, and no statement got cheaper: the system caches the file's pages too
    "PRAGMA cache_size=-4096",
)


def connector(file: Path, begin: Begin) -> Callable[..., Awaitable[aiosqlite.Connection]]:
    """Return the function (`async_creator`) with which SQLAlchemy opens connections to `file`.
    `begin` starts their transactions: IMMEDIATE takes the write lock first, so that no transaction
    fails half-way because it must upgrade its lock."""

    async def connect(*_: object, **__: object) -> aiosqlite.Connection:
        connection = SqliteConnection(partial(_open, file, begin), 64)
        connection._thread = Thread(
            target=work,
            args=(asyncio.get_running_loop(), connection._tx),
            daemon=True,  # as SQLAlchemy does with the connections that it opens
        )
        connection.begin = begin
        return await connection

    return connect


def work(loop: asyncio.AbstractEventLoop, queue: Any) -> None:
    """Run a connection's thread until it is closed, even if `loop`, which its callers ran on, is
    closed first. The error of a file that cannot be opened, or the result of a statement whose
    caller was cancelled, may come after that: no caller is left to get it, but later calls in the
    queue still close the connection."""
    while True:
        try:
            _connection_worker_thread(queue)
            return
        except RuntimeError:
            if not loop.is_closed():
                raise
            if queue.empty():
                return


def _open(file: Path, begin: Begin) -> sqlite3.Connection:
    # isolation_level None: the driver leaves transactions to us
    connection = sqlite3.connect(
        file,
        timeout=_PATIENCE_SECONDS,
        isolation_level=None,
        check_same_thread=False,  # the connection's and the loop's thread use it, one at a time
    )
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    if begin == "BEGIN IMMEDIATE":
        connection.execute("PRAGMA busy_timeout=0")  # `_begin` waits, so nothing after it needs to
    return connection


def _begin(connection: sqlite3.Connection, begin: Begin) -> None:
    """Begin a transaction; if it writes, wait until another process's writing transaction has
    ended. SQLite itself would check that after 1, 2, 5, 10, 15, 20, 25, … ms: with three processes
    that write half of the time, one transaction in a hundred then waits for 0.5 s, and here for
    0.03 s."""
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() <= give_up_at:
        if _begins_at_once(connection, begin):
            return
        time.sleep(_LOOK_SECONDS)
    connection.execute(begin)


def _begins_at_once(connection: sqlite3.Connection, begin: Begin) -> bool:
    """Begin a transaction and return True, unless another process's transaction is in the way."""
    try:
        connection.execute(begin)
    except sqlite3.OperationalError as error:
        if not _is_busy(error):
            raise
        return False
    return True


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


class SqliteConnection(aiosqlite.Connection):
    """A connection whose transactions start with `begin`. With `quick`, the next transaction runs
    its statements on the event loop's thread."""

    begin: Begin = "BEGIN"
    quick: bool = False
    _sent = _done = 0  # calls to the thread; each counter is changed by one thread only

    def cursor(self) -> Any:
        return _Cursor(self)

    async def run(self, method: str, sql: str, parameters: Any) -> _Result:
        """Execute a statement, fetch its rows and close its cursor, in one call."""
        if not self._stays:
            call = partial(_run, self._conn, self.begin, method, sql, parameters)
            result: _Result = await self._execute(call)
            return result
        begun = self._conn.in_transaction or _begins_at_once(self._conn, self.begin)
        if not begun:
            await self._execute(partial(_begin, self._conn, self.begin))
        return _execute(self._conn, method, sql, parameters)

    async def commit(self) -> None:
        if self._is_idle and not self._conn.in_transaction:
            return
        if self._stays and self.begin == "BEGIN":
            self._conn.commit()  # the transaction has only read
        else:
            await super().commit()

    async def rollback(self) -> None:
        if self._is_idle and not self._conn.in_transaction:
            return
        if self._stays:
            self._conn.rollback()
        else:
            await super().rollback()

    @property
    def _stays(self) -> bool:
        """Whether statements may run on the event loop's thread."""
        return self.quick and self._is_idle

    @property
    def _is_idle(self) -> bool:
        """Whether the other thread runs nothing. It may still run a call whose caller was
        cancelled, which may begin a transaction: then all that follows waits behind it."""
        return self._sent == self._done

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def counted() -> Any:
            try:
                return fn(*args, **kwargs)
            finally:
                self._done += 1

        self._sent += 1
        return await super()._execute(counted)  # type: ignore[no-untyped-call]


class _Result:
    __slots__ = ("description", "lastrowid", "rowcount", "rows")

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self.description = cursor.description
        self.rows: Sequence[Any] = cursor.fetchall() if self.description else ()
        self.rowcount = cursor.rowcount  # after the fetch: with RETURNING it counts fetched rows
        self.lastrowid = cursor.lastrowid


def _run(
    connection: sqlite3.Connection, begin: Begin, method: str, sql: str, parameters: Any
) -> _Result:
    if not connection.in_transaction:
        _begin(connection, begin)
    return _execute(connection, method, sql, parameters)


def _execute(connection: sqlite3.Connection, method: str, sql: str, parameters: Any) -> _Result:
    cursor = connection.cursor()
    try:
        getattr(cursor, method)(sql, parameters)
        return _Result(cursor)
    finally:
        cursor.close()


class _Cursor:
    """The part of an aiosqlite cursor that SQLAlchemy uses, with all rows already fetched."""

    arraysize = 1
    description: Any = None
    rowcount = -1
    lastrowid: int | None = None

    def __init__(self, connection: SqliteConnection) -> None:
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
        """Do nothing: the thread closed its cursor after the fetch."""

    async def _keep(self, method: str, sql: str, parameters: Any) -> _Cursor:
        result = await self._connection.run(method, sql, parameters)
        self.description = result.description
        self.rowcount = result.rowcount
        self.lastrowid = result.lastrowid
        self._rows = result.rows
        return self
