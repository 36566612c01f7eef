"""Loading what an attempt needs, and how old the data that decides on it may be."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from hookfast.clock import utc_now
from hookfast.deliveries.life import Phase
from hookfast.deliveries.retry_plan import DEFAULT_PLAN
from hookfast.endpoints.circuit import EndpointState
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions, outbox, outgoing
from hookfast.storage.deliveries.outbox import find_pending
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.keys import signing_keys
from tests.integration.storage.deliveries.stored_lives import stored_life
from tests.integration.storage.retention.ended import success
from tests.support.seed import KEYRING, seed_delivery, seed_endpoint

pytestmark = pytest.mark.anyio

LONG = 60.0
"""Seconds for which reads are valid in these tests, so that a busy machine does not fail them."""


@pytest.fixture(autouse=True)
def long_freshness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "FRESH_SECONDS", LONG)


class ManualClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = utc_now()

    def __call__(self) -> datetime:
        return self.now


async def prime(
    database: Database, loader: OutgoingLoader, delivery: str, *, seconds_ago: float = 0
) -> None:
    """Prime the loader as the relay does, as of `seconds_ago`."""
    read_at = asyncio.get_running_loop().time() - seconds_ago
    async with database.read() as connection:
        row = await find_pending(connection, delivery)
        assert row is not None
        rows = await loader.with_endpoints(connection, [row])
        await loader.prime(connection, rows, read_at=read_at)


async def primed_then_paused(
    database: Database,
    loader: OutgoingLoader,
    *,
    deliver_at: datetime | None = None,
    seconds_ago: float = 0,
) -> str:
    """Store a delivery, prime the loader with it, and then pause its endpoint as another process
    would. Returns its id."""
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
async def test_primed_data_is_valid_for_a_moment_only(
    database: Database, seconds_ago: float, state: EndpointState
) -> None:
    loader = OutgoingLoader(database, KEYRING)
    delivery = await primed_then_paused(database, loader, seconds_ago=seconds_ago)
    loaded = await loader.load(delivery, fresh=True)
    assert loaded.gate.endpoint_state is state
    assert loaded.is_recent


async def test_primed_data_is_valid_for_a_first_attempt_only(database: Database) -> None:
    loader = OutgoingLoader(database, KEYRING)
    delivery = await primed_then_paused(database, loader)
    assert (await loader.load(delivery)).gate.endpoint_state is EndpointState.PAUSED
    # and it is used only once
    assert (await loader.load(delivery, fresh=True)).gate.endpoint_state is EndpointState.PAUSED


async def test_primed_data_can_be_forgotten(database: Database) -> None:
    loader = OutgoingLoader(database, KEYRING)
    delivery = await primed_then_paused(database, loader)
    loader.forget_primed()
    assert (await loader.load(delivery, fresh=True)).gate.endpoint_state is EndpointState.PAUSED


async def test_a_scheduled_delivery_is_read_again_when_it_is_due(database: Database) -> None:
    clock = ManualClock()
    loader = OutgoingLoader(database, KEYRING, clock=clock)
    later = clock.now + timedelta(seconds=1)
    delivery = await primed_then_paused(database, loader, deliver_at=later)
    clock.now = later
    assert (await loader.load(delivery, fresh=True)).gate.endpoint_state is EndpointState.PAUSED


async def test_a_scheduled_delivery_that_is_already_due_is_primed(database: Database) -> None:
    loader = OutgoingLoader(database, KEYRING)
    delivery = await primed_then_paused(database, loader, deliver_at=utc_now())
    assert (await loader.load(delivery, fresh=True)).gate.endpoint_state is EndpointState.ENABLED


async def test_primed_data_does_not_hide_an_attempt_that_was_made(
    database: Database, endpoint: str
) -> None:
    """Temporal gave the first step to two workers, and the other has made the attempt."""
    loader = OutgoingLoader(database, KEYRING)
    delivery = await seed_delivery(database, endpoint)
    await prime(database, loader, delivery)
    fact = success(await stored_life(database, delivery), utc_now())
    await Recorder(database).record(AttemptRecord(delivery_id=delivery, ended=fact))
    life = (await loader.load(delivery)).life
    assert (life.phase, life.attempts) == (Phase.DELIVERED, 1)


async def test_refreshing_reads_the_life_and_the_gate_again(
    database: Database, endpoint: str
) -> None:
    """A worker does this right before a request that it begins late."""
    loader = OutgoingLoader(database, KEYRING)
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
    refreshed = await loader.refresh(loaded)
    assert (refreshed.life.phase, refreshed.gate.endpoint_state) == (
        Phase.CANCELLED,
        EndpointState.PAUSED,
    )
    assert refreshed.read_at >= loaded.read_at + LONG - 1
    assert refreshed.event is loaded.event


@pytest.mark.parametrize("change", ["pause", "cancel", "resend", "taken", "given back", "recorded"])
async def test_renewing_a_batch_finds_changes_of_its_deliveries(
    database: Database, endpoint: str, change: Any
) -> None:
    loader = OutgoingLoader(database, KEYRING)
    until = utc_now() + timedelta(seconds=20)
    batched = {"batch_id": "btc_1", "batch_until": until, "leased_until": until}
    ids = [await seed_delivery(database, endpoint, **batched) for _ in range(2)]
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
        fact = success(await stored_life(database, ids[0]), utc_now())
        record = AttemptRecord(delivery_id=ids[0], ended=fact, in_batch=True)
        await Recorder(database).record(record)
    await loader.renew(ids, batch_id="btc_1")
    changed, other = [await loader.load(one, fresh=True) for one in ids]
    assert changed.life == await stored_life(database, ids[0])
    assert (other.life.batch_until, other.batch_id, other.is_recent) == (until, "btc_1", True)
    assert changed.batch_id == {"taken": "btc_2", "given back": None}.get(change, "btc_1")


async def test_an_endpoint_that_a_later_version_wrote_does_not_block_other_endpoints(
    database: Database, endpoint: str
) -> None:
    """For example, after a rollback to an older version. The error is logged."""
    strange: list[dict[str, Any]] = [
        {"signature_hash": "sha3"},
        {"signatures": ["hook", "ml-dsa"]},
        {"allowed_networks": ["somewhere"]},
        {"headers": {"X-Key": {"vault": "kv/hook"}}},
        {"secrets": [{"vault": "kv/hook"}]},
        {"encryption": {"suite": "hybrid"}},
    ]
    url = "https://example.com/hook"
    endpoints = [await seed_endpoint(database, url, **columns) for columns in strange]
    ids = [await seed_delivery(database, one) for one in (*endpoints, endpoint)]
    loader = OutgoingLoader(database, KEYRING)
    async with database.read() as connection:
        rows = [row for one in ids if (row := await find_pending(connection, one)) is not None]
        with capture_logs() as lines:
            found = await loader.with_endpoints(connection, rows)
    faults = {one.endpoint.endpoint_id: one.endpoint.fault for one in found}
    assert [one for one, fault in faults.items() if fault is None] == [endpoint]
    assert {line["endpoint_id"]: line["error"] for line in lines} == {
        one: faults[one] for one in endpoints
    }
    for one in ids[:-1]:
        assert (await loader.load(one)).endpoint.fault is not None


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # PostgreSQL stores JSON only
@pytest.mark.parametrize("column", ["headers", "retry_plan", "signatures"])
async def test_a_column_that_is_not_json_does_not_block_other_endpoints(
    database: Database, endpoint: str, column: str
) -> None:
    damaged = await seed_endpoint(database, "https://example.com/hook", plan="stepped")
    ids = [await seed_delivery(database, one) for one in (damaged, endpoint)]
    async with database.write() as connection:
        await connection.execute(
            text(f"UPDATE endpoints SET {column} = '{{bad' WHERE id = :id"),  # noqa: S608
            {"id": damaged},
        )
        rows = await outbox.find_many_pending(connection, ids)
        found = await OutgoingLoader(database, KEYRING).with_endpoints(connection, rows)
    endpoints = {one.endpoint.endpoint_id: one.endpoint for one in found}
    assert endpoints[endpoint].fault is None
    fault = endpoints[damaged].fault
    assert str(fault).startswith("the endpoint's row cannot be read")
    assert endpoints[damaged].plan == DEFAULT_PLAN


async def test_a_signing_key_that_cannot_be_read_does_not_block_endpoints_without_it(
    database: Database, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = Mock(open=Mock(side_effect=ValueError("s3cret")))
    monkeypatch.setattr(signing_keys, "current_signer", AsyncMock(return_value=damaged))
    signed = await seed_endpoint(database, "https://example.com/hook", signatures=("rsa",))
    ids = [await seed_delivery(database, one) for one in (signed, endpoint)]
    loader = OutgoingLoader(database, KEYRING)
    async with database.read() as connection:
        rows = await outbox.find_many_pending(connection, ids)
        with capture_logs() as lines:
            found = await loader.with_endpoints(connection, rows)
    faults = {one.endpoint.endpoint_id: one.endpoint.fault for one in found}
    assert faults == {signed: lines[0]["error"], endpoint: None}
    assert "s3cret" not in str(lines)
