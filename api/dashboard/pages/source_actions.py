"""What can be done with a source."""

from __future__ import annotations

from typing import Final

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Writer
from api.dashboard.pages import source_fields
from api.dashboard.site.form import filled
from api.dashboard.site.page import PageView
from api.dashboard.site.page_route import page_router
from api.http.fields import SourcePath
from api.process.context import AppContext
from api.routes.source_secrets import SourceRotationForm, rotate_source_secret
from api.routes.sources import change_source, delete_source, get_source
from hookfast.errors import InvalidInput

routes = page_router()

OVERLAPS: Final = {
    "86400": "24 hours: time to change it at the provider",
    "3600": "1 hour",
    "604800": "7 days",
    "0": "none: it has leaked, and must not be believed any more",
}


@routes.post("/sources/{source_id}/enable")
async def enable(
    source_id: SourcePath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """Take requests in."""
    await change_source(source_id, {"active": True}, context, audit, principal)
    return view.go_back("The source accepts requests again.")


@routes.get("/sources/{source_id}/disable")
async def disable_page(
    source_id: SourcePath, view: PageView, context: AppContext, principal: Writer
) -> Response:
    """Ask first."""
    source = await get_source(source_id, context, principal)
    return view.render(
        "confirm.html",
        section="sources",
        title="Disable this source?",
        about=source.name,
        text="Its provider gets 404 for what it sends, and most providers give up after some "
        "tries. What came in stays, and it can be turned on again.",
        action=f"/dashboard/sources/{source_id}/disable",
        button="Disable",
        back=f"/dashboard/sources/{source_id}",
    )


@routes.post("/sources/{source_id}/disable")
async def disable(
    source_id: SourcePath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """Take nothing in."""
    await change_source(source_id, {"active": False}, context, audit, principal)
    return view.go(f"/dashboard/sources/{source_id}", "The source is off: requests get 404.")


@routes.get("/sources/{source_id}/rotate-secret")
async def rotate_page(
    source_id: SourcePath, view: PageView, context: AppContext, principal: Writer
) -> Response:
    """Ask for the new secret, and for how long the old one is right."""
    source = await get_source(source_id, context, principal)
    chooses = source.provider in source_fields.CHOOSES
    return view.render("source_rotate.html", source=source, overlaps=OVERLAPS, chooses=chooses)


@routes.post("/sources/{source_id}/rotate-secret")
async def rotate(
    source_id: SourcePath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """A new secret. One that is made here is in the answer and nowhere else."""
    overlap = view.form.get("overlap", "")
    if overlap not in OVERLAPS:
        raise InvalidInput.at("/overlap", "choose one of those in the list")
    members = {"secret": view.form.text("secret"), "overlap_seconds": int(overlap)}
    form = filled(SourceRotationForm, members)
    made = await rotate_source_secret(source_id, context, audit, principal, form)
    if made.secret is None:
        return view.go(f"/dashboard/sources/{source_id}", "The new secret is in force.")
    view.result_at = f"/dashboard/sources/{source_id}"
    return view.render("source_secret.html", source=made, secret=made.secret, rotated=True)


@routes.get("/sources/{source_id}/delete")
async def delete_page(
    source_id: SourcePath, view: PageView, context: AppContext, principal: Writer
) -> Response:
    """Ask first."""
    source = await get_source(source_id, context, principal)
    return view.render(
        "confirm.html",
        section="sources",
        title="Delete this source?",
        about=source.name,
        text="Its secrets are deleted too, and its provider gets 404. This cannot be undone. "
        "Received requests stay in the inbox.",
        action=f"/dashboard/sources/{source_id}/delete",
        button="Delete",
        back=f"/dashboard/sources/{source_id}",
    )


@routes.post("/sources/{source_id}/delete")
async def delete(
    source_id: SourcePath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """It is gone."""
    await delete_source(source_id, context, audit, principal)
    return view.go("/dashboard/sources", "The source is deleted.")
