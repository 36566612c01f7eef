"""Emitting from several processes, and from many callers in one process, at the same time."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, select, text

from hookfast.clock import utc_now
from hookfast.errors import Conflict, InvalidInput, Unavailable
from hookfast.quotas import Quotas
from hookfast.storage.database.engine import Database
from hookfast.storage.database.transaction import Transaction
from hookfast.storage.emitting.emit import Accepted
from hookfast.storage.tables import Delivery, Endpoint, Event
from tests.integration.storage.emitting.emitters import count, emit, process, seed_type
from tests.support.seed import seed_endpoint

pytestmark = pytest.mark.anyio


async def test_processes_that_use_the_same_keys_at_once_create_one_event_per_key(
    database: Database,
) -> None:
    event_type = await seed_type(database)
    async with process(database.url) as one, process(database.url) as two:
        results = await asyncio.gather(
            *(
                emit(emitter, event_type, scope=scope, idempotency_key=f"key {n}")
                for emitter, order in ((one, range(20)), (two, reversed(range(20))))
                for n in order
                for scope in ("a", "b", "a")
            )
        )
    accepted = [one for one in results if isinstance(one, Accepted)]
    assert len(accepted) == len(results) == 120
    assert [one.replayed for one in accepted].count(False) == 40  # 20 keys in each of 2 scopes
    assert len({one.event.id for one in accepted}) == 40
    assert await count(database, Event) == 40


async def test_simultaneous_callers_share_transactions_but_get_their_own_results(
    database: Database,
) -> None:
    event_type = await seed_type(database)
    commits: list[Any] = []
    async with process(database.url) as emitter:
        writer = emitter._database._writer.sync_engine
        event.listen(writer, "commit", commits.append)
        results = await asyncio.gather(
            *(emit(emitter, event_type) for _ in range(20)),
            emit(emitter, "never.heard.of"),
            emit(emitter, event_type, idempotency_key="k"),
            emit(emitter, event_type, idempotency_key="k", data="[]", value=[]),
        )
    *plain, unknown, first, other = results
    assert all(isinstance(one, Accepted) for one in [*plain, first])
    assert len({one.event.id for one in plain if isinstance(one, Accepted)}) == 20
    assert isinstance(unknown, InvalidInput)
    assert isinstance(other, Conflict)
    assert len(commits) <= 4  # the first caller and the others; on PostgreSQL each reads first


@pytest.mark.parametrize("kind", ["plain", "scheduled", "keyed", "ordered", "dead", "counted"])
async def test_only_events_that_are_one_statement_are_committed_without_a_transaction(
    database: Database, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between two statements without a transaction would lose deliveries."""
    event_type = await seed_type(database)
    endpoint = await seed_endpoint(
        database,
        "http://127.0.0.1:4/",
        state="disabled" if kind == "dead" else "enabled",
        ordered=kind == "ordered",
    )
    async with database.write() as connection:
        await connection.execute(
            text(
                "INSERT INTO subscription_patterns (pattern, tenant_id, subscription_id)"
                " SELECT '**', tenant_id, id FROM subscriptions"
            )
        )
        tenant = await connection.scalar(select(Endpoint.__table__.c.tenant_id))
    members: dict[str, Any] = {"tenant_id": tenant, "ordering_key": "k"}
    if kind == "keyed":
        members["idempotency_key"] = "key"
    if kind == "scheduled":
        members["deliver_at"] = utc_now() + timedelta(hours=1)
    quotas = Quotas(events_per_day=5 if kind == "counted" else 0)
    alones: list[bool] = []
    written: list[str] = []
    async with process(database.url, quotas=quotas) as emitter:
        own = emitter._database
        write = own.write

        def note(*, quick: bool, alone: bool) -> Transaction:
            alones.append(alone)
            return write(quick=quick, alone=alone)

        monkeypatch.setattr(own, "write", note)
        event.listen(
            own._writer.sync_engine,
            "before_cursor_execute",
            lambda _, __, sql, *___: written.append(sql) if "INSERT" in sql else None,
        )
        result = await emit(emitter, event_type, **members)
    assert isinstance(result, Accepted)
    assert result.event.deliveries == 1
    assert alones == [kind in ("plain", "scheduled")]
    if alones[0] and database.kind == "postgresql":
        [one] = written
        assert one.count("INSERT INTO") == 3  # the event, its delivery, what is counted
    async with database.read() as connection:
        rows = await connection.execute(select(Delivery.__table__.c.endpoint_id))
        assert list(rows.scalars()) == [endpoint]


async def test_an_event_that_cannot_be_stored_does_not_fail_others_of_its_group(
    database: Database,
) -> None:
    event_type = await seed_type(database)
    broken: Any = {"n": 1}  # no column takes an object for the id of a request
    async with process(database.url) as emitter:
        results = await asyncio.gather(
            *(emit(emitter, event_type, inbox_id=broken if n == 3 else None) for n in range(6)),
            return_exceptions=True,
        )
    failed = [n for n, one in enumerate(results) if isinstance(one, BaseException)]
    assert failed == [3]
    assert await count(database, Event) == 5


async def test_a_caller_that_waits_too_long_for_the_database_gets_unavailable(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    event_type = await seed_type(database)
    monkeypatch.setattr("hookfast.storage.emitting.emit._PATIENCE_SECONDS", 0.2)
    async with process(database.url) as emitter:
        async with database.write() as connection:
            locks = {"postgresql": "LOCK TABLE idempotency_keys", "sqlite": "SELECT 1"}
            await connection.execute(text(locks[database.kind]))  # SQLite has one writer
            with pytest.raises(Unavailable):
                await emit(emitter, event_type, idempotency_key="k")
        # the caller cannot know whether the first was committed; with the key, it is stored once
        monkeypatch.setattr(emitter._group, "_patience", 60.0)
        assert isinstance(await emit(emitter, event_type, idempotency_key="k"), Accepted)
    assert await count(database, Event) == 1
