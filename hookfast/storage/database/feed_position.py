"""An event's position in the feed: a number that rises in the order in which events become visible,
so that no event ever appears at or below a position that was already read. Attempts have one too.

An id cannot serve as position: it is created before the transaction, and a later one may commit
first.

PostgreSQL: the id of the transaction (`xid8`), which is assigned before the row is inserted. No
row can be added any more below the oldest transaction that is still running (`horizon`).
SQLite: its one writer takes the next number while it holds the lock. The number is at least the
time in microseconds, so that it rises even if all rows were deleted in between.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Table, literal_column, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from hookfast.storage.database.engine import Database

_XID = "hookfast_feed_position(pg_current_xact_id())"
_HORIZON = text("SELECT hookfast_feed_position(pg_snapshot_xmin(pg_current_snapshot()))")
_FOLLOWING = text("SELECT hookfast_feed_position(pg_snapshot_xmax(pg_current_snapshot()))")
_OFFSET = text("SELECT hookfast_feed_position('0'::xid8)")
# By id, which every partition has an index on. Another event may have a higher position, hence the
# margin.
_NEWEST_BY_ID = text(
    "SELECT max(position) FROM (SELECT position FROM events ORDER BY id DESC LIMIT 1000) AS last"
)
_MARGIN = 1_000_000


class NextPosition(FunctionElement[int]):
    """The position of a row that this statement inserts into a table (`events`, `attempts`)."""

    inherit_cache = True
    name = "next_position"
    type = BigInteger()

    def __init__(self, table: str) -> None:
        # a clause is part of the key under which SQLAlchemy caches a statement
        super().__init__(literal_column(_newest(table)))


@compiles(NextPosition, "postgresql")
def _transaction(element: NextPosition, compiler: SQLCompiler, **options: object) -> str:
    return _XID


@compiles(NextPosition, "sqlite")
def _next(element: NextPosition, compiler: SQLCompiler, **options: object) -> str:
    # 2440587.5 is the Julian day of 1970-01-01
    newest_position = compiler.process(element.clauses, **options)
    return (
        f"max(coalesce(({newest_position}), 0) + 1, "
        "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000)"
    )


async def horizon(connection: AsyncConnection) -> int | None:
    """Return the position below which every event is visible to later statements, and none will be
    added. None where that is true of all visible events (SQLite)."""
    if connection.dialect.name != "postgresql":
        return None
    return int((await connection.execute(_HORIZON)).scalar_one())


async def newest(connection: AsyncConnection, table: Table) -> int:
    """Return the highest position in a table, 0 if it is empty (SQLite)."""
    return (await connection.execute(text(_newest(table.name)))).scalar_one() or 0


async def rebase(database: Database) -> int:
    """Move PostgreSQL's positions up after a restore into another cluster, whose transaction ids
    start again from a low number: stored events would be ahead of new ones. Return by how much they
    moved, mostly 0. Any number of processes may call it at once, before they store events."""
    if database.kind != "postgresql":
        return 0
    async with database.read() as connection:
        if not await _ahead(connection):
            return 0
    async with database.write() as connection:
        # keeps others from inserting events and from moving the positions too
        await connection.execute(text("LOCK TABLE events IN SHARE ROW EXCLUSIVE MODE"))
        ahead = await _ahead(connection)
        if ahead:
            offset = int((await connection.execute(_OFFSET)).scalar_one())
            await connection.execute(text(definition(offset + ahead)))
    return ahead


def definition(offset: int) -> str:
    """Return the SQL of the function that turns transaction ids into positions. It is a function,
    so that `rebase` can move the positions of rows and the horizon at once."""
    return (
        "CREATE OR REPLACE FUNCTION hookfast_feed_position(xid8) RETURNS bigint "
        f"LANGUAGE sql IMMUTABLE STRICT AS 'SELECT $1::text::bigint + {offset:d}'"
    )


def _newest(table: str) -> str:
    return f"SELECT max(position) FROM {table}"  # noqa: S608 - the name of a table of ours


async def _ahead(connection: AsyncConnection) -> int:
    """Return by how much the positions must move: 0 while the next transaction's is the highest."""
    # in this order, so that an event stored at this moment does not look as if it were ahead
    top = (await connection.execute(_NEWEST_BY_ID)).scalar_one() or 0
    following = int((await connection.execute(_FOLLOWING)).scalar_one())
    return 0 if top < following else top - following + _MARGIN
