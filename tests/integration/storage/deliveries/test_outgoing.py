"""What an attempt is given, and how old what decides over it may be."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from hookfast.clock import utc_now
from hookfast.deliveries.life import Phase
from hookfast.endpoints.circuit import EndpointState
from hookfast.errors import Misconfigured
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions, outbox, outgoing
from hookfast.storage.deliveries.outbox import find_pending
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder
from hookfast.storage.endpoints import endpoint_state
from tests.integration.storage.circuits.stored_circuits import life_of
from tests.integration.storage.retention.ended import success
from tests.support.seed import KEYRING, seed_delivery, seed_endpoint

pytestmark = pytest.mark.anyio

LONG = 60.0
"""Seconds that what was read counts in these tests: also on a machine that is busy."""


@pytest.fixture(autouse=True)
def counts_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "FRESH_SECONDS", LONG)


class Hands:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = utc_now()

    def __call__(self) -> datetime:
        return self.now


async def prime(
    database: Database, loader: OutgoingLoader, delivery: str, *, seconds_ago: float = 0
) -> None:
    """What the relay does, so long ago."""
    read_at = asyncio.get_running_loop().time() - seconds_ago
    async with database.read() as connection:
        row = await find_pending(connection, delivery)
        assert row is not None
        chosen = await loader.with_endpoints(connection, [row])
        await loader.prime(connection, chosen, read_at=read_at)


async def primed_then_paused(
    database: Database,
    loader: OutgoingLoader,
    *,
    deliver_at: datetime | None = None,
    seconds_ago: float = 0,
) -> str:
    """A delivery that the relay has read, and whose endpoint another process paused then."""
    endpoint = await seed_endpoint(database, "https://example.com/hook")
    delivery = await seed_delivery(database, endpoint, deliver_at=deliver_at)
    await prime(database, loader, delivery, seconds_ago=seconds_ago)
    async with database.write() as connection:
        await endpoint_state.pause(connection, endpoint, now=utc_now())
    return delivery


@pytest.mark.parametrize(
    ("seconds_ago", "state"),
    [(0, EndpointState.ENABLED), (LONG + 1, EndpointState.PAUSED)],
)
async def test_what_the_relay_read_counts_for_a_moment_only(
    database: Database, seconds_ago: float, state: EndpointState
) -> None:
    loader = OutgoingLoader(database, KEYRING)
    delivery = await primed_then_paused(database, loader, seconds_ago=seconds_ago)
    loaded = await loader.load(delivery, fresh=True)
    assert loaded.gate.endpoint_state is state
    assert loaded.fresh


async def test_what_the_relay_read_counts_for_a_first_attempt_only(database: Database) -> None:
    loader = OutgoingLoader(database, KEYRING)
    delivery = await primed_then_paused(database, loader)
    assert (await loader.load(delivery)).gate.endpoint_state is EndpointState.PAUSED
    # and it was used up
    assert (await loader.load(delivery, fresh=True)).gate.endpoint_state is EndpointState.PAUSED


async def test_what_the_relay_read_is_forgotten_when_a_circuit_changes_here(
    database: Database,
) -> None:
    loader = OutgoingLoader(database, KEYRING)
    delivery = await primed_then_paused(database, loader)
    loader.forget_primed()
    assert (await loader.load(delivery, fresh=True)).gate.endpoint_state is EndpointState.PAUSED


async def test_a_scheduled_delivery_is_asked_about_when_it_is_time(database: Database) -> None:
    clock = Hands()
    loader = OutgoingLoader(database, KEYRING, clock=clock)
    later = clock.now + timedelta(seconds=1)
    delivery = await primed_then_paused(database, loader, deliver_at=later)
    clock.now = later
    assert (await loader.load(delivery, fresh=True)).gate.endpoint_state is EndpointState.PAUSED


async def test_one_whose_time_has_come_already_needs_no_second_look(database: Database) -> None:
    loader = OutgoingLoader(database, KEYRING)
    delivery = await primed_then_paused(database, loader, deliver_at=utc_now())
    assert (await loader.load(delivery, fresh=True)).gate.endpoint_state is EndpointState.ENABLED


async def test_what_the_relay_read_does_not_hide_an_attempt_that_was_made(
    database: Database,
) -> None:
    """Temporal gave its first step to two workers: the other made the attempt meanwhile."""
    loader = OutgoingLoader(database, KEYRING)
    endpoint = await seed_endpoint(database, "https://example.com/hook")
    delivery = await seed_delivery(database, endpoint)
    await prime(database, loader, delivery)
    fact = success(await life_of(database, delivery), utc_now())
    await Recorder(database).record(AttemptRecord(delivery_id=delivery, ended=fact))
    life = (await loader.load(delivery)).life
    assert (life.phase, life.attempts) == (Phase.DELIVERED, 1)


async def test_a_second_look_reads_what_may_have_changed(database: Database) -> None:
    """What a worker asks right before the request that it has taken long to begin."""
    loader = OutgoingLoader(database, KEYRING)
    endpoint = await seed_endpoint(database, "https://example.com/hook")
    delivery = await seed_delivery(database, endpoint)
    await prime(database, loader, delivery, seconds_ago=LONG - 1)
    loaded = await loader.load(delivery, fresh=True)
    async with database.write() as connection:
        await actions.request(connection, delivery, "cancel", now=utc_now())
        await endpoint_state.pause(connection, endpoint, now=utc_now())
    assert (loaded.life.phase, loaded.gate.endpoint_state) == (
        Phase.WAITING,
        EndpointState.ENABLED,
    )
    seen = await loader.refresh(loaded)
    assert (seen.life.phase, seen.gate.endpoint_state) == (
        Phase.CANCELLED,
        EndpointState.PAUSED,
    )
    assert seen.read_at >= loaded.read_at + LONG - 1
    assert seen.event is loaded.event


@pytest.mark.parametrize("change", ["pause", "cancel", "resend", "taken", "given back", "recorded"])
async def test_what_changes_while_it_waits_in_a_batch_is_seen_when_it_is_looked_at_again(
    database: Database, change: Any
) -> None:
    loader = OutgoingLoader(database, KEYRING)
    endpoint = await seed_endpoint(database, "https://example.com/hook")
    until = utc_now() + timedelta(seconds=20)
    mine = {"batch_id": "btc_1", "batch_until": until, "leased_until": until}
    ids = [await seed_delivery(database, endpoint, **mine) for _ in range(2)]
    for one in ids:
        await prime(database, loader, one, seconds_ago=LONG)
    async with database.write() as connection:
        if change == "taken":
            await outbox.lease(connection, ids[:1], until=utc_now(), batch_id="btc_2")
        elif change == "given back":
            await outbox.return_from_batch(connection, ids[:1], batch_id="btc_1")
        elif change != "recorded":
            await actions.request(connection, ids[0], change, now=utc_now())
    if change == "recorded":
        fact = success(await life_of(database, ids[0]), utc_now())
        record = AttemptRecord(delivery_id=ids[0], ended=fact, in_batch=True)
        await Recorder(database).record(record)
    await loader.renew(ids, batch_id="btc_1")
    seen = [await loader.load(one, fresh=True) for one in ids]
    assert seen[0].life == await life_of(database, ids[0])
    assert (seen[1].life.batch_until, seen[1].batch_id, seen[1].fresh) == (until, "btc_1", True)
    assert seen[0].batch_id == {"taken": "btc_2", "given back": None}.get(change, "btc_1")


@pytest.mark.parametrize(
    "columns",
    [
        {"signature_hash": "sha3"},
        {"signatures": ["hook", "ml-dsa"]},
        {"allowed_networks": ["somewhere"]},
        {"headers": {"X-Key": {"vault": "kv/hook"}}},
        {"secrets": [{"vault": "kv/hook"}]},
        {"encryption": {"suite": "hybrid"}},
    ],
    ids=lambda columns: next(iter(columns)),
)
async def test_an_endpoint_that_a_later_version_wrote_does_not_hold_up_the_others(
    database: Database, columns: dict[str, Any]
) -> None:
    """A version that was taken back, say. Neither the relay's batch nor its log line suffers."""
    strange = await seed_endpoint(database, "https://example.com/hook", **columns)
    known = await seed_endpoint(database, "https://example.com/hook")
    ids = [await seed_delivery(database, endpoint) for endpoint in (strange, known)]
    loader = OutgoingLoader(database, KEYRING)
    async with database.read() as connection:
        rows = [row for one in ids if (row := await find_pending(connection, one)) is not None]
        with capture_logs() as lines:
            chosen = await loader.with_endpoints(connection, rows)
    assert [one.row.delivery_id for one in chosen] == ids[1:]
    [line] = lines
    assert line["endpoint_id"] == strange
    with pytest.raises(Misconfigured):
        await loader.load(ids[0])
