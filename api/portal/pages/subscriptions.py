"""The events of an endpoint, which customers tick in the tree. Each selection is a subscription;
most endpoints have one."""

from __future__ import annotations

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Principal, Writer
from api.forms.endpoint import EndpointView
from api.portal.errors import render_form
from api.portal.pages.event_tree import ticked, tree_values
from api.portal.site import PORTAL
from api.routes.subscriptions import (
    NewSubscription,
    SubscriptionView,
    change_subscription,
    create_subscription,
)
from api.site.form import changed_members, check_unchanged, seen_version, validated
from api.site.from_path import OwnSubscription, StoredEndpoint, delete_own_subscription
from api.site.json_view import pretty
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from hookfast.errors import Conflict, HookfastError, InvalidInput, TooManyRequests
from hookfast.events.filter import filter_text

routes = PageRouter(PORTAL)

_NOTHING_TICKED = "tick at least one event, or all of them"


@routes.get("/endpoints/{endpoint_id}/events/new")
async def add_page(view: PageView, principal: Writer, endpoint: StoredEndpoint) -> Response:
    """Show the tree for more events."""
    return await _form(view, principal, endpoint, None, patterns=[], filter_="")


@routes.post("/endpoints/{endpoint_id}/events/new")
async def add(
    endpoint: StoredEndpoint, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Subscribe the endpoint to the ticked events."""
    patterns, typed = ticked(view.form), view.form.get("filter", "")
    try:
        if not view.form.text("count"):
            if not patterns:
                raise InvalidInput.at("/events", _NOTHING_TICKED)
            members = {
                "endpoint_id": endpoint.id,
                "events": patterns,
                "filter": view.form.json("filter", pointer="/filter"),
            }
            form = validated(NewSubscription, members)
            await create_subscription(form, view.context, audit, principal)
            return view.redirect(f"{PORTAL.home}/endpoints/{endpoint.id}", "The events are saved.")
        error: HookfastError | None = None
    except (InvalidInput, Conflict, TooManyRequests) as raised:
        error = raised
    return await _form(
        view, principal, endpoint, None, patterns=patterns, filter_=typed, error=error
    )


@routes.get("/endpoints/{endpoint_id}/events/{subscription_id}/edit")
async def edit_page(
    view: PageView, principal: Writer, endpoint: StoredEndpoint, subscription: OwnSubscription
) -> Response:
    """Show the tree with the events of a subscription."""
    return await _form(
        view,
        principal,
        endpoint,
        subscription,
        patterns=subscription.events,
        filter_=_filter_text(subscription),
    )


@routes.post("/endpoints/{endpoint_id}/events/{subscription_id}/edit")
async def edit(
    endpoint: StoredEndpoint,
    subscription: OwnSubscription,
    view: PageView,
    audit: Audit,
    principal: Writer,
) -> Response:
    """Save the ticked events. The endpoint is asked about those that are new to it."""
    patterns, typed = ticked(view.form), view.form.get("filter", "")
    try:
        if not view.form.text("count"):
            check_unchanged(view.form, subscription.updated_at)
            if not patterns:
                raise InvalidInput.at("/events", _NOTHING_TICKED)
            patch = changed_members({"events": patterns}, subscription)
            filter_ = view.form.json("filter", pointer="/filter")
            if typed != _filter_text(subscription):
                patch["filter"] = filter_ or None
            if patch:
                await change_subscription(subscription.id, patch, view.context, audit, principal)
            notice = "The events are saved." if patch else "Nothing changed."
            return view.redirect(f"{PORTAL.home}/endpoints/{endpoint.id}", notice)
        error: HookfastError | None = None
    except (InvalidInput, Conflict, TooManyRequests) as raised:
        error = raised
    return await _form(
        view, principal, endpoint, subscription, patterns=patterns, filter_=typed, error=error
    )


routes.confirmed_action(
    "/endpoints/{endpoint_id}/events/{subscription_id}/delete",
    delete_own_subscription,
    "The events are not sent any more.",
    of=OwnSubscription,
    title="Stop sending these events?",
    about=lambda subscription: ", ".join(subscription.events),
    text="The endpoint gets no more of them. Messages on their way are still sent.",
    button="Stop sending",
    back=lambda subscription: f"{PORTAL.home}/endpoints/{subscription.endpoint_id}",
)


def _filter_text(subscription: SubscriptionView) -> str:
    if subscription.filter is None:
        return ""
    return pretty(filter_text(subscription.filter))[0]


async def _form(
    view: View,
    principal: Principal,
    endpoint: EndpointView,
    subscription: SubscriptionView | None,
    *,
    patterns: list[str],
    filter_: str,
    error: HookfastError | None = None,
) -> Response:
    return render_form(
        view,
        "endpoint_events.html",
        error,
        endpoint=endpoint,
        subscription=subscription,
        seen=None
        if subscription is None
        else view.form.text("seen") or seen_version(subscription.updated_at),
        filter=filter_,
        tree=await tree_values(view, principal, patterns),
    )
