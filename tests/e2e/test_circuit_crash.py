"""A worker is killed in every phase of an outage, and another one completes it: no delivery is
lost or stays held, and owners are notified of each change once."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.testing import WorkflowEnvironment

from hookfast.clock import utc_now
from hookfast.dispatch.workflow_starter import WorkflowStarter
from hookfast.endpoints.outage import workflow_id
from hookfast.storage.circuits import circuits
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.tables import Endpoint, Notice
from tests.e2e.processes import environment, kill, running
from tests.support.receiver import Receiver
from tests.support.seed import attempt_rows, delivery_row, seed_delivery, seed_endpoint
from tests.support.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PATIENT = {"delays_seconds": [600], "jitter": 0, "retry_on": "all"}
ON_REQUEST = {"failure_threshold": 3, "min_span_seconds": 0, "probe_delays_seconds": [600]}
"""A circuit that is only probed when a test requests it."""


@dataclass
class Outage:
    """A failing endpoint whose worker will be killed, with ways to act and to wait."""

    client: Client
    database: Database
    receiver: Receiver
    env: dict[str, str]
    log: Path
    endpoint: str
    failed: list[str]
    held: list[str]

    def worker(self, *, die_at: str = "never") -> AbstractAsyncContextManager[Any]:
        command = (sys.executable, "-m", "tests.e2e.dying_worker")
        return running(*command, env=self.env | {"DIE_AT": die_at}, log=self.log)

    async def until_died(self, process: asyncio.subprocess.Process) -> None:
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == -signal.SIGKILL, self.log.read_text()

    async def until_all(self, deliveries: list[str], *statuses: str) -> None:
        async def reached() -> bool:
            rows = [await delivery_row(self.database, one) for one in deliveries]
            return {row.status for row in rows} <= set(statuses)

        await eventually(reached)

    async def until_circuit(self, *states: str) -> None:
        async def reached() -> bool:
            async with self.database.read() as connection:
                owned = await circuits.get(connection, self.endpoint)
            return owned is not None and owned.circuit.state in states

        await eventually(reached)

    async def break_down(self) -> None:
        """Send the failures that open the circuit; they may still be in flight."""
        self.receiver.routes["/hook"] = "/status/500"
        self.failed = [await seed_delivery(self.database, self.endpoint) for _ in range(3)]
        await self.receiver.wait_for(3)

    async def hold(self, count: int = 3) -> None:
        """Wait until the circuit is open, and store deliveries that it holds."""
        await self.until_circuit("open")
        self.held = [await seed_delivery(self.database, self.endpoint) for _ in range(count)]
        await self.until_all(self.held, "held")

    async def probe(self) -> None:
        """Request a probe now."""
        async with self.database.write() as connection:
            assert await endpoint_state.probe_now(connection, self.endpoint, now=utc_now())
        await WorkflowStarter(
            self.client, self.database, [circuits.CircuitWorkflowRequests()]
        ).start_requested()

    async def until_over(self) -> None:
        """Wait until the circuit is closed and its workflow has ended, and check that nothing is
        held."""
        await self.until_circuit("closed")
        workflow = self.client.get_workflow_handle(workflow_id(self.endpoint))
        async with asyncio.timeout(PATIENCE):
            await workflow.result()
        description = await workflow.describe()
        assert description.status is WorkflowExecutionStatus.COMPLETED
        async with self.database.read() as connection:
            assert await circuits.count_held(connection, self.endpoint) == 0

    async def notices(self) -> list[str]:
        table = Notice.__table__
        async with self.database.read() as connection:
            rows = await connection.execute(select(table.c.kind))
            return sorted(rows.scalars())

    async def repeated_requests(self) -> int:
        """Return how many requests were repeated. Check that every request has an attempt with its
        number, and every attempt a request."""
        requests = Counter(
            (request.message_id, int(request.headers["x-hook-attempt"]))
            for request in self.receiver.requests
        )
        recorded = [
            (one, attempt.number)
            for one in self.failed + self.held
            for attempt in await attempt_rows(self.database, one)
        ]
        assert sorted(recorded) == sorted(requests)
        return requests.total() - len(requests)


Begin = Callable[..., AbstractAsyncContextManager[Outage]]


@pytest.fixture
def outage(
    temporal: WorkflowEnvironment,
    temporal_address: str,
    database: Database,
    database_url: str,
    tmp_path: Path,
) -> Begin:
    @asynccontextmanager
    async def begin(**overrides: Any) -> AsyncIterator[Outage]:
        async with Receiver() as receiver:
            endpoint = await seed_endpoint(
                database,
                receiver.url("/hook"),
                plan=PATIENT,
                circuit=ON_REQUEST | overrides,
                owner_emails=["ops@example.com"],
            )
            yield Outage(
                client=temporal.client,
                database=database,
                receiver=receiver,
                env=environment(tmp_path, database_url, temporal_address, HEARTBEAT_TIMEOUT="2"),
                log=tmp_path / "worker.log",
                endpoint=endpoint,
                failed=[],
                held=[],
            )

    return begin


async def test_worker_killed_before_the_circuits_workflow_starts(outage: Begin) -> None:
    async with outage() as it:
        async with it.worker(die_at="opened") as dying:
            await it.break_down()
            await it.until_died(dying)
        async with it.worker():
            await it.hold()
            it.receiver.routes["/hook"] = "/ok"
            await it.probe()
            await it.until_all(it.held, "delivered")
            await it.until_over()
        assert await it.repeated_requests() == 0
        assert await it.notices() == ["opened", "recovered"]


async def test_worker_killed_while_the_circuit_waits_for_its_first_probe(outage: Begin) -> None:
    async with outage(probe_delays_seconds=[5]) as it:
        async with it.worker() as killed:
            await it.break_down()
            await it.hold()
            await kill(killed)
        it.receiver.routes["/hook"] = "/ok"
        async with it.worker():
            await it.until_all(it.held, "delivered")
            await it.until_over()
        assert await it.repeated_requests() == 0
        assert await it.notices() == ["opened", "recovered"]


async def test_worker_killed_during_a_probe(outage: Begin) -> None:
    async with outage() as it:
        async with it.worker() as killed:
            await it.break_down()
            await it.hold()
            it.receiver.routes["/hook"] = "/slow/30"
            await it.probe()
            await it.receiver.wait_for(4)
            await kill(killed)
        it.receiver.routes["/hook"] = "/ok"
        async with it.worker():
            await it.until_all(it.held, "delivered")
            await it.until_over()
        # the probe: nothing says whether it arrived
        assert await it.repeated_requests() == 1
        assert len(it.receiver.requests_for(it.held[0])) == 2
        assert await it.notices() == ["opened", "recovered"]


@pytest.mark.parametrize(
    ("die_at", "repeated"),
    [
        ("answered", 1),  # at least once: nothing says that it arrived
        ("succeeded", 0),  # the record says that it was sent
        ("emptied", 0),
        ("closed", 0),
    ],
)
async def test_worker_killed_during_recovery(outage: Begin, die_at: str, repeated: int) -> None:
    async with outage() as it:
        async with it.worker(die_at=die_at) as dying:
            await it.break_down()
            await it.hold()
            it.receiver.routes["/hook"] = "/ok"
            await it.probe()
            await it.until_died(dying)
        async with it.worker():
            await it.until_all(it.held, "delivered")
            await it.until_over()
        assert await it.repeated_requests() == repeated
        assert await it.notices() == ["opened", "recovered"]


async def test_worker_killed_during_the_drain(outage: Begin) -> None:
    async with outage() as it:
        async with it.worker() as killed:
            await it.break_down()
            await it.hold(12)
            it.receiver.routes["/hook"] = "/ok"
            await it.probe()
            # the three failures, the probe, and some of the released deliveries
            await it.receiver.wait_for(3 + 1 + 5)
            await kill(killed)
        assert len(it.receiver.requests) < 3 + 12
        async with it.worker():
            await it.until_all(it.held, "delivered")
            await it.until_over()
        # at most the requests in flight at the kill
        assert await it.repeated_requests() <= 2
        assert await it.notices() == ["opened", "recovered"]


async def test_worker_killed_after_disabling_the_endpoint(outage: Begin) -> None:
    async with outage(probe_delays_seconds=[2], disable_after_seconds=6) as it:
        async with it.worker(die_at="disabled") as dying:
            await it.break_down()
            await it.hold()
            await it.until_died(dying)
        async with it.worker():
            await it.until_all(it.held, "dead")
            await it.until_over()
        rows = [await delivery_row(it.database, one) for one in it.held]
        assert {row.reason for row in rows} == {"endpoint_disabled"}
        table = Endpoint.__table__
        async with it.database.read() as connection:
            row = (await connection.execute(select(table).where(table.c.id == it.endpoint))).one()
        assert row.state == "disabled"
        assert await it.repeated_requests() == 0
        assert await it.notices() == ["disabled", "opened", "still_failing"]
