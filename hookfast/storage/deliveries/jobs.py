"""Statements on `jobs`. A job's progress is written in the transaction that changes its deliveries,
and their results are counted from their rows, so a crash neither loses nor repeats anything."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import Table, Update, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.actions import SENDING
from hookfast.deliveries.job import JOB_WORKFLOW, JobInput, JobProgress, JobStatus, job_workflow_id
from hookfast.logs.kind import Kind
from hookfast.storage.database.after_commit import after_commit
from hookfast.storage.database.keyset import newest_first
from hookfast.storage.database.rows import fetch_all, fetch_one
from hookfast.storage.tables import Job
from hookfast.workflow_request import WorkflowRequest

log = structlog.get_logger()

_JOBS: Table = Job.__table__
_C = _JOBS.c
_UNFINISHED = _C.status.in_([status.value for status in JobStatus if not status.finished])


async def add(connection: AsyncConnection, job: Job) -> None:
    """Store a new job. Its row requests its workflow."""
    await connection.execute(insert(_JOBS).values(job.model_dump()))


async def get(connection: AsyncConnection, job_id: str) -> Job | None:
    """Return the job with this id."""
    return await fetch_one(connection, select(_JOBS).where(_C.id == job_id), Job)


async def list_page(
    connection: AsyncConnection,
    *,
    tenant_id: str | None,
    status: JobStatus | None,
    after: str | None,
    limit: int,
) -> list[Job]:
    """Return the newest `limit` jobs beyond the id `after`, of one tenant (None: of all) and in one
    status (None: in any)."""
    statement = select(_JOBS)
    if tenant_id is not None:
        statement = statement.where(_C.tenant_id == tenant_id)
    if status is not None:
        statement = statement.where(_C.status == status.value)
    page = newest_first(statement, _C.id, after=after, limit=limit)
    return await fetch_all(connection, page, Job)


async def begin(connection: AsyncConnection, job_id: str, *, now: datetime) -> Job | None:
    """Mark a pending job as running, and return it as it is then; None if it does not exist."""
    begun = await _change(
        connection,
        update(_JOBS)
        .where(_C.id == job_id, _C.status == JobStatus.PENDING.value)
        .values(status=JobStatus.RUNNING.value, started_at=now, updated_at=now),
    )
    if begun is None:
        return await get(connection, job_id)
    after_commit(
        connection,
        lambda: log.info("A job started.", kind=Kind.JOB_STARTED, total=begun.total, **_ids(begun)),
    )
    return begun


async def lock(connection: AsyncConnection, job_id: str) -> Job | None:
    """Return the job, locked until the transaction ends; None if it has ended."""
    unfinished = select(_JOBS).where(_C.id == job_id, _UNFINISHED)
    return await fetch_one(connection, unfinished.with_for_update(), Job)


async def record_progress(
    connection: AsyncConnection,
    job: Job,
    *,
    cursor: str | None,
    in_hand: Sequence[str],
    done: int,
    skipped: int,
    now: datetime,
) -> Job | None:
    """Add what was done since `job` was locked, up to the delivery `cursor`. The deliveries
    `in_hand` are in progress. Returns None if the job has ended meanwhile."""
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


async def unfinished_resends(connection: AsyncConnection) -> list[Job]:
    """Return the unfinished jobs that resend deliveries, except those that are to be cancelled."""
    active = _UNFINISHED & _C.cancel_requested.is_(False)
    return await fetch_all(connection, select(_JOBS).where(active, _C.action.in_(SENDING)), Job)


async def request_cancel(connection: AsyncConnection, job_id: str, *, now: datetime) -> Job | None:
    """Request that the job is cancelled, and that its workflow is woken. Returns None if the job
    has ended."""
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
    """End the job. Returns None if it has already ended."""
    ended = await _change(
        connection,
        update(_JOBS)
        .where(_C.id == job_id, _UNFINISHED)
        .values(
            status=status.value,
            error=func.coalesce(error, _C.error),
            finished_at=now,
            updated_at=now,
            # an ended job requests no workflow
            workflow_started_at=func.coalesce(_C.workflow_started_at, now),
        ),
    )
    if ended is not None:
        after_commit(
            connection,
            lambda: log.info(
                "A job ended.",
                kind=Kind.JOB_ENDED,
                status=ended.status,
                done=ended.done,
                skipped=ended.skipped,
                failed=ended.failed,
                **_ids(ended),
            ),
        )
    return ended


def _ids(job: Job) -> dict[str, Any]:
    """Return the fields of log lines that say which job it is."""
    ids = {"job_id": job.id, "job": job.kind, "action": job.action}
    return ids if job.tenant_id is None else ids | {"tenant_id": job.tenant_id}


async def request_stalled_workflows(connection: AsyncConnection, *, unmoved_since: datetime) -> int:
    """Request again the workflows of unfinished jobs that have not moved since then, and return how
    many. Such a workflow was terminated by hand or lost with Temporal's data, and the new one
    continues where the row says. A workflow that still runs is only woken."""
    result = await connection.execute(
        update(_JOBS)
        .where(_UNFINISHED, _C.workflow_started_at < unmoved_since, _C.updated_at < unmoved_since)
        .values(workflow_started_at=None)
    )
    return result.rowcount


def progress_of(job: Job) -> JobProgress:
    """Return how far a job has got."""
    return JobProgress(
        status=JobStatus(job.status),
        total=job.total,
        done=job.done,
        skipped=job.skipped,
        failed=job.failed,
    )


async def _change(connection: AsyncConnection, statement: Update) -> Job | None:
    return await fetch_one(connection, statement.returning(_JOBS), Job)


class JobWorkflowRequests:
    """The jobs that request their workflow: to be started, or woken because of a cancellation."""

    async def find(self, connection: AsyncConnection, *, limit: int) -> list[WorkflowRequest]:
        """Return at most `limit` workflow requests, oldest first."""
        requesting = select(_JOBS).where(_C.workflow_started_at.is_(None)).order_by(_C.id)
        found = await fetch_all(connection, requesting.limit(limit), Job)
        return [_workflow_request(job) for job in found]

    async def mark(
        self, connection: AsyncConnection, requests: Sequence[WorkflowRequest], *, now: datetime
    ) -> None:
        """Mark these requests as fulfilled, unless the job was cancelled since it was read."""
        keys = [request.key for request in requests]
        cancelled = [job_id for job_id, cancelling in keys if cancelling]
        started = [job_id for job_id, cancelling in keys if not cancelling]
        marking = update(_JOBS).values(workflow_started_at=now)
        if cancelled:
            await connection.execute(marking.where(_C.id.in_(cancelled)))
        if started:
            unchanged = _C.id.in_(started) & _C.cancel_requested.is_(False)
            await connection.execute(marking.where(unchanged))


def _workflow_request(job: Job) -> WorkflowRequest:
    return WorkflowRequest(
        key=(job.id, job.cancel_requested),
        workflow=JOB_WORKFLOW,
        workflow_id=job_workflow_id(job.id),
        argument=JobInput(job.id, job.action, progress_of(job)),
        summary=f"{job.kind}: {job.action} {job.total:,} deliveries",
    )
