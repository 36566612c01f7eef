"""The activities of a retention run. Each can be repeated: the run's rows have its progress, so a
crash of the worker loses nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection
from temporalio import activity
from temporalio.exceptions import ApplicationError

from hookfast.clock import Clock, format_duration, rfc3339, utc_now
from hookfast.retention import ages as retention
from hookfast.retention.ages import (
    Prepared,
    RetentionRunInput,
    RetentionState,
    SweepInput,
    Swept,
)
from hookfast.storage.accounts import tenant_days
from hookfast.storage.counting import rollup, totals
from hookfast.storage.counting.rollup import Moved
from hookfast.storage.database import partitions
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import permits, sent_tests
from hookfast.storage.figures import reconciliation
from hookfast.storage.figures.reconciliation import Drift
from hookfast.storage.retention import old_partitions, retention_runs
from hookfast.storage.retention.sweeps import Batch, Cutoffs, sweep_batch
from hookfast.storage.tables import RetentionRun, RetentionSweep

_ROWS_AT_ONCE = 200
"""Rows deleted in one transaction: on SQLite, every other writer waits for it (some 20 ms)."""
_TEST_BATCHES = 500
"""Batches of old tests that one run deletes; the next run deletes what is left."""
_ROWS_COUNTED_AT_ONCE = 2_000
"""Rows counted at once in a dry run, for which nothing waits."""
_CLOCKS_AGREE_WITHIN = timedelta(hours=1)
_BATCHES_AT_ONCE = 1_000
"""Batches of one activity: minutes of work, and one line in the workflow's history."""

log = structlog.get_logger()


class RetentionActivities:
    """The activities of `RetentionWorkflow`. One per worker process. `ages` has how long the rows
    of each of `retention.SWEEPS`, and figures, are kept."""

    def __init__(
        self, *, database: Database, ages: Mapping[str, timedelta], clock: Clock = utc_now
    ) -> None:
        self._database = database
        self._ages = ages
        self._clock = clock

    @property
    def all(self) -> list[Callable[..., Any]]:
        """Every activity, for the worker."""
        return [
            self.begin_retention,
            self.prepare_retention,
            self.sweep_rows,
            self.finish_retention,
        ]

    @activity.defn(name="begin_retention")
    async def begin_retention(self, input: RetentionRunInput) -> None:
        """Create the run's rows, with the times before which it deletes."""
        now = self._clock()
        _check_clocks(now, activity.info().started_time)
        run = RetentionRun(
            id=input.run_id,
            status="running",
            dry_run=input.dry_run,
            workflow_id=activity.info().workflow_id or "",
            partitions=0,
            started_at=now,
        )
        async with self._database.write() as connection:
            await retention_runs.begin(connection, run, cutoffs=retention.cutoffs(now, self._ages))

    @activity.defn(name="prepare_retention")
    async def prepare_retention(self, input: RetentionRunInput) -> Prepared:
        """Create partitions for the days ahead, add old figures up, and compare figures with the
        rows."""
        now = self._clock()
        created = await partitions.create_ahead(self._database, now=now)
        async with self._database.write() as connection:
            await retention_runs.count_partitions(connection, input.run_id, created=created)
            if not await retention_runs.sweeps(connection, input.run_id):
                return Prepared(partitions=created)
        await self._roll_up(input.run_id, now)
        endpoints, corrected = await self._compare_gauges(input.run_id)
        hours = await self._compare_hours(input.run_id, now)
        async with self._database.write() as connection:
            await retention_runs.record_comparison(
                connection, input.run_id, endpoints=endpoints, hours=hours
            )
        return Prepared(created, endpoints, corrected, hours)

    async def _roll_up(self, run_id: str, now: datetime) -> None:
        """Add old figures up, and delete those past their age."""

        async def record(connection: AsyncConnection, moved: Moved) -> None:
            await retention_runs.count_figures(
                connection, run_id, rolled_up=moved.rolled_up, deleted=moved.deleted
            )

        kept_since = retention.cutoff(now, self._ages[retention.FIGURES])
        old = rollup.ages(now, kept_since=kept_since)
        await rollup.roll_up(self._database, old, record=record, heartbeat=activity.heartbeat)
        await rollup.delete_empty_gauges(self._database, heartbeat=activity.heartbeat)

    async def _compare_gauges(self, run_id: str) -> tuple[int, int]:
        """Compare the gauges of all endpoints with the rows, and their totals with the gauges, and
        correct those that differ. Return the numbers of endpoints, and of what was corrected."""
        endpoints = corrected = 0

        async def record(connection: AsyncConnection, drift: Drift) -> None:
            await retention_runs.count_corrected(connection, run_id, gauges=len(drift))

        async for page in reconciliation.pages(self._database):
            endpoints += len(page.endpoint_ids)
            for endpoint_id in sorted({key.endpoint_id for key in page.drift}):
                drift = await reconciliation.correct(self._database, [endpoint_id], record=record)
                corrected += len(drift)
                if drift:
                    log.warning(
                        "Gauges of an endpoint differed from its rows and were corrected.",
                        run_id=run_id,
                        endpoint_id=endpoint_id,
                        gauges=reconciliation.in_words(drift),
                    )
            activity.heartbeat(page.endpoint_ids[-1])
        if wrong := await totals.correct(self._database):
            corrected += wrong
            async with self._database.write() as connection:
                await retention_runs.count_corrected(connection, run_id, gauges=wrong)
            log.warning(
                "Totals of gauges differed from the gauges and were corrected.",
                run_id=run_id,
                count=wrong,
            )
        return endpoints, corrected

    async def _compare_hours(self, run_id: str, now: datetime) -> int:
        """Compare the figures of the last day with the rows, and return how many hours differ."""
        different = 0
        async for hour in reconciliation.hours(self._database, now=now):
            if hour.differs:
                different += 1
                log.warning(
                    "The figures of an hour differ from its rows.",
                    run_id=run_id,
                    hour=rfc3339(hour.start),
                    figures=reconciliation.hour_in_words(hour),
                )
            activity.heartbeat(rfc3339(hour.start))
        return different

    @activity.defn(name="sweep_rows")
    async def sweep_rows(self, input: SweepInput) -> Swept:
        """Delete the rows of one table that are past their age and not needed any more, or some of
        them: `done` says whether that was all."""
        async with self._database.read() as connection:
            sweeps = await retention_runs.sweeps(connection, input.run_id)
        if not sweeps:  # a database restored from before the run
            log.error("A retention run has no row; it deletes nothing.", run_id=input.run_id)
            return Swept(input.name, done=True)
        cutoffs = {name: sweep.cutoff for name, sweep in sweeps.items()}
        if sweeps[input.name].cursor is None:
            await old_partitions.drop_old(
                self._database,
                input.run_id,
                input.name,
                cutoffs=cutoffs,
                dry_run=input.dry_run,
                heartbeat=activity.heartbeat,
            )
        for _ in range(_BATCHES_AT_ONCE):
            begun = time.monotonic()
            batch = await self._batch(input, cutoffs)
            if batch is None or not batch.more:
                break
            activity.heartbeat(batch.cursor)
            if not input.dry_run:
                # As long as it took, so that others who wait for SQLite's one writer get a turn.
                await asyncio.sleep(time.monotonic() - begun)
        async with self._database.read() as connection:
            sweeps = await retention_runs.sweeps(connection, input.run_id)
        return _swept(sweeps[input.name])

    async def _batch(self, input: SweepInput, cutoffs: Cutoffs) -> Batch | None:
        """Delete or count the next batch and record it. None if no row was left."""
        if input.dry_run:  # a long read, so that only the record of it needs the writer
            async with self._database.read() as connection:
                sweep = (await retention_runs.sweeps(connection, input.run_id))[input.name]
                batch = await self._sweep_on(connection, input, sweep, cutoffs)
            if batch is not None:
                async with self._database.write() as connection:
                    await retention_runs.advance(connection, input.run_id, input.name, batch)
            return batch
        async with self._database.write() as connection:
            sweep = await retention_runs.lock_sweep(connection, input.run_id, input.name)
            batch = await self._sweep_on(connection, input, sweep, cutoffs)
            if batch is not None:
                await retention_runs.advance(connection, input.run_id, input.name, batch)
        return batch

    async def _sweep_on(
        self,
        connection: AsyncConnection,
        input: SweepInput,
        sweep: RetentionSweep,
        cutoffs: Cutoffs,
    ) -> Batch | None:
        if sweep.done:
            return None
        return await sweep_batch(
            connection,
            input.name,
            cutoffs,
            after=sweep.cursor,
            limit=_ROWS_COUNTED_AT_ONCE if input.dry_run else _ROWS_AT_ONCE,
            dry_run=input.dry_run,
            now=self._clock(),
        )

    @activity.defn(name="finish_retention")
    async def finish_retention(self, input: RetentionRunInput) -> RetentionState:
        """Mark the run as finished. Also delete old tests, the permits of requests whose worker
        died, the counts of tenants' events of days that are over, and the runs of more than a year
        ago."""
        now = self._clock()
        if not input.dry_run:
            await self._expire_tests(now)
        async with self._database.write() as connection:
            if not input.dry_run:
                await permits.expire_lost(connection, before=now - timedelta(days=1))
                await tenant_days.delete_before(connection, (now - timedelta(days=1)).date())
                await retention_runs.delete_before(connection, before=now - retention.RUNS_KEPT)
            await retention_runs.finish(connection, input.run_id, now=now)
            sweeps = await retention_runs.sweeps(connection, input.run_id)
        return RetentionState(input.run_id, tuple(_swept(sweep) for sweep in sweeps.values()))

    async def _expire_tests(self, now: datetime) -> None:
        """Delete the tests that are past their age. Their number is limited for each endpoint, so
        no run needs to count them."""
        before = retention.midnight(now - sent_tests.KEPT)
        for _ in range(_TEST_BATCHES):
            begun = time.monotonic()
            async with self._database.write() as connection:
                deleted = await sent_tests.expire(connection, before=before, limit=_ROWS_AT_ONCE)
            if deleted < _ROWS_AT_ONCE:
                return
            await asyncio.sleep(time.monotonic() - begun)


def _check_clocks(now: datetime, temporal_now: datetime) -> None:
    """Raise an error, after which Temporal tries again, if our clock and Temporal's disagree. What
    is deleted because one clock is wrong is gone."""
    apart = abs(now - temporal_now)
    if apart > _CLOCKS_AGREE_WITHIN:
        log.error(
            "Retention waits: Temporal's clock and the database's disagree.",
            clock_ahead_seconds=round((temporal_now - now).total_seconds()),
        )
        raise ApplicationError(
            f"Temporal's clock and the database's are {format_duration(apart)} apart; nothing is "
            "deleted until they agree.",
            type="ClocksDisagree",
        )


def _swept(sweep: RetentionSweep) -> Swept:
    return Swept(
        name=sweep.name,
        done=sweep.done,
        deleted=sweep.deleted,
        kept=sweep.kept,
        partitions=sweep.partitions,
    )
