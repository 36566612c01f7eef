"""Finds out whether the database accepts writes, by a write that is committed now and then.

A small write alone does not notice a full disk: both databases have room in files that they reuse
(PostgreSQL in the row's page and in a recycled WAL file, SQLite in its log after a checkpoint),
while an event needs new pages. So the check also needs new space: on PostgreSQL a query spills some
70 KB into a temporary file, which leaves nothing behind, takes no lock and changes no catalogue; on
SQLite the free space of the file system is read (ADR 32).
"""

from __future__ import annotations

import asyncio
import shutil
import time
from datetime import timedelta
from typing import Final, Literal

from sqlalchemy import Table, delete, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock
from hookfast.storage.database.engine import Database
from hookfast.storage.database.upsert import insert_into
from hookfast.storage.tables import ProcessWrite

Result = Literal["accepted", "refused", "no_space"]
"""`refused`: the write failed, or took too long. `no_space`: it was committed, and too little space
is left for the next events."""

INTERVAL_SECONDS = 5.0
"""A result counts for this long, however often it is asked for."""
LEAST_FREE_BYTES: Final = 32 * 1024 * 1024
"""The free space that SQLite needs: a batch of 16 MiB (`HOOKFAST_MAX_BATCH_BYTES`) is written into
the log, and from there into the file."""
_KEPT: Final = timedelta(days=1)

_WRITES: Table = ProcessWrite.__table__
_SMALL_MEMORY = text(
    "SELECT set_config('work_mem', '64kB', true), current_setting('temp_tablespaces') = '' "
    "AND current_setting('temp_file_limit') <> '0'"
)
_SPILL = text("SELECT count(*) FROM generate_series(1, 5000)")


class WriteCheck:
    """Checks for one process whether the database accepts writes, at most every few seconds and
    one at a time, whoever asks."""

    def __init__(self, database: Database, *, process_id: str, clock: Clock) -> None:
        self._database = database
        self._process_id = process_id
        self._clock = clock
        self._running: asyncio.Task[Result] | None = None
        self._started_at = 0.0
        self._latest: tuple[float, Result] | None = None

    async def result(self, *, within: float) -> Result:
        """Return the latest result, or check now if that is older than INTERVAL_SECONDS. A check
        that has run for `within` seconds counts as refused, and goes on for later callers."""
        if self._latest is not None and self._age(self._latest[0]) < INTERVAL_SECONDS:
            return self._latest[1]
        if self._running is None:
            self._started_at = time.monotonic()
            self._running = asyncio.create_task(self._check(), name="write-check")
        done, _ = await asyncio.wait(
            {self._running}, timeout=max(0.0, within - self._age(self._started_at))
        )
        return next(iter(done)).result() if done else "refused"

    async def close(self) -> None:
        """Give up a check that is running."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    @staticmethod
    def _age(moment: float) -> float:
        return time.monotonic() - moment

    async def _check(self) -> Result:
        try:
            result = await self._write()
        except SQLAlchemyError:
            result = "refused"
        finally:
            self._running = None
        self._latest = time.monotonic(), result
        return result

    async def _write(self) -> Result:
        async with self._database.write() as connection:
            await self._record(connection)
            if self._database.kind == "postgresql":
                await _use_new_space(connection)
        if self._database.file is not None:
            usage = await asyncio.to_thread(shutil.disk_usage, self._database.file.parent)
            if usage.free < LEAST_FREE_BYTES:
                return "no_space"
        return "accepted"

    async def _record(self, connection: AsyncConnection) -> None:
        """Write this process's row, and delete those of processes that ended long ago. Each process
        has its own row: one that is frozen in its transaction keeps nobody else waiting."""
        now = self._clock()
        row = insert_into(connection, _WRITES).values(id=self._process_id, written_at=now)
        await connection.execute(
            row.on_conflict_do_update(index_elements=["id"], set_={"written_at": now})
        )
        await connection.execute(delete(_WRITES).where(_WRITES.c.written_at < now - _KEPT))


async def _use_new_space(connection: AsyncConnection) -> None:
    """Write a temporary file, unless those are on another disk (`temp_tablespaces`) or not allowed
    (`temp_file_limit`)."""
    _, says_something = (await connection.execute(_SMALL_MEMORY)).one()
    if says_something:
        await connection.execute(_SPILL)
