"""Outages of hours and days: only probes go out, on schedule; afterwards everything arrives, no
faster than the ramp.

Only the circuits' workflows skip time. The deliveries wait on real clocks, as their timers (a
backstop of hours) would otherwise be what ends the waiting.
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
    deliver_many,
    sent,
    triggers,
    until_all,
    until_circuit,
)
from tests.integration.delivery.conftest import SANDBOX, Stack
from tests.support.receiver import Receiver
from tests.support.seed_jobs import seed_job

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

HOUR = 3600.0
# Its first retry comes soon, and finds the circuit open.
PLAN = {"delays_seconds": [2, 600], "jitter": 0, "retry_on": "all"}
SLOW = pytest.mark.slow
MANY = [
    SLOW,
    pytest.mark.timeout(900),
    # Temporal's client warns so when a workflow task took too long and was given to it once more,
    # as happens to some of 2,000 that come at once.
    pytest.mark.filterwarnings("ignore:Cannot find activity to cancel"),
]


@dataclass
class Outages:
    """A worker whose circuits skip time, once `starting` is set."""

    stack: Stack
    starting: asyncio.Event


class _WhenTold:
    """A workflow_starter that waits until a test has its deliveries waiting."""

    def __init__(self, workflow_starter: WorkflowStarter, told: asyncio.Event) -> None:
        self._starter = workflow_starter
        self._told = told

    def ring(self) -> None:
        self._starter.wake()

    async def run(self) -> None:
        await self._told.wait()
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

    def workflow_starter(settings: Settings, _: Client, database: Database) -> _WhenTold:
        # what is started through the environment's own client skips time
        return _WhenTold(
            workflow_starter_for(settings, skipping_temporal.client, database), starting
        )

    monkeypatch.setattr(worker, "workflow_starter_for", workflow_starter)
    client = await skipping_temporal.connect_client(data_converter=DATA_CONVERTER)
    async with worker.running_worker(settings, client, database, workflow_runner=SANDBOX):
        yield Outages(Stack(client, database, receiver), starting)


async def break_down(stack: Stack, waiting: int, **policy: Any) -> tuple[str, list[str], int]:
    """An endpoint that fails, with so many deliveries held for it; its id, theirs, and how many
    failures opened the circuit."""
    stack.receiver.routes["/hook"] = "/status/500"
    threshold = min(3, waiting)
    policy = {"failure_threshold": threshold, "min_span_seconds": 0} | policy
    endpoint = await stack.endpoint("/hook", plan=PLAN, circuit=policy)
    held = await deliver_many(stack, endpoint, threshold)
    await until_circuit(stack, endpoint, "open")
    if waiting > threshold:
        held += await deliver_many(stack, endpoint, waiting - threshold)
    await until_all(stack, held, "held", timeout=300)
    assert len(stack.receiver.requests) == threshold
    return endpoint, held, threshold


async def begin(outages: Outages, endpoint: str) -> float:
    """Let the circuit's workflow start; for how many seconds its circuit has been open."""
    opened_at = (await circuit(outages.stack, endpoint)).opened_at
    outages.starting.set()
    return float((utc_now() - opened_at).total_seconds())


async def timers(stack: Stack, endpoint: str) -> list[tuple[float, float]]:
    """The timers of the endpoint's circuit that ran out: for how long each was set, and how long
    after the circuit's opening it ended, both in the circuit's own seconds."""
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
    """1, 2, 4 … 32 min, then hourly."""
    return [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, *[HOUR] * count][:count]


def assert_on_schedule(
    fired: list[tuple[float, float]], delays: list[float], *, held_for: float
) -> None:
    """Each wait is set for what is left of its delay once the last probe has been seen to fail:
    never for more, and for less only by what that took. `held_for` are the seconds that the circuit
    had been open when its workflow was started."""
    # Where holding them all took longer than the first delay, there was nothing left to wait for.
    overdue = 1 if held_for > delays[0] else 0
    assert len(fired) == len(delays) - overdue
    first, *others = fired
    assert first[0] <= delays[overdue]
    for (seconds, _), delay in zip(others, delays[overdue + 1 :], strict=True):
        assert delay - 20 < seconds <= delay
    # and in sum: the clock of the workflow goes on by the waits and by what is done in between
    assert first[1] > sum(delays[: overdue + 1]) - 1
    due = itertools.accumulate(delays[overdue + 1 :])
    for (_, since), expected in zip(others, due, strict=True):
        assert expected - 1 < since - first[1] < expected * 1.01 + 60


def assert_on_ramp(arrivals: list[float]) -> None:
    """The first is the probe that found the endpoint well again; the drain begins after it."""
    begun = arrivals[0]
    drained = [at - begun for at in arrivals[1:]]
    for number, seconds in enumerate(drained, 1):
        # No tolerance: what is late cannot be too early.
        assert number <= _let_go_by(seconds), f"{number} within {seconds:.2f} s"
    for first, seconds in enumerate(drained):
        within = bisect_left(drained, seconds + 1) - first
        # What is let go within two seconds may arrive within one: on a busy machine one delivery
        # is on its way (a signal, a workflow task, an activity) a second longer than the next.
        assert within <= 2 * _rate_at(seconds + 1) + 1, f"{within} in a second at {seconds:.2f} s"


def _rate_at(seconds: float) -> float:
    return RAMP_FIRST * 2.0 ** (seconds // RAMP_STEP.total_seconds())


def _let_go_by(seconds: float) -> int:
    """The most that a drain may have let go in its first `seconds`: 5/s for 5 s, 10/s for 5 s …"""
    step, total, rate = RAMP_STEP.total_seconds(), 0.0, RAMP_FIRST
    while seconds >= step:
        total += rate * step
        seconds -= step
        rate *= 2
    return int(total + seconds * rate) + 1  # a step begins with one


# 2 hours: probes after 1, 3, 7, 15, 31 and 63 min fail; the next, at 123 min, finds it well again.
# 3 days: 70 more fail, hourly, up to 71 h 3 min.
@pytest.mark.parametrize(
    ("failing_probes", "hours", "waiting"),
    [
        pytest.param(6, 2.05, 1, id="2-hours-1"),
        pytest.param(6, 2.05, 50, id="2-hours-50"),
        pytest.param(6, 2.05, 2_000, id="2-hours-2000", marks=MANY),
        pytest.param(76, 72.05, 1, id="3-days-1", marks=SLOW),
        pytest.param(76, 72.05, 50, id="3-days-50", marks=SLOW),
        pytest.param(76, 72.05, 2_000, id="3-days-2000", marks=MANY),
    ],
)
async def test_only_probes_go_out_during_an_outage_and_everything_arrives_after_it(
    outages: Outages, failing_probes: int, hours: float, waiting: int
) -> None:
    stack, requests = outages.stack, outages.stack.receiver.requests
    endpoint, held, threshold = await break_down(stack, waiting, disable_after_seconds=96 * HOUR)
    stack.receiver.routes["/hook"] = f"/down-for/{failing_probes}"

    held_for = await begin(outages, endpoint)
    await until_all(stack, held, "delivered", timeout=60 + waiting / 5)

    assert len(requests) == threshold + failing_probes + waiting
    probes = requests[threshold : threshold + failing_probes + 1]
    assert await triggers(stack, endpoint, "probe") == Counter(one.message_id for one in probes)
    # one that the receiver could not stand would not have kept the circuit open
    assert len({one.message_id for one in probes}) == min(waiting, failing_probes + 1)
    arrived = requests[threshold + failing_probes :]
    assert sorted(one.message_id or "" for one in arrived) == held
    assert_on_ramp([one.at for one in arrived])

    closed = await until_circuit(stack, endpoint, "closed")
    assert (closed.episode, closed.drained) == (1, waiting - 1)
    fired = await timers(stack, endpoint)
    assert_on_schedule(fired, probe_delays(failing_probes + 1), held_for=held_for)
    assert fired[-1][1] == pytest.approx(hours * HOUR, rel=0.01)


@pytest.mark.parametrize(
    "waiting",
    [pytest.param(1, marks=SLOW), pytest.param(50, marks=SLOW), pytest.param(2_000, marks=MANY)],
)
async def test_after_5_days_everything_can_be_redriven_that_72_hours_made_dead_letters(
    outages: Outages, waiting: int
) -> None:
    stack, requests = outages.stack, outages.stack.receiver.requests
    endpoint, held, threshold = await break_down(stack, waiting)

    held_for = await begin(outages, endpoint)
    await until_all(stack, held, "dead", timeout=60 + waiting / 5)
    await until_circuit(stack, endpoint, "closed")

    # 76 probes up to 71 h 3 min, and one when its time is up
    delays = probe_delays(76)
    fired = await timers(stack, endpoint)
    assert_on_schedule(fired[:-1], delays, held_for=held_for)
    assert fired[-1][1] == pytest.approx(72 * HOUR, abs=60)
    assert len(requests) == threshold + 77
    assert (await triggers(stack, endpoint, "probe")).total() == 77
    assert await endpoint_is(stack, endpoint) == "disabled"
    assert {(await stack.row(one)).reason for one in held[:50]} == {"endpoint_disabled"}
    # two days in which it is still down, and nobody asks it
    late = await stack.deliver(endpoint)
    assert (await stack.until_status(late, "dead")).reason == "endpoint_disabled"
    assert len(requests) == threshold + 77

    stack.receiver.routes["/hook"] = "/ok"
    async with stack.database.write() as connection:
        assert await endpoint_state.enable(connection, endpoint, now=utc_now())
    await seed_job(stack.database)  # what `enable` with `redrive` asks for
    await until_all(stack, [*held, late], "delivered", timeout=60 + waiting / 5)
    arrived = [one.message_id or "" for one in requests[threshold + 77 :]]
    assert sorted(arrived) == [*held, late]
    assert len(await sent(stack, endpoint)) == len(requests)


async def endpoint_is(stack: Stack, endpoint: str) -> str:
    table: Table = Endpoint.__table__
    async with stack.database.read() as connection:
        rows = await connection.execute(select(table.c.state).where(table.c.id == endpoint))
        return str(rows.scalar_one())
