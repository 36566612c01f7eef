"""The query plan of a statement, on both databases."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql import Executable


async def explain(connection: AsyncConnection, statement: Executable) -> str:
    """Return the steps of a statement's plan, one per line."""
    sql = statement.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
    explain = "EXPLAIN QUERY PLAN" if connection.dialect.name == "sqlite" else "EXPLAIN"
    rows = await connection.exec_driver_sql(f"{explain} {sql}")
    return "\n".join(str(row[-1]) for row in rows)
