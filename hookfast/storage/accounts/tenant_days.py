"""Statements on `tenant_days`, the counts of events per tenant and day (UTC)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date
from typing import Any, TypeAlias

from sqlalchemy import Table, delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.tables import TenantDay

_DAYS: Table = TenantDay.__table__
_C = _DAYS.c

CountedDay: TypeAlias = tuple[str, date]
"""A tenant's id and a day."""


def _add_statement(dialect: Any) -> Any:
    adding = dialect.insert(_DAYS)
    return adding.on_conflict_do_update(
        index_elements=["tenant_id", "day"],
        set_={"events": _C.events + adding.excluded.events},
    ).returning(_C.tenant_id, _C.day, _C.events)


# Built once: building a statement costs as much as running it.
_ADD = {"postgresql": _add_statement(postgresql), "sqlite": _add_statement(sqlite)}


async def add(
    connection: AsyncConnection, counts: Mapping[CountedDay, int]
) -> dict[CountedDay, int]:
    """Add to the counts of these days, and return the new counts. They are locked until the
    transaction ends."""
    rows = [
        {"tenant_id": tenant_id, "day": day, "events": events}
        # in order: two transactions that share some wait for each other in one order
        for (tenant_id, day), events in sorted(counts.items())
    ]
    added = await connection.execute(_ADD[connection.dialect.name], rows)
    return {(row.tenant_id, row.day): row.events for row in added}


async def read(
    connection: AsyncConnection, tenant_ids: Collection[str], day: date
) -> dict[str, int]:
    """Return the count of each of these tenants on a day; tenants without events are left out."""
    rows = await connection.execute(
        select(_C.tenant_id, _C.events).where(_C.tenant_id.in_(tenant_ids), _C.day == day)
    )
    return {row.tenant_id: row.events for row in rows}


async def delete_before(connection: AsyncConnection, day: date) -> int:
    """Delete the counts of the days before `day`, and return how many."""
    return (await connection.execute(delete(_DAYS).where(_C.day < day))).rowcount
