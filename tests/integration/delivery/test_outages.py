"""Outages of hours and days: only probes are sent, on schedule; after recovery everything arrives,
no faster than the ramp.

Only the circuits' workflows skip time. The deliveries wait in real time: otherwise their own
timers, a backstop of hours, would release them.
"""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Table, select
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

import worker
from activities import worker_parts
from hookfast.clock import utc_now
from hookfast.dispatch.workflow_starter import WorkflowStarter, workflow_starter_for
from hookfast.endpoints.circuit import RAMP_FIRST, RAMP_STEP
from hookfast.endpoints.outage import workflow_id
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.tables import Endpoint
from hookfast.temporal.payloads import DATA_CONVERTER
from tests.integration.delivery.circuits import (
    circuit,
    recorded_attempts,
    triggers,
    until_circuit,
)
from tests.integration.delivery.conftest import SANDBOX, Stack, idle_stack
from tests.support.receiver import Receiver
from tests.support.seed_jobs import seed_job

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

HOUR = 3600.0
# The first retry is due soon, when the circuit is open.
PLAN = {"delays_seconds": [2, 600], "jitter": 0, "retry_on": "all"}
SLOW = pytest.mark.slow
MANY = [
    SLOW,
    pytest.mark.alone,
    pytest.mark.timeout(900),
    # Temporal's client warns like this when a workflow task took too long and was delivered again,
    # which happens to some of 2,000 simultaneous ones.
    pytest.mark.filterwarnings("ignore:Cannot find activity to cancel"),
]


@dataclass
class Outages:
    """A worker whose circuits skip time, once `starting` is set."""

    stack: Stack
    starting: asyncio.Event


class _DelayedStarter:
    """A workflow starter that does nothing until the event is set."""

    def __init__(self, workflow_starter: WorkflowStarter, begin: asyncio.Event) -> None:
        self._starter = workflow_starter
        self._begin = begin

    def wake(self) -> None:
        self._starter.wake()

    async def run(self) -> None:
        await self._begin.wait()
        await self._starter.run()


@pytest.fixture
async def outages(
    skipping_temporal: WorkflowEnvironment,
    settings: Settings,
    database: Database,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Outages]:
    starting = asyncio.Event()

    def workflow_starter(settings: Settings, _: Client, database: Database) -> _DelayedStarter:
        # workflows that are started through the environment's own client skip time
        return _DelayedStarter(
            workflow_starter_for(settings, skipping_temporal.client, database), starting
        )

    monkeypatch.setattr(worker_parts, "workflow_starter_for", workflow_starter)
    client = await skipping_temporal.connect_client(data_converter=DATA_CONVERTER)
    async with (
        worker.running_worker(settings, client, database, workflow_runner=SANDBOX),
        idle_stack(client, settings, database, receiver) as stack,
    ):
        yield Outages(stack, starting)


async def break_down(stack: Stack, waiting: int, **policy: Any) -> tuple[str, list[str], int]:
    """Create a failing endpoint and held deliveries; return its id, theirs, and how many failures
    opened the circuit."""
    stack.receiver.routes["/hook"] = "/status/500"
    threshold = min(3, waiting)
    policy = {"failure_threshold": threshold, "min_span_seconds": 0} | policy
    endpoint = await stack.endpoint("/hook", plan=PLAN, circuit=policy)
    held = await stack.deliver_together(endpoint, threshold)
    await until_circuit(stack, endpoint, "open")
    if waiting > threshold:
        held += await stack.deliver_together(endpoint, waiting - threshold)
    await stack.until_all(held, "held", timeout=300)
    assert len(stack.receiver.requests) == threshold
    return endpoint, held, threshold


async def begin(outages: Outages, endpoint: str) -> float:
    """Let the circuit's workflow start; return for how many seconds its circuit has been open."""
    opened_at = (await circuit(outages.stack, endpoint)).opened_at
    outages.starting.set()
    return float((utc_now() - opened_at).total_seconds())


async def timers(stack: Stack, endpoint: str) -> list[tuple[float, float]]:
    """Return the timers of the circuit's workflow that fired: the duration of each, and when it
    fired after the circuit's opening, both in seconds of the workflow's clock."""
    handle = stack.client.get_workflow_handle(workflow_id(endpoint))
    opened_at = (await circuit(stack, endpoint)).opened_at.replace(tzinfo=None)
    durations: dict[int, float] = {}
    fired = []
    async for event in handle.fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_TIMER_STARTED:
            timeout = event.timer_started_event_attributes.start_to_fire_timeout
            durations[event.event_id] = timeout.ToTimedelta().total_seconds()
        elif event.event_type == EventType.EVENT_TYPE_TIMER_FIRED:
            started = event.timer_fired_event_attributes.started_event_id
            since = event.event_time.ToDatetime() - opened_at
            fired.append((durations[started], since.total_seconds()))
    return fired


def probe_delays(count: int) -> list[float]:
    """Return the default delays before probes, in seconds: 1, 2, 4 … 32 min, then hourly."""
    return [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, *[HOUR] * count][:count]


def assert_on_schedule(
    fired: list[tuple[float, float]], delays: list[float], *, held_for: float
) -> None:
    """Check each wait: it lasts for the rest of its delay after the last probe's failure was read,
    never longer, and shorter only by the time that this took. `held_for` is for how many seconds
    the circuit had been open when its workflow started."""
    # If holding all deliveries took longer than the first delay, the first wait is skipped.
    overdue = 1 if held_for > delays[0] else 0
    assert len(fired) == len(delays) - overdue
    first, *others = fired
    assert first[0] <= delays[overdue]
    for (seconds, _), delay in zip(others, delays[overdue + 1 :], strict=True):
        assert delay - 20 < seconds <= delay
    # and in sum: the workflow's clock advances by the waits and by the work between them
    assert first[1] > sum(delays[: overdue + 1]) - 1
    due = itertools.accumulate(delays[overdue + 1 :])
    for (_, since), expected in zip(others, due, strict=True):
        assert expected - 1 < since - first[1] < expected * 1.01 + 60


def assert_on_ramp(arrivals: list[float]) -> None:
    """Check that the arrivals after the first, the successful probe, kept to the drain's ramp."""
    begun = arrivals[0]
    drained = [at - begun for at in arrivals[1:]]
    for number, seconds in enumerate(drained, 1):
        # No tolerance: lateness cannot make a request too early.
        assert number <= _released_by(seconds), f"{number} within {seconds:.2f} s"
    for first, seconds in enumerate(drained):
        within = bisect_left(drained, seconds + 1) - first
        # Deliveries released within two seconds may arrive within one: on a busy machine one takes
        # a second longer (signal, workflow task, activity) than the next.
        assert within <= 2 * _rate_at(seconds + 1) + 1, f"{within} in a second at {seconds:.2f} s"


def _rate_at(seconds: float) -> float:
    return RAMP_FIRST * 2.0 ** (seconds // RAMP_STEP.total_seconds())


def _released_by(seconds: float) -> int:
    """Return how many a drain may release in its first `seconds`: 5/s for 5 s, 10/s for 5 s …"""
    step, total, rate = RAMP_STEP.total_seconds(), 0.0, RAMP_FIRST
    while seconds >= step:
        total += rate * step
        seconds -= step
        rate *= 2
    return int(total + seconds * rate) + 1  # a step begins with one


# 2 hours: probes after 1, 3, 7, 15, 31 and 63 min fail; the next, at 123 min, succeeds.
# 3 days: 70 more fail, hourly, up to 71 h 3 min.
@pytest.mark.parametrize(
    ("failing_probes", "hours", "waiting"),
    [
        pytest.param(6, 2.05, 1, id="2-hours-1", marks=SLOW),
        pytest.param(6, 2.05, 12, id="2-hours-12"),
        pytest.param(6, 2.05, 50, id="2-hours-50", marks=SLOW),
        pytest.param(6, 2.05, 2_000, id="2-hours-2000", marks=MANY),
        pytest.param(76, 72.05, 1, id="3-days-1", marks=SLOW),
        pytest.param(76, 72.05, 50, id="3-days-50", marks=SLOW),
        pytest.param(76, 72.05, 2_000, id="3-days-2000", marks=MANY),
    ],
)
async def test_only_probes_are_sent_during_an_outage_and_everything_arrives_after_it(
    outages: Outages, failing_probes: int, hours: float, waiting: int
) -> None:
    stack, requests = outages.stack, outages.stack.receiver.requests
    endpoint, held, threshold = await break_down(stack, waiting, disable_after_seconds=96 * HOUR)
    stack.receiver.routes["/hook"] = f"/down-for/{failing_probes}"

    held_for = await begin(outages, endpoint)
    await stack.until_all(held, "delivered", timeout=60 + waiting / 5)

    assert len(requests) == threshold + failing_probes + waiting
    probes = requests[threshold : threshold + failing_probes + 1]
    assert await triggers(stack, endpoint, "probe") == Counter(one.message_id for one in probes)
    # the probes were different deliveries: one bad delivery must not keep the circuit open
    assert len({one.message_id for one in probes}) == min(waiting, failing_probes + 1)
    arrived = requests[threshold + failing_probes :]
    assert sorted(one.message_id or "" for one in arrived) == held
    assert_on_ramp([one.at for one in arrived])

    closed = await until_circuit(stack, endpoint, "closed")
    assert (closed.episode, closed.drained) == (1, waiting - 1)
    fired = await timers(stack, endpoint)
    assert_on_schedule(fired, probe_delays(failing_probes + 1), held_for=held_for)
    begun_late = max(0.0, held_for - probe_delays(1)[0])
    assert fired[-1][1] == pytest.approx(hours * HOUR + begun_late, rel=0.01)


@pytest.mark.parametrize(
    "waiting",
    [pytest.param(1, marks=SLOW), pytest.param(50, marks=SLOW), pytest.param(2_000, marks=MANY)],
)
async def test_dead_letters_of_a_72_hour_outage_can_be_redriven_after_5_days(
    outages: Outages, waiting: int
) -> None:
    stack, requests = outages.stack, outages.stack.receiver.requests
    endpoint, held, threshold = await break_down(stack, waiting)

    held_for = await begin(outages, endpoint)
    await stack.until_all(held, "dead", timeout=60 + waiting / 5)
    await until_circuit(stack, endpoint, "closed")

    # 76 probes up to 71 h 3 min, and one when the 72 hours have passed
    delays = probe_delays(76)
    fired = await timers(stack, endpoint)
    assert_on_schedule(fired[:-1], delays, held_for=held_for)
    assert fired[-1][1] == pytest.approx(72 * HOUR, abs=60)
    assert len(requests) == threshold + 77
    assert (await triggers(stack, endpoint, "probe")).total() == 77
    assert await endpoint_is(stack, endpoint) == "disabled"
    assert {(await stack.row(one)).reason for one in held[:50]} == {"endpoint_disabled"}
    # for two more days the endpoint is down, and receives nothing
    late = await stack.deliver(endpoint)
    assert (await stack.until_status(late, "dead")).reason == "endpoint_disabled"
    assert len(requests) == threshold + 77

    stack.receiver.routes["/hook"] = "/ok"
    await stack.change_endpoint(endpoint_state.enable, endpoint)
    await seed_job(stack.database)  # as `enable` with `redrive` does
    await stack.until_all([*held, late], "delivered", timeout=60 + waiting / 5)
    arrived = [one.message_id or "" for one in requests[threshold + 77 :]]
    assert sorted(arrived) == [*held, late]
    assert len(await recorded_attempts(stack, endpoint)) == len(requests)


async def endpoint_is(stack: Stack, endpoint: str) -> str:
    table: Table = Endpoint.__table__
    async with stack.database.read() as connection:
        rows = await connection.execute(select(table.c.state).where(table.c.id == endpoint))
        return str(rows.scalar_one())
