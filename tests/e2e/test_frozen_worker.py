"""A worker is frozen during attempts until Temporal gives its work to another worker. Meanwhile
people cancel, pause and resend; when the worker continues, it respects that."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from hookfast.clock import utc_now
from hookfast.deliveries import batch_messages
from hookfast.deliveries.actions import UserAction
from hookfast.deliveries.messages import workflow_id
from hookfast.endpoints.circuit import Cause
from hookfast.errors import Conflict
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions
from hookfast.storage.endpoints import endpoint_state
from tests.e2e.breakpoints import THAWED_ENDED
from tests.e2e.processes import environment, running, successor
from tests.support.receiver import Receiver
from tests.support.seed import attempt_rows, delivery_row, seed_delivery, seed_endpoint
from tests.support.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

_SETTLE_SECONDS = 4  # for requests that must not be made, so there is no event to wait for
_POINTS = ("admitted", "held", "requested", "answered", "recording", "recorded")
_QUICK = ("requested", "batch")


class Frozen:
    """Five deliveries whose worker was stopped at the same point, and the actions on them."""

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

    async def request(self, action: UserAction) -> None:
        async with self.database.write() as connection:
            try:
                await actions.request(connection, self.ids[action], action, now=utc_now())
            except Conflict:
                return  # the frozen worker committed its result: the delivery has ended
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
        async def reached() -> bool:
            return (await self.row(name)).status in statuses

        await eventually(reached)

    def sent(self, name: str) -> list[float]:
        """Return the Unix times at which the delivery was sent."""
        return [request.at for request in self.receiver.requests_for(self.ids[name])]

    async def workflow_ids(self) -> set[str]:
        """Return the ids of the workflows that attempt the deliveries now."""
        rows = [await self.row(name) for name in self.ids]
        return {
            workflow_id(row.id)
            if row.batch_id is None
            else batch_messages.workflow_id(row.batch_id)
            for row in rows
        }


async def until_stopped(pid: int) -> None:
    async def stopped() -> bool:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED

    await eventually(stopped)


async def until_taken_over(client: Client, workflow_ids: set[str]) -> None:
    """Wait until Temporal has given up the frozen worker's tasks, after 10 s, and another worker
    has completed a task of each workflow."""
    for one in workflow_ids:
        async with asyncio.timeout(PATIENCE):
            timed_out = False
            history = client.get_workflow_handle(one).fetch_history_events(wait_new_event=True)
            async for event in history:
                timed_out |= event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT
                if timed_out and event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                    break


@pytest.mark.parametrize(
    ("point", "first_attempts"),
    [
        pytest.param(one, mode, marks=[] if (one, mode) == _QUICK else [pytest.mark.slow])
        for mode in ("workflow", "batch")
        for one in _POINTS
        if (one, mode) != ("held", "batch")  # a batch takes no delivery that would be held
    ],
)
async def test_thawed_worker_never_sends_cancelled_paused_or_disabled_deliveries(
    temporal: WorkflowEnvironment,
    temporal_address: str,
    database_url: str,
    database: Database,
    tmp_path: Path,
    point: str,
    first_attempts: str,
) -> None:
    env = environment(
        tmp_path, database_url, temporal_address, HOOKFAST_FIRST_ATTEMPTS=first_attempts
    )
    async with Receiver() as receiver:
        frozen = Frozen(database, receiver)
        await frozen.seed(paused=point == "held")
        command = (sys.executable, "-m", "tests.e2e.freezing_worker")
        freezing = env | {"FREEZE_AT": point, "COUNT": "5"}
        log = tmp_path / "frozen.log"

        async def thawed_steps_have_ended() -> bool:
            return THAWED_ENDED in log.read_text()

        async with running(*command, env=freezing, log=log) as first:
            await until_stopped(first.pid)
            workflow_ids = await frozen.workflow_ids()
            async with successor(env, temporal.client, database):
                for action in ("cancel", "pause", "resend"):
                    await frozen.request(action)  # type: ignore[arg-type]
                await frozen.disable()
                await until_taken_over(temporal.client, workflow_ids)
                first.send_signal(signal.SIGCONT)
                await eventually(thawed_steps_have_ended)
                await frozen.resume_endpoints()
                await frozen.until("plain", "delivered")
                await frozen.until("resend", "delivered")
                await frozen.until("disable", "dead", "delivered")
                await asyncio.sleep(_SETTLE_SECONDS)

    for name, since in frozen.forbidden_from.items():
        assert [at for at in frozen.sent(name) if at > since] == [], name
    # A cancelled delivery stays cancelled although its last request turns out to have succeeded; a
    # paused one becomes delivered.
    committed, arrived = point == "recorded", point in ("answered", "recording", "recorded")
    assert (await frozen.row("cancel")).status == ("delivered" if committed else "cancelled")
    assert (await frozen.row("pause")).status == ("delivered" if arrived else "paused")
    # Only a request made before the freeze and not recorded may be repeated.
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
