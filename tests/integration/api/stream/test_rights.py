"""A key that ends, ends what it has open: nothing more is streamed or polled with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from api.access import key_recheck
from api.context import key_cache
from api.context.key_cache import KeyCache
from api.routes import poll
from api.stream import feed_stream
from hookfast.storage.tables import ApiKey
from tests.integration.api.stream.conftest import Served, ids
from tests.support.api_client import Json, assert_problem
from tests.support.waiting import PATIENCE, within

pytestmark = pytest.mark.anyio

KEYS = ApiKey.__table__
End = Callable[[Served, str], Awaitable[None]]


async def key_of(served: Served, tenant: str) -> str:
    """Return the id of the tenant's key."""
    [key] = (await served.operator.get(f"/tenants/{tenant}/api-keys")).json()["data"]
    return str(key["id"])


async def revoke(served: Served, tenant: str) -> None:
    answer = await served.operator.delete(f"/api-keys/{await key_of(served, tenant)}")
    assert answer.status_code == 204


async def delete_tenant(served: Served, tenant: str) -> None:
    assert (await served.operator.delete(f"/tenants/{tenant}")).status_code == 204


def elsewhere(**values: Any) -> End:
    """Change the key's row as another process does, which cannot empty the cache of this one."""

    async def change(served: Served, tenant: str) -> None:
        known = await key_of(served, tenant)
        now = served.context.clock()
        changed = {
            name: now + value if isinstance(value, timedelta) else value
            for name, value in values.items()
        }
        async with served.context.database.write() as connection:
            await connection.execute(update(KEYS).where(KEYS.c.id == known).values(changed))

    return change


ENDS = [
    pytest.param(revoke, id="revoked"),
    pytest.param(delete_tenant, id="tenant deleted"),
    pytest.param(elsewhere(revoked_at=timedelta(0)), id="revoked by another process"),
    pytest.param(elsewhere(expires_at=timedelta(0)), id="expired"),
    pytest.param(elsewhere(scope="emit"), id="another scope"),
    pytest.param(elsewhere(tenant_id="tnt_other"), id="another tenant"),
]


@pytest.fixture(autouse=True)
def nothing_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at keys as after the two seconds in which they are cached."""
    monkeypatch.setattr(key_cache, "FRESH_SECONDS", 0.0)


@pytest.mark.parametrize("end", ENDS)
async def test_nothing_is_streamed_once_the_key_has_ended(served: Served, end: End) -> None:
    tenant, key = await served.tenant()
    async with served.stream(key) as stream:
        [first] = await served.emit(tenant)
        assert ids(await stream.events(1)) == [first]
        await end(served, tenant)
        await served.emit(None)  # the tenant would see it
        assert await stream.next() is None


async def test_quiet_stream_ends_at_its_next_heartbeat_after_its_key_has(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_stream, "HEARTBEAT_SECONDS", 0.1)
    tenant, key = await served.tenant()
    async with served.stream(key) as stream:
        assert await stream.next() is not None  # it is alive
        await revoke(served, tenant)
        while await stream.next() is not None:
            pass
    async with served.client(key) as client:
        assert_problem(await client.get("/stream"), 401, code="invalid_key")


@pytest.mark.parametrize("end", ENDS)
async def test_waiting_poll_returns_no_event_once_the_key_has_ended(
    served: Served, end: End
) -> None:
    tenant, key = await served.tenant()
    path = await served.polled(tenant)
    async with served.client(key) as client:
        waiting = asyncio.create_task(client.get(path, params={"wait": 30}))
        await within(PATIENCE, served.until_taken(1))
        await end(served, tenant)
        await served.emit(None)
        assert_problem(await waiting, 401, code="invalid_key")


async def test_poll_that_waits_in_vain_gives_back_its_slot_once_the_key_has_ended(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll, "_READ_AGAIN_SECONDS", 0.1)
    tenant, key = await served.tenant()
    path = await served.polled(tenant)
    async with served.client(key) as client:
        waiting = asyncio.create_task(client.get(path, params={"wait": 30}))
        await within(PATIENCE, served.until_taken(1))
        await revoke(served, tenant)
        assert_problem(await within(15, finished(waiting)), 401, code="invalid_key")
    assert served.context.stream_slots.taken == 0


async def test_waiting_poll_ends_once_its_endpoint_is_deleted(served: Served) -> None:
    tenant, key = await served.tenant()
    path = await served.polled(tenant)
    async with served.client(key) as client:
        waiting = asyncio.create_task(client.get(path, params={"wait": 30}))
        await within(PATIENCE, served.until_taken(1))
        await served.operator.delete(path.removesuffix("/poll"))
        await served.emit(tenant)
        assert_problem(await waiting, 404, code="not_found")


async def finished(task: asyncio.Task[Any]) -> Any:
    return await task


async def test_poll_checks_the_key_after_it_has_written_its_answer(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mapping two hundred events takes seconds."""
    tenant, key = await served.tenant()
    path = await served.polled(tenant)
    await served.emit(tenant)
    write = poll.poll_body

    async def unknown(_: KeyCache, _digest: str) -> None:
        return None

    def meanwhile(*args: Any, **options: Any) -> bytes:
        monkeypatch.setattr(KeyCache, "_load", unknown)  # it is revoked
        return write(*args, **options)

    async with served.client(key) as client:
        assert len((await client.get(path)).json()["data"]) == 1
        monkeypatch.setattr(poll, "poll_body", meanwhile)
        assert_problem(await client.get(path), 401, code="invalid_key")


class Away:
    """Makes the look-up of keys fail, as while the database is away, or hang if it is `silent`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, silent: bool = False) -> None:
        self.silent = silent
        self.away = False
        self.refused = asyncio.Event()
        load = KeyCache._load

        async def failing(keys: KeyCache, digest: str) -> Any:
            if self.away:
                self.refused.set()
                if self.silent:
                    await asyncio.Event().wait()
                raise OperationalError("SELECT", {}, ConnectionError("away"))
            return await load(keys, digest)

        monkeypatch.setattr(KeyCache, "_load", failing)
        monkeypatch.setattr(key_recheck, "_RETRY_SECONDS", 0.02)


async def test_stream_pauses_while_the_database_cannot_say_whether_the_key_works(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, key = await served.tenant()
    other = await served.key(tenant, "tenant")
    database = Away(monkeypatch)
    received: list[Json] = []
    async with served.stream(key) as stream, served.client(other) as emitter:
        # known to the cache, so that the event is emitted without a look-up
        monkeypatch.setattr(key_cache, "FRESH_SECONDS", 60.0)
        assert (await emitter.get("/events")).status_code == 200
        database.away = True
        form = {"type": "order.invoice.paid", "data": {}}
        emitted = (await emitter.post("/events", json=form)).json()["id"]
        reading = asyncio.create_task(stream.events(1))
        await within(PATIENCE, wait_for(database.refused))
        assert not reading.done()
        database.away = False
        received = await reading
    assert ids(received) == [emitted]


async def wait_for(event: asyncio.Event) -> None:
    await event.wait()


@pytest.mark.parametrize("silent", [False, True])
async def test_stream_ends_without_its_next_event_when_the_database_stays_away(
    served: Served, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    monkeypatch.setattr(key_recheck, "GRACE_SECONDS", 0.3)
    tenant, key = await served.tenant()
    other = await served.key(tenant, "tenant")
    database = Away(monkeypatch, silent=silent)
    async with served.stream(key) as stream, served.client(other) as emitter:
        monkeypatch.setattr(key_cache, "FRESH_SECONDS", 60.0)
        assert (await emitter.get("/events")).status_code == 200
        database.away = True
        form = {"type": "order.invoice.paid", "data": {}}
        assert (await emitter.post("/events", json=form)).status_code == 202
        assert await stream.next() is None
    database.away = False
