"""The actions on an endpoint. Those that cannot be undone are confirmed on a page of their own."""

from __future__ import annotations

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Writer
from api.dashboard.site import DASHBOARD
from api.http.fields import EndpointPath
from api.routes.endpoint_checks import VerifiedView, verify_endpoint
from api.routes.endpoint_control import (
    EnableForm,
    disable_endpoint,
    enable_endpoint,
    pause_endpoint,
    resume_endpoint,
)
from api.routes.endpoint_secrets import RotationForm, rotate_endpoint_secret
from api.routes.endpoints import delete_endpoint
from api.site.formatting import endpoint_name
from api.site.from_path import StoredEndpoint
from api.site.overlap import OVERLAPS, overlap_seconds
from api.site.page import PageView
from api.site.page_route import PageRouter
from hookfast.endpoints.circuit import EndpointState

routes = PageRouter(DASHBOARD)


def _verified(result: VerifiedView) -> str:
    if result.verification == "none":
        return "The URL is allowed. Verification is off, so the receiver was not asked."
    return f"The receiver agrees to {', '.join(result.topics)}."


routes.action(
    "/endpoints/{endpoint_id}/pause",
    pause_endpoint,
    "The endpoint is paused: deliveries are held until you resume it.",
)
routes.action("/endpoints/{endpoint_id}/verify", verify_endpoint, _verified)


@routes.post("/endpoints/{endpoint_id}/resume")
async def resume(
    before: StoredEndpoint, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Resume a paused endpoint; probe one whose circuit is open."""
    await resume_endpoint(before.id, view.context, audit, principal)
    if before.state == EndpointState.PAUSED:
        return view.redirect_back(
            "The endpoint is resumed: held deliveries go out, slowly at first."
        )
    return view.redirect_back("The endpoint is being probed.")


@routes.post("/endpoints/{endpoint_id}/enable")
async def enable(
    endpoint_id: EndpointPath, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Enable an endpoint and, if the box is ticked, redrive its dead letters."""
    form = EnableForm(redrive=view.form.text("redrive") is not None)
    enabled = await enable_endpoint(endpoint_id, view.context, audit, principal, form)
    if enabled.job is None:
        return view.redirect_back("The endpoint is enabled.")
    return view.redirect(
        f"/dashboard/jobs/{enabled.job.id}",
        "The endpoint is enabled; this job sends its dead letters again.",
    )


@routes.get("/endpoints/{endpoint_id}/rotate-secret")
async def rotate_page(view: PageView, _: Writer, endpoint: StoredEndpoint) -> Response:
    """Ask how long the old secret stays valid."""
    return view.confirm(
        "Rotate the secret",
        template="endpoint_rotate.html",
        about=endpoint_name(endpoint),
        text="Deliveries are signed with the new secret at once, and also with the old one for the "
        "overlap. A receiver that knows either can verify them.",
        button="Rotate secret",
        overlaps=OVERLAPS,
    )


@routes.post("/endpoints/{endpoint_id}/rotate-secret")
async def rotate(
    endpoint_id: EndpointPath, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Rotate the secret. Only this answer shows the new one."""
    form = RotationForm(overlap_seconds=overlap_seconds(view.form))
    rotated = await rotate_endpoint_secret(endpoint_id, view.context, audit, principal, form)
    view.result_path = f"/dashboard/endpoints/{endpoint_id}"
    return view.render(
        "endpoint_secret.html", endpoint=rotated, secret=rotated.secret, rotated=True
    )


routes.confirmed_action(
    "/endpoints/{endpoint_id}/disable",
    disable_endpoint,
    "The endpoint is disabled.",
    of=StoredEndpoint,
    title="Disable this endpoint?",
    about=endpoint_name,
    text="Held deliveries become dead letters, and so do new ones while it is disabled. Enabling "
    "it can send them again. To make it wait instead, pause it.",
    button="Disable",
)
routes.confirmed_action(
    "/endpoints/{endpoint_id}/delete",
    delete_endpoint,
    "The endpoint is deleted.",
    of=StoredEndpoint,
    title="Delete this endpoint?",
    about=endpoint_name,
    text="Its subscriptions and secrets are deleted too, and open deliveries end undelivered. This "
    "cannot be undone. Past deliveries stay on record.",
    button="Delete",
    leads_to="/dashboard/endpoints",
)
