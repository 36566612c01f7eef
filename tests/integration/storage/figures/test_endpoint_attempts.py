"""An endpoint's attempts over time: counted when they were made, or estimated from some of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert

from hookfast.deliveries.outcome import Result
from hookfast.storage.database.engine import Database
from hookfast.storage.figures import endpoint_attempts
from hookfast.storage.figures.endpoint_attempts import AttemptClass, EndpointAttempts
from hookfast.storage.tables import Attempt, Delivery
from tests.support.rows import attempt_row, delivery_row

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
EDGES = [NOW - (6 - place) * 10 * MINUTE for place in range(7)]
"""The last hour in six steps."""


async def deliver(
    database: Database, at: datetime, *attempts: tuple[timedelta, str, int | None, float]
) -> None:
    """Insert a delivery created at this time, with attempts: (how long after, result, status,
    milliseconds)."""
    last = at + attempts[-1][0] if attempts else at
    row = delivery_row(at, status="retrying", attempts=len(attempts), updated_at=last)
    made = [
        attempt_row(
            *(at + later, row["id"]),
            number=number,
            trigger="retry",
            duration_ms=took,
            result=result,
            status_code=status,
        )
        for number, (later, result, status, took) in enumerate(attempts, 1)
    ]
    async with database.write() as connection:
        await connection.execute(insert(Delivery.__table__), row)
        if made:
            await connection.execute(insert(Attempt.__table__), made)


async def read(database: Database) -> EndpointAttempts:
    async with database.read() as connection:
        return await endpoint_attempts.read(connection, "ep_1", EDGES, now=NOW)


async def test_attempts_count_in_the_step_in_which_they_were_made(database: Database) -> None:
    ok, down = ("success", 200, 40.0), ("status", 503, 80.0)
    # created in the second step: the attempts are in the second, third and last
    early = NOW - 45 * MINUTE
    await deliver(database, early, (MINUTE, *down), (10 * MINUTE, *down), (44 * MINUTE, *ok))
    # created two days ago: only its last retry is in the window, in the first step
    old = NOW - 48 * HOUR
    await deliver(database, old, (MINUTE, *down), (47 * HOUR + 5 * MINUTE, "timeout", None, 5e3))
    await deliver(database, old, (MINUTE, *down))
    await deliver(database, NOW - MINUTE)
    found = await read(database)
    assert not found.estimated
    assert [dict(step.counts) for step in found.steps] == [
        {AttemptClass.TIMEOUT: 1},
        {AttemptClass.SERVER_ERROR: 1},
        {AttemptClass.SERVER_ERROR: 1},
        {},
        {},
        {AttemptClass.SUCCESS: 1},
    ]
    assert [list(step.answered_ms) for step in found.steps] == [[], [80], [80], [], [], [40]]


async def test_busy_steps_are_estimated_from_their_newest_deliveries(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 5 of each step's deliveries are read. The last step has one every 15 seconds.
    monkeypatch.setattr(endpoint_attempts, "MAX_DELIVERIES", 30)
    for place in range(1, 41):
        at = NOW - place * timedelta(seconds=15)
        await deliver(database, at, (timedelta(0), "success", 200, 10.0))
    await deliver(database, NOW - 35 * MINUTE, (MINUTE, "success", 200, 10.0))
    found = await read(database)
    assert found.estimated
    assert found.steps[-1].counts[AttemptClass.SUCCESS] == pytest.approx(40, abs=1)
    assert found.steps[2].counts[AttemptClass.SUCCESS] == 1  # all of the quiet step were read


async def test_deliveries_with_very_many_attempts_are_sampled(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint_attempts, "MAX_ATTEMPTS", 50)
    retries = [(timedelta(seconds=second), "status", 500, 1.0) for second in range(10)]
    for place in range(10):
        await deliver(database, NOW - 5 * MINUTE + place * timedelta(seconds=1), *retries)
    found = await read(database)
    assert found.estimated
    assert found.steps[-1].counts == {AttemptClass.SERVER_ERROR: 100}
    assert len(found.steps[-1].answered_ms) == 50


@pytest.mark.parametrize(
    ("result", "status", "answer"),
    [
        ("success", 204, "success"),
        ("status", 404, "4xx"),
        ("status", 503, "5xx"),
        ("status", 302, "other"),
        ("timeout", None, "timeout"),
        ("timeout", 200, "timeout"),  # its body did not end in time
        *(
            (each.value, None, "other")
            for each in Result
            if each.value not in ("success", "status", "timeout")
        ),
    ],
)
def test_every_result_has_a_class(result: str, status: int | None, answer: str) -> None:
    assert AttemptClass.of(Result(result), status) == answer
