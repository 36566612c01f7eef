"""Makes a process use the clock of the PostgreSQL server: `utc_now` then says the same in every
process that shares the database, and leases, due times and ids need no other agreement (ADR 36).

On SQLite all processes are on one machine, whose clock they use.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock, machine_now, set_clock, utc_now
from hookfast.storage.database.engine import Database
from hookfast.telemetry import instruments

_EVERY_SECONDS = 5.0
_FIRST_SECONDS = 3.0  # a start waits this long for an unresponsive database
_WORTH_A_LINE = timedelta(seconds=1)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """How far the server's clock is ahead of ours (negative: behind), plus or minus `within`."""

    ahead: timedelta
    within: timedelta


async def measure_skew(connection: AsyncConnection, *, clock: Clock) -> Skew:
    """Compare the server's clock with `clock`."""
    sent_at = clock()
    theirs, _, half = await _read_clock(connection)
    return Skew(ahead=theirs - (sent_at + half), within=half)


async def _read_clock(connection: AsyncConnection) -> tuple[datetime, float, timedelta]:
    """Return what the server's clock showed, what time.monotonic() was then, and plus or minus how
    much."""
    began = time.monotonic()
    theirs: datetime = (await connection.execute(text("SELECT clock_timestamp()"))).scalar_one()
    half = (time.monotonic() - began) / 2
    return theirs, began + half, timedelta(seconds=half)


@asynccontextmanager
async def using_server_clock(database: Database) -> AsyncIterator[None]:
    """Set this process's clock by the server's before the block and every 5 s while it lasts. If
    the database is away, the clock runs on, and is set when the database is back."""
    if database.kind != "postgresql":
        instruments.CLOCK_AHEAD.set(0)
        yield
        return
    server_clock = _ServerClock(database)
    try:
        async with asyncio.timeout(_FIRST_SECONDS):
            await server_clock.read()
    except (SQLAlchemyError, TimeoutError):
        pass  # whoever needs the database reports that it is away
    setting = asyncio.create_task(server_clock.read_forever(), name="server_clock")
    try:
        yield
    finally:
        setting.cancel()
        await asyncio.wait({setting})  # until its connection is returned


class _ServerClock:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._was_read = False
        self._reported = timedelta(0)

    async def read_forever(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            try:
                await self.read()
            except SQLAlchemyError:
                continue  # whoever needs the database reports that it is away

    async def read(self) -> None:
        """Set `utc_now`, and report a clock that is wrong or was changed."""
        async with self._database.read() as connection:
            theirs, read, within = await _read_clock(connection)
        ahead = set_clock(theirs, read=read, within=within)
        if self._was_read and abs(ahead) > within + _WORTH_A_LINE:
            log.warning(
                "The database server's clock was changed, or this process was suspended.",
                clock_ahead_seconds=round(ahead.total_seconds(), 3),
            )
        self._was_read = True
        self._report(machine_now() - utc_now())

    def _report(self, ahead: timedelta) -> None:
        """Report how far this machine's clock is ahead: once, and when that changes."""
        seconds = ahead.total_seconds()
        instruments.CLOCK_AHEAD.set(seconds)
        if abs(ahead - self._reported) > _WORTH_A_LINE:
            self._reported = ahead
            log.warning(
                "This machine's clock differs from the database server's, which is used."
                if abs(ahead) > _WORTH_A_LINE
                else "This machine's clock agrees with the database server's again.",
                clock_ahead_seconds=round(seconds, 3),
            )
