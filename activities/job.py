"""Jobs: having many deliveries do one thing, evenly spaced, with a bounded number under way.

A delivery is asked in the transaction that moves the job's cursor, and what came of it is read from
its row: so counts are exact whatever dies in between, and a job is done when its deliveries have
moved, not when they were told to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import structlog
from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection
from temporalio import activity

from activities.heartbeat import heartbeat
from hookfast.clock import Clock, utc_now
from hookfast.deliveries.job import JobInput, JobProgress, JobStatus, Rest, Spacing
from hookfast.deliveries.life import Action
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions, jobs, lives, selection
from hookfast.storage.deliveries.lives import Change
from hookfast.storage.deliveries.recorder import News
from hookfast.storage.deliveries.selection import DeliverySelection
from hookfast.storage.tables import Job

STINT = timedelta(seconds=30)
"""How long one activity works: the Temporal UI shows how far the job is after each of them."""
_TICK, _LONGEST_TICK = 0.1, 2.0
"""Seconds between two looks at what has moved: the shorter while something moves."""
_CATCH_UP = 0.25
_MOST_UNDER_WAY = 100
"""Deliveries of one job that were asked and have not moved: so that a hundred thousand of them do
not queue up in Temporal before whatever comes next."""
_PATIENCE = timedelta(minutes=1)
"""A job waits for no resend whose endpoint's limits give it a turn further away than this."""

_ACTIONS: Final = {
    "pause": Action.PAUSE,
    "resume": Action.RESUME,
    "resend": Action.RESEND_YIELDING,
    "cancel": Action.CANCEL,
    "ask_again": Action.ASK_AGAIN,
}

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What came of asking some deliveries: `under_way` have yet to move."""

    last: str | None = None
    under_way: Sequence[str] = ()
    done: int = 0
    skipped: int = 0
    changes: Sequence[Change] = ()


class JobActivities:
    """The activities of jobs. One per worker process."""

    def __init__(
        self,
        *,
        database: Database,
        on_news: Callable[[News], None],
        clock: Clock = utc_now,
    ) -> None:
        self._database = database
        self._on_news = on_news
        self._clock = clock

    @property
    def all(self) -> list[Any]:
        """What a worker registers."""
        return [self.work_on_job, self.cancel_job]

    @activity.defn(name="work_on_job")
    async def work_on_job(self, input: JobInput) -> JobProgress:
        """Work on the job for a while, or until it has ended. The database's errors mean that it is
        away: nothing is lost, and the job goes on from its last transaction."""
        async with heartbeat():
            async with self._database.write() as connection:
                job = await jobs.begin(connection, input.job_id, now=self._clock())
            if job is None:  # a database restored from before the job
                log.error("A job has no row; its workflow ends.", job_id=input.job_id)
                return JobProgress(status=JobStatus.FAILED)
            return jobs.progress_of(await self._work(job))

    @activity.defn(name="cancel_job")
    async def cancel_job(self, input: JobInput) -> None:
        """Ask for the job to be cancelled, for someone who has told its workflow."""
        async with self._database.write() as connection:
            await jobs.request_cancel(connection, input.job_id, now=self._clock())

    async def _work(self, job: Job) -> Job:
        try:
            chosen = DeliverySelection.of(job.chosen)
        except ValidationError:  # of a later version that was taken back
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
            moved = _has_moved(before, job)
            await asyncio.sleep(rest.after(moved=moved, until_next=spacing.next_at - time()))
        return job

    async def _advance(self, job: Job, chosen: DeliverySelection, spacing: Spacing) -> Job:
        """Count what has moved, and ask as many deliveries as the rate and what is under way leave
        room for, in one transaction."""
        now = self._clock()
        async with self._database.write() as connection:
            locked = await jobs.lock(connection, job.id)
            if locked is None:  # another worker has ended it
                return await jobs.get(connection, job.id) or job
            in_hand = locked.in_hand or []
            waiting = await selection.under_way(connection, in_hand, patience=_PATIENCE, now=now)
            asked, over = _Asked(), locked.cancel_requested
            if over:
                waiting = []  # they were asked, and go on
            else:
                room = spacing.take(
                    asyncio.get_running_loop().time(), most=_MOST_UNDER_WAY - len(waiting)
                )
                asked = await self._ask(connection, locked, chosen, room)
                if room > 0 and asked.last is None:
                    spacing.stop()
                over = spacing.stopped and not waiting
            moved = await jobs.progress(
                connection,
                locked,
                cursor=asked.last or locked.cursor,
                in_hand=[*waiting, *asked.under_way],
                done=len(in_hand) - len(waiting) + asked.done,
                skipped=asked.skipped,
                now=now,
            )
            if over:
                cancelled = locked.cancel_requested
                status = JobStatus.CANCELLED if cancelled else JobStatus.DONE
                moved = await self._finish(connection, locked, status)
        lives.count_ended(asked.changes)
        if asked.changes:
            self._on_news(News.EVENTS)
        return moved or job

    async def _ask(
        self, connection: AsyncConnection, job: Job, chosen: DeliverySelection, limit: int
    ) -> _Asked:
        if limit == 0:
            return _Asked()
        ids = await selection.next_ids(connection, chosen, after=job.cursor, limit=limit)
        if not ids:
            return _Asked()
        changes = await actions.request_many(
            connection, ids, _ACTIONS[job.action], among=chosen.statuses, now=self._clock()
        )
        changed = [one for one in changes if one.after != one.before]
        is_resend = job.action == "resend"
        return _Asked(
            last=ids[-1],
            under_way=[one.delivery_id for one in changed] if is_resend else (),
            done=0 if is_resend else len(changed),
            skipped=len(ids) - len(changed),
            changes=changed,
        )

    async def _finish(
        self, connection: AsyncConnection, job: Job, status: JobStatus, *, error: str | None = None
    ) -> Job:
        ended = await jobs.finish(connection, job.id, status=status, now=self._clock(), error=error)
        log.info("A job has ended.", job_id=job.id, status=status.value)
        return ended or job

    def _spacing(self, job: Job) -> Spacing:
        gap, wait = 1 / job.rate_per_second, 0.0
        if job.cursor is not None:  # evenly spaced also from the last stint, and after a crash
            wait = gap - (self._clock() - job.updated_at).total_seconds()
        return Spacing(
            job.rate_per_second,
            first_at=asyncio.get_running_loop().time() + min(max(wait, 0.0), gap),
            catch_up=_CATCH_UP,
        )


def _has_moved(before: Job, after: Job) -> bool:
    """Whether deliveries of the job were asked or counted in between."""
    return any(
        getattr(before, name) != getattr(after, name) for name in ("cursor", "done", "skipped")
    )
