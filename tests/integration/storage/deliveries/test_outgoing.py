"""Loading what an attempt needs, and how old the data that decides on it may be."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from sqlalchemy import delete, text
from structlog.testing import capture_logs

from hookfast.clock import utc_now
from hookfast.deliveries.life import Phase
from hookfast.deliveries.retry_plan import DEFAULT_PLAN
from hookfast.endpoints.circuit import EndpointState
from hookfast.errors import NotFound
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions, outbox, outgoing
from hookfast.storage.deliveries.outbox import BatchLease
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.keys import signing_keys
from hookfast.storage.tables import Event
from tests.integration.storage.deliveries.stored_lives import stored_life
from tests.integration.storage.retention.ended import success
from tests.support.seed import KEYRING, seed_delivery, seed_endpoint

pytestmark = pytest.mark.anyio

LONG = 60.0
"""Seconds for which reads are valid in these tests, so that a busy machine does not fail them."""


@pytest.fixture(autouse=True)
def long_freshness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "FRESH_SECONDS", LONG)


async def test_refreshing_reads_the_life_and_the_gate_again(
    database: Database, endpoint: str
) -> None:
    """A worker does this right before a request that it begins late."""
    loader = OutgoingLoader(database, KEYRING)
    loaded = await loader.load(await seed_delivery(database, endpoint))
    async with database.write() as connection:
        await actions.request(connection, loaded.delivery_id, "cancel", now=utc_now())
        await endpoint_state.pause(connection, endpoint, now=utc_now())
    assert (loaded.row.life.phase, loaded.gate.endpoint_state) == (
        Phase.WAITING,
        EndpointState.ENABLED,
    )
    refreshed = await loader.refresh(loaded)
    assert (refreshed.row.life.phase, refreshed.gate.endpoint_state) == (
        Phase.CANCELLED,
        EndpointState.PAUSED,
    )
    assert refreshed.read_at > loaded.read_at
    assert refreshed.event is loaded.event


async def test_data_is_valid_for_a_moment_only(database: Database, endpoint: str) -> None:
    loaded = await OutgoingLoader(database, KEYRING).load(await seed_delivery(database, endpoint))
    assert loaded.is_recent
    assert not replace(loaded, read_at=loaded.read_at - LONG - 1).is_recent


@pytest.mark.parametrize("change", ["pause", "cancel", "resend", "taken", "given back", "recorded"])
async def test_reading_a_batch_again_finds_changes_of_its_deliveries(
    database: Database, endpoint: str, change: Any
) -> None:
    loader = OutgoingLoader(database, KEYRING)
    until = utc_now() + timedelta(seconds=20)
    batched = {"batch_id": "btc_1", "batch_until": until, "leased_until": until}
    ids = [await seed_delivery(database, endpoint, **batched) for _ in range(2)]
    loaded = await loader.load_many(ids)
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
    found = await loader.refresh_many(loaded)
    changed, other = [found[one] for one in ids]
    assert changed.row.life == await stored_life(database, ids[0])
    assert (other.row.life.batch_until, other.row.batch_id) == (until, "btc_1")
    assert changed.row.batch_id == {"taken": "btc_2", "given back": None}.get(change, "btc_1")
    assert changed.read_at > loaded[0].read_at


async def test_deliveries_about_to_be_given_to_a_batch_are_loaded_as_they_will_be(
    database: Database, endpoint: str
) -> None:
    ids = [await seed_delivery(database, endpoint) for _ in range(2)]
    loader, until = OutgoingLoader(database, KEYRING), utc_now() + timedelta(seconds=20)
    async with database.write() as connection:
        rows = await outbox.find_many_pending(connection, ids)
        given = await loader.of_rows(
            connection,
            await loader.with_endpoints(connection, rows),
            read_at=0.0,
            batch=BatchLease("btc_1", until),
        )
        await outbox.lease(connection, ids, until=until, batch_id="btc_1")
    loaded = await loader.load_many(ids)
    assert [replace(one, read_at=0.0) for one in loaded] == given


async def test_deliveries_without_a_row_or_an_event_are_left_out(
    database: Database, endpoint: str
) -> None:
    loader = OutgoingLoader(database, KEYRING)
    ids = [await seed_delivery(database, endpoint) for _ in range(2)]
    async with database.write() as connection:
        rows = await outbox.find_many_pending(connection, ids[:1])
        await connection.execute(delete(Event).where(Event.__table__.c.id == rows[0].event_id))
    found = await loader.load_many([*ids, "dlv_unknown"])
    assert [one.delivery_id for one in found] == ids[1:]
    with pytest.raises(NotFound):
        await loader.load(ids[0])


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
        rows = await outbox.find_many_pending(connection, ids)
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
