"""One delivery: its life so far, and what can be done with it."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Principal, Reader, Writer
from api.dashboard.pages.request_preview import as_curl, headers_of
from api.dashboard.site import live
from api.dashboard.site.page import PageView
from api.dashboard.site.page_route import page_router
from api.forms.endpoint import EndpointView
from api.http.fields import DeliveryPath
from api.process.context import AppContext, Context
from api.routes.deliveries import (
    DeliveryDetail,
    cancel_delivery,
    get_delivery,
    pause_delivery,
    resend_delivery,
    resume_delivery,
)
from api.routes.endpoints import get_endpoint
from hookfast.errors import NotFound
from hookfast.storage.events import events

routes = page_router()

_EVERY_SECONDS = 1.5


@routes.get("/deliveries/{delivery_id}")
async def delivery_page(
    delivery_id: DeliveryPath, view: PageView, context: AppContext, principal: Reader
) -> Response:
    """Its life so far."""
    return view.render("delivery.html", **await _figures(delivery_id, context, principal))


@routes.get("/live/deliveries/{delivery_id}")
async def delivery_live(
    delivery_id: DeliveryPath, view: PageView, context: AppContext, principal: Reader
) -> Response:
    """Its life as it goes on."""
    await get_delivery(delivery_id, context, principal)

    async def render() -> str:
        view.now = context.clock()
        figures = await _figures(delivery_id, context, principal)
        return view.text("delivery_timeline.html", **figures)

    return live.stream(view, render, every=_EVERY_SECONDS)


@routes.post("/deliveries/{delivery_id}/pause")
async def pause(
    delivery_id: DeliveryPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """No attempts until it is resumed."""
    await pause_delivery(delivery_id, context, audit, principal)
    return view.go_back("The delivery is paused.")


@routes.post("/deliveries/{delivery_id}/resume")
async def resume(
    delivery_id: DeliveryPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """It goes on."""
    await resume_delivery(delivery_id, context, audit, principal)
    return view.go_back("The delivery is resumed.")


@routes.post("/deliveries/{delivery_id}/resend")
async def resend(
    delivery_id: DeliveryPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """One attempt now."""
    await resend_delivery(delivery_id, context, audit, principal)
    return view.go_back("The delivery is being resent.")


@routes.get("/deliveries/{delivery_id}/cancel")
async def cancel_page(
    delivery_id: DeliveryPath, view: PageView, context: AppContext, principal: Writer
) -> Response:
    """Ask first."""
    shown = await get_delivery(delivery_id, context, principal)
    return view.render(
        "confirm.html",
        section="deliveries",
        title="Cancel this delivery?",
        about=f"{shown.event_type}, {shown.id}",
        text="It ends without another attempt. You can resend it later.",
        action=f"/dashboard/deliveries/{delivery_id}/cancel",
        button="Cancel delivery",
        back=f"/dashboard/deliveries/{delivery_id}",
    )


@routes.post("/deliveries/{delivery_id}/cancel")
async def cancel(
    delivery_id: DeliveryPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """It ends without another attempt."""
    await cancel_delivery(delivery_id, context, audit, principal)
    return view.go(f"/dashboard/deliveries/{delivery_id}", "The delivery is being cancelled.")


async def _figures(delivery_id: str, context: Context, principal: Principal) -> dict[str, Any]:
    shown = await get_delivery(delivery_id, context, principal)
    async with context.database.read() as connection:
        event = await events.get(connection, shown.event_id)
    endpoint = await _endpoint(shown, context, principal)
    sent: dict[str, list[tuple[str, str]]] = {}
    curl = None
    if endpoint is not None and event is not None:
        sent = {
            attempt.id: headers_of(shown, attempt, endpoint, traceparent=event.traceparent)
            for attempt in shown.attempts
        }
        if shown.payload == "full" and endpoint.encryption is None:
            curl = as_curl(shown, endpoint, body=event.body, attempt=max(1, shown.attempt_count))
    return {"delivery": shown, "endpoint": endpoint, "headers": sent, "curl": curl}


async def _endpoint(
    delivery: DeliveryDetail, context: Context, principal: Principal
) -> EndpointView | None:
    """Its endpoint; None when that was deleted."""
    try:
        return await get_endpoint(delivery.endpoint_id, context, principal)
    except NotFound:
        return None
