"""Retention: how long rows are kept, and what the last runs deleted."""

from __future__ import annotations

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import OperatorOnly
from api.dashboard.site import DASHBOARD
from api.routes.retention import RunForm, show_retention, start_retention
from api.site.page import PageView
from api.site.page_route import PageRouter

routes = PageRouter(DASHBOARD)


@routes.get("/retention")
async def retention_page(view: PageView, principal: OperatorOnly) -> Response:
    """Show the retention ages and the last runs."""
    return view.render("retention.html", retention=await show_retention(view.context, principal))


@routes.post("/retention/count")
async def count(view: PageView, audit: Audit, principal: OperatorOnly) -> Response:
    """Start a dry run, which counts the rows that a run would delete."""
    await start_retention(view.context, audit, principal, RunForm(dry_run=True))
    return view.redirect_back("Dry run started; it appears below in a moment.")


@routes.get("/retention/run")
async def run_page(view: PageView, _: OperatorOnly) -> Response:
    """Ask before old rows are deleted."""
    return view.confirm(
        "Delete old rows now?",
        text="This deletes now what the nightly run would delete. It cannot be undone. A dry run "
        "shows how much it is.",
        button="Delete",
    )


@routes.post("/retention/run")
async def run(view: PageView, audit: Audit, principal: OperatorOnly) -> Response:
    """Start a run, which deletes old rows."""
    await start_retention(view.context, audit, principal, RunForm())
    return view.redirect_back("Run started; it appears below in a moment.")
