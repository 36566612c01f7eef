"""Workflows are started in order of urgency, as many at once as the pace allows."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any, cast
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs
from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from hookfast.clock import utc_now
from hookfast.dispatch import starts
from hookfast.dispatch.pace import Pace
from hookfast.dispatch.starts import Starts
from hookfast.storage.deliveries.outbox import PendingDelivery
from hookfast.storage.deliveries.outgoing import DeliveryWithEndpoint

pytestmark = pytest.mark.anyio

LEASE = timedelta(seconds=30)


def delivery(number: int, *, urgency: int = 3) -> DeliveryWithEndpoint:
    fields: dict[str, Any] = {name: None for name in PendingDelivery.__slots__}
    fields |= {"delivery_id": f"dlv_{number}", "urgency": urgency, "wake_count": 1}
    fields |= {"event_type": "order.paid", "event_id": "evt_1"}
    return DeliveryWithEndpoint(PendingDelivery(**fields), cast(Any, None))


class World:
    """Starts that Temporal answers when `answer` is set. `begun` are the urgencies of those that
    have begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pace = Pace()
        self.answer = asyncio.Event()
        self.begun: list[int] = []
        self.started: list[str] = []
        self.failed: list[tuple[str, bool]] = []
        self.errors: list[Exception] = []

        async def start(client: Client, row: PendingDelivery, *_: object, **__: object) -> bool:
            self.begun.append(row.urgency)
            await self.answer.wait()
            for error in self.errors:
                raise error
            return False

        monkeypatch.setattr(starts, "start_or_wake", start)
        self.starts = Starts(
            cast(Client, None),
            loader=Mock(traceparent_of=lambda _: None),
            pace=self.pace,
            lease=LEASE,
            fast_lane_timeout=timedelta(seconds=5),
            on_started=lambda row: self.started.append(row.delivery_id),
            on_failed=self._fail,
        )

    def _fail(self, row: PendingDelivery, lease: datetime, error: RPCError | None) -> None:
        self.failed.append((row.delivery_id, error is not None))

    def add(self, *urgencies: int, lease: timedelta = LEASE) -> None:
        rows = [delivery(number, urgency=one) for number, one in enumerate(urgencies)]
        self.starts.add(rows, lease=utc_now() + lease)

    async def done(self) -> None:
        self.answer.set()
        async with asyncio.timeout(5):
            while self.starts.tasks:
                await asyncio.wait(self.starts.tasks)
                await asyncio.sleep(0)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def test_starts_are_limited_to_the_window_and_begin_by_urgency(world: World) -> None:
    most = world.pace.start_window
    world.add(*[3] * most)
    world.add(4, 3, 1, 2, 1)
    await asyncio.sleep(0)
    assert world.begun == [3] * most
    assert (len(world.starts), world.starts.count(1, 2)) == (most + 5, 3)
    await world.done()
    assert world.begun[most:] == [1, 1, 2, 3, 4]
    assert len(world.starts) == 0


async def test_start_begins_when_a_first_step_makes_room(world: World) -> None:
    world.pace._steps = type(world.pace._steps)(1, most=1)
    world.pace.start_begins("dlv_first")
    world.pace.start_ended("dlv_first", answered=True, step_here=True)
    world.add(3)
    await asyncio.sleep(0)
    assert world.begun == []
    world.pace.step_begins("dlv_first")
    await world.done()
    assert world.started == ["dlv_0"]


async def test_start_whose_lease_ends_soon_is_not_made(world: World) -> None:
    world.add(3, lease=LEASE / 5)
    await world.done()
    assert (world.begun, world.failed) == ([], [("dlv_0", False)])


async def test_starts_that_wait_when_the_relay_stops_are_released(world: World) -> None:
    most = world.pace.start_window
    world.add(*[3] * (most + 2))
    world.starts.close()
    assert [one for one, _ in world.failed] == [f"dlv_{most}", f"dlv_{most + 1}"]
    world.add(1)
    await world.done()
    assert len(world.started) == most


@pytest.mark.parametrize(
    ("error", "started", "failed"),
    [
        (WorkflowAlreadyStartedError("delivery/dlv_0", "DeliveryWorkflow"), ["dlv_0"], []),
        (RPCError("away", RPCStatusCode.UNAVAILABLE, b""), [], [("dlv_0", True)]),
    ],
)
async def test_start_that_has_run_counts_and_one_without_an_answer_is_released(
    world: World, error: Exception, started: list[str], failed: list[tuple[str, bool]]
) -> None:
    world.errors.append(error)
    world.add(3)
    await world.done()
    assert (world.started, world.failed) == (started, failed)


@pytest.mark.parametrize(
    "error", [RPCError("too large", RPCStatusCode.INVALID_ARGUMENT, b""), KeyError("a bug")]
)
async def test_delivery_that_cannot_be_started_does_not_delay_others(
    world: World, error: Exception
) -> None:
    world.errors.append(error)
    with capture_logs() as lines:
        world.add(3)
        await world.done()
    assert [line["delivery_id"] for line in lines] == ["dlv_0"]
    assert (world.started, world.failed) == ([], [])  # it is tried again when its lease ends
