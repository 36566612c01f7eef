"""The jobs, each one action on many deliveries: their list, progress and cancellation."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import Depends, Response

from api.access.authentication import Principal, Reader
from api.dashboard.pages import tenant_names
from api.dashboard.site import DASHBOARD
from api.http.fields import JobPath, TenantId
from api.http.pagination import PageQuery
from api.routes.jobs import cancel_job, get_job, list_jobs
from api.site import live
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from hookfast.deliveries.job import JobStatus

routes = PageRouter(DASHBOARD)

_EVERY_SECONDS = 1.0


@routes.get("/jobs")
async def jobs_page(
    view: PageView,
    page: PageQuery,
    principal: Reader,
    status: JobStatus | None = None,
    tenant_id: TenantId | None = None,
) -> Response:
    """List the jobs, newest first."""
    listing = await list_jobs(
        page, view.context, principal, status=status, tenant_id=tenant_id or view.tenant_id
    )
    return view.render(
        "jobs.html",
        listing=listing,
        chosen=status,
        statuses=[(each.value, each.value) for each in JobStatus],
        tenant_id=tenant_id,
    )


@routes.get("/jobs/{job_id}")
async def job_page(job_id: JobPath, view: PageView, principal: Reader) -> Response:
    """Show a job and its progress."""
    return view.render("job.html", **await _progress(job_id, view, principal))


# an unknown job answers 404 here: later, the stream would only end
@routes.get("/live/jobs/{job_id}", dependencies=[Depends(get_job)])
async def job_live(job_id: JobPath, view: PageView, principal: Reader) -> Response:
    """Stream the progress of a job."""
    read = partial(_progress, job_id, view, principal)
    return live.stream(view, "job_progress.html", read, every=_EVERY_SECONDS)


async def _progress(job_id: str, view: View, principal: Principal) -> dict[str, Any]:
    job = await get_job(job_id, view.context, principal)
    await tenant_names.load(view, job.filter.get("tenant_id"))
    return {"job": job}


routes.action(
    "/jobs/{job_id}/cancel", cancel_job, "The job stops after the deliveries in progress."
)
