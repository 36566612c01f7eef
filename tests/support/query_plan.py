"""The query plan of a statement, on both databases."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql import Executable


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
