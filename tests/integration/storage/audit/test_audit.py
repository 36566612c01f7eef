"""The stored audit log: it is append-only, old entries expire, and lists use an index."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError

from hookfast.audit import CLI, SYSTEM, Actor, AuditedChange, differences
from hookfast.endpoints.circuit import Cause
from hookfast.signing.keyring import Keyring
from hookfast.storage.audit import audit_log
from hookfast.storage.audit.audit_log import AuditFilter
from hookfast.storage.audit.audited import AUDITED
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.keys.rekey import SEALED_TABLES, SealedTable, rekey
from hookfast.storage.tables import AuditEntry, AuditHorizon
from tests.support.query_plan import explain
from tests.support.seed import KEY as SEALED_WITH
from tests.support.seed import seed_endpoint
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, 11, 15, tzinfo=UTC)
DAY = timedelta(days=1)
KEY = Actor(kind="tenant", key_id="key_1", request_id="req_1", client_address="203.0.113.7")


async def record(
    database: Database,
    resource_id: str,
    *,
    at: datetime = NOW,
    actor: Actor = KEY,
    **members: Any,
) -> None:
    about: dict[str, Any] = {"action": "endpoint.pause", "resource": "endpoint", "tenant_id": "t"}
    change = AuditedChange(**about | members, resource_id=resource_id)
    async with database.write() as connection:
        await audit_log.record(connection, change, actor=actor, now=at)


async def listed(database: Database, **chosen: Any) -> list[AuditEntry]:
    async with database.read() as connection:
        return await audit_log.list_page(connection, AuditFilter(**chosen), after=None, limit=100)


async def names(database: Database, **chosen: Any) -> list[str]:
    return [entry.resource_id for entry in await listed(database, **chosen)]


async def test_entry_has_actor_action_and_resource(database: Database) -> None:
    await record(database, "ep_1", changes={"state": {"before": "enabled", "after": "paused"}})
    [entry] = await listed(database)
    assert entry.id.startswith("aud_")
    assert entry.model_dump(exclude={"id"}) == {
        "at": NOW,
        "tenant_id": "t",
        "actor": "tenant",
        "key_id": "key_1",
        "action": "endpoint.pause",
        "resource": "endpoint",
        "resource_id": "ep_1",
        "changes": {"state": {"before": "enabled", "after": "paused"}},
        "request_id": "req_1",
        "client_address": "203.0.113.7",
    }


async def test_entry_of_the_system_or_the_cli_has_no_key(database: Database) -> None:
    for actor in (SYSTEM, CLI):
        await record(database, actor.kind, actor=actor)
        [entry] = await listed(database, resource_id=actor.kind)
        assert (entry.actor, entry.key_id, entry.client_address) == (actor.kind, None, None)


async def test_rolled_back_transaction_leaves_no_entry(database: Database) -> None:
    change = AuditedChange(
        action="endpoint.pause", resource="endpoint", resource_id="e", tenant_id=None
    )

    async def record_and_fail() -> None:
        async with database.write() as connection:
            await audit_log.record(connection, change, actor=SYSTEM, now=NOW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await record_and_fail()
    assert await listed(database) == []


async def test_filters_combine(database: Database) -> None:
    await record(database, "ep_1", at=NOW)
    await record(database, "ep_2", at=NOW + DAY, tenant_id="u", action="endpoint.resume")
    await record(database, "ep_1", at=NOW + 2 * DAY, actor=CLI, tenant_id=None)
    assert await names(database) == ["ep_1", "ep_2", "ep_1"]
    assert await names(database, tenant_id="t") == ["ep_1"]
    assert await names(database, resource_id="ep_1") == ["ep_1", "ep_1"]
    assert await names(database, resource_id="ep_1", key_id="key_1") == ["ep_1"]
    assert await names(database, key_id="key_1", action="endpoint.resume") == ["ep_2"]
    assert await names(database, action="endpoint.resume", tenant_id="t") == []
    assert await names(database, since=NOW + DAY) == ["ep_1", "ep_2"]
    assert await names(database, since=NOW + DAY, until=NOW + 2 * DAY) == ["ep_2"]


TAMPERING = [
    "UPDATE audit SET actor = 'nobody'",
    "UPDATE audit SET changes = '{}' WHERE resource_id = 'ep_old'",
    "DELETE FROM audit",
    "DELETE FROM audit WHERE resource_id = 'ep_old'",
]


async def test_triggers_prevent_changing_or_deleting_an_entry(database: Database) -> None:
    await record(database, "ep_old", at=NOW - 1000 * DAY)
    before = await listed(database)
    for statement in TAMPERING:
        with pytest.raises(IntegrityError, match="append-only"):
            async with database.write() as connection:
                await connection.execute(text(statement))
        assert await listed(database) == before, statement


async def test_triggers_prevent_replacing_an_entry(database: Database) -> None:
    await record(database, "ep_1")
    columns = "id, at, actor, action, resource, resource_id, changes"
    copied = f"SELECT id, at, 'nobody', action, resource, resource_id, changes FROM audit"  # noqa: F541
    insert = "INSERT OR REPLACE" if database.kind == "sqlite" else "INSERT"
    with pytest.raises(IntegrityError):
        async with database.write() as connection:
            await connection.execute(text(f"{insert} INTO audit ({columns}) {copied}"))
    assert [entry.actor for entry in await listed(database)] == ["tenant"]


@pytest.mark.parametrize("table", ["audit", "audit_horizon"])
async def test_triggers_prevent_truncating_the_log(postgresql_url: str, table: str) -> None:
    # SQLite has no TRUNCATE
    async with Database(postgresql_url) as database:
        await record(database, "ep_1")
        with pytest.raises(IntegrityError):
            async with database.write() as connection:
                await connection.execute(text(f"TRUNCATE {table}"))
        assert await names(database) == ["ep_1"]


async def expire(database: Database, before: datetime, *, limit: int = 100) -> int:
    async with database.write() as connection:
        return await audit_log.expire(connection, before=before, limit=limit, now=NOW)


async def test_old_entries_expire_in_batches_and_it_is_logged_once(
    database: Database,
) -> None:
    for days in (5, 4, 3, 2):
        await record(database, f"ep_{days}", at=NOW - days * DAY)
    assert await expire(database, NOW - 3 * DAY, limit=1) == 1
    assert await names(database) == ["audit", "ep_2", "ep_3", "ep_4"]
    assert await expire(database, NOW - 3 * DAY, limit=5) == 1
    assert await expire(database, NOW - 3 * DAY, limit=5) == 0
    assert await names(database) == ["audit", "ep_2", "ep_3"]
    [entry] = await listed(database, action="audit.expire")
    assert (entry.actor, entry.tenant_id) == ("system", None)
    assert entry.changes == {"complete_since": {"after": "2026-11-17T11:15:00.000000Z"}}


async def test_entry_newer_than_the_horizon_cannot_be_deleted(
    database: Database,
) -> None:
    await record(database, "ep_1", at=NOW - DAY)
    await expire(database, NOW - 2 * DAY)
    with pytest.raises(IntegrityError, match="append-only"):
        async with database.write() as connection:
            await connection.execute(text("DELETE FROM audit WHERE resource_id = 'ep_1'"))


async def test_the_horizon_never_moves_back(database: Database) -> None:
    await expire(database, NOW - 2 * DAY)
    await expire(database, NOW - 9 * DAY)
    async with database.read() as connection:
        [horizon] = (await connection.execute(select(AuditHorizon.__table__))).mappings()
    assert horizon["complete_since"] == NOW - 2 * DAY
    for statement in (
        "UPDATE audit_horizon SET complete_since = '2020-01-01T00:00:00.000000Z'",
        "DELETE FROM audit_horizon",
    ):
        with pytest.raises(IntegrityError, match="only moves forward"):
            async with database.write() as connection:
                await connection.execute(text(statement))


async def test_writers_do_not_wait_for_each_other(postgresql_url: str) -> None:
    # SQLite has one writer at a time, whatever it writes
    change = AuditedChange(
        action="endpoint.pause", resource="endpoint", resource_id="e", tenant_id=None
    )
    async with Database(postgresql_url) as database:
        async with asyncio.timeout(PATIENCE), database.write() as first:
            await audit_log.record(first, change, actor=SYSTEM, now=NOW)
            async with database.write() as second:  # would wait for the first until the timeout
                await audit_log.record(second, change, actor=SYSTEM, now=NOW)
            assert len(await listed(database)) == 1
        assert len(await listed(database)) == 2


PLANS = [
    (AuditFilter(), "sqlite_autoindex_audit_1"),
    (AuditFilter(since=NOW), "sqlite_autoindex_audit_1"),
    (AuditFilter(tenant_id="t", until=NOW), "ix_audit_tenant"),
    (AuditFilter(tenant_id="t", action="tenant.create"), "ix_audit_tenant"),
    (AuditFilter(resource_id="r", tenant_id="t", key_id="k"), "ix_audit_resource"),
    (AuditFilter(key_id="k", tenant_id="t"), "ix_audit_key"),
    (AuditFilter(action="tenant.create", since=NOW), "ix_audit_action"),
]


async def test_page_reads_one_range_of_an_index(database: Database) -> None:
    async with database.read() as connection:
        if database.kind == "postgresql":
            # its statistics say that the table is empty: it is enough that an index can be used
            await connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            await connection.exec_driver_sql("SET LOCAL enable_bitmapscan = off")
        for (chosen, index), after in product(PLANS, (None, "aud_5")):
            query = audit_log.list_page(connection, chosen, after=after, limit=51)
            plan = await explain(connection, query)
            if database.kind == "sqlite":
                assert index in plan.split(), (chosen, plan)
                assert "TEMP B-TREE" not in plan, (chosen, plan)
            else:
                assert "Index Scan Backward" in plan, (chosen, plan)


@pytest.mark.parametrize("table", AUDITED, ids=lambda table: table.__tablename__)
def test_every_unlogged_column_exists(table: Any) -> None:
    assert set(AUDITED[table].unlogged) < {column.name for column in table.__table__.columns}


@pytest.mark.parametrize("cause", [Cause.GONE, Cause.GAVE_UP])
async def test_automatic_disabling_of_an_endpoint_is_logged_once(
    database: Database, cause: Cause
) -> None:
    endpoint = await seed_endpoint(database, "https://example.com/hook")
    for _ in range(2):
        async with database.write() as connection:
            await endpoint_state.disable(
                connection, endpoint, cause=cause, reason="It is enough.", now=NOW
            )
    [entry] = await listed(database)
    assert (entry.action, entry.actor, entry.resource_id) == (
        "endpoint.disable",
        "system",
        endpoint,
    )
    assert entry.tenant_id is not None
    assert entry.changes == {
        "state": {"after": "disabled"},
        "state_reason": {"after": "It is enough."},
    }


async def test_rekey_is_logged_in_its_first_transaction(
    database: Database,
) -> None:
    await seed_endpoint(database, "https://example.com/hook")
    await seed_endpoint(database, "https://example.com/hook")

    def stop(*_: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await rekey(database, Keyring([b"n" * 32, SEALED_WITH]), progress=stop, clock=lambda: NOW)
    [entry] = await listed(database)
    assert (entry.action, entry.actor) == ("secrets.rekey", "cli")
    assert entry.changes == {"values": {"after": 2}}


# The sealed columns, with a value as it is stored.
_SEALED = "SEALED"
_MEMBERS = dict.fromkeys(("kind", "shown", "created_at", "expires_at"), "hmac")
SEALED_VALUES: dict[str, Any] = {
    "secrets": [_MEMBERS | {"sealed": _SEALED}],
    "headers": {"X-Token": {"sealed": _SEALED}},
    "credentials": [_MEMBERS | {"sealed": _SEALED}],
    "sealed": _SEALED,
}


@pytest.mark.parametrize("sealed_table", SEALED_TABLES, ids=lambda each: each.table.name)
def test_no_entry_has_a_sealed_value(sealed_table: SealedTable) -> None:
    keyring = Keyring([bytes(32)])
    nothing: dict[str, Any] = {"secrets": [], "headers": {}, "credentials": []}
    row: Any = SimpleNamespace(id="x", kid="x", sealed=keyring.seal("", context="x"), **nothing)
    with patch.object(Keyring, "reseal", return_value=""):
        names = sealed_table.resealed(row, keyring)
    [audited] = [each for table, each in AUDITED.items() if table.__table__ is sealed_table.table]
    logged = {name: SEALED_VALUES[name] for name in names if name not in audited.unlogged}
    assert _SEALED not in str(differences({}, logged))
    assert _SEALED not in str(differences(logged, {}))
