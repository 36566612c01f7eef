"""A store in a table of an SQL database, through any DB-API 2.0 driver (PEP 249).

For SQLite (3.24 and later) and PostgreSQL, whose `ON CONFLICT … DO UPDATE … WHERE` makes a claim
atomic. Times are this machine's: keep the clocks of machines that share the table in step.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from .errors import LeaseLost, Misconfigured
from .store import Begun, Done, Fresh, InProgress

# SQLite takes any type's name; it keeps bytes as they are in a column of an unknown type.
_TABLE = """
CREATE TABLE IF NOT EXISTS {table} (
  receipt_key TEXT PRIMARY KEY,
  token TEXT NOT NULL,
  result BYTEA,               -- NULL: being worked on
  expires_at BIGINT NOT NULL  -- Unix milliseconds: the end of the lease, or of the remembering
)"""
_INDEX = "CREATE INDEX IF NOT EXISTS {index}_expires_at ON {table} (expires_at)"

# Takes what nobody has: no row, or one that is over. Whether it did is read from the token.
_BEGIN = """
INSERT INTO {table} AS held (receipt_key, token, result, expires_at) VALUES (?, ?, NULL, ?)
ON CONFLICT (receipt_key) DO UPDATE
SET token = excluded.token, result = NULL, expires_at = excluded.expires_at
WHERE held.expires_at <= ?"""
# Inserts where the lease ran out and the row was purged: the work is done all the same.
_FINISH = """
INSERT INTO {table} AS held (receipt_key, token, result, expires_at) VALUES (?, ?, ?, ?)
ON CONFLICT (receipt_key) DO UPDATE
SET result = excluded.result, expires_at = excluded.expires_at
WHERE held.token = excluded.token"""
_READ = "SELECT token, result FROM {table} WHERE receipt_key = ?"
_ABANDON = "DELETE FROM {table} WHERE receipt_key = ? AND token = ? AND result IS NULL"
_PURGE = "DELETE FROM {table} WHERE expires_at <= ?"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,50}(\.[A-Za-z_][A-Za-z0-9_]{0,50})?")
_PLACEHOLDERS = {"qmark": "?", "format": "%s", "pyformat": "%s"}


class SqlStore:
    """`connect` gives a DB-API connection, which is closed after each call (a pool's connection
    goes back); `paramstyle` is the driver module's attribute of that name.

        SqlStore(lambda: sqlite3.connect("receipts.db"))
        SqlStore(lambda: psycopg.connect(url), paramstyle=psycopg.paramstyle)
        SqlStore.from_sqlalchemy(engine)

    `create_table` once (or run `ddl()` in a migration of yours), and `purge` now and then.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        *,
        paramstyle: str = "qmark",
        table: str = "hookfast_receipts",
        clock: Callable[[], float] = time.time,
    ) -> None:
        if paramstyle not in _PLACEHOLDERS:
            raise Misconfigured(f"paramstyle is one of {', '.join(_PLACEHOLDERS)}")
        if not _NAME.fullmatch(table):
            raise Misconfigured("the table's name is letters, digits and _, perhaps schema.table")
        self._connect = connect
        self._placeholder = _PLACEHOLDERS[paramstyle]
        self._table = table
        self._clock = clock

    @classmethod
    def from_sqlalchemy(cls, engine: Any, *, table: str = "hookfast_receipts") -> SqlStore:
        """On the pool of a (synchronous) SQLAlchemy engine."""
        return cls(engine.raw_connection, paramstyle=engine.dialect.dbapi.paramstyle, table=table)

    def ddl(self) -> tuple[str, ...]:
        """The statements that make the table, for a migration."""
        # an index is made in its table's schema, and its name must not repeat the schema
        index = _INDEX.replace("{index}", self._table.rpartition(".")[2])
        return (self._sql(_TABLE), self._sql(index))

    def create_table(self) -> None:
        """Make the table, unless it is there."""
        with self._transaction() as cursor:
            for statement in self.ddl():
                cursor.execute(statement)

    def begin(self, key: str, *, lease: timedelta) -> Begun:
        claim = Fresh(key=key, token=secrets.token_hex(16))
        while True:
            with self._transaction() as cursor:
                now = self._now()
                cursor.execute(
                    self._sql(_BEGIN), (key, claim.token, now + _milliseconds(lease), now)
                )
                cursor.execute(self._sql(_READ), (key,))
                row = cursor.fetchone()
            if row is None:
                continue  # it was abandoned or purged between the two statements: take it now
            token, result = row
            if token == claim.token:
                return claim
            return InProgress() if result is None else Done(bytes(result))

    def finish(self, claim: Fresh, result: bytes = b"", *, keep: timedelta) -> None:
        with self._transaction() as cursor:
            self._finish(cursor, claim, result=result, keep=keep)

    def finish_in(
        self,
        connection: Any,
        claim: Fresh | None,
        *,
        result: bytes = b"",
        keep: timedelta = timedelta(days=30),
    ) -> None:
        """`finish` in a transaction of yours, which you commit: the effects of the message and the
        record that it is done are then committed together or not at all. LeaseLost means roll
        back: another worker has the message."""
        if claim is None:
            raise Misconfigured("the message was opened by an intake without a store")
        cursor = connection.cursor()
        try:
            self._finish(cursor, claim, result=result, keep=keep)
        finally:
            cursor.close()

    def abandon(self, claim: Fresh) -> None:
        with self._transaction() as cursor:
            cursor.execute(self._sql(_ABANDON), (claim.key, claim.token))

    def purge(self) -> int:
        """Delete what is over; how many rows that were. For a daily job."""
        with self._transaction() as cursor:
            cursor.execute(self._sql(_PURGE), (self._now(),))
            deleted: int = cursor.rowcount
        return deleted

    def _finish(self, cursor: Any, claim: Fresh, *, result: bytes, keep: timedelta) -> None:
        expires_at = self._now() + _milliseconds(keep)
        cursor.execute(self._sql(_FINISH), (claim.key, claim.token, result, expires_at))
        cursor.execute(self._sql(_READ), (claim.key,))
        row = cursor.fetchone()
        if row is not None and row[0] != claim.token:
            raise LeaseLost("another worker took this message over: give a longer lease")

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        connection = self._connect()
        try:
            cursor = connection.cursor()
            try:
                yield cursor
            finally:
                cursor.close()
        except BaseException:
            connection.rollback()
            raise
        else:
            connection.commit()
        finally:
            connection.close()

    def _sql(self, statement: str) -> str:
        return statement.replace("{table}", self._table).replace("?", self._placeholder)

    def _now(self) -> int:
        return int(self._clock() * 1000)


def _milliseconds(duration: timedelta) -> int:
    return int(duration.total_seconds() * 1000)
