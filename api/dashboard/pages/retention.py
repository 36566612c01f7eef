"""Retention: what is kept for how long, and what the last runs deleted."""

from __future__ import annotations

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import OperatorOnly
from api.dashboard.site.page import PageView
from api.dashboard.site.page_route import page_router
from api.process.context import AppContext
from api.routes.retention import RunForm, show_retention, start_retention

routes = page_router()


@routes.get("/retention")
async def retention_page(view: PageView, context: AppContext, principal: OperatorOnly) -> Response:
    """What is kept, and the last runs."""
    return view.render("retention.html", shown=await show_retention(context, principal))


@routes.post("/retention/count")
async def count(
    view: PageView, context: AppContext, audit: Audit, principal: OperatorOnly
) -> Response:
    """Count what a run would delete."""
    await start_retention(context, audit, principal, RunForm(dry_run=True))
    return view.go_back("Dry run started; it appears below in a moment.")


@routes.get("/retention/run")
async def run_page(view: PageView, _: OperatorOnly) -> Response:
    """Ask first."""
    return view.render(
        "confirm.html",
        section="retention",
        title="Delete old rows now?",
        about="What the nightly run would delete",
        text="This cannot be undone. A dry run shows how much it deletes.",
        action="/dashboard/retention/run",
        button="Delete",
        back="/dashboard/retention",
    )


@routes.post("/retention/run")
async def run(
    view: PageView, context: AppContext, audit: Audit, principal: OperatorOnly
) -> Response:
    """Delete it."""
    await start_retention(context, audit, principal, RunForm())
    return view.go("/dashboard/retention", "The run has begun; it appears below within moments.")
