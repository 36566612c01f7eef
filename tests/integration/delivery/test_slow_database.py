"""A database that answers too late does not cause a second request."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from temporalio.testing import ActivityEnvironment, WorkflowEnvironment

import worker
from activities import attempt, heartbeat
from activities.attempt import AttemptRunner
from activities.delivery import DeliveryActivities
from activities.fast_lane import FastLane
from hookfast.clock import utc_now
from hookfast.deliveries.messages import StepInput
from hookfast.deliveries.retry_plan import DEFAULT_PLAN
from hookfast.dispatch import relay
from hookfast.dispatch.retry_lag import RetryLag
from hookfast.dispatch.start_window import StartWindow
from hookfast.errors import NotFound, Unavailable
from hookfast.sender import AddressGuard, Sender
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.deliveries.recorder import Recorder
from tests.integration.delivery.conftest import Stack, running_stack
from tests.support.database_proxy import DatabaseProxy
from tests.support.receiver import Receiver
from tests.support.seed import KEY, KEYRING, attempt_rows, seed_delivery, seed_endpoint
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def holding_attempts(database: Database) -> AsyncIterator[None]:
    """Lock the table of attempts, so that no attempt can be recorded."""
    async with Database(database.url) as other, other.write() as connection:
        lock = "LOCK TABLE attempts" if database.kind == "postgresql" else "SELECT 1"
        await connection.execute(text(lock))
        yield


async def activities_scheduled(stack: Stack, delivery: str) -> list[str]:
    history = await stack.workflow(delivery).fetch_history()
    return [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]


async def test_a_record_that_takes_too_long_is_handed_to_the_workflow(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "RECORD_SHARE", timedelta(seconds=0.5))
    delivery = await stack.deliver(await stack.endpoint("/slow/0.5"))
    await stack.receiver.wait_for(1)

    async def handed_over() -> bool:
        return await activities_scheduled(stack, delivery) == ["record_attempt"]

    async with holding_attempts(stack.database):
        await eventually(handed_over)
    row = await stack.until_status(delivery, "delivered")
    await stack.until_closed(delivery)

    assert row.attempts == len(await stack.attempts(delivery)) == len(stack.receiver.requests) == 1


class Attempts:
    """The step activity, run with a chosen time limit."""

    def __init__(self, database: Database, receiver: Receiver, sender: Sender) -> None:
        self.database = database
        self.receiver = receiver
        self.recorder = Recorder(database)
        self.environment = ActivityEnvironment()
        loader = OutgoingLoader(database, KEYRING)
        self.runner = AttemptRunner(
            loader=loader,
            sender=sender,
            recorder=self.recorder,
            public_url="https://hooks.example.com",
        )
        self._activities = DeliveryActivities(
            client=None,  # type: ignore[arg-type] # nothing is cancelled here
            database=database,
            loader=loader,
            runner=self.runner,
            recorder=self.recorder,
            fast_lane=FastLane(16),
            held_backstop=timedelta(hours=6),
            on_commit=lambda _: None,
            retry_lag=RetryLag(),
            window=StartWindow(),
        )

    async def deliver(self, *, timeout: float = 5) -> str:
        endpoint = await seed_endpoint(self.database, self.receiver.url("/ok"), timeout=timeout)
        return await seed_delivery(self.database, endpoint)

    async def make(self, delivery: str, *, seconds: float, local: bool = False) -> Any:
        allowed = timedelta(seconds=seconds)
        self.environment.info = replace(
            self.environment.info,
            is_local=local,
            start_to_close_timeout=allowed,
            schedule_to_close_timeout=allowed,
            scheduled_time=utc_now(),
        )
        order = StepInput(delivery, DEFAULT_PLAN, utc_now())
        return await self.environment.run(self._activities.step, order)


@pytest.fixture
async def attempts(database: Database, receiver: Receiver) -> AsyncIterator[Attempts]:
    guard = AddressGuard((ip_network("127.0.0.0/8"),))
    async with Sender(guard=guard) as sender:
        attempts = Attempts(database, receiver, sender)
        yield attempts
        await attempts.recorder.close()
        await attempts.runner.close()


async def test_an_attempt_that_waits_for_the_database_sends_heartbeats(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "_EVERY_SECONDS", 0.01)
    beats = asyncio.Event()
    attempts.environment.on_heartbeat = lambda *_: beats.set()

    async def load(*_: Any, **__: Any) -> Any:
        await beats.wait()
        raise NotFound("There is no such delivery.")

    monkeypatch.setattr(OutgoingLoader, "load", load)
    async with asyncio.timeout(PATIENCE):
        report = await attempts.make("dlv_1", seconds=75)
    assert report.reason == "not_found"


async def test_nothing_is_sent_when_its_record_would_come_too_late(attempts: Attempts) -> None:
    """5 s for the request and 2 s for the record; Temporal would have it sent again after 6."""
    delivery = await attempts.deliver(timeout=5)
    with pytest.raises(Unavailable):
        await attempts.make(delivery, seconds=6)
    assert attempts.receiver.requests == []
    assert await attempt_rows(attempts.database, delivery) == []
    report = await attempts.make(delivery, seconds=75)
    assert report.status == "delivered"
    assert len(attempts.receiver.requests) == 1


async def test_step_whose_result_is_lost_finds_the_late_record(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporal was away together with the database, so the workflow never learned of the attempt,
    and has the step repeated."""
    monkeypatch.setattr(attempt, "RECORD_SHARE", timedelta(seconds=0.5))
    delivery = await attempts.deliver()
    async with holding_attempts(attempts.database):
        assert (await attempts.make(delivery, seconds=75)).unrecorded is not None

    async def recorded() -> bool:
        return bool(await attempt_rows(attempts.database, delivery))

    await eventually(recorded)
    assert (await attempts.make(delivery, seconds=75)).status == "delivered"
    assert len(attempts.receiver.requests) == 1
    (row,) = await attempt_rows(attempts.database, delivery)
    assert row.request_headers is not None  # which a workflow would not have


async def test_worker_that_stops_gives_up_late_records(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "RECORD_SHARE", timedelta(seconds=0.5))
    delivery = await attempts.deliver()
    async with asyncio.timeout(PATIENCE), holding_attempts(attempts.database):
        assert (await attempts.make(delivery, seconds=75)).unrecorded is not None
        await attempts.runner.close()


async def test_the_fast_lane_hands_over_attempts_whose_timeout_has_become_too_long(
    attempts: Attempts,
) -> None:
    """The endpoint's timeout was raised after the workflow had chosen the lane."""
    delivery = await attempts.deliver(timeout=30)
    assert (await attempts.make(delivery, seconds=30, local=True)).lane_full
    assert attempts.receiver.requests == []
    assert (await attempts.make(delivery, seconds=75)).status == "delivered"


async def test_worker_with_a_frozen_database_still_shuts_down(
    temporal: WorkflowEnvironment,
    postgresql_url: str,
    receiver: Receiver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (worker, relay):
        monkeypatch.setattr(module, "_LEAVE_SECONDS", 0.5)
    async with DatabaseProxy(postgresql_url) as line, Database(line.url) as database:
        settings = Settings(
            home=tmp_path,
            database_url=line.url,
            encryption_keys=base64.b64encode(KEY).decode(),
            allowed_private_networks=(ip_network("127.0.0.0/8"),),
            allow_http=True,
            shutdown_grace=timedelta(seconds=1),
        )
        async with asyncio.timeout(PATIENCE):
            async with running_stack(temporal, settings, database, receiver) as stack:
                await stack.deliver_until("delivered", "/ok")
                line.freeze()
