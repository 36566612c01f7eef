"""One step of a drain: which held deliveries it releases, and how fast."""

from __future__ import annotations

import itertools

import pytest
from temporalio.testing import ActivityEnvironment

from activities import circuit_breaker
from activities.circuit_breaker import CircuitActivities
from hookfast.clock import utc_now
from hookfast.deliveries.messages import Urgency
from hookfast.endpoints.circuit import Cause, Policy, State, release_all
from hookfast.endpoints.outage import CircuitStatus, DrainInput
from hookfast.storage.circuits import circuits
from hookfast.storage.database.engine import Database
from tests.support.seed import delivery_row, seed_deliveries, seed_endpoint

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def draining(database: Database, count: int) -> tuple[str, list[str]]:
    """Store an endpoint whose circuit drains, and held deliveries; return the ids of both."""
    endpoint, now = await seed_endpoint(database, "https://example.com/hook"), utc_now()
    held = await seed_deliveries(database, endpoint, count, status="held", started_at=now)
    async with database.write() as connection:
        await circuits.change(
            connection,
            endpoint,
            lambda owned: release_all(owned.circuit, Cause.RESUMED, now=now),
            now=now,
        )
    return endpoint, held


async def step(database: Database, endpoint: str, *, rate: float, seconds: float) -> CircuitStatus:
    activities = CircuitActivities(database=database, policy=Policy(), on_commit=lambda _: None)
    input = DrainInput(endpoint, rate=rate, seconds=seconds)
    status: CircuitStatus = await ActivityEnvironment().run(activities.drain_step, input)
    return status


async def test_drain_step_releases_the_oldest_at_the_rate_and_wakes_them_through_the_outbox(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a twentieth of a second passes whenever the step looks at the time, however slow the machine
    looks = itertools.count()
    monkeypatch.setattr(circuit_breaker, "_loop_time", lambda: next(looks) / 20)
    endpoint, held = await draining(database, 20)
    status = await step(database, endpoint, rate=10, seconds=1)
    rows = [await delivery_row(database, one) for one in held]
    released = [row.id for row in rows if row.released]
    assert released == held[: len(released)]
    # one at once, then ten a second; it releases for the last time after 1.05 s
    assert len(released) == 11
    assert {row.id for row in rows if row.wake_count} == set(released)
    assert {row.urgency for row in rows if row.wake_count} == {Urgency.RETRY}
    # held until each has been sent: a circuit must not close before
    assert (status.state, status.held) == (State.DRAINING, 20)


async def test_released_delivery_is_not_released_again(database: Database) -> None:
    endpoint, held = await draining(database, 3)
    for _ in range(2):
        await step(database, endpoint, rate=50, seconds=0.5)
    assert [(await delivery_row(database, one)).wake_count for one in held] == [1, 1, 1]
