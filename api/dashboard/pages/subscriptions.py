"""An endpoint's subscriptions: added, switched off and on, and removed from its page."""

from __future__ import annotations

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Principal, Writer
from api.dashboard.pages import endpoint
from api.dashboard.site.form import filled
from api.dashboard.site.page import PageView, WrongField
from api.dashboard.site.page_route import page_router, sentence
from api.http.fields import EndpointPath, SubscriptionPath
from api.process.context import AppContext, Context
from api.routes.endpoints import get_endpoint
from api.routes.subscriptions import (
    NewSubscription,
    SubscriptionView,
    change_subscription,
    create_subscription,
    delete_subscription,
    get_subscription,
)
from hookfast.errors import InvalidInput, NotFound

routes = page_router()


@routes.post("/endpoints/{endpoint_id}/subscriptions")
async def subscribe(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """To more events. Its receiver is asked about those that are new to it."""
    await get_endpoint(endpoint_id, context, principal)
    typed = view.form.get("events", "")
    members = {
        "endpoint_id": endpoint_id,
        "events": typed.replace(",", " ").split(),
        "payload": view.form.get("payload", "full"),
    }
    try:
        form = filled(NewSubscription, members)
        made = await create_subscription(form, context, audit, principal)
    except InvalidInput as error:
        view.wrong["events"] = WrongField(typed, sentence(error))
        return await endpoint.show(
            endpoint_id, view=view, context=context, principal=principal, status=422
        )
    return view.go_back(f"Subscribed to {', '.join(made.events)}.")


@routes.post("/endpoints/{endpoint_id}/subscriptions/{subscription_id}/switch")
async def switch(
    endpoint_id: EndpointPath,
    subscription_id: SubscriptionPath,
    view: PageView,
    context: AppContext,
    audit: Audit,
    principal: Writer,
) -> Response:
    """Off, or on again, as the form says."""
    await _of(endpoint_id, subscription_id, context, principal)
    active = view.form.text("active") is not None
    patch = {"active": active}
    await change_subscription(subscription_id, patch, context, audit, principal)
    return view.go_back(
        "The subscription is on." if active else "The subscription is off: no new events go out."
    )


@routes.get("/endpoints/{endpoint_id}/subscriptions/{subscription_id}/delete")
async def delete_page(
    endpoint_id: EndpointPath,
    subscription_id: SubscriptionPath,
    view: PageView,
    context: AppContext,
    principal: Writer,
) -> Response:
    """Ask first."""
    shown = await _of(endpoint_id, subscription_id, context, principal)
    return view.render(
        "confirm.html",
        section="endpoints",
        title="Delete this subscription?",
        about=", ".join(shown.events),
        text="The endpoint gets no more of these events. Existing deliveries continue.",
        action=f"/dashboard/endpoints/{endpoint_id}/subscriptions/{subscription_id}/delete",
        button="Delete",
        back=f"/dashboard/endpoints/{endpoint_id}",
    )


@routes.post("/endpoints/{endpoint_id}/subscriptions/{subscription_id}/delete")
async def delete(
    endpoint_id: EndpointPath,
    subscription_id: SubscriptionPath,
    view: PageView,
    context: AppContext,
    audit: Audit,
    principal: Writer,
) -> Response:
    """It is gone."""
    await _of(endpoint_id, subscription_id, context, principal)
    await delete_subscription(subscription_id, context, audit, principal)
    return view.go(f"/dashboard/endpoints/{endpoint_id}", "The subscription is deleted.")


async def _of(
    endpoint_id: str, subscription_id: str, context: Context, principal: Principal
) -> SubscriptionView:
    """The endpoint's subscription. Raises NotFound for another's: who may see one endpoint only
    must not reach others through it."""
    shown = await get_subscription(subscription_id, context, principal)
    if shown.endpoint_id != endpoint_id:
        raise NotFound("The endpoint has no such subscription.")
    return shown
