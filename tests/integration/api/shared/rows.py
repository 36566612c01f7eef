"""What the database has about a tenant."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, select
from sqlmodel import SQLModel

from api.context.context import Context


async def rows_of(context: Context, tenant_id: str) -> dict[str, list[Any]]:
    """Return the tenant and all rows that it owns, except for when its keys were last used."""
    async with context.database.read() as connection:
        return {
            name: [tuple(row) for row in await connection.execute(query, {"owner": tenant_id})]
            for name, query in _queries().items()
        }


@cache
def _queries() -> dict[str, Select[Any]]:
    queries = {}
    for table in SQLModel.metadata.sorted_tables:
        owner = table.c.id if table.name == "tenants" else table.c.get("tenant_id")
        if owner is not None:
            columns = [column for column in table.c if column.name != "last_used_at"]
            own = select(*columns).where(owner == bindparam("owner"))
            queries[table.name] = own.order_by(*table.primary_key)
    return queries
