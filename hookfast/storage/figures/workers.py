"""Worker processes, by the heartbeat that each one records in its row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Table, case, delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.upsert import insert_into
from hookfast.storage.tables import WorkerHeartbeat

_WORKERS: Table = WorkerHeartbeat.__table__

ALIVE_FOR = timedelta(seconds=15)
"""A worker that has not been seen for this long counts as dead."""
HEARTBEAT_INTERVAL = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The latest heartbeat of a worker, by the worker's own clock. `worker_id` is `host-pid-…`."""

    worker_id: str
    version: str
    started_at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Alive:
    """How many workers were seen lately, and how many of them send new deliveries in batches."""

    workers: int
    batching: int


async def record_heartbeat(
    connection: AsyncConnection,
    worker_id: str,
    *,
    version: str,
    now: datetime,
    batching: bool = False,
) -> None:
    """Record that this worker is alive, and delete workers that were not seen for a day."""
    row = insert_into(connection, _WORKERS).values(
        id=worker_id, version=version, started_at=now, seen_at=now, batching=batching
    )
    await connection.execute(
        row.on_conflict_do_update(
            index_elements=["id"], set_={"seen_at": now, "batching": batching}
        )
    )
    await connection.execute(delete(_WORKERS).where(_WORKERS.c.seen_at < now - timedelta(days=1)))


async def remove(connection: AsyncConnection, worker_id: str) -> None:
    """Delete the row of a worker that has stopped."""
    await connection.execute(delete(_WORKERS).where(_WORKERS.c.id == worker_id))


async def latest_heartbeats(connection: AsyncConnection) -> list[Heartbeat]:
    """Return the heartbeats of the workers that have not left, the latest first. A worker that has
    ended without leaving is among them for a day."""
    c = _WORKERS.c
    rows = await connection.execute(
        select(c.id, c.version, c.started_at, c.seen_at).order_by(c.seen_at.desc())
    )
    return [
        Heartbeat(worker_id=id_, version=version, started_at=started_at, seen_at=seen_at)
        for id_, version, started_at, seen_at in rows
    ]


async def count_alive(connection: AsyncConnection, *, now: datetime) -> Alive:
    """Count the workers that are alive."""
    c = _WORKERS.c
    counted = await connection.execute(
        select(func.count(), func.count(case((c.batching, 1)))).where(c.seen_at > now - ALIVE_FOR)
    )
    return Alive(*counted.one())
