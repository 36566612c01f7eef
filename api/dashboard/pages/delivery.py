"""One delivery: its timeline, and the actions on it."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Response

from api.access.authentication import Principal, Reader
from api.context.context import Context
from api.dashboard.pages.curl import curl_script
from api.dashboard.pages.delivery_summary import summary_of
from api.dashboard.site import DASHBOARD
from api.forms.endpoint import EndpointView
from api.http.fields import DeliveryPath
from api.routes.deliveries import (
    DeliveryDetail,
    cancel_delivery,
    get_delivery,
    pause_delivery,
    resend_delivery,
    resume_delivery,
)
from api.routes.endpoints import get_endpoint
from api.site import live
from api.site.page import PageView
from api.site.page_route import PageRouter
from hookfast.errors import NotFound
from hookfast.storage.events import events

routes = PageRouter(DASHBOARD)

_EVERY_SECONDS = 1.5


@routes.get("/deliveries/{delivery_id}")
async def delivery_page(delivery_id: DeliveryPath, view: PageView, principal: Reader) -> Response:
    """Show the timeline of a delivery."""
    return view.render("delivery.html", **await _timeline(delivery_id, view.context, principal))


# an unknown delivery answers 404 here: later, the stream would only end
@routes.get("/live/deliveries/{delivery_id}", dependencies=[Depends(get_delivery)])
async def delivery_live(delivery_id: DeliveryPath, view: PageView, principal: Reader) -> Response:
    """Stream the timeline of a delivery."""
    read = partial(_timeline, delivery_id, view.context, principal)
    return live.stream(view, "delivery_timeline.html", read, every=_EVERY_SECONDS)


routes.action("/deliveries/{delivery_id}/pause", pause_delivery, "The delivery is paused.")
routes.action("/deliveries/{delivery_id}/resume", resume_delivery, "The delivery is resumed.")
routes.action("/deliveries/{delivery_id}/resend", resend_delivery, "The delivery is being resent.")


routes.confirmed_action(
    "/deliveries/{delivery_id}/cancel",
    cancel_delivery,
    "The delivery is being cancelled.",
    of=Annotated[DeliveryDetail, Depends(get_delivery)],
    title="Cancel this delivery?",
    about=lambda delivery: f"{delivery.event_type}, {delivery.id}",
    text="It ends without another attempt. You can resend it later.",
    button="Cancel delivery",
)


async def _timeline(delivery_id: str, context: Context, principal: Principal) -> dict[str, Any]:
    """Return what the timeline shows: the delivery, its summary, its endpoint, and a script
    that sends it."""
    delivery = await get_delivery(delivery_id, context, principal)
    endpoint = await _endpoint(delivery, context, principal)
    curl = None
    if delivery.payload == "full" and endpoint is not None and endpoint.encryption is None:
        async with context.database.read() as connection:
            event = await events.get(connection, delivery.event_id)
        if event is not None:
            attempt = max(1, delivery.attempt_count)
            curl = curl_script(delivery, endpoint, body=event.body, attempt=attempt)
    return {
        "delivery": delivery,
        "summary": summary_of(delivery),
        "endpoint": endpoint,
        "curl": curl,
    }


async def _endpoint(
    delivery: DeliveryDetail, context: Context, principal: Principal
) -> EndpointView | None:
    """Return the delivery's endpoint; None if it was deleted."""
    try:
        return await get_endpoint(delivery.endpoint_id, context, principal)
    except NotFound:
        return None
