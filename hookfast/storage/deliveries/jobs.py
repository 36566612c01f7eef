"""Statements on `jobs`. How far a job has come is written in the transaction that asks its
deliveries, and what came of those is counted from their rows: a crash loses and repeats nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Table, Update, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.job import JOB_WORKFLOW, JobInput, JobProgress, JobStatus, job_workflow_id
from hookfast.storage.database.keyset import newest_first
from hookfast.storage.tables import Job
from hookfast.workflow_request import WorkflowRequest

_JOBS: Table = Job.__table__
_C = _JOBS.c
_UNFINISHED = _C.status.in_([status.value for status in JobStatus if not status.finished])


async def add(connection: AsyncConnection, job: Job) -> None:
    """Store a new job, which asks for its workflow."""
    await connection.execute(insert(_JOBS).values(job.model_dump()))


async def get(connection: AsyncConnection, job_id: str) -> Job | None:
    """One job."""
    rows = await connection.execute(select(_JOBS).where(_C.id == job_id))
    row = rows.mappings().first()
    return None if row is None else Job(**row)


async def list_page(
    connection: AsyncConnection,
    *,
    tenant_id: str | None,
    status: JobStatus | None,
    after: str | None,
    limit: int,
) -> list[Job]:
    """The newest `limit` jobs beyond the id `after`: one tenant's (None: everyone's), in one status
    (None: in any)."""
    statement = select(_JOBS)
    if tenant_id is not None:
        statement = statement.where(_C.tenant_id == tenant_id)
    if status is not None:
        statement = statement.where(_C.status == status.value)
    rows = await connection.execute(newest_first(statement, _C.id, after=after, limit=limit))
    return [Job(**row) for row in rows.mappings()]


async def begin(connection: AsyncConnection, job_id: str, *, now: datetime) -> Job | None:
    """The job, which runs from now on unless it has finished; None when there is none."""
    begun = await _change(
        connection,
        update(_JOBS)
        .where(_C.id == job_id, _C.status == JobStatus.PENDING.value)
        .values(status=JobStatus.RUNNING.value, started_at=now, updated_at=now),
    )
    return begun or await get(connection, job_id)


async def lock(connection: AsyncConnection, job_id: str) -> Job | None:
    """The job, unless it has ended; nobody else works on it until the transaction ends."""
    rows = await connection.execute(
        select(_JOBS).where(_C.id == job_id, _UNFINISHED).with_for_update()
    )
    row = rows.mappings().first()
    return None if row is None else Job(**row)


async def progress(
    connection: AsyncConnection,
    job: Job,
    *,
    cursor: str | None,
    in_hand: Sequence[str],
    done: int,
    skipped: int,
    now: datetime,
) -> Job | None:
    """Count what was done since `job` was locked, up to the delivery `cursor`; `in_hand` is under
    way. None when it has ended meanwhile."""
    return await _change(
        connection,
        update(_JOBS)
        .where(_C.id == job.id, _UNFINISHED)
        .values(
            cursor=cursor,
            in_hand=list(in_hand),
            done=_C.done + done,
            skipped=_C.skipped + skipped,
            updated_at=now,
        ),
    )


async def resending(connection: AsyncConnection) -> list[Job]:
    """The unfinished jobs that send deliveries again; one that is to be cancelled asks no more."""
    going_on = _UNFINISHED & _C.cancel_requested.is_(False)
    rows = await connection.execute(select(_JOBS).where(going_on, _C.action == "resend"))
    return [Job(**row) for row in rows.mappings()]


async def request_cancel(connection: AsyncConnection, job_id: str, *, now: datetime) -> Job | None:
    """Ask for the job to be cancelled, and for its workflow to be told. None when it is over."""
    return await _change(
        connection,
        update(_JOBS)
        .where(_C.id == job_id, _UNFINISHED)
        .values(cancel_requested=True, workflow_started_at=None, updated_at=now),
    )


async def finish(
    connection: AsyncConnection,
    job_id: str,
    *,
    status: JobStatus,
    now: datetime,
    error: str | None = None,
) -> Job | None:
    """End the job. None when it has ended already."""
    return await _change(
        connection,
        update(_JOBS)
        .where(_C.id == job_id, _UNFINISHED)
        .values(
            status=status.value,
            error=func.coalesce(error, _C.error),
            finished_at=now,
            updated_at=now,
            workflow_started_at=func.coalesce(
                _C.workflow_started_at, now
            ),  # it asks for nothing more
        ),
    )


async def request_workflow(connection: AsyncConnection, *, unmoved_since: datetime) -> int:
    """Ask once more for the unfinished jobs that have not moved since then, and return how many
    those are. Their workflow was ended by hand, or lost with Temporal's data, and its successor
    goes on where the row says; one that still runs is only woken."""
    result = await connection.execute(
        update(_JOBS)
        .where(_UNFINISHED, _C.workflow_started_at < unmoved_since, _C.updated_at < unmoved_since)
        .values(workflow_started_at=None)
    )
    return result.rowcount


def progress_of(job: Job) -> JobProgress:
    """How far a job has come."""
    return JobProgress(
        status=JobStatus(job.status),
        total=job.total,
        done=job.done,
        skipped=job.skipped,
        failed=job.failed,
    )


async def _change(connection: AsyncConnection, statement: Update) -> Job | None:
    row = (await connection.execute(statement.returning(_JOBS))).mappings().first()
    return None if row is None else Job(**row)


class JobWorkflowRequests:
    """The jobs whose workflow is to be started, or told that the job is to be cancelled."""

    async def find(self, connection: AsyncConnection, *, limit: int) -> list[WorkflowRequest]:
        """The workflows asked for, oldest first, at most `limit`."""
        rows = await connection.execute(
            select(_JOBS).where(_C.workflow_started_at.is_(None)).order_by(_C.id).limit(limit)
        )
        return [_wanted(Job(**row)) for row in rows.mappings()]

    async def mark(
        self, connection: AsyncConnection, wanted: Sequence[WorkflowRequest], *, now: datetime
    ) -> None:
        """These were started or told. One that was asked to cancel in between still asks."""
        asked = [one.key for one in wanted]
        told = [job_id for job_id, cancelling in asked if cancelling]
        started = [job_id for job_id, cancelling in asked if not cancelling]
        marking = update(_JOBS).values(workflow_started_at=now)
        if told:
            await connection.execute(marking.where(_C.id.in_(told)))
        if started:
            unchanged = _C.id.in_(started) & _C.cancel_requested.is_(False)
            await connection.execute(marking.where(unchanged))


def _wanted(job: Job) -> WorkflowRequest:
    return WorkflowRequest(
        key=(job.id, job.cancel_requested),
        workflow=JOB_WORKFLOW,
        workflow_id=job_workflow_id(job.id),
        argument=JobInput(job.id, job.action, progress_of(job)),
        summary=f"{job.kind}: {job.action} {job.total:,} deliveries",
    )
