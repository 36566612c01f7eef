"""Attempts across deliveries: pages scan within bounds, and a tail gets every attempt once, however
late it is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest
from sqlalchemy import insert

from hookfast.clock import utc_now
from hookfast.deliveries.answer import parse_answer
from hookfast.deliveries.facts import Attempt, Trigger
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.errors import InvalidInput
from hookfast.ids import new_id
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder
from hookfast.storage.feed import attempt_feed, feed
from hookfast.storage.feed.attempt_feed import TailPage
from hookfast.storage.feed.cursor import AttemptCursor
from hookfast.storage.tables import Attempt as AttemptRow
from tests.integration.storage.retention.ended import NO_RETRIES, ended
from tests.support.seed import delivery_row, seed_delivery, seed_endpoint

pytestmark = pytest.mark.anyio

ALL = DeliveryFilter()


class Made:
    """Records first attempts of new deliveries to one endpoint."""

    def __init__(self, database: Database, endpoint: str) -> None:
        self.database = database
        self.endpoint = endpoint
        self.recorder = Recorder(database)
        self.deliveries: dict[str, str] = {}

    async def attempt(self, status_code: int = 200, *, began: datetime | None = None) -> str:
        """Record an attempt without retries after it, and return its id."""
        record = await self.prepared(status_code, began=began)
        await self.recorder.record(record)
        return record.ended.attempt_id

    async def prepared(
        self, status_code: int = 200, *, began: datetime | None = None
    ) -> AttemptRecord:
        delivery = await seed_delivery(self.database, self.endpoint)
        planned = Attempt(number=1, trigger=Trigger.FIRST, round=0, in_plan=True)
        fact = ended(planned, status_code, began or utc_now(), plan=NO_RETRIES)
        self.deliveries[fact.attempt_id] = delivery
        return AttemptRecord(delivery_id=delivery, ended=fact)

    async def tail(
        self, after: AttemptCursor, chosen: DeliveryFilter = ALL, *, limit: int = 100
    ) -> TailPage:
        async with self.database.read() as connection:
            return await attempt_feed.read_tail(
                connection, chosen, after=after, limit=limit, now=utc_now()
            )

    async def tailed(
        self, after: AttemptCursor, chosen: DeliveryFilter = ALL, *, limit: int = 100
    ) -> tuple[list[str], AttemptCursor]:
        """Read the tail to its end, and turn each cursor into text and back."""
        found: list[str] = []
        while True:
            page = await self.tail(after, chosen, limit=limit)
            assert len(page.rows) <= limit
            found += [row.id for row in page.rows]
            after = AttemptCursor.parse(str(page.cursor))
            if not page.more:
                return found, after

    async def listed(self, chosen: DeliveryFilter = ALL, *, limit: int = 100) -> list[str]:
        """Read all pages of the list."""
        found: list[str] = []
        after: str | None = None
        while True:
            async with self.database.read() as connection:
                page = await attempt_feed.list_page(connection, chosen, after=after, limit=limit)
            assert len(page.rows) <= limit
            found += [row.id for row in page.rows]
            after = page.scanned_to
            if after is None:
                return found

    async def end(self) -> AttemptCursor:
        async with self.database.read() as connection:
            return await attempt_feed.end_cursor(connection, now=utc_now())


@pytest.fixture
async def made(database: Database) -> AsyncIterator[Made]:
    made = Made(database, await seed_endpoint(database, "https://example.com/hook"))
    yield made
    await made.recorder.close()


async def test_tail_gets_a_slow_attempt_after_later_ones(made: Made) -> None:
    start = await made.end()
    slow = await made.prepared(503, began=utc_now() - timedelta(seconds=30))
    quick = [await made.attempt(), await made.attempt()]
    found, after = await made.tailed(start)
    assert found == quick
    assert (await made.tailed(after))[0] == []
    await made.recorder.record(slow)
    # a tail by id, which has the time of its beginning, would have passed it
    assert slow.ended.attempt_id < quick[0]
    assert (await made.tailed(after))[0] == [slow.ended.attempt_id]
    assert (await made.tailed(start))[0] == [*quick, slow.ended.attempt_id]
    assert await made.listed() == [quick[1], quick[0], slow.ended.attempt_id]


async def test_tail_gets_an_attempt_whose_commit_is_late(made: Made) -> None:
    start = await made.end()
    early = await made.prepared()
    begun, commit = asyncio.Event(), asyncio.Event()
    values = {
        "id": new_id("att"),
        "delivery_id": early.delivery_id,
        "endpoint_id": made.endpoint,
        "number": 1,
        "trigger": "first",
        "started_at": utc_now(),
        "duration_ms": 1.0,
        "result": "success",
    }

    async def slow() -> None:
        async with made.database.write() as connection:
            await connection.execute(insert(AttemptRow.__table__), values)
            begun.set()
            await commit.wait()

    slowly = asyncio.create_task(slow())
    await begun.wait()
    if made.database.kind == "postgresql":  # SQLite's second writer waits for the first
        late = await made.attempt()
    between, after = await made.tailed(start)
    assert between == []
    commit.set()
    await slowly
    if made.database.kind == "sqlite":
        late = await made.attempt()
    assert (await made.tailed(after))[0] == [values["id"], late]


@pytest.mark.parametrize("limit", [1, 3])
async def test_pages_have_every_attempt_once(made: Made, limit: int) -> None:
    start = await made.end()
    records = [await made.prepared() for _ in range(5)]
    await asyncio.gather(*(made.recorder.record(record) for record in records))  # one position
    ids = [record.ended.attempt_id for record in records] + [await made.attempt()]
    found, after = await made.tailed(start, limit=limit)
    assert sorted(found) == sorted(ids)
    assert (await made.tailed(after))[0] == []
    assert await made.listed(limit=limit) == sorted(ids, reverse=True)


async def test_each_filter_narrows_the_attempts(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_feed, "SCAN_MOST", 2)  # so pages without matches are followed
    start = await made.end()
    good, bad, awful = await made.attempt(200), await made.attempt(503), await made.attempt(404)
    other = Made(made.database, await seed_endpoint(made.database, "https://example.org/hook"))
    elsewhere = await other.attempt(500)
    await other.recorder.close()
    row = await delivery_row(made.database, made.deliveries[bad])
    began = utc_now()
    later = await made.attempt(200, began=began)
    for chosen, ids in (
        (ALL, [good, bad, awful, elsewhere, later]),
        (DeliveryFilter(status=DeliveryStatus.DEAD), [bad, awful, elsewhere]),
        (DeliveryFilter(status=DeliveryStatus.DELIVERED), [good, later]),
        (DeliveryFilter(endpoint_id=other.endpoint), [elsewhere]),
        (DeliveryFilter(tenant_id=row.tenant_id), [good, bad, awful, later]),
        (DeliveryFilter(subscription_id=row.subscription_id), [good, bad, awful, later]),
        (DeliveryFilter(event_id=row.event_id), [bad]),
        (DeliveryFilter(event_id=row.event_id, tenant_id="tnt_other"), []),
        (DeliveryFilter(event_type=row.event_type), [good, bad, awful, elsewhere, later]),
        (DeliveryFilter(event_type="no.such.type"), []),
        (DeliveryFilter(answer=parse_answer("503", pointer="")), [bad]),
        (DeliveryFilter(answer=parse_answer("5XX", pointer="")), [bad, elsewhere]),
        (DeliveryFilter(answer=parse_answer("status", pointer="")), [bad, awful, elsewhere]),
        (DeliveryFilter(answer=parse_answer("success", pointer="")), [good, later]),
        (DeliveryFilter(since=began), [later]),
        (DeliveryFilter(until=began), [good, bad, awful, elsewhere]),
    ):
        assert await made.listed(chosen, limit=2) == ids[::-1], chosen
        assert (await made.tailed(start, chosen, limit=2))[0] == ids, chosen


async def test_cursor_of_another_feed_is_rejected(made: Made) -> None:
    async with made.database.read() as connection:
        other = await feed.end_cursor(connection, now=utc_now())
    for text in (str(other), "x", ""):
        with pytest.raises(InvalidInput, match="not a cursor"):
            AttemptCursor.parse(text)
