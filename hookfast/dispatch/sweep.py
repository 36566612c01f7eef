"""Background work of every worker: report that it is alive, and put lost deliveries back into the
outbox."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import structlog
from sqlalchemy.exc import SQLAlchemyError

from hookfast.clock import utc_now
from hookfast.dispatch.pace import Pace
from hookfast.outage_log import DATABASE
from hookfast.storage.circuits import circuits
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import jobs, outbox
from hookfast.storage.figures import workers
from hookfast.storage.owners import notices
from hookfast.version import VERSION

_SWEEP_EVERY = timedelta(seconds=60)
_OVERDUE_AFTER = timedelta(minutes=5)
_SWEEP_BATCH = 500
_UNMOVED_AFTER = timedelta(hours=1)

log = structlog.get_logger()


async def send_heartbeats(database: Database, worker_id: str, pace: Pace) -> None:
    """Report every few seconds that this worker is alive."""
    while True:
        try:
            async with database.write() as connection:
                await workers.record_heartbeat(
                    connection,
                    worker_id,
                    version=VERSION,
                    now=utc_now(),
                    batching=pace.batched,
                )
        except SQLAlchemyError as error:
            DATABASE.failed(
                "The worker cannot report that it is alive.", error=type(error).__name__
            )
        await asyncio.sleep(workers.HEARTBEAT_INTERVAL.total_seconds())


async def requeue_lost(database: Database) -> None:
    """Put deliveries that are long overdue back into the outbox. Their workflows were lost with
    Temporal's data (as after restoring a backup), or are late; then starting them again changes
    nothing. Circuits, mail and jobs without progress for an hour request their workflow again."""
    while True:
        await asyncio.sleep(_SWEEP_EVERY.total_seconds())
        now = utc_now()
        try:
            async with database.write() as connection:
                woken = await outbox.wake_lost(
                    connection, overdue_since=now - _OVERDUE_AFTER, limit=_SWEEP_BATCH
                )
                requested = await circuits.request_stalled_workflows(
                    connection, overdue_since=now - _UNMOVED_AFTER
                )
                requested += await notices.request_stalled_workflows(
                    connection, started_before=now - _UNMOVED_AFTER
                )
                requested += await jobs.request_stalled_workflows(
                    connection, unmoved_since=now - _UNMOVED_AFTER
                )
        except SQLAlchemyError as error:
            DATABASE.failed("The sweep cannot reach the database.", error=type(error).__name__)
        else:
            if woken:
                log.warning("Overdue deliveries were put back into the outbox.", count=woken)
            if requested:
                log.info(
                    "Circuits, mail and jobs without progress requested their workflows again.",
                    count=requested,
                )
