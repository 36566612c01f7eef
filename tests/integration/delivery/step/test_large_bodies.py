"""Attempts with large bodies: room for the body first, and without it, later."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from joserfc import jwe
from joserfc.jwk import OKPKey
from sqlalchemy import delete, func, insert, select, update
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities import waiting_room
from activities.waiting_room import postponed
from hookfast.ids import new_id
from hookfast.storage.deliveries.bodies import LARGE_BYTES, AttemptRoom
from hookfast.storage.tables import (
    EndpointHealth,
    Event,
    InboxEntry,
    InFlight,
    Subscription,
    SubscriptionMapping,
)
from tests.integration.delivery.circuits import QUICK as QUICK_CIRCUIT
from tests.integration.delivery.circuits import circuit
from tests.integration.delivery.plans import QUICK
from tests.integration.delivery.steps import MIB, Steps
from tests.support.seed_inbox import seed_entry

pytestmark = pytest.mark.anyio

KIB = 1024
KEY = OKPKey.generate_key("X25519")
PUBLIC = KEY.as_dict(private=False)
ENCRYPTION = {"jwk": {name: PUBLIC[name] for name in ("kty", "crv", "x")}, "alg": "ECDH-ES+A256KW"}


@asynccontextmanager
async def no_room(steps: Steps) -> AsyncIterator[None]:
    """Fill the budget: other bodies hold all of it, and another has the turn."""
    with steps.budget.claim("others'") as others, steps.budget.claim("turn", "tenant:0") as turn:
        others.count(8 * MIB)
        await turn.grow(1)
        yield


async def received(steps: Steps, endpoint: str, body: bytes) -> str:
    """Store a delivery of a received request with this body, and return its id."""
    entry = await seed_entry(steps.database, new_id("src"), new_id("tnt"), body=body)
    delivery = await steps.deliver(endpoint)
    events = Event.__table__
    async with steps.database.write() as connection:
        row = await steps.row(delivery)
        await connection.execute(
            update(events).where(events.c.id == row.event_id).values(inbox_id=entry)
        )
    return delivery


async def map_by(steps: Steps, endpoint: str, mapping: str) -> None:
    subscriptions = Subscription.__table__.c
    async with steps.database.write() as connection:
        found = await connection.execute(
            select(subscriptions.id).where(subscriptions.endpoint_id == endpoint)
        )
        await connection.execute(
            insert(SubscriptionMapping.__table__),
            {"subscription_id": found.scalar_one(), "mapping": mapping},
        )


async def permits_taken(steps: Steps) -> int:
    async with steps.database.read() as connection:
        found = await connection.execute(select(func.count()).select_from(InFlight.__table__))
        return found.scalar_one()


async def large_delivery(steps: Steps, endpoint: str, size: int = MIB) -> str:
    return await steps.deliver(endpoint, data={"n": 1, "text": "x" * size})


async def test_large_event_arrives_and_leaves_no_claim(steps: Steps) -> None:
    delivery = await large_delivery(steps, await steps.endpoint("/ok"))
    result = await steps.step(delivery)
    assert result.status == "delivered"
    [request] = steps.receiver.requests_for(delivery)
    assert json.loads(request.body)["data"] == {"n": 1, "text": "x" * MIB}
    assert steps.budget.used == 0


async def test_large_received_request_is_forwarded_unchanged(steps: Steps) -> None:
    body = b'{ "n":1.50, "text":"' + b"x" * MIB + b'" }'
    delivery = await received(steps, await steps.endpoint("/ok", payload="raw"), body)
    assert (await steps.step(delivery)).status == "delivered"
    [request] = steps.receiver.requests_for(delivery)
    assert request.body == body
    assert request.headers["x-github-event"] == "push"
    assert steps.budget.used == 0


async def test_large_event_is_mapped_and_encrypted(steps: Steps) -> None:
    endpoint = await steps.endpoint("/ok", payload="mapped", encryption=ENCRYPTION)
    await map_by(steps, endpoint, "{text: data.text}")
    delivery = await large_delivery(steps, endpoint)
    assert (await steps.step(delivery)).status == "delivered"
    [request] = steps.receiver.requests_for(delivery)
    registry = jwe.JWERegistry(algorithms=["ECDH-ES+A256KW", "A256GCM"])
    registry.max_ciphertext_length = 2 * MIB
    opened = jwe.decrypt_compact(request.body, KEY, registry=registry).plaintext
    assert json.loads(opened or b"") == {"text": "x" * MIB}
    assert steps.budget.used == 0


async def test_thin_delivery_of_a_large_event_needs_no_room(steps: Steps) -> None:
    delivery = await large_delivery(steps, await steps.endpoint("/ok", payload="thin"))
    async with no_room(steps):
        assert (await steps.step(delivery, local=True)).status == "delivered"
    assert len(steps.receiver.requests_for(delivery)[0].body) < KIB


async def test_fast_lane_sends_bodies_up_to_half_a_mebibyte(steps: Steps) -> None:
    endpoint = await steps.endpoint("/ok")
    fine = await large_delivery(steps, endpoint, LARGE_BYTES - KIB)
    assert (await steps.step(fine, local=True)).status == "delivered"
    large = await large_delivery(steps, endpoint, LARGE_BYTES)
    assert (await steps.step(large, local=True)).lane_full
    assert steps.receiver.requests_for(large) == []
    assert (await steps.step(large)).status == "delivered"


async def test_fast_lane_does_not_wait_for_room(steps: Steps) -> None:
    delivery = await large_delivery(steps, await steps.endpoint("/ok"), 100 * KIB)
    async with no_room(steps):
        assert (await steps.step(delivery, local=True)).lane_full
    row = await steps.row(delivery)
    assert (row.status, row.attempts) == ("pending", 0)
    assert (await steps.step(delivery, local=True)).status == "delivered"


async def test_attempt_without_room_is_made_later_and_takes_nothing(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_room, "ROOM", timedelta(seconds=0.05))
    endpoint = await steps.endpoint("/ok", max_in_flight=1)
    delivery = await large_delivery(steps, endpoint)
    async with no_room(steps):
        with pytest.raises(ApplicationError) as refused:
            await steps.step(delivery)
        assert refused.value.category is ApplicationErrorCategory.BENIGN
        assert refused.value.next_retry_delay is not None
        assert not refused.value.non_retryable
        assert await permits_taken(steps) == 0
        small = await steps.deliver(endpoint)
        assert (await steps.step(small)).status == "delivered"
    row = await steps.row(delivery)
    assert (row.status, row.attempts) == ("pending", 0)
    assert (await steps.step(delivery)).status == "delivered"
    assert [one.number for one in await steps.attempts(delivery)] == [1]


async def test_mapped_body_without_room_gives_its_permit_back(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = await steps.endpoint("/ok", payload="mapped", max_in_flight=1)
    await map_by(steps, endpoint, "{a: data.t, b: data.t, c: data.t, d: data.t}")
    delivery = await steps.deliver(endpoint, data={"t": "x" * 10 * KIB})
    async with no_room(steps):
        with pytest.raises(ApplicationError):
            await steps.step(delivery)
        assert await permits_taken(steps) == 0
        assert (await steps.step(delivery, local=True)).lane_full
    assert (await steps.row(delivery)).attempts == 0
    assert (await steps.step(delivery)).status == "delivered"


async def test_probe_without_room_stays_the_probe(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_room, "ROOM", timedelta(seconds=0.05))
    endpoint = await steps.endpoint("/status/500", plan=QUICK, circuit=QUICK_CIRCUIT)
    await steps.run(await steps.deliver(endpoint))
    health = EndpointHealth.__table__
    half_open = update(health).values(circuit="half_open", probe_delivery_id=None)
    async with steps.database.write() as connection:
        await connection.execute(half_open.where(health.c.endpoint_id == endpoint))
    steps.receiver.routes["/status/500"] = "/ok"
    delivery = await large_delivery(steps, endpoint)
    async with no_room(steps):
        with pytest.raises(ApplicationError):
            await steps.step(delivery)
    assert (await circuit(steps, endpoint)).probe_delivery_id == delivery
    assert (await steps.step(delivery)).status == "delivered"
    assert (await circuit(steps, endpoint)).state == "draining"


async def test_request_that_is_deleted_before_it_is_loaded_sends_the_event(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = await steps.endpoint("/ok", payload="raw")
    delivery = await received(steps, endpoint, b"r" * MIB)
    load, deleted = AttemptRoom.load, []

    async def delete_first(room: AttemptRoom) -> None:
        if not deleted:
            deleted.append(True)
            async with steps.database.write() as connection:
                await connection.execute(delete(InboxEntry.__table__))
        await load(room)

    monkeypatch.setattr(AttemptRoom, "load", delete_first)
    assert (await steps.step(delivery)).status == "delivered"
    [request] = steps.receiver.requests_for(delivery)
    assert json.loads(request.body)["data"] is None


@pytest.mark.parametrize(
    ("tries", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (10_000, 30)]
)
def test_pauses_between_two_tries_grow(tries: int, seconds: float) -> None:
    delays = [postponed(tries).next_retry_delay for _ in range(50)]
    pauses = [delay.total_seconds() for delay in delays if delay is not None]
    assert all(0.7 * seconds <= pause <= 1.3 * seconds for pause in pauses)
    assert len(set(pauses)) > 1
