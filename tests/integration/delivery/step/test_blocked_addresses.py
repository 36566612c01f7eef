"""Endpoints whose address is blocked, or became so after they were created."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from hookfast.clock import utc_now
from hookfast.storage.tables import Endpoint
from tests.integration.delivery.steps import Steps

pytestmark = pytest.mark.anyio

TWICE = {"delays_seconds": [0.3], "jitter": 0, "retry_on": "all"}
BLOCKED = [
    "http://169.254.169.254/latest/meta-data/",
    "http://10.0.0.1/",
    "http://[::ffff:10.0.0.1]/",
    "http://metadata.google.internal/",
]


@pytest.mark.parametrize("url", BLOCKED)
async def test_blocked_address_is_detected_at_every_attempt(steps: Steps, url: str) -> None:
    """A name may resolve to another address later, and settings change, after the endpoint was
    created."""
    endpoint = await steps.endpoint("/status/500", plan=TWICE)
    delivery = await steps.deliver(endpoint)
    first = await steps.step(delivery)
    table = Endpoint.__table__
    async with steps.database.write() as connection:
        await connection.execute(
            update(table).where(table.c.id == endpoint).values(url=url, updated_at=utc_now())
        )

    second = await steps.step(delivery, at=first.next_at)

    assert (second.status, second.attempts) == ("dead", 2)
    results = [attempt.result for attempt in await steps.attempts(delivery)]
    assert results == ["status", "address"]
    assert len(steps.receiver.requests) == 1
