"""Jobs: one action on many deliveries, with progress and cancellation."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from fastapi import Query

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.access.ownership import owned
from api.access.visible_keys import visible_key_ids
from api.context.context import AppContext, Context
from api.forms.jobs import JobView
from api.http.fields import JobPath, TenantFilter
from api.http.pagination import Listing, PageQuery
from api.http.routing import router
from hookfast.deliveries.job import JobStatus
from hookfast.errors import Conflict
from hookfast.storage.audit.audited import done
from hookfast.storage.deliveries import jobs
from hookfast.storage.tables import Job

routes = router("Jobs")


@routes.get("/jobs", summary="List jobs")
async def list_jobs(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    status: Annotated[JobStatus | None, Query(description="Only jobs with this status.")] = None,
    tenant_id: TenantFilter = None,
) -> Listing[JobView]:
    """A tenant sees the jobs created with its own keys and portal links."""
    async with context.database.read() as connection:
        rows = await jobs.list_page(
            connection,
            tenant_id=principal.tenant_for(tenant_id),
            status=status,
            after=page.after,
            limit=page.rows,
        )
        keys = await visible_key_ids(connection, principal, [job.requested_by for job in rows])
    return page.listing(rows, lambda job: _view(job, context, keys=keys))


@routes.get("/jobs/{job_id}", summary="Get a job with its progress")
async def get_job(job_id: JobPath, context: AppContext, principal: Reader) -> JobView:
    async with context.database.read() as connection:
        job = owned(await jobs.get(connection, job_id), principal)
        keys = await visible_key_ids(connection, principal, [job.requested_by])
    return _view(job, context, keys=keys)


@routes.post("/jobs/{job_id}/cancel", status_code=202, summary="Cancel a job")
async def cancel_job(
    job_id: JobPath, context: AppContext, audit: Audit, principal: Writer
) -> JobView:
    """Stops the job after the deliveries in progress. Completed actions are not undone."""
    async with context.database.write() as connection:
        job = owned(await jobs.get(connection, job_id), principal)
        cancelled = await jobs.request_cancel(connection, job_id, now=context.clock())
        if cancelled is not None and not job.cancel_requested:
            await audit.record(connection, done("job.cancel", cancelled))
        keys = await visible_key_ids(connection, principal, [job.requested_by])
    if cancelled is None:
        raise Conflict(f"The job has ended as {job.status}.", code="job_finished")
    context.workflow_starter.wake()
    return _view(cancelled, context, keys=keys)


def _view(job: Job, context: Context, *, keys: Collection[str]) -> JobView:
    """Return the job's view; `keys` are the key ids visible to the caller."""
    requested_by = job.requested_by if job.requested_by in keys else None
    return JobView.of(job, context=context, requested_by=requested_by)
