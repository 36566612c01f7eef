"""Figures by event type: those of the most frequent types, and how they are found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from hookfast.deliveries.figures import Owner, State, Tally, minute_of
from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.storage.counting import entries, folding, reading
from hookfast.storage.counting.reading import Scope
from hookfast.storage.database.engine import Database
from tests.support.query_plan import explain

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
EDGES = [NOON, NOON + HOUR, NOON + 2 * HOUR]


async def _count(database: Database, at: datetime, **deliveries: int) -> None:
    """Count so many deliveries of each type, each with an attempt."""
    tally = Tally()
    for name, number in deliveries.items():
        owner = Owner("tnt_1", "ep_1", name)
        for _ in range(number):
            tally.delivery(owner, minute_of(at), None, State(DeliveryStatus.RETRYING))
            tally.attempt(owner, at, Result.TIMEOUT, None, 5_000, first=True)
    async with database.write() as connection:
        await entries.write(connection, tally.numbers())


@pytest.mark.parametrize("folded", [False, True])
async def test_the_most_frequent_types_are_read_step_by_step(
    database: Database, folded: bool
) -> None:
    await _count(database, NOON, rare=1, usual=2, frequent=1)
    await _count(database, NOON + HOUR, frequent=3)
    await _count(database, NOON - HOUR, rare=9)  # before the first step
    if folded:
        await folding.fold(database)
    async with database.read() as connection:
        await folding.freeze(connection)
        for scope in (Scope(), Scope(tenant_id="tnt_1"), Scope(endpoint_id="ep_1")):
            names = await reading.types_by_frequency(connection, scope, EDGES)
            assert names == ["frequent", "usual", "rare"]
            found = await reading.steps_by_type(connection, scope, EDGES, only=names[:2])
            accepted = {name: [one.accepted for one in steps] for name, steps in found.items()}
            assert accepted == {"frequent": [1, 3], "usual": [2, 0]}
            assert await reading.steps_by_type(connection, scope, EDGES, only=[]) == {}
        stranger = Scope(tenant_id="tnt_2")
        assert await reading.types_by_frequency(connection, stranger, EDGES) == []


async def test_what_is_counted_meanwhile_is_in_no_later_read(database: Database) -> None:
    await _count(database, NOON, usual=2)
    async with database.read() as connection:
        await folding.freeze(connection)
        [before, _] = await reading.steps(connection, Scope(), EDGES)
        await _count(database, NOON, usual=1)
        await folding.fold(database)
        found = await reading.steps_by_type(connection, Scope(), EDGES)
    assert found["usual"][0].accepted == before.accepted == 2


async def test_figures_of_types_are_a_range_of_the_primary_key(database: Database) -> None:
    await _count(database, NOON, usual=2)
    await folding.fold(database)
    async with database.read() as connection:
        on_sqlite = connection.dialect.name == "sqlite"
        if not on_sqlite:  # which would read so few rows one after the other
            await connection.execute(text("SET LOCAL enable_seqscan = off"))
            await connection.execute(text("SET LOCAL enable_bitmapscan = off"))
        for only in (None, ["usual", "rare"]):
            query = reading.steps_by_type(connection, Scope(), EDGES, only=only)
            plan = await explain(connection, query)
            if on_sqlite:
                assert "SEARCH figures USING PRIMARY KEY (scope=? AND at>? AND at<?" in plan
            else:
                assert "Index Only Scan using figures_pkey on figures" in plan
