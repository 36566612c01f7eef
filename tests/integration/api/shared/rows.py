"""What the database has, to compare before and after. One statement reads all tables, which takes a
tenth of the time of one statement for each."""

from __future__ import annotations

from functools import cache

from sqlalchemy import Table, TextClause, text
from sqlmodel import SQLModel

from api.context.context import Context
from hookfast.storage.tables import Figure, FigureEntry, Gauge, GaugeTotal

Row = tuple[str, str]
"""A table's name, and the row's values as text."""
_ADDED_UP = frozenset(each.__table__ for each in (Figure, FigureEntry, Gauge, GaugeTotal))
"""The tables between which every process moves numbers all the time."""


async def all_rows(context: Context) -> list[Row]:
    """Return every row of every table, except for when keys were last used."""
    return await _rows(context, _query(of_one_tenant=False))


async def rows_of(context: Context, tenant_id: str) -> list[Row]:
    """Return the tenant and all rows that it owns, except for when its keys were last used."""
    return await _rows(context, _query(of_one_tenant=True).bindparams(owner=tenant_id))


async def _rows(context: Context, query: TextClause) -> list[Row]:
    async with context.database.read() as connection:
        return sorted((name, values) for name, values in await connection.execute(query))


@cache
def _query(*, of_one_tenant: bool) -> TextClause:
    parts = []
    for table in SQLModel.metadata.sorted_tables:
        if table in _ADDED_UP:
            continue
        owner = "id" if table.name == "tenants" else "tenant_id"
        if not of_one_tenant:
            parts.append(_as_text(table))
        elif owner in table.c:
            parts.append(f"{_as_text(table)} WHERE {owner} = :owner")
    return text(" UNION ALL ".join(parts))


def _as_text(table: Table) -> str:
    """Return the query of a table's rows."""
    names = [column.name for column in table.c if column.name != "last_used_at"]
    values = " || ' | ' || ".join(f"coalesce(CAST(\"{name}\" AS text), 'NULL')" for name in names)
    return f"SELECT '{table.name}', {values} FROM \"{table.name}\""  # noqa: S608 - our own names
