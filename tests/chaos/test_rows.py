"""The watch of the chaos storm detects illegal rows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from bench.chaos.rows import Watch, read_rows
from hookfast.clock import utc_now
from hookfast.ids import new_id
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Attempt
from tests.support.seed import seed_delivery, seed_endpoint

pytestmark = pytest.mark.anyio

NOW = utc_now()
NOTHING_DUE: dict[str, Any] = {"due_at": None, "next_attempt_at": None}
ENDED = NOTHING_DUE | {"finished_at": NOW, "started_at": NOW}
LATER = NOW + timedelta(minutes=1)


async def seed_attempt(database: Database, delivery: str, number: int, result: str) -> None:
    row = {
        "id": new_id("att"),
        "delivery_id": delivery,
        "endpoint_id": "ep_1",
        "number": number,
        "trigger": "first",
        "started_at": NOW,
        "duration_ms": 1.0,
        "result": result,
    }
    async with database.write() as connection:
        await connection.execute(insert(Attempt.__table__), row)


@pytest.mark.parametrize(
    ("columns", "attempts", "what"),
    [
        ({"status": "dead"} | ENDED, [], None),
        ({"status": "paused"} | NOTHING_DUE, [], None),
        ({"status": "retrying", "attempts": 1}, ["status"], None),
        ({"status": "delivered", "attempts": 2} | ENDED, ["status", "success"], None),
        ({"status": "dead"} | ENDED | {"due_at": LATER}, [], "ended, and something is due"),
        (
            {"status": "cancelled", "resend_asked_at": NOW} | ENDED,
            [],
            "ended, and something is due",
        ),
        ({"status": "dead"} | ENDED | {"finished_at": None}, [], "ended at no time"),
        ({"status": "held", "finished_at": NOW}, [], "open, and finished"),
        ({"status": "held"} | NOTHING_DUE, [], "open, and nothing is due"),
        ({"status": "dead", "retries": 6} | ENDED, [], "more retries than its plan has"),
        (
            {"status": "delivered", "attempts": 1} | ENDED,
            ["status"],
            "delivered without a successful attempt",
        ),
        (
            {"status": "retrying", "attempts": 1},
            ["status", "status"],
            "another number of attempts than is recorded",
        ),
        (
            {"status": "retrying", "attempts": 2},
            ["status"],
            "another number of attempts than is recorded",
        ),
    ],
)
async def test_watch_reports_illegal_rows_and_no_legal_ones(
    database: Database, columns: dict[str, Any], attempts: list[str], what: str | None
) -> None:
    endpoint = await seed_endpoint(database, "http://127.0.0.1/")
    delivery = await seed_delivery(database, endpoint, **columns)
    for number, result in enumerate(attempts, start=1):
        await seed_attempt(database, delivery, number, result)
    watch = Watch(database)
    await watch.look()
    assert list(watch.illegal) == ([] if what is None else [(delivery, what)])


async def test_open_deliveries_and_the_outbox_are_counted(database: Database) -> None:
    endpoint = await seed_endpoint(database, "http://127.0.0.1/")
    waiting = await seed_delivery(database, endpoint)
    await seed_delivery(database, endpoint, status="gone", reason="gone", **ENDED)
    rows, watch = await read_rows(database), Watch(database)
    await watch.look()
    assert rows.open == rows.in_outbox == [waiting]
    assert watch.open == watch.in_outbox == 1
    assert rows.dead_by_reason == {"gone": 1}
    assert sorted(rows.made.values()) == [1, 1]
