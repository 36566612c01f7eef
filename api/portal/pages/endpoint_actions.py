"""The actions on an endpoint. Those that cannot be undone are confirmed on a page of their own."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Writer
from api.http.fields import EndpointPath
from api.portal.pages.secret import render_secret
from api.portal.site import PORTAL
from api.routes.endpoint_checks import verify_endpoint
from api.routes.endpoint_control import (
    EnableForm,
    enable_endpoint,
    pause_endpoint,
    resume_endpoint,
)
from api.routes.endpoint_secrets import RotationForm, rotate_endpoint_secret
from api.routes.endpoints import delete_endpoint
from api.routes.recovery import RecoverForm, recover_endpoint
from api.site.form import validated
from api.site.formatting import endpoint_name
from api.site.from_path import StoredEndpoint
from api.site.overlap import OVERLAPS, overlap_seconds
from api.site.page import PageView
from api.site.page_route import PageRouter
from hookfast.plural import are, pluralize

routes = PageRouter(PORTAL)

SPANS: Final = {
    "3600": "the last hour",
    "86400": "the last 24 hours",
    "604800": "the last 7 days",
    "2592000": "the last 30 days",
}

routes.action(
    "/endpoints/{endpoint_id}/pause",
    pause_endpoint,
    "The endpoint is paused: messages wait until you resume it.",
)
routes.action(
    "/endpoints/{endpoint_id}/resume",
    resume_endpoint,
    "Messages are being sent again.",
)
routes.action(
    "/endpoints/{endpoint_id}/verify",
    verify_endpoint,
    "Your endpoint answered the challenge as it should.",
)


@routes.post("/endpoints/{endpoint_id}/enable")
async def enable(
    endpoint_id: EndpointPath, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Switch an endpoint on again."""
    await enable_endpoint(endpoint_id, view.context, audit, principal, EnableForm())
    return view.redirect_back("The endpoint is on again.")


@routes.get("/endpoints/{endpoint_id}/recover")
async def recover_page(view: PageView, _: Writer, endpoint: StoredEndpoint) -> Response:
    """Ask from which time span the failed messages are to be resent."""
    return view.confirm(
        "Resend failed messages?",
        about=endpoint_name(endpoint),
        text="Every message that failed in this time is sent once more, with the same id, so that "
        "your endpoint can recognise those it already has.",
        button="Resend",
        template="endpoint_recover.html",
        spans=SPANS.items(),
    )


@routes.post("/endpoints/{endpoint_id}/recover")
async def recover(
    endpoint_id: EndpointPath, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Resend the failed messages."""
    since = view.now - timedelta(seconds=int(view.form.chosen("span", SPANS, default="86400")))
    form = validated(RecoverForm, {"since": since.isoformat()})
    job = await recover_endpoint(endpoint_id, form, view.context, audit, principal)
    count = getattr(job, "total", 0)
    resent = f"{pluralize(count, 'message')} {are(count)} being resent."
    path = f"{PORTAL.home}/endpoints/{endpoint_id}"
    return view.redirect(path, resent if count else "No message failed.")


@routes.get("/endpoints/{endpoint_id}/rotate")
async def rotate_page(view: PageView, _: Writer, endpoint: StoredEndpoint) -> Response:
    """Ask how long the old secret is to sign as well."""
    return view.confirm(
        "Get a new secret?",
        about=endpoint_name(endpoint),
        text="Messages are signed with the new secret at once. While the old one is valid too, "
        "your endpoint can verify with either.",
        button="Get a new secret",
        template="endpoint_rotate.html",
        overlaps=OVERLAPS.items(),
    )


@routes.post("/endpoints/{endpoint_id}/rotate")
async def rotate(
    endpoint_id: EndpointPath, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Rotate the secret. Only this answer shows the new one."""
    form = RotationForm(overlap_seconds=overlap_seconds(view.form))
    rotated = await rotate_endpoint_secret(endpoint_id, view.context, audit, principal, form)
    return render_secret(view, rotated, secret=rotated.secret, rotated=True)


routes.confirmed_action(
    "/endpoints/{endpoint_id}/delete",
    delete_endpoint,
    "The endpoint is deleted.",
    of=StoredEndpoint,
    title="Delete this endpoint?",
    about=endpoint_name,
    text="Nothing is sent to it any more, and messages on their way to it fail. This cannot be "
    "undone.",
    button="Delete",
    leads_to=f"{PORTAL.home}/endpoints",
)
