"""Which worker processes are alive, by the row each one keeps fresh."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Table, case, delete, func, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.tables import WorkerHeartbeat

_WORKERS: Table = WorkerHeartbeat.__table__

ALIVE_FOR = timedelta(seconds=15)
"""A worker that has not been seen for this long counts as dead."""
BEAT_EVERY = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Alive:
    """How many workers have been seen lately, and how many of them send new deliveries in
    batches."""

    workers: int
    batching: int


async def beat(
    connection: AsyncConnection,
    worker_id: str,
    *,
    version: str,
    now: datetime,
    batching: bool = False,
) -> None:
    """Say that this worker is alive, and forget those that have been silent for a day."""
    insert = postgresql_insert if connection.dialect.name == "postgresql" else sqlite_insert
    row = insert(_WORKERS).values(
        id=worker_id, version=version, started_at=now, seen_at=now, batching=batching
    )
    await connection.execute(
        row.on_conflict_do_update(
            index_elements=["id"], set_={"seen_at": now, "batching": batching}
        )
    )
    await connection.execute(delete(_WORKERS).where(_WORKERS.c.seen_at < now - timedelta(days=1)))


async def leave(connection: AsyncConnection, worker_id: str) -> None:
    """Say that this worker has stopped."""
    await connection.execute(delete(_WORKERS).where(_WORKERS.c.id == worker_id))


async def alive(connection: AsyncConnection, *, now: datetime) -> Alive:
    """The workers that are there."""
    c = _WORKERS.c
    found = await connection.execute(
        select(func.count(), func.count(case((c.batching, 1)))).where(c.seen_at > now - ALIVE_FOR)
    )
    return Alive(*found.one())
