"""The values of the gauges: they are right, and are read from indexes however many deliveries there
are."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.circuit import State
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries.outbox import backlog_statement
from hookfast.storage.figures import workers
from hookfast.storage.figures.gauges import (
    LATE,
    NOTICES_BY_KIND,
    OLDEST,
    GaugeValues,
    counts,
    read_gauges,
)
from hookfast.storage.figures.waiting import Waiting
from hookfast.storage.tables import Delivery, Notice
from tests.support.figures import count_rows
from tests.support.query_plan import explain

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DELIVERED = 5_000
SENT = 5_000  # so many that reading all of them is slower than using the index
GATHER = timedelta(minutes=1)
DIGEST = timedelta(minutes=15)


def _row(number: int, status: str, **members: Any) -> dict[str, Any]:
    return {
        "id": f"dlv_{number:09}",
        "event_id": "evt_1",
        "subscription_id": "sub_1",
        "endpoint_id": "ep_1",
        "tenant_id": "tnt_1",
        "event_type": "order.invoice.paid",
        "payload": "full",
        "status": status,
        "attempts": 1,
        "retries": 0,
        "next_attempt_at": None,
        "place": None,
        "created_at": NOW,
        "updated_at": NOW,
        "started_at": NOW,
    } | members


async def _fill(database: Database, rows: list[dict[str, Any]]) -> None:
    async with database.write() as connection:
        await connection.execute(Delivery.__table__.insert(), rows)


def _notice(number: int, owner: str, *, minutes_ago: int, **members: Any) -> dict[str, Any]:
    return {
        "id": f"ntc_{number:09}",
        "endpoint_id": "ep_1",
        "tenant_id": "tnt_1",
        "episode": number,
        "kind": "opened",
        "email": f"{owner}@example.com",
        "owner_hash": owner,
        "facts": {},
        "status": "pending",
        "tries": 0,
        "message_id": None,
        "created_at": NOW - timedelta(minutes=minutes_ago),
        "sent_at": None,
    } | members


def _sent(number: int, owner: str, *, minutes_ago: int, **members: Any) -> dict[str, Any]:
    at = NOW - timedelta(minutes=minutes_ago)
    given = {"status": "sent", "sent_at": at} | members
    return _notice(number, owner, minutes_ago=minutes_ago + 1, **given)


async def _notify(database: Database, rows: list[dict[str, Any]]) -> None:
    async with database.write() as connection:
        await connection.execute(Notice.__table__.insert(), rows)


async def _read(connection: AsyncConnection) -> GaugeValues:
    return await read_gauges(connection, now=NOW, mail_gather=GATHER, mail_digest_every=DIGEST)


async def test_empty_database_has_zeros(database: Database) -> None:
    async with database.read() as connection:
        found = await _read(connection)
    assert (found.outbox, found.past_due, found.waiting) == (0, 0, Waiting())
    assert (found.notices, found.workers) == (0, 0)
    assert found.oldest_waits == found.mail_late == timedelta(0)
    assert dict(found.circuits) == {State.OPEN: 0, State.HALF_OPEN: 0, State.DRAINING: 0}


async def test_each_gauge_counts_its_rows(database: Database) -> None:
    late, soon = NOW - LATE - timedelta(seconds=1), NOW - LATE + timedelta(seconds=1)
    waiting_since = NOW - timedelta(minutes=7)
    await _fill(
        database,
        [
            _row(1, "delivered"),
            # put back into the outbox seven minutes ago, a day after it was created
            _row(
                2,
                "pending",
                created_at=NOW - timedelta(days=1),
                updated_at=waiting_since,
                started_at=None,
            ),
            _row(3, "pending", started_at=None),
            _row(4, "retrying", next_attempt_at=late),
            _row(5, "retrying", next_attempt_at=soon),
            _row(6, "held", next_attempt_at=NOW + timedelta(hours=6)),
            _row(7, "paused"),
            _row(8, "dead"),
            _row(9, "dead"),
            _row(10, "gone"),
            _row(11, "cancelled"),
            _row(12, "pending", place="queued"),
            _row(13, "paused", place="queued"),
            _row(14, "paused", place="head"),
        ],
    )
    await count_rows(database)
    async with database.write() as connection:
        for endpoint, state in (("ep_1", "open"), ("ep_2", "open"), ("ep_3", "half_open")):
            await connection.execute(
                text(
                    "INSERT INTO endpoint_health (endpoint_id, consecutive_failures, circuit, "
                    "episode, probes, drained) VALUES (:id, 5, :state, 1, 0, 0)"
                ),
                {"id": endpoint, "state": state},
            )
        await workers.record_heartbeat(connection, "here", version="1", now=NOW)
        await workers.record_heartbeat(
            connection, "gone", version="1", now=NOW - timedelta(minutes=1)
        )
    async with database.read() as connection:
        found = await _read(connection)
    assert found.outbox == 2
    assert found.oldest_waits == timedelta(minutes=7)
    assert found.past_due == 1
    statuses = {
        DeliveryStatus.PENDING: 3,
        DeliveryStatus.RETRYING: 2,
        DeliveryStatus.HELD: 1,
        DeliveryStatus.PAUSED: 3,
        DeliveryStatus.DEAD: 2,
        DeliveryStatus.GONE: 1,
    }
    assert found.waiting == Waiting(Counter(statuses), queued=2)
    assert dict(found.circuits) == {State.OPEN: 2, State.HALF_OPEN: 1, State.DRAINING: 0}
    assert found.workers == 1


# Minutes since the notice was created and since the last mail to its owner (None: there was no
# mail), and how late the notice is, with 1 minute to gather and 15 between two mails.
@pytest.mark.parametrize(
    ("created", "mailed", "late"),
    [
        (0, None, 0),  # gathers
        (1, None, 0),
        (91, None, 90),
        (10, 12, 0),  # rests until 15 minutes after the mail
        (14, 15, 0),
        (14, 16, 1),
        (85, 90, 75),  # rested for 15 minutes, and was then not sent
        (91, 300, 90),
    ],
)
async def test_mail_is_late_after_gathering_and_resting(
    database: Database, created: int, mailed: int | None, late: int
) -> None:
    # other kinds, other owners and finished notices do not count
    rows = [
        _sent(1, "one", minutes_ago=2, kind="recovered"),
        _sent(2, "two", minutes_ago=2),
        _notice(3, "one", minutes_ago=900, status="refused"),
        _notice(4, "one", minutes_ago=900, status="dropped"),
        _notice(5, "two", minutes_ago=16),
        _notice(6, "one", minutes_ago=created),
        _notice(7, "one", minutes_ago=0),
    ]
    if mailed is not None:
        rows.append(_sent(8, "one", minutes_ago=mailed))
        rows.append(_sent(9, "one", minutes_ago=mailed + 60))
    await _notify(database, rows)
    async with database.read() as connection:
        found = await _read(connection)
    assert found.mail_late == timedelta(minutes=late)
    assert found.notices == 3


async def test_mail_that_was_begun_is_late_like_any_other(database: Database) -> None:
    """It is late since its owner's rest ended, not since it was created."""
    begun = _notice(2, "one", minutes_ago=80, message_id="<a@b>")
    await _notify(database, [_sent(1, "one", minutes_ago=79), begun])
    async with database.read() as connection:
        assert (await _read(connection)).mail_late == timedelta(minutes=64)


async def test_late_mail_is_found_by_index_among_sent_mail(database: Database) -> None:
    rows = [_sent(number, f"owner {number % 50}", minutes_ago=60) for number in range(SENT)]
    rows += [_notice(SENT + number, f"owner {number}", minutes_ago=9) for number in range(50)]
    await _notify(database, rows)
    async with database.write() as connection:
        await connection.execute(text("ANALYZE notices"))
    async with database.read() as connection:
        plan = await explain(connection, NOTICES_BY_KIND)
    assert not re.search(r"Seq Scan on notices|SCAN notices$", plan, re.MULTILINE), plan
    assert "ix_notices_pending" in plan
    assert "ix_notices_sent" in plan


async def test_gauges_read_indexes_only(database: Database) -> None:
    rows = [_row(number, "delivered") for number in range(DELIVERED)]
    rows += [_row(DELIVERED + number, "dead") for number in range(200)]
    await _fill(database, rows)
    async with database.write() as connection:
        await connection.execute(text("ANALYZE deliveries"))
    for statement, given in ((counts(NOW), 2), (OLDEST, 1), (backlog_statement(1_000_000), 1)):
        async with database.read() as connection:
            plan = await explain(connection, statement)
        assert not re.search(r"Seq Scan on deliveries|SCAN deliveries$", plan, re.MULTILINE)
        assert plan.count("ix_deliveries_") >= given, plan


def test_predicates_of_partial_indexes_are_constants() -> None:
    """A statement that is prepared with parameters could not use these indexes."""
    sql = str(counts(NOW).compile(dialect=sqlite.dialect()))
    assert sql.count("endpoint_health.circuit != 'closed' AND endpoint_health.circuit = '") == 3
