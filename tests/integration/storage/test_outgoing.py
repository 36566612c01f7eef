"""What an attempt is given, and how old what decides over it may be."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from hookfast.clock import utc_now
from hookfast.delivery import AttemptFacts, Trigger
from hookfast.errors import Misconfigured
from hookfast.ids import new_id
from hookfast.outcome import Result
from hookfast.retry_plan import Next
from hookfast.storage import endpoint_state
from hookfast.storage.engine import Database
from hookfast.storage.outbox import find_pending
from hookfast.storage.outgoing import OutgoingLoader
from hookfast.storage.recorder import AttemptRecord, Recorder
from tests.seed import KEYRING, seed_delivery, seed_endpoint

pytestmark = pytest.mark.anyio


class Hands:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = utc_now()

    def __call__(self) -> datetime:
        return self.now


async def primed_then_paused(
    database: Database, loader: OutgoingLoader, *, deliver_at: datetime | None = None
) -> str:
    """A delivery that the relay has just read, and whose endpoint another process paused then."""
    endpoint = await seed_endpoint(database, "https://example.com/hook")
    delivery = await seed_delivery(database, endpoint, deliver_at=deliver_at)
    async with database.write() as connection:
        row = await find_pending(connection, delivery)
        assert row is not None
        await loader.prime(connection, [row])
        await endpoint_state.pause(connection, endpoint, now=utc_now())
    return delivery


@pytest.mark.parametrize(("seconds", "state"), [(1, "enabled"), (3, "paused"), (-3600, "paused")])
async def test_what_the_relay_read_counts_for_a_moment_only(
    database: Database, seconds: float, state: str
) -> None:
    """The third one's clock was set back meanwhile."""
    clock = Hands()
    loader = OutgoingLoader(database, KEYRING, clock=clock)
    delivery = await primed_then_paused(database, loader)
    clock.now += timedelta(seconds=seconds)
    assert (await loader.load(delivery, 1, fresh=True)).gate.endpoint_state == state


async def test_a_scheduled_delivery_is_asked_about_when_it_is_time(database: Database) -> None:
    clock = Hands()
    loader = OutgoingLoader(database, KEYRING, clock=clock)
    later = clock.now + timedelta(seconds=1)
    delivery = await primed_then_paused(database, loader, deliver_at=later)
    clock.now = later
    assert (await loader.load(delivery, 1, fresh=True)).gate.endpoint_state == "paused"


async def test_one_whose_time_has_come_already_needs_no_second_look(database: Database) -> None:
    loader = OutgoingLoader(database, KEYRING)
    delivery = await primed_then_paused(database, loader, deliver_at=utc_now())
    assert (await loader.load(delivery, 1, fresh=True)).gate.endpoint_state == "enabled"


async def test_what_the_relay_read_does_not_hide_an_attempt_that_was_made(
    database: Database,
) -> None:
    """A person's signal started the workflow, which made its first attempt meanwhile."""
    loader, now = OutgoingLoader(database, KEYRING), utc_now()
    endpoint = await seed_endpoint(database, "https://example.com/hook")
    delivery = await seed_delivery(database, endpoint)
    async with database.read() as connection:
        row = await find_pending(connection, delivery)
        assert row is not None
        await loader.prime(connection, [row])
    facts = AttemptFacts(
        attempt_id=new_id("att", now),
        delivery_id=delivery,
        endpoint_id=endpoint,
        number=1,
        retries=0,
        trigger=Trigger.FIRST,
        started_at=now,
        duration_ms=5,
        result=Result.SUCCESS,
    )
    await Recorder(database).record(AttemptRecord(facts=facts, next=Next.DELIVERED))
    earlier = (await loader.load(delivery, 1)).earlier
    assert earlier is not None
    assert earlier.result == Result.SUCCESS


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
            primed = await loader.prime(connection, rows)
    assert [row.delivery_id for row, _ in primed] == ids[1:]
    [line] = lines
    assert line["endpoint_id"] == strange
    with pytest.raises(Misconfigured):
        await loader.load(ids[0], 1)
