"""A process on PostgreSQL uses the server's clock, whatever its machine's says."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from hookfast import clock
from hookfast.clock import utc_now
from hookfast.storage.database import server_clock
from hookfast.storage.database.engine import Database
from hookfast.storage.database.server_clock import using_server_clock
from hookfast.telemetry import instruments
from tests.e2e.service_process import free_ports
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

SECOND = timedelta(seconds=1)
_SEVERAL_READS = 0.1  # in seconds
DIFFERS = "This machine's clock differs from the database server's, which is used."
AGREES = "This machine's clock agrees with the database server's again."
CHANGED = "The database server's clock was changed, or this process was suspended."


class Machine:
    """This machine's clock, wrong by `off_by`."""

    def __init__(self) -> None:
        self.off_by = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.off_by


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(clock, "_was_set", None)
    for module in (clock, server_clock):
        monkeypatch.setattr(module, "machine_now", machine.now)
    monkeypatch.setattr(server_clock, "_EVERY_SECONDS", 0.02)
    return machine


def is_right(moment: datetime) -> bool:
    return abs(moment - datetime.now(UTC)) < SECOND


@pytest.mark.parametrize("hours", [-1, 1, 24 * 365])
async def test_process_uses_the_servers_clock_from_the_start(
    postgresql_url: str, machine: Machine, hours: int
) -> None:
    machine.off_by = timedelta(hours=hours)
    assert not is_right(utc_now())
    async with Database(postgresql_url) as database, using_server_clock(database):
        assert is_right(utc_now())
        machine.off_by *= -1
        assert is_right(utc_now())


async def test_wrong_clocks_are_reported_once_and_when_they_change(
    postgresql_url: str, machine: Machine
) -> None:
    async def ahead(seconds: float) -> bool:
        (measured,) = instruments.CLOCK_AHEAD._values.values()
        return abs(measured - seconds) < 1

    with capture_logs() as lines:
        async with Database(postgresql_url) as database, using_server_clock(database):
            await asyncio.sleep(_SEVERAL_READS)
            machine.off_by = timedelta(hours=-1)
            await eventually(lambda: ahead(-3600))
            await asyncio.sleep(_SEVERAL_READS)
            machine.off_by = timedelta(0)
            await eventually(lambda: ahead(0))
            # as if the server's clock were set back by an hour
            hour_later = utc_now() + timedelta(hours=1)
            clock.set_clock(hour_later, read=time.monotonic(), within=SECOND)
            await asyncio.sleep(_SEVERAL_READS)
            assert is_right(utc_now())
    said = [(line["event"], round(line["clock_ahead_seconds"])) for line in lines]
    assert said == [(DIFFERS, -3600), (AGREES, 0), (CHANGED, -3600)]


async def test_process_starts_while_the_database_is_away_and_sets_its_clock_later(
    postgresql_url: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.off_by = timedelta(hours=1)
    (nobody,) = free_ports(1)
    async with (
        Database(f"postgresql+asyncpg://hookfast@127.0.0.1:{nobody}/away") as away,
        Database(postgresql_url) as database,
        using_server_clock(away),
    ):
        assert not is_right(utc_now())
        monkeypatch.setattr(away, "read", database.read)

        async def set_right() -> bool:
            return is_right(utc_now())

        await eventually(set_right)


async def test_process_on_sqlite_uses_this_machines_clock(
    sqlite_url: str, machine: Machine
) -> None:
    async with Database(sqlite_url) as database, using_server_clock(database):
        machine.off_by = timedelta(hours=1)
        assert abs(utc_now() - machine.now()) < SECOND
