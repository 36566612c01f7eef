"""What two replacements of library code save: workflow payloads, and the connection to SQLite.

`python -m bench.shortcuts [COUNT]` encodes and decodes the result of a step with Temporal's own
converter and with `hookfast.temporal.payloads`, and commits COUNT (default 3000) transactions of
one read and two inserts through SQLAlchemy's stock aiosqlite connection and through
`hookfast.storage.database.sqlite_connection`. Sides take turns, after a warm-up. CPU is that of the
whole process, in microseconds; it prints one table with each side's median and lowest round.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from temporalio.converter import DataConverter

from hookfast.clock import utc_now
from hookfast.deliveries.messages import StepResult
from hookfast.storage.database.engine import Database
from hookfast.temporal.payloads import DATA_CONVERTER

ROUNDS = 5
VALUES = 200
"""Payloads in a round: one takes from five to several hundred microseconds."""

STEP_RESULT = StepResult(
    reason="retry", attempts=3, retries=2, next_at=utc_now(), last_error="status 503"
)
READ = text("SELECT count(*) FROM notes WHERE id = :id")
INSERT = text("INSERT INTO notes (body) VALUES (:body)")

Turn = Callable[[], Awaitable[None]]
Begin = Callable[[], Any]


def _payloads(converter: DataConverter) -> Turn:
    async def turn() -> None:
        for _ in range(VALUES):
            [payload] = await converter.encode([STEP_RESULT])
            [value] = await converter.decode([payload], [StepResult])
            assert value == STEP_RESULT

    return turn


async def _transaction(connection: AsyncConnection, number: int) -> None:
    await connection.execute(READ, {"id": number})
    for _ in range(2):
        await connection.execute(INSERT, {"body": "x" * 400})


def _transactions(begin: Begin, count: int) -> Turn:
    async def turn() -> None:
        for number in range(count):
            async with begin() as connection:
                await _transaction(connection, number)

    return turn


def _stock_engine(file: Path) -> AsyncEngine:
    """SQLAlchemy's aiosqlite engine, with the pragmas and the BEGIN IMMEDIATE of the product."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{file}", pool_size=1, max_overflow=0)

    @event.listens_for(engine.sync_engine, "connect")
    def connected(connection: Any, _: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-4096"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begun(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


@asynccontextmanager
async def _databases(folder: Path) -> AsyncIterator[dict[str, Begin]]:
    async with AsyncExitStack() as stack:
        stock = _stock_engine(folder / "stock.sqlite3")
        stack.push_async_callback(stock.dispose)
        ours = await stack.enter_async_context(Database(f"sqlite:///{folder / 'ours.sqlite3'}"))
        sides: dict[str, Begin] = {
            "stock": stock.begin,
            "ours": ours.write,
            "ours, quick": lambda: ours.write(quick=True),
        }
        for begin in (stock.begin, ours.write):
            async with begin() as connection:
                await connection.execute(
                    text("CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT)")
                )
        yield sides


async def _compare(table: Table, title: str, sides: dict[str, Turn], per_turn: int) -> None:
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(ROUNDS + 1):
        for name, turn in sides.items():
            before = time.process_time()
            await turn()
            if number:  # the first round warms up
                spent[name].append((time.process_time() - before) / per_turn * 1e6)
    for name, found in spent.items():
        table.add_row(title, name, f"{statistics.median(found):.0f}", f"{min(found):.0f}")


async def _main(count: int) -> None:
    table = Table("", "side", "median µs CPU", "lowest")
    await _compare(
        table,
        "a payload, both ways",
        {"Temporal's converter": _payloads(DataConverter()), "ours": _payloads(DATA_CONVERTER)},
        VALUES,
    )
    with tempfile.TemporaryDirectory(prefix="hookfast-shortcuts-") as folder:
        async with _databases(Path(folder)) as databases:
            turns = {
                name: _transactions(begin, count // ROUNDS) for name, begin in databases.items()
            }
            await _compare(table, "a SQLite transaction", turns, count // ROUNDS)
    Console().print(table)


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else 3000))
