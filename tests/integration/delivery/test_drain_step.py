"""One step of a drain, with deliveries that cannot be told to go."""

from __future__ import annotations

from collections import Counter

import pytest
from structlog.testing import capture_logs
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.circuit import CircuitActivities
from hookfast.circuit import Cause, Policy, State, release_all
from hookfast.clock import utc_now
from hookfast.episode import DrainOrder, Situation
from hookfast.errors import Unavailable
from hookfast.storage import circuits
from hookfast.storage.engine import Database
from tests.seed import seed_delivery, seed_endpoint

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


class Refusing:
    """Tells deliveries to go, except those for which there is an error."""

    def __init__(self, errors: dict[str, Exception]) -> None:
        self._errors = errors
        self.told: Counter[str] = Counter()

    async def release(self, delivery_id: str, *, probe: bool = False) -> None:
        self.told[delivery_id] += 1
        if delivery_id in self._errors:
            raise self._errors[delivery_id]


async def draining(database: Database, count: int) -> tuple[str, list[str]]:
    """An endpoint whose circuit drains, and so many deliveries that are held for it."""
    endpoint, now = await seed_endpoint(database, "https://example.com/hook"), utc_now()
    held = [await seed_delivery(database, endpoint, status="held") for _ in range(count)]
    async with database.write() as connection:
        await circuits.change(
            connection,
            endpoint,
            lambda owned: release_all(owned.circuit, Cause.RESUMED, now=now),
            now=now,
        )
    return endpoint, held


async def step(database: Database, steering: Refusing, endpoint: str) -> Situation:
    activities = CircuitActivities(
        database=database,
        steering=steering,  # type: ignore[arg-type] # the one call it makes
        policy=Policy(),
        on_news=lambda _: None,
    )
    order = DrainOrder(endpoint, rate=50, seconds=0.5)
    situation: Situation = await ActivityEnvironment().run(activities.drain_step, order)
    return situation


async def test_one_that_temporal_refuses_to_tell_holds_up_no_other(database: Database) -> None:
    """Its workflow has had as many signals as a run may have, say."""
    endpoint, held = await draining(database, 3)
    refused = RPCError("too many signals", RPCStatusCode.INVALID_ARGUMENT, b"")
    steering = Refusing({held[0]: refused})
    with capture_logs() as lines:
        situation = await step(database, steering, endpoint)
    assert steering.told == Counter(held)
    assert (situation.state, situation.held) == (State.DRAINING, 3)
    assert [line["delivery_id"] for line in lines] == [held[0]]


async def test_while_temporal_is_away_the_step_fails_and_is_made_again(database: Database) -> None:
    endpoint, held = await draining(database, 1)
    with pytest.raises(Unavailable):
        await step(database, Refusing({held[0]: Unavailable("Temporal is away.")}), endpoint)
