"""The doctor on gauges that differ from the rows, and on entries that nobody adds up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import Table, select, update
from sqlalchemy.exc import OperationalError

from hookfast.clock import utc_now
from hookfast.deliveries.figures import Owner, State, Tally
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.doctor import figures
from hookfast.doctor.finding import Finding
from hookfast.settings.settings import Settings
from hookfast.storage.counting import entries, folding
from hookfast.storage.database.engine import Database
from hookfast.storage.figures import reconciliation
from hookfast.storage.tables import FigureEntry, Gauge
from tests.integration.doctor.conftest import installation, problems, run_check
from tests.integration.storage.deliveries.stored_lives import seed_life
from tests.support.figures import count_rows
from tests.support.seed import seed_endpoint

pytestmark = pytest.mark.anyio

_GAUGES: Table = Gauge.__table__
DELIVERED = State(DeliveryStatus.DELIVERED)


@pytest.fixture
async def settings(database: Database, tmp_path: Path) -> Settings:
    """An installation with two endpoints, each with a held delivery and a dead letter."""
    for _ in range(2):
        endpoint = await seed_endpoint(database, "https://receiver.example/")
        for status in ("held", "dead"):
            await seed_life(database, endpoint, status)
    await count_rows(database)
    return installation(tmp_path, database.url)


async def said(settings: Settings) -> dict[str, Finding]:
    return {one.check: one for one in await run_check("figures", settings)}


async def test_gauges_that_agree_are_ok_with_their_number(
    database: Database, settings: Settings
) -> None:
    await folding.fold(database)
    findings = await said(settings)
    assert problems([*findings.values()]) == {}
    assert findings["figures.gauges"].saw == (
        "The gauges of 2 endpoints were compared with the rows: all agree."
    )


async def test_drift_is_reported_and_left(database: Database, settings: Settings) -> None:
    await folding.fold(database)
    async with database.write() as connection:
        held = _GAUGES.c.kind == "held"
        await connection.execute(update(_GAUGES).where(held).values(number=3))
    before = await _gauges(database)
    [(check, (status, text))] = problems([*(await said(settings)).values()]).items()
    assert (check, status) == ("figures.gauges", "warn")
    assert "2 gauges of 2 endpoints (ep_" in text
    assert "held -4 to be added" in text
    assert await _gauges(database) == before


async def test_a_comparison_that_fails_is_said(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise OperationalError("SELECT", {}, Exception("canceling statement"))

    monkeypatch.setattr(reconciliation, "compare", fail)
    finding = (await said(settings))["figures.gauges"]
    assert finding.status == "warn"
    assert finding.saw == "Figures could not be compared with the rows: OperationalError."


async def test_a_part_of_many_endpoints_is_compared(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await folding.fold(database)
    monkeypatch.setattr(reconciliation, "ENDPOINTS_AT_ONCE", 1)
    monkeypatch.setattr(figures, "_MOST_ENDPOINTS", 1)
    assert (await said(settings))["figures.gauges"].saw.startswith(
        "The gauges of 1 endpoint were compared with the rows, the oldest first"
    )
    monkeypatch.setattr(figures, "_COMPARE_SECONDS", -1)
    assert "of 0 endpoints" in (await said(settings))["figures.gauges"].saw


async def test_entries_that_nobody_adds_up_are_reported(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "_WAIT_SECONDS", 1.0)
    status, text = problems([*(await said(settings)).values()])["figures.entries"]
    assert status == "warn"
    assert "and no process adds them up" in text


async def test_entries_of_a_running_process_are_ok(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "EVERY_SECONDS", 0.2)
    running = asyncio.create_task(folding.fold_forever(database))
    assert problems([*(await said(settings)).values()]) == {}
    running.cancel()


async def test_entries_that_others_replace_as_they_are_added_up_are_ok(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "_WAIT_SECONDS", 1.0)

    async def add_up_and_count_again() -> None:
        while True:
            tally = Tally()
            tally.delivery(Owner("tnt_1", "ep_1", "a.b"), 29_000_000, None, DELIVERED)
            async with database.write() as connection:
                await folding.add_up(connection)
                await entries.write(connection, tally.numbers())
            await asyncio.sleep(0.1)

    running = asyncio.create_task(add_up_and_count_again())
    assert (await said(settings))["figures.entries"].status == "ok"
    running.cancel()


async def test_new_entries_are_ok_at_once(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "_WAIT_SECONDS", 3600.0)
    table: Table = FigureEntry.__table__
    async with database.write() as connection:
        minute = figures.minute_of(utc_now())
        await connection.execute(update(table).where(~table.c.gauge).values(at=minute))
    assert problems([*(await said(settings)).values()]) == {}


async def _gauges(database: Database) -> list[tuple[object, ...]]:
    async with database.read() as connection:
        rows = await connection.execute(select(_GAUGES).order_by(*_GAUGES.primary_key.columns))
        return [tuple(row) for row in rows]
