"""Raising an endpoint's limit: deliveries that wait at the old limit are sent sooner."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from hookfast.clock import utc_now
from hookfast.deliveries.job import JobKind
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.settings.settings import Settings
from hookfast.storage.deliveries import permits
from hookfast.storage.deliveries.selection import DeliverySelection
from hookfast.storage.tables import Endpoint
from tests.integration.delivery.conftest import Stack
from tests.support.seed_jobs import job_row, seed_job
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def until_limited(stack: Stack, deliveries: list[str], count: int) -> None:
    """Wait until this number of deliveries waits at the limit and the others are delivered."""

    async def reached() -> bool:
        rows = [await stack.row(delivery) for delivery in deliveries]
        waiting = sum(row.reason == "endpoint_limit" for row in rows)
        delivered = sum(row.status == "delivered" for row in rows)
        return (waiting, delivered) == (count, len(rows) - count)

    await eventually(reached)


async def test_raised_limit_sends_deliveries_that_waited_at_the_old_one(
    stack: Stack, settings: Settings
) -> None:
    endpoint = await stack.endpoint("/ok", rate_limit_per_second=0.001)
    deliveries = await stack.deliver_together(endpoint, 4)
    await until_limited(stack, deliveries, 3)  # for a quarter of an hour, and more
    [sent] = [one for one in deliveries if (await stack.row(one)).status == "delivered"]
    await stack.until_closed(sent)
    c = Endpoint.__table__.c
    async with stack.database.write() as connection:
        await connection.execute(
            update(Endpoint.__table__)
            .where(c.id == endpoint)
            .values(rate_limit_per_second=100, updated_at=utc_now())
        )
        await permits.reset(connection, endpoint, now=utc_now())

    job_id = await seed_job(
        stack.database,
        kind=JobKind.LIMITS.value,
        action="check_limits",
        chosen=DeliverySelection(
            endpoint_id=endpoint,
            statuses=(DeliveryStatus.PENDING, DeliveryStatus.RETRYING),
            reason="endpoint_limit",
        ),
    )
    await stack.workflow_starter.start_requested()

    await stack.until_all(deliveries, "delivered")
    assert sorted(request.message_id or "" for request in stack.receiver.requests) == deliveries

    async def ended() -> bool:
        return (await job_row(stack.database, job_id)).finished_at is not None

    await eventually(ended)
    job = await job_row(stack.database, job_id)
    assert (job.status, job.done) == ("done", 3)
