"""Large bodies are loaded within a byte budget, once for all attempts that send them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import delete
from sqlalchemy.exc import OperationalError

from hookfast.byte_budget import SMALL_BYTES, ByteBudget, NoRoom
from hookfast.clock import utc_now
from hookfast.events.envelope import full_body
from hookfast.ids import new_id
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries.bodies import (
    SEND_BUFFER,
    AttemptBodies,
    AttemptRoom,
    BodyGone,
    StoredBody,
)
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.inbox.inbox_entries import raw_requests
from hookfast.storage.tables import Event
from tests.support.seed import EVENT_TYPE, KEYRING, seed_delivery, seed_endpoint
from tests.support.seed_inbox import seed_entry
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

ENVELOPE = full_body(
    event_id=new_id("evt"),
    event_type=EVENT_TYPE,
    created_at=utc_now(),
    tenant_id=new_id("tnt"),
    data='""',
)
KIB = 1024
MIB = 1024 * KIB


async def stored(database: Database, size: int) -> StoredBody:
    """Store a delivery of an event of this size; return the body as an attempt knows it."""
    endpoint = await seed_endpoint(database, "https://example.com/hook")
    delivery = await seed_delivery(database, endpoint, data="x" * (size - len(ENVELOPE)))
    body = (await OutgoingLoader(database, KEYRING).load(delivery)).stored_body
    assert body is not None
    assert body.size == size
    return body


class Bodies(AttemptBodies):
    """Bodies that count how often they are read, and that fail on request."""

    def __init__(self, database: Database, budget: ByteBudget, *, idle_bytes: int = 0) -> None:
        super().__init__(database, budget, idle_bytes=idle_bytes)
        self.reads = 0
        self.failures: list[Exception] = []

    async def _load(self, stored: StoredBody) -> bytes:
        self.reads += 1
        if self.failures:
            raise self.failures.pop()
        return await super()._load(stored)


def roomy() -> ByteBudget:
    return ByteBudget(64 * MIB, largest=MIB)


@pytest.mark.parametrize(("size", "comes_along"), [(SMALL_BYTES, True), (SMALL_BYTES + 1, False)])
async def test_body_up_to_16_kib_comes_with_its_event(
    database: Database, size: int, comes_along: bool
) -> None:
    body = await stored(database, size)
    assert (body.content is not None) is comes_along
    budget = roomy()
    bodies = Bodies(database, budget)
    async with bodies.room(body, "tenant:1", more=0, within=0) as room:
        await room.load()
        assert len(room.body) == size
        assert bodies.reads == (0 if comes_along else 1)
        assert budget.used == (0 if comes_along else 2 * size)
    assert budget.used == 0


async def test_large_request_is_loaded_without_its_body(database: Database) -> None:
    source, tenant = new_id("src"), new_id("tnt")
    small = await seed_entry(database, source, tenant, body=b"s" * SMALL_BYTES)
    large = await seed_entry(database, source, tenant, body=b"l" * (SMALL_BYTES + 1))
    async with database.read() as connection:
        heads = await raw_requests(connection, [small, large], whole=False)
    assert heads[small].body == b"s" * SMALL_BYTES
    assert (heads[large].size, heads[large].body) == (SMALL_BYTES + 1, None)
    assert heads[large].headers == (("x-github-event", "push"),)


async def test_attempts_that_send_one_body_share_it(database: Database) -> None:
    body = await stored(database, 300 * KIB)
    budget = roomy()
    bodies = Bodies(database, budget)
    async with AsyncExitStack() as stack:
        rooms = [
            await stack.enter_async_context(bodies.room(body, f"tenant:{n}", more=0, within=0))
            for n in range(4)
        ]
        await asyncio.gather(*(room.load() for room in rooms))
        assert bodies.reads == 1
        assert len({id(room.body) for room in rooms}) == 1
        assert budget.used == 300 * KIB + 4 * SEND_BUFFER
    assert budget.used == 0


async def test_body_stays_while_any_attempt_needs_it(database: Database) -> None:
    body = await stored(database, 300 * KIB)
    budget = roomy()
    bodies = Bodies(database, budget)
    async with bodies.room(body, "tenant:2", more=0, within=0) as second:
        async with bodies.room(body, "tenant:1", more=0, within=0) as first:
            await first.load()
        await second.load()
        assert bodies.reads == 1
        assert budget.used == 300 * KIB + SEND_BUFFER
    async with bodies.room(body, "tenant:3", more=0, within=0) as third:
        await third.load()
    assert (bodies.reads, budget.used) == (2, 0)


async def test_body_that_finds_no_room_is_not_loaded(database: Database) -> None:
    body = await stored(database, 300 * KIB)
    budget = ByteBudget(MIB, largest=MIB)
    bodies = Bodies(database, budget)
    with budget.claim("another's", "tenant:2") as turn, budget.claim("others'") as others:
        others.count(MIB // 2)
        await turn.grow(MIB, within=0)  # it has the turn now
        before = budget.used
        with pytest.raises(NoRoom):
            async with bodies.room(body, "tenant:1", more=0, within=0):
                pytest.fail("there was room")
        assert (bodies.reads, budget.used) == (0, before)
    async with bodies.room(body, "tenant:1", more=0, within=0) as room:
        await room.load()
    assert budget.used == 0


async def test_waiting_attempt_is_given_the_room_of_an_ended_one(database: Database) -> None:
    first, second = await stored(database, 400 * KIB), await stored(database, 400 * KIB)
    third = await stored(database, 400 * KIB)
    bodies = Bodies(database, ByteBudget(MIB, largest=MIB))

    async def wait() -> bytes:
        async with bodies.room(third, "tenant:1", more=0, within=30) as room:
            await room.load()
            return room.body

    async with bodies.room(first, "tenant:1", more=0, within=0):  # in turn
        with pytest.raises(NoRoom):
            async with bodies.room(second, "tenant:1", more=0, within=0):
                pytest.fail("there was room")
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0.01)
        assert not waiting.done()
    assert len(await waiting) == 400 * KIB


async def test_failed_load_gives_its_room_back_and_the_next_one_reads_again(
    database: Database,
) -> None:
    body = await stored(database, 300 * KIB)
    budget = roomy()
    bodies = Bodies(database, budget)
    bodies.failures.append(OperationalError("SELECT", {}, Exception("away")))
    async with bodies.room(body, "tenant:1", more=0, within=0) as other:
        with pytest.raises(OperationalError):
            async with bodies.room(body, "tenant:2", more=0, within=0) as room:
                await room.load()
        await other.load()
        assert len(other.body) == 300 * KIB
    assert budget.used == 0


async def test_cancelled_attempt_gives_its_room_back_and_stops_no_other(
    database: Database,
) -> None:
    body = await stored(database, 300 * KIB)
    budget = roomy()
    bodies = Bodies(database, budget)
    go_on = asyncio.Event()
    rooms: list[AttemptRoom] = []
    load = Bodies._load

    async def slow(self: Bodies, stored: StoredBody) -> bytes:
        await go_on.wait()
        return await load(self, stored)

    async def has_begun(count: int) -> bool:
        return len(rooms) == count

    async def attempt(tenant: str) -> int:
        async with bodies.room(body, tenant, more=0, within=0) as room:
            rooms.append(room)
            await room.load()
            return len(room.body)

    with patch.object(Bodies, "_load", slow):
        first, second = (asyncio.create_task(attempt(f"tenant:{n}")) for n in range(2))
        await eventually(lambda: has_begun(2))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        go_on.set()
        assert await second == 300 * KIB
        go_on.clear()
        third = asyncio.create_task(attempt("tenant:3"))
        await eventually(lambda: has_begun(3))
        third.cancel()
        await asyncio.gather(third, return_exceptions=True)
    assert budget.used == 0
    assert bodies._shared == {}


async def test_deleted_body_is_reported(database: Database) -> None:
    body = await stored(database, 300 * KIB)
    async with database.write() as connection:
        await connection.execute(delete(Event.__table__).where(Event.__table__.c.id == body.id))
    budget = roomy()
    async with Bodies(database, budget).room(body, "tenant:1", more=0, within=0) as room:
        with pytest.raises(BodyGone):
            await room.load()
    assert budget.used == 0


async def test_recently_used_body_is_not_read_again_and_counts(database: Database) -> None:
    body, other = await stored(database, 300 * KIB), await stored(database, 300 * KIB)
    budget = roomy()
    bodies = Bodies(database, budget, idle_bytes=500 * KIB)

    async def attempt(body: StoredBody) -> None:
        async with bodies.room(body, "tenant:1", more=0, within=0) as room:
            await room.load()
            assert len(room.body) == 300 * KIB
            assert budget.used <= 600 * KIB + SEND_BUFFER

    with patch.object(database, "read", wraps=database.read) as read:
        await attempt(body)
        await attempt(body)
        assert (read.call_count, budget.used) == (1, 300 * KIB)
        await attempt(other)  # there is no room for both
        assert (read.call_count, budget.used) == (2, 300 * KIB)
        await attempt(body)
        assert read.call_count == 3


async def test_replaced_body_is_counted_instead_of_the_stored_one(database: Database) -> None:
    body = await stored(database, 300 * KIB)
    budget = roomy()
    bodies = Bodies(database, budget)
    async with bodies.room(body, "tenant:1", more=400 * KIB, within=0) as room:
        await room.load()
        assert budget.used == 700 * KIB + SEND_BUFFER
        await room.replace(b"m" * 100 * KIB, more=50 * KIB)
        assert (len(room.body), budget.used) == (100 * KIB, 250 * KIB)
        await room.replace(b"m" * 100)
        assert budget.used == 0
    assert bodies._shared == {}


async def test_large_body_that_is_made_of_a_small_one_needs_room(database: Database) -> None:
    body = await stored(database, KIB)
    budget = ByteBudget(MIB, largest=MIB)
    bodies = Bodies(database, budget)

    async def make(size: int, **others: Any) -> int:
        async with bodies.room(body, "tenant:1", more=0, within=0) as room:
            await room.replace(b"m" * size)
            return budget.used

    assert await make(SMALL_BYTES) == 0
    assert await make(200 * KIB) == 200 * KIB + SEND_BUFFER
    with budget.claim("another's") as others, budget.claim("turn", "tenant:2") as turn:
        others.count(MIB // 2)
        await turn.grow(1, within=0)
        with pytest.raises(NoRoom):
            await make(200 * KIB)
