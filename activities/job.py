"""Jobs: apply one action to many deliveries, evenly spaced, with a bounded number in progress.

The transaction that moves the job's cursor also requests the action, and results are read from the
deliveries' rows. So counts are exact whatever crashes in between, and a job is done when its
deliveries have acted, not when they were told to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog
from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection
from temporalio import activity

from activities.heartbeat import heartbeat
from hookfast.clock import utc_now
from hookfast.deliveries.actions import JOB_STEPS
from hookfast.deliveries.job import JobInput, JobProgress, JobStatus, Rest, Spacing
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions, jobs, selection
from hookfast.storage.deliveries.life_rows import LifeChange
from hookfast.storage.deliveries.recorder import Wakeup
from hookfast.storage.deliveries.selection import DeliverySelection
from hookfast.storage.tables import Job

STINT = timedelta(seconds=30)
"""How long one activity works. The Temporal UI shows the job's progress after each."""
_TICK, _LONGEST_TICK = 0.1, 2.0
"""Seconds between two checks of the progress: shorter while there is some."""
_CATCH_UP = 0.25
_MOST_UNDER_WAY = 100
"""Deliveries of one job that may be in progress at once, so that a hundred thousand of them do not
queue up in Temporal before other work."""
_PATIENCE = timedelta(minutes=1)
"""A job does not wait for a resend whose turn, by its endpoint's limits, is further away."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Requested:
    """Deliveries that were requested to act. Those in `under_way` have not acted yet."""

    last: str | None = None
    under_way: Sequence[str] = ()
    done: int = 0
    skipped: int = 0
    changes: Sequence[LifeChange] = ()


class JobActivities:
    """The activities of jobs. One per worker process."""

    def __init__(
        self,
        *,
        database: Database,
        on_commit: Callable[[Wakeup], None],
    ) -> None:
        self._database = database
        self._on_commit = on_commit

    @property
    def all(self) -> list[Any]:
        """Every activity, for the worker."""
        return [self.work_on_job, self.cancel_job]

    @activity.defn(name="work_on_job")
    async def work_on_job(self, input: JobInput) -> JobProgress:
        """Work on the job for STINT, or until it has ended. If the database is away, Temporal
        repeats this, and the job continues from its last transaction."""
        async with heartbeat():
            async with self._database.write() as connection:
                job = await jobs.begin(connection, input.job_id, now=utc_now())
            if job is None:  # a database restored from before the job
                log.error("A job has no row; its workflow ends.", job_id=input.job_id)
                return JobProgress(status=JobStatus.FAILED)
            return jobs.progress_of(await self._work(job))

    @activity.defn(name="cancel_job")
    async def cancel_job(self, input: JobInput) -> None:
        """Request that the job be cancelled, after its workflow was signalled."""
        async with self._database.write() as connection:
            await jobs.request_cancel(connection, input.job_id, now=utc_now())

    async def _work(self, job: Job) -> Job:
        try:
            chosen = DeliverySelection.from_document(job.filter)
        except ValidationError:  # written by a later version
            async with self._database.write() as connection:
                return await self._finish(
                    connection, job, JobStatus.FAILED, error="Its filter cannot be read."
                )
        spacing = self._spacing(job)
        time = asyncio.get_running_loop().time
        enough = time() + STINT.total_seconds()
        rest = Rest(shortest=_TICK, longest=_LONGEST_TICK)
        while not JobStatus(job.status).finished:
            before, job = job, await self._advance(job, chosen, spacing)
            if time() >= enough or activity.is_worker_shutdown():
                break
            moved = _made_progress(before, job)
            await asyncio.sleep(rest.after(moved=moved, until_next=spacing.next_at - time()))
        return job

    async def _advance(self, job: Job, chosen: DeliverySelection, spacing: Spacing) -> Job:
        """Count the deliveries that have acted, and request the action of as many more as the rate
        and the number in progress allow, in one transaction."""
        now = utc_now()
        async with self._database.write() as connection:
            locked = await jobs.lock(connection, job.id)
            if locked is None:  # another worker has ended it
                return await jobs.get(connection, job.id) or job
            in_hand = locked.in_hand or []
            waiting = await selection.resends_under_way(
                connection, in_hand, patience=_PATIENCE, now=now
            )
            requested, is_over = _Requested(), locked.cancel_requested
            if is_over:
                waiting = []  # requested already; they act nevertheless
            else:
                room = spacing.take(
                    asyncio.get_running_loop().time(), most=_MOST_UNDER_WAY - len(waiting)
                )
                requested = await self._request(connection, locked, chosen, room)
                if room > 0 and requested.last is None:
                    spacing.stop()
                is_over = spacing.stopped and not waiting
            moved = await jobs.record_progress(
                connection,
                locked,
                cursor=requested.last or locked.cursor,
                in_hand=[*waiting, *requested.under_way],
                done=len(in_hand) - len(waiting) + requested.done,
                skipped=requested.skipped,
                now=now,
            )
            if is_over:
                cancelled = locked.cancel_requested
                status = JobStatus.CANCELLED if cancelled else JobStatus.DONE
                moved = await self._finish(connection, locked, status)
        if requested.changes:
            self._on_commit(Wakeup.OUTBOX)
        return moved or job

    async def _request(
        self, connection: AsyncConnection, job: Job, chosen: DeliverySelection, limit: int
    ) -> _Requested:
        if limit == 0:
            return _Requested()
        ids = await selection.next_ids(connection, chosen, after=job.cursor, limit=limit)
        if not ids:
            return _Requested()
        step = JOB_STEPS[job.action]
        changes = await actions.request_many(
            connection,
            ids,
            step.fact,
            among=chosen.statuses,
            urgency=step.urgency,
            now=utc_now(),
        )
        changed = [one for one in changes if one.after != one.before]
        return _Requested(
            last=ids[-1],
            under_way=[one.delivery_id for one in changed] if step.sends else (),
            done=0 if step.sends else len(changed),
            skipped=len(ids) - len(changed),
            changes=changed,
        )

    async def _finish(
        self, connection: AsyncConnection, job: Job, status: JobStatus, *, error: str | None = None
    ) -> Job:
        ended = await jobs.finish(connection, job.id, status=status, now=utc_now(), error=error)
        return ended or job

    def _spacing(self, job: Job) -> Spacing:
        gap, wait = 1 / job.rate_per_second, 0.0
        if job.cursor is not None:  # evenly spaced also from the last stint, and after a crash
            wait = gap - (utc_now() - job.updated_at).total_seconds()
        return Spacing(
            job.rate_per_second,
            first_at=asyncio.get_running_loop().time() + min(max(wait, 0.0), gap),
            catch_up=_CATCH_UP,
        )


def _made_progress(before: Job, after: Job) -> bool:
    """Whether the job made progress in between."""
    return any(
        getattr(before, name) != getattr(after, name) for name in ("cursor", "done", "skipped")
    )
