"""The query plan of a statement, on both databases, and whether it is a good one."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from sqlalchemy import Select, event
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql import Executable

MOST_READ = 1_500
Plan = list[str] | dict[str, Any]


async def sent_by(connection: AsyncConnection, query: Awaitable[object]) -> list[tuple[str, Any]]:
    """Run a query on this connection, and return the statements that it sent, each with its
    parameters."""
    sent: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        sent.append((statement, parameters))

    event.listen(connection.sync_connection, "before_cursor_execute", note)
    try:
        await query
    finally:
        event.remove(connection.sync_connection, "before_cursor_execute", note)
    return sent


async def explain(connection: AsyncConnection, query: Executable | Awaitable[object]) -> str:
    """Return the steps of the plan of a statement, or of all that a query sends, one per line."""
    if isinstance(query, Executable):
        literal = {"literal_binds": True}
        sql = str(query.compile(dialect=connection.dialect, compile_kwargs=literal))
        sent: list[tuple[str, Any]] = [(sql, None)]
    else:
        sent = await sent_by(connection, query)
    explain = "EXPLAIN QUERY PLAN" if connection.dialect.name == "sqlite" else "EXPLAIN"
    steps = []
    for statement, parameters in sent:
        rows = await connection.exec_driver_sql(f"{explain} {statement}", parameters)
        steps += [str(row[-1]) for row in rows]
    return "\n".join(steps)


async def check(
    connection: AsyncConnection,
    query: Select[Any] | Awaitable[object],
    *,
    index: str | list[str],
    may_sort: bool = False,
    most: int = MOST_READ,
) -> None:
    """Assert that SQLite reads `index` and does not sort, and that PostgreSQL, which has statistics
    and may choose among several good plans, reads few rows. A query is explained as it was sent,
    with parameters; a list has the index of each of its statements."""
    if isinstance(query, Select):
        literal = {"literal_binds": True}
        compiled = query.compile(dialect=connection.dialect, compile_kwargs=literal)
        sent: list[tuple[str, Any]] = [(str(compiled), None)]
    else:
        sent = await sent_by(connection, query)
    assert sent
    indexes = [index] * len(sent) if isinstance(index, str) else index
    for (statement, parameters), name in zip(sent, indexes, strict=True):
        plan = await explained(connection, statement, parameters)
        assert_good(statement, plan, index=name, may_sort=may_sort, most=most)


async def explained(connection: AsyncConnection, statement: str, parameters: Any = None) -> Plan:
    """Return SQLite's plan as a list of steps, or PostgreSQL's plan as it was executed."""
    if connection.dialect.name == "sqlite":
        rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        return [row[-1] for row in rows]
    rows = await connection.exec_driver_sql(
        f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters
    )
    plan: dict[str, Any] = rows.scalar_one()[0]["Plan"]
    return plan


def assert_good(
    statement: str, plan: Plan, *, index: str, may_sort: bool = False, most: int = MOST_READ
) -> None:
    """Assert what `check` documents about a statement's plan."""
    shown = f"{statement}\n{plan}"
    if isinstance(plan, list):
        assert any(index in step.split() for step in plan), shown
        assert may_sort or not any("TEMP B-TREE" in step for step in plan), shown
    else:
        # empty partitions of future days are scanned sequentially, which is best
        assert not sequentially_read(plan), shown
        assert rows_read(plan) <= most, shown


def sequentially_read(node: dict[str, Any]) -> bool:
    """Return whether a sequential scan at or below `node` reads rows."""
    scans = node["Node Type"] == "Seq Scan" and rows_read(node) > 0
    return scans or any(sequentially_read(child) for child in node.get("Plans", []))


def rows_read(node: dict[str, Any]) -> float:
    """Return how many rows the scans at or below `node` read, including the filtered ones."""
    read = 0.0
    if "Scan" in node["Node Type"]:
        removed = node.get("Rows Removed by Filter", 0)
        read = float((node["Actual Rows"] + removed) * node["Actual Loops"])
    return read + sum(rows_read(child) for child in node.get("Plans", []))
