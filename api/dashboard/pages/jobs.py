"""The jobs: one action on many deliveries, watched and stopped."""

from __future__ import annotations

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.dashboard.site import live
from api.dashboard.site.page import PageView
from api.dashboard.site.page_route import page_router
from api.http.fields import JobPath
from api.http.pagination import PageQuery
from api.process.context import AppContext
from api.routes.jobs import cancel_job, get_job, list_jobs
from hookfast.deliveries.job import JobStatus

routes = page_router()

_EVERY_SECONDS = 1.0


@routes.get("/jobs")
async def jobs_page(
    view: PageView,
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    status: JobStatus | None = None,
) -> Response:
    """Jobs, the newest first."""
    listing = await list_jobs(page, context, principal, status=status, tenant_id=view.tenant_id)
    return view.render("jobs.html", listing=listing)


@routes.get("/jobs/{job_id}")
async def job_page(
    job_id: JobPath, view: PageView, context: AppContext, principal: Reader
) -> Response:
    """One job, with its progress."""
    return view.render("job.html", job=await get_job(job_id, context, principal))


@routes.get("/live/jobs/{job_id}")
async def job_live(
    job_id: JobPath, view: PageView, context: AppContext, principal: Reader
) -> Response:
    """Its progress."""
    await get_job(job_id, context, principal)

    async def render() -> str:
        view.now = context.clock()
        return view.text("job_progress.html", job=await get_job(job_id, context, principal))

    return live.stream(view, render, every=_EVERY_SECONDS)


@routes.post("/jobs/{job_id}/cancel")
async def cancel(
    job_id: JobPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """Stop it."""
    await cancel_job(job_id, context, audit, principal)
    return view.go_back("The job stops after the deliveries in progress.")
