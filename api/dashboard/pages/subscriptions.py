"""An endpoint's subscriptions, which its page adds, edits, switches on and off, and deletes."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Response

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.dashboard.pages.endpoint import render_endpoint
from api.dashboard.site.flash import Tone
from api.dashboard.site.form import changed_members, check_unchanged, seen_version, validated
from api.dashboard.site.page import InvalidField, PageView, View
from api.dashboard.site.page_route import PageRouter, error_sentence
from api.http.fields import EndpointPath, SubscriptionPath
from api.process.context import AppContext
from api.routes.endpoints import get_endpoint
from api.routes.subscriptions import (
    NewSubscription,
    SavedSubscription,
    SubscriptionView,
    change_subscription,
    create_subscription,
    delete_subscription,
    get_subscription,
)
from hookfast.errors import Conflict, HookfastError, InvalidInput, NotFound

routes = PageRouter()


async def _subscription_of_endpoint(
    endpoint_id: EndpointPath,
    subscription_id: SubscriptionPath,
    context: AppContext,
    principal: Reader,
) -> SubscriptionView:
    """Return the endpoint's subscription. Raises NotFound for another endpoint's: a session about
    one endpoint must not reach others through this path."""
    subscription = await get_subscription(subscription_id, context, principal)
    if subscription.endpoint_id != endpoint_id:
        raise NotFound("The endpoint has no such subscription.")
    return subscription


OwnSubscription = Annotated[SubscriptionView, Depends(_subscription_of_endpoint)]


@routes.post("/endpoints/{endpoint_id}/subscriptions")
async def subscribe(
    endpoint_id: EndpointPath, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Subscribe the endpoint to more events. Its receiver is asked about topics new to it."""
    await get_endpoint(endpoint_id, view.context, principal)
    typed = view.form.get("events", "")
    members = {
        "endpoint_id": endpoint_id,
        "events": _patterns(typed),
        "payload": view.form.get("payload", "full"),
    }
    try:
        form = validated(NewSubscription, members)
        created = await create_subscription(form, view.context, audit, principal)
    except InvalidInput as error:
        view.invalid["events"] = InvalidField(typed, error_sentence(error))
        return await render_endpoint(endpoint_id, view=view, principal=principal, status=422)
    notice, tone = _notice(f"Subscribed to {', '.join(created.events)}.", created)
    return view.redirect_back(notice, tone=tone)


@routes.post("/endpoints/{endpoint_id}/subscriptions/{subscription_id}/switch")
async def switch(
    subscription: OwnSubscription, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Switch a subscription on or off, as the form says."""
    active = view.form.text("active") is not None
    await change_subscription(subscription.id, {"active": active}, view.context, audit, principal)
    return view.redirect_back(
        "The subscription is on." if active else "The subscription is off: no new events go out."
    )


@routes.get("/endpoints/{endpoint_id}/subscriptions/{subscription_id}/edit")
async def edit_page(view: PageView, _: Writer, subscription: OwnSubscription) -> Response:
    """Show the form that changes a subscription."""
    return _form(view, subscription, ", ".join(subscription.events), subscription.payload)


@routes.post("/endpoints/{endpoint_id}/subscriptions/{subscription_id}/edit")
async def edit(
    subscription: OwnSubscription, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Save a subscription's events and payload. Its receiver is asked about topics new to it."""
    typed = view.form.get("events", "")
    payload = view.form.get("payload", "full")
    patch = changed_members({"events": _patterns(typed), "payload": payload}, subscription)
    try:
        check_unchanged(view.form, subscription.updated_at)
        path = f"/dashboard/endpoints/{subscription.endpoint_id}#subscriptions-heading"
        if not patch:
            return view.redirect(path, "Nothing changed.")
        saved = await change_subscription(subscription.id, patch, view.context, audit, principal)
    except (InvalidInput, Conflict) as error:
        return _form(view, subscription, typed, payload, error)
    notice, tone = _notice("The subscription is saved.", saved)
    return view.redirect(path, notice, tone=tone)


def _notice(done: str, saved: SavedSubscription) -> tuple[str, Tone]:
    """Return the notice with the first warning; the page has all of them beside the patterns."""
    if not saved.warnings:
        return done, "good"
    return f"{done} {saved.warnings[0].detail}", "warn"


def _patterns(typed: str) -> list[str]:
    return typed.replace(",", " ").split()


def _form(
    view: View,
    subscription: SubscriptionView,
    events: str,
    payload: str,
    error: HookfastError | None = None,
) -> Response:
    return view.render_form(
        "subscription.html",
        error=error,
        subscription=subscription,
        seen=seen_version(subscription.updated_at),
        events=events,
        payload=payload,
    )


@routes.get("/endpoints/{endpoint_id}/subscriptions/{subscription_id}/delete")
async def delete_page(view: PageView, _: Writer, subscription: OwnSubscription) -> Response:
    """Ask before a subscription is deleted."""
    return view.confirm(
        "Delete this subscription?",
        about=", ".join(subscription.events),
        text="The endpoint gets no more of these events. Existing deliveries continue.",
        button="Delete",
        back=f"/dashboard/endpoints/{subscription.endpoint_id}",
    )


async def _delete(
    subscription: OwnSubscription, context: AppContext, audit: Audit, principal: Writer
) -> None:
    await delete_subscription(subscription.id, context, audit, principal)


routes.action(
    "/endpoints/{endpoint_id}/subscriptions/{subscription_id}/delete",
    _delete,
    "The subscription is deleted.",
)
