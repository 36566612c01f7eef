"""The actions on a source. Those that stop it are confirmed on a page of their own."""

from __future__ import annotations

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Writer
from api.dashboard.pages.sources import GENERATES_SECRET, TITLES, StoredSource, secret_page
from api.dashboard.site import DASHBOARD
from api.http.fields import SourcePath
from api.routes.source_secrets import SourceRotationForm, rotate_source_secret
from api.routes.sources import change_source, delete_source
from api.site.form import validated
from api.site.overlap import OVERLAPS, overlap_seconds
from api.site.page import PageView
from api.site.page_route import PageRouter

routes = PageRouter(DASHBOARD)


@routes.post("/sources/{source_id}/enable")
async def enable(
    source_id: SourcePath, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Accept requests of the source again."""
    await change_source(source_id, {"active": True}, view.context, audit, principal)
    return view.redirect_back("The source accepts requests again.")


@routes.get("/sources/{source_id}/disable")
async def disable_page(view: PageView, _: Writer, source: StoredSource) -> Response:
    """Ask before a source is disabled."""
    return view.confirm(
        "Disable this source?",
        about=source.name,
        text="Its provider gets 404 for every request, and most providers give up after some "
        "tries. Received requests stay, and you can enable the source again.",
        button="Disable",
    )


@routes.post("/sources/{source_id}/disable")
async def disable(
    source_id: SourcePath, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Stop accepting requests of the source."""
    await change_source(source_id, {"active": False}, view.context, audit, principal)
    return view.redirect_back("The source is disabled: requests get 404.")


@routes.get("/sources/{source_id}/rotate-secret")
async def rotate_page(view: PageView, _: Writer, source: StoredSource) -> Response:
    """Ask for the new secret, and for how long the old one stays valid."""
    return view.confirm(
        "Rotate the secret",
        template="source_rotate.html",
        about=source.name,
        text="Requests signed with the new secret are accepted at once, and those signed with the "
        "old one for the overlap.",
        button="Rotate secret",
        provider=TITLES[source.provider],
        can_generate=source.provider in GENERATES_SECRET,
        overlaps=OVERLAPS,
    )


@routes.post("/sources/{source_id}/rotate-secret")
async def rotate(
    source_id: SourcePath, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Rotate the secret. Only this answer shows a generated one."""
    members = {
        "secret": view.form.text("secret"),
        "overlap_seconds": overlap_seconds(view.form),
    }
    form = validated(SourceRotationForm, members)
    rotated = await rotate_source_secret(source_id, view.context, audit, principal, form)
    if rotated.secret is None:
        return view.redirect(f"/dashboard/sources/{source_id}", "The new secret is accepted.")
    return secret_page(rotated, view, rotated=True)


routes.confirmed_action(
    "/sources/{source_id}/delete",
    delete_source,
    "The source is deleted.",
    of=StoredSource,
    title="Delete this source?",
    about=lambda source: source.name,
    text="Its secrets are deleted too, and its provider gets 404. This cannot be undone. Received "
    "requests stay in the inbox.",
    button="Delete",
    leads_to="/dashboard/sources",
)
