"""What a run of retention does, each part so that it can be done again: the run's rows know how far
it has come, whatever becomes of the worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from temporalio import activity

from hookfast.clock import Clock, utc_now
from hookfast.retention import ages as retention
from hookfast.retention.ages import Prepared, RetentionRunInput, RetentionState, SweepInput, Swept
from hookfast.storage.database import partitions
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import permits
from hookfast.storage.retention import delivery_days, old_partitions, retention_runs
from hookfast.storage.retention.sweeps import Batch, Cutoffs, sweep_batch
from hookfast.storage.tables import RetentionRun, RetentionSweep

_ROWS_AT_ONCE = 200
"""How much goes into one transaction: on SQLite, everyone waits for it (some 20 ms)."""
_ROWS_COUNTED_AT_ONCE = 2_000
"""The same for dry runs, which nobody waits for."""
_BATCHES_AT_ONCE = 1_000
"""How many batches one activity makes: minutes of work, and one line in the workflow's history."""


class RetentionActivities:
    """The activities of retention. One per worker process. `ages` says how long each of
    `retention.SWEEPS` is kept."""

    def __init__(
        self, *, database: Database, ages: Mapping[str, timedelta], clock: Clock = utc_now
    ) -> None:
        self._database = database
        self._ages = ages
        self._clock = clock

    @property
    def all(self) -> list[Callable[..., Any]]:
        """What a worker registers."""
        return [
            self.begin_retention,
            self.prepare_retention,
            self.sweep_rows,
            self.finish_retention,
        ]

    @activity.defn(name="begin_retention")
    async def begin_retention(self, input: RetentionRunInput) -> None:
        """Fix what this run will delete, by now."""
        now = self._clock()
        run = RetentionRun(
            id=input.run_id,
            status="running",
            dry_run=input.dry_run,
            workflow_id=activity.info().workflow_id or "",
            partitions=0,
            days=0,
            started_at=now,
        )
        async with self._database.write() as connection:
            await retention_runs.begin(connection, run, cutoffs=retention.cutoffs(now, self._ages))

    @activity.defn(name="prepare_retention")
    async def prepare_retention(self, input: RetentionRunInput) -> Prepared:
        """Make partitions for the days ahead, and count the days that are over: for the last time
        those that are about to lose rows."""
        now = self._clock()
        made = await partitions.create_ahead(self._database, now=now)
        async with self._database.read() as connection:
            sweeps = await retention_runs.sweeps(connection, input.run_id)
            ends = [sweeps[name].cutoff for name in retention.COUNTED]
            last = max((end for end in ends if end is not None), default=None)
            final_before = None if last is None else last.date()
            days = await delivery_days.days_to_count(
                connection, today=retention.midnight(now).date(), final_before=final_before
            )
        for day in days:
            final = final_before is not None and day < final_before
            await delivery_days.count_day(self._database, day, final=final, now=now)
            activity.heartbeat(str(day))
        async with self._database.write() as connection:
            await retention_runs.record_preparation(connection, input.run_id, partitions=made, days=len(days))
        return Prepared(partitions=made, days=len(days))

    @activity.defn(name="sweep_rows")
    async def sweep_rows(self, input: SweepInput) -> Swept:
        """Delete the rows of one table that are past their age and that nothing keeps, or some of
        them: `done` tells."""
        async with self._database.read() as connection:
            sweeps = await retention_runs.sweeps(connection, input.run_id)
        cutoffs = {name: sweep.cutoff for name, sweep in sweeps.items()}
        if sweeps[input.name].cursor is None:
            await old_partitions.drop_old(
                self._database,
                input.run_id,
                input.name,
                cutoffs=cutoffs,
                dry_run=input.dry_run,
                beat=activity.heartbeat,
            )
        for _ in range(_BATCHES_AT_ONCE):
            begun = time.monotonic()
            batch = await self._batch(input, cutoffs)
            if batch is None or not batch.more:
                break
            activity.heartbeat(batch.cursor)
            if not input.dry_run:
                # As long as it took: other processes that poll for SQLite's one writer get a turn.
                await asyncio.sleep(time.monotonic() - begun)
        async with self._database.read() as connection:
            sweeps = await retention_runs.sweeps(connection, input.run_id)
        return _swept(sweeps[input.name])

    async def _batch(self, input: SweepInput, cutoffs: Cutoffs) -> Batch | None:
        """The next batch; None when there was none left."""
        if input.dry_run:
            async with self._database.read() as connection:
                sweep = (await retention_runs.sweeps(connection, input.run_id))[input.name]
                if sweep.done:
                    return None
                batch = await sweep_batch(
                    connection,
                    input.name,
                    cutoffs,
                    after=sweep.cursor,
                    limit=_ROWS_COUNTED_AT_ONCE,
                    dry_run=True,
                    now=self._clock(),
                )
            async with self._database.write() as connection:
                await retention_runs.advance(connection, input.run_id, input.name, batch)
            return batch
        async with self._database.write() as connection:
            sweep = await retention_runs.lock_sweep(connection, input.run_id, input.name)
            if sweep.done:
                return None
            batch = await sweep_batch(
                connection,
                input.name,
                cutoffs,
                after=sweep.cursor,
                limit=_ROWS_AT_ONCE,
                dry_run=False,
                now=self._clock(),
            )
            await retention_runs.advance(connection, input.run_id, input.name, batch)
        return batch

    @activity.defn(name="finish_retention")
    async def finish_retention(self, input: RetentionRunInput) -> RetentionState:
        """Say that the run is over, and forget what is left of what nobody asks for: places among
        requests in flight whose worker died, and the runs of a year ago."""
        now = self._clock()
        async with self._database.write() as connection:
            if not input.dry_run:
                await permits.expire_lost(connection, before=now - timedelta(days=1))
                await retention_runs.delete_before(connection, before=now - retention.RUNS_KEPT)
            await retention_runs.finish(connection, input.run_id, now=now)
            sweeps = await retention_runs.sweeps(connection, input.run_id)
        return RetentionState(input.run_id, tuple(_swept(sweep) for sweep in sweeps.values()))


def _swept(sweep: RetentionSweep) -> Swept:
    return Swept(
        name=sweep.name,
        done=sweep.done,
        deleted=sweep.deleted,
        kept=sweep.kept,
        partitions=sweep.partitions,
    )
