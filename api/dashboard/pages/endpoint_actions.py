"""What can be done with an endpoint. Whatever cannot be undone asks first, on a page of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final, Literal

from fastapi import Query, Response

from api.access.audit import Audit
from api.access.authentication import Writer
from api.access.ownership import owned
from api.dashboard.pages import endpoint
from api.dashboard.site.form import filled
from api.dashboard.site.formatting import number
from api.dashboard.site.page import PageView
from api.dashboard.site.page_route import page_router
from api.forms.jobs import JobView, count
from api.http.fields import EndpointPath
from api.process.context import AppContext
from api.routes.endpoint_checks import TestForm, check_endpoint, verify_endpoint
from api.routes.endpoint_control import (
    EnableForm,
    disable_endpoint,
    enable_endpoint,
    pause_endpoint,
    resume_endpoint,
)
from api.routes.endpoint_secrets import RotationForm, rotate_endpoint_secret
from api.routes.endpoints import delete_endpoint, get_endpoint
from api.routes.recovery import RecoverForm, recover_endpoint
from hookfast.clock import rfc3339
from hookfast.endpoints.circuit import EndpointState
from hookfast.errors import InvalidInput
from hookfast.storage.deliveries.dead_letters import DEAD
from hookfast.storage.deliveries.selection import DeliverySelection
from hookfast.storage.endpoints import endpoints

routes = page_router()

Since = Literal["1h", "6h", "24h", "72h", "7d"]
SPANS: Final[dict[Since, tuple[timedelta, str]]] = {
    "1h": (timedelta(hours=1), "the last hour"),
    "6h": (timedelta(hours=6), "the last 6 hours"),
    "24h": (timedelta(hours=24), "the last 24 hours"),
    "72h": (timedelta(hours=72), "the last 72 hours"),
    "7d": (timedelta(days=7), "the last 7 days"),
}
OVERLAPS: Final = {
    "86400": "24 hours: time to change over",
    "3600": "1 hour",
    "604800": "7 days",
    "0": "none: it has leaked, and must not be believed any more",
}


@routes.post("/endpoints/{endpoint_id}/pause")
async def pause(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """Hold everything."""
    await pause_endpoint(endpoint_id, context, audit, principal)
    return view.go_back("The endpoint is paused: deliveries are held until you resume it.")


@routes.post("/endpoints/{endpoint_id}/resume")
async def resume(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """Go on; or, while its circuit is open, probe now."""
    before = await get_endpoint(endpoint_id, context, principal)
    await resume_endpoint(endpoint_id, context, audit, principal)
    if before.state == EndpointState.PAUSED:
        return view.go_back("The endpoint is resumed: held deliveries go out, slowly at first.")
    return view.go_back("The endpoint is being probed.")


@routes.post("/endpoints/{endpoint_id}/enable")
async def enable(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """Send to it again, and what became of dead letters if that is wanted."""
    form = EnableForm(redrive=view.form.text("redrive") is not None)
    enabled = await enable_endpoint(endpoint_id, context, audit, principal, form)
    if enabled.job is None:
        return view.go_back("The endpoint is enabled.")
    return view.go(
        f"/dashboard/jobs/{enabled.job.id}",
        "The endpoint is enabled; this job sends its dead letters again.",
    )


@routes.post("/endpoints/{endpoint_id}/verify")
async def verify(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, principal: Writer
) -> Response:
    """Ask its receiver once more."""
    agreed = await verify_endpoint(endpoint_id, context, principal)
    if agreed.verification == "none":
        return view.go_back("The URL may be sent to; verification is none, so nobody was asked.")
    return view.go_back(f"The receiver agrees to {', '.join(agreed.topics)}.")


@routes.post("/endpoints/{endpoint_id}/test")
async def test(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, principal: Writer
) -> Response:
    """Send it a sample. What the receiver answers is shown once and kept nowhere."""
    name = view.form.text("type")
    if name is None:
        raise InvalidInput.at("/type", "name an event type")
    view.result_at = f"/dashboard/endpoints/{endpoint_id}"
    form = filled(TestForm, {"type": name})
    came_back = await check_endpoint(endpoint_id, form, context, principal)
    return await endpoint.show(
        endpoint_id,
        view=view,
        context=context,
        principal=principal,
        test=came_back,
        tested_type=name,
    )


@routes.get("/endpoints/{endpoint_id}/rotate-secret")
async def rotate_page(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, principal: Writer
) -> Response:
    """Ask for how long the old secret signs too."""
    shown = await get_endpoint(endpoint_id, context, principal)
    return view.render("endpoint_rotate.html", endpoint=shown, overlaps=OVERLAPS)


@routes.post("/endpoints/{endpoint_id}/rotate-secret")
async def rotate(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """A new secret, which is in the answer and nowhere else."""
    overlap = view.form.get("overlap", "")
    if overlap not in OVERLAPS:
        raise InvalidInput.at("/overlap", "choose one of those in the list")
    form = RotationForm(overlap_seconds=int(overlap))
    made = await rotate_endpoint_secret(endpoint_id, context, audit, principal, form)
    view.result_at = f"/dashboard/endpoints/{endpoint_id}"
    return view.render("endpoint_secret.html", endpoint=made, secret=made.secret, rotated=True)


@routes.get("/endpoints/{endpoint_id}/recover")
async def recover_page(
    endpoint_id: EndpointPath,
    view: PageView,
    context: AppContext,
    principal: Writer,
    since: Annotated[Since, Query()] = "24h",
) -> Response:
    """How much failed in a window, before it is sent again."""
    async with context.database.read() as connection:
        row = owned(await endpoints.get(connection, endpoint_id), principal)
    chosen = DeliverySelection(
        endpoint_id=endpoint_id, statuses=DEAD, finished_since=view.now - SPANS[since][0]
    )
    counted = await count(context, principal, chosen, resend=True)
    return view.render(
        "endpoint_recover.html",
        endpoint=row,
        counted=counted,
        matching=sum(counted.values()),
        since=since,
        at=rfc3339(view.now - SPANS[since][0]),
        spans=SPANS,
    )


@routes.post("/endpoints/{endpoint_id}/recover")
async def recover(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """Send it again, with a job."""
    form = filled(RecoverForm, {"since": view.form.get("since", "")})
    job = await recover_endpoint(endpoint_id, form, context, audit, principal)
    if not isinstance(job, JobView):
        raise InvalidInput("This was a count, not a job.")
    return view.go(f"/dashboard/jobs/{job.id}", f"{number(job.total)} deliveries are being resent.")


@routes.get("/endpoints/{endpoint_id}/disable")
async def disable_page(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, principal: Writer
) -> Response:
    """Ask first."""
    shown = await get_endpoint(endpoint_id, context, principal)
    return view.render(
        "confirm.html",
        section="endpoints",
        title="Disable this endpoint?",
        about=shown.description or shown.url or shown.id,
        text="Held deliveries become dead letters, and so do new ones while it is "
        "disabled. Enabling it can send them again. To make it wait instead, pause it.",
        action=f"/dashboard/endpoints/{endpoint_id}/disable",
        button="Disable",
        back=f"/dashboard/endpoints/{endpoint_id}",
    )


@routes.post("/endpoints/{endpoint_id}/disable")
async def disable(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """Send nothing to it any more."""
    await disable_endpoint(endpoint_id, context, audit, principal)
    return view.go(f"/dashboard/endpoints/{endpoint_id}", "The endpoint is disabled.")


@routes.get("/endpoints/{endpoint_id}/delete")
async def delete_page(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, principal: Writer
) -> Response:
    """Ask first."""
    shown = await get_endpoint(endpoint_id, context, principal)
    return view.render(
        "confirm.html",
        section="endpoints",
        title="Delete this endpoint?",
        about=shown.description or shown.url or shown.id,
        text="Its subscriptions and secrets are deleted too, and open deliveries end undelivered. "
        "This cannot be undone. Past deliveries stay on record.",
        action=f"/dashboard/endpoints/{endpoint_id}/delete",
        button="Delete",
        back=f"/dashboard/endpoints/{endpoint_id}",
    )


@routes.post("/endpoints/{endpoint_id}/delete")
async def delete(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """It is gone."""
    await delete_endpoint(endpoint_id, context, audit, principal)
    return view.go("/dashboard/endpoints", "The endpoint is deleted.")
