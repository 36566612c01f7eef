"""A worker is frozen in the middle of attempts, for longer than Temporal waits for it. Another one
takes over, and people change their minds; when it goes on, it does nothing that nobody wants."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from temporalio.testing import WorkflowEnvironment

from hookfast.clock import utc_now
from hookfast.endpoints.circuit import Cause
from hookfast.errors import Conflict
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions
from hookfast.storage.deliveries.actions import UserAction
from hookfast.storage.endpoints import endpoint_state
from tests.e2e.processes import environment, running, worker
from tests.support.receiver import Receiver
from tests.support.seed import attempt_rows, delivery_row, seed_delivery, seed_endpoint
from tests.support.temporal_server import temporal_server
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

_FROZEN_SECONDS = 14  # a workflow task has 10, and its sticky queue 1
_SETTLE_SECONDS = 4
_POINTS = ("admitted", "held", "requested", "answered", "recording", "recorded")
_SLOW = ("admitted", "answered", "recording", "recorded")


@pytest.fixture
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    async with temporal_server() as environment:
        yield environment


class Frozen:
    """Five deliveries that were at one line when their worker stopped."""

    def __init__(self, database: Database, receiver: Receiver) -> None:
        self.database = database
        self.receiver = receiver
        self.ids: dict[str, str] = {}
        self.endpoints: dict[str, str] = {}
        self.forbidden_from: dict[str, float] = {}

    async def seed(self, *, paused: bool) -> None:
        for name in ("plain", "cancel", "pause", "resend", "disable"):
            endpoint = await seed_endpoint(self.database, self.receiver.url("/ok"))
            if paused:
                async with self.database.write() as connection:
                    await endpoint_state.pause(connection, endpoint, now=utc_now())
            self.endpoints[name] = endpoint
            self.ids[name] = await seed_delivery(self.database, endpoint)

    async def ask(self, action: UserAction) -> None:
        async with self.database.write() as connection:
            try:
                await actions.request(connection, self.ids[action], action, now=utc_now())
            except Conflict:
                return  # what the frozen worker did is committed: it has ended
        if action != "resend":
            self.forbidden_from[action] = time.time()

    async def disable(self) -> None:
        async with self.database.write() as connection:
            await endpoint_state.disable(
                connection,
                self.endpoints["disable"],
                cause=Cause.DISABLED,
                reason="By request.",
                now=utc_now(),
            )
        self.forbidden_from["disable"] = time.time()

    async def resume_endpoints(self) -> None:
        for endpoint in self.endpoints.values():
            async with self.database.write() as connection:
                await endpoint_state.resume(connection, endpoint, now=utc_now())

    async def row(self, name: str) -> Any:
        return await delivery_row(self.database, self.ids[name])

    async def until(self, name: str, *statuses: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while (await self.row(name)).status not in statuses:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    def sent(self, name: str) -> list[float]:
        """When it was sent."""
        mine = [one for one in self.receiver.requests if one.message_id == self.ids[name]]
        return [request.at for request in mine]


async def until_stopped(pid: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while psutil.Process(pid).status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("point", "first_attempts"),
    [
        *(
            pytest.param(one, "workflow", marks=[pytest.mark.slow] if one in _SLOW else [])
            for one in _POINTS
        ),
        *(
            pytest.param(one, "batch", marks=[pytest.mark.slow] if one in _SLOW else [])
            for one in _POINTS
            if one != "held"  # a batch takes nothing that would be held
        ),
    ],
)
async def test_a_frozen_worker_does_nothing_that_nobody_wants_when_it_goes_on(
    temporal: WorkflowEnvironment,
    database_url: str,
    database: Database,
    tmp_path: Path,
    point: str,
    first_attempts: str,
) -> None:
    address = temporal.client.service_client.config.target_host
    env = environment(tmp_path, database_url, address, HOOKFAST_FIRST_ATTEMPTS=first_attempts)
    async with Receiver() as receiver:
        frozen = Frozen(database, receiver)
        await frozen.seed(paused=point == "held")
        command = (sys.executable, "-m", "tests.e2e.freezing_worker")
        freezing = env | {"FREEZE_AT": point, "COUNT": "5"}
        async with running(*command, env=freezing, log=tmp_path / "frozen.log") as first:
            await until_stopped(first.pid)
            async with worker(env, tmp_path / "worker.log"):
                for action in ("cancel", "pause", "resend"):
                    await frozen.ask(action)  # type: ignore[arg-type]
                await frozen.disable()
                await asyncio.sleep(_FROZEN_SECONDS)
                first.send_signal(signal.SIGCONT)
                await asyncio.sleep(_SETTLE_SECONDS)
                await frozen.resume_endpoints()
                await frozen.until("plain", "delivered")
                await frozen.until("resend", "delivered")
                await frozen.until("disable", "dead", "delivered")
                await asyncio.sleep(_SETTLE_SECONDS)

    for name, since in frozen.forbidden_from.items():
        assert [at for at in frozen.sent(name) if at > since] == [], name
    # A cancelled delivery stays so, also where its last request turns out to have arrived; what was
    # paused has then arrived.
    committed, arrived = point == "recorded", point in ("answered", "recording", "recorded")
    assert (await frozen.row("cancel")).status == ("delivered" if committed else "cancelled")
    assert (await frozen.row("pause")).status == ("delivered" if arrived else "paused")
    # Only what was sent before it was frozen, and not recorded, may be sent once more.
    most = 2 if point in ("answered", "recording") else 1
    counts = Counter({name: len(frozen.sent(name)) for name in frozen.ids})
    assert counts["plain"] <= most
    assert counts["cancel"] <= 1
    assert counts["pause"] <= 1
    for name, delivery in frozen.ids.items():
        row, attempts = await frozen.row(name), await attempt_rows(database, delivery)
        assert len(attempts) == counts[name], name
        assert row.attempts == max((one.number for one in attempts), default=0), name
        if row.status in ("delivered", "dead", "cancelled"):
            assert (row.next_attempt_at, row.due_at, row.resend_asked_at) == (None, None, None)
            assert row.finished_at is not None
