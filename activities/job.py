"""Jobs: telling many deliveries to do one thing, a chunk at a time and evenly spaced.

The ids of a chunk are committed before it is told, and its counts with the last delivery's id
after it. Whoever goes on after a worker that died tells those of its chunk that the job still
chooses, and counts the others as done; a worker that was only thought dead finds the job moved on
when it comes to commit, and stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

import asyncpg
import structlog
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError
from temporalio import activity

from activities.heartbeat import heartbeat
from hookfast.clock import Clock, utc_now
from hookfast.errors import Conflict, NotFound, Unavailable
from hookfast.job import JobOrder, JobProgress, JobStatus, Spacing
from hookfast.steering import Steering, Wish
from hookfast.storage import chosen_deliveries, jobs
from hookfast.storage.chosen_deliveries import ChosenDeliveries
from hookfast.storage.control_tables import Job
from hookfast.storage.engine import Database

STINT = timedelta(seconds=30)
"""How long one activity works: the Temporal UI shows how far the job is after each of them."""
_CHUNK_SECONDS = 0.25
_MAX_CHUNK = 50
_PATIENCE = 20.0
"""Seconds to try again here when Temporal or the database is away, before Temporal tries again."""
_RETRY_SECONDS = 1.0

# What a database or a Temporal that is away raises. Anything else is about the one delivery.
_AWAY = (Unavailable, SQLAlchemyError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError)

log = structlog.get_logger()


class _Told(StrEnum):
    """What came of telling one delivery."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


class JobActivities:
    """The activities of jobs. One per worker process."""

    def __init__(
        self,
        *,
        database: Database,
        steering: Steering,
        clock: Clock = utc_now,
    ) -> None:
        self._database = database
        self._steering = steering
        self._clock = clock

    @property
    def all(self) -> list[Any]:
        """What a worker registers."""
        return [self.work_on_job, self.cancel_job]

    @activity.defn(name="work_on_job")
    async def work_on_job(self, order: JobOrder) -> JobProgress:
        """Work on the job for a while, or until it has ended. Temporal's and the database's errors
        mean that they are away: nothing is lost, and it goes on from the last chunk."""
        async with heartbeat():
            async with self._database.write() as connection:
                job = await jobs.begin(connection, order.job_id, now=self._clock())
            if job is None:  # a database restored from before the job
                log.error("A job has no row; its workflow ends.", job_id=order.job_id)
                return JobProgress(status=JobStatus.FAILED)
            return jobs.progress_of(await self._work(job))

    @activity.defn(name="cancel_job")
    async def cancel_job(self, order: JobOrder) -> None:
        """Ask for the job to be cancelled, for someone who has told its workflow."""
        async with self._database.write() as connection:
            await jobs.request_cancel(connection, order.job_id, now=self._clock())

    async def _work(self, job: Job) -> Job:
        try:
            chosen = ChosenDeliveries.of(job.chosen)
        except ValidationError:  # of a later version that was taken back
            return await self._finish(job, JobStatus.FAILED, error="Its filter cannot be read.")
        spacing = self._spacing(job)
        enough = asyncio.get_running_loop().time() + STINT.total_seconds()
        while not JobStatus(job.status).finished:
            if job.cancel_requested:
                return await self._finish(job, JobStatus.CANCELLED)
            job, ids, told_before = await self._take(job, chosen)
            if not ids:
                return await self._finish(job, JobStatus.DONE)
            job = await self._tell_all(job, ids, spacing, told_before=told_before)
            if asyncio.get_running_loop().time() >= enough or activity.is_worker_shutdown():
                break
        return job

    async def _take(
        self, job: Job, chosen: ChosenDeliveries
    ) -> tuple[Job, Sequence[str], Collection[str]]:
        """The job with its next chunk in hand, that chunk, and those of it that were told before:
        by a worker that died before it could count them."""
        left = [id for id in job.in_hand or () if job.cursor is None or id > job.cursor]
        async with self._database.read() as connection:
            if left:
                again = replace(chosen, ids=tuple(left))
                still = await chosen_deliveries.next_ids(
                    connection, again, after=None, limit=len(left)
                )
                return job, left, set(left).difference(still)
            ids = await chosen_deliveries.next_ids(
                connection, chosen, after=job.cursor, limit=_chunk(job.rate_per_second)
            )
        if not ids:
            return job, (), ()
        async with self._database.write() as connection:
            taken = await jobs.take(connection, job, ids)
        return _still_ours(taken), ids, ()

    async def _tell_all(
        self,
        job: Job,
        delivery_ids: Sequence[str],
        spacing: Spacing,
        *,
        told_before: Collection[str],
    ) -> Job:
        """Tell these deliveries, but for `told_before`, and commit that. Where Temporal went away
        in the middle, commit what was told before that, and raise."""
        sendable = await self._sendable(job, delivery_ids)
        telling: dict[str, asyncio.Task[_Told | Exception]] = {}
        async with asyncio.TaskGroup() as group:
            for delivery_id in delivery_ids:
                if delivery_id in sendable and delivery_id not in told_before:
                    await asyncio.sleep(spacing.wait(asyncio.get_running_loop().time()))
                    telling[delivery_id] = group.create_task(self._tell(job, delivery_id))
        told: list[_Told] = []
        for delivery_id in delivery_ids:
            answer: _Told | Exception = _Told.SKIPPED
            if delivery_id in telling:
                answer = telling[delivery_id].result()
            elif delivery_id in told_before:
                answer = _Told.DONE
            if isinstance(answer, Exception):
                if told:
                    await self._commit(job, told, cursor=delivery_ids[len(told) - 1])
                raise answer
            told.append(answer)
        return await self._commit(job, told, cursor=delivery_ids[-1])

    async def _sendable(self, job: Job, delivery_ids: Sequence[str]) -> Collection[str]:
        """A disabled endpoint is sent nothing: its dead letters would only die again."""
        if job.action != "resend":
            return delivery_ids
        async with self._database.read() as connection:
            return await chosen_deliveries.sendable(connection, delivery_ids)

    async def _tell(self, job: Job, delivery_id: str) -> _Told | Exception:
        """Tell one delivery. The error when Temporal or the database stays away."""
        action: Wish = job.action  # type: ignore[assignment] # the API stores nothing else
        give_up_at = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            try:
                await self._steering.signal(delivery_id, action, gently=True)
            except (Conflict, NotFound):
                return _Told.SKIPPED
            except _AWAY as error:
                if asyncio.get_running_loop().time() > give_up_at:
                    return error
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:
                log.exception(
                    "A job could not tell a delivery.", job_id=job.id, delivery_id=delivery_id
                )
                return _Told.FAILED
            else:
                return _Told.DONE

    async def _commit(self, job: Job, told: Sequence[_Told], *, cursor: str) -> Job:
        failed = told.count(_Told.FAILED)
        async with self._database.write() as connection:
            moved = await jobs.progress(
                connection,
                job,
                cursor=cursor,
                done=told.count(_Told.DONE),
                skipped=told.count(_Told.SKIPPED),
                failed=failed,
                now=self._clock(),
                error="Some deliveries could not be told; the worker's log says why."
                if failed
                else None,
            )
        return _still_ours(moved)

    async def _finish(self, job: Job, status: JobStatus, *, error: str | None = None) -> Job:
        async with self._database.write() as connection:
            ended = await jobs.finish(
                connection, job.id, status=status, now=self._clock(), error=error
            )
            ended = ended or await jobs.get(connection, job.id)
        log.info("A job has ended.", job_id=job.id, status=status.value)
        return ended or job

    def _spacing(self, job: Job) -> Spacing:
        gap, rest = 1 / job.rate_per_second, 0.0
        if job.cursor is not None:  # evenly spaced also from the last stint, and after a crash
            rest = gap - (self._clock() - job.updated_at).total_seconds()
        return Spacing(
            job.rate_per_second,
            first_at=asyncio.get_running_loop().time() + min(max(rest, 0.0), gap),
            catch_up=_CHUNK_SECONDS,
        )


def _still_ours(job: Job | None) -> Job:
    if job is None:
        raise Conflict("Another worker has taken the job over.", code="job_taken_over")
    return job


def _chunk(per_second: float) -> int:
    """How many deliveries are told between two commits."""
    return min(max(int(per_second * _CHUNK_SECONDS), 1), _MAX_CHUNK)
