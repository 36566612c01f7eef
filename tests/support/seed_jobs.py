"""Many finished deliveries, and jobs for them, as the API creates them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from hookfast.clock import utc_now
from hookfast.deliveries.figures import DEAD
from hookfast.deliveries.job import JobKind
from hookfast.ids import new_id
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import jobs, selection
from hookfast.storage.deliveries.selection import DeliverySelection
from hookfast.storage.tables import Delivery, Job
from tests.support.seed import seed_deliveries

ALL_DEAD = DeliverySelection(statuses=DEAD)


async def seed_ended(
    database: Database, endpoint_id: str, count: int, *, status: str = "dead"
) -> list[str]:
    """Store finished deliveries of one event to this endpoint; return their ids, in order."""
    now = utc_now()
    return await seed_deliveries(
        database,
        endpoint_id,
        count,
        status=status,
        next_attempt_at=None,
        due_at=None,
        started_at=now,
        finished_at=now,
    )


async def seed_job(
    database: Database,
    *,
    action: str = "resend",
    chosen: DeliverySelection = ALL_DEAD,
    rate_per_second: float = 200,
    **members: Any,
) -> str:
    """Store a job that requests its workflow; return its id."""
    now = utc_now()
    async with database.write() as connection:
        counted = await selection.count(connection, chosen)
        job = Job(
            **{
                "id": new_id("job", now),
                "kind": JobKind.ACTION.value,
                "action": action,
                "filter": chosen.document(),
                "rate_per_second": rate_per_second,
                "status": "pending",
                "total": sum(counted.values()),
                "requested_by": "key_test",
                "created_at": now,
                "updated_at": now,
            }
            | members
        )
        await jobs.add(connection, job)
    return job.id


async def job_row(database: Database, job_id: str) -> Job:
    """Return the job's row."""
    async with database.read() as connection:
        job = await jobs.get(connection, job_id)
    assert job is not None
    return job


async def statuses(database: Database, delivery_ids: list[str]) -> list[str]:
    """Return the status of each of these deliveries, in their order."""
    table = Delivery.__table__
    async with database.read() as connection:
        rows = await connection.execute(select(table.c.id, table.c.status))
        found = {row.id: row.status for row in rows}
    return [found[delivery_id] for delivery_id in delivery_ids]
