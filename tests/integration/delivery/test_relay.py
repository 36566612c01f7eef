"""The relay starts every delivery once, beside other relays and through outages and crashes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import func, select, update
from structlog.testing import capture_logs
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment

from hookfast.clock import utc_now
from hookfast.deliveries.messages import Urgency
from hookfast.dispatch.pace import MOST_STARTS, Pace, Setting
from hookfast.dispatch.relay import Relay
from hookfast.settings.settings import Settings
from hookfast.signing.keyring import Keyring
from hookfast.storage.database.doorbell import doorbell_for
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import outbox
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.tables import Delivery, Endpoint
from tests.integration.delivery.conftest import Stack, running_stack
from tests.support.receiver import Receiver
from tests.support.seed import (
    KEYRING,
    SECRET,
    claim,
    seed_deliveries,
    seed_delivery,
    seed_endpoint,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

LEASE = timedelta(seconds=30)


MakeRelay = Callable[..., Relay]


@pytest.fixture
async def make_relay(database: Database) -> AsyncIterator[MakeRelay]:
    bells = []

    def make(
        client: Client, *, batch: int = 50, lease: timedelta = LEASE, first: Setting = "workflow"
    ) -> Relay:
        bells.append(doorbell_for(database))
        return Relay(
            client=client,
            database=database,
            loader=OutgoingLoader(database, KEYRING),
            doorbell=bells[-1],
            lease=lease,
            fast_lane_timeout=timedelta(seconds=5),
            pace=Pace(first, most_claimed=batch),
        )

    yield make
    for bell in bells:
        await bell.close()


async def unstarted(database: Database) -> int:
    async with database.read() as connection:
        count: int = (await connection.execute(outbox.backlog_statement(1_000))).scalar_one()
        return count


async def test_a_claim_is_exclusive_until_its_lease_ends(database: Database) -> None:
    endpoint = await seed_endpoint(database, "http://127.0.0.1:4/")
    ids = await seed_deliveries(database, endpoint, 3)
    now = utc_now()
    async with database.write() as connection:
        first = await claim(connection, limit=2, lease=LEASE, now=now)
    async with database.write() as connection:
        second = await claim(connection, limit=5, lease=LEASE, now=now)
    assert [row.delivery_id for row in first] == ids[:2]
    assert [row.delivery_id for row in second] == ids[2:]
    async with database.write() as connection:
        later = await claim(
            connection, limit=5, lease=LEASE, now=now + LEASE + timedelta(seconds=1)
        )
    assert [row.delivery_id for row in later] == ids


async def test_several_relays_share_the_outbox_without_overlap(
    temporal: WorkflowEnvironment, database: Database, make_relay: MakeRelay
) -> None:
    endpoint = await seed_endpoint(database, "http://127.0.0.1:4/", timeout=20)
    ids = set(await seed_deliveries(database, endpoint, 60))
    relays = [make_relay(temporal.client, batch=7) for _ in range(4)]

    async def drain(relay: Relay) -> int:
        total = 0
        while found := await relay.relay_once():
            total += found
        await relay.finish()
        return total

    claimed = await asyncio.gather(*(drain(relay) for relay in relays))

    assert sum(claimed) == len(ids)
    assert await unstarted(database) == 0
    for delivery in ids:
        handle = temporal.client.get_workflow_handle(f"delivery/{delivery}")
        assert (await handle.describe()).run_id
        await handle.terminate()


async def test_relay_crash_after_a_start_sends_nothing_twice(
    temporal: WorkflowEnvironment,
    settings: Settings,
    database: Database,
    receiver: Receiver,
    make_relay: MakeRelay,
) -> None:
    """It crashes between start and mark: the row is leased again, and Temporal declines the second
    start."""
    endpoint = await seed_endpoint(database, receiver.url("/ok"))
    delivery = await seed_delivery(database, endpoint)
    dying = make_relay(temporal.client)
    assert await dying.relay_once() == 1  # started, never marked: it crashes here
    async with running_stack(temporal, settings, database, receiver) as stack:
        await stack.until_status(delivery, "delivered")
        async with database.write() as connection:  # as if the record had not marked it either
            table = Delivery.__table__
            await connection.execute(
                update(table)
                .where(table.c.id == delivery)
                .values(started_at=None, leased_until=None)
            )

        async def marked() -> bool:
            return await unstarted(database) == 0

        await eventually(marked)
        await asyncio.sleep(0.3)
    assert len(receiver.requests) == 1


async def test_a_lost_workflow_is_started_again_where_it_was(
    temporal: WorkflowEnvironment, settings: Settings, database: Database, receiver: Receiver
) -> None:
    """Temporal's data is lost (here: terminated), and the row has a long overdue attempt."""
    plan = {"delays_seconds": [3600, 0.1], "jitter": 0, "retry_on": "all"}
    endpoint = await seed_endpoint(database, receiver.url("/fail-first/1"), plan=plan)
    delivery = await seed_delivery(database, endpoint)
    async with running_stack(temporal, settings, database, receiver) as stack:
        await stack.until_status(delivery, "retrying")
        await stack.workflow(delivery).terminate("lost")
        table = Delivery.__table__
        async with database.write() as connection:
            past = utc_now() - timedelta(minutes=5)
            await connection.execute(
                update(table)
                .where(table.c.id == delivery)
                .values(next_attempt_at=past, due_at=past)
            )
            overdue_since = utc_now() + timedelta(hours=2)
            assert await outbox.wake_lost(connection, overdue_since=overdue_since, limit=10) == 1
        row = await stack.until_status(delivery, "delivered")
    assert (row.attempts, row.retries) == (2, 1)
    numbers = [request.headers["x-hook-attempt"] for request in receiver.requests]
    assert numbers == ["1", "2"]


async def test_first_steps_are_expected_in_the_process_that_starts_them(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporal's SDK says whether the first task came to this process."""
    expected: list[str] = []
    ended = Pace.start_ended

    def note(pace: Pace, delivery_id: str, **how: bool) -> None:
        expected.extend([delivery_id] if how["step_here"] else [])
        ended(pace, delivery_id, **how)

    monkeypatch.setattr(Pace, "start_ended", note)
    endpoint = await stack.endpoint("/ok")
    delivery = await stack.deliver(endpoint)
    await stack.until_status(delivery, "delivered")
    assert expected == [delivery]


async def test_endpoint_with_an_unreadable_secret_retries_and_does_not_hold_up_others(
    stack: Stack,
) -> None:
    """Its secret was sealed with a key that no longer exists, until it gets a new one."""
    plan = {"delays_seconds": [3, 3, 3], "jitter": 0}
    broken, healthy = await stack.endpoint("/ok", plan=plan), await stack.endpoint("/ok")
    table = Endpoint.__table__
    other = Keyring([bytes(32)])
    sealed = [{"sealed": other.seal(SECRET, context=broken), "expires_at": None}]
    async with stack.database.write() as connection:
        before = await connection.scalar(select(table.c.secrets).where(table.c.id == broken))
        await connection.execute(update(table).where(table.c.id == broken).values(secrets=sealed))
    retrying = await stack.deliver(broken)
    delivery = await stack.deliver(healthy)

    await stack.until_status(delivery, "delivered")
    row = await stack.until_status(retrying, "retrying")
    assert f"decrypts the secret of {broken}" in row.last_error

    async with stack.database.write() as connection:
        await connection.execute(
            update(table).where(table.c.id == broken).values(secrets=before, updated_at=utc_now())
        )
    await stack.until_status(retrying, "delivered")


class UnavailableClient:
    """A client that cannot reach Temporal while `away`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.away = True
        self.calls = 0

    async def start_workflow(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.away:
            raise RPCError("connection refused", RPCStatusCode.UNAVAILABLE, b"")
        return await self._client.start_workflow(*args, **kwargs)


@asynccontextmanager
async def relaying(relay: Relay) -> AsyncIterator[None]:
    task = asyncio.create_task(relay.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_while_temporal_is_away_the_relay_backs_off_and_then_catches_up(
    temporal: WorkflowEnvironment,
    settings: Settings,
    database: Database,
    receiver: Receiver,
    make_relay: MakeRelay,
) -> None:
    endpoint = await seed_endpoint(database, receiver.url("/ok"))
    ids = await seed_deliveries(database, endpoint, 10)
    client = UnavailableClient(temporal.client)
    relay = make_relay(client)  # type: ignore[arg-type] # the one call it makes

    async def three_pauses() -> list[float] | None:
        found = [entry["retry_in_seconds"] for entry in logged if "retry_in_seconds" in entry]
        return found if len(found) >= 3 else None

    async with relaying(relay):
        with capture_logs() as logged:
            pauses = await eventually(three_pauses)
        assert pauses[0] <= 0.25
        assert pauses[2] >= 0.5
        assert 10 <= client.calls <= 60
        assert await unstarted(database) == 10
        client.away = False

        async def all_started() -> bool:
            return await unstarted(database) == 0

        await eventually(all_started)
    async with running_stack(temporal, settings, database, receiver) as stack:
        await stack.until_all(ids, "delivered")
    assert len(receiver.requests) == 10


class SlowClient:
    """A client whose requests to start a workflow take so many seconds, and wait until `answer` is
    set."""

    def __init__(self, client: Client, seconds: float = 0.0) -> None:
        self._client = client
        self._seconds = seconds
        self.answer = asyncio.Event()
        self.calls = 0

    async def start_workflow(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        await asyncio.sleep(self._seconds)
        await self.answer.wait()
        return await self._client.start_workflow(*args, **kwargs)


async def test_starts_that_take_longer_than_their_leases_leave_the_outbox(
    temporal: WorkflowEnvironment,
    database: Database,
    make_relay: MakeRelay,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hookfast.dispatch.relay._IDLE_SECONDS", 0.05)
    endpoint = await seed_endpoint(database, "http://127.0.0.1:4/")
    await seed_deliveries(database, endpoint, 3)
    lease = timedelta(seconds=0.3)
    client = SlowClient(temporal.client, 2 * lease.total_seconds())
    client.answer.set()
    relay = make_relay(client, lease=lease)  # type: ignore[arg-type] # the one call it makes

    async with relaying(relay):

        async def none_left() -> bool:
            return await unstarted(database) == 0

        await eventually(none_left)


async def test_start_that_got_its_turn_late_is_not_made(
    temporal: WorkflowEnvironment, database: Database, make_relay: MakeRelay
) -> None:
    """Another relay might lease the row meanwhile and give it to a batch, which would make the
    first attempt at the same moment."""
    endpoint = await seed_endpoint(database, "http://127.0.0.1:4/")
    delivery = await seed_delivery(database, endpoint)
    client = SlowClient(temporal.client)
    client.answer.set()
    relay = make_relay(client)  # type: ignore[arg-type] # the one call it makes
    now = utc_now()
    async with database.write() as connection:
        rows = await claim(connection, limit=1, lease=LEASE, now=now)
        claimed = await OutgoingLoader(database, KEYRING).with_endpoints(connection, rows)

    async def start(*, lease: datetime) -> bool:
        relay._starts.add(claimed, lease=lease)
        await relay._wait_for_starts()
        return client.calls == 1

    assert not await start(lease=now + LEASE / 5)
    assert await start(lease=now + LEASE)
    await temporal.client.get_workflow_handle(f"delivery/{delivery}").terminate()


async def test_requests_of_people_are_leased_only_as_they_can_be_started(
    temporal: WorkflowEnvironment, database: Database, make_relay: MakeRelay
) -> None:
    """A thousand wait after an outage. More would wait until their leases end, and be leased again
    and again."""
    endpoint = await seed_endpoint(database, "http://127.0.0.1:4/")
    await seed_deliveries(database, endpoint, 60, urgency=Urgency.PERSON)
    client = SlowClient(temporal.client)
    relay = make_relay(client, batch=20)  # type: ignore[arg-type] # the one call it makes

    async with relaying(relay):
        await asyncio.sleep(2)
        assert await count_leased(database) == 20
        assert client.calls <= MOST_STARTS / 4
        client.answer.set()

        async def none_left() -> bool:
            return await unstarted(database) == 0

        await eventually(none_left)
    assert client.calls == 60


async def test_batches_take_new_deliveries_while_requests_of_people_wait(
    temporal: WorkflowEnvironment, database: Database, make_relay: MakeRelay
) -> None:
    endpoint = await seed_endpoint(database, "http://127.0.0.1:4/")
    await seed_deliveries(database, endpoint, 30, urgency=Urgency.PERSON)
    client = SlowClient(temporal.client)
    relay = make_relay(client, batch=20, first="batch")  # type: ignore[arg-type] # the one call it makes

    async def leased(count: int) -> bool:
        return await count_leased(database) == count

    async with relaying(relay):
        await eventually(partial(leased, 20))
        await seed_deliveries(database, endpoint, 5)
        await eventually(partial(leased, 25))
        client.answer.set()


async def count_leased(database: Database) -> int:
    leased = select(func.count()).where(Delivery.__table__.c.leased_until.is_not(None))
    async with database.read() as connection:
        count: int = (await connection.execute(leased)).scalar_one()
        return count


@pytest.fixture
def no_idle_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop relays from reading the outbox unless the doorbell wakes them."""
    monkeypatch.setattr("hookfast.dispatch.relay._IDLE_SECONDS", 3600.0)


async def test_the_doorbell_wakes_the_relay(no_idle_reads: None, stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    for _ in range(3):
        delivery = await stack.deliver(endpoint)
        await stack.until_status(delivery, "delivered")


async def test_nothing_is_left_in_the_outbox_after_a_burst(stack: Stack) -> None:
    endpoints = [await stack.endpoint("/ok") for _ in range(5)]
    ids = [await stack.deliver(endpoint) for endpoint in endpoints for _ in range(8)]

    await stack.until_all(ids, "delivered")

    async def started() -> bool:
        async with stack.database.read() as connection:
            table = Delivery.__table__
            left = await connection.execute(select(table.c.id).where(table.c.started_at.is_(None)))
            return left.first() is None

    await eventually(started)
    assert sorted(request.message_id or "" for request in stack.receiver.requests) == sorted(ids)
