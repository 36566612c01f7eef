"""A claim marks, finds, leases and reads rows in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import delete, event

from hookfast.clock import utc_now
from hookfast.deliveries.messages import Urgency
from hookfast.deliveries.time_budget import BATCH_LEASE
from hookfast.dispatch.claim import Claim
from hookfast.dispatch.pace import Allowance, Pace
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import outbox
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.tables import Event
from tests.support.seed import KEYRING, delivery_row, seed_deliveries, seed_endpoint

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]

BATCHED = Allowance(16, Urgency.RETRY, new=100, batched=True)
LEASE = timedelta(seconds=30)


@pytest.fixture
async def endpoint(database: Database) -> str:
    """The id of a stored endpoint."""
    return await seed_endpoint(database, "http://127.0.0.1:4/")


def claim_for(database: Database, *, in_progress: int = 0, pace: Pace | None = None) -> Claim:
    return Claim(
        database,
        loader=OutgoingLoader(database, KEYRING),
        pace=pace or Pace("batch"),
        in_progress=lambda _: in_progress,
        lease=LEASE,
        fast_lane_timeout=timedelta(seconds=5),
    )


@contextmanager
def counting(database: Database) -> Iterator[list[str]]:
    """Collect the statements that run meanwhile, and the ends of transactions."""
    seen: list[str] = []

    def executed(_: object, __: object, statement: str, *___: object) -> None:
        seen.append(statement)

    def ended(_: object) -> None:
        seen.append("end")

    engines = {database._writer.sync_engine, database._reader.sync_engine}
    for engine in engines:
        event.listen(engine, "before_cursor_execute", executed)
        event.listen(engine, "commit", ended)
        event.listen(engine, "rollback", ended)
    yield seen
    for engine in engines:
        event.remove(engine, "before_cursor_execute", executed)
        event.remove(engine, "commit", ended)
        event.remove(engine, "rollback", ended)


async def test_few_deliveries_are_claimed_with_three_statements_in_one_transaction(
    database: Database, endpoint: str
) -> None:
    claim = claim_for(database)
    for _ in range(3):  # the first claims cannot know that few wait, nor the endpoint
        await seed_deliveries(database, endpoint, 2)
        with counting(database) as seen:
            claimed = await claim.claim(BATCHED, "btc_1")
        assert len(claimed.batched) == 2
    # the rows with their endpoints' gates, the event, the lease
    assert (len(seen), seen.count("end")) == (4, 1)


async def test_new_deliveries_go_into_the_batch_and_others_are_leased_alone(
    database: Database, endpoint: str
) -> None:
    limited = await seed_endpoint(database, "http://127.0.0.1:4/", max_in_flight=5)
    claim, before = claim_for(database), utc_now()
    new = await seed_deliveries(database, endpoint, 3)
    [alone] = await seed_deliveries(database, limited)
    [woken] = await seed_deliveries(database, endpoint, urgency=Urgency.RETRY, wake_count=1)
    claimed = await claim.claim(BATCHED, "btc_1")
    assert {one.delivery_id for one in claimed.batched} == set(new)
    assert {one.row.delivery_id for one in claimed.alone} == {alone, woken}
    assert claimed.batch_until >= before + BATCH_LEASE
    for one in claimed.batched:
        row = await delivery_row(database, one.delivery_id)
        assert (row.batch_id, row.batch_until) == ("btc_1", claimed.batch_until)
        assert (one.row.batch_id, one.row.life.batch_until) == ("btc_1", claimed.batch_until)
    for delivery in (alone, woken):
        row = await delivery_row(database, delivery)
        assert (row.batch_id, row.leased_until) == (None, claimed.leased_until)


async def test_endpoint_with_its_share_of_slow_requests_is_left_out_of_batches(
    database: Database, endpoint: str
) -> None:
    """They are so many that a batch would only leave more behind."""
    pace = Pace("batch")
    other = await seed_endpoint(database, "http://127.0.0.1:4/")
    [slow] = await seed_deliveries(database, endpoint)
    [quick] = await seed_deliveries(database, other)
    with ExitStack() as slots:
        while not pace.slow_requests.share_is_used(endpoint):
            slots.enter_context(pace.slow_requests.take(endpoint))
        claimed = await claim_for(database, pace=pace).claim(BATCHED, "btc_1")
    assert [one.row.delivery_id for one in claimed.alone] == [slow]
    assert [one.delivery_id for one in claimed.batched] == [quick]


async def test_delivery_without_an_event_is_left_to_its_own_workflow(
    database: Database, endpoint: str
) -> None:
    """That ends, and the log says why. In a batch it would be claimed again and again."""
    [delivery] = await seed_deliveries(database, endpoint)
    async with database.write() as connection:
        [row] = await outbox.find_many_pending(connection, [delivery])
        await connection.execute(delete(Event).where(Event.__table__.c.id == row.event_id))
    claimed = await claim_for(database).claim(BATCHED, "btc_1")
    assert [one.row.delivery_id for one in claimed.alone] == [delivery]
    assert claimed.batched == []


@pytest.mark.parametrize(("in_progress", "limited"), [(0, False), (150, True)])
async def test_claim_says_whether_deliveries_in_progress_limited_it(
    database: Database, endpoint: str, in_progress: int, limited: bool
) -> None:
    """Only then does the relay look again when a batch has ended."""
    claim = claim_for(database, in_progress=in_progress)
    await seed_deliveries(database, endpoint, 60)
    claimed = await claim.claim(BATCHED, "btc_1")
    assert len(claimed.batched) == (50 if limited else 60)
    assert claim.was_limited is limited


async def test_woken_rows_are_marked_and_failed_ones_released_with_the_next_claim(
    database: Database, endpoint: str
) -> None:
    claim = claim_for(database)
    [woken] = await seed_deliveries(database, endpoint, urgency=Urgency.RETRY, wake_count=1)
    [failed] = await seed_deliveries(database, endpoint)
    claimed = await claim.claim(Allowance(16), "btc_1")
    rows = {one.row.delivery_id: one.row for one in claimed.alone}
    claim.started(rows[woken])
    claim.failed(rows[failed], claimed.leased_until)
    assert claim.has_woken
    again = await claim.claim(Allowance(16), "btc_1")
    assert not claim.has_woken
    assert (await delivery_row(database, woken)).started_at is not None
    assert [one.row.delivery_id for one in again.alone] == [failed]


@pytest.mark.parametrize("later", ["claim", "stop"])
async def test_new_rows_are_marked_later_if_no_record_has_done_so(
    database: Database, endpoint: str, monkeypatch: pytest.MonkeyPatch, later: str
) -> None:
    claim = claim_for(database)
    [delivery] = await seed_deliveries(database, endpoint)
    claimed = await claim.claim(Allowance(16), "btc_1")
    claim.started(claimed.alone[0].row)
    await claim.claim(Allowance(16), "btc_1")
    assert (await delivery_row(database, delivery)).started_at is None
    if later == "claim":
        monkeypatch.setattr("hookfast.dispatch.claim._MARK_NEW", 0.0)
        await claim.claim(Allowance(16), "btc_1")
    else:
        await claim.mark()
    assert (await delivery_row(database, delivery)).started_at is not None
