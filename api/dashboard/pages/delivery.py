"""One delivery: its timeline, and the actions on it."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import Depends, Response

from api.access.authentication import Principal, Reader
from api.context.context import Context
from api.dashboard.pages import tenant_names
from api.dashboard.pages.curl import curl_script
from api.dashboard.pages.delivery_summary import summary_of
from api.dashboard.site import DASHBOARD
from api.forms.endpoint import EndpointView
from api.http.fields import DeliveryPath
from api.routes.deliveries import DeliveryDetail, get_delivery
from api.routes.endpoints import get_endpoint
from api.site import live
from api.site.delivery_actions import FOR_OPERATORS, add_actions, buttons
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from hookfast.errors import NotFound
from hookfast.storage.events import events

routes = PageRouter(DASHBOARD)

_EVERY_SECONDS = 1.5


@routes.get("/deliveries/{delivery_id}")
async def delivery_page(delivery_id: DeliveryPath, view: PageView, principal: Reader) -> Response:
    """Show the timeline of a delivery."""
    return view.render("delivery.html", **await _timeline(delivery_id, view, principal))


# an unknown delivery answers 404 here: later, the stream would only end
@routes.get("/live/deliveries/{delivery_id}", dependencies=[Depends(get_delivery)])
async def delivery_live(delivery_id: DeliveryPath, view: PageView, principal: Reader) -> Response:
    """Stream the timeline of a delivery."""
    read = partial(_timeline, delivery_id, view, principal)
    return live.stream(view, "delivery_timeline.html", read, every=_EVERY_SECONDS)


add_actions(routes, "/deliveries/{delivery_id}", FOR_OPERATORS, noun="delivery")


async def _timeline(delivery_id: str, view: View, principal: Principal) -> dict[str, Any]:
    """Return what the timeline shows: the delivery, its summary, its endpoint, and a script
    that sends it."""
    context = view.context
    delivery = await get_delivery(delivery_id, context, principal)
    endpoint = await _endpoint(delivery, context, principal)
    await tenant_names.load(view, delivery.tenant_id)
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
        "buttons": buttons(delivery, FOR_OPERATORS),
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
