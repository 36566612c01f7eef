"""A store in a table of an SQL database, through any DB-API 2.0 driver (PEP 249).

For SQLite (3.24 and later) and PostgreSQL, whose `ON CONFLICT … DO UPDATE … WHERE` makes a claim
atomic. It uses this machine's time: synchronise the clocks of machines that share the table.
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

# SQLite accepts any type name, and stores bytes unchanged in a column of an unknown type.
_TABLE = """
CREATE TABLE IF NOT EXISTS {table} (
  receipt_key TEXT PRIMARY KEY,
  token TEXT NOT NULL,
  result BYTEA,               -- NULL: in progress
  expires_at BIGINT NOT NULL  -- Unix milliseconds: when the lease ends, or the row may be deleted
)"""
_INDEX = "CREATE INDEX IF NOT EXISTS {index}_expires_at ON {table} (expires_at)"

# Claims a message without a row, or with an expired one. The token shows whether it succeeded.
_BEGIN = """
INSERT INTO {table} AS held (receipt_key, token, result, expires_at) VALUES (?, ?, NULL, ?)
ON CONFLICT (receipt_key) DO UPDATE
SET token = excluded.token, result = NULL, expires_at = excluded.expires_at
WHERE held.expires_at <= ?"""
# Inserts if the lease expired and the row was purged: the work is done nevertheless.
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
    """Stores messages over DB-API connections from `connect`, closed after each call (a pool gets
    its connection back). `paramstyle` is the driver module's attribute of that name.

        SqlStore(lambda: sqlite3.connect("receipts.db"))
        SqlStore(lambda: psycopg.connect(url), paramstyle=psycopg.paramstyle)
        SqlStore.from_sqlalchemy(engine)

    Call `create_table` once (or run `ddl()` in a migration), and `purge` regularly.
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
            raise Misconfigured(f"paramstyle must be one of {', '.join(_PLACEHOLDERS)}")
        if not _NAME.fullmatch(table):
            raise Misconfigured("a table name has letters, digits and _, and may be schema.table")
        self._connect = connect
        self._placeholder = _PLACEHOLDERS[paramstyle]
        self._table = table
        self._clock = clock

    @classmethod
    def from_sqlalchemy(cls, engine: Any, *, table: str = "hookfast_receipts") -> SqlStore:
        """Create a store that uses the pool of a (synchronous) SQLAlchemy engine."""
        return cls(engine.raw_connection, paramstyle=engine.dialect.dbapi.paramstyle, table=table)

    def ddl(self) -> tuple[str, ...]:
        """Return the statements that create the table, for a migration."""
        # an index belongs to its table's schema, and its name must not contain the schema
        index = _INDEX.replace("{index}", self._table.rpartition(".")[2])
        return (self._sql(_TABLE), self._sql(index))

    def create_table(self) -> None:
        """Create the table, unless it exists."""
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
                continue  # abandoned or purged between the two statements: claim it now
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
        """Finish a message in your own transaction, so that its effects and the record that it is
        done are committed together or not at all. You commit it. On LeaseLost, roll back: another
        worker has the message."""
        if claim is None:
            raise Misconfigured("the message has no claim: its intake has no store")
        cursor = connection.cursor()
        try:
            self._finish(cursor, claim, result=result, keep=keep)
        finally:
            cursor.close()

    def abandon(self, claim: Fresh) -> None:
        with self._transaction() as cursor:
            cursor.execute(self._sql(_ABANDON), (claim.key, claim.token))

    def purge(self) -> int:
        """Delete expired rows and return their number. For a daily job."""
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
            raise LeaseLost("another worker took this message over: use a longer lease")

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
